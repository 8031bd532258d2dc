// Collectives of the host threads of a job: over a board of shared memory inside a host, and from
// host to host by their first PEs, over the tree that their monitors are. Included by the plane. A
// call that fails has its cause, and every later one fails the same way.
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
    /// To the tree; as of it.
    std::function<void(const net::Frame& contribution_or_part)> contribute;
    std::function<void(std::uint64_t number)> expired;
    /// Why not to wait any longer; empty = there is no reason.
    std::function<std::string()> stopped;
    /// A call has waited for so long, for PE `pe` where that is known (else -1): after 0.3 s, 30 s,
    /// and then each time twice as long. On the waiting thread.
    std::function<void(double seconds, int pe)> waits_long = [](double, int) {};
  };
  /// Bytes of a board for the PEs of a host of `group`.
  [[nodiscard]] static std::size_t board_bytes(const HostGroup& group);
  /// `memory`: of a board, zero before the first PE of the host comes. All outlive this object.
  HostCollectives(const HostGroup& group, void* memory, Outside outside);

  int rank() const noexcept override { return group_.me(); }
  int size() const noexcept override { return static_cast<int>(order_.size()); }
  // Errors: GSHMEMX_ERROR_TIMEOUT naming a PE that is missing, GSHMEMX_ERROR_PEER_FAILED.
  void allgather(const void* send, void* recv, std::size_t bytes) override;
  void alltoall(const void* send, void* recv, std::size_t bytes) override;
  /// 0 = wait for ever.
  void set_timeout(double seconds) { timeout_seconds_ = seconds; }

  /// The collective in which a thread of this PE is, 0 = none; and the last to which this PE has
  /// come. Threads: any.
  [[nodiscard]] std::uint64_t waits_in() const { return waits_in_.load(std::memory_order_relaxed); }
  [[nodiscard]] std::uint64_t come_to() const { return come_to_.load(std::memory_order_relaxed); }

  // For the monitor, on its thread.
  void deliver(const net::Frame& result_missing_or_part);
  /// A PE of this host that has not come to collective `number`; -1 = all have. Threads: any.
  [[nodiscard]] int missing_here(std::uint64_t number) const;

 private:
  /// Of what a PE brings, the bytes that are for PE r: `bytes` from r * `step` on.
  struct Part {
    std::size_t step, bytes;
    /// What of it is in a piece of `size` bytes at `at`, from the piece's beginning.
    struct Span {
      std::size_t begin, end;
    };
    [[nodiscard]] Span in_piece(int pe, std::size_t at, std::size_t size) const;
  };
  /// The first error is that of every later call.
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

  /// How a result begins on the board; rows of `width` bytes follow, or one if they are alike.
  struct ResultHead {
    std::uint64_t width, alike;
  };

  const HostGroup& group_;
  Board board_;
  Outside outside_;
  std::function<bool()> interrupted_;
  std::vector<int> order_;   ///< of PEs, as the tree has their rows
  std::size_t piece_bytes_;  ///< of a PE
  double timeout_seconds_ = 0;
  std::atomic<std::uint64_t> waits_in_{0}, come_to_{0};
  JobFailure failure_;
  /// The alltoall that this PE is in, between hosts.
  struct Parts {
    std::uint64_t number = 0;  ///< of the collective in which all have come; 0 = there is none
    char* to = nullptr;
    std::size_t bytes = 0;      ///< of a part
    std::vector<bool> missing;  ///< by PE
    std::size_t n_missing = 0;
  };
  Parts parts_;
  std::mutex parts_mutex_;
  std::condition_variable part_came_;
};

}  // namespace gshmem::control
