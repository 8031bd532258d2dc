// A NIC on the delayed memory. It reads doorbells at any time, reads entries as memory shows them,
// executes them on the heaps of other PEs, and reports completions late and collapsed. It is
// strict: an entry that is missing, torn, or of the lap before ends the run. It reads entries with
// transport/nic/decode.h, which does not use device/network/wqe.h.
#pragma once

#include "tests/model/store_buffer/model.h"
#include "transport/nic/decode.h"

#include <gshmem/abi/queue_shape.h>
#include <gshmem/abi/state.h>

#include <cstdint>
#include <deque>
#include <functional>
#include <vector>

namespace gshmem::model {

struct NicOptions {
  View view = View::kSystem;  ///< its view of entries, records and the heap
  abi::Bell bell = abi::Bell::kWord;
  bool by_record = false;  ///< also reads the doorbell record unasked
  std::uint32_t depth = 0;
  std::uint32_t flags = 0;        ///< abi::NicFlags
  std::uint64_t fails_after = 0;  ///< WQEs until one fails; 0: no limit
  std::uint32_t max_message = 0;  ///< bytes of one WQE
  std::uint32_t rails = 1;        ///< queue i goes to the target's NIC i % rails
};

/// The heaps: of this PE, and of the others from kInternalBytes on.
struct Heaps {
  char* local = nullptr;
  std::uint64_t bytes = 0;
  std::vector<std::vector<char>> remote;  ///< by PE
};

class Nic {
 public:
  /// `on_atomic(pe, offset)` is called before an atomic is executed there.
  Nic(NicOptions options, Heaps& heaps, const std::vector<abi::QueueView>& queues,
      std::function<void(int, std::uint64_t)> on_atomic);
  /// The NIC's thread, which runs until all others have ended and all entries are consumed.
  void run();
  /// If PEs have several NICs: has queue `at` executed a READ after the entries before `position`?
  /// Until then their data may be pending there, after the data of another NIC.
  [[nodiscard]] bool flushed(std::size_t at, std::uint64_t position) const {
    return !(options_.flags & abi::kNicFlush) || sides_[at].flushed >= position;
  }
  /// Has an error been reported to any queue?
  [[nodiscard]] bool told_of_error() const { return told_; }
  /// Has an error of an entry before `position` been reported to queue `at`?
  [[nodiscard]] bool told_of_error(std::size_t at, std::uint64_t position) const {
    return sides_[at].told && sides_[at].bad < position;
  }

 private:
  /// Positions count entries from the queue's beginning.
  struct Side {
    std::uint64_t rung, recorded, consumed;
    std::uint64_t flushed = 0;  ///< the end of the entries before the last READ
    bool fetches = false;       ///< consumes now, or may
    bool failed = false;
    bool told = false;      ///< the CQ has shown that
    std::uint64_t bad = 0;  ///< first entry of the WQE that failed
    bool pending = false;   ///< a completion that the CQ does not show yet
    nic::Completion completion{};
  };
  /// Pending data of a READ or an atomic.
  struct Trailing {
    std::size_t queue;
    char* to;
    std::vector<std::uint8_t> data;
  };
  void look(std::size_t at);
  void look_at_record(std::size_t at);
  void consume(std::size_t at, std::uint64_t limit);
  nic::Wqe fetch(std::size_t at, std::uint64_t limit);
  void execute(std::size_t at, const nic::Wqe& wqe);
  void write(const abi::QueueView& queue, const nic::Wqe& wqe);
  void read(std::size_t at, const nic::Wqe& wqe);
  void atomic(std::size_t at, const nic::Wqe& wqe);
  void complete(std::size_t at, const nic::Wqe& wqe, std::uint8_t syndrome);
  void tell(std::size_t at);
  void bring(Trailing data);
  void arrive(std::size_t queue);
  const char* read_from(const abi::QueueView& queue, const nic::Wqe& wqe);
  char* remote(const abi::QueueView& queue, const nic::Wqe& wqe);
  char* local(const abi::QueueView& queue, const nic::LocalPiece& piece);
  [[nodiscard]] bool idle();
  void check_consumed() const;

  NicOptions options_;
  Heaps& heaps_;
  const std::vector<abi::QueueView>& queues_;
  std::function<void(int, std::uint64_t)> on_atomic_;
  std::vector<Side> sides_;
  std::deque<Trailing> trailing_;
  std::uint64_t executed_ = 0;
  bool told_ = false;
};

}  // namespace gshmem::model
