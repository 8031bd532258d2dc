// Events that no completion carries: a device that is reset or gone, a queue pair that the other
// end broke, and what becomes of the port. One thread per Nic that sleeps in poll(2) until the
// device or stop() wakes it. Included by mlx5_nic. Invariant: after stop() the thread has ended and
// no callback runs.
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
    kRefusal,   ///< of a request that the other end of the queue has sent
    kPortDown,  ///< this and the next: no errors by themselves
    kPortUp,
    kPortChange  ///< of what connections are made by
  };
  Kind kind = Kind::kFault;
  std::string text{};  ///< of a change: what has changed
  int queue = -1;      ///< index of the queue that it is about
  [[nodiscard]] bool of_port() const { return kind >= Kind::kPortDown; }
};

class EventThread {
 public:
  using Callback = std::function<void(const Event& event)>;
  EventThread(const Device& device, Callback on_event);
  EventThread(const EventThread&) = delete;
  ~EventThread() { stop(); }

  /// Asks for the events of a queue; where the library or device has no DevX events, they stay
  /// unseen and the completions of the other end tell.
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

/// The meaning of an asynchronous event of the port or device; none for those that mean nothing to
/// connections.
[[nodiscard]] std::optional<Event> event_of(ibv_event_type type, const std::string& device);

}  // namespace gshmem::nic::mlx5
