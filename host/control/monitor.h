// Watches the connections of one PE from a thread of its own: a peer that closes without a goodbye
// has died; one that says goodbye has left; a host that does not answer is out of reach; a PE that
// a fault has stopped says so. The same thread moves the frames of the tree. Sleeps in poll(2);
// costs nothing while nothing happens. Invariant: what a PE finds out about its peers goes to all
// its connections before its callbacks run, which may end the process. So nobody takes that for the
// cause.
#pragma once

#include "host/base/deadline.h"
#include "host/base/net/stream.h"
#include "host/control/link.h"
#include "host/control/seen_ends.h"
#include "host/control/tree.h"

#include <poll.h>

#include <condition_variable>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

namespace gshmem::control {

class Monitor {
 public:
  /// All run on the monitor thread.
  struct Callbacks {
    /// Once per PE, but a stopped one may die or leave later.
    std::function<void(const PeerNews& news)> on_event;
    std::function<void(const net::Frame& frame)> on_frame;  ///< kResult, kMissing, kPart, kLetter
    std::function<void()> on_tick;                          ///< from tick_every on
    /// The thread cannot go on: nothing is noticed any more.
    std::function<void(const std::string& why)> on_failure;
    /// As of Tree.
    Tree::MissingHere missing_here;
  };

  /// `group` outlives this object.
  Monitor(const HostGroup& group, std::vector<Link> links, Callbacks callbacks);
  ~Monitor();
  Monitor(const Monitor&) = delete;

  // Threads: any. As of Tree.
  void contribute(const net::Frame& frame);
  void expired(std::uint64_t number);
  /// For what has no descriptor. Threads: any, also in a callback.
  void tick_every(std::chrono::milliseconds interval);
  /// Tells the others that a fault has stopped this PE, and which.
  void stopped(const std::string& why);
  /// Tells the others that this PE waits in finalize.
  void finalizes();
  /// Tells the others why this PE is about to end its process, and returns when that is sent, after
  /// a second at the latest. A fault that names PE `about` waits a moment for the news that this
  /// one died. After news of another PE a fault is not told: the others have heard of the cause.
  /// Threads: any, also in a callback.
  void ending(const PeerNews& mine, int about = -1) noexcept;
  /// Tells the others that this PE leaves on purpose, when all that is queued is sent. Waits for
  /// that, and for other hosts to have read it, a second at most. Of those that leave too nothing
  /// is told.
  enum class Others { kLeaveToo, kStay };
  void leave(Others others = Others::kStay) noexcept;

 private:
  struct Peer {
    int pe = -1;
    bool other_host = false;
    bool finished = false;  ///< it has gone: not to be polled
    net::Stream stream;
  };
  struct Ending {
    PeerNews mine;
    int about;
    Deadline until;  ///< for the news about that PE
    bool told = false;
  };
  using Request = std::function<void()>;

  void run();
  void run_until_told();
  void serve(const std::vector<pollfd>& entries);
  /// For peers, and for `wake` to be readable; -1 = for no wake-up.
  void wait(std::vector<pollfd>& entries, int wake);
  /// For the thread to carry out, in order.
  void post(Request request);
  void take_requests();
  void start_ending(const PeerNews& mine, int about);
  void step_ending();
  [[nodiscard]] bool has_told() const;
  /// To all connections, at once as far as they take it.
  void tell(const net::Frame& frame);
  void start_leaving(Others others);
  [[nodiscard]] bool has_left() const;
  void read(Peer& peer);
  void peer_gone(Peer& peer, PeerEvent event);
  void note_seen(const net::FrameHeader& header);
  void hear(const Peer& from, const net::Frame& news);
  void report_ends(bool all);
  void deliver(const net::Frame& frame);
  void pump();

  Callbacks callbacks_;
  int me_ = -1;
  std::vector<Peer> peers_;
  Tree tree_;
  std::optional<Deadline> leaving_;
  Others others_ = Others::kStay;  ///< when this PE leaves
  std::optional<Ending> ending_;
  SeenEnds ends_;
  bool cause_known_ = false;  ///< others' news but departures have been heard
  int tick_ms_ = 0;           ///< 0: no ticks
  bool ended_ = false;        ///< the destructor waits
  Fd wake_;
  std::mutex mutex_;
  std::vector<Request> requests_;
  std::condition_variable told_;  ///< with has_told_
  bool has_told_ = false;
  std::thread thread_;
};

}  // namespace gshmem::control
