#include "transport/ofi/work_queue.h"

#include "transport/ofi/memory_access.h"

#include <gshmem/abi/state.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <cstddef>
#include <cstring>

namespace gshmem::ofi {
namespace {

Engine& engine_of(const Operation& operation, const QueueServices& services) {
  return operation.wqe.is_atomic() ? services.atomics : services.data;
}

/// Is it a write of one word that others may poll? That is a `p`, or a put of one element.
bool is_word(const nic::Wqe& wqe) {
  const std::uint64_t bytes = wqe.length;
  return wqe.kind == nic::WqeKind::kWrite && wqe.inline_payload.size() == bytes &&
         (bytes == 2 || bytes == 4 || bytes == 8) && wqe.remote_address % bytes == 0;
}

/// Turns a write of a word into the swap that stores it: of all bits or, for 2 bytes, of a half.
void set_by_atomic(nic::Wqe& wqe, std::uint32_t local_key) {
  std::uint64_t value = 0;  // little-endian, as all hosts of NVIDIA GPUs
  std::memcpy(&value, wqe.inline_payload.data(), wqe.length);
  const std::uint64_t size = std::max<std::uint64_t>(wqe.length, 4);
  const std::uint64_t shift = wqe.remote_address % size * 8;
  static_cast<nic::AtomicOperands&>(wqe) = {.swap_or_add = value << shift,
                                            .swap_mask = ~std::uint64_t{0} >> (64 - wqe.length * 8)
                                                                                  << shift};
  wqe.kind = nic::WqeKind::kMaskedCompareSwap;
  wqe.remote_address -= wqe.remote_address % size;
  wqe.length = size;
  wqe.inline_payload.clear();
  wqe.local.push_back({.address = offsetof(abi::InternalArea, sink),
                       .bytes = static_cast<std::uint32_t>(size),
                       .key = local_key});
}

}  // namespace

WorkQueue::WorkQueue(const nic::Region& memory, const nic::QueuePlace& place, std::uint32_t number)
    : entries_(static_cast<std::uint8_t*>(memory.base) + place.entries),
      completion_(static_cast<std::uint8_t*>(memory.base) + place.completion),
      depth_(place.depth),
      number_(number) {
  require(std::has_single_bit(depth_), GSHMEMX_ERROR_INTERNAL,
          strprintf("a queue of %u entries, which is no power of two", depth_));
}

void WorkQueue::step(QueueServices& services, Clock::time_point now) {
  listed_ = served_ = hungry_ = false;
  if (failed_) return reap(services);
  fetch(services);
  issue(services, now);
  retire(services);
  // Operations that have retired make room for entries that a doorbell has announced.
  if (!hungry_ && !operations_.full() && next_ < rung_ && !closed_) list();
}

void WorkQueue::rung(std::uint64_t value) {
  const nic::Doorbell doorbell = nic::decode_doorbell(value);
  const auto ahead = static_cast<std::uint16_t>(doorbell.producer - rung_);
  const auto behind = static_cast<std::uint16_t>(rung_ - doorbell.producer);
  if (doorbell.number != number_) {
    doorbell_error_ = strprintf("doorbell 0x%016lx names queue 0x%x", value, doorbell.number);
  } else if (rung_ + ahead - retired_ <= depth_) {
    rung_ += ahead;
    // Otherwise it is an older doorbell that arrives late, and has no effect.
  } else if (behind > depth_) {
    doorbell_error_ = strprintf("doorbell announces entry %u; %lu of %u entries are in use",
                                doorbell.producer, rung_ - retired_, depth_);
  }
  list();
}

void WorkQueue::fetch(QueueServices& services) {
  while (!closed_ && (next_ < rung_ || !doorbell_error_.empty()) && !operations_.full()) {
    Operation* operation = services.operations.acquire(*peer_);
    if (operation == nullptr) {
      hungry_ = true;
      return;
    }
    operation->first = next_;
    operation->owner = this;
    operation->outbound = &outbound_;
    operations_.push_back(operation);
    if (next_ < rung_) {
      fetch_one(*operation, services);
    } else {
      operation->wqe = {};
      closed_ = true;
      operation->fail(failure(abi::Syndrome::kLocalOperation, doorbell_error_));
    }
  }
}

void WorkQueue::fetch_one(Operation& operation, const QueueServices& services) {
  // The whole WQE is copied before it is decoded: it could change while it is decoded.
  std::array<std::uint8_t, kScratchBytes> bytes;
  const auto copy = [&](std::uint64_t i) {
    std::memcpy(bytes.data() + i * nic::kEntryBytes,
                entries_ + ((next_ + i) & (depth_ - 1)) * nic::kEntryBytes, nic::kEntryBytes);
  };
  copy(0);
  const std::size_t size =
      std::max<std::size_t>(nic::wqe_bytes(bytes.data()), nic::kEntryBytes / 4);
  const std::uint64_t entries =
      std::min<std::uint64_t>((size + nic::kEntryBytes - 1) / nic::kEntryBytes, rung_ - next_);
  for (std::uint64_t i = 1; i < entries; ++i) copy(i);
  const std::size_t known = std::min<std::size_t>(size, entries * nic::kEntryBytes);
  const nic::Findings decoded =
      nic::decode_wqe(bytes.data(), known, nic::Receives::kNo, operation.wqe);
  Failure why = decoded.error != nic::WqeError::kNone
                    ? failure(static_cast<abi::Syndrome>(decoded.error), decoded.reason)
                    : check(operation.wqe, services);
  next_ += operation.wqe.entries();
  if (why) {
    why.text += "\n" + nic::dump_wqe(bytes.data(), known);
    closed_ = true;
    operation.fail(std::move(why));
    return;
  }
  if (services.words && is_word(operation.wqe)) set_by_atomic(operation.wqe, services.local_key);
  if (operation.wqe.is_atomic() && services.immediates && operation.wqe.fence == 0)
    group_with_writes(operation);
}

Failure WorkQueue::check(const nic::Wqe& wqe, const QueueServices& services) const {
  const auto expected = static_cast<std::uint16_t>(next_);
  if (wqe.index != expected || wqe.number != number_)
    return failure(abi::Syndrome::kLocalOperation,
                   strprintf("entry %u of queue 0x%x says it is entry %u of queue 0x%x", expected,
                             number_, wqe.index, wqe.number));
  if (wqe.length > services.max_message)
    return failure(abi::Syndrome::kLocalLength,
                   strprintf("%lu bytes in one WQE, at most %u", wqe.length, services.max_message));
  if (wqe.kind == nic::WqeKind::kNop) return {};
  if (Failure why = check_local(wqe, services)) return why;
  if (wqe.kind == nic::WqeKind::kDump) return {};
  return check_remote(wqe, services);
}

Failure WorkQueue::check_local(const nic::Wqe& wqe, const QueueServices& services) const {
  for (const nic::LocalPiece& piece : wqe.local) {
    const Memory* const beside = services.beside(piece.address, piece.bytes);
    const std::uint32_t key = beside != nullptr ? beside->key : services.local_key;
    if (piece.key != key)
      return failure(abi::Syndrome::kLocalProtection,
                     strprintf("local key 0x%x is not that of the %s, 0x%x", piece.key,
                               beside != nullptr ? "registered memory" : "heap", key));
    if (beside == nullptr && !in_range(piece.address, piece.bytes, services.heap_bytes))
      return failure(abi::Syndrome::kLocalProtection,
                     strprintf("local offset 0x%lx + %u bytes is outside of the heap of %lu bytes",
                               piece.address, piece.bytes, services.heap_bytes));
  }
  return {};
}

Failure WorkQueue::check_remote(const nic::Wqe& wqe, const QueueServices& services) const {
  const Memory* beside = services.beside(wqe.remote_address, wqe.length);
  if (beside != nullptr && beside->there.empty()) beside = nullptr;
  const std::uint32_t key = beside != nullptr
                                ? beside->there[static_cast<std::size_t>(peer_->pe)].key
                                : peer_->remote_key;
  if (wqe.remote_key != key)
    return failure(abi::Syndrome::kRemoteAccess,
                   strprintf("remote key 0x%x is not that of PE %d's %s, 0x%x", wqe.remote_key,
                             peer_->pe, beside != nullptr ? "registered memory" : "heap", key));
  if (beside == nullptr && !in_range(wqe.remote_address, wqe.length, peer_->heap_bytes))
    return failure(
        abi::Syndrome::kRemoteAccess,
        strprintf("remote offset 0x%lx + %lu bytes is outside of PE %d's heap of %lu bytes",
                  wqe.remote_address, wqe.length, peer_->pe, peer_->heap_bytes));
  if (wqe.is_atomic() && wqe.remote_address % wqe.length != 0)
    return failure(abi::Syndrome::kRemoteRequest,
                   strprintf("atomic of %lu bytes at remote offset 0x%lx, which is not aligned",
                             wqe.length, wqe.remote_address));
  return {};
}

/// Groups an atomic with the writes before it. Then it need not wait until they have ended here:
/// writes that have not begun yet carry its group.
void WorkQueue::group_with_writes(Operation& atomic) {
  const int group = next_group_;
  for (std::size_t at = operations_.size() - 1; at-- > issued_;) {
    Operation& before = *operations_[at];
    if (before.state != State::kQueued || !before.writes()) break;
    before.group = atomic.group = group;
  }
  if (atomic.group == group) ++next_group_;
}

unsigned& WorkQueue::pending(const Operation& operation) {
  if (operation.wqe.is_atomic()) return pending_.atomics;
  if (operation.wqe.kind == nic::WqeKind::kRead) return pending_.reads;
  return operation.group == Operation::kNoGroup ? pending_.writes : pending_.grouped;
}

void WorkQueue::changed(Operation& operation) {
  if (operation.done() && operation.counted) {
    --pending(operation);
    operation.counted = false;
  }
  // There is more of it to issue, or it keeps later operations from beginning.
  if (operation.state == State::kBegun || operation.failure) issued_ = 0;
  list();
}

/// May the operation begin? A read may fetch its data after a later write has stored (without a
/// fence this is so on InfiniBand, too), and reads of a queue may overlap. A write may overlap an
/// earlier atomic. Only a write with a fence waits for the atomic's result.
bool WorkQueue::may_begin(const Operation& operation, const QueueServices& services) const {
  const Pending& before = pending_;
  if (operation.wqe.fence != 0) return before.all() == 0;
  if (!operation.moves_data()) return true;
  const bool all_by_messages = services.messages && &services.data == &services.atomics;
  if (all_by_messages) return true;
  if (operation.writes()) return services.messages || before.atomics == 0;
  const bool in_order = services.messages && operation.wqe.is_atomic();
  if (in_order) return before.writes + before.reads == 0;
  return before.writes + before.grouped + before.atomics == 0 &&
         (before.reads == 0 || !operation.wqe.is_atomic());
}

void WorkQueue::issue(QueueServices& services, Clock::time_point now) {
  for (std::size_t i = issued_; i < operations_.size(); ++i) {
    Operation& operation = *operations_[i];
    if (operation.failure) return;
    if (operation.state == State::kIssued) {
      if (i == issued_) ++issued_;
      continue;
    }
    if (operation.state == State::kQueued && !may_begin(operation, services)) return;
    hand_on(operation, follows_at_once(i), services, now);
    if (operation.state != State::kIssued) {
      hungry_ = true;
      return;
    }
  }
}

/// Is the operation after the one at `at` a write that will certainly be issued at once?
bool WorkQueue::follows_at_once(std::size_t at) const {
  if (at + 1 >= operations_.size()) return false;
  const Operation& next = *operations_[at + 1];
  return operations_[at]->writes() && next.writes() && next.moves_data() && !next.failure &&
         next.wqe.fence == 0;
}

void WorkQueue::hand_on(Operation& operation, bool more, QueueServices& services,
                        Clock::time_point now) {
  const bool queued = operation.state == State::kQueued;
  if (!operation.moves_data()) {
    operation.state = State::kIssued;
    operation.tell();
    return;
  }
  if (!peer_->lost.empty()) {
    operation.fail(failure(abi::Syndrome::kRetryExceeded, peer_->lost));
    return;
  }
  if (queued) begin(operation, services);
  const unsigned before = operation.in_flight;
  engine_of(operation, services).issue(operation, more);
  const bool taken = operation.in_flight != before, issued = operation.state == State::kIssued;
  served_ |= taken;
  if (issued) count_pieces(operation);
  if (!queued) return;
  // Its time limit starts here: while the engine had no space, the peer was not the cause.
  if (taken || operation.refused || issued) {
    operation.begun = now;
    if (!issued) operation.state = State::kBegun;
  } else {
    --pending(operation);
    operation.counted = false;
  }
}

void WorkQueue::begin(Operation& operation, const QueueServices& services) {
  const bool grouped = operation.group != Operation::kNoGroup;
  if (operation.wqe.is_atomic() && grouped) {
    operation.pieces = pieces_;  // all its writes have been issued
  } else if (grouped && operation.reserved == 0 && !services.data.reserve_immediates(operation)) {
    operation.group = Operation::kNoGroup;
  }
  ++pending(operation);
  operation.counted = true;
}

void WorkQueue::count_pieces(Operation& operation) {
  if (operation.wqe.is_atomic()) {
    pieces_ = 0;
  } else if (operation.group != Operation::kNoGroup) {
    pieces_ += operation.pieces;
    peer_->immediates -= operation.reserved - operation.pieces;
    operation.reserved = operation.pieces = 0;
  }
}

void WorkQueue::find_overdue(const QueueServices& services, Clock::time_point now) {
  const Clock::duration patience = operation_patience(services.timeout);
  for (std::size_t i = 0; i < operations_.size(); ++i) {
    Operation* const operation = operations_[i];
    if (operation->state == State::kQueued) return;
    if (operation->done() || operation->failure) continue;
    if (!peer_->lost.empty()) {
      operation->fail(failure(abi::Syndrome::kRetryExceeded, peer_->lost));
    } else if (services.timeout.count() > 0 && now - operation->begun > patience) {
      // A thread that waits for the operation gets its completion; otherwise the PE is notified
      // later.
      peer_->report_at = now + std::chrono::milliseconds(100);
      peer_->lost = operation->describe() +
                    strprintf(" did not end within %g s (GSHMEM_TIMEOUT = %g s); ",
                              std::chrono::duration<double>(patience).count(),
                              std::chrono::duration<double>(services.timeout).count()) +
                    engine_of(*operation, services).awaits(*operation);
      operation->fail(failure(abi::Syndrome::kRetryExceeded, peer_->lost));
    }
  }
}

void WorkQueue::retire(QueueServices& services) {
  const Operation* last = nullptr;  // the last signalled one: only one completion is visible anyway
  std::array<Operation*, Ring::kSlots> ended;
  std::size_t count = 0;
  while (!operations_.empty() && !failed_) {
    Operation* operation = operations_.front();
    if (operation->failure) {
      last = nullptr;  // its completion replaces this one
      complete(*operation);
      failed_ = true;
      peer_->immediates -= pieces_;
      if (pending_.all() > 0) services.atomics.abandon(*peer_, outbound_);
      list();
      break;
    }
    if (!operation->done()) break;
    if (operation->wqe.signalled) last = operation;
    retired_ = operation->first + operation->wqe.entries();
    ended[count++] = operation;
    operations_.pop_front();
    if (issued_ > 0) --issued_;
  }
  if (last != nullptr) complete(*last);
  for (std::size_t i = 0; i < count; ++i) services.operations.release(ended[i]);
}

void WorkQueue::complete(const Operation& operation) {
  const nic::Completion completion{.error = static_cast<bool>(operation.failure),
                                   .syndrome = operation.failure.syndrome,
                                   .vendor_syndrome = operation.failure.vendor,
                                   .wqe_opcode = operation.wqe.opcode,
                                   .number = number_,
                                   .wqe_index = static_cast<std::uint16_t>(operation.first)};
  const std::array<std::uint8_t, 64> entry = nic::encode_completion(completion);
  constexpr std::size_t kWord = abi::kCompletionWordOffset;
  std::memcpy(completion_, entry.data(), kWord);
  std::uint32_t word = 0;
  std::memcpy(&word, entry.data() + kWord, sizeof(word));
  // Pairs with the acquire of the thread that polls the completion (device/network/queue.h): data
  // and syndrome are visible before.
  std::atomic_ref<std::uint32_t>(*reinterpret_cast<std::uint32_t*>(completion_ + kWord))
      .store(word, std::memory_order_release);
  if (completion.error)
    GSHMEM_WARN("queue 0x%x to PE %d failed at entry %lu, syndrome 0x%02x: %s", number_, peer_->pe,
                operation.first, completion.syndrome, operation.failure.text.c_str());
}

void WorkQueue::reap(QueueServices& services) {
  // An operation that the provider still holds keeps its memory until the provider returns it.
  std::size_t kept = 0;
  for (std::size_t i = 0; i < operations_.size(); ++i) {
    Operation* const operation = operations_[i];
    if (operation->in_flight > 0)
      operations_[kept++] = operation;
    else
      services.operations.release(operation);
  }
  operations_.shrink(kept);
}

std::optional<Clock::time_point> WorkQueue::waiting_since() const {
  if (failed_ || operations_.empty()) return {};
  const Operation& first = *operations_.front();
  if (first.state == State::kQueued) return {};
  return first.begun;
}

}  // namespace gshmem::ofi
