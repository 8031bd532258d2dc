// Errors that no completion carries: port down, device reset, a queue pair that the other end
// broke. One thread per Nic that sleeps in poll(2) until the device or stop() wakes it. Included by
// mlx5_nic. Invariant: after stop() the thread has ended and no callback runs.
#pragma once

#include "host/base/fd.h"
#include "transport/nic/mlx5/device.h"

#include <cstdint>
#include <functional>
#include <string>
#include <thread>

namespace gshmem::nic::mlx5 {

struct Event {
  std::string text;
  int queue = -1;        ///< index of the queue that it is about
  bool refusal = false;  ///< of a request that the other end of the queue has sent
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
  void read_device_events();
  void subscribe(mlx5dv_devx_obj* object, std::uint16_t event, int queue);

  const Device& device_;
  Callback on_event_;
  OwnedEventChannel channel_;
  Fd wake_;
  std::thread thread_;
};

/// The meaning of an asynchronous event of the port or device, with what to do; empty for
/// those that are no error.
[[nodiscard]] std::string event_words(ibv_event_type type, const std::string& device);

}  // namespace gshmem::nic::mlx5
