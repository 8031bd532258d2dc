// Watches the connections of one PE from a thread of its own: a peer that closes without a goodbye
// has died; one that says goodbye has left; a host that does not answer is out of reach; a PE that
// a fault has stopped says so. In jobs on several hosts the same thread moves the frames of the
// relay. Sleeps in poll(2); costs nothing while nothing happens.
#pragma once

#include "bootstrap/deadline.h"
#include "host/base/fd.h"
#include "transport/hosts/host_links.h"
#include "transport/hosts/relay.h"
#include "transport/p2p/peer_sockets.h"

#include <poll.h>

#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

namespace gshmem::hosts {

class PeerMonitor {
 public:
  /// All run on the monitor thread.
  struct Callbacks {
    /// Once per PE, but a stopped one may die or leave later. `why` is of kStopped only.
    std::function<void(int pe, PeerEvent event, const std::string& why)> on_event;
    std::function<void(const Frame& frame)> on_frame;  ///< kResult and kMissing
    std::function<void()>
        on_tick;  ///< ten times a second, for what has no descriptor; may be empty
  };

  /// `sockets` outlives this object.
  PeerMonitor(const p2p::PeerSockets& sockets, std::vector<Link> links, Callbacks callbacks);
  ~PeerMonitor();
  PeerMonitor(const PeerMonitor&) = delete;

  // Threads: any.
  void contribute(std::uint64_t sequence, std::span<const char> data);
  void expired(std::uint64_t sequence);
  /// Tells the others that a fault has stopped this PE, and which.
  void stopped(const std::string& why);
  /// Tells the others that this PE leaves on purpose, when all that is queued is sent. Waits for
  /// that, and for other hosts to have read it, a second at most.
  void leave() noexcept;

 private:
  struct Peer {
    int pe = -1;
    bool other_host = false;
    bool finished = false;  ///< it has gone: not to be polled
    FrameStream stream;
  };
  /// A PE of this host has said goodbye while this one was still running. Perhaps because another
  /// one died, whose end reaches this one a little later and is the cause: told when the time is
  /// over.
  struct Departure {
    int pe;
    bootstrap::Deadline until;
  };
  struct Request {
    enum class Kind { kContribute, kExpired, kStopped, kLeave, kStop } kind;
    std::uint64_t sequence = 0;
    std::vector<char> data = {};
  };

  void run();
  [[nodiscard]] int wait(std::vector<pollfd>& entries);
  void post(Request request);
  /// False: time to stop.
  [[nodiscard]] bool take_requests();
  void tell_stopped(std::span<const char> why);
  void start_leaving();
  [[nodiscard]] bool has_left() const;
  void read(Peer& peer);
  void peer_gone(Peer& peer, PeerEvent event);
  void tell_departures(bool all);
  void deliver(const Frame& frame);
  void pump();

  Callbacks callbacks_;
  int me_ = -1;
  std::vector<Link> links_;
  std::vector<Peer> peers_;
  std::optional<Relay> relay_;  ///< in jobs on several hosts
  std::optional<bootstrap::Deadline> leaving_;
  std::vector<Departure> departures_;  ///< by time
  Fd wake_;
  std::mutex mutex_;
  std::vector<Request> requests_;
  std::thread thread_;
};

}  // namespace gshmem::hosts
