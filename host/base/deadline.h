// A point in time at which a wait gives up. Included by every bootstrap: each public call makes one
// from its timeout, so nested waits share the same end. 0 seconds = never.
#pragma once

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <mutex>

namespace gshmem {

class Deadline {
 public:
  using Clock = std::chrono::steady_clock;

  explicit Deadline(double seconds)
      : at_(seconds <= 0 || seconds > kForever ? Clock::time_point::max()
                                               : Clock::now() + to_duration(seconds)) {}
  [[nodiscard]] bool never() const noexcept { return at_ == Clock::time_point::max(); }
  [[nodiscard]] bool passed() const { return !never() && Clock::now() >= at_; }

  /// Returns this deadline, or `seconds` from now if that is sooner.
  [[nodiscard]] Deadline within(double seconds) const {
    Deadline sooner(seconds);
    sooner.at_ = std::min(sooner.at_, at_);
    return sooner;
  }

  /// Requires a deadline that is not "never".
  [[nodiscard]] double seconds_left() const {
    return std::max(0.0, std::chrono::duration<double>(at_ - Clock::now()).count());
  }

  /// Returns the milliseconds left for poll(2): -1 = no end, 0 = passed. A started millisecond
  /// counts as a whole one.
  [[nodiscard]] int poll_ms() const {
    if (never()) return -1;
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(at_ - Clock::now()).count();
    return static_cast<int>(std::clamp<long long>(left, 0, kMaxPollMs));
  }

  /// Waits until `ready()` is true; returns false when the deadline passed first.
  template <class Ready>
  [[nodiscard]] bool wait(std::condition_variable& changed, std::unique_lock<std::mutex>& lock,
                          Ready ready) const {
    if (!never()) return changed.wait_until(lock, at_, ready);
    changed.wait(lock, ready);
    return true;
  }

 private:
  // Three years; with larger values time_point arithmetic may overflow.
  static constexpr double kForever = 1e8;
  static constexpr long long kMaxPollMs = 1000 * 3600;
  static Clock::duration to_duration(double seconds) {
    return std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds));
  }
  Clock::time_point at_;
};

/// Returns the sooner of two timeouts for poll(2), where -1 is later than all others.
[[nodiscard]] inline int sooner_ms(int one, int other) {
  return static_cast<int>(std::min(static_cast<unsigned>(one), static_cast<unsigned>(other)));
}

}  // namespace gshmem
