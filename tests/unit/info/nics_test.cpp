#include "host/tools/info/nics.h"
#include "host/tools/info/report.h"

#include <catch2/catch.hpp>

#include <stdlib.h>

#include <filesystem>
#include <fstream>

namespace gshmem::info {
namespace {

namespace fs = std::filesystem;

/// A folder that stands for /sys, removed at the end of the test.
class FakeSysfs {
 public:
  FakeSysfs() {
    std::string name = (fs::temp_directory_path() / "gshmem-sysfs.XXXXXX").string();
    REQUIRE(mkdtemp(name.data()) != nullptr);
    root_ = name;
  }
  ~FakeSysfs() { fs::remove_all(root_); }
  FakeSysfs(const FakeSysfs&) = delete;

  void write(const std::string& file, const std::string& text) const {
    const fs::path path = root_ / "class" / "infiniband" / file;
    fs::create_directories(path.parent_path());
    std::ofstream(path) << text;
  }
  [[nodiscard]] std::string root() const { return root_.string(); }

 private:
  fs::path root_;
};

}  // namespace

TEST_CASE("no_infiniband_folder_is_no_cards") {
  const FakeSysfs sysfs;
  CHECK(nic_ports(sysfs.root()).empty());
  CHECK(nic_ports("/does/not/exist").empty());
}

TEST_CASE("ports_are_listed_by_device_and_number") {
  const FakeSysfs sysfs;
  sysfs.write("mlx5_1/ports/1/link_layer", "Ethernet\n");
  sysfs.write("mlx5_1/ports/1/state", "1: DOWN\n");
  sysfs.write("mlx5_0/ports/10/link_layer", "InfiniBand\n");
  sysfs.write("mlx5_0/ports/2/link_layer", "InfiniBand\n");
  sysfs.write("mlx5_0/ports/2/state", "4: ACTIVE\n");
  sysfs.write("mlx5_0/ports/2/rate", "400 Gb/sec (4X NDR)\n");

  const std::vector<NicPort> ports = nic_ports(sysfs.root());
  REQUIRE(ports.size() == 3);
  CHECK(ports[0].device == "mlx5_0");
  CHECK(ports[0].port == 2);
  CHECK(ports[0].link_layer == "InfiniBand");
  CHECK(ports[0].state == "ACTIVE");
  CHECK(ports[0].rate == "400 Gb/sec (4X NDR)");
  CHECK(ports[1].port == 10);
  CHECK(ports[1].state.empty());  // sysfs does not say
  CHECK(ports[2].device == "mlx5_1");
  CHECK(ports[2].state == "DOWN");
  CHECK(collect(sysfs.root()).nics.size() == 3);
}

TEST_CASE("a_card_without_ports_has_no_line") {
  const FakeSysfs sysfs;
  sysfs.write("mlx5_0/node_guid", "0\n");
  CHECK(nic_ports(sysfs.root()).empty());
}

}  // namespace gshmem::info
