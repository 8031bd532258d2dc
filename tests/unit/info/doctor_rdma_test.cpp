#include "tests/unit/info/fake_machine.h"

#include "host/tools/doctor/ports.h"

namespace gshmem::info {
namespace {

constexpr char kPort[] = "/sys/class/infiniband/mlx5_0/ports/1/";
constexpr char kLinkLocal[] = "fe80:0000:0000:0000:0e42:a1ff:fe9b:0001";
constexpr char kIpv4[] = "0000:0000:0000:0000:0000:ffff:0a00:0105";  // 10.0.1.5
constexpr char kGlobal[] = "2001:0db8:0000:0000:0000:0000:0000:0001";
constexpr char kZero[] = "0000:0000:0000:0000:0000:0000:0000:0000";

/// A RoCE port with the usual four GIDs on eth2, of which 3 is RoCE v2 over IPv4.
void roce(const FakeMachine& fake, bool with_ipv4 = true) {
  fake.nic("mlx5_0", kNic, "Ethernet");
  fake.gid("mlx5_0", 0, kLinkLocal, "IB/RoCE v1", "eth2");
  fake.gid("mlx5_0", 1, kLinkLocal, "RoCE v2", "eth2");
  fake.gid("mlx5_0", 2, with_ipv4 ? kIpv4 : kZero, "IB/RoCE v1", "eth2");
  fake.gid("mlx5_0", 3, with_ipv4 ? kIpv4 : kZero, "RoCE v2", "eth2");
  fake.write("/sys/class/net/eth2/mtu", "9000\n");
}

}  // namespace

TEST_CASE("modules_are_a_problem_only_with_a_card") {
  FakeMachine fake;
  expect_one(check_rdma_modules(fake.machine), Verdict::kSkipped, "no Mellanox");
  fake.pci(kNic, {{"vendor", "0x15b3\n"}, {"class", "0x020700\n"}});
  fake.write("/sys/module/mlx5_core/version", "");
  expect_one(check_rdma_modules(fake.machine), Verdict::kProblem, "not loaded: mlx5_ib, ib_uverbs");
  fake.write("/sys/module/mlx5_ib/version", "");
  fake.write("/sys/module/ib_uverbs/version", "");
  expect_one(check_rdma_modules(fake.machine), Verdict::kProblem, "have not taken the card");
  fake.nic("mlx5_0", kNic, "InfiniBand");
  expect_one(check_rdma_modules(fake.machine), Verdict::kOk, "serve mlx5_0");
}

TEST_CASE("modules_are_looked_for_by_class_and_vendor_of_the_card") {
  FakeMachine fake;
  fake.pci(kNic, {{"vendor", "0x15b3\n"}, {"class", "0x010802\n"}});  // storage of a BlueField
  fake.pci(kGpu, {{"vendor", "0x8086\n"}, {"class", "0x020000\n"}});
  expect_one(check_rdma_modules(fake.machine), Verdict::kSkipped, "no Mellanox");
  fake.nic("mlx5_0", kNic, "InfiniBand");
  expect_one(check_rdma_modules(fake.machine), Verdict::kProblem, "ib_uverbs is not loaded");
  fake.write("/sys/class/infiniband_verbs/uverbs0/ibdev", "mlx5_0\n");
  expect_one(check_rdma_modules(fake.machine), Verdict::kOk, "serve mlx5_0");
}

TEST_CASE("modules_of_another_rdma_device_are_for_libfabric") {
  FakeMachine fake;
  fake.write("/sys/class/infiniband/rxe0/ports/1/state", "4: ACTIVE");
  expect_one(check_rdma_modules(fake.machine), Verdict::kOk, "rxe0 is for libfabric");
}

TEST_CASE("uverbs_files_are_opened_and_each_error_has_its_fix") {
  FakeMachine fake;
  expect_one(check_rdma_files(fake.machine), Verdict::kSkipped, "no RDMA device");
  fake.nic("mlx5_0", kNic, "InfiniBand");
  fake.write("/sys/class/infiniband_verbs/uverbs0/ibdev", "mlx5_0\n");
  fake.write("/sys/class/infiniband_verbs/abi_version", "6\n");
  fake.write("/dev/infiniband/rdma_cm", "");
  expect_one(check_rdma_files(fake.machine), Verdict::kProblem, "modprobe ib_uverbs");
  fake.environment["KUBERNETES_SERVICE_HOST"] = "10.0.0.1";
  expect_one(check_rdma_files(fake.machine), Verdict::kProblem, "--device=/dev/infiniband");
  fake.write("/dev/infiniband/uverbs0", "");
  expect_one(check_rdma_files(fake.machine), Verdict::kOk, "/dev/infiniband/uverbs0 (mlx5_0)");

  const auto fail_with = [&](int error) {
    fake.machine.open_errno = [error](const std::filesystem::path& file) {
      return file.filename() == "uverbs0" ? error : 0;
    };
    return check_rdma_files(fake.machine);
  };
  expect_one(fail_with(EPERM), Verdict::kProblem, "device cgroup");
  expect_one(fail_with(EACCES), Verdict::kProblem, "chmod 666");
  fake.environment.clear();
  for (const int error : {ENOENT, ENXIO, ENODEV})
    expect_one(fail_with(error), Verdict::kProblem, "modprobe ib_uverbs");
}

TEST_CASE("missing_rdma_cm_is_a_hint") {
  FakeMachine fake;
  fake.nic("mlx5_0", kNic, "InfiniBand");
  fake.write("/sys/class/infiniband_verbs/uverbs0/ibdev", "mlx5_0\n");
  fake.write("/dev/infiniband/uverbs0", "");
  const Findings findings = check_rdma_files(fake.machine);
  REQUIRE(findings.size() == 2);
  CHECK(findings[0].verdict == Verdict::kOk);
  expect_one({findings[1]}, Verdict::kHint, "only libfabric's verbs provider needs it");
}

TEST_CASE("port_states_name_their_cause") {
  FakeMachine fake;
  expect_one(check_ports(fake.machine), Verdict::kSkipped, "no RDMA device");
  fake.nic("mlx5_0", kNic, "InfiniBand");
  expect_one(check_ports(fake.machine), Verdict::kOk, "InfiniBand, ACTIVE, LinkUp, 400 Gb/sec");
  fake.write(std::string(kPort) + "state", "2: INIT\n");
  expect_one(check_ports(fake.machine), Verdict::kProblem, "subnet manager");
  fake.write(std::string(kPort) + "state", "1: DOWN\n");
  fake.write(std::string(kPort) + "phys_state", "2: Polling\n");
  expect_one(check_ports(fake.machine), Verdict::kProblem, "mlxlink -d mlx5_0 -p 1 -m");
  fake.write(std::string(kPort) + "phys_state", "3: Disabled\n");
  expect_one(check_ports(fake.machine), Verdict::kProblem, "ibportstate");

  roce(fake);
  fake.write(std::string(kPort) + "state", "1: DOWN\n");
  fake.write(std::string(kPort) + "phys_state", "3: Disabled\n");
  expect_one(check_ports(fake.machine), Verdict::kProblem, "ip link set eth2 up");
  fake.write(std::string(kPort) + "phys_state", "5: LinkUp\n");
  expect_one(check_ports(fake.machine), Verdict::kProblem, "no signal from the other end");
  FakeMachine other;
  other.nic("mlx5_0", kNic, "Ethernet");
  other.write(std::string(kPort) + "state", "1: DOWN\n");
  other.write(std::string(kPort) + "phys_state", "3: Disabled\n");
  expect_one(check_ports(other.machine), Verdict::kProblem, "mlx5_0 -p 1 --port_state UP");
}

TEST_CASE("mlxlink_is_advised_for_mlx5_only") {
  FakeMachine fake;
  const std::string port = "/sys/class/infiniband/rxe0/ports/1/";
  fake.write(port + "link_layer", "Ethernet\n");
  fake.write(port + "state", "1: DOWN\n");
  fake.write(port + "phys_state", "2: Polling\n");
  fake.gid("rxe0", 0, kLinkLocal, "RoCE v2", "eth2");
  expect_one(check_ports(fake.machine), Verdict::kProblem, "ethtool eth2");
}

TEST_CASE("a_port_that_is_down_beside_an_active_one_is_a_hint") {
  FakeMachine fake;
  fake.nic("mlx5_0", kNic, "InfiniBand");
  fake.nic("mlx5_1", "pci0000:00/0000:00:03.0/0000:03:00.0", "InfiniBand");
  fake.write(std::string(kPort) + "state", "1: DOWN\n");
  const Findings findings = check_ports(fake.machine);
  REQUIRE(findings.size() == 2);
  CHECK(findings[0].verdict == Verdict::kHint);
  CHECK(findings[1].verdict == Verdict::kOk);
}

TEST_CASE("pkey_of_the_chosen_index_must_be_valid_and_full") {
  FakeMachine fake;
  expect_one(check_pkeys(fake.machine), Verdict::kSkipped, "no active RDMA port");
  fake.nic("mlx5_0", kNic, "InfiniBand");
  expect_one(check_pkeys(fake.machine), Verdict::kOk, "0xffff, full member");
  fake.write(std::string(kPort) + "pkeys/1", "0x0000\n");
  fake.write(std::string(kPort) + "pkeys/2", "0x7fff\n");
  fake.machine.config.ib_pkey_index = 1;
  expect_one(check_pkeys(fake.machine), Verdict::kProblem, "index 1 is empty");
  fake.machine.config.ib_pkey_index = 2;
  expect_one(check_pkeys(fake.machine), Verdict::kHint, "0x7fff, limited");
  fake.write(std::string(kPort) + "pkeys/2", "0x8000\n");
  expect_one(check_pkeys(fake.machine), Verdict::kProblem, "index 2 is empty (0x8000)");
  fake.write(std::string(kPort) + "pkeys/2", "0x8001\n");
  expect_one(check_pkeys(fake.machine), Verdict::kOk, "0x8001, full member");
  fake.machine.config.ib_pkey_index = 3;
  expect_one(check_pkeys(fake.machine), Verdict::kProblem, "has 3 entries");
}

TEST_CASE("gid_of_roce_is_the_one_that_the_transport_chooses") {
  FakeMachine fake;
  expect_one(check_gids(fake.machine), Verdict::kSkipped, "no active RDMA port");
  roce(fake);
  expect_one(check_gids(fake.machine), Verdict::kOk, "index 3, RoCE v2, 10.0.1.5, eth2");
  fake.machine.config.ib_gid_index = 1;
  expect_one(check_gids(fake.machine), Verdict::kOk, "IPv6");
  fake.machine.config.ib_gid_index = 2;
  expect_one(check_gids(fake.machine), Verdict::kProblem, "GSHMEM_IB_GID_INDEX=2 is RoCE v1");
  fake.machine.config.ib_gid_index = 9;
  expect_one(check_gids(fake.machine), Verdict::kProblem, "GID index 9 is empty");
  fake.machine.config.ib_gid_index = 4;
  fake.gid("mlx5_0", 4, kLinkLocal, "RoCE v2", "eth2");
  expect_one(check_gids(fake.machine), Verdict::kOk, "index 4, RoCE v2, fe80:");
  fake.machine.config.ib_gid_index = 0;
  fake.gid("mlx5_0", 0, kLinkLocal, "RoCE v2", "eth2");
  expect_one(check_gids(fake.machine), Verdict::kOk, "index 0, RoCE v2, fe80:");
  fake.gid("mlx5_0", 0, kLinkLocal, "IB/RoCE v1", "eth2");
  fake.gid("mlx5_0", 4, kZero, "RoCE v2", "eth2");
  // A choice that is bad is taken back, whichever it is.
  for (const int index : {0, 2, 9}) {
    fake.machine.config.ib_gid_index = index;
    const std::string number = std::to_string(index);
    Finding finding = check_gids(fake.machine).at(0);
    CHECK(finding.fix == "unset GSHMEM_IB_GID_INDEX");
    CHECK_THAT(finding.cause,
               Catch::StartsWith(index == 9 ? "GID index 9 is empty; the table: 1 RoCE v2 fe80:"
                                            : "GSHMEM_IB_GID_INDEX=" + number +
                                                  " is RoCE v1; the table: "));
    fake.gid("mlx5_0", index, kZero, "RoCE v2", "eth2");
    finding = check_gids(fake.machine).at(0);
    CHECK(finding.fix == "unset GSHMEM_IB_GID_INDEX");
    CHECK_THAT(finding.cause, Catch::StartsWith("GID index " + number + " is empty; the table: "));
  }
  // Nothing chosen, and nothing there to choose.
  fake.machine.config.ib_gid_index = -1;
  for (const int index : {1, 3}) fake.gid("mlx5_0", index, kZero, "RoCE v2", "eth2");
  expect_one(check_gids(fake.machine), Verdict::kProblem,
             "GID index 0 is empty; the table: emptysudo ip addr add <address>/<length> dev "
             "<interface>");
}

TEST_CASE("gid_without_ipv4_and_interface_elsewhere_are_problems") {
  FakeMachine fake;
  roce(fake, false);
  expect_one(check_gids(fake.machine), Verdict::kHint, "index 1, RoCE v2, fe80:");
  expect_one(check_gids(fake.machine), Verdict::kHint, "ip addr add <address>/<length> dev eth2");
  fake.gid("mlx5_0", 1, kZero, "RoCE v2", "eth2");
  expect_one(check_gids(fake.machine), Verdict::kProblem, "index 0, RoCE v1, fe80:");
  expect_one(check_gids(fake.machine), Verdict::kProblem,
             "ip addr add <address>/<length> dev eth2");
  fake.gid("mlx5_0", 7, kGlobal, "RoCE v2", "eth2");
  expect_one(check_gids(fake.machine), Verdict::kOk, "index 7, RoCE v2, 2001:0db8:");
  roce(fake);
  std::filesystem::remove_all(fake.machine.at("/sys/class/net/eth2"));
  expect_one(check_gids(fake.machine), Verdict::kProblem, "network namespace");
}

TEST_CASE("gid_of_an_unknown_type_is_not_called_a_version") {
  FakeMachine fake;
  roce(fake);
  std::filesystem::remove_all(fake.machine.at(std::string(kPort) + "gid_attrs"));
  expect_one(check_gids(fake.machine), Verdict::kSkipped, "index 2, of a type that sysfs does not");
}

TEST_CASE("gid_of_infiniband_is_the_first") {
  FakeMachine fake;
  fake.nic("mlx5_0", kNic, "InfiniBand");
  expect_one(check_gids(fake.machine), Verdict::kProblem, "index 0 is empty");
  fake.gid("mlx5_0", 0, "fe80:0000:0000:0000:b859:9f03:00d4:1234", "IB/RoCE v1", "");
  expect_one(check_gids(fake.machine), Verdict::kOk, "index 0, fe80:");
}

TEST_CASE("gid_table_is_in_numeric_order_and_survives_garbage") {
  FakeMachine fake;
  roce(fake);
  fake.gid("mlx5_0", 10, kIpv4, "RoCE v2", "eth2");
  fake.write(std::string(kPort) + "gids/11", "what\n");
  fake.write(std::string(kPort) + "gids/12", "zzzz:0000:0000:0000:0000:0000:0000:0001\n");
  const std::vector<nic::GidEntry> table = gids(fake.machine, rdma_ports(fake.machine).at(0));
  REQUIRE(table.size() == 5);
  CHECK(table[4].index == 10);
}

TEST_CASE("mtu_of_roce_is_what_fits_the_interface") {
  FakeMachine fake;
  expect_one(check_mtu(fake.machine), Verdict::kSkipped, "no active RDMA port");
  roce(fake);
  expect_one(check_mtu(fake.machine), Verdict::kOk, "carry 4096 bytes");
  for (const auto& [mtu, carries] : {std::pair{4192, 4096},
                                     {4191, 2048},
                                     {2144, 2048},
                                     {2143, 1024},
                                     {1500, 1024},
                                     {1119, 512},
                                     {608, 512},
                                     {607, 256},
                                     {68, 256}}) {
    fake.write("/sys/class/net/eth2/mtu", std::to_string(mtu) + "\n");
    expect_one(check_mtu(fake.machine), carries == 4096 ? Verdict::kOk : Verdict::kHint,
               "carry " + std::to_string(carries) + " bytes");
  }
  std::filesystem::remove_all(fake.machine.at("/sys/class/net/eth2"));
  expect_one(check_mtu(fake.machine), Verdict::kSkipped, "not visible");
  fake.nic("mlx5_0", kNic, "InfiniBand");
  expect_one(check_mtu(fake.machine), Verdict::kSkipped, "ibv_devinfo -d mlx5_0");
}

TEST_CASE("flow_control_says_what_counters_and_ecn_files_say") {
  FakeMachine fake;
  expect_one(check_flow_control(fake.machine), Verdict::kSkipped, "no active RoCE port");
  roce(fake);
  expect_one(check_flow_control(fake.machine), Verdict::kSkipped, "mlnx_qos -i eth2");
  fake.write(std::string(kPort) + "hw_counters/rcvd_pkts", "7\n");  // soft-RoCE's, not of losses
  expect_one(check_flow_control(fake.machine), Verdict::kSkipped, "no counters of lost packets");
  fake.write(std::string(kPort) + "hw_counters/packet_seq_err", "0\n");
  fake.machine.config.ib_service_level = 11;
  fake.machine.config.ib_traffic_class = 106;
  expect_one(check_flow_control(fake.machine), Verdict::kOk, "priority 3, DSCP 26");
  fake.write("/sys/class/net/eth2/ecn/roce_np/enable/3", "1\n");
  CHECK_FALSE(contains(check_flow_control(fake.machine).at(0).text, "ECN"));
  fake.write("/sys/class/net/eth2/ecn/roce_np/enable/5", "1\n");
  fake.write("/sys/class/net/eth2/ecn/roce_rp/enable/3", "0\n");
  expect_one(check_flow_control(fake.machine), Verdict::kOk,
             "ECN notifies on priorities 3 5, reacts on none");
  fake.write(std::string(kPort) + "hw_counters/packet_seq_err", "1\n");
  expect_one(check_flow_control(fake.machine), Verdict::kHint, "packet_seq_err 1");
  fake.write(std::string(kPort) + "hw_counters/local_ack_timeout_err", "2\n");
  fake.write(std::string(kPort) + "hw_counters/out_of_sequence", "0\n");
  expect_one(check_flow_control(fake.machine), Verdict::kHint,
             "local_ack_timeout_err 2, packet_seq_err 1");
}

}  // namespace gshmem::info
