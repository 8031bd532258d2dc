// Tests monitors whose sockets are full or whose descriptors have run out.
#include "host/control/monitor.h"

#include "host/control/local_peers.h"
#include "tests/bootstrap/run_ranks.h"
#include "tests/bootstrap/uid_fixture.h"
#include "tests/patience.h"
#include "tests/sanitizers/sanitizers.h"

#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>

#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <future>
#include <mutex>
#include <string>
#include <utility>

using namespace gshmem;
using namespace gshmem::test;

namespace {

/// The group of PE `me` of two, and its connection to the other PE.
struct Pair {
  explicit Pair(Collectives& boot)
      : group(control::group_hosts({"host", "host"}, boot.rank())),
        links(local.connect(group, allgather(boot, local.open()), 10.0 * kPatience)) {}
  /// Sets the smallest buffer that the kernel allows.
  void send_little() {
    const int least = 0;
    check_errno(setsockopt(links[0].fd.get(), SOL_SOCKET, SO_SNDBUF, &least, sizeof(least)),
                "setsockopt");
  }
  control::LocalPeers local;
  control::HostGroup group;
  std::vector<control::Link> links;
};
/// Far more bytes than such a socket takes at a time, which is about 5 KiB.
constexpr std::size_t kLong = std::size_t{256} << 10;

/// Holds a monitor's thread in its first tick until it may go on.
class Hold {
 public:
  /// Runs in the tick; returns true in the first one, after it was released.
  bool tick() {
    if (!std::exchange(first_, false)) return false;
    held_.set_value();
    go_.get_future().wait_for(std::chrono::seconds(3 * kPatience));
    return true;
  }
  /// Returns when the monitor is held.
  void wait(control::Monitor& monitor) {
    monitor.tick_every(std::chrono::milliseconds(100));
    held_.get_future().wait();
  }
  void go() { go_.set_value(); }

 private:
  bool first_ = true;
  std::promise<void> held_, go_;
};

/// Returns the processor time of the calling thread.
double thread_seconds() {
  timespec time{};
  check_errno(clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time), "clock_gettime");
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) * 1e-9;
}

control::Monitor::Callbacks callbacks_with(
    std::function<void(const control::PeerNews&)> on_event,
    std::function<void(const std::string&)> on_failure = [](const std::string&) {},
    std::function<void()> on_tick = [] {}) {
  return {.on_event = std::move(on_event),
          .on_frame = [](const net::Frame&) {},
          .on_tick = std::move(on_tick),
          .on_failure = std::move(on_failure),
          .missing_here = [](std::uint64_t) { return -1; }};
}

}  // namespace

TEST_CASE("a_pe_that_ends_for_another_one_waits_for_the_death_of_that_one") {
  constexpr int kPes = 2;
  const int last = GENERATE(0, 1);  // the PE that ends last
  IdChannel channel;
  CHECK(run_processes(kPes, [&](int rank) {
          const auto boot = channel.join(rank, kPes, uid_config());
          Pair pair(*boot);
          control::Monitor monitor(pair.group, std::move(pair.links),
                                   callbacks_with([](const control::PeerNews&) {}));
          boot->barrier();
          if (rank == last) {
            const auto begin = std::chrono::steady_clock::now();
            monitor.ending({rank, control::PeerEvent::kStopped, "a fault"}, 1 - rank);
            const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
            expect(took.count() >= 0.1, std::to_string(took.count()) + " s");
          }
          boot->barrier();
        }) == "");
}

TEST_CASE("a_monitor_that_ends_the_job_sleeps_until_the_others_are_notified") {
  constexpr int kPes = 2;
  IdChannel channel;
  CHECK(run_processes(kPes, [&](int rank) {
          const auto boot = channel.join(rank, kPes, uid_config());
          Pair pair(*boot);
          pair.send_little();
          std::promise<std::pair<double, double>> used;
          Hold hold;
          control::Monitor* self = nullptr;
          const auto tick = [&] {
            if (!hold.tick() || rank == 1) return;
            self->tick_every(
                std::chrono::milliseconds(100));  // a request that waits while the job ends
            const double before = thread_seconds();
            const auto begin = std::chrono::steady_clock::now();
            self->ending({0, control::PeerEvent::kStopped, std::string(kLong, 'a')}, -1);
            const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
            used.set_value({thread_seconds() - before, took.count()});
          };
          control::Monitor monitor(
              pair.group, std::move(pair.links),
              callbacks_with([](const control::PeerNews&) {}, [](const std::string&) {}, tick));
          self = &monitor;
          hold.wait(monitor);
          boot->barrier();
          if (rank == 0) {
            hold.go();
            const auto [seconds, took] = used.get_future().get();
            expect(seconds < 0.3, std::to_string(seconds) + " s of a processor in one second");
            expect(took >= 1 && took < 2 * kPatience, std::to_string(took) + " s in all");
          }
          boot->barrier();
          if (rank == 1) hold.go();
          boot->barrier();
        }) == "");
}
