// Tests what is read from a device and its port, the reasons why devices are passed over, and the
// texts of command errors.
#include "host/base/log.h"
#include "tests/nic/mlx5_nic_rig.h"
#include "tests/threads_of_process.h"
#include "tests/patience.h"
#include "tests/capture.h"

#include <catch2/catch.hpp>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace gshmem::nic::mlx5 {
namespace {

DeviceWish wish_of(const Setup& setup) { return {.config = setup.config, .sysfs = "/nowhere"}; }

/// Returns the reason of a search that finds no port.
std::string passed_over(const Setup& setup) {
  const FoundDevices found = find_devices(setup.api, wish_of(setup));
  CHECK(found.ports.empty());
  return no_device_text(found, setup.config);
}

std::ptrdiff_t calls_of(const char* name) { return std::ranges::count(fake_verbs().calls, name); }

}  // namespace

TEST_CASE("an_inactive_port_is_named_with_its_state") {
  const std::pair<ibv_port_state, const char*> states[] = {
      {IBV_PORT_DOWN, "DOWN"},
      {IBV_PORT_INIT, "INIT (no subnet manager has configured it)"},
      {IBV_PORT_ARMED, "ARMED (no subnet manager has activated it)"},
      {IBV_PORT_ACTIVE_DEFER, "in no state of use"}};
  for (const auto& [state, text] : states) {
    fake_verbs_reset();
    fake_verbs().state = state;
    fake_verbs().ports = 2;
    const Setup setup;
    CHECK(passed_over(setup) ==
          std::string("no RDMA device that gshmem can use: mlx5_7 port 1 is ") + text +
              "; mlx5_7 port 2 is " + text);
  }
}

TEST_CASE("devices_that_cannot_be_used_are_named_with_the_reason") {
  fake_verbs_reset();
  fake_verbs().devices = 2;
  fake_verbs().unsupported = 0;
  const Setup setup;
  const FoundDevices found = find_devices(setup.api, wish_of(setup));
  REQUIRE(found.ports.size() == 1);
  CHECK(found.ports[0].candidate.device == "mlx5_8");
  CHECK(found.passed_over == "mlx5_7 is not an mlx5 device");
  CHECK(calls_of("ibv_open_device") == 1);

  fake_verbs_reset();
  fake_verbs().devices = 0;
  CHECK_THAT(passed_over(setup),
             Catch::Contains("no RDMA device that gshmem can use: the system has none") &&
                 Catch::Contains("GSHMEM_NIC=ofi"));
  fake_verbs_reset();
  fake_verbs().fail_named = "ibv_get_device_list";
  CHECK_THAT(passed_over(setup), Catch::Contains(": ibv_get_device_list: Input/output error"));
}

TEST_CASE("a_device_that_was_chosen_before_is_the_only_one_that_is_opened") {
  fake_verbs_reset();
  fake_verbs().devices = 3;
  fake_verbs().ports = 2;
  Setup setup(config_with({{"GSHMEM_NIC_DEVICES", "=mlx5_7"}}));
  DeviceWish wish = wish_of(setup);
  wish.chosen = Candidate{.device = "mlx5_8", .port = 2, .distance = Distance::kPix};
  const Device device(setup.api, wish);
  CHECK(device.name == "mlx5_8");
  CHECK(device.port == 2);
  CHECK(device.distance == Distance::kPix);
  CHECK(calls_of("ibv_open_device") == 1);
  wish.chosen->port = 3;
  CHECK_THAT(error_of([&] { const Device none(setup.api, wish); }),
             Catch::Contains("no RDMA device that gshmem can use"));
}

TEST_CASE("networks_of_infiniband_are_told_apart_by_the_subnet_of_the_first_gid") {
  for (const std::uint8_t prefix : {std::uint8_t{0}, std::uint8_t{5}}) {
    fake_verbs_reset();
    fake_verbs().prefix = prefix;
    const Setup setup;
    const FoundDevices found = find_devices(setup.api, wish_of(setup));
    REQUIRE(found.ports.size() == 1);
    CHECK(found.ports[0].network.layer == LinkLayer::kInfiniBand);
    CHECK(found.ports[0].network.prefix == prefix);
  }
}

TEST_CASE("the_speed_of_a_port_is_the_librarys_or_that_of_its_codes") {
  for (const std::uint64_t speed : {0u, 8000u}) {  // XDR, which has the codes of NDR
    fake_verbs_reset();
    fake_verbs().width = 2, fake_verbs().speed = 128;
    fake_verbs().port_speed = speed;
    const Setup setup;
    const FoundDevices found = find_devices(setup.api, wish_of(setup));
    REQUIRE(found.ports.size() == 1);
    CHECK(found.ports[0].candidate.gbits == (speed == 0 ? 400 : 800));
  }
}

TEST_CASE("gids_are_used_on_ethernet_or_on_request") {
  const auto global = [](bool ethernet, bool required, const char* index) {
    fake_verbs_reset();
    fake_verbs().ethernet = ethernet;
    fake_verbs().grh_required = required;
    const Setup setup(config_with({{"GSHMEM_IB_GID_INDEX", index}}));
    return Device(setup.api, wish_of(setup)).global();
  };
  CHECK_FALSE(global(false, false, "-1"));
  CHECK(global(true, false, "-1"));
  CHECK(global(false, true, "-1"));
  CHECK(global(false, false, "0"));
}

TEST_CASE("an_address_is_requested_as_packets_will_have_it") {
  fake_verbs_reset();
  fake_verbs().ethernet = true;
  fake_verbs().ports = 2;
  fake_verbs().gid_index = 1;
  Setup setup(config_with({{"GSHMEM_NIC_DEVICES", "=mlx5_7:2"},
                           {"GSHMEM_IB_SL", "11"},
                           {"GSHMEM_IB_TRAFFIC_CLASS", "104"}}));
  setup.whole_life();
  const ibv_ah_attr& asked = fake_verbs().address;
  CHECK(int{asked.is_global} == 1);
  CHECK(int{asked.port_num} == 2);
  CHECK(int{asked.sl} == 3);  // a priority of Ethernet
  CHECK(int{asked.grh.sgid_index} == 1);
  CHECK(int{asked.grh.hop_limit} == 255);
  CHECK(int{asked.grh.traffic_class} == 104);
  CHECK(int{asked.grh.dgid.raw[12]} == 10);
  CHECK(int{asked.grh.dgid.raw[15]} == 1);
}

TEST_CASE("capabilities_are_those_that_the_device_reports") {
  fake_verbs_reset();
  const VerbsApi api = fake_verbs_api();
  fake_verbs().wqe_bytes_max = 512;
  Caps caps = query_caps(api, nullptr);
  CHECK(caps.log_queue_max == 15);
  CHECK(caps.wqe_bytes_max == 512);
  CHECK(caps.log_reads_out == 4);
  CHECK(caps.log_reads_in == 4);
  CHECK(caps.cqe_version == 1);
  CHECK((caps.has_rc && caps.has_atomics && !caps.has_roce && !caps.no_record));
  CHECK(caps.atomic_operations == 0xf);
  CHECK(caps.atomic_sizes == 0xc);
  CHECK(caps.fetched_host_endian);
  CHECK(fake_verbs().commands.size() == 2);
  // Only a device that knows formats of time stamps requires one.
  for (const int formats : {0, 1, 2}) {
    fake_verbs().timestamps = formats;
    caps = query_caps(api, nullptr);
    CHECK(caps.has_roce);
    CHECK(caps.timestamp_format == (formats == 0 ? 0u : std::uint32_t{prm::kTimestampDefault}));
  }
  fake_verbs().atomics = false;
  caps = query_caps(api, nullptr);
  CHECK_FALSE(caps.has_atomics);
  CHECK(caps.atomic_operations == 0);
}

TEST_CASE("missing_capabilities_are_named_and_no_others") {
  Caps all;
  all.has_rc = true;
  all.cqe_version = 1;
  const bool more = GENERATE(false, true);  // more than requested, which does not compensate
  all.atomic_operations = more ? 0xffff : 0xf;
  all.atomic_sizes = more ? 0xffff : 0xc;
  all.wqe_bytes_max = 256;
  const auto lacks = [](const Caps& caps) {
    const std::string text = error_of([&] { require_caps(caps, "mlx5_7"); });
    return text.substr(0, text.find(": gshmem needs"));
  };
  CHECK(lacks(all).empty());
  const auto without = [&](auto change) {
    Caps caps = all;
    change(caps);
    return lacks(caps);
  };
  CHECK_THAT(without([](Caps& c) { c.has_rc = false; }),
             Catch::EndsWith("mlx5_7 lacks reliable connections"));
  CHECK_THAT(without([](Caps& c) { c.cqe_version = 0; }),
             Catch::EndsWith("lacks completion entries of version 1"));
  CHECK_THAT(without([](Caps& c) { c.wqe_bytes_max = 255; }),
             Catch::EndsWith("lacks work queue entries of 256 bytes"));
  const std::pair<std::uint32_t, const char*> operations[] = {{1, "compare-and-swap"},
                                                              {2, "fetch-and-add"},
                                                              {4, "masked compare-and-swap"},
                                                              {8, "masked fetch-and-add"}};
  for (const auto& row : operations)
    CHECK_THAT(without([&](Caps& c) { c.atomic_operations &= ~row.first; }),
               Catch::EndsWith(std::string("mlx5_7 lacks ") + row.second));
  for (const std::uint32_t bytes : {4u, 8u})
    CHECK_THAT(without([&](Caps& c) { c.atomic_sizes &= ~bytes; }),
               Catch::EndsWith("lacks atomics of " + std::to_string(bytes) + " bytes"));
}

TEST_CASE("a_queue_without_a_record_is_rung_in_the_page_of_its_register") {
  fake_verbs_reset();
  fake_verbs().no_record = true;
  const Setup setup;
  const Device device(setup.api, wish_of(setup));
  DoorbellRegisters bells(device);
  for (int i = 0; i < 6; ++i) {
    const mlx5dv_devx_uar& bell = bells.take();
    const auto rung = reinterpret_cast<std::uintptr_t>(bells.doorbell_of(device, bell));
    CHECK(rung / 4096 == reinterpret_cast<std::uintptr_t>(bell.reg_addr) / 4096);
  }
}

TEST_CASE("packets_of_an_earlier_connection_do_not_fit") {
  fake_verbs_reset();
  Setup setup;
  const std::unique_ptr<Mlx5Nic> nic = setup.open();
  nic->use_queue_memory(setup.memory.queue_region());
  std::set<std::uint32_t> first;
  for (int queue = 0; queue < 8; ++queue) {
    (void)nic->create_queue(Memory::place(0));
    ConnectWire wire;
    const ConnectInfo info = nic->connect_info(queue);
    std::memcpy(&wire, info.data(), sizeof(wire));
    CHECK(wire.psn <= 0xffffff);
    first.insert(wire.psn);
  }
  CHECK(first.size() > 1);
}

}  // namespace gshmem::nic::mlx5
