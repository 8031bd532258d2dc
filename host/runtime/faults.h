// What a PE knows of faults: its own and those that other PEs tell of. It puts the first on record,
// says it, tells the other PEs, and ends the job where GSHMEM_FAULT asks for that. Included by Pe.
// Invariant: a wait ends for a fault when it is on record, and the others hear of a cause before
// this process ends for it.
#pragma once

#include <gshmem/abi/state.h>
#include <gshmem/gshmem.h>

#include "bootstrap/bootstrap.h"
#include "host/base/deadline.h"
#include "host/control/plane.h"

#include <atomic>
#include <functional>
#include <mutex>
#include <optional>
#include <string>

namespace gshmem {

class Faults {
 public:
  /// The whole message of what device code has recorded.
  using Text = std::function<std::string(const abi::FaultRecord& record)>;
  /// All outlive this object.
  Faults(const abi::DeviceState& state, bootstrap::Bootstrap& boot, Text text)
      : state_(state), boot_(boot), text_(std::move(text)) {}
  /// By which the other PEs are told.
  void set_plane(control::Plane& plane) { plane_ = &plane; }
  /// The job has a network path: a barrier promises what a stopped PE cannot keep. So such a PE
  /// says that it is stopped, once, and meets nobody any more.
  void set_network_path() { nic_path_ = true; }
  /// This PE is in finalize: other PEs may go, and no fault ends the job.
  void leave() { leaving_.store(true, std::memory_order_release); }

  /// Which PEs know of a fault: no other yet; PE `pe`, which learns it from its own NIC; all PEs.
  enum class Known { kHere, kByPeer, kByAll };
  /// Records a fault that the host found, about PE `pe` (-1 = none); ends the job under
  /// GSHMEM_FAULT=abort.
  void raise(const Error& error, int pe = -1, Known known = Known::kHere) noexcept;
  /// First fault, or false. The message is complete.
  [[nodiscard]] bool last(gshmemx_fault_t* info) const;
  /// A fault has stopped this PE.
  [[nodiscard]] bool stopped() const noexcept;
  /// This PE waits for nobody any more. Threads: any, also before there is memory.
  [[nodiscard]] bool ends_waits() const noexcept;
  /// Errors: that of the fault which has stopped this PE, in a job with a network path.
  void require_running() const;
  /// Errors: the fault on record, when `status` is one.
  void require_complete(int status) const;

  // On the monitor's thread.
  /// Ten times a second: says what device code recorded, which nobody else may ever ask for, tells
  /// the other PEs, and ends the job under abort. In CPU mode the thread that recorded it ends it.
  void look(bool on_gpu) noexcept;
  void hear(const control::PeerNews& news) noexcept;

  /// Logs what device code has recorded; the first time only. On the monitor's thread or after it.
  void say() noexcept;
  /// In a job with a network path, where this PE is stopped: it says so.
  void tell_peers() noexcept;
  /// Reports the fault on record and ends the job.
  [[noreturn]] void end_job() noexcept;
  [[noreturn]] void global_exit(int status) noexcept;

 private:
  [[noreturn]] void follow_exit(const control::PeerNews& news) noexcept;
  [[noreturn]] void end_job_because(const control::PeerNews& mine, int about, int status) noexcept;
  [[nodiscard]] bool ends_job() const noexcept;

  const abi::DeviceState& state_;
  bootstrap::Bootstrap& boot_;
  const Text text_;
  control::Plane* plane_ = nullptr;
  bool nic_path_ = false;
  std::atomic<bool> leaving_{false};
  std::atomic<bool> peers_told_{false};
  std::atomic<bool> peer_failed_{false};
  bool said_ = false;
  bool ending_said_ = false;            ///< under mutex_: several threads may end the job at once
  std::optional<Deadline> peer_tells_;  ///< until then
  mutable std::mutex mutex_;
  std::string by_host_;  ///< message of a fault that the host found
  Known known_ = Known::kHere;
};

}  // namespace gshmem
