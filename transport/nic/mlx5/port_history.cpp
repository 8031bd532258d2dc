#include "transport/nic/mlx5/port_history.h"

#include "host/base/error.h"

#include <ctime>

namespace gshmem::nic::mlx5 {
namespace {

double seconds(PortHistory::Clock::duration time) {
  return std::chrono::duration<double>(time).count();
}

std::string clock_text(PortHistory::Clock::time_point when) {
  const std::time_t time = PortHistory::Clock::to_time_t(when);
  std::tm local{};
  localtime_r(&time, &local);
  return strprintf("%02d:%02d:%02d", local.tm_hour, local.tm_min, local.tm_sec);
}

}  // namespace

void PortHistory::went_down(Clock::time_point when) {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (down_) return;
  down_ = true;
  ++times_;
  since_ = when;
}

std::optional<double> PortHistory::came_up(Clock::time_point when) {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (!down_) return {};
  down_ = false;
  until_ = when;
  return seconds(until_ - since_);
}

void PortHistory::changed(Clock::time_point when, const std::string& what) {
  const std::lock_guard<std::mutex> lock(mutex_);
  changed_at_ = when;
  change_ = what;
}

std::string PortHistory::text() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  std::string text;
  if (down_) {
    text = "is down since " + clock_text(since_);
  } else if (times_ > 0) {
    text = strprintf("was down for %.3g s at %s", seconds(until_ - since_),
                     clock_text(since_).c_str());
  }
  if (times_ > 1) text += strprintf(" (%d times in all)", times_);
  if (!change_.empty())
    text += (text.empty() ? "" : ", ") + change_ + " at " + clock_text(changed_at_);
  return text;
}

}  // namespace gshmem::nic::mlx5
