// Two monitors that have more to tell each other than their sockets hold.
#include "transport/hosts/peer_monitor.h"

#include "tests/bootstrap/run_ranks.h"
#include "tests/bootstrap/uid_fixture.h"
#include "tests/patience.h"

#include <sys/socket.h>

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <string>

using namespace gshmem;
using namespace gshmem::test;

TEST_CASE("monitors_read_while_they_have_something_to_send") {
  constexpr int kPes = 2;
  constexpr std::size_t kBytes = 4u << 20;
  IdChannel channel;
  CHECK(run_processes(kPes, [&](int rank) {
          const auto boot = channel.join(rank, kPes, uid_config());
          const p2p::HostGroup group =
              p2p::group_hosts(std::vector<std::string>(kPes, "host"), rank);
          p2p::PeerSockets sockets(*boot, group, 10.0 * kPatience);
          const int least = 0;  // the kernel's least
          check_errno(
              setsockopt(sockets.socket(1 - rank), SOL_SOCKET, SO_SNDBUF, &least, sizeof(least)),
              "setsockopt");
          std::mutex mutex;
          std::condition_variable told;
          std::string heard;
          hosts::PeerMonitor monitor(sockets, {},
                                     {[&](int, hosts::PeerEvent event, const std::string& why) {
                                        if (event != hosts::PeerEvent::kStopped) return;
                                        const std::lock_guard lock(mutex);
                                        heard = why;
                                        told.notify_all();
                                      },
                                      {},
                                      {}});
          boot->barrier();
          monitor.stopped(std::string(kBytes, static_cast<char>('a' + rank)));
          std::unique_lock lock(mutex);
          const bool came = told.wait_for(lock, std::chrono::seconds(3 * kPatience),
                                          [&] { return !heard.empty(); });
          expect(came, "the other's reason has come");
          expect(heard == std::string(kBytes, static_cast<char>('b' - rank)), "all of it");
          lock.unlock();
          boot->barrier();
        }) == "");
}
