// Monitors whose sockets or whose descriptors are short.
#include "host/control/monitor.h"

#include "host/control/local_peers.h"
#include "tests/bootstrap/run_ranks.h"
#include "tests/bootstrap/uid_fixture.h"
#include "tests/patience.h"
#include "tests/sanitizers/sanitizers.h"

#include <sys/resource.h>
#include <sys/socket.h>

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

/// The group of PE `me` of two, and its connection to the other one.
struct Pair {
  explicit Pair(Collectives& boot)
      : group(control::group_hosts({"host", "host"}, boot.rank())),
        links(local.connect(group, allgather(boot, local.open()), 10.0 * kPatience)) {}
  control::LocalPeers local;
  control::HostGroup group;
  std::vector<control::Link> links;
};

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

TEST_CASE("a_monitor_that_cannot_go_on_says_so") {
  if (kSanitized) {
    std::puts("skipped: sanitizers need descriptors themselves");
    return;
  }
  constexpr int kPes = 2;
  IdChannel channel;
  CHECK(run_processes(kPes, [&](int rank) {
          const auto boot = channel.join(rank, kPes, uid_config());
          Pair pair(*boot);
          std::promise<std::string> failure;
          control::Monitor monitor(
              pair.group, std::move(pair.links),
              callbacks_with([](const control::PeerNews&) {},
                             [&](const std::string& why) { failure.set_value(why); }));
          boot->barrier();
          if (rank == 1) {  // the other serves the bootstrap
            rlimit limit{};
            check_errno(getrlimit(RLIMIT_NOFILE, &limit), "getrlimit");
            limit.rlim_cur = 1;  // poll(2): EINVAL when there are more descriptors than that
            check_errno(setrlimit(RLIMIT_NOFILE, &limit), "setrlimit");
            monitor.stopped("");
            std::future<std::string> why = failure.get_future();
            const auto wait = std::chrono::seconds(3 * kPatience);
            expect(why.wait_for(wait) == std::future_status::ready, "the failure is said");
            const std::string text = why.get();
            expect(text.find("poll of 2 descriptors: Invalid argument") != std::string::npos, text);
          }
          boot->barrier();
        }) == "");
}

TEST_CASE("monitors_read_while_they_have_something_to_send") {
  constexpr int kPes = 2;
  constexpr std::size_t kBytes = 256u << 10;  // of which a socket takes some 5 KiB at a time
  IdChannel channel;
  CHECK(run_processes(kPes, [&](int rank) {
          const auto boot = channel.join(rank, kPes, uid_config());
          Pair pair(*boot);
          const int least = 0;  // the kernel's least
          check_errno(
              setsockopt(pair.links[0].fd.get(), SOL_SOCKET, SO_SNDBUF, &least, sizeof(least)),
              "setsockopt");
          std::mutex mutex;
          std::condition_variable told;
          std::string heard;
          // Who has heard of one that is stopped does not tell of another, so neither monitor reads
          // before both have something to send.
          std::promise<void> held, go;
          const auto hold_once = [&, first = true]() mutable {
            if (!std::exchange(first, false)) return;
            held.set_value();
            go.get_future().wait();
          };
          control::Monitor monitor(pair.group, std::move(pair.links),
                                   callbacks_with(
                                       [&](const control::PeerNews& news) {
                                         if (news.event != control::PeerEvent::kStopped) return;
                                         const std::lock_guard lock(mutex);
                                         heard = news.why;
                                         told.notify_all();
                                       },
                                       [](const std::string&) {}, hold_once));
          monitor.start_ticking();
          held.get_future().wait();
          boot->barrier();
          monitor.stopped(std::string(kBytes, static_cast<char>('a' + rank)));
          boot->barrier();
          go.set_value();
          std::unique_lock lock(mutex);
          const bool came = told.wait_for(lock, std::chrono::seconds(3 * kPatience),
                                          [&] { return !heard.empty(); });
          expect(came, "the other's reason has come");
          expect(heard == std::string(kBytes, static_cast<char>('b' - rank)), "all of it");
          lock.unlock();
          boot->barrier();
        }) == "");
}
