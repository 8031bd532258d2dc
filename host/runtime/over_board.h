// The board of a job as a Bootstrap: for init on one host, where it is in shared memory, and for
// what needs one after init. Included by the PE.
#pragma once

#include "bootstrap/bootstrap.h"
#include "transport/p2p/board.h"

namespace gshmem {

class OverBoard final : public bootstrap::Bootstrap {
 public:
  /// `below`, or null: the bootstrap of the same ranks, which knows who has died and why. Both live
  /// longer.
  OverBoard(p2p::Board& board, int rank, int size, double timeout, bootstrap::Bootstrap* below)
      : board_(board), rank_(rank), size_(size), timeout_(timeout), below_(below) {}
  int rank() const noexcept override { return rank_; }
  int size() const noexcept override { return size_; }
  const char* name() const noexcept override { return "board"; }
  void allgather(const void* send, void* recv, std::size_t bytes) override {
    explained([&] { board_.allgather(send, recv, bytes, timeout_); });
  }
  void alltoall(const void* send, void* recv, std::size_t bytes) override {
    explained([&] {
      if (!board_.alltoall(send, recv, bytes, timeout_)) Bootstrap::alltoall(send, recv, bytes);
    });
  }
  void barrier() override {
    explained([&] { board_.barrier(timeout_); });
  }
  void abort(int code, std::string_view reason) noexcept override {
    if (below_) below_->abort(code, reason);
  }

 private:
  /// All that are left come to a barrier that fails with the cause.
  template <class Call>
  void explained(const Call& call) {
    try {
      call();
    } catch (const Error& error) {
      if (below_ && error.code() == GSHMEMX_ERROR_PEER_FAILED) below_->barrier();
      throw;
    }
  }

  p2p::Board& board_;
  int rank_, size_;
  double timeout_;
  bootstrap::Bootstrap* below_;
};

}  // namespace gshmem
