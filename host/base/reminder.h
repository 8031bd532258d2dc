// Decides when a long wait is reported: after some seconds, after 30 s, and from then on each time
// after twice as long. Included by code that waits for other PEs on host threads.
#pragma once

#include <algorithm>
#include <chrono>

namespace gshmem {

class Reminder {
 public:
  static constexpr double kSeconds = 30;

  explicit Reminder(double first = kSeconds) : seconds_(first) {}
  /// Returns how long the wait has taken when it is reported next.
  [[nodiscard]] double seconds() const { return seconds_; }
  /// Returns the time until the next report, more than 0.
  [[nodiscard]] double seconds_left() const { return std::max(seconds_ - waited(), 1e-3); }
  [[nodiscard]] bool due() const { return waited() >= seconds_; }
  void next() { seconds_ = std::max(kSeconds, 2 * seconds_); }

 private:
  using Clock = std::chrono::steady_clock;
  [[nodiscard]] double waited() const {
    return std::chrono::duration<double>(Clock::now() - begun_).count();
  }
  Clock::time_point begun_ = Clock::now();
  double seconds_;
};

}  // namespace gshmem
