// The agent: a host thread that rings doorbells for device code that cannot reach the registers (no
// root, no PeerMappingOverride). Device code stores the doorbell's value to a word in host memory;
// the agent forwards the newest one. Doorbells carry a position, so a forwarded one stands for all
// before it.
#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>
#include <thread>
#include <vector>

namespace gshmem::nic {

/// A word on a line of its own. 0 is no doorbell: queue pair numbers are not 0.
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
  /// Forwards until destruction, which forwards what has come until then.
  explicit Agent(std::vector<Route> routes);
  ~Agent();
  Agent(const Agent&) = delete;
  /// Forwards these, too, from now on.
  void add(const std::vector<Route>& routes);

 private:
  void run();
  void take_added();
  bool forward();

  std::vector<Route> routes_;  ///< of the thread
  std::mutex mutex_;           ///< of added_
  std::vector<Route> added_;
  std::atomic<bool> any_added_{false};
  std::atomic<bool> stop_{false};
  std::thread thread_;
};

}  // namespace gshmem::nic
