// Handles events that no completion reports: a device that is reset or gone, a queue pair that the
// peer broke, and state changes of the port. Each Nic has one thread, which sleeps in poll(2) until
// the device or stop() wakes it. Included by mlx5_nic. Invariant: after stop() the thread has ended
// and no callback runs.
#pragma once

#include "host/base/fd.h"
#include "transport/nic/mlx5/device.h"

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <thread>

namespace gshmem::nic::mlx5 {

struct Event {
  enum class Kind {
    kFault,
    kRefusal,   ///< this NIC refused a request from the other end of the queue
    kPortDown,  ///< this and the next are not errors by themselves
    kPortUp,
    kPortChange  ///< a property that connections depend on has changed
  };
  Kind kind = Kind::kFault;
  std::string text{};  ///< kPortChange: what has changed
  int queue = -1;      ///< index of the queue that the event concerns
  [[nodiscard]] bool of_port() const { return kind >= Kind::kPortDown; }
};

class EventThread {
 public:
  using Callback = std::function<void(const Event& event)>;
  EventThread(const Device& device, Callback on_event);
  EventThread(const EventThread&) = delete;
  ~EventThread() { stop(); }

  /// Subscribes to the events of a queue. If the library or the device has no DevX events, they are
  /// not detected, and the completions at the other end report the error.
  void watch(int queue, mlx5dv_devx_obj* qp, mlx5dv_devx_obj* cq) noexcept;
  void start();
  void stop() noexcept;

 private:
  void run() noexcept;
  void read_verbs_events();
  [[nodiscard]] std::string lid_text() const;
  void read_device_events();
  void subscribe(mlx5dv_devx_obj* object, std::uint16_t event, int queue);

  const Device& device_;
  Callback on_event_;
  OwnedEventChannel channel_;
  Fd wake_;
  std::thread thread_;
};

/// Returns the meaning of an asynchronous event of the port or device; nothing for events that do
/// not affect connections.
[[nodiscard]] std::optional<Event> event_of(ibv_event_type type, const std::string& device);

}  // namespace gshmem::nic::mlx5
