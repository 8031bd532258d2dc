// The root service: one thread of the process that made a unique id. It accepts the ranks, gathers
// and distributes their first addresses, and notifies all of them when one has died. A stranger
// that connects to its port costs it a descriptor for a while and nothing else. Included by
// uid.cpp.
#pragma once

#include "bootstrap/uid/job.h"

#include "host/base/deadline.h"
#include "host/base/fd.h"
#include "host/base/net/greeting.h"
#include "host/base/net/socket.h"

#include <poll.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

namespace gshmem::bootstrap {

class RootService {
 public:
  struct Setup {
    net::Secret secret;     ///< secret that a rank has to prove to know
    bool one_user = false;  ///< callers on this host must have this process's user
    std::string where{};    ///< see Job
    /// How long late ranks of a failed job are still told the reason, in seconds.
    double linger = 0;
    Deadline alone{0};  ///< when a service that no rank has joined ends
    double alone_seconds = 0;
  };
  /// Serves one job on `listeners`, which are closed when all ranks have joined.
  RootService(std::vector<net::Listener> listeners, const Setup& setup, Fd wake);
  RootService(const RootService&) = delete;
  RootService& operator=(const RootService&) = delete;
  /// Notifies the ranks that are left, sends queued frames (for a few seconds at most), and ends.
  ~RootService();

  /// Has the thread ended, because all ranks have left?
  [[nodiscard]] bool ended() const noexcept { return ended_.load(std::memory_order_acquire); }
  /// Is this the service with that secret, and does its thread run in this process (not in the
  /// parent of a fork)?
  [[nodiscard]] bool serves(const net::Secret& secret) const;

 private:
  net::Secret secret_;
  Fd wake_;                         ///< eventfd: tells the thread to end
  std::uint32_t forks_;             ///< fork_count() of the process that has the thread
  std::atomic<bool> ended_{false};  // a release store at the thread's end; acquired by ended()
  std::unique_ptr<std::thread> thread_;
};

/// The root services of this process. They end with their jobs, at the latest at process exit.
class RootRegistry {
 public:
  static RootRegistry& get();
  RootRegistry();
  ~RootRegistry();
  RootRegistry(const RootRegistry&) = delete;
  void start(std::vector<net::Listener> listeners, const RootService::Setup& setup);
  /// Starts a service when its first rank connects: one thread waits for the first ranks of all
  /// unique ids.
  void start_when_called(std::vector<net::Listener> listeners, const RootService::Setup& setup);
  [[nodiscard]] bool serves(const net::Secret& secret);

 private:
  struct Unused {
    std::vector<net::Listener> listeners;
    RootService::Setup setup;
    Fd wake;  ///< eventfd of the service
  };
  void watch();
  void watch_once(std::vector<pollfd>& entries);
  void start_called(const std::vector<pollfd>& entries);

  std::mutex mutex_;  ///< guards the members below
  std::vector<std::unique_ptr<RootService>> services_;
  std::vector<Unused> unused_;
  std::uint32_t forks_ = 0;  ///< fork_count() of the process that has the thread
  bool watching_ = false, ending_ = false;
  Fd wake_;  ///< eventfd: there is a new id, or the thread has to end
  std::unique_ptr<std::thread> watcher_;
};

}  // namespace gshmem::bootstrap
