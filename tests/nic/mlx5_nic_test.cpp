// Tests Mlx5Nic over a table of functions of the test: the text of each failure, that each failure
// frees everything, and what reaches the device.
#include "host/base/log.h"
#include "tests/nic/mlx5_nic_rig.h"
#include "tests/capture.h"

#include <catch2/catch.hpp>

#include <algorithm>
#include <cstring>
#include <set>
#include <string>
#include <vector>

namespace gshmem::nic::mlx5 {

TEST_CASE("failure_of_each_call_is_named_and_frees_everything") {
  for (const bool ethernet : {false, true}) {
    // There is another path, or nothing to do about it.
    const std::set<std::string> tolerated = {"ibv_query_pkey",
                                             "ibv_create_cq",
                                             "ibv_create_qp",
                                             "ibv_modify_qp",
                                             "QUERY_QP",
                                             "mlx5dv_devx_alloc_uar",
                                             "2ERR",
                                             "2RST",
                                             "ibv_destroy_qp",
                                             "ibv_destroy_cq",
                                             "ibv_destroy_ah",
                                             "mlx5dv_devx_obj_destroy",
                                             "mlx5dv_devx_free_uar",
                                             "ibv_dereg_mr",
                                             "mlx5dv_devx_umem_dereg",
                                             "ibv_dealloc_pd",
                                             "ibv_close_device",
                                             "RST2INIT",
                                             "ibv_query_gid",
                                             "ibv_query_gid_ex"};
    int failures = 0;
    std::set<std::string> seen;
    for (int at = 0;; ++at) {
      fake_verbs_reset();
      fake_verbs().ethernet = ethernet;
      fake_verbs().fail_at = at;
      Setup setup;
      const std::string error = error_of([&] { setup.whole_life(); });
      const std::string failed = fake_verbs().failed;
      CAPTURE(at, failed, error, ethernet);
      REQUIRE(fake_verbs().live == 0);
      if (failed.empty()) {
        REQUIRE(error.empty());
        break;
      }
      ++failures;
      seen.insert(failed);
      if (error.empty()) {
        REQUIRE(tolerated.count(failed) == 1);
      } else if (failed != "ibv_query_gid" && failed != "ibv_query_gid_ex") {
        CHECK_THAT(error, Catch::Contains(failed));
        CHECK_THAT(error, Catch::Contains("Input/output error"));
      }
    }
    CHECK(failures > 40);
    // These end a life. Nothing else would show that one of them is missing.
    for (const char* name :
         {"2ERR", "2RST", "mlx5dv_devx_obj_destroy", "mlx5dv_devx_free_uar",
          "mlx5dv_devx_umem_dereg", "ibv_dereg_mr", "ibv_dealloc_pd", "ibv_close_device"}) {
      INFO(name);
      CHECK(seen.count(name) == 1);
    }
  }
}

TEST_CASE("errors_say_what_to_do") {
  const auto with = [](const char* call, int error) {
    fake_verbs_reset();
    fake_verbs().fail_named = call;
    fake_verbs().fail_errno = error;
    Setup setup;
    return error_of([&] { setup.whole_life(); });
  };
  CHECK_THAT(with("ibv_open_device", EACCES), Catch::Contains("--device=/dev/infiniband"));
  CHECK_THAT(with("ibv_reg_mr_iova2", ENOMEM), Catch::Contains("ulimit -l unlimited"));
  CHECK_THAT(with("mlx5dv_devx_umem_reg_ex", ENOMEM), Catch::Contains("for work queues"));
  CHECK_THAT(with("CREATE_CQ", EPERM), Catch::Contains("DevX is off"));
}

TEST_CASE("queues_use_the_chosen_port") {
  fake_verbs_reset();
  fake_verbs().ports = 2;
  Setup setup(config_with({{"GSHMEM_NIC_DEVICES", "=mlx5_7:2"}}));
  setup.whole_life();
  for (const std::uint16_t opcode : {std::uint16_t{0x502}, std::uint16_t{0x503}}) {
    CHECK(static_cast<int>(fake_verbs().commands_of(opcode).at(0)[0x55]) == 2);
  }
}

TEST_CASE("missing_capabilities_are_listed") {
  fake_verbs_reset();
  fake_verbs().atomic_operations = 0x3;
  fake_verbs().cqe_version = 0;
  fake_verbs().wqe_bytes_max = 240;
  Setup setup;
  CHECK_THAT(
      error_of([&] { setup.whole_life(); }),
      Catch::Contains("mlx5_7 lacks completion entries of version 1, masked "
                      "compare-and-swap, masked fetch-and-add, work queue entries of 256 bytes"));
}

TEST_CASE("a_card_without_dynamic_connections_is_an_error_that_names_the_way_out") {
  const auto text = [](bool dynamic, std::uint8_t sizes) {
    fake_verbs_reset();
    fake_verbs().dynamic = dynamic;
    fake_verbs().atomic_sizes_dynamic = sizes;
    Setup setup(config_with({{"GSHMEM_CONNECT", "dc"}}));
    return error_of([&] { (void)setup.open(); });
  };
  CHECK(text(true, 0xc).empty());
  CHECK_THAT(
      text(false, 0xc),
      Catch::Contains("GSHMEM_CONNECT=dc: mlx5_7 lacks dynamic connections (capability dct); "
                      "use GSHMEM_CONNECT=init or use, or choose another device"));
  CHECK_THAT(text(true, 0x8), Catch::Contains("mlx5_7 lacks atomics of 4 bytes over them"));
  CHECK_THAT(text(true, 0x4), Catch::Contains("mlx5_7 lacks atomics of 8 bytes over them"));
}

TEST_CASE("a_library_without_calls_for_dynamic_connections_is_an_error") {
  fake_verbs_reset();
  fake_verbs().dynamic = true;
  fake_verbs().atomic_sizes_dynamic = 0xc;
  Setup setup(config_with({{"GSHMEM_CONNECT", "dc"}}));
  CHECK_THAT(error_of([&] { (void)setup.open()->make_target(1); }),
             Catch::Contains("lacks calls for dynamic connections; use GSHMEM_CONNECT=init"));
}

TEST_CASE("missing_partition_is_an_error") {
  fake_verbs_reset();
  Setup setup(config_with({{"GSHMEM_IB_PKEY_INDEX", "5"}}));
  CHECK_THAT(error_of([&] { setup.whole_life(); }), Catch::Contains("GSHMEM_IB_PKEY_INDEX=5"));
}

/// Returns the information that a PE sends about its queue, with a change.
ConnectInfo changed(ConnectInfo info, const std::function<void(ConnectWire&)>& change) {
  ConnectWire wire;
  std::memcpy(&wire, info.data(), sizeof(wire));
  change(wire);
  std::memcpy(info.data(), &wire, sizeof(wire));
  return info;
}

/// Two queues, of which the first may be connected to the other.
struct TwoQueues {
  TwoQueues() : nic(setup.open()) {
    nic->use_queue_memory(setup.memory.queue_region());
    (void)nic->register_memory(setup.memory.heap_region());
    for (int queue : {0, 1}) numbers[queue] = nic->create_queue(Memory::place(queue)).number;
    other = nic->connect_info(1);
  }
  Setup setup;
  std::unique_ptr<Mlx5Nic> nic;
  std::uint32_t numbers[2];
  ConnectInfo other;
};

TEST_CASE("ends_that_do_not_match_have_errors_of_their_own") {
  fake_verbs_reset();
  fake_verbs().prefix = 5;
  Setup setup;
  const std::unique_ptr<Mlx5Nic> nic = setup.open();
  nic->use_queue_memory(setup.memory.queue_region());
  (void)nic->create_queue(Memory::place(0));
  const auto error_with = [&](const std::function<void(ConnectWire&)>& change) {
    return error_of([&] { nic->connect(0, 3, changed(nic->connect_info(0), change), 0); });
  };
  CHECK_THAT(error_with([](ConnectWire& w) { w.magic = 0; }),
             Catch::Contains("queue 0 to PE 3: PE 3 does not use the mlx5 transport"));
  CHECK_THAT(error_with([](ConnectWire& w) { w.version = 9; }), Catch::Contains("version 9"));
  CHECK_THAT(error_with([](ConnectWire& w) { w.link_layer = LinkLayer::kEthernet; }),
             Catch::Contains("PE 3 is on Ethernet"));
  CHECK_THAT(error_with([](ConnectWire& w) { w.gid[7] = 9; }),
             Catch::Contains("PE 3 is on InfiniBand subnet 0000000000000009") &&
                 Catch::Contains("between subnets is not supported"));
  CHECK_THAT(error_with([](ConnectWire& w) { w.pkey = 0x8001; }),
             Catch::Contains("partition key 0x8001"));
  CHECK_THAT(error_with([](ConnectWire& w) { w.global = 1; }),
             Catch::Contains("PE 3 uses GIDs and this PE does not") &&
                 Catch::Contains("GSHMEM_IB_GID_INDEX") && Catch::Contains("GRH_REQUIRED"));
  // One full member of a partition is enough, and an unknown GID counts as of any subnet.
  CHECK(error_with([](ConnectWire& w) { w.pkey = 0x7fff; }).empty());
  CHECK(error_with([](ConnectWire& w) { w.gid = {}; }).empty());
  CHECK(error_with([](ConnectWire&) {}).empty());
}

TEST_CASE("two_limited_members_of_a_partition_cannot_communicate") {
  fake_verbs_reset();
  fake_verbs().pkey = 0x7fff;
  Setup setup;
  CHECK_THAT(error_of([&] { setup.whole_life(); }), Catch::Contains("partition key 0x7fff"));
}

TEST_CASE("configuration_reaches_the_device") {
  fake_verbs_reset();
  fake_verbs().ethernet = true;
  fake_verbs().gid_index = 1;
  Setup setup(config_with({{"GSHMEM_IB_SL", "3"},
                           {"GSHMEM_IB_TRAFFIC_CLASS", "104"},
                           {"GSHMEM_IB_TIMEOUT", "17"},
                           {"GSHMEM_IB_RETRY_COUNT", "5"},
                           {"GSHMEM_IB_PKEY_INDEX", "1"}}));
  setup.whole_life();
  const auto init = fake_verbs().commands_of(0x502).at(0);
  CHECK(static_cast<int>(init[0x24]) == 0x21);  // counter set of the port
  CHECK(static_cast<int>(init[0x33]) == 1);     // partition
  const auto rtr = fake_verbs().commands_of(0x503).at(0);
  CHECK(static_cast<int>(rtr[0x20]) == 0xbe);      // MTU 4096
  CHECK(static_cast<int>(rtr[0x33]) == 1);         // partition
  CHECK(static_cast<int>(rtr[0x39]) == 1);         // index of the local GID
  CHECK(static_cast<int>(rtr[0x51]) == 104 >> 2);  // DSCP
  CHECK(static_cast<int>(rtr[0x54]) == 3 << 4);    // priority
  CHECK(static_cast<int>(rtr[0x56]) == 0x02);      // MAC address
  CHECK(static_cast<int>(rtr[0x5b]) == 0x55);
  const auto rts = fake_verbs().commands_of(0x504).at(0);
  CHECK(static_cast<int>(rts[0x38]) == 17 << 3);
  CHECK(static_cast<int>(rts[0x89]) == (4 << 5 | 5));  // reads outstanding, retries
}

TEST_CASE("a_connection_that_is_made_after_the_start_goes_to_the_address_that_the_port_has_then") {
  fake_verbs_reset();
  fake_verbs().ethernet = true;
  Setup setup;
  const std::unique_ptr<Mlx5Nic> nic = setup.open();
  nic->use_queue_memory(setup.memory.queue_region());
  const Keys keys = nic->register_memory(setup.memory.heap_region());
  for (int queue : {0, 1}) (void)nic->create_queue(Memory::place(queue));
  nic->connect(0, 1, nic->connect_info(1), keys.remote);
  nic->start();
  fake_verbs().mac_end = 0x61;
  nic->connect(1, 0, nic->connect_info(0), keys.remote);
  const auto moved = fake_verbs().commands_of(0x503);
  REQUIRE(moved.size() == 2);
  CHECK(static_cast<int>(moved[0][0x5b]) == 0x55);
  CHECK(static_cast<int>(moved[1][0x5b]) == 0x61);
  nic->stop();
}

TEST_CASE("dscp_and_udp_port_are_of_roce_v2") {
  for (const bool v2 : {false, true}) {
    fake_verbs_reset();
    fake_verbs().ethernet = true;
    fake_verbs().gid_type = v2 ? IBV_GID_TYPE_ROCE_V2 : IBV_GID_TYPE_ROCE_V1;
    Setup setup(config_with({{"GSHMEM_IB_TRAFFIC_CLASS", "104"}}));
    setup.whole_life();
    const auto rtr = fake_verbs().commands_of(0x503).at(0);
    CHECK(static_cast<int>(rtr[0x35]) == 0);  // only InfiniBand has the GRH bit
    CHECK(static_cast<int>(rtr[0x51]) == (v2 ? 104 >> 2 : 0));
    CHECK((rtr[0x52] << 8 | rtr[0x53]) / 0xc000 == (v2 ? 1 : 0));
    CHECK(static_cast<int>(rtr[0x3c]) == 104 >> 4);  // the traffic class in the GRH
  }
}

/// A queue whose peer sends information that the test makes.
struct ConnectedSetup : Setup {
  const std::unique_ptr<Mlx5Nic> nic = open();
  ConnectedSetup() {
    nic->use_queue_memory(memory.queue_region());
    (void)nic->create_queue(Memory::place(0));
  }
  void connect(const std::function<void(ConnectWire&)>& change) const {
    ConnectInfo info = nic->connect_info(0);
    ConnectWire wire;
    std::memcpy(&wire, info.data(), sizeof(wire));
    change(wire);
    std::memcpy(info.data(), &wire, sizeof(wire));
    nic->connect(0, 1, info, 0);
  }
};

TEST_CASE("pairs_of_queues_have_udp_ports_across_the_whole_range") {
  fake_verbs_reset();
  fake_verbs().ethernet = true;
  fake_verbs().gid_type = IBV_GID_TYPE_ROCE_V2;
  ConnectedSetup setup;
  for (std::uint32_t number = 64; number < 96; ++number)  // a PE with several queues
    setup.connect([&](ConnectWire& wire) { wire.number = number; });
  std::set<int> ports;
  int any = 0, all = 0xffff;
  for (const auto& rtr : fake_verbs().commands_of(0x503)) {
    const int port = rtr[0x52] << 8 | rtr[0x53];
    ports.insert(port);
    any |= port;
    all &= port;
  }
  CHECK(ports.size() >= 30);
  CHECK(any == 0xffff);
  CHECK(all == 0xc000);
}

TEST_CASE("udp_ports_are_in_the_range_that_the_device_reports") {
  fake_verbs_reset();
  fake_verbs().ethernet = true;
  fake_verbs().timestamps = 0;  // the device has the capabilities of RoCE
  fake_verbs().udp_sources = {0xd000, 0xd00f};
  ConnectedSetup setup;
  for (std::uint32_t number = 64; number < 160; ++number)
    setup.connect([&](ConnectWire& wire) { wire.number = number; });
  std::set<int> ports;
  for (const auto& rtr : fake_verbs().commands_of(0x503)) ports.insert(rtr[0x52] << 8 | rtr[0x53]);
  CHECK(*ports.begin() == 0xd000);
  CHECK(*ports.rbegin() == 0xd00f);
  CHECK(ports.size() == 16);
}

TEST_CASE("infiniband_port_that_requires_a_grh_has_one") {
  for (const bool required : {false, true}) {
    fake_verbs_reset();
    fake_verbs().grh_required = required;
    Setup setup;
    setup.whole_life();
    const auto rtr = fake_verbs().commands_of(0x503).at(0);
    CHECK(static_cast<int>(rtr[0x35]) == (required ? 0x80 : 0));
    CHECK(static_cast<int>(rtr[0x36] << 8 | rtr[0x37]) == 0x1234);  // the LID is used nevertheless
    CHECK(static_cast<int>(rtr[0x3b]) == (required ? 255 : 0));     // hop limit
    CHECK(static_cast<int>(rtr[0x4f]) == (required ? 1 : 0));       // end of the GID
  }
}

TEST_CASE("smaller_mtu_of_the_two_ends_is_used") {
  fake_verbs_reset();
  ConnectedSetup setup;
  setup.connect([](ConnectWire& wire) {
    wire.mtu = IBV_MTU_1024;
    wire.log_reads_in = 2;
  });
  CHECK(static_cast<int>(fake_verbs().commands_of(0x503).at(0)[0x20]) == (3 << 5 | 30));
  CHECK(static_cast<int>(fake_verbs().commands_of(0x504).at(0)[0x89]) == (2 << 5 | 7));
}

TEST_CASE("queues_share_doorbell_registers_if_there_are_too_few") {
  fake_verbs_reset();
  Setup setup;
  const Device device(setup.api, DeviceWish{.config = setup.config, .sysfs = "/nowhere"});
  const auto addresses_of = [&](int registers, int queues) {
    fake_verbs().registers = registers;
    DoorbellRegisters bells(device);
    std::set<void*> addresses;
    for (int i = 0; i < queues; ++i) addresses.insert(bells.take().reg_addr);
    return addresses.size();
  };
  CHECK(addresses_of(1000, 10) == 10);
  log_configure(LogLevel::kInfo, "");
  gshmem::test::StderrCapture log;
  CHECK(addresses_of(1000, 1000) == DoorbellRegisters::kMost);
  CHECK(log.writes().empty());
  CHECK(addresses_of(3, 10) == 3);
  const std::vector<std::string> said = log.writes();
  log_configure(LogLevel::kWarn, "");
  REQUIRE(said.size() == 1);
  CHECK_THAT(said[0], Catch::Contains("INFO: queues share 3 doorbell registers: ") &&
                          Catch::Contains("NC: Cannot allocate memory"));
  CHECK_THAT(error_of([&] { (void)addresses_of(0, 1); }),
             Catch::Contains("NC: Cannot allocate memory") && Catch::Contains("VF_LOG_BAR_SIZE"));
}

TEST_CASE("queues_have_no_record_if_none_is_wanted") {
  for (const bool none : {false, true}) {
    fake_verbs_reset();
    fake_verbs().no_record = true;
    Setup setup(config_with({{"GSHMEM_DOORBELL_RECORD", none ? "off" : "on"}}));
    const std::unique_ptr<Mlx5Nic> nic = setup.open();
    nic->use_queue_memory(setup.memory.queue_region());
    const auto bell =
        reinterpret_cast<std::uintptr_t>(nic->create_queue(Memory::place(0)).doorbell);
    CHECK((bell % 4096 == 0x600) == none);
    CHECK(((nic->limits().flags & abi::kNicReadsRecord) == 0) == none);
    CHECK(nic->limits().registers);
    const std::uint8_t mode = fake_verbs().commands_of(0x500).at(0).at(0x18 + 0x10);
    CHECK(static_cast<int>(mode >> 6) == (none ? 1 : 0));
  }
}

TEST_CASE("queues_have_records_if_a_queue_without_one_does_not_work_or_is_not_there") {
  fake_verbs_reset();
  fake_verbs().no_record = true;
  {
    gshmem::test::StderrCapture log;
    Setup setup(config_with({{"GSHMEM_DOORBELL_RECORD", "auto"}}));
    const std::unique_ptr<Mlx5Nic> nic = setup.open();  // the double completes nothing
    CHECK((nic->limits().flags & abi::kNicReadsRecord) != 0);
    const std::vector<std::string> said = log.writes();
    REQUIRE(said.size() == 1);
    CHECK_THAT(said[0], Catch::Contains("its NOP did not complete"));
    CHECK(static_cast<int>(fake_verbs().commands_of(0x500).at(0).at(0x18 + 0x10) >> 6) == 1);
  }
  fake_verbs_reset();
  Setup setup(config_with({{"GSHMEM_DOORBELL_RECORD", "off"}}));
  CHECK_THAT(error_of([&] { (void)setup.open(); }), Catch::Contains("GSHMEM_DOORBELL_RECORD=off"));
}

TEST_CASE("queues_have_records_if_the_device_has_too_few_without") {
  for (const bool enough : {false, true}) {
    fake_verbs_reset();
    fake_verbs().no_record = true;
    fake_verbs().log_no_record_queues = enough ? 4 : 2;  // this PE may make 8
    Config config = config_with({{"GSHMEM_DOORBELL_RECORD", "auto"}, {"GSHMEM_QPS_PER_PE", "4"}});
    gshmem::test::StderrCapture log;
    {
      Setup setup(config);
      CHECK((setup.open()->limits().flags & abi::kNicReadsRecord) != 0);
      // Only with enough of them is one tried, which the double does not complete.
      CHECK(fake_verbs().commands_of(0x500).size() == (enough ? 1 : 0));
    }
    config.doorbell_record = Switch::kOff;
    Setup setup(config);
    if (enough) {
      CHECK((setup.open()->limits().flags & abi::kNicReadsRecord) == 0);
    } else {
      CHECK_THAT(error_of([&] { (void)setup.open(); }),
                 Catch::Contains("at most 4 queues") && Catch::Contains("may make 8"));
    }
  }
}

TEST_CASE("a_device_is_tried_once_for_all_that_use_it") {
  fake_verbs_reset();
  fake_verbs().no_record = true;
  gshmem::test::StderrCapture log;
  Setup setup(config_with({{"GSHMEM_DOORBELL_RECORD", "auto"}}));
  const std::unique_ptr<Mlx5Nic> nic = setup.open();
  const std::unique_ptr<Nic> neighbour = nic->open_port(nic->port());
  CHECK(fake_verbs().commands_of(0x500).size() == 1);
  CHECK((neighbour->limits().flags & abi::kNicReadsRecord) != 0);
}

TEST_CASE("limits_come_from_the_device") {
  fake_verbs_reset();
  Setup setup;
  const Nic::Limits limits = setup.open()->limits();
  CHECK(limits.flags == abi::kNicReadsRecord);
  CHECK(limits.max_message == 1u << 30);
  CHECK_FALSE(limits.coherent_atomics);
}

TEST_CASE("atomics_are_coherent_if_the_device_says_so_and_the_heap_is_in_host_memory") {
  for (const MemoryKind heap : {MemoryKind::kHost, MemoryKind::kGpu}) {
    fake_verbs_reset();
    fake_verbs().atomicity = IBV_ATOMIC_GLOB;
    Setup setup;
    setup.heap_kind = heap;
    CHECK(setup.open()->limits().coherent_atomics == (heap == MemoryKind::kHost));
  }
}

TEST_CASE("fetched_values_are_in_the_order_of_the_device") {
  const bool host_endian = GENERATE(true, false);
  fake_verbs_reset();
  fake_verbs().host_endian = host_endian;
  Setup setup;
  CHECK(((setup.open()->limits().flags & abi::kNicFetchedBig) == 0) == host_endian);
}

TEST_CASE("reads_into_a_gpu_and_waits_need_a_dump_unless_one_path_keeps_the_order") {
  fake_verbs_reset();
  const MemoryKind heap = GENERATE(MemoryKind::kHost, MemoryKind::kGpu);
  const MemoryKind queues = GENERATE(MemoryKind::kHost, MemoryKind::kGpu);
  const bool ordered = GENERATE(true, false);
  Setup setup;
  setup.heap_kind = heap;
  setup.gpu_orders_writes = ordered;
  const std::unique_ptr<Mlx5Nic> nic = setup.open();
  Region region = setup.memory.queue_region();
  region.kind = queues;
  nic->use_queue_memory(region);
  region = setup.memory.heap_region();
  region.kind = heap;
  (void)nic->register_memory(region);
  const bool needs_dump = (nic->limits().flags & abi::kNicReadNeedsDump) != 0;
  INFO("heap " << static_cast<int>(heap) << ", queues " << static_cast<int>(queues) << ", ordered "
               << ordered);
  CHECK(needs_dump == (heap == MemoryKind::kGpu && (queues == MemoryKind::kHost || !ordered)));
  const bool waits_dump = (nic->limits().flags & abi::kNicInboundTrails) != 0;
  CHECK(waits_dump == (heap == MemoryKind::kGpu && !ordered));
}

TEST_CASE("ends_of_a_connection_are_described") {
  for (const bool ethernet : {false, true}) {
    fake_verbs_reset();
    fake_verbs().ethernet = ethernet;
    const TwoQueues two;
    const auto& [setup, nic, numbers, other] = two;
    nic->connect(0, 3, other, 0);
    const std::string end = ethernet ? "mlx5_7 port 1 (GID 10.0.0.1)" : "mlx5_7 port 1 (LID 4660)";
    CHECK(nic->describe_ends(numbers[0], 3) == end + " to " + end + " of PE 3");
    CHECK(nic->describe_ends(numbers[0], 2).empty());
    CHECK(nic->describe_ends(0x123456, 3).empty());
    nic->stop();
  }
}

TEST_CASE("the_state_of_a_queue_is_reported_with_its_counters_or_the_reason_why_not") {
  fake_verbs_reset();
  const TwoQueues two;
  const auto& [setup, nic, numbers, other] = two;
  CHECK(nic->queue_status(numbers[0], 3).empty());  // not connected yet
  nic->connect(0, 3, other, 0);
  fake_verbs().qp_counters = 0x12345678;
  const std::pair<std::uint32_t, const char*> states[] = {
      {0, "RESET"},    {1, "INIT"},       {2, "RTR"},   {3, "RTS"},
      {4, "SQ ERROR"}, {5, "SQ DRAINED"}, {6, "ERROR"}, {7, "unknown state"}};
  for (const auto& [state, name] : states) {
    fake_verbs().qp_state = state;
    CHECK(nic->queue_status(numbers[0], 3) ==
          strprintf("the queue is in state %s, hardware counter %d, software counter %d", name,
                    0x1234, 0x5678));
  }
  CHECK(fake_verbs().commands_of(0x50b).size() == std::size(states));
  CHECK(nic->queue_status(numbers[0], 2).empty());
  CHECK(nic->queue_status(numbers[1], 3).empty());
  fake_verbs().fail_named = "QUERY_QP";
  const std::string unknown = nic->queue_status(numbers[0], 3);
  CHECK_THAT(unknown, Catch::StartsWith("the state of the queue is unknown: ") &&
                          Catch::Contains("QUERY_QP: Input/output error"));
  fake_verbs().fail_status = 0x05;
  CHECK_THAT(nic->queue_status(numbers[0], 3),
             Catch::StartsWith("the state of the queue is unknown: device command QUERY_QP: "));
  nic->stop();
  CHECK(nic->queue_status(numbers[0], 3).empty());  // the queue is destroyed
}

}  // namespace gshmem::nic::mlx5
