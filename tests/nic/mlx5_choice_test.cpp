// Tests distances and the choice of device, GID and filter on fake sysfs trees.
#include "transport/nic/gid_choice.h"
#include "transport/nic/mlx5/device_choice.h"
#include "transport/nic/pci_distance.h"

#include <catch2/catch.hpp>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <set>
#include <string>
#include <tuple>

using namespace gshmem::nic;
using namespace gshmem::nic::mlx5;
namespace fs = std::filesystem;

namespace {

/// A sysfs tree in a temporary folder, removed with the object.
class FakeSysfs {
 public:
  FakeSysfs() {
    std::string name = (fs::temp_directory_path() / "gshmem-sysfs-XXXXXX").string();
    REQUIRE(mkdtemp(name.data()) != nullptr);
    root_ = name;
  }
  ~FakeSysfs() { fs::remove_all(root_); }
  [[nodiscard]] std::string root() const { return root_.string(); }

  void write(const fs::path& path, const std::string& text) const {
    fs::create_directories((root_ / path).parent_path());
    std::ofstream(root_ / path) << text << "\n";
  }
  void pci(const std::string& path, int numa) const {
    write(fs::path("devices") / path / "numa_node", std::to_string(numa));
    const fs::path link = root_ / "bus/pci/devices" / fs::path(path).filename();
    fs::create_directories(link.parent_path());
    fs::create_symlink(root_ / "devices" / path, link);
  }
  void nic(const std::string& name, const std::string& pci_path, int numa) const {
    pci(pci_path, numa);
    fs::create_directories(root_ / "class/infiniband" / name);
    fs::create_symlink(root_ / "devices" / pci_path, root_ / "class/infiniband" / name / "device");
  }
  void gid(const std::string& device, int index, const std::string& gid,
           const std::string& type) const {
    const fs::path port = fs::path("class/infiniband") / device / "ports/1";
    write(port / "gids" / std::to_string(index), gid);
    if (!type.empty()) write(port / "gid_attrs/types" / std::to_string(index), type);
  }
  void link_layer(const std::string& device, const std::string& layer) const {
    write(fs::path("class/infiniband") / device / "ports/1/link_layer", layer);
  }

 private:
  fs::path root_;
};

constexpr const char* kEmpty = "0000:0000:0000:0000:0000:0000:0000:0000";
constexpr const char* kLocal = "fe80:0000:0000:0000:0202:c9ff:fe00:0001";
constexpr const char* kGlobal = "2001:0db8:0000:0000:0000:0000:0000:0001";
constexpr const char* kIpv4 = "0000:0000:0000:0000:0000:ffff:0a00:0001";

Distance pci_distance(const std::string& nic, const std::string& gpu) {
  return distance_between(place_of_path(nic), place_of_path(gpu));
}

std::string message(const std::function<void()>& call) {
  try {
    call();
  } catch (const gshmem::Error& error) {
    return error.what();
  }
  return "no error";
}

}  // namespace

TEST_CASE("distance_follows_the_pci_tree") {
  const std::string gpu =
      "/sys/devices/pci0000:00/0000:00:01.0/0000:01:00.0/0000:02:00.0/0000:03:00.0";
  const std::string root = "/sys/devices/pci0000:00/";
  CHECK(pci_distance(root + "0000:00:01.0/0000:01:00.0/0000:02:01.0/0000:04:00.0", gpu) ==
        Distance::kPix);
  CHECK(pci_distance(root + "0000:00:01.0/0000:01:00.0/0000:02:00.0/0000:03:00.1", gpu) ==
        Distance::kPix);
  CHECK(pci_distance(
            root + "0000:00:01.0/0000:01:00.0/0000:02:02.0/0000:05:00.0/0000:06:00.0/0000:07:00.0",
            gpu) == Distance::kPxb);
  // One more switch on one of the two sides.
  CHECK(pci_distance(root + "0000:00:01.0/0000:09:00.0", gpu) == Distance::kPxb);
  CHECK(pci_distance(root + "0000:00:01.0/0000:01:00.0/0000:02:02.0/0000:05:00.0/0000:06:00.0",
                     gpu) == Distance::kPxb);
  CHECK(pci_distance(root + "0000:00:02.0/0000:08:00.0", gpu) == Distance::kPhb);
  CHECK(pci_distance("/sys/devices/pci0000:80/0000:80:01.0/0000:81:00.0", gpu) == Distance::kSys);
  CHECK(pci_distance("/sys/devices/virtual/net/lo", gpu) == Distance::kUnknown);
  CHECK(pci_distance("", gpu) == Distance::kUnknown);
}

TEST_CASE("distance_of_a_device_is_read_through_its_links") {
  const FakeSysfs sysfs;
  sysfs.pci("pci0000:00/0000:00:01.0/0000:01:00.0/0000:02:00.0/0000:03:00.0", 0);
  sysfs.nic("mlx5_0", "pci0000:00/0000:00:01.0/0000:01:00.0/0000:02:01.0/0000:04:00.0", 0);
  sysfs.nic("mlx5_1", "pci0000:80/0000:80:01.0/0000:81:00.0", 1);
  sysfs.nic("mlx5_2", "pci0000:40/0000:40:01.0/0000:41:00.0", 0);
  const std::string gpu = "0000:03:00.0";
  CHECK(device_distance(sysfs.root(), "mlx5_0", gpu) == Distance::kPix);
  CHECK(device_distance(sysfs.root(), "mlx5_1", gpu) == Distance::kSys);
  CHECK(device_distance(sysfs.root(), "mlx5_2", gpu) == Distance::kNode);
  CHECK(device_distance(sysfs.root(), "mlx5_9", gpu) == Distance::kUnknown);
  CHECK(device_distance(sysfs.root(), "mlx5_0", "0000:99:00.0") == Distance::kUnknown);
  CHECK(device_distance(sysfs.root(), "mlx5_0", "") == Distance::kUnknown);
  CHECK(device_distance(sysfs.root(), "mlx5_0", "") == Distance::kUnknown);
}

TEST_CASE("nearest_device_is_chosen_and_equal_ones_are_spread") {
  const std::vector<Candidate> devices = {{"mlx5_10", 1, Distance::kPix},
                                          {"mlx5_2", 1, Distance::kPix},
                                          {"mlx5_0", 1, Distance::kSys},
                                          {"mlx5_2", 2, Distance::kPix}};
  CHECK(choose_devices(devices, 0, 1) == std::vector{1});
  CHECK(choose_devices(devices, 1, 1) == std::vector{3});
  CHECK(choose_devices(devices, 2, 1) == std::vector{0});
  CHECK(choose_devices(devices, 3, 1) == std::vector{1});
  CHECK(choose_devices({}, 0, 1).empty());
}

TEST_CASE("several_devices_are_the_nearest_ones_and_equal_ones_are_spread") {
  const std::vector<Candidate> four = {{"mlx5_3", 1, Distance::kPix},
                                       {"mlx5_0", 1, Distance::kPix},
                                       {"mlx5_2", 1, Distance::kPix},
                                       {"mlx5_1", 1, Distance::kPix}};
  // The order by name is 1, 3, 2, 0. Each rank gets two others while there are some, then a pair
  // with another first device.
  CHECK(choose_devices(four, 0, 2) == std::vector{1, 3});
  CHECK(choose_devices(four, 1, 2) == std::vector{2, 0});
  CHECK(choose_devices(four, 2, 2) == std::vector{3, 2});
  CHECK(choose_devices(four, 3, 2) == std::vector{0, 1});
  CHECK(choose_devices(four, 4, 2) == std::vector{1, 3});
  CHECK(choose_devices(four, 0, 3) == std::vector{1, 3, 2});
  CHECK(choose_devices(four, 1, 3) == std::vector{0, 1, 3});
  // With all devices, every rank begins with another one.
  std::set<int> first;
  for (int rank = 0; rank < 4; ++rank) {
    const std::vector<int> chosen = choose_devices(four, rank, 8);
    CHECK(std::set<int>(chosen.begin(), chosen.end()).size() == 4);
    first.insert(chosen.front());
  }
  CHECK(first.size() == 4);
}

TEST_CASE("devices_farther_away_come_after_the_nearest_ones") {
  const std::vector<Candidate> devices = {{"mlx5_0", 1, Distance::kSys},
                                          {"mlx5_1", 1, Distance::kPix},
                                          {"mlx5_2", 1, Distance::kSys},
                                          {"mlx5_3", 1, Distance::kPix}};
  CHECK(choose_devices(devices, 0, 1) == std::vector{1});
  CHECK(choose_devices(devices, 0, 2) == std::vector{1, 3});
  CHECK(choose_devices(devices, 1, 2) == std::vector{3, 1});
  CHECK(choose_devices(devices, 0, 3) == std::vector{1, 3, 0});
  CHECK(choose_devices(devices, 1, 3) == std::vector{3, 1, 2});
  CHECK(choose_devices(devices, 1, 4) == std::vector{3, 1, 2, 0});
}

TEST_CASE("the_fastest_of_equally_near_devices_are_spread") {
  const std::vector<Candidate> devices = {{"mlx5_0", 1, Distance::kPhb, 25},
                                          {"mlx5_1", 1, Distance::kPhb, 400},
                                          {"mlx5_2", 1, Distance::kPhb, 400},
                                          {"mlx5_3", 1, Distance::kSys, 800}};
  CHECK(choose_devices(devices, 0, 1) == std::vector{1});
  CHECK(choose_devices(devices, 1, 1) == std::vector{2});
  CHECK(choose_devices(devices, 2, 1) == std::vector{1});
  CHECK(choose_devices(devices, 0, 4) == std::vector{1, 2, 0, 3});
}

TEST_CASE("filter_has_prefixes_exact_names_exclusions_and_ports") {
  CHECK(DeviceFilter("").accepts("mlx5_0", 1));
  CHECK(DeviceFilter("mlx5").accepts("mlx5_bond_0", 1));
  CHECK_FALSE(DeviceFilter("mlx5_1").accepts("mlx5_0", 1));
  CHECK(DeviceFilter("mlx5_1").accepts("mlx5_10", 1));
  CHECK_FALSE(DeviceFilter("=mlx5_1").accepts("mlx5_10", 1));
  CHECK(DeviceFilter("=mlx5_1:2,mlx5_3").accepts("mlx5_3", 1));
  CHECK(DeviceFilter("=mlx5_1:2,mlx5_3").accepts("mlx5_1", 2));
  CHECK_FALSE(DeviceFilter("=mlx5_1:2,mlx5_3").accepts("mlx5_1", 1));
  CHECK_FALSE(DeviceFilter("^mlx5_1").accepts("mlx5_1", 1));
  CHECK_FALSE(DeviceFilter("^mlx5_1").accepts("mlx5_10", 1));
  CHECK(DeviceFilter("^=mlx5_1").accepts("mlx5_10", 1));
  CHECK_FALSE(DeviceFilter("^=mlx5_1:2").accepts("mlx5_1", 2));
  for (const int port : {1, 255})
    CHECK(DeviceFilter("=mlx5_0:" + std::to_string(port)).accepts("mlx5_0", port));
  CHECK(DeviceFilter(",mlx5_0,,mlx5_1,").accepts("mlx5_1", 1));
  CHECK_FALSE(DeviceFilter(",mlx5_0,,mlx5_1,").accepts("mlx5_2", 1));
}

TEST_CASE("bad_filter_names_variable_and_value") {
  for (const char* bad : {"mlx5_0:x", "mlx5_0:0", "mlx5_0:256", "mlx5_0:1x", "mlx5_0,^mlx5_1",
                          "mlx5_0,=mlx5_1", "^", "=", "^=,", "mlx5_0:"}) {
    CAPTURE(bad);
    CHECK_THAT(message([&] { DeviceFilter filter(bad); }),
               Catch::Contains(std::string("GSHMEM_NIC_DEVICES=\"") + bad + "\""));
  }
}

TEST_CASE("gids_are_read_without_the_empty_ones") {
  const FakeSysfs sysfs;
  sysfs.link_layer("mlx5_0", "Ethernet");
  sysfs.gid("mlx5_0", 0, kLocal, "IB/RoCE v1");
  sysfs.gid("mlx5_0", 1, kLocal, "RoCE v2");
  sysfs.gid("mlx5_0", 2, kEmpty, "");
  sysfs.gid("mlx5_0", 10, kIpv4, "RoCE v2");
  const std::string end = ":0000:0000:0000:0000:0000:0001";
  for (const std::string& none : {"not a gid:0000" + end, "fe80:000g" + end, "fe80" + end,
                                  "fe80:0000:0000" + end, "1fe80:0000" + end, "fe80:" + end}) {
    sysfs.gid("mlx5_0", 3, none, "RoCE v2");
    INFO(none);
    CHECK(read_gids(sysfs.root(), "mlx5_0", 1).size() == 3);
  }
  const std::vector<GidEntry> gids = read_gids(sysfs.root(), "mlx5_0", 1);
  REQUIRE(gids.size() == 3);
  CHECK(gids[0].index == 0);
  CHECK(gids[0].kind == GidKind::kRoceV1);
  CHECK(gids[1].kind == GidKind::kRoceV2);
  CHECK(gids[2].index == 10);
  CHECK(gid_text(gids[2].gid) == "::ffff:10.0.0.1");
  CHECK(gid_text(gids[0].gid) == kLocal);
  CHECK(gid_address(gids[0].gid) == kLocal);
  CHECK(read_gids(sysfs.root(), "mlx5_7", 1).empty());
}

TEST_CASE("ethernet_prefers_roce_v2_over_ipv4") {
  const FakeSysfs sysfs;
  sysfs.link_layer("mlx5_0", "Ethernet");
  sysfs.gid("mlx5_0", 0, kLocal, "IB/RoCE v1");
  sysfs.gid("mlx5_0", 1, kLocal, "RoCE v2");
  sysfs.gid("mlx5_0", 2, kIpv4, "IB/RoCE v1");
  std::vector<GidEntry> gids = read_gids(sysfs.root(), "mlx5_0", 1);
  CHECK(choose_gid(gids, LinkLayer::kEthernet, -1, "mlx5_0").index == 1);
  sysfs.gid("mlx5_0", 4, kGlobal, "RoCE v2");
  gids = read_gids(sysfs.root(), "mlx5_0", 1);
  CHECK(choose_gid(gids, LinkLayer::kEthernet, -1, "mlx5_0").index == 4);
  sysfs.gid("mlx5_0", 5, kIpv4, "RoCE v2");
  gids = read_gids(sysfs.root(), "mlx5_0", 1);
  CHECK(choose_gid(gids, LinkLayer::kEthernet, -1, "mlx5_0").index == 5);
  CHECK(choose_gid(gids, LinkLayer::kEthernet, 2, "mlx5_0").index == 2);
}

TEST_CASE("gids_of_another_network_namespace_are_taken_last") {
  const FakeSysfs sysfs;
  sysfs.link_layer("mlx5_0", "Ethernet");
  sysfs.gid("mlx5_0", 0, kIpv4, "RoCE v2");
  sysfs.gid("mlx5_0", 1, kLocal, "RoCE v2");
  sysfs.write("class/infiniband/mlx5_0/ports/1/gid_attrs/ndevs/0", "eth2");
  sysfs.write("class/infiniband/mlx5_0/ports/1/gid_attrs/ndevs/1", "net1");
  sysfs.write("class/net/net1/mtu", "9000");
  const auto chosen = [&] {
    return choose_gid(read_gids(sysfs.root(), "mlx5_0", 1), LinkLayer::kEthernet, -1, "mlx5_0");
  };
  CHECK(chosen().index == 1);
  sysfs.write("class/net/eth2/mtu", "9000");
  CHECK(chosen().index == 0);
}

TEST_CASE("infiniband_takes_the_first_gid_or_none") {
  CHECK(choose_gid({}, LinkLayer::kInfiniBand, -1, "mlx5_0").index == 0);
  CHECK(choose_gid({{0, {1}, GidKind::kInfiniBand}, {1, {2}, GidKind::kInfiniBand}},
                   LinkLayer::kInfiniBand, -1, "mlx5_0")
            .index == 0);
}

TEST_CASE("error_for_a_missing_gid_says_what_to_do") {
  CHECK_THAT(message([] { (void)choose_gid({}, LinkLayer::kEthernet, -1, "mlx5_0 port 1"); }),
             Catch::Contains("mlx5_0 port 1 has no GID") && Catch::Contains("ip addr"));
  CHECK_THAT(message([] {
               (void)choose_gid({{3, {0xfe, 0x80}, GidKind::kRoceV2}}, LinkLayer::kEthernet, 7,
                                "mlx5_0 port 1");
             }),
             Catch::Contains("GSHMEM_IB_GID_INDEX=7") && Catch::Contains("3 (fe80:"));
  for (const LinkLayer layer : {LinkLayer::kEthernet, LinkLayer::kInfiniBand})
    CHECK_THAT(
        message([&] { (void)choose_gid({}, layer, 0, "mlx5_0 port 1"); }),
        Catch::Contains("GSHMEM_IB_GID_INDEX=0: entry 0 of the GID table of mlx5_0 port 1 is "
                        "empty; there are none"));
}

TEST_CASE("pes_use_the_network_that_all_of_them_have") {
  const Network ib{LinkLayer::kInfiniBand, {}, 0xfe80}, storage{LinkLayer::kInfiniBand, {}, 0x1234},
      ethernet{LinkLayer::kEthernet, {}, 0};
  CHECK(common_network({{ib}, {ib}}) == ib);
  // The nearest port of PE 1 is on another network than the rest.
  CHECK(common_network({{ib, ethernet}, {ethernet, ib}, {ib}}) == ib);
  CHECK(common_network({{ib, ethernet}, {ethernet, ib}, {ethernet, ib}}) == ethernet);
  CHECK(common_network({{storage, ethernet}, {ib, ethernet}}) == ethernet);
  CHECK(common_network({{ib, ethernet}, {ethernet, ib}}) == ib);  // equally near: PE 0 decides
  CHECK(common_network({{storage}, {ib}}) == std::nullopt);
  CHECK(network_text(ethernet) == "Ethernet");
  CHECK(network_text(ib) == "InfiniBand subnet 000000000000fe80");
}
