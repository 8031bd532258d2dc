// Watches the connections of one PE from a thread of its own: a peer that closes without a goodbye
// has died; one that says goodbye has left; a host that does not answer is out of reach; a PE that
// a fault has stopped says so. The same thread moves the frames of the relay. Sleeps in poll(2);
// costs nothing while nothing happens. Invariant: what a PE finds out about its peers goes to all
// its connections before its callbacks run, which may end the process. So nobody takes that for the
// cause.
#pragma once

#include "bootstrap/deadline.h"
#include "host/base/fd.h"
#include "transport/hosts/host_links.h"
#include "transport/hosts/relay.h"
#include "transport/hosts/seen_ends.h"
#include "transport/p2p/peer_sockets.h"

#include <poll.h>

#include <condition_variable>
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
    /// Once per PE, but a stopped one may die or leave later.
    std::function<void(const PeerNews& news)> on_event;
    std::function<void(const Frame& frame)> on_frame;  ///< kResult and kMissing
    std::function<void()>
        on_tick;  ///< ten times a second, for what has no descriptor; may be empty
    /// The thread cannot go on: nothing is noticed any more.
    std::function<void(const std::string& why)> on_failure = {};
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
  /// Tells the others why this PE is about to end its process, and returns when that is sent, after
  /// a second at the latest. A fault that names PE `about` waits a moment for the news that this
  /// one died. After news of another PE a fault is not told: the others have heard of the cause.
  /// Threads: any, also in a callback.
  void ending(const PeerNews& mine, int about = -1) noexcept;
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
  struct Ending {
    PeerNews mine;
    int about;
    bootstrap::Deadline until;  ///< for the news about that PE
    bool told = false;
  };
  struct Request {
    enum class Kind { kContribute, kExpired, kStopped, kEnding, kLeave, kStop } kind;
    std::uint64_t sequence = 0;
    std::vector<char> data = {};
    PeerNews mine = {};
    int about = -1;
  };

  void run();
  void run_until_told();
  void serve(int ready, const std::vector<pollfd>& entries);
  [[nodiscard]] int wait(std::vector<pollfd>& entries);
  void post(Request request);
  /// False: time to stop.
  [[nodiscard]] bool take_requests();
  void start_ending(const PeerNews& mine, int about);
  void step_ending();
  [[nodiscard]] bool has_told() const;
  /// To all connections, at once as far as they take it.
  void tell(const Frame& frame);
  void start_leaving();
  [[nodiscard]] bool has_left() const;
  void read(Peer& peer);
  void peer_gone(Peer& peer, PeerEvent event);
  void note_seen(const FrameHeader& header);
  void hear(const Peer& from, const Frame& news);
  void report_ends(bool all);
  void deliver(const Frame& frame);
  void pump();

  Callbacks callbacks_;
  int me_ = -1;
  std::vector<Link> links_;
  std::vector<Peer> peers_;
  Relay relay_;
  std::optional<bootstrap::Deadline> leaving_;
  std::optional<Ending> ending_;
  SeenEnds ends_;
  bool cause_known_ = false;  ///< others' news but departures have been heard
  Fd wake_;
  std::mutex mutex_;
  std::vector<Request> requests_;
  std::condition_variable told_;  ///< with has_told_
  bool has_told_ = false;
  std::thread thread_;
};

}  // namespace gshmem::hosts
