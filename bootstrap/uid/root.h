// The root service: one thread of the process that made a unique id. It takes the ranks in, gathers
// and spreads their first addresses, and tells all of them when one is gone meanwhile.
// Strangers on its port cost it a descriptor for a while and nothing else. Included by uid.cpp.
#pragma once

#include "bootstrap/uid/job.h"

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

namespace gshmem::bootstrap {

class RootService {
 public:
  /// In seconds: how long late ranks of a job that failed are told why (0 = not), and when a
  /// service that no rank has joined ends (0 = never).
  struct Limits {
    double linger, alone;
  };
  /// Serves one job on `listeners`, which are closed when all ranks have joined.
  RootService(std::vector<net::Listener> listeners, const net::Cookie& cookie,
              const Limits& limits);
  RootService(const RootService&) = delete;
  RootService& operator=(const RootService&) = delete;
  /// Tells the ranks that are left, sends what is queued (for a few seconds at most), and ends.
  ~RootService();

  /// The thread is done: all ranks have gone.
  [[nodiscard]] bool ended() const noexcept { return ended_.load(std::memory_order_acquire); }
  /// `cookie` is this service's, and its thread runs in this process (not in the parent of a fork).
  [[nodiscard]] bool serves(const net::Cookie& cookie) const;

 private:
  net::Cookie cookie_;
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
  void start(std::vector<net::Listener> listeners, const net::Cookie& cookie,
             const RootService::Limits& limits);
  [[nodiscard]] bool serves(const net::Cookie& cookie);

 private:
  std::mutex mutex_;
  std::vector<std::unique_ptr<RootService>> services_;
};

}  // namespace gshmem::bootstrap
