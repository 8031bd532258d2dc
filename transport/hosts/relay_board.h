// The board of a job on several hosts: what p2p::Board's shared memory does on one host, by frames
// that the monitor moves. Fractions of a millisecond, no polling.
#pragma once

#include "transport/hosts/frame_stream.h"
#include "transport/p2p/board.h"

#include <condition_variable>
#include <mutex>

namespace gshmem::hosts {

class RelayBoard final : public p2p::Board {
 public:
  /// To the monitor, which exists when the first collective is called.
  struct Channel {
    std::function<void(std::uint64_t sequence, std::span<const char> data)> contribute;
    std::function<void(std::uint64_t sequence)> expired;
  };
  RelayBoard(int n_pes, Channel channel, std::function<bool()> stopped)
      : n_pes_(n_pes), channel_(std::move(channel)), stopped_(std::move(stopped)) {}

  void allgather(const void* send, void* recv, std::size_t bytes, double timeout_seconds) override;
  /// A kResult or kMissing. Threads: the monitor's.
  void deliver(const Frame& frame);

 private:
  static constexpr std::size_t kPieceBytes = 256;  ///< of a PE: frames have a limit
  void await_result(std::span<const char> mine, double timeout_seconds);
  void copy_result(char* recv, std::size_t bytes, std::size_t step) const;
  [[noreturn]] void throw_timeout(double timeout_seconds) const;

  int n_pes_;
  Channel channel_;
  std::function<bool()> stopped_;
  std::uint64_t sequence_ = 0;
  std::mutex mutex_;
  std::condition_variable changed_;
  Frame result_, missing_;  ///< the newest
};

}  // namespace gshmem::hosts
