#include "host/base/net/interfaces.h"
#include "tests/bootstrap/conformance.h"

#include <catch2/catch.hpp>

#include <ifaddrs.h>
#include <net/if.h>
#include <sys/socket.h>

#include <map>
#include <string>

using namespace gshmem;
using namespace gshmem::net;
using gshmem::test::expect_error;

namespace {

Interface v4(const char* name, std::uint8_t last, bool up = true, bool loopback = false) {
  Interface interface { name, {}, up, loopback };
  interface.address.ip = {10, 0, 0, last};
  return interface;
}

Interface v6(const char* name, std::uint8_t first, std::uint8_t last, bool loopback = false) {
  Interface interface { name, {}, true, loopback };
  interface.address.family = Endpoint::Family::kIpv6;
  interface.address.ip[0] = first;
  if (first == 0xFE) interface.address.ip[1] = 0x80;
  interface.address.ip[15] = last;
  return interface;
}

/// The last byte of the chosen address; each interface below has its own.
int chosen(const std::vector<Interface>& all, const char* filter,
           AddressFamily family = AddressFamily::kAny) {
  const Endpoint address = choose_address(all, filter, family);
  return address.ip[address.family == Endpoint::Family::kIpv4 ? 3 : 15];
}

const std::vector<Interface> kAll{
    v4("lo", 1, true, true), v6("lo", 0, 2, true), v4("docker0", 3),
    v4("eth0", 4, false),    v6("eth1", 0xFE, 5),  v6("eth1", 0x20, 6),
    v4("eth1", 7),           v4("eth10", 8),       v4("ib0", 9)};

}  // namespace

TEST_CASE("interfaces_prefer_real_networks_that_are_up", "[interfaces]") {
  CHECK(chosen(kAll, "") == 7);
  CHECK(chosen(kAll, "", AddressFamily::kIpv6) == 6);
  CHECK(chosen({v4("lo", 1, true, true), v4("docker0", 3)}, "") == 3);
  CHECK(chosen({v4("lo", 1, true, true), v4("eth0", 4, false)}, "") == 1);
  CHECK(chosen({v6("eth1", 0x20, 6), v4("docker0", 3)}, "", AddressFamily::kIpv4) == 3);
  // All matching interfaces, in their order.
  std::vector<Interface> all = kAll;
  all.push_back(v6("docker0", 0x20, 10));
  std::vector<int> order;
  for (const Interface& each : fitting_interfaces(all, "", AddressFamily::kAny))
    order.push_back(each.address.ip[each.address.family == Endpoint::Family::kIpv4 ? 3 : 15]);
  CHECK(order == std::vector<int>{7, 8, 9, 6, 3, 10, 1, 2});
}

TEST_CASE("interfaces_filter_by_prefix_name_and_exclusion", "[interfaces]") {
  CHECK(chosen(kAll, "ib") == 9);
  CHECK(chosen(kAll, "=eth10") == 8);
  CHECK(chosen(kAll, "=ib0,eth10") == 8);
  CHECK(chosen(kAll, "^eth") == 9);
  CHECK(chosen({v4("a", 1), v4("b", 2)}, "b") == 2);
  CHECK(chosen(kAll, "^=eth1") == 8);
  CHECK(chosen(kAll, "^eth,ib,docker") == 1);
  for (const char* filter : {"ib,", ",ib", ",,ib,,"}) CHECK(chosen(kAll, filter) == 9);
  for (const char* all : {"^", "=", "^=", ","}) CHECK(chosen(kAll, all) == 7);
  CHECK(chosen(kAll, "=lo", AddressFamily::kIpv6) == 2);
}

TEST_CASE("interfaces_that_do_not_match_are_listed", "[interfaces]") {
  expect_error(GSHMEMX_ERROR_CONFIG, "eth0 10.0.0.4 (down)",
               [] { (void)choose_address(kAll, "=eth0", AddressFamily::kAny); });
  expect_error(GSHMEMX_ERROR_CONFIG, "GSHMEM_UID_INTERFACE=\"wlan\"",
               [] { (void)choose_address(kAll, "wlan", AddressFamily::kAny); });
  expect_error(GSHMEMX_ERROR_CONFIG, "no interface at all",
               [] { (void)choose_address({}, "", AddressFamily::kAny); });
}

TEST_CASE("interfaces_of_this_machine_include_loopback", "[interfaces]") {
  CHECK_NOTHROW(choose_address(list_interfaces(), "=lo", AddressFamily::kIpv4));
  int seen = 0;
  for (const Interface& each : list_interfaces()) {
    if (endpoint_text(each.address) != "127.0.0.1:0") continue;
    ++seen;
    CHECK(each.name == "lo");
    CHECK(each.up);
    CHECK(each.loopback);
    CHECK(each.prefix_bits == 8);
  }
  CHECK(seen == 1);
}

TEST_CASE("interfaces_have_an_address_and_a_loopback_flag", "[interfaces]") {
  ifaddrs* head = nullptr;
  REQUIRE(getifaddrs(&head) == 0);
  std::map<std::string, bool> loopback;
  int of_lo = 0;
  for (const ifaddrs* entry = head; entry != nullptr; entry = entry->ifa_next) {
    loopback[entry->ifa_name] = (entry->ifa_flags & IFF_LOOPBACK) != 0;
    if (entry->ifa_addr != nullptr && entry->ifa_name == std::string("lo"))
      of_lo += entry->ifa_addr->sa_family == AF_INET || entry->ifa_addr->sa_family == AF_INET6;
  }
  freeifaddrs(head);
  for (const Interface& each : list_interfaces()) {
    of_lo -= each.name == "lo" ? 1 : 0;
    // Others may appear and disappear.
    if (loopback.count(each.name) != 0) CHECK(each.loopback == loopback[each.name]);
  }
  CHECK(of_lo == 0);
}

TEST_CASE("uid_address_is_parsed", "[interfaces]") {
  CHECK(endpoint_text(resolve("127.0.0.1:4711", AddressFamily::kAny).front()) == "127.0.0.1:4711");
  CHECK(endpoint_text(resolve("[::1]:80", AddressFamily::kAny).front()) == "[::1]:80");
  for (const char* good : {"127.0.0.1:1", "127.0.0.1:65535"}) {
    const std::vector<Endpoint> found = resolve(good, AddressFamily::kIpv4);
    REQUIRE(found.size() == 1);
    CHECK(endpoint_text(found.front()) == good);
  }
  for (const char* bad : {"", "host", ":80", "::1:80", "127.0.0.1:", "127.0.0.1:0",
                          "127.0.0.1:65536", "127.0.0.1:12x", "[::1]", "[]:5"}) {
    INFO(bad);
    expect_error(GSHMEMX_ERROR_CONFIG, "GSHMEM_UID_ADDRESS",
                 [&] { (void)resolve(bad, AddressFamily::kAny); });
  }
  expect_error(GSHMEMX_ERROR_CONFIG, "GSHMEM_UID_ADDRESS",
               [] { (void)resolve("127.0.0.1:80", AddressFamily::kIpv6); });
  expect_error(GSHMEMX_ERROR_CONFIG, "GSHMEM_UID_ADDRESS",
               [] { (void)resolve("[::1]:80", AddressFamily::kIpv4); });
}
