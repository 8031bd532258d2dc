#include "tests/unit/info/fake_machine.h"

#include "host/base/error.h"
#include "host/tools/doctor/config_space.h"
#include "host/tools/doctor/topology.h"

namespace gshmem::info {
namespace {

// One root port with a switch: upstream port 02:00.0, downstream ports 03:00.0 and 03:01.0.
constexpr char kSwitch[] = "pci0000:00/0000:00:01.0/0000:02:00.0";
const std::string kSwitchedGpu = std::string(kSwitch) + "/0000:03:00.0/0000:04:00.0";
const std::string kNearNic = std::string(kSwitch) + "/0000:03:01.0/0000:05:00.0";
const std::string kFartherNic =
    std::string(kSwitch) + "/0000:03:02.0/0000:06:00.0/0000:07:00.0/0000:08:00.0";
constexpr char kRootNic[] = "pci0000:00/0000:00:02.0/0000:09:00.0";
constexpr char kOtherNic[] = "pci0000:80/0000:80:01.0/0000:81:00.0";

void put(std::string& config, std::size_t at, std::uint32_t value, std::size_t bytes) {
  for (std::size_t i = 0; i < bytes; ++i) config[at + i] = static_cast<char>(value >> (8 * i));
}

/// Configuration space with AER in front of ACS, and PCI Express behind power management.
std::string config_space(std::uint32_t acs, std::uint32_t device_control) {
  std::string config(4096, '\0');
  put(config, 0x34, 0x40, 1);
  put(config, 0x40, 0x6001, 2);  // power management, next 0x60
  put(config, 0x60, 0x7010, 2);  // PCI Express, next 0x70
  put(config, 0x70, 0x0005, 2);  // MSI, last
  put(config, 0x68, device_control, 2);
  put(config, 0x100, 0x14820001, 4);  // AER, next 0x148
  put(config, 0x148, 0x0001000d, 4);  // ACS, last
  put(config, 0x14c, 0x005f, 2);
  put(config, 0x14e, acs, 2);
  return config;
}

Distance distance(const FakeMachine& fake) {
  return distance_between(gpus(fake.machine).at(0), nics(fake.machine).at(0));
}

}  // namespace

TEST_CASE("distance_is_read_off_the_paths") {
  const auto with_nic = [](const std::string& path, const std::string& numa_node) {
    FakeMachine fake;
    fake.gpu(kSwitchedGpu);
    fake.nic("mlx5_0", path, "InfiniBand", {{"numa_node", numa_node}});
    return distance(fake);
  };
  CHECK(with_nic(kNearNic, "0") == Distance::kPix);
  CHECK(with_nic(kFartherNic, "0") == Distance::kPxb);
  CHECK(with_nic(kRootNic, "0") == Distance::kPhb);
  CHECK(with_nic(kOtherNic, "0") == Distance::kNode);
  CHECK(with_nic(kOtherNic, "1") == Distance::kSys);
  CHECK(with_nic(kOtherNic, "-1") == Distance::kSys);
}

TEST_CASE("each_gpu_is_told_its_nearest_nic") {
  FakeMachine fake;
  expect_one(check_gpu_nic_distance(fake.machine), Verdict::kSkipped, "no NVIDIA GPU");
  fake.gpu(kSwitchedGpu);
  expect_one(check_gpu_nic_distance(fake.machine), Verdict::kSkipped, "no RDMA device");
  fake.nic("mlx5_1", kOtherNic, "InfiniBand", {{"numa_node", "1"}});
  expect_one(check_gpu_nic_distance(fake.machine), Verdict::kProblem, "SYS");
  fake.nic("mlx5_2", kRootNic, "InfiniBand");
  expect_one(check_gpu_nic_distance(fake.machine), Verdict::kHint, "mlx5_2 (0000:09:00.0): PHB");
  fake.nic("mlx5_0", kNearNic, "InfiniBand");
  expect_one(check_gpu_nic_distance(fake.machine), Verdict::kOk, "mlx5_0 (0000:05:00.0): PIX");
  fake.write("/sys/class/infiniband/mlx5_0/ports/1/state", "1: DOWN\n");
  expect_one(check_gpu_nic_distance(fake.machine), Verdict::kHint, "mlx5_2 (0000:09:00.0): PHB");
  // Of NICs without a link the nearest is meant all the same.
  for (const char* name : {"mlx5_1", "mlx5_2"})
    fake.write(std::string("/sys/class/infiniband/") + name + "/ports/1/state", "1: DOWN\n");
  expect_one(check_gpu_nic_distance(fake.machine), Verdict::kOk, "mlx5_0 (0000:05:00.0): PIX");
}

TEST_CASE("a_gpu_whose_node_sysfs_does_not_name_is_of_none") {
  FakeMachine fake;
  fake.pci(kSwitchedGpu, {{"vendor", "0x10de\n"}, {"class", "0x030200\n"}});
  fake.nic("mlx5_0", kOtherNic, "InfiniBand", {{"numa_node", "1"}});
  expect_one(check_gpu_nic_distance(fake.machine), Verdict::kProblem, "NUMA node -1)");
}

TEST_CASE("each_distance_has_its_verdict") {
  struct Row {
    std::string nic;
    const char* numa_node;
    Verdict verdict;
    const char* part;
  };
  for (const Row& row : {Row{kNearNic, "0", Verdict::kOk, "mlx5_0 (0000:05:00.0): PIX"},
                         Row{kFartherNic, "0", Verdict::kOk, "mlx5_0 (0000:08:00.0): PXB"},
                         Row{kRootNic, "0", Verdict::kHint, ": PHB: PCI peer traffic is limited"},
                         Row{kOtherNic, "0", Verdict::kHint, "share no PCI switch (pci0000:00)"},
                         Row{kOtherNic, "1", Verdict::kProblem, "(pci0000:00, NUMA node 0)"}}) {
    FakeMachine fake;
    fake.gpu(kSwitchedGpu);
    fake.nic("mlx5_0", row.nic, "InfiniBand", {{"numa_node", row.numa_node}});
    expect_one(check_gpu_nic_distance(fake.machine), row.verdict, row.part);
  }
}

TEST_CASE("devices_without_a_place_on_pci_are_none_of_these_checks") {
  FakeMachine fake;
  fake.write("/sys/class/infiniband/rxe0/ports/1/state", "4: ACTIVE\n");
  // Neither one of another vendor nor the sound of a graphics card is a GPU.
  fake.pci(kRootNic, {{"vendor", "0x1a03\n"}, {"class", "0x030000\n"}});
  fake.pci(kOtherNic, {{"vendor", "0x10de\n"}, {"class", "0x040300\n"}});
  expect_one(check_mig(fake.machine), Verdict::kSkipped, "no NVIDIA GPU");
  fake.cuda_gpu(0, "0000:1B:00.0");  // not in sysfs
  fake.write("/sys/class/iommu/dmar0/x", "");
  expect_one(check_iommu(fake.machine), Verdict::kSkipped, "there is no GPU and no NIC");
  expect_one(check_pci_link(fake.machine), Verdict::kSkipped, "no GPU and no RDMA device on PCI");
  expect_one(check_numa(fake.machine), Verdict::kSkipped, "no GPU and no RDMA device on PCI");
  expect_one(check_relaxed_ordering(fake.machine), Verdict::kSkipped, "no RDMA device on PCI");
  expect_one(check_gpu_nic_distance(fake.machine), Verdict::kSkipped, "no RDMA device on PCI");
}

TEST_CASE("gpus_are_those_of_cuda_or_else_of_sysfs") {
  FakeMachine fake;
  fake.gpu(kSwitchedGpu);
  fake.gpu(kNearNic);
  CHECK(gpus(fake.machine).size() == 2);
  fake.cuda_gpu(0, "0000:04:00.0");
  REQUIRE(gpus(fake.machine).size() == 1);
  CHECK(gpus(fake.machine)[0].name == "GPU 0 (0000:04:00.0)");
}

TEST_CASE("gpu_that_sysfs_hides_is_said_to_be_hidden") {
  FakeMachine fake;
  fake.cuda_gpu(0, "0000:1B:00.0");
  fake.nic("mlx5_0", kNearNic, "InfiniBand");
  expect_one(check_gpu_nic_distance(fake.machine), Verdict::kSkipped, "GPU 0 (0000:1b:00.0)");
}

TEST_CASE("acs_control_is_found_behind_other_capabilities") {
  CHECK(acs_control(config_space(0x5d, 0)) == 0x5d);
  CHECK(acs_control(std::string(4096, '\0')) == std::nullopt);
  CHECK(acs_control(std::string(4096, '\xff')) == std::nullopt);
  std::string loop = config_space(0x5d, 0);
  put(loop, 0x148, 0x14820002, 4);  // points at itself
  CHECK(acs_control(loop) == std::nullopt);
  CHECK(acs_control("") == std::nullopt);
  // What is cut off is 0, whatever follows in memory.
  const std::string whole = config_space(0x5d5d, 0);
  CHECK(acs_control(std::string_view(whole).substr(0, 0x14f)) == 0x5d);
  // The space before 256 bytes has other capabilities.
  std::string vendor(4096, '\0');
  put(vendor, 0, 0x0001000d, 4);
  CHECK(acs_control(vendor) == std::nullopt);
}

TEST_CASE("lists_of_capabilities_are_followed_to_their_last_place") {
  std::string config(4096, '\0');
  put(config, 0x34, 0x40, 1);
  for (std::size_t at = 0x40; at < 0xfc; at += 4)
    put(config, at, static_cast<std::uint32_t>((at + 4) << 8 | 0x01), 4);
  put(config, 0xfc, 0x0010, 2);
  for (std::size_t at = 0x100; at < 0xff8; at += 4)
    put(config, at, static_cast<std::uint32_t>((at + 4) << 20 | 0x10001), 4);
  put(config, 0xff8, 0x0001000d, 4);
  put(config, 0xffe, 0x5d, 2);
  CHECK(acs_control(config) == 0x5d);
  CHECK(device_control(config) == 0x0001);  // which is the number of the place after it
}

TEST_CASE("device_control_is_found_in_the_conventional_list") {
  const auto control = device_control(config_space(0, 0x5936));
  REQUIRE(control);
  CHECK(*control == 0x5936);
  CHECK(max_read_request_bytes(*control) == 4096);
  CHECK(device_control(std::string(64, '\0')) == std::nullopt);
  // The register is the last thing that can be read, or is cut.
  CHECK(device_control(config_space(0, 0x5936).substr(0, 0x6a)) == 0x5936);
  CHECK(device_control(config_space(0, 0x5936).substr(0, 0x69)) == std::nullopt);
  CHECK(device_control(std::string(256, '\x44')) == std::nullopt);  // a loop
}

TEST_CASE("acs_redirect_between_gpu_and_nic_is_a_problem") {
  FakeMachine fake;
  expect_one(check_acs(fake.machine), Verdict::kSkipped, "no NVIDIA GPU");
  fake.gpu(kSwitchedGpu);
  fake.nic("mlx5_0", kOtherNic, "InfiniBand");
  expect_one(check_acs(fake.machine), Verdict::kSkipped, "host bridge anyway");

  fake.nic("mlx5_0", kNearNic, "InfiniBand");
  const std::string gpu_port = std::string(kSwitch) + "/0000:03:00.0";
  const std::string nic_port = std::string(kSwitch) + "/0000:03:01.0";
  fake.pci(gpu_port, {{"config", config_space(0x1, 0)}});
  fake.pci(nic_port, {{"config", config_space(0x0, 0)}});
  expect_one(check_acs(fake.machine), Verdict::kOk, "2 bridge(s)");
  fake.pci(nic_port, {{"config", config_space(0x1d, 0)}});
  expect_one(check_acs(fake.machine), Verdict::kProblem,
             "setpci -s 0000:03:01.0 ECAP_ACS+6.w=0000");
  fake.pci(nic_port, {{"config", config_space(0x5d, 0)}});
  expect_one(check_acs(fake.machine), Verdict::kHint, "ATS_ENABLED");
  // Each way to turn packets back is enough; what sends them on, or blocks them, is none.
  for (const std::uint32_t bit : {0x01u, 0x02u, 0x04u, 0x08u, 0x10u, 0x20u, 0x40u}) {
    fake.pci(nic_port, {{"config", config_space(bit, 0)}});
    const bool back = bit == 0x04 || bit == 0x08 || bit == 0x20;
    expect_one(check_acs(fake.machine), back ? Verdict::kProblem : Verdict::kOk,
               back ? strprintf("0000:03:01.0 (ACSCtl 0x%04x)", bit) : "2 bridge(s)");
  }
  for (const std::size_t bytes : {64u, 256u}) {
    fake.pci(nic_port, {{"config", config_space(0x1d, 0).substr(0, bytes)}});
    expect_one(check_acs(fake.machine), Verdict::kSkipped, "0000:03:01.0 is not readable");
  }
}

TEST_CASE("acs_between_two_gpus_counts_as_well") {
  FakeMachine fake;
  fake.gpu(kSwitchedGpu);
  fake.gpu(kNearNic);
  fake.pci(std::string(kSwitch) + "/0000:03:00.0", {{"config", config_space(0x4, 0)}});
  fake.pci(std::string(kSwitch) + "/0000:03:01.0", {{"config", config_space(0x8, 0)}});
  expect_one(check_acs(fake.machine), Verdict::kProblem,
             "disable_acs_redir=0000:03:00.0;0000:03:01.0");
}

TEST_CASE("relaxed_ordering_is_read_as_root_only") {
  FakeMachine fake;
  expect_one(check_relaxed_ordering(fake.machine), Verdict::kSkipped, "no RDMA device");
  fake.nic("mlx5_0", kNearNic, "InfiniBand", {{"config", config_space(0, 0x5936)}});
  expect_one(check_relaxed_ordering(fake.machine), Verdict::kOk, "MaxReadReq 4096");
  fake.nic("mlx5_0", kNearNic, "InfiniBand", {{"config", config_space(0, 0x5926)}});
  expect_one(check_relaxed_ordering(fake.machine), Verdict::kHint, "CAP_EXP+8.w=0010:0010");
  fake.nic("mlx5_0", kNearNic, "InfiniBand", {{"config", std::string(64, '\0')}});
  expect_one(check_relaxed_ordering(fake.machine), Verdict::kSkipped, "sudo gshmem-info");
  fake.nic("mlx5_0", kNearNic, "InfiniBand", {{"config", std::string(256, '\0')}});
  expect_one(check_relaxed_ordering(fake.machine), Verdict::kSkipped,
             "mlx5_0 (0000:05:00.0) has no PCI Express capability");
}

TEST_CASE("iommu_must_not_translate_gpus_and_nics") {
  FakeMachine fake;
  fake.write("/proc/cmdline", "root=/dev/sda1 intel_iommu=on quiet\n");
  expect_one(check_iommu(fake.machine), Verdict::kOk, "no IOMMU is active (intel_iommu=on)");
  fake.write("/sys/class/iommu/dmar0/x", "");
  expect_one(check_iommu(fake.machine), Verdict::kSkipped, "no GPU and no NIC");
  fake.gpu(kSwitchedGpu);
  fake.write("/sys/kernel/iommu_groups/7/type", "identity\n");
  fake.link("/sys/devices/" + kSwitchedGpu + "/iommu_group", "/sys/kernel/iommu_groups/7");
  expect_one(check_iommu(fake.machine), Verdict::kOk, "not translated");
  fake.write("/sys/kernel/iommu_groups/7/type", "DMA-FQ\n");
  expect_one(check_iommu(fake.machine), Verdict::kProblem, "iommu=pt");
  fake.machine.architecture = "aarch64";
  expect_one(check_iommu(fake.machine), Verdict::kOk, "as is usual on aarch64");
}

TEST_CASE("downgraded_links_are_problems_but_slow_idle_gpus_hints") {
  FakeMachine fake;
  expect_one(check_pci_link(fake.machine), Verdict::kSkipped, "no GPU");
  const auto link = [](const std::string& speed, const std::string& width,
                       const std::string& widest = "16") {
    return std::map<std::string, std::string>{{"current_link_speed", speed},
                                              {"max_link_speed", "32.0 GT/s PCIe"},
                                              {"current_link_width", width},
                                              {"max_link_width", widest}};
  };
  fake.gpu(kSwitchedGpu);
  expect_one(check_pci_link(fake.machine), Verdict::kSkipped, "no PCIe link");
  for (const auto& files : {link("Unknown", "16"), link("", "16"), link("32.0 GT/s PCIe", "0"),
                            link("32.0 GT/s PCIe", "1", "0"), link("32.0 GT/s PCIe", "1", "255")}) {
    fake.gpu(kSwitchedGpu, files);
    expect_one(check_pci_link(fake.machine), Verdict::kSkipped, "no PCIe link");
  }
  fake.gpu(kSwitchedGpu, link("1.0 GT/s PCIe", "1", "1"));
  expect_one(check_pci_link(fake.machine), Verdict::kHint, "x1 at 1.0 GT/s");
  fake.gpu(kSwitchedGpu, link("64.0 GT/s PCIe", "32"));
  expect_one(check_pci_link(fake.machine), Verdict::kOk, "x32 at 64.0 GT/s");
  fake.gpu(kSwitchedGpu, link("32.0 GT/s PCIe", "16"));
  expect_one(check_pci_link(fake.machine), Verdict::kOk, "x16 at 32.0 GT/s");
  fake.gpu(kSwitchedGpu, link("2.5 GT/s PCIe", "16"));
  expect_one(check_pci_link(fake.machine), Verdict::kHint, "while idle");
  fake.gpu(kSwitchedGpu, link("32.0 GT/s PCIe", "8"));
  expect_one(check_pci_link(fake.machine), Verdict::kProblem, "8/16");

  FakeMachine other;
  other.nic("mlx5_0", kNearNic, "InfiniBand", link("16.0 GT/s PCIe", "16"));
  other.pci(std::string(kSwitch) + "/0000:03:01.0",
            {{"max_link_speed", "16.0 GT/s PCIe\n"}, {"max_link_width", "16\n"}});
  expect_one(check_pci_link(other.machine), Verdict::kProblem,
             "0000:03:01.0, can do x16 at 16.0 GT/s");
  FakeMachine near;
  near.nic("mlx5_0", "pci0000:00/0000:00:01.0/0000:01:00.0", "InfiniBand",
           link("16.0 GT/s PCIe", "16"));
  expect_one(check_pci_link(near.machine), Verdict::kProblem,
             "the port above, 0000:00:01.0, does not say what it can do");
  FakeMachine alone;
  alone.nic("mlx5_0", "pci0000:00/0000:00:01.0", "InfiniBand", link("16.0 GT/s PCIe", "16"));
  expect_one(check_pci_link(alone.machine), Verdict::kProblem, "the root port does not say more");
}

TEST_CASE("numa_says_where_devices_are_and_whether_the_process_is_near") {
  FakeMachine fake;
  expect_one(check_numa(fake.machine), Verdict::kSkipped, "no GPU");
  fake.gpu(kSwitchedGpu, {{"numa_node", "1"}, {"local_cpulist", "4-7,12\n"}});
  for (const char* file : {"node0/x", "online", "has_1", "nodes"})
    fake.write(std::string("/sys/devices/system/node/") + file, "");
  expect_one(check_numa(fake.machine), Verdict::kOk, "one NUMA node");
  fake.write("/sys/devices/system/node/node1/x", "");
  expect_one(check_numa(fake.machine), Verdict::kOk, "node 1");
  fake.capabilities(kNoCapabilities);  // allowed on 0-3
  expect_one(check_numa(fake.machine), Verdict::kHint, "--bind-to numa");
  fake.gpu(kSwitchedGpu, {{"numa_node", "1"}, {"local_cpulist", "2,3\n"}});
  expect_one(check_numa(fake.machine), Verdict::kOk, "node 1");
  fake.gpu(kSwitchedGpu, {{"numa_node", "0"}, {"local_cpulist", "0-7\n"}});
  expect_one(check_numa(fake.machine), Verdict::kOk, "GPU 0000:04:00.0 node 0");
  fake.gpu(kSwitchedGpu, {{"numa_node", "-1"}, {"local_cpulist", "0-7\n"}});
  expect_one(check_numa(fake.machine), Verdict::kHint, "numa_node is -1");
}

}  // namespace gshmem::info
