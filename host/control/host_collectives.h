// Collectives of the host threads of a job. Inside a host they use a board in shared memory. The
// first PE of each host exchanges data with other hosts over the tree that the monitors form.
// Included by the plane. After a call has failed, every later call fails with the same error.
#pragma once

#include "host/base/board.h"
#include "host/base/collectives.h"
#include "host/base/failure.h"
#include "host/control/tree.h"

#include <atomic>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <string>
#include <vector>

namespace gshmem::control {

class HostCollectives final : public Collectives {
 public:
  struct Outside {
    /// Passes a frame to the tree (see Tree::contribute).
    std::function<void(const net::Frame& contribution_or_part)> contribute;
    std::function<void(std::uint64_t number)> expired;
    /// Returns the reason to stop waiting, or an empty text when there is none.
    std::function<std::string()> stopped;
    /// Is called on the waiting thread when a call has waited for `seconds`: after 0.3 s, after 30
    /// s, and then after twice the previous time. `pe` is the PE that it waits for, or -1 if that
    /// is unknown.
    std::function<void(double seconds, int pe)> waits_long = [](double, int) {};
  };
  /// Returns the size in bytes of a board for the PEs of one host of `group`.
  [[nodiscard]] static std::size_t board_bytes(const HostGroup& group);
  /// `memory` holds the board. It must be zero before the first PE of the host uses it. All
  /// arguments outlive this object.
  HostCollectives(const HostGroup& group, void* memory, Outside outside);

  int rank() const noexcept override { return group_.me(); }
  int size() const noexcept override { return static_cast<int>(order_.size()); }
  // Errors: GSHMEMX_ERROR_TIMEOUT, which names a missing PE; GSHMEMX_ERROR_PEER_FAILED.
  void allgather(const void* send, void* recv, std::size_t bytes) override;
  void alltoall(const void* send, void* recv, std::size_t bytes) override;
  /// 0 means that calls wait for ever.
  void set_timeout(double seconds) { timeout_seconds_ = seconds; }

  /// waits_in() is the number of the collective in which a thread of this PE waits, or 0. come_to()
  /// is the number of the last collective that this PE entered. Threads: any.
  [[nodiscard]] std::uint64_t waits_in() const { return waits_in_.load(std::memory_order_relaxed); }
  [[nodiscard]] std::uint64_t come_to() const { return come_to_.load(std::memory_order_relaxed); }

  // The monitor calls this on its thread.
  void deliver(const net::Frame& result_missing_or_part);
  /// Returns a PE of this host that has not entered collective `number`, or -1 when all have.
  /// Threads: any.
  [[nodiscard]] int missing_here(std::uint64_t number) const;

 private:
  /// Describes which bytes of a PE's data are for PE r: `bytes` bytes at offset r * `step`.
  struct Part {
    std::size_t step, bytes;
    /// The range of the part that is in the chunk of `size` bytes at offset `at`, relative to the
    /// start of the chunk.
    struct Span {
      std::size_t begin, end;
    };
    [[nodiscard]] Span in_piece(int pe, std::size_t at, std::size_t size) const;
  };
  /// Runs `call`. The first error is thrown again by every later call.
  template <class Call>
  void attempt(const Call& call);
  void exchange(const char* send, std::size_t bytes, char* recv, Part part);
  void exchange_parts(const char* send, char* recv, std::size_t bytes);
  void await_parts();
  void take_part(const net::Frame& part);
  void bring_block();
  void take(char* recv, std::size_t at, std::size_t piece, const Part& part) const;
  template <class Wait>
  [[nodiscard]] Board::Waited await(const Deadline& deadline, const Wait& wait);
  void check(Board::Waited waited);
  [[nodiscard]] Board::Waited ask_who_is_missing();
  [[nodiscard]] bool one_host() const { return group_.n_nodes() == 1; }

  /// The head of a result on the board. One row of `width` bytes per PE follows it, or a single row
  /// if `alike` is set.
  struct ResultHead {
    std::uint64_t width, alike;
  };

  const HostGroup& group_;
  Board board_;
  Outside outside_;
  std::function<bool()> interrupted_;
  std::vector<int> order_;   ///< the PEs in the order in which the tree stores their rows
  std::size_t piece_bytes_;  ///< size of one PE's chunk
  double timeout_seconds_ = 0;
  std::atomic<std::uint64_t> waits_in_{0}, come_to_{0};
  JobFailure failure_;
  /// The state of the alltoall between hosts that this PE is in.
  struct Parts {
    /// Number of the collective that began the alltoall; 0 = no alltoall is active.
    std::uint64_t number = 0;
    char* to = nullptr;
    std::size_t bytes = 0;      ///< size of one part
    std::vector<bool> missing;  ///< by PE: its part has not arrived
    std::size_t n_missing = 0;
  };
  Parts parts_;
  std::mutex parts_mutex_;
  std::condition_variable part_came_;
};

}  // namespace gshmem::control
