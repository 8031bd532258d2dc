#include "host/runtime/team_rendezvous.h"

#include "host/base/error.h"
#include "host/base/log.h"
#include "host/base/reminder.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <set>

namespace gshmem {
namespace {

constexpr unsigned kPeShift = 32;
constexpr int kNobody = -1;
/// The interval at which a waiting thread checks whether its PE still runs.
constexpr std::chrono::milliseconds kLook{20};

template <class T>
std::vector<T> values_of(net::ByteView bytes) {
  std::vector<T> values(bytes.size() / sizeof(T));
  std::copy_n(bytes.begin(), values.size() * sizeof(T),
              std::as_writable_bytes(std::span(values)).begin());
  return values;
}

}  // namespace

/// An id is the PE's number plus 1, so that no id is 0, followed by a number of the PE.
std::uint64_t TeamRendezvous::make_id() {
  const std::lock_guard lock(mutex_);
  return (std::uint64_t(outside_.my_pe) + 1) << kPeShift | ++made_;
}

/// Was the id made by this PE? Requires the lock.
bool TeamRendezvous::is_made(std::uint64_t id) const {
  return id >> kPeShift == static_cast<std::uint64_t>(outside_.my_pe) + 1 &&
         static_cast<std::uint32_t>(id) - 1 < made_;
}

std::vector<std::byte> TeamRendezvous::message_of(const Header& header, net::ByteView more) {
  std::vector<std::byte> message(sizeof(header) + more.size());
  std::memcpy(message.data(), &header, sizeof(header));
  std::ranges::copy(more, message.begin() + sizeof(header));
  return message;
}

TeamRendezvous::Outcome TeamRendezvous::exchange(const char* call, const Place& place,
                                                 std::uint32_t round,
                                                 const std::vector<std::uint32_t>& words) {
  const std::uint64_t keeper = (place.id >> kPeShift) - 1;
  require(keeper < static_cast<std::uint64_t>(outside_.n_pes), GSHMEMX_ERROR_INVALID_VALUE,
          strprintf("%s: unique id 0x%lx was made by no PE of this job", call, place.id));
  const Key key{place.id, round};
  std::unique_lock lock(mutex_);
  const auto entered = waits_.try_emplace(key);
  const auto wait = entered.first;
  require(entered.second, GSHMEMX_ERROR_INVALID_VALUE,
          strprintf("%s: another thread of this PE is in it with unique id 0x%lx", call, place.id));
  lock.unlock();
  outside_.send(static_cast<int>(keeper),
                message_of({place.id, Kind::kComes, round, place.size, place.index},
                           std::as_bytes(std::span(words))));
  lock.lock();
  const auto begun = std::chrono::steady_clock::now();
  Reminder reminder;
  const std::chrono::duration<double> limit(outside_.timeout);
  Answer answer;
  try {
    while (!received_.wait_for(lock, kLook, [&] { return wait->second.here; })) {
      outside_.require_running();
      if (reminder.due()) {
        GSHMEM_WARN("%s has waited %.3g s for other members of the team", call, reminder.seconds());
        reminder.next();
      }
      require(limit.count() == 0 || std::chrono::steady_clock::now() - begun < limit,
              GSHMEMX_ERROR_TIMEOUT,
              strprintf("%s: not all %d members have called it within GSHMEM_TIMEOUT=%g s", call,
                        place.size, limit.count()));
    }
    answer = std::move(wait->second);
  } catch (const Error& error) {
    waits_.erase(wait);
    lock.unlock();
    refuse(place.id, error.what());
    throw;
  }
  waits_.erase(wait);
  require(answer.code == GSHMEMX_SUCCESS, static_cast<gshmemx_status>(answer.code),
          strprintf("%s: %s", call, answer.why.c_str()));
  return std::move(answer.outcome);
}

void TeamRendezvous::refuse(std::uint64_t id, const std::string& why) {
  const std::uint64_t keeper = (id >> kPeShift) - 1;
  if (keeper >= static_cast<std::uint64_t>(outside_.n_pes)) return;
  outside_.send(static_cast<int>(keeper),
                message_of({id, Kind::kRefuses}, std::as_bytes(std::span(why))));
}

void TeamRendezvous::take(int from, net::ByteView message) {
  Header header{};
  if (message.size() < sizeof(header)) return;
  std::memcpy(&header, message.data(), sizeof(header));
  const net::ByteView more = message.subspan(sizeof(header));
  switch (header.kind) {
    case Kind::kComes:
      return enter(from, header, values_of<std::uint32_t>(more));
    case Kind::kRefuses: {
      const std::vector<char> why = values_of<char>(more);
      const std::lock_guard lock(mutex_);
      return refuse_all(
          header.id, GSHMEMX_ERROR_INVALID_VALUE,
          strprintf("failed on PE %d: %s", from, std::string(why.begin(), why.end()).c_str()),
          from);
    }
    case Kind::kAllCame:
    case Kind::kRefused:
      return receive(header, more);
  }
}

/// Runs on the PE that has made the id.
void TeamRendezvous::enter(int from, const Header& header, std::vector<std::uint32_t> words) {
  const std::lock_guard lock(mutex_);
  const auto bad = [&](std::int32_t code, const std::string& why) {
    refuse_all(header.id, code, why, from);
  };
  if (const auto found = refused_.find(header.id); found != refused_.end())
    return bad(found->second.first, found->second.second);
  if (!is_made(header.id))
    return bad(GSHMEMX_ERROR_INVALID_VALUE,
               strprintf("unique id 0x%lx was made by no PE of this job", header.id));
  if (header.size < 1 || header.size > outside_.n_pes)
    return bad(GSHMEMX_ERROR_INVALID_VALUE,
               strprintf("argument npes = %d of PE %d is out of range [1, %d]", header.size, from,
                         outside_.n_pes));
  if (header.index < 0 || header.index >= header.size)
    return bad(GSHMEMX_ERROR_INVALID_VALUE,
               strprintf("argument pe_idx_in_team = %d of PE %d is out of range [0, %d]",
                         header.index, from, header.size - 1));
  Roll& roll = rolls_[{header.id, header.round}];
  std::vector<std::int32_t>& pes = roll.outcome.pes;
  if (pes.empty()) {
    pes.assign(static_cast<std::size_t>(header.size), kNobody);
    roll.outcome.words = words;
  }
  if (pes.size() != static_cast<std::size_t>(header.size))
    return bad(GSHMEMX_ERROR_SYMMETRY,
               strprintf("argument npes is %d on PE %d and %zu on another member", header.size,
                         from, pes.size()));
  std::int32_t& place = pes[static_cast<std::size_t>(header.index)];
  if (place != kNobody)
    return bad(GSHMEMX_ERROR_INVALID_VALUE,
               strprintf("argument pe_idx_in_team = %d is that of PE %d and of PE %d", header.index,
                         place, from));
  place = from;
  std::vector<std::uint32_t>& all = roll.outcome.words;
  for (std::size_t i = 0; i < std::min(words.size(), all.size()); ++i) all[i] &= words[i];
  if (++roll.came < header.size) return;
  std::vector<std::int32_t> more = pes;
  more.insert(more.end(), all.begin(), all.end());
  const std::vector<std::byte> message = message_of(
      {header.id, Kind::kAllCame, header.round, header.size}, std::as_bytes(std::span(more)));
  for (const std::int32_t pe : pes) outside_.send(pe, message);
  rolls_.erase({header.id, header.round});
}

/// Refuses all PEs that have come with the id so far, and PE `also`. A refusal for an id that does
/// not exist yet is not stored. Requires the lock.
void TeamRendezvous::refuse_all(std::uint64_t id, std::int32_t code, const std::string& why,
                                int also) {
  if (is_made(id)) refused_.try_emplace(id, code, why);
  std::set<int> to{also};
  for (auto roll = rolls_.lower_bound({id, 0}); roll != rolls_.end() && roll->first.first == id;
       roll = rolls_.erase(roll)) {
    to.insert(roll->second.outcome.pes.begin(), roll->second.outcome.pes.end());
  }
  to.erase(kNobody);
  const std::vector<std::byte> message =
      message_of({.id = id, .kind = Kind::kRefused, .code = code}, std::as_bytes(std::span(why)));
  for (const int pe : to) outside_.send(pe, message);
}

/// A refusal applies to every round of the id in which the PE waits.
void TeamRendezvous::receive(const Header& header, net::ByteView more) {
  const std::lock_guard lock(mutex_);
  const bool is_refusal = header.kind == Kind::kRefused;
  for (auto& [key, answer] : waits_) {
    if (key.first != header.id || (key.second != header.round && !is_refusal)) continue;
    answer.here = true;
    if (is_refusal) {
      const std::vector<char> why = values_of<char>(more);
      answer.code = header.code;
      answer.why = {why.begin(), why.end()};
    } else {
      const std::size_t bytes = static_cast<std::size_t>(header.size) * sizeof(std::int32_t);
      answer.outcome = {values_of<std::int32_t>(more.first(bytes)),
                        values_of<std::uint32_t>(more.subspan(bytes))};
    }
  }
  received_.notify_all();
}

}  // namespace gshmem
