// gshmem-info --gdr-proof takes as evidence only findings about the GPU and NIC that it has
// measured. measured.
#include "host/tools/proof/place.h"
#include "host/tools/proof/judge.h"

#include "tests/unit/info/test_machine.h"

#include <catch2/catch.hpp>

#include <algorithm>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

namespace gshmem::proof {

TEST_CASE("findings_about_other_devices_are_no_evidence") {
  const info::TestMachine test("two_cards", std::istringstream(R"(
gpu pci0000:00/0000:00:01.0/0000:04:00.0
nic mlx5_0 InfiniBand pci0000:00/0000:00:01.0/0000:05:00.0 current_link_speed=32.0_GT/s_PCIe max_link_speed=32.0_GT/s_PCIe current_link_width=16 max_link_width=16
nic mlx5_1 InfiniBand pci0000:80/0000:80:01.0/0000:81:00.0 current_link_speed=32.0_GT/s_PCIe max_link_speed=32.0_GT/s_PCIe current_link_width=4 max_link_width=16
)"));
  const auto narrow = [&](const char* network) {
    const Place place = find_place(test.machine, network, -1);
    return std::ranges::count(place.evidence, "pci_link", &Evidence::check);
  };
  CHECK(narrow("mlx5 (mlx5: mlx5_0 port 1)") == 0);
  CHECK(narrow("mlx5 (mlx5: mlx5_1 port 1)") == 1);
  CHECK(narrow("ofi (verbs;ofi_rxm on mlx5_1:1)") == 1);
  CHECK(narrow("") == 0);  // the nearest
}

TEST_CASE("evidence_is_about_the_pair_in_use") {
  // The GPU has a near NIC with a process that is near to both, and a far one. Neither says its
  // node.
  const info::TestMachine test("far_card", std::istringstream(R"(
gpu pci0000:00/0000:00:01.0/0000:04:00.0 local_cpulist=0-3
gpu pci0000:80/0000:80:01.0/0000:84:00.0 numa_node=1 local_cpulist=4-7
nic mlx5_0 InfiniBand pci0000:00/0000:00:01.0/0000:05:00.0 numa_node=-1 local_cpulist=0-3
nic mlx5_1 InfiniBand pci0000:80/0000:80:01.0/0000:81:00.0 numa_node=1 local_cpulist=4-7
file /sys/class/iommu/dmar0/x
file /sys/kernel/iommu_groups/7/type DMA-FQ
link /sys/devices/pci0000:80/0000:80:01.0/0000:84:00.0/iommu_group /sys/kernel/iommu_groups/7
file /sys/devices/system/node/node0/x
file /sys/devices/system/node/node1/x
file /proc/self/status Name: x\nCpus_allowed_list: 4-7
)"));
  const auto has = [&](const char* network, int gpu, const char* check) {
    const Place place = find_place(test.machine, network, gpu);
    return std::ranges::count(place.evidence, check, &Evidence::check) != 0;
  };
  CHECK_FALSE(has("mlx5_0 port 1", 0, "gpu_nic_distance"));
  CHECK(has("mlx5_1 port 1", 0, "gpu_nic_distance"));
  CHECK(has("mlx5_0 port 1", 0, "numa"));
  CHECK_FALSE(has("mlx5_1 port 1", 0, "numa"));
  CHECK_FALSE(has("mlx5_1 port 1", 1, "gpu_nic_distance"));
  CHECK_FALSE(has("mlx5_0 port 1", 0, "iommu"));
  CHECK(has("mlx5_1 port 1", 1, "iommu"));
}

TEST_CASE("packets_that_were_lost_before_are_no_evidence") {
  const info::TestMachine test("lost_packets", std::istringstream(R"(
gpu pci0000:00/0000:00:01.0/0000:04:00.0
nic mlx5_0 Ethernet pci0000:00/0000:00:01.0/0000:05:00.0
gid mlx5_0 3 0000:0000:0000:0000:0000:ffff:0a00:0001 eth2 RoCE v2
file /sys/class/net/eth2/mtu 9000
file /sys/class/infiniband/mlx5_0/ports/1/hw_counters/packet_seq_err 812
)"));
  const info::Findings before = info::check_flow_control(test.machine);
  const auto is_evidence = [&] {
    const Place place = find_place(test.machine, "mlx5_0 port 1", 0, before);
    return std::ranges::count(place.evidence, "flow_control", &Evidence::check) != 0;
  };
  CHECK_FALSE(is_evidence());
  std::ofstream(test.machine.at("/sys/class/infiniband/mlx5_0/ports/1/hw_counters/packet_seq_err"))
      << "815\n";
  CHECK(is_evidence());
}

TEST_CASE("missing_verbs_libraries_are_named_before_what_follows_from_them") {
  info::TestMachine test("no_verbs", std::istringstream(R"(
gpu pci0000:00/0000:00:01.0/0000:04:00.0
nic mlx5_0 InfiniBand pci0000:00/0000:00:01.0/0000:05:00.0
file /proc/driver/nvidia/params RegistryDwords: ""
)"));
  const auto late = [&] {
    const auto cause = most_likely(kLate, find_place(test.machine, "", -1), "");
    return cause ? cause->name : "";
  };
  CHECK(late() == "no_verbs");
  test.machine.library = [](const std::string& soname, const std::vector<std::string>&) {
    return info::Library{.file = soname, .why_not = "", .missing = {}};
  };
  CHECK(late() == "proxy");
}

}  // namespace gshmem::proof
