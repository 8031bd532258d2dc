// The root service: one thread of the process that made a unique id. It takes the ranks in, gathers
// and spreads their first addresses, and tells all of them when one is gone meanwhile.
// Strangers on its port cost it a descriptor for a while and nothing else. Included by uid.cpp.
#pragma once

#include "bootstrap/uid/job.h"

#include "host/base/deadline.h"
#include "host/base/fd.h"
#include "host/base/net/socket.h"

#include <poll.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

namespace gshmem::bootstrap {

class RootService {
 public:
  struct Setup {
    std::string secret;     ///< which a rank has to prove that it knows
    bool one_user = false;  ///< callers of this host have to be of this process's user
    std::string where{};    ///< as of Job
    double linger = 0;      ///< seconds that late ranks of a job that failed are told why
    Deadline alone{0};      ///< when a service that no rank has joined ends
    double alone_seconds = 0;
  };
  /// Serves one job on `listeners`, which are closed when all ranks have joined.
  RootService(std::vector<net::Listener> listeners, const Setup& setup, Fd wake);
  RootService(const RootService&) = delete;
  RootService& operator=(const RootService&) = delete;
  /// Tells the ranks that are left, sends what is queued (for a few seconds at most), and ends.
  ~RootService();

  /// The thread is done: all ranks have gone.
  [[nodiscard]] bool ended() const noexcept { return ended_.load(std::memory_order_acquire); }
  /// It is the service with that secret, and its thread runs in this process (not in the parent of
  /// a fork).
  [[nodiscard]] bool serves(std::string_view secret) const;

 private:
  std::string secret_;
  Fd wake_;                         ///< eventfd: time to end
  std::uint32_t forks_;             ///< of the process that has the thread
  std::atomic<bool> ended_{false};  // release by the thread's end, acquire by ended()
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
  /// Starts when the first rank has called: one thread waits for those of all unique ids.
  void start_when_called(std::vector<net::Listener> listeners, const RootService::Setup& setup);
  [[nodiscard]] bool serves(std::string_view secret);

 private:
  struct Unused {
    std::vector<net::Listener> listeners;
    RootService::Setup setup;
    Fd wake;  ///< of the service
  };
  void watch();
  void watch_once(std::vector<pollfd>& entries);
  void start_called(const std::vector<pollfd>& entries);

  std::mutex mutex_;  ///< of what follows
  std::vector<std::unique_ptr<RootService>> services_;
  std::vector<Unused> unused_;
  std::uint32_t forks_ = 0;  ///< of the process that has the thread
  bool watching_ = false, ending_ = false;
  Fd wake_;  ///< eventfd: there is another one, or it is time to end
  std::unique_ptr<std::thread> watcher_;
};

}  // namespace gshmem::bootstrap
