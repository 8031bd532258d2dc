// The faults that a PE knows of: its own and those that other PEs report. It records the first one,
// logs it, notifies the other PEs, and ends the job if GSHMEM_FAULT says so. Included by Pe.
// Invariants: a fault ends waits only after it is recorded. The other PEs receive the cause before
// this process ends because of it.
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
  /// Returns the whole message of a fault that device code has recorded.
  using Text = std::function<std::string(const abi::FaultRecord& record)>;
  /// All arguments outlive this object.
  Faults(const abi::DeviceState& state, bootstrap::Bootstrap& boot, Text text)
      : state_(state), boot_(boot), text_(std::move(text)) {}
  /// Sets the control plane, by which the other PEs are notified.
  void set_plane(control::Plane& plane) { plane_ = &plane; }
  /// Says that the job has a network path. Then a barrier promises more than a stopped PE can
  /// guarantee. So a stopped PE reports once that it is stopped, and takes part in no more
  /// collectives.
  void set_network_path() { nic_path_ = true; }
  /// Says that this PE is in finalize: other PEs may leave, and no fault ends the job.
  void leave() { leaving_.store(true, std::memory_order_release); }

  /// Who already knows about a fault. kHere: only this PE. kByPeer: also PE `pe`, whose NIC reports
  /// it. kByAll: all PEs.
  enum class KnownTo { kHere, kByPeer, kByAll };
  /// Records a fault that the host found, about PE `pe` (-1 = none); ends the job with
  /// GSHMEM_FAULT=abort.
  void raise(const Error& error, int pe = -1, KnownTo known = KnownTo::kHere) noexcept;
  /// Returns the first fault, or false. The message is complete.
  [[nodiscard]] bool last(gshmemx_fault_t* info) const;
  /// Has a fault stopped this PE?
  [[nodiscard]] bool stopped() const noexcept;
  /// Must waits of this PE end? Threads: any, also before there is memory.
  [[nodiscard]] bool ends_waits() const noexcept;
  /// Throws the fault that has stopped this PE, in a job with a network path.
  void require_running() const;
  /// Throws the recorded fault if `status` is an error.
  void require_complete(int status) const;

  // Called on the monitor's thread.
  /// Called ten times a second: logs a fault that device code has recorded, which no call may ever
  /// return, notifies the other PEs, and ends the job with GSHMEM_FAULT=abort. In CPU mode the
  /// thread that recorded the fault ends the job.
  void poll_record(bool on_gpu) noexcept;
  void on_peer_news(const control::PeerNews& news) noexcept;

  /// Logs the fault that device code has recorded, once. Called on the monitor's thread or after
  /// its end.
  void log_once() noexcept;
  /// Notifies the peers that this PE is stopped, in a job with a network path.
  void notify_peers() noexcept;
  /// Reports the recorded fault and ends the job.
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
  std::atomic<bool> peers_notified_{false};
  std::atomic<bool> peer_failed_{false};
  bool logged_ = false;
  bool ending_logged_ = false;  ///< guarded by mutex_: several threads may end the job at once
  std::optional<Deadline> peer_reports_;  ///< time limit for the peer's own report
  mutable std::mutex mutex_;
  std::string by_host_;  ///< message of a fault that the host found
  KnownTo known_to_ = KnownTo::kHere;
};

}  // namespace gshmem
