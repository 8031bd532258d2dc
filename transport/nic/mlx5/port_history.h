// Events of a port since it was opened that may explain a failure: a link that went down
// and came up, another LID. Retries of connections ride most of it out, so none of it is an error.
// Included by mlx5_nic. Threads: any.
#pragma once

#include <chrono>
#include <mutex>
#include <optional>
#include <string>

namespace gshmem::nic::mlx5 {

class PortHistory {
 public:
  using Clock = std::chrono::system_clock;  // people compare it with what switches say

  void went_down(Clock::time_point when);
  /// Returns how long it was down, in seconds; nothing when it was not.
  std::optional<double> came_up(Clock::time_point when);
  /// Anything else, "got LID 9 for LID 7": the last one is kept.
  void changed(Clock::time_point when, const std::string& what);

  /// "is down since 12:03:05", "was down for 0.8 s at 12:03:05 (3 times in all), got LID 9 for LID
  /// 7 at 12:03:06"; empty when there was nothing.
  [[nodiscard]] std::string text() const;

 private:
  mutable std::mutex mutex_;
  bool down_ = false;
  int times_ = 0;  ///< down
  Clock::time_point since_{}, until_{}, changed_at_{};
  std::string change_;
};

}  // namespace gshmem::nic::mlx5
