// Records events of a port since it was opened that may explain a failure: a link that went down
// and came up, a new LID. Retries of connections bridge most of these, so they are not errors.
// Included by mlx5_nic. Threads: any.
#pragma once

#include <chrono>
#include <mutex>
#include <optional>
#include <string>

namespace gshmem::nic::mlx5 {

class PortHistory {
 public:
  using Clock = std::chrono::system_clock;  // users compare the times with those of switches

  void went_down(Clock::time_point when);
  /// Returns how long it was down, in seconds; nothing when it was not down.
  std::optional<double> came_up(Clock::time_point when);
  /// Records any other event, for example "got LID 9 for LID 7"; only the last one is kept.
  void changed(Clock::time_point when, const std::string& what);

  /// Returns for example "is down since 12:03:05", "was down for 0.8 s at 12:03:05 (3 times in
  /// all), got LID 9 for LID 7 at 12:03:06"; empty when there was no event.
  [[nodiscard]] std::string text() const;

 private:
  mutable std::mutex mutex_;
  bool down_ = false;
  int times_ = 0;  ///< number of times that it went down
  Clock::time_point since_{}, until_{}, changed_at_{};
  std::string change_;
};

}  // namespace gshmem::nic::mlx5
