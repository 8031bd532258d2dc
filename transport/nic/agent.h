// The agent is a host thread that rings doorbells for device code that cannot access the registers
// (no root, no PeerMappingOverride). Device code stores the value of the doorbell to a word in host
// memory, and the agent forwards the newest value. A doorbell contains a position in the queue, so
// the newest doorbell includes all earlier ones.
#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>
#include <thread>
#include <vector>

namespace gshmem::nic {

/// A word on a cache line of its own. 0 means that there is no doorbell: queue pair numbers are not
/// 0.
struct AgentWord {
  alignas(128) std::uint64_t value;
};

class Agent {
 public:
  struct Route {
    std::uint64_t* word;      ///< written by device code
    std::uint64_t* doorbell;  ///< register of the NIC
    std::uint64_t forwarded = 0;
  };
  /// Forwards until destruction. The destructor forwards all doorbells that were stored before it.
  explicit Agent(std::vector<Route> routes);
  ~Agent();
  Agent(const Agent&) = delete;
  /// Adds routes to those that are forwarded.
  void add(const std::vector<Route>& routes);

 private:
  void run();
  void take_added();
  bool forward();

  std::vector<Route> routes_;  ///< used by the thread only
  std::mutex mutex_;           ///< guards added_
  std::vector<Route> added_;
  std::atomic<bool> any_added_{false};
  std::atomic<bool> stop_{false};
  std::thread thread_;
};

}  // namespace gshmem::nic
