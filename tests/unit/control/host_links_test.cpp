// A host's leader that waits for another one's call while others call.
#include "host/control/host_links.h"

#include "tests/patience.h"
#include "tests/sanitizers/sanitizers.h"

#include <catch2/catch.hpp>

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <future>
#include <thread>

using namespace gshmem;

namespace {

/// Rank 0 of two, and what rank 1 would be told.
class Spy final : public Collectives {
 public:
  int rank() const noexcept override { return 0; }
  int size() const noexcept override { return 2; }
  void allgather(const void* send, void* recv, std::size_t bytes) override {
    std::memset(recv, 0, 2 * bytes);
    std::memcpy(recv, send, bytes);
    net::Endpoint endpoint;  // the first part of what leaders tell each other
    std::memcpy(&endpoint, send, sizeof(endpoint));
    told.set_value(endpoint);
  }

  std::promise<net::Endpoint> told;
};

/// The error of a leader whose only caller is `stranger`, which gets its address.
template <class Stranger>
Error error_with(double seconds, const Stranger& stranger) {
  Spy spy;
  std::thread caller([&, told = spy.told.get_future()]() mutable { stranger(told.get()); });
  const control::HostGroup group = control::group_hosts({"here", "there"}, 0);
  net::Endpoint loopback;
  loopback.ip = {127, 0, 0, 1};
  Error error(GSHMEMX_SUCCESS, "");
  try {
    (void)control::connect_hosts(spy, group, loopback, Config{}, seconds);
  } catch (const Error& thrown) {
    error = thrown;
  }
  caller.join();
  return error;
}

double cpu_seconds() {
  rusage usage{};
  (void)getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& t) {
    return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_usec) / 1e6;
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

}  // namespace

TEST_CASE("callers_without_end_do_not_hold_up_the_timeout") {
  std::atomic<bool> over{false};
  const Error error = error_with(0.5, [&](const net::Endpoint& endpoint) {
    // Ends when nobody listens any more.
    const Deadline limit(30 * test::kPatience);
    while (!limit.passed()) {
      const net::Attempt attempt = net::connect_to(endpoint, limit);
      if (!attempt.fd) break;
      (void)!::send(attempt.fd.get(), "?", 1, MSG_NOSIGNAL);
    }
    over = !limit.passed();
  });
  CHECK(error.code() == GSHMEMX_ERROR_TIMEOUT);
  CHECK(std::string(error.what()).find("PE 1 on host there did not connect") == 0);
  CHECK(over);
}

TEST_CASE("leader_without_descriptors_says_so") {
  if (kUnderAsan) {
    std::puts("skipped: UBSan, which is built in with ASan, needs descriptors");
    std::fflush(stdout);
    std::_Exit(77);
  }
  const pid_t child = fork();
  if (child == 0) {
    const double before = cpu_seconds();
    const Error error = error_with(20 * test::kPatience, [](const net::Endpoint& endpoint) {
      // Before the call, which the leader may take at once.
      const Fd caller(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
      rlimit limit{};
      (void)getrlimit(RLIMIT_NOFILE, &limit);
      limit.rlim_cur = 3;  // all taken; of so many poll(2) takes no more, either
      (void)setrlimit(RLIMIT_NOFILE, &limit);
      sockaddr_in to{};
      to.sin_family = AF_INET;
      to.sin_port = htons(endpoint.port);
      to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
      (void)!::connect(caller.get(), reinterpret_cast<const sockaddr*>(&to), sizeof(to));
      (void)!::send(caller.get(), "?", 1, MSG_NOSIGNAL);
      // Until it hangs up, or has given up.
      char byte;
      (void)!::recv(caller.get(), &byte, 1, 0);
    });
    const bool said =
        error.code() == GSHMEMX_ERROR_SYSTEM &&
        std::string(error.what()).find("3 descriptors open (ulimit -n)") != std::string::npos;
    if (!said) std::fprintf(stderr, "%s\n", error.what());
    std::_Exit(!said ? 3 : cpu_seconds() - before > 5 ? 4 : 0);
  }
  int status = 0;
  REQUIRE(waitpid(child, &status, 0) == child);
  CHECK(WIFEXITED(status));
  CHECK(WEXITSTATUS(status) == 0);
}
