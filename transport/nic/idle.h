// How a thread that polls memory waits: GPUs cannot wake host threads, so it must look again and
// again, and yet not keep a core from those who work. It spins while there is traffic, then yields,
// then sleeps, longer the longer nothing comes.
#pragma once

#include <chrono>
#include <thread>

namespace gshmem::nic {

class Idle {
 public:
  /// After a round that found work.
  void busy() noexcept { rounds_ = 0; }
  /// After a round that found none. Sleeps at most kLongestSleep.
  void wait() {
    if (rounds_ < kSpins + kYields) ++rounds_;
    if (rounds_ <= kSpins) return;
    if (rounds_ < kSpins + kYields) {
      std::this_thread::yield();
      sleep_ = kShortestSleep;
      return;
    }
    std::this_thread::sleep_for(sleep_);
    sleep_ = sleep_ * 2 < kLongestSleep ? sleep_ * 2 : kLongestSleep;
  }

  static constexpr std::chrono::microseconds kShortestSleep{5}, kLongestSleep{50};

 private:
  static constexpr int kSpins = 200, kYields = 100;
  int rounds_ = 0;
  std::chrono::microseconds sleep_ = kShortestSleep;
};

}  // namespace gshmem::nic
