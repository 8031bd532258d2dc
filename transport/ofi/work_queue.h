// One work queue as the executor sees it: fetches entries after a doorbell, checks them, has
// engines carry them out, and writes completions. The order is that of a reliable connection
// (InfiniBand specification, table of ordering rules in section 10.8.3.3). Used by the executor's
// thread. Invariant: operations retire in the order of their entries, the completion holds the
// first error for ever, and nothing after an error is issued.
#pragma once

#include "transport/nic/nic.h"
#include "transport/ofi/operation.h"

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <vector>

namespace gshmem::ofi {

/// Services that all queues of a PE share.
struct QueueServices {
  Engine& data;     ///< writes and reads
  Engine& atomics;  ///< may be the same
  OperationPool& operations;
  std::uint64_t heap_bytes = 0;
  std::uint32_t local_key = 0;
  std::uint32_t max_message = 0;
  Clock::duration timeout{};  ///< GSHMEM_TIMEOUT; zero = none
};

/// How long an operation may take: somewhat less than GSHMEM_TIMEOUT. A PE that waits for this one
/// began to wait at about the same time as this one for the operation. It would give up at about
/// the same time, naming a PE that it reaches. So this one is first, and its news say who cannot be
/// reached; they take two tenths of a second (Peer::report_at, Pe::look_for_fault), and machines
/// are busy.
[[nodiscard]] inline Clock::duration operation_patience(Clock::duration timeout) {
  return timeout - std::min<Clock::duration>(timeout / 8, std::chrono::seconds(2));
}

class WorkQueue {
 public:
  /// `memory` is the region of all queues; `doorbell` this queue's word.
  WorkQueue(const nic::Region& memory, const nic::QueuePlace& place, std::uint32_t number,
            std::uint64_t* doorbell);

  void connect(Peer& peer) { peer_ = &peer; }
  [[nodiscard]] std::uint32_t number() const { return number_; }
  [[nodiscard]] const Peer& peer() const { return *peer_; }

  /// Does what can be done now; true when there was something.
  bool step(QueueServices& services, Clock::time_point now);
  /// An engine has taken something of it in the last step().
  [[nodiscard]] bool served() const { return served_; }
  /// When the operation that has been under way longest was taken by an engine; nothing when none
  /// is.
  [[nodiscard]] std::optional<Clock::time_point> waiting_since() const;
  [[nodiscard]] bool idle() const { return operations_.empty(); }

 private:
  bool read_doorbell();
  bool fetch(QueueServices& services);
  /// Copies the entries of the next WQE out of the queue.
  [[nodiscard]] std::vector<std::uint8_t> copy_entries();
  [[nodiscard]] Failure check(const nic::Wqe& wqe, const QueueServices& services) const;
  [[nodiscard]] Failure check_local(const nic::Wqe& wqe, const QueueServices& services) const;
  [[nodiscard]] Failure check_remote(const nic::Wqe& wqe, const QueueServices& services) const;
  bool issue(QueueServices& services, Clock::time_point now);
  void hand_on(Operation& operation, QueueServices& services, Clock::time_point now);
  void find_overdue(const QueueServices& services, Clock::time_point now);
  bool retire(QueueServices& services);
  void complete(const Operation& operation);
  void reap(QueueServices& services);

  std::uint8_t* entries_;
  std::uint8_t* completion_;
  std::uint64_t* doorbell_;
  std::uint32_t depth_, number_;
  Peer* peer_ = nullptr;

  std::uint64_t rung_ = 0;                  ///< entries that the doorbell has announced
  std::uint64_t next_ = 0;                  ///< entry to fetch next
  std::uint64_t retired_ = 0;               ///< entries whose WQEs have ended
  std::uint64_t seen_ = ~std::uint64_t{0};  ///< last doorbell value
  std::deque<Operation*> operations_;       ///< fetched and not retired, in order
  bool served_ = false;
  bool closed_ = false;  ///< a fetched WQE has failed: fetch no more
  bool failed_ = false;  ///< the error has been written
  std::string doorbell_error_;
};

}  // namespace gshmem::ofi
