// One work queue as the executor sees it: fetches entries after a doorbell, checks them, has
// engines carry them out, and writes completions. The order is that of a reliable connection
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
  Engine& data;     ///< writes and reads
  Engine& atomics;  ///< may be the same
  OperationPool& operations;
  const Memories& memories;
  std::uint64_t heap_bytes = 0;
  std::uint32_t local_key = 0;
  std::uint32_t max_message = 0;
  Clock::duration timeout{};  ///< GSHMEM_TIMEOUT; zero = none
  /// Atomics are messages, which a queue's target takes in order: they may overlap.
  bool messages = false;
  /// Writes of words go as atomics. Where the provider's threads store them, a word that somebody
  /// has polled, taken and cleared may come back (Abilities::words). Host memory alone: a swap of
  /// half a word in a GPU's would lose what a kernel stores to the other half.
  bool words = false;
  /// A target counts the immediates of writes (Operation::group).
  bool immediates = false;
  /// The memory registered beside the heap that has these bytes; null: none.
  [[nodiscard]] const Memory* beside(std::uint64_t offset, std::uint64_t bytes) const {
    return offset < heap_bytes ? nullptr : memories.find(offset, bytes);
  }
};

/// How long an operation may take: somewhat less than GSHMEM_TIMEOUT. A PE that waits for this one
/// began to wait at about the same time as this one for the operation. It would give up at about
/// the same time, naming a PE that it reaches. So this one is first, and its news say who cannot be
/// reached; they take two tenths of a second (Peer::report_at, Pe::look_for_fault), and machines
/// are busy.
[[nodiscard]] inline Clock::duration operation_patience(Clock::duration timeout) {
  return timeout - std::min<Clock::duration>(timeout / 8, std::chrono::seconds(2));
}

/// A doorbell that was not rung since it was looked at; a number that no queue has.
inline constexpr std::uint64_t kNotRung = ~std::uint64_t{0};

/// Operations of one queue under way, in order.
class Ring {
 public:
  /// Enough to keep a connection busy, few enough that one queue does not take all operations.
  /// Fewer than there are groups.
  static constexpr std::size_t kPlaces = 64;

  [[nodiscard]] bool empty() const { return size_ == 0; }
  [[nodiscard]] bool full() const { return size_ == kPlaces; }
  [[nodiscard]] std::size_t size() const { return size_; }
  [[nodiscard]] Operation*& operator[](std::size_t i) { return places_[(first_ + i) % kPlaces]; }
  [[nodiscard]] Operation* operator[](std::size_t i) const {
    return places_[(first_ + i) % kPlaces];
  }
  [[nodiscard]] Operation* front() const { return (*this)[0]; }
  void push_back(Operation* operation) { (*this)[size_++] = operation; }
  void pop_front() {
    ++first_;
    --size_;
  }
  void shrink(std::size_t size) { size_ = size; }

 private:
  std::size_t first_ = 0, size_ = 0;
  std::array<Operation*, kPlaces> places_;
};

class WorkQueue final : private OperationOwner {
 public:
  /// `memory` is the region of all queues.
  WorkQueue(const nic::Region& memory, const nic::QueuePlace& place, std::uint32_t number);

  /// `twin`: the queue at the other end, by its order there.
  void connect(Peer& peer, std::uint32_t twin) {
    peer_ = &peer;
    outbound_.twin = twin;
  }
  [[nodiscard]] std::uint32_t number() const { return number_; }
  [[nodiscard]] Peer& peer() const { return *peer_; }
  /// Gets the queue whenever there is something for step() to do. Also before the first step.
  void list_in(std::vector<WorkQueue*>& ready) { ready_ = &ready; }
  /// Unless it is in the list already.
  void list() {
    if (!listed_) ready_->push_back(this);
    listed_ = true;
  }

  [[nodiscard]] bool listed() const { return listed_; }
  void stays_listed() { listed_ = true; }  ///< in another list

  /// The doorbell has been rung.
  void rung(std::uint64_t value);
  /// Does what can be done now. Takes the queue off the list.
  void step(QueueServices& services, Clock::time_point now);
  /// An engine has taken something of it in the last step().
  [[nodiscard]] bool served() const { return served_; }
  /// Something was not taken for lack of places: to be tried again.
  [[nodiscard]] bool hungry() const { return hungry_; }
  /// Finds out what takes too long, and what a lost peer has.
  void find_overdue(const QueueServices& services, Clock::time_point now);
  /// When the operation that has been under way longest was taken by an engine; nothing when none
  /// is.
  [[nodiscard]] std::optional<Clock::time_point> waiting_since() const;

 private:
  using State = Operation::State;

  void changed(Operation& operation) override;
  [[nodiscard]] unsigned& under_way(const Operation& operation);
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

  std::uint64_t rung_ = 0;     ///< entries that the doorbell has announced
  std::uint64_t next_ = 0;     ///< entry to fetch next
  std::uint64_t retired_ = 0;  ///< entries whose WQEs have ended
  Ring operations_;            ///< fetched and not retired, in order
  std::size_t issued_ = 0;     ///< the first so many of them need nothing more
  struct UnderWay {
    unsigned writes = 0, grouped = 0, reads = 0, atomics = 0;
    [[nodiscard]] unsigned all() const { return writes + grouped + reads + atomics; }
  };
  UnderWay under_way_;
  std::uint8_t next_group_ = 0;  ///< goes round (kGroupShift)
  std::uint32_t pieces_ = 0;     ///< that bear the group of the next atomic
  std::vector<WorkQueue*>* ready_ = nullptr;
  bool listed_ = false, served_ = false, hungry_ = false;
  bool closed_ = false;  ///< a fetched WQE has failed: fetch no more
  bool failed_ = false;  ///< the error has been written
  std::string doorbell_error_;
};

}  // namespace gshmem::ofi
