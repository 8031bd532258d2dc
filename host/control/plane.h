// What the PEs of a job have of each other before there is any way for data: who shares a host, the
// collectives of host threads, who has died. Included by the runtime and by tests that need a job.
// A bootstrap tells the PEs of each other's first addresses; all that follows goes by this. Inside
// a host that is shared memory and Unix sockets, between hosts a cube of TCP connections.
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
  /// What a letter is about.
  enum class Topic : std::uint64_t { kFirstUse, kMeetings, kWhere };
  struct Callbacks {
    /// As of Monitor; those of PEs that go before watch() is called come then.
    std::function<void(const PeerNews& news)> on_event = [](const PeerNews&) {};
    std::function<void()> on_tick = [] {};
    /// What send() of PE `from` has sent, in order. On the monitor's thread.
    std::function<void(int from, Topic topic, net::ByteView letter)> on_letter =
        [](int, Topic, net::ByteView) {};
    std::function<void(const std::string& why)> on_failure = [](const std::string&) {};
    /// A host collective has waited for so long, for PE `pe` where that is known (else -1). On the
    /// waiting thread.
    std::function<void(double seconds, int pe)> on_long_wait = [](double, int) {};
    /// This PE waits for nobody any more. Threads: any.
    std::function<bool()> stopped = [] { return false; };
  };
  /// Collective over `boot`, of which the job needs no more than its abort() afterwards. Errors: on
  /// all PEs where it fails on one.
  Plane(bootstrap::Bootstrap& boot, const Config& config, Callbacks callbacks);
  /// Leaves the job.
  ~Plane();
  Plane(const Plane&) = delete;

  [[nodiscard]] const HostGroup& group() const noexcept { return group_; }
  [[nodiscard]] HostCollectives& collectives() noexcept { return *collectives_; }
  [[nodiscard]] LocalPeers& local() noexcept { return local_; }
  [[nodiscard]] Monitor& monitor() noexcept { return *monitor_; }
  /// Of this host, best first for other hosts.
  [[nodiscard]] const std::vector<net::Endpoint>& addresses() const noexcept { return addresses_; }
  /// "PE 3 died: its process ended without gshmem_finalize".
  [[nodiscard]] std::string text_of(const PeerNews& news) const;

  /// To on_letter of PE `pe`, which may be this one. Whoever sends sees to it that the letter is
  /// read before this PE leaves. Threads: any.
  void send(int pe, Topic topic, net::ByteView letter);

  /// A PE that comes to no host collective any more, or -1. Threads: any.
  [[nodiscard]] int absent_pe();
  /// This PE waits for all others to finalize, too: those that do are no obstacle any more.
  void enter_finalize() { in_finalize_.store(true, std::memory_order_release); }

  /// From now on on_event hears of what happens, and first of what has.
  void watch();

 private:
  void hear(const PeerNews& news);
  void stop(const std::string& cause, const std::function<void()>& tell);
  [[nodiscard]] double meeting_seconds() const;
  void meet_local(bootstrap::Bootstrap& boot);
  void meet_hosts(bootstrap::Bootstrap& boot);
  void start_monitor();
  void share_memory();
  [[nodiscard]] std::string why_stopped();

  const Config& config_;
  Callbacks callbacks_;
  HostGroup group_;
  LocalPeers local_;
  std::vector<net::Endpoint> addresses_;
  std::vector<Link> links_;  ///< until the monitor has them
  std::shared_ptr<SharedMapping> board_;
  std::unique_ptr<HostCollectives> collectives_;
  std::atomic<HostCollectives*> delivers_to_{nullptr};  ///< for the monitor, when they are there
  std::mutex mutex_;
  std::string cause_;  ///< of the first event that ends all waits
  /// The first PE that comes to no host collective any more, and what it does.
  struct Absent {
    int pe = -1;
    std::string text;
  };
  [[nodiscard]] const Absent& absent() const;  ///< with the mutex
  Absent left_, finalizes_;
  std::atomic<bool> in_finalize_ = false;
  std::atomic<bool> told_ = false;
  std::vector<PeerNews> early_;
  bool watching_ = false;
  std::unique_ptr<Monitor> monitor_;  ///< its thread uses most of the above
};

}  // namespace gshmem::control
