#include "host/control/host_addresses.h"

#include "host/base/net/socket.h"
#include "host/base/error.h"

#include <catch2/catch.hpp>

#include <arpa/inet.h>

#include <cstring>

using namespace gshmem;
using namespace gshmem::control;
using net::Candidate;
using net::Candidates;
using net::Endpoint;
using net::Interface;

namespace {

Interface interface(const char* name, const char* address, int prefix_bits) {
  Interface made{name, {}, true, std::string(name) == "lo", prefix_bits};
  const bool v6 = std::strchr(address, ':') != nullptr;
  if (v6) made.address.family = Endpoint::Family::kIpv6;
  const int read = inet_pton(v6 ? AF_INET6 : AF_INET, address, made.address.ip.data());
  require(read == 1, GSHMEMX_ERROR_INTERNAL, address);
  return made;
}

Config config_with(const char* uid_interface, AddressFamily uid_family = AddressFamily::kAny) {
  Config config;
  config.uid_interface = uid_interface;
  config.uid_family = uid_family;
  return config;
}

/// Returns the addresses of host `node` in order, as text: "10.0.0.1 127.0.0.1".
std::string ordered(const std::vector<std::vector<Interface>>& hosts, int node,
                    const Config& config = config_with("")) {
  std::vector<Candidates> candidates;
  for (const auto& interfaces : hosts) candidates.push_back(net::candidates_of(interfaces, config));
  std::string text;
  for (const Candidate& candidate : net::order_addresses(candidates, node)) {
    const Endpoint endpoint{.family = candidate.family, .ip = candidate.ip, .port = 0};
    if (!text.empty()) text += ' ';
    text += net::address_text(endpoint);
  }
  return text;
}

/// PE 0 of two; the other PE gives only the name of its host.
class WithNamed final : public Collectives {
 public:
  int rank() const noexcept override { return 0; }
  int size() const noexcept override { return 2; }
  void allgather(const void* send, void* recv, std::size_t bytes) override {
    constexpr char kName[128] = "the other host";
    REQUIRE(bytes == sizeof(Candidates) + sizeof(kName));
    std::memset(recv, 0, 2 * bytes);
    std::memcpy(recv, send, bytes);
    std::memcpy(static_cast<char*>(recv) + 2 * bytes - sizeof(kName), kName, sizeof(kName));
    ++met;
  }
  int met = 0;
};

/// PE 1 of two; PE 0 has the same addresses except for the last byte of all but the first.
class WithNeighbour final : public Collectives {
 public:
  int rank() const noexcept override { return 1; }
  int size() const noexcept override { return 2; }
  void allgather(const void* send, void* recv, std::size_t bytes) override {
    Candidates theirs;
    std::memcpy(recv, send, bytes);
    std::memcpy(static_cast<char*>(recv) + bytes, send, bytes);
    std::memcpy(&theirs, send, sizeof(theirs));
    for (std::size_t i = 1; i < theirs.size(); ++i)
      theirs[i].ip[theirs[i].family == Endpoint::Family::kIpv4 ? 3 : 15] ^= 0x80;
    std::memcpy(recv, &theirs, sizeof(theirs));
    for (const Candidate& candidate : theirs) known += candidate.valid ? 1 : 0;
  }
  std::size_t known = 0;
};

const Interface kLo = interface("lo", "127.0.0.1", 8);

}  // namespace

TEST_CASE("addresses_on_a_network_of_all_hosts_come_first") {
  const std::vector<std::vector<Interface>> hosts{
      {kLo, interface("alone0", "10.9.0.1", 24), interface("eth0", "10.77.0.1", 24)},
      {kLo, interface("alone0", "10.9.1.1", 24), interface("eth0", "10.77.0.2", 24)},
      {kLo, interface("eth0", "10.77.0.3", 24)}};
  CHECK(ordered(hosts, 0) == "10.77.0.1 10.9.0.1 127.0.0.1");
  CHECK(ordered(hosts, 1) == "10.77.0.2 10.9.1.1 127.0.0.1");
  CHECK(ordered(hosts, 2) == "10.77.0.3 127.0.0.1");
}

TEST_CASE("addresses_that_another_host_has_too_come_last") {
  // Container bridges have the same network and the same address on every host.
  const auto bridge = interface("podman0", "172.17.0.1", 16);
  CHECK(ordered({{bridge, interface("eth0", "10.77.0.1", 24)},
                 {bridge, interface("eth0", "10.77.0.2", 24)}},
                1) == "10.77.0.2 172.17.0.1");
  // Routed hosts have no common network.
  CHECK(ordered({{bridge, interface("eth0", "10.1.0.1", 24)},
                 {bridge, interface("eth0", "10.2.0.1", 24)}},
                0) == "10.1.0.1 172.17.0.1");
}

TEST_CASE("addresses_on_a_network_of_some_hosts_come_after_those_of_all") {
  const auto storage = [](const char* address) { return interface("abc0", address, 24); };
  CHECK(ordered({{storage("10.88.0.1"), interface("eth0", "10.77.0.1", 24)},
                 {storage("10.88.0.2"), interface("eth0", "10.77.0.2", 24)},
                 {interface("eth0", "10.77.0.3", 24)}},
                0) == "10.77.0.1 10.88.0.1");
  // If there are several such networks, each host keeps its own order.
  CHECK(ordered({{interface("eth0", "10.1.0.1", 24), interface("eth1", "10.2.0.1", 24)},
                 {interface("eth0", "10.2.0.2", 24), interface("eth1", "10.1.0.2", 24)},
                 {interface("eth0", "10.3.0.3", 24)}},
                1) == "10.2.0.2 10.1.0.2");
}

TEST_CASE("addresses_follow_the_configured_interface_and_family") {
  const std::vector<std::vector<Interface>> hosts{
      {interface("eth0", "10.77.0.1", 24), interface("eth0", "fd77::1", 64),
       interface("eth1", "10.9.0.1", 24)},
      {interface("eth0", "10.77.0.2", 24), interface("eth0", "fd77::2", 64),
       interface("eth1", "10.9.1.1", 24)}};
  CHECK(ordered(hosts, 0) == "10.77.0.1 fd77::1 10.9.0.1");
  CHECK(ordered(hosts, 1, config_with("eth1")) == "10.9.1.1 10.77.0.2 fd77::2");
  CHECK(ordered(hosts, 1, config_with("", AddressFamily::kIpv6)) == "fd77::2 10.77.0.2 10.9.1.1");
}

TEST_CASE("hosts_learn_each_other_s_names_before_a_missing_interface_is_an_error") {
  HostGroup group = group_hosts({"this host", "another"}, 0);
  WithNamed ranks;
  const std::vector<Endpoint> addresses = agree_on_addresses(ranks, group, config_with(""));
  CHECK(ranks.met == 1);
  CHECK(group.hosts == std::vector<std::string>{"this host", "the other host"});
  REQUIRE_FALSE(addresses.empty());
  CHECK(addresses.front().port == 0);
  CHECK_THROWS_WITH(agree_on_addresses(ranks, group, config_with("=none77")),
                    Catch::Contains("none77"));
  CHECK(ranks.met == 2);
  // An address that another host has, too, comes last.
  WithNeighbour second;
  HostGroup other = group_hosts({"another", "this host"}, 1);
  const std::vector<Endpoint> ordered = agree_on_addresses(second, other, config_with(""));
  REQUIRE(ordered.size() == second.known);
  CHECK(ordered.back().ip == addresses.front().ip);
  // A job on one host has no calls between hosts.
  HostGroup alone = group_hosts({"this host", "this host"}, 0);
  CHECK_FALSE(agree_on_addresses(ranks, alone, config_with("=none77")).empty());
  CHECK(ranks.met == 2);
}
