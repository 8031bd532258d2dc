// Tests GSHMEM_UID_ADDRESS with names and with link-local addresses: rank 0 is found, by whatever
// name each host knows it. Names come from an /etc/hosts of the test, if it may mount one.
#include "host/base/net/interfaces.h"
#include "tests/bootstrap/run_ranks.h"
#include "tests/bootstrap/uid_fixture.h"
#include "tests/patience.h"

#include <arpa/inet.h>
#include <net/if.h>
#include <netinet/in.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/wait.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>

using namespace gshmem;
using namespace gshmem::test;
using net::Endpoint;

namespace {

Endpoint loopback(const char* text, std::uint16_t port) {
  Endpoint endpoint{.port = port};
  if (std::strchr(text, ':') != nullptr) endpoint.family = Endpoint::Family::kIpv6;
  const bool v4 = endpoint.family == Endpoint::Family::kIpv4;
  expect(inet_pton(v4 ? AF_INET : AF_INET6, text, endpoint.ip.data()) == 1, "an address");
  return endpoint;
}

std::string free_port() {
  return std::to_string(net::listen_on(loopback("127.0.0.1", 0)).endpoint.port);
}

/// Gives the calling process `lines` as /etc/hosts; returns false if it may not.
bool own_hosts(const std::string& lines) {
  char name[] = "/tmp/gshmem-hosts.XXXXXX";
  const Fd file(mkstemp(name));
  const bool mounted = file && write(file.get(), lines.data(), lines.size()) >= 0 &&
                       unshare(CLONE_NEWNS) == 0 &&
                       mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0 &&
                       mount(name, "/etc/hosts", nullptr, MS_BIND, nullptr) == 0;
  unlink(name);
  return mounted;
}

bool can_have_names() {
  const pid_t child = fork();
  if (child == 0) _exit(own_hosts("127.0.0.1 localhost\n") ? 0 : 1);
  int status = 1;
  if (waitpid(child, &status, 0) == child && status == 0) return true;
  std::puts("skipped: this user may not mount an /etc/hosts");
  return false;
}

struct Rank {
  std::string hosts, address;
  double timeout_seconds = 30 * gshmem::test::kPatience;
};

/// Runs a job whose ranks have these settings for rank 0.
std::string connect_ranks(const std::vector<Rank>& ranks) {
  const auto size = static_cast<int>(ranks.size());
  return run_processes(size, [&](int rank) {
    const Rank& mine = ranks[static_cast<std::size_t>(rank)];
    expect(mine.hosts.empty() || own_hosts(mine.hosts), "an /etc/hosts");
    Config config = uid_config(mine.timeout_seconds, AddressFamily::kAny);
    config.bootstrap = BootstrapKind::kUid;
    config.uid_address = mine.address;
    config.uid_rank = rank;
    config.uid_size = size;
    bootstrap::create(config)->barrier();
  });
}

}  // namespace

TEST_CASE("uid_rank_0_listens_on_all_addresses_of_its_name", "[uid]") {
  if (!can_have_names()) return;
  const std::string port = free_port(), both = "127.0.0.1 localhost\n::1 localhost\n";
  CHECK(connect_ranks(
            {{both, "localhost:" + port}, {"", "127.0.0.1:" + port}, {"", "[::1]:" + port}}) == "");
}

TEST_CASE("uid_name_that_is_loopback_on_its_own_host_is_found_by_others", "[uid]") {
  if (!can_have_names()) return;
  const std::string address = "node:" + free_port();
  // 127.0.0.9 is the address that the others know.
  CHECK(connect_ranks({{"127.0.1.1 node\n", address}, {"127.0.0.9 node\n", address}}) == "");
}

TEST_CASE("uid_listens_on_all_addresses_only_for_a_name_without_one", "[uid]") {
  const std::vector<Endpoint> loopbacks{loopback("127.0.1.1", 7), loopback("::1", 7)};
  const std::vector<Endpoint> mixed{loopback("127.0.1.1", 7), loopback("10.0.0.1", 7)};
  for (const char* address : {"localhost:7", "ip6-loopback:7", "127.0.1.1:7", "[::1]:7"})
    CHECK(net::to_listen_on(address, AddressFamily::kAny, loopbacks) == loopbacks);
  CHECK(net::to_listen_on("node:7", AddressFamily::kAny, mixed) == mixed);
  const std::vector<Endpoint> any{loopback("0.0.0.0", 7), loopback("::", 7)};
  CHECK(net::to_listen_on("node:7", AddressFamily::kAny, loopbacks) == any);
  CHECK(net::to_listen_on("node:7", AddressFamily::kIpv4, loopbacks) ==
        std::vector<Endpoint>{any[0]});
  CHECK(net::to_listen_on("node:7", AddressFamily::kIpv6, loopbacks) ==
        std::vector<Endpoint>{any[1]});
}

TEST_CASE("uid_address_that_drops_packets_leaves_time_for_the_next", "[uid]") {
  if (!can_have_names()) return;
  const std::string port = free_port();
  // Its queue of connections is full: Linux drops further ones.
  Endpoint deaf = loopback("::1", static_cast<std::uint16_t>(std::atoi(port.c_str())));
  const net::Listener listener = net::listen_on(deaf);
  check_errno(listen(listener.fd.get(), 0), "listen");
  std::vector<Fd> waiting;
  for (int i = 0; i < 4; ++i) waiting.push_back(net::connect_to(deaf, Deadline(0.1)).fd);
  expect(!waiting.back(), "the queue is full");
  const std::string both = "127.0.0.1 localhost\n::1 localhost\n";
  CHECK(connect_ranks({{"", "127.0.0.1:" + port, 15}, {both, "localhost:" + port, 60}}) == "");
}

TEST_CASE("uid_link_local_address_needs_and_keeps_its_interface", "[uid]") {
  const auto resolved = net::resolve("[fe80::1%lo]:7", AddressFamily::kAny);
  CHECK(resolved.front().scope == if_nametoindex("lo"));
  CHECK(net::endpoint_text(resolved.front()) == "[fe80::1%lo]:7");
  expect_error(GSHMEMX_ERROR_CONFIG, "needs this host's interface",
               [] { (void)net::resolve("[fe80::1]:7", AddressFamily::kAny); });
  for (const net::Interface& interface : net::list_interfaces()) {
    if (!interface.up || !net::is_link_local(interface.address)) continue;
    const Endpoint here = net::listen_on(interface.address).endpoint;
    const std::string address = net::endpoint_text(here);
    CHECK(connect_ranks({{"", address}, {"", address}}) == "");
    return;
  }
}
