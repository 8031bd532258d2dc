// The control plane connects the PEs of a job before any data path exists. It knows which PEs share
// a host, runs the collectives of host threads, and detects PEs that have died. Included by the
// runtime and by tests that need a job. A bootstrap exchanges the first addresses of the PEs, and
// everything after that uses the plane. Inside a host the plane uses shared memory and Unix
// sockets. Between hosts it uses TCP connections that form a hypercube.
#pragma once

#include "bootstrap/bootstrap.h"
#include "host/base/net/socket.h"
#include "host/base/shared_mapping.h"
#include "host/control/host_collectives.h"
#include "host/control/local_peers.h"
#include "host/control/monitor.h"

#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

namespace gshmem::control {

class Plane {
 public:
  /// The subject of a message.
  enum class Topic : std::uint64_t { kFirstUse, kRendezvous, kWhere };
  struct Callbacks {
    /// See Monitor. Events of PEs that end before watch() is called are reported by watch().
    std::function<void(const PeerNews& news)> on_event = [](const PeerNews&) {};
    std::function<void()> on_tick = [] {};
    /// Receives the messages that PE `from` sent with send(), in order. Runs on the monitor's
    /// thread.
    std::function<void(int from, Topic topic, net::ByteView message)> on_message =
        [](int, Topic, net::ByteView) {};
    std::function<void(const std::string& why)> on_failure = [](const std::string&) {};
    /// A host collective has waited for `seconds`. `pe` is the PE that it waits for, or -1 if that
    /// is unknown. Runs on the waiting thread.
    std::function<void(double seconds, int pe)> on_long_wait = [](double, int) {};
    /// Returns true when this PE waits for no other PE any more. Threads: any.
    std::function<bool()> stopped = [] { return false; };
  };
  /// Collective over `boot`. Afterwards the job needs only abort() of it. Errors: if one PE fails,
  /// all PEs throw.
  Plane(bootstrap::Bootstrap& boot, const Config& config, Callbacks callbacks);
  /// Leaves the job.
  ~Plane();
  Plane(const Plane&) = delete;

  [[nodiscard]] const HostGroup& group() const noexcept { return group_; }
  [[nodiscard]] HostCollectives& collectives() noexcept { return *collectives_; }
  [[nodiscard]] LocalPeers& local() noexcept { return local_; }
  [[nodiscard]] Monitor& monitor() noexcept { return *monitor_; }
  /// The addresses of this host, in the order of preference of other hosts.
  [[nodiscard]] const std::vector<net::Endpoint>& addresses() const noexcept { return addresses_; }
  /// For example "PE 3 died: its process ended without gshmem_finalize".
  [[nodiscard]] std::string text_of(const PeerNews& news) const;

  /// Sends a message to on_message of PE `pe`, which may be this PE. The caller ensures that the
  /// message is read before this PE leaves. Threads: any.
  void send(int pe, Topic topic, net::ByteView message);

  /// Returns a PE that will not enter any more host collectives, or -1. Threads: any.
  [[nodiscard]] int absent_pe();
  /// From now on this PE waits for all others to finalize, so PEs in gshmem_finalize do not count
  /// as absent.
  void enter_finalize() { in_finalize_.store(true, std::memory_order_release); }

  /// Starts to report events to on_event, beginning with those that have happened before.
  void watch();

 private:
  void on_peer_news(const PeerNews& news);
  void stop(const std::string& cause, const std::function<void()>& notify);
  [[nodiscard]] double connect_seconds() const;
  void connect_local_peers(bootstrap::Bootstrap& boot);
  void connect_other_hosts(bootstrap::Bootstrap& boot);
  void start_monitor();
  void share_memory();
  [[nodiscard]] std::string why_stopped();

  const Config& config_;
  Callbacks callbacks_;
  HostGroup group_;
  LocalPeers local_;
  std::vector<net::Endpoint> addresses_;
  std::vector<Link> links_;  ///< the connections, until the monitor takes them
  std::shared_ptr<SharedMapping> board_;
  std::unique_ptr<HostCollectives> collectives_;
  /// For the monitor; set when the collectives exist.
  std::atomic<HostCollectives*> delivers_to_{nullptr};
  std::mutex mutex_;
  std::string cause_;  ///< text of the first event that ends all waits
  /// The first PE that will not enter any more host collectives, and a text about it.
  struct Absent {
    int pe = -1;
    std::string text;
  };
  [[nodiscard]] const Absent& absent() const;  ///< requires mutex_
  Absent left_, finalizes_;
  std::atomic<bool> in_finalize_ = false;
  std::atomic<bool> notified_ = false;
  std::vector<PeerNews> early_;
  bool watching_ = false;
  std::unique_ptr<Monitor> monitor_;  ///< its thread uses most of the above
};

}  // namespace gshmem::control
