// Watches the connections of one PE on a thread of its own. A peer that closes without a goodbye
// has died. A peer that says goodbye has left. A host that does not answer is unreachable. A PE
// that was stopped by a fault reports it. The same thread sends and receives the frames of the
// tree. It sleeps in poll(2) while nothing happens. Invariant: this PE sends what it has detected
// about its peers to all connections before its callbacks run, which may end the process. So no PE
// mistakes this PE's end for the cause.
#pragma once

#include "host/base/deadline.h"
#include "host/base/net/stream.h"
#include "host/control/link.h"
#include "host/control/unexplained_disconnects.h"
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
  /// All callbacks run on the monitor thread.
  struct Callbacks {
    /// Is called once per PE, and once more when a stopped PE dies or leaves later.
    std::function<void(const PeerNews& news)> on_event;
    /// For frames of the kinds kResult, kMissing, kPart and kMessage.
    std::function<void(const net::Frame& frame)> on_frame;
    std::function<void()> on_tick;  ///< runs after tick_every() was called
    /// The thread has ended after an error: no more events are detected.
    std::function<void(const std::string& why)> on_failure;
    /// See Tree.
    Tree::MissingHere missing_here;
  };

  /// `group` outlives this object.
  Monitor(const HostGroup& group, std::vector<Link> links, Callbacks callbacks);
  ~Monitor();
  Monitor(const Monitor&) = delete;

  // See Tree. Threads: any.
  void contribute(const net::Frame& frame);
  void expired(std::uint64_t number);
  /// Calls on_tick every `interval`, for work that has no descriptor to poll. Threads: any, also in
  /// a callback.
  void tick_every(std::chrono::milliseconds interval);
  /// Notifies the other PEs that a fault has stopped this PE, and of its text.
  void stopped(const std::string& why);
  /// Notifies the other PEs that this PE waits in finalize.
  void finalizes();
  /// Notifies the other PEs why this PE is about to end its process. Returns when the news is sent,
  /// after at most a second. A fault that names PE `about` first waits a moment for the news that
  /// this PE died. After news of another PE a fault is not sent: the others know the cause.
  /// Threads: any, also in a callback.
  void ending(const PeerNews& mine, int about = -1) noexcept;
  /// Notifies the other PEs that this PE leaves on purpose, after all queued frames are sent. Waits
  /// at most a second until the goodbye is sent and other hosts have read it. With kLeaveToo,
  /// departures of other PEs are not passed on.
  enum class Others { kLeaveToo, kStay };
  void leave(Others others = Others::kStay) noexcept;

 private:
  struct Peer {
    int pe = -1;
    bool other_host = false;
    bool finished = false;  ///< it has left or died, and is not polled
    net::Stream stream;
  };
  struct Ending {
    PeerNews mine;
    int about;
    Deadline until;  ///< time limit for the news about that PE
    bool reported = false;
  };
  using Request = std::function<void()>;

  void run();
  void run_until_reported();
  void serve(const std::vector<pollfd>& entries);
  /// Waits for events of the peers and for `wake` to become readable; -1 = without `wake`.
  void wait(std::vector<pollfd>& entries, int wake);
  /// Queues a request for the monitor thread, which runs requests in order.
  void post(Request request);
  void take_requests();
  void start_ending(const PeerNews& mine, int about);
  void step_ending();
  [[nodiscard]] bool has_reported() const;
  /// Sends a frame on all connections, immediately as far as the sockets accept it.
  void send_to_all(const net::Frame& frame);
  void start_leaving(Others others);
  [[nodiscard]] bool has_left() const;
  void read(Peer& peer);
  void peer_gone(Peer& peer, PeerEvent event);
  void note_seen(const net::FrameHeader& header);
  void on_news(const Peer& from, const net::Frame& news);
  void report_ends(bool all);
  void deliver(const net::Frame& frame);
  void pump();

  Callbacks callbacks_;
  int me_ = -1;
  std::vector<Peer> peers_;
  Tree tree_;
  std::optional<Deadline> leaving_;
  Others others_ = Others::kStay;  ///< valid while this PE leaves
  std::optional<Ending> ending_;
  UnexplainedDisconnects ends_;
  bool cause_known_ = false;  ///< news other than departures have been received from other PEs
  int tick_ms_ = 0;           ///< 0 = no ticks
  bool ended_ = false;        ///< set by the destructor
  Fd wake_;
  std::mutex mutex_;
  std::vector<Request> requests_;
  std::condition_variable reported_;  ///< notified when has_reported_ changes; uses mutex_
  bool has_reported_ = false;
  std::thread thread_;
};

}  // namespace gshmem::control
