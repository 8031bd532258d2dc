// A machine out of a temporary folder, for the tests of gshmem-info --doctor: files and links that
// stand for /sys, /proc and /dev, and values for what the kernel would be asked. Nothing of the
// machine that the test runs on is seen.
#pragma once

#include "host/tools/doctor/checks.h"

#include <catch2/catch.hpp>

#include <stdlib.h>

#include <cerrno>
#include <fstream>
#include <map>
#include <string>
#include <vector>

namespace gshmem::info {

/// Where a GPU and a NIC sit in many of the tests.
inline constexpr char kGpu[] = "pci0000:00/0000:00:01.0/0000:01:00.0";
inline constexpr char kNic[] = "pci0000:00/0000:00:02.0/0000:02:00.0";

class FakeMachine {
 public:
  FakeMachine() {
    std::string name = (std::filesystem::temp_directory_path() / "gshmem-doctor.XXXXXX").string();
    REQUIRE(mkdtemp(name.data()) != nullptr);
    machine.root = std::filesystem::canonical(name);
    machine.host = "fake";
    machine.architecture = "x86_64";
    machine.cuda.why_none = "no driver here";
    machine.config =
        Config::from([](const char*, void*) -> const char* { return nullptr; }, nullptr);
    machine.env = [this](const char* variable) -> const char* {
      const auto found = environment.find(variable);
      return found == environment.end() ? nullptr : found->second.c_str();
    };
    machine.open_errno = [](const std::filesystem::path& file) {
      return std::filesystem::exists(file) ? 0 : ENOENT;
    };
    machine.volume_bytes = [this](const std::filesystem::path&) { return shm_bytes; };
    machine.library = [this](const std::string& soname, const std::vector<std::string>&) {
      const auto found = libraries.find(soname);
      return found == libraries.end() ? Library{.file = "", .why_not = "cannot load", .missing = {}}
                                      : found->second;
    };
  }
  ~FakeMachine() { std::filesystem::remove_all(machine.root); }
  FakeMachine(const FakeMachine&) = delete;

  void write(const std::string& file, const std::string& text) const {
    const std::filesystem::path path = machine.at(file);
    std::filesystem::create_directories(path.parent_path());
    std::ofstream(path, std::ios::binary) << text;
  }
  /// A link `from` to `to`, both below the root.
  void link(const std::string& from, const std::string& to) const {
    const std::filesystem::path path = machine.at(from);
    std::filesystem::create_directories(path.parent_path());
    std::filesystem::create_directories(machine.at(to));
    std::filesystem::remove(path);
    std::filesystem::create_symlink(machine.at(to), path);
  }

  /// The function at the end of "pci0000:00/0000:00:01.0/0000:01:00.0", and the bridges above it.
  void pci(const std::string& path, const std::map<std::string, std::string>& files = {}) const {
    for (std::size_t slash = path.find('/'); slash != std::string::npos;) {
      const std::size_t next = path.find('/', slash + 1);
      const std::string part = path.substr(0, next);
      link("/sys/bus/pci/devices/" + path.substr(slash + 1, next - slash - 1),
           "/sys/devices/" + part);
      slash = next;
    }
    for (const auto& [name, text] : files) write("/sys/devices/" + path + "/" + name, text);
  }
  /// A GPU on the bus, without CUDA.
  void gpu(const std::string& path, std::map<std::string, std::string> files = {}) const {
    files.insert({{"vendor", "0x10de\n"}, {"class", "0x030200\n"}, {"numa_node", "0\n"}});
    pci(path, files);
  }
  /// An mlx5 NIC with one active port.
  void nic(const std::string& name, const std::string& path, const std::string& link_layer,
           std::map<std::string, std::string> files = {}) const {
    files.insert({{"vendor", "0x15b3\n"}, {"class", "0x020700\n"}, {"numa_node", "0\n"}});
    pci(path, files);
    link("/sys/devices/" + path + "/driver", "/sys/bus/pci/drivers/mlx5_core");
    link("/sys/class/infiniband/" + name + "/device", "/sys/devices/" + path);
    const std::string port = "/sys/class/infiniband/" + name + "/ports/1/";
    write(port + "link_layer", link_layer + "\n");
    write(port + "state", "4: ACTIVE\n");
    write(port + "phys_state", "5: LinkUp\n");
    write(port + "rate", "400 Gb/sec (4X NDR)\n");
    write(port + "pkeys/0", "0xffff\n");
  }
  void gid(const std::string& device, int index, const std::string& gid, const std::string& type,
           const std::string& netdev) const {
    const std::string port = "/sys/class/infiniband/" + device + "/ports/1/";
    const std::string n = std::to_string(index);
    write(port + "gids/" + n, gid + "\n");
    write(port + "gid_attrs/types/" + n, type + "\n");
    write(port + "gid_attrs/ndevs/" + n, netdev + "\n");
  }
  /// A GPU that CUDA lists, with access to itself only until the test says more.
  CudaGpu& cuda_gpu(int device, const std::string& pci_address) {
    machine.cuda.built = true;
    machine.cuda.why_none.clear();
    CudaGpu gpu;
    gpu.info.device = device;
    gpu.info.pci = pci_address;
    gpu.dma_buf = gpu.gpudirect_rdma = true;
    machine.cuda.gpus.push_back(gpu);
    return machine.cuda.gpus.back();
  }
  void driver(const std::string& flavour, const std::string& kernel) const {
    write("/proc/driver/nvidia/version",
          "NVRM version: NVIDIA UNIX " + flavour + "  580.95.05  Release Build\nGCC version: 12\n");
    write("/proc/sys/kernel/osrelease", kernel + "\n");
  }
  /// Capabilities as /proc/self/status writes them, in the initial user namespace.
  void capabilities(const std::string& hex) const {
    write("/proc/self/status", "Name:\tx\nCapEff:\t" + hex + "\nCpus_allowed_list:\t0-3\n");
    write("/proc/self/uid_map", "         0          0 4294967295\n");
  }

  Machine machine;
  std::map<std::string, std::string> environment;
  std::map<std::string, Library> libraries;
  std::optional<std::uint64_t> shm_bytes;
};

constexpr char kNoCapabilities[] = "0000000000000000";
constexpr char kAllCapabilities[] = "000001ffffffffff";

inline bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

/// The one finding of a check, which has this verdict and names `part` somewhere.
inline void expect_one(const Findings& findings, Verdict verdict, const std::string& part) {
  REQUIRE(findings.size() == 1);
  const Finding& finding = findings[0];
  INFO(finding.text << " | " << finding.cause << " | " << finding.fix);
  CHECK(finding.verdict == verdict);
  CHECK(contains(finding.text + finding.cause + finding.fix, part));
  const bool trouble = verdict == Verdict::kHint || verdict == Verdict::kProblem;
  CHECK(finding.cause.empty() != trouble);
  CHECK(finding.fix.empty() != trouble);
}

}  // namespace gshmem::info
