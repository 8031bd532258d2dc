// One work queue as the executor sees it: it fetches entries after a doorbell, checks them, has
// engines execute them, and writes completions. The order is that of a reliable connection
// (InfiniBand specification, table of ordering rules in section 10.8.3.3). Used by the executor's
// thread. Invariant: operations retire in the order of their entries, the completion holds the
// first error for ever, and nothing after an error is issued.
#pragma once

#include "transport/nic/nic.h"
#include "transport/ofi/memories.h"
#include "transport/ofi/operation.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace gshmem::ofi {

/// Services that all queues of a PE share.
struct QueueServices {
  Engine& data;     ///< for writes and reads
  Engine& atomics;  ///< for atomics; may be the same engine
  OperationPool& operations;
  const Memories& memories;
  std::uint64_t heap_bytes = 0;
  std::uint32_t local_key = 0;
  std::uint32_t max_message = 0;
  Clock::duration timeout{};  ///< GSHMEM_TIMEOUT; zero = no limit
  /// Atomics are sent as messages, which the target executes in the queue's order, so they may
  /// overlap.
  bool messages = false;
  /// Writes of words are executed as atomics. If the provider's threads stored them, a word that a
  /// thread has polled, consumed and cleared could reappear (Abilities::words). This applies to
  /// host memory only: a swap of half a word in GPU memory would lose what a kernel stores to the
  /// other half.
  bool words = false;
  /// The target counts the immediates of writes (Operation::group).
  bool immediates = false;
  /// Returns the registered memory that contains these bytes; null if there is none.
  [[nodiscard]] const Memory* beside(std::uint64_t offset, std::uint64_t bytes) const {
    return offset < heap_bytes ? nullptr : memories.find(offset, bytes);
  }
};

/// Returns the time limit of an operation, which is somewhat less than GSHMEM_TIMEOUT. A PE that
/// waits for this PE began at about the same time as this PE began to wait for the operation. It
/// would give up at about the same time, and name a PE that is reachable. So this PE reports first,
/// and its news name the PE that cannot be reached. News take two tenths of a second
/// (Peer::report_at, Faults::poll_record), and machines are busy.
[[nodiscard]] inline Clock::duration operation_patience(Clock::duration timeout) {
  return timeout - std::min<Clock::duration>(timeout / 8, std::chrono::seconds(2));
}

/// The value of a doorbell that was not rung since the last poll. No doorbell has this value.
inline constexpr std::uint64_t kNotRung = ~std::uint64_t{0};

/// The pending operations of one queue, in order.
class Ring {
 public:
  /// The number is large enough to keep a connection busy, and so small that one queue does not
  /// take all operations. It is less than the number of groups.
  static constexpr std::size_t kSlots = 64;

  [[nodiscard]] bool empty() const { return size_ == 0; }
  [[nodiscard]] bool full() const { return size_ == kSlots; }
  [[nodiscard]] std::size_t size() const { return size_; }
  [[nodiscard]] Operation*& operator[](std::size_t i) { return slots_[(first_ + i) % kSlots]; }
  [[nodiscard]] Operation* operator[](std::size_t i) const { return slots_[(first_ + i) % kSlots]; }
  [[nodiscard]] Operation* front() const { return (*this)[0]; }
  void push_back(Operation* operation) { (*this)[size_++] = operation; }
  void pop_front() {
    ++first_;
    --size_;
  }
  void shrink(std::size_t size) { size_ = size; }

 private:
  std::size_t first_ = 0, size_ = 0;
  std::array<Operation*, kSlots> slots_;
};

class WorkQueue final : private OperationOwner {
 public:
  /// `memory` is the region of all queues.
  WorkQueue(const nic::Region& memory, const nic::QueuePlace& place, std::uint32_t number);

  /// `twin` is the index of the queue at the other end.
  void connect(Peer& peer, std::uint32_t twin) {
    peer_ = &peer;
    outbound_.twin = twin;
  }
  [[nodiscard]] std::uint32_t number() const { return number_; }
  [[nodiscard]] Peer& peer() const { return *peer_; }
  /// Sets the list to which the queue adds itself whenever step() has work. Call it before the
  /// first step.
  void list_in(std::vector<WorkQueue*>& ready) { ready_ = &ready; }
  /// Adds the queue to the list unless it is in it already.
  void list() {
    if (!listed_) ready_->push_back(this);
    listed_ = true;
  }

  [[nodiscard]] bool listed() const { return listed_; }
  void stays_listed() { listed_ = true; }  ///< it is in another list

  /// The doorbell has been rung.
  void rung(std::uint64_t value);
  /// Does what is possible now. Removes the queue from the list.
  void step(QueueServices& services, Clock::time_point now);
  /// Has an engine accepted an operation in the last step()?
  [[nodiscard]] bool served() const { return served_; }
  /// Is there an operation that the engine did not accept because it had no space? Then it is tried
  /// again.
  [[nodiscard]] bool hungry() const { return hungry_; }
  /// Fails operations that take too long, and those of a lost peer.
  void find_overdue(const QueueServices& services, Clock::time_point now);
  /// Returns when an engine accepted the oldest pending operation; nothing when there is none.
  [[nodiscard]] std::optional<Clock::time_point> waiting_since() const;

 private:
  using State = Operation::State;

  void changed(Operation& operation) override;
  [[nodiscard]] unsigned& pending(const Operation& operation);
  void fetch(QueueServices& services);
  void fetch_one(Operation& operation, const QueueServices& services);
  void group_with_writes(Operation& atomic);
  [[nodiscard]] Failure check(const nic::Wqe& wqe, const QueueServices& services) const;
  [[nodiscard]] Failure check_local(const nic::Wqe& wqe, const QueueServices& services) const;
  [[nodiscard]] Failure check_remote(const nic::Wqe& wqe, const QueueServices& services) const;
  void issue(QueueServices& services, Clock::time_point now);
  [[nodiscard]] bool may_begin(const Operation& operation, const QueueServices& services) const;
  [[nodiscard]] bool follows_at_once(std::size_t at) const;
  void hand_on(Operation& operation, bool more, QueueServices& services, Clock::time_point now);
  void begin(Operation& operation, const QueueServices& services);
  void count_pieces(Operation& operation);
  void retire(QueueServices& services);
  void complete(const Operation& operation);
  void reap(QueueServices& services);

  std::uint8_t* entries_;
  std::uint8_t* completion_;
  std::uint32_t depth_, number_;
  Peer* peer_ = nullptr;
  Outbound outbound_;

  std::uint64_t rung_ = 0;     ///< number of entries that the doorbell has announced
  std::uint64_t next_ = 0;     ///< the entry to fetch next
  std::uint64_t retired_ = 0;  ///< number of entries whose WQEs have ended
  Ring operations_;            ///< fetched and not retired, in order
  std::size_t issued_ = 0;     ///< number of operations at the front that need no further calls
  struct Pending {
    unsigned writes = 0, grouped = 0, reads = 0, atomics = 0;
    [[nodiscard]] unsigned all() const { return writes + grouped + reads + atomics; }
  };
  Pending pending_;
  std::uint8_t next_group_ = 0;  ///< wraps around (kGroupShift)
  std::uint32_t pieces_ = 0;     ///< number of chunks with the group of the next atomic
  std::vector<WorkQueue*>* ready_ = nullptr;
  bool listed_ = false, served_ = false, hungry_ = false;
  bool closed_ = false;  ///< a fetched WQE has failed: no more are fetched
  bool failed_ = false;  ///< the error completion has been written
  std::string doorbell_error_;
};

}  // namespace gshmem::ofi
