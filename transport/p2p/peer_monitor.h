// Watches the peer sockets of one PE from a thread of its own: a peer that closes without a goodbye has
// died. Sleeps in poll(2); costs nothing while nothing happens.
#pragma once

#include "host/base/fd.h"
#include "transport/p2p/peer_sockets.h"

#include <functional>
#include <thread>

namespace gshmem::p2p {

class PeerMonitor {
 public:
  /// `on_death(pe)` runs on the monitor thread, once per PE.
  PeerMonitor(const PeerSockets& sockets, std::function<void(int pe)> on_death);
  ~PeerMonitor();
  PeerMonitor(const PeerMonitor&) = delete;

 private:
  void run();

  const PeerSockets& sockets_;
  std::function<void(int)> on_death_;
  Fd stop_;
  std::thread thread_;
};

}  // namespace gshmem::p2p
