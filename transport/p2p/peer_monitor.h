// Watches the peer sockets of one PE from a thread of its own: a peer that closes without a goodbye
// has died; one that says goodbye has left. Sleeps in poll(2); costs nothing while nothing happens.
#pragma once

#include "host/base/fd.h"
#include "transport/p2p/peer_sockets.h"

#include <functional>
#include <thread>

namespace gshmem::p2p {

class PeerMonitor {
 public:
  enum class Event { kDied, kLeft };
  /// `on_event` runs on the monitor thread, once per PE.
  /// `on_tick` (may be empty) runs there ten times a second: for what has no descriptor to poll.
  PeerMonitor(const PeerSockets& sockets, std::function<void(int pe, Event event)> on_event,
              std::function<void()> on_tick);
  ~PeerMonitor();
  PeerMonitor(const PeerMonitor&) = delete;

 private:
  void run();

  const PeerSockets& sockets_;
  std::function<void(int, Event)> on_event_;
  std::function<void()> on_tick_;
  Fd stop_;
  std::thread thread_;
};

}  // namespace gshmem::p2p
