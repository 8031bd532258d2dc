#include "host/runtime/waits.h"

#include <gshmem/constants.h>

#include "host/base/log.h"
#include "host/base/reminder.h"

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <optional>
#include <span>
#include <utility>

namespace gshmem {
namespace {

using Clock = std::chrono::steady_clock;
using control::PeerEvent;

/// Seconds until a wait asks the awaited PE for the first time; each next time comes after twice
/// the time.
constexpr double kFirstQuestion = 0.5;
constexpr std::chrono::seconds kAnswerTime{2};
/// If a record was not updated for this long, its wait is over.
constexpr std::chrono::seconds kStale{3};
/// When all other PEs have left, threads of this PE may still store a word. They get this time.
constexpr std::chrono::seconds kAloneTime{5};
/// Kernels of a PE may still run while its host thread finalizes.
constexpr double kKernelTime = 30;

double seconds_of(std::uint64_t ns) { return static_cast<double>(ns) * 1e-9; }

/// Returns a consistent copy; nothing if no wait is noted.
std::optional<abi::WaitRecord> read(const abi::WaitRecord& record) {
  if (__atomic_load_n(&record.published, __ATOMIC_ACQUIRE) == 0) return std::nullopt;
  abi::WaitRecord copy{};
  copy.pe = record.pe;
  copy.by_host = record.by_host;
  copy.started = record.started;
  copy.address = record.address;
  copy.wanted = record.wanted;
  copy.cmp = record.cmp;
  copy.is_signed = record.is_signed;
  std::memcpy(copy.call, record.call, sizeof(copy.call));
  copy.waited = __atomic_load_n(&record.waited, __ATOMIC_ACQUIRE);
  copy.seen = __atomic_load_n(&record.seen, __ATOMIC_RELAXED);
  return copy;
}

/// Frees the record for the next wait.
void release(abi::WaitRecord& record) {
  __atomic_store_n(&record.published, 0u, __ATOMIC_RELEASE);
  __atomic_store_n(&record.claimed, 0u, __ATOMIC_RELEASE);
}

const char* sign_of(int cmp) {
  switch (cmp) {
    case GSHMEM_CMP_EQ:
      return "=";
    case GSHMEM_CMP_NE:
      return "!=";
    case GSHMEM_CMP_GT:
      return ">";
    case GSHMEM_CMP_GE:
      return ">=";
    case GSHMEM_CMP_LT:
      return "<";
    default:
      return "<=";
  }
}

}  // namespace

void Waits::ask(int pe) {
  const Message question{.kind = Kind::kAsks};
  outside_.send(pe, std::as_bytes(std::span(&question, 1)));
}

/// Answers which call this PE is in. A PE may be in no call of a host thread, and yet have a wait
/// of device code.
void Waits::answer(int pe) {
  Message mine{.kind = Kind::kAnswers,
               .n_threads = n_threads_.load(std::memory_order_relaxed),
               .collective = outside_.collective().waits_in};
  const char* const call = call_.load();
  if (call) std::snprintf(mine.call, sizeof(mine.call), "%s", call);
  for (int i = 0; !call && state_.control && i < abi::kWaits; ++i) {
    const auto wait = read(state_.control->waits[i]);
    if (wait) std::snprintf(mine.call, sizeof(mine.call), "%s", wait->call);
  }
  outside_.send(pe, std::as_bytes(std::span(&mine, 1)));
}

void Waits::take(int from, net::ByteView message) {
  Message theirs;
  if (message.size() != sizeof(theirs)) return;
  std::memcpy(&theirs, message.data(), sizeof(theirs));
  theirs.call[sizeof(theirs.call) - 1] = '\0';
  if (theirs.kind == Kind::kAsks) return answer(from);
  const std::lock_guard lock(mutex_);
  Place& place = places_[from];
  const bool same = place.message.collective == theirs.collective && place.since != Time{};
  place = {same ? place.since : Clock::now(), theirs};
  answered_.notify_all();
}

void Waits::on_peer_news(const control::PeerNews& news) {
  const std::lock_guard lock(mutex_);
  ends_.insert_or_assign(news.pe, End{news.event, Clock::now()});
}

bool Waits::look() {
  if (!state_.control) return false;
  log_set_pe(state_.my_pe);
  bool any = false;
  for (std::size_t i = 0; i < seen_.size(); ++i) {
    abi::WaitRecord& record = state_.control->waits[i];
    Seen& seen = seen_[i];
    const auto wait = read(record);
    if (!wait) continue;
    any = true;
    const Time now = Clock::now();
    if (wait->started != seen.started) {
      seen = {wait->started, wait->waited, now, Time::min(), kFirstQuestion, Reminder::kSeconds};
    } else if (wait->waited != seen.waited) {
      judge(*wait, seen);
      seen.moved_before = std::exchange(seen.moved, now);
      seen.waited = wait->waited;
    } else if (now - seen.moved > kStale) {
      release(record);
      seen = {};
    }
  }
  const std::lock_guard lock(mutex_);
  return any || std::ranges::any_of(
                    ends_, [](const auto& end) { return Clock::now() - end.second.at < kStale; });
}

/// Decides whether to end a wait that is still pending. Its condition was not met between the last
/// two times at which its record changed.
void Waits::judge(const abi::WaitRecord& wait, Seen& seen) {
  const double seconds = seconds_of(wait.waited);
  const std::string call(wait.call, strnlen(wait.call, sizeof(wait.call)));
  std::unique_lock lock(mutex_);
  const auto is_old = [&](Time known) { return known <= seen.moved_before; };
  if (const auto gone = ends_.find(wait.pe); gone != ends_.end() && is_old(gone->second.at)) {
    const bool left = gone->second.event == PeerEvent::kLeft;
    if (left || wait.by_host != 0 || seconds > kKernelTime) {
      lock.unlock();
      return outside_.raise(Error(GSHMEMX_ERROR_PEER_FAILED,
                                  strprintf("%s waits for PE %d, which %s", call.c_str(), wait.pe,
                                            left ? "left the job" : "is in gshmem_finalize")),
                            wait.pe);
    }
  }
  const bool alone = state_.n_pes > 1 && ends_.size() + 1 == static_cast<std::size_t>(state_.n_pes);
  if (wait.pe == abi::kAnyPe && alone && std::ranges::all_of(ends_, [&](const auto& end) {
        return is_old(end.second.at + kAloneTime);
      })) {
    lock.unlock();
    return outside_.raise(
        Error(GSHMEMX_ERROR_PEER_FAILED,
              strprintf("%s waits for %s, and all other PEs left the job or are in gshmem_finalize",
                        call.c_str(), word_of(wait).c_str())),
        -1);
  }
  const auto place = places_.find(wait.pe);
  if (place != places_.end() && wait.by_host != 0) {
    const Message& theirs = place->second.message;
    const std::chrono::duration<double> lag(outside_.lag(wait.pe));
    // If a PE has several threads, another one may make the call.
    const bool one = theirs.n_threads <= 1 && n_threads_.load(std::memory_order_relaxed) <= 1;
    if (one && theirs.collective > outside_.collective().come_to &&
        is_old(place->second.since + std::chrono::duration_cast<Clock::duration>(lag))) {
      lock.unlock();
      return outside_.raise(
          Error(GSHMEMX_ERROR_SYMMETRY,
                strprintf("%s: collective calls differ: PE %d called %s, PE %d called %s",
                          call.c_str(), state_.my_pe, call.c_str(), wait.pe, theirs.call)),
          wait.pe);
    }
  }
  lock.unlock();
  if (wait.pe >= 0 && seconds >= seen.ask_at) {
    seen.ask_at = 2 * seconds;
    ask(wait.pe);
  }
  if (seconds < seen.warn_at) return;
  seen.warn_at = 2 * seconds;
  GSHMEM_WARN("%s has waited %.3g s for %s", call.c_str(), seconds, aim_of(wait).c_str());
}

std::string Waits::word_of(const abi::WaitRecord& wait) const {
  if (wait.address == 0) return "another PE";
  const auto number = [&](std::uint64_t value) {
    return wait.is_signed != 0 ? std::to_string(static_cast<std::int64_t>(value))
                               : std::to_string(value);
  };
  const std::uint64_t offset =
      wait.address - reinterpret_cast<std::uint64_t>(state_.heap) - abi::kInternalBytes;
  const auto slot_bytes = static_cast<std::uint64_t>(state_.stride);  // with all parts of the heap
  const bool in_heap = offset < slot_bytes - abi::kInternalBytes;
  return strprintf("the word at %s 0x%lx to be %s %s, and it is %s",
                   in_heap ? "heap offset" : "address", in_heap ? offset : wait.address,
                   sign_of(wait.cmp), number(wait.wanted).c_str(), number(wait.seen).c_str());
}

/// Names the PE or the word that a wait is for.
std::string Waits::aim_of(const abi::WaitRecord& wait) const {
  if (wait.pe == abi::kNetwork) return "the network";
  return wait.pe < 0 ? word_of(wait) : where_is(wait.pe);
}

/// Returns "PE 1, which is in gshmem_malloc", from its last answer.
std::string Waits::where_is(int pe) const {
  const std::lock_guard lock(mutex_);
  std::string place = "does not answer";
  if (const auto gone = ends_.find(pe); gone != ends_.end()) {
    place = gone->second.event == PeerEvent::kLeft ? "left the job" : "is in gshmem_finalize";
  } else if (const auto known = places_.find(pe); known != places_.end()) {
    const char* const call = known->second.message.call;
    place = *call != '\0' ? std::string("is in ") + call : "is in no call of the library";
  }
  return strprintf("PE %d, which %s", pe, place.c_str());
}

void Waits::warn(double seconds, int pe) {
  if (pe >= 0) {
    std::unique_lock lock(mutex_);
    places_.erase(pe);
    lock.unlock();
    ask(pe);
    lock.lock();
    (void)answered_.wait_for(lock, kAnswerTime, [&] { return places_.count(pe) != 0; });
  }
  const char* const call = call_.load();
  GSHMEM_WARN("%s has waited %.3g s for %s", call ? call : "a call of the library", seconds,
              pe >= 0 ? where_is(pe).c_str() : "another PE");
}

std::string Waits::explain(const abi::FaultRecord& record) const {
  for (int i = 0; i < abi::kWaits; ++i) {
    const auto wait = read(state_.control->waits[i]);
    if (!wait || std::strncmp(wait->call, record.call, sizeof(wait->call)) != 0) continue;
    if (wait->pe != record.pe || (wait->pe < 0 && wait->address == 0)) continue;
    return "it waited for " + aim_of(*wait);
  }
  return "";
}

}  // namespace gshmem
