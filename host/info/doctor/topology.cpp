#include "host/info/doctor/topology.h"

#include "host/info/files.h"

#include <algorithm>
#include <cctype>

namespace gshmem::info {
namespace {

namespace fs = std::filesystem;

/// "0000:1b:00.0", with a longer domain behind a Volume Management Device.
bool is_pci_address(const std::string& name) {
  const std::size_t n = name.size();
  return n >= 12 && name[n - 2] == '.' && name[n - 5] == ':' && name[n - 8] == ':' &&
         std::all_of(name.begin(), name.end(), [](char c) {
           return std::isxdigit(static_cast<unsigned char>(c)) || c == ':' || c == '.';
         });
}

PciDevice described(std::string name, std::string address, const fs::path& link) {
  PciDevice device{.name = std::move(name), .address = std::move(address)};
  std::error_code error;
  const fs::path real = fs::canonical(link, error);
  if (error) return device;
  for (const fs::path& part : real) {
    const std::string word = part.string();
    if (is_pci_address(word)) device.path.push_back(word);
    // The first one counts: behind a Volume Management Device there is a second.
    if (word.starts_with("pci") && word.size() > 3 && device.host_bridge.empty()) {
      device.host_bridge = word;
    }
  }
  if (device.path.empty()) device.host_bridge.clear();
  return device;
}

std::string lower(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return text;
}

std::size_t shared_length(const PciDevice& a, const PciDevice& b) {
  if (a.host_bridge != b.host_bridge) return 0;
  const auto [end, unused] =
      std::mismatch(a.path.begin(), a.path.end(), b.path.begin(), b.path.end());
  return static_cast<std::size_t>(end - a.path.begin());
}

}  // namespace

fs::path pci_folder(const Machine& machine, const std::string& address) {
  return machine.at("/sys/bus/pci/devices") / address;
}

int pci_number(const Machine& machine, const std::string& address, const char* file) {
  return static_cast<int>(number_in(pci_folder(machine, address) / file).value_or(-1));
}

std::vector<PciDevice> gpus(const Machine& machine) {
  std::vector<PciDevice> found;
  for (const CudaGpu& gpu : machine.cuda.gpus) {
    const std::string address = lower(gpu.info.pci);
    found.push_back(described("GPU " + std::to_string(gpu.info.device) + " (" + address + ")",
                              address, pci_folder(machine, address)));
  }
  if (!found.empty()) return found;
  for (const std::string& address : names_in(machine.at("/sys/bus/pci/devices"))) {
    const fs::path folder = pci_folder(machine, address);
    // PCI Code and ID Assignment specification, base class 03h: display controllers.
    const bool display = first_line(folder / "class").starts_with("0x03");
    if (display && first_line(folder / "vendor") == "0x10de") {
      found.push_back(described("GPU " + address, address, folder));
    }
  }
  return found;
}

std::vector<PciDevice> nics(const Machine& machine) {
  std::vector<PciDevice> found;
  const fs::path cards = machine.at("/sys/class/infiniband");
  for (const std::string& name : names_in(cards)) {
    PciDevice nic = described(name, "", cards / name / "device");
    if (!nic.path.empty()) {
      nic.address = nic.path.back();
      nic.name += " (" + nic.address + ")";
    }
    found.push_back(std::move(nic));
  }
  return found;
}

std::vector<std::string> mlx5_devices(const Machine& machine) {
  std::vector<std::string> found;
  const fs::path cards = machine.at("/sys/class/infiniband");
  for (const std::string& name : names_in(cards)) {
    // By driver, because udev renames devices: mlx5_0, rocep23s0f0, ibp24s0.
    if (link_target_name(cards / name / "device" / "driver").starts_with("mlx5_core")) {
      found.push_back(name);
    }
  }
  return found;
}

bool has_rdma_device(const Machine& machine) {
  return !names_in(machine.at("/sys/class/infiniband")).empty();
}

const char* distance_name(Distance distance) {
  constexpr const char* kNames[] = {"PIX", "PXB", "PHB", "NODE", "SYS"};
  return kNames[static_cast<int>(distance)];
}

Distance distance_between(const Machine& machine, const PciDevice& a, const PciDevice& b) {
  const std::size_t shared = shared_length(a, b);
  if (shared > 0) {
    // One switch is its upstream port, which both share, and a downstream port for each.
    const bool one_switch = a.path.size() - shared <= 2 && b.path.size() - shared <= 2;
    return one_switch ? Distance::kPix : Distance::kPxb;
  }
  if (a.host_bridge == b.host_bridge) return Distance::kPhb;
  const int node_a = pci_number(machine, a.address, "numa_node");
  const int node_b = pci_number(machine, b.address, "numa_node");
  return node_a >= 0 && node_a == node_b ? Distance::kNode : Distance::kSys;
}

std::vector<std::string> bridges_between(const PciDevice& a, const PciDevice& b) {
  std::vector<std::string> bridges;
  const std::size_t shared = shared_length(a, b);
  if (shared == 0) return bridges;
  for (const PciDevice* device : {&a, &b}) {
    for (std::size_t i = shared; i + 1 < device->path.size(); ++i) {
      bridges.push_back(device->path[i]);
    }
  }
  return bridges;
}

}  // namespace gshmem::info
