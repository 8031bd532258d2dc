#include "transport/ofi/work_queue.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>

namespace gshmem::ofi {
namespace {

/// Operations of one queue under way: enough to keep a connection busy, few enough that one queue
/// does not take them all.
constexpr std::size_t kWindow = 64;

bool in_range(std::uint64_t address, std::uint64_t bytes, std::uint64_t size) {
  return bytes <= size && address <= size - bytes;
}

Engine& engine_of(const Operation& operation, const QueueServices& services) {
  return operation.wqe.is_atomic() ? services.atomics : services.data;
}

unsigned long long ull(std::uint64_t value) { return value; }

/// May `operation` begin while `earlier` is under way? A read may fetch its data later than a write
/// after it stores (no fence: so it is on InfiniBand), and reads of a queue may overlap.
bool may_overlap(const Operation& earlier, const Operation& operation) {
  using nic::WqeKind;
  if (operation.wqe.fence != 0) return false;
  const WqeKind before = earlier.wqe.kind, kind = operation.wqe.kind;
  if (kind == WqeKind::kWrite) return before == WqeKind::kWrite || before == WqeKind::kRead;
  if (kind == WqeKind::kRead) return before == WqeKind::kRead;
  return false;
}

}  // namespace

WorkQueue::WorkQueue(const nic::Region& memory, const nic::QueuePlace& place, std::uint32_t number,
                     std::uint64_t* doorbell)
    : entries_(static_cast<std::uint8_t*>(memory.base) + place.entries),
      completion_(static_cast<std::uint8_t*>(memory.base) + place.completion),
      doorbell_(doorbell),
      depth_(place.depth),
      number_(number) {
  // A number that no queue has: not rung yet.
  std::atomic_ref<std::uint64_t>(*doorbell_).store(seen_, std::memory_order_release);
}

bool WorkQueue::step(QueueServices& services, Clock::time_point now) {
  served_ = false;
  if (failed_) {
    reap(services);
    return false;
  }
  bool busy = read_doorbell();
  busy |= fetch(services);
  if (operations_.empty()) return busy;
  busy |= issue(services, now);
  find_overdue(services, now);
  busy |= retire(services);
  return busy;
}

bool WorkQueue::read_doorbell() {
  // Pairs with the release of the thread that rings (device/queue.h): the entries are written.
  const std::uint64_t value =
      std::atomic_ref<std::uint64_t>(*doorbell_).load(std::memory_order_acquire);
  if (value == seen_) return false;
  seen_ = value;
  const nic::Doorbell doorbell = nic::decode_doorbell(value);
  const auto ahead = static_cast<std::uint16_t>(doorbell.producer - rung_);
  const auto behind = static_cast<std::uint16_t>(rung_ - doorbell.producer);
  if (doorbell.number != number_) {
    doorbell_error_ = strprintf("doorbell 0x%016llx names queue 0x%x", ull(value), doorbell.number);
  } else if (rung_ + ahead - retired_ <= depth_) {
    rung_ += ahead;
  } else if (behind > depth_) {  // else an older doorbell that came late: harmless
    doorbell_error_ = strprintf("doorbell announces entry %u; %llu of %u entries are in use",
                                doorbell.producer, ull(rung_ - retired_), depth_);
  }
  return true;
}

std::vector<std::uint8_t> WorkQueue::copy_entries() {
  // The whole WQE at once, before it is decoded: it could change under the decoder's eyes.
  std::vector<std::uint8_t> bytes(nic::kEntryBytes);
  const auto entry = [&](std::uint64_t index) {
    return entries_ + (index % depth_) * nic::kEntryBytes;
  };
  std::memcpy(bytes.data(), entry(next_), nic::kEntryBytes);
  const std::size_t size = nic::wqe_bytes(bytes.data());
  const std::uint64_t entries =
      std::min<std::uint64_t>((size + nic::kEntryBytes - 1) / nic::kEntryBytes, rung_ - next_);
  bytes.resize(std::max<std::uint64_t>(entries, 1) * nic::kEntryBytes);
  for (std::uint64_t i = 1; i < entries; ++i)
    std::memcpy(bytes.data() + i * nic::kEntryBytes, entry(next_ + i), nic::kEntryBytes);
  bytes.resize(std::clamp<std::size_t>(size, nic::kEntryBytes / 4, bytes.size()));
  return bytes;
}

bool WorkQueue::fetch(QueueServices& services) {
  bool busy = false;
  while (!closed_ && (next_ < rung_ || !doorbell_error_.empty()) && operations_.size() < kWindow) {
    Operation* operation = services.operations.acquire();
    if (operation == nullptr) return busy;
    busy = true;
    operation->first = next_;
    operation->peer = peer_;
    operations_.push_back(operation);
    if (next_ == rung_) {
      operation->wqe.index = static_cast<std::uint16_t>(next_);
      operation->wqe.number = number_;
      operation->fail(failure(abi::Syndrome::kLocalOperation, doorbell_error_));
      closed_ = true;
      return busy;
    }
    const std::vector<std::uint8_t> bytes = copy_entries();
    nic::DecodeResult decoded = nic::decode_wqe(bytes.data(), bytes.size());
    operation->wqe = std::move(decoded.wqe);
    Failure why;
    if (decoded.error != nic::WqeError::kNone) {
      why = failure(static_cast<abi::Syndrome>(decoded.error), decoded.reason);
    } else {
      why = check(operation->wqe, services);
    }
    next_ += std::max<std::uint32_t>(operation->wqe.entries(), 1);
    if (why) {
      why.text += "\n" + nic::dump_wqe(bytes.data(), bytes.size());
      operation->fail(std::move(why));
      closed_ = true;
    }
  }
  return busy;
}

Failure WorkQueue::check(const nic::Wqe& wqe, const QueueServices& services) const {
  const auto expected = static_cast<std::uint16_t>(next_);
  if (wqe.index != expected || wqe.number != number_)
    return failure(abi::Syndrome::kLocalOperation,
                   strprintf("entry %u of queue 0x%x says it is entry %u of queue 0x%x", expected,
                             number_, wqe.index, wqe.number));
  if (next_ + wqe.entries() > rung_)
    return failure(abi::Syndrome::kLocalOperation,
                   strprintf("WQE of %u entries, but the doorbell announces %llu", wqe.entries(),
                             ull(rung_ - next_)));
  if (wqe.length > services.max_message)
    return failure(abi::Syndrome::kLocalLength, strprintf("%llu bytes in one WQE, at most %u",
                                                          ull(wqe.length), services.max_message));
  if (wqe.kind == nic::WqeKind::kNop) return {};
  if (Failure why = check_local(wqe, services)) return why;
  if (wqe.kind == nic::WqeKind::kDump) return {};
  return check_remote(wqe, services);
}

Failure WorkQueue::check_local(const nic::Wqe& wqe, const QueueServices& services) const {
  for (const nic::LocalPiece& piece : wqe.local) {
    if (piece.key != services.local_key)
      return failure(
          abi::Syndrome::kLocalProtection,
          strprintf("local key 0x%x is not that of the heap, 0x%x", piece.key, services.local_key));
    if (!in_range(piece.address, piece.bytes, services.heap_bytes))
      return failure(
          abi::Syndrome::kLocalProtection,
          strprintf("local offset 0x%llx + %u bytes lies outside of the heap of %llu bytes",
                    ull(piece.address), piece.bytes, ull(services.heap_bytes)));
  }
  return {};
}

Failure WorkQueue::check_remote(const nic::Wqe& wqe, const QueueServices&) const {
  if (wqe.remote_key != peer_->remote_key)
    return failure(abi::Syndrome::kRemoteAccess,
                   strprintf("remote key 0x%x is not that of PE %d's heap, 0x%x", wqe.remote_key,
                             peer_->pe, peer_->remote_key));
  if (!in_range(wqe.remote_address, wqe.length, peer_->heap_bytes))
    return failure(
        abi::Syndrome::kRemoteAccess,
        strprintf("remote offset 0x%llx + %llu bytes lies outside of PE %d's heap of %llu bytes",
                  ull(wqe.remote_address), ull(wqe.length), peer_->pe, ull(peer_->heap_bytes)));
  if (wqe.is_atomic() && wqe.remote_address % wqe.length != 0)
    return failure(abi::Syndrome::kRemoteRequest,
                   strprintf("atomic of %llu bytes at remote offset 0x%llx, which is not aligned",
                             ull(wqe.length), ull(wqe.remote_address)));
  return {};
}

bool WorkQueue::issue(QueueServices& services, Clock::time_point now) {
  bool busy = false;
  for (std::size_t i = 0; i < operations_.size(); ++i) {
    Operation& operation = *operations_[i];
    if (operation.failure) return busy;
    if (operation.state == Operation::State::kIssued) continue;
    if (operation.state == Operation::State::kQueued)
      for (std::size_t j = 0; j < i; ++j)
        if (!operations_[j]->done() && !may_overlap(*operations_[j], operation)) return busy;
    hand_on(operation, services, now);
    busy |= served_;
    if (operation.state != Operation::State::kIssued) return busy;
    busy = true;
  }
  return busy;
}

void WorkQueue::hand_on(Operation& operation, QueueServices& services, Clock::time_point now) {
  const bool queued = operation.state == Operation::State::kQueued;
  const bool moves_data = operation.wqe.length > 0 && operation.wqe.kind != nic::WqeKind::kDump &&
                          operation.wqe.kind != nic::WqeKind::kNop;
  bool taken = false;
  if (!peer_->lost.empty()) {
    operation.fail(failure(abi::Syndrome::kRetryExceeded, peer_->lost));
  } else if (!moves_data) {
    operation.state = Operation::State::kIssued;
  } else {
    const unsigned before = operation.in_flight;
    engine_of(operation, services).issue(operation);
    taken = operation.in_flight != before;
    served_ |= taken;
  }
  // Its time runs from here: the peer has nothing to do with how long the engine had no place.
  const bool issued = operation.state == Operation::State::kIssued;
  if (!queued || !(taken || operation.refused || issued)) return;
  operation.begun = now;
  if (!issued) operation.state = Operation::State::kBegun;
}

void WorkQueue::find_overdue(const QueueServices& services, Clock::time_point now) {
  const Clock::duration patience = operation_patience(services.timeout);
  for (Operation* operation : operations_) {
    if (operation->state == Operation::State::kQueued) return;
    if (operation->done() || operation->failure) continue;
    if (!peer_->lost.empty()) {
      operation->fail(failure(abi::Syndrome::kRetryExceeded, peer_->lost));
    } else if (services.timeout.count() > 0 && now - operation->begun > patience) {
      // A thread that waits for the operation learns it by the completion; else the PE later.
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

bool WorkQueue::retire(QueueServices& services) {
  const Operation* last = nullptr;  // of the signalled ones: only one completion is visible anyway
  std::array<Operation*, kWindow> ended;
  std::size_t count = 0;
  while (!operations_.empty() && !failed_) {
    Operation* operation = operations_.front();
    if (operation->failure) {
      if (last != nullptr) complete(*last);
      last = nullptr;
      complete(*operation);
      failed_ = true;
      break;
    }
    if (!operation->done()) break;
    if (operation->wqe.signalled) last = operation;
    retired_ = operation->first + std::max<std::uint32_t>(operation->wqe.entries(), 1);
    ended[count++] = operation;
    operations_.pop_front();
  }
  if (last != nullptr) complete(*last);
  for (std::size_t i = 0; i < count; ++i) services.operations.release(ended[i]);
  return count > 0;
}

void WorkQueue::complete(const Operation& operation) {
  const nic::Completion completion{.error = static_cast<bool>(operation.failure),
                                   .syndrome = operation.failure.syndrome,
                                   .vendor_syndrome = operation.failure.vendor,
                                   .wqe_opcode = operation.wqe.opcode,
                                   .number = number_,
                                   .wqe_index = static_cast<std::uint16_t>(operation.first),
                                   .bytes = static_cast<std::uint32_t>(operation.wqe.length),
                                   .owner = operation.first / depth_ % 2 != 0};
  const std::array<std::uint8_t, 64> entry = nic::encode_completion(completion);
  constexpr std::size_t kWord = abi::kCompletionWordOffset;
  std::memcpy(completion_, entry.data(), kWord);
  std::uint32_t word = 0;
  std::memcpy(&word, entry.data() + kWord, sizeof(word));
  // Pairs with the acquire of who polls the completion (device/queue.h): data and syndrome first.
  std::atomic_ref<std::uint32_t>(*reinterpret_cast<std::uint32_t*>(completion_ + kWord))
      .store(word, std::memory_order_release);
  if (completion.error)
    GSHMEM_WARN("queue 0x%x to PE %d failed at entry %llu, syndrome 0x%02x: %s", number_, peer_->pe,
                ull(operation.first), completion.syndrome, operation.failure.text.c_str());
}

void WorkQueue::reap(QueueServices& services) {
  // An operation that the provider still holds keeps its memory until it lets go.
  std::erase_if(operations_, [&](Operation* operation) {
    if (operation->in_flight > 0) return false;
    services.operations.release(operation);
    return true;
  });
}

std::optional<Clock::time_point> WorkQueue::waiting_since() const {
  if (failed_ || operations_.empty()) return {};
  const Operation& first = *operations_.front();
  if (first.state == Operation::State::kQueued || first.done()) return {};
  return first.begun;
}

}  // namespace gshmem::ofi
