#include "transport/nic/pci_distance.h"

#include <algorithm>
#include <cctype>
#include <fstream>

namespace gshmem::nic {
namespace {

namespace fs = std::filesystem;

/// "0000:1b:00.0", with a longer domain below a Volume Management Device.
bool is_pci_address(const std::string& name) {
  const std::size_t n = name.size();
  return n >= 12 && name[n - 2] == '.' && name[n - 5] == ':' && name[n - 8] == ':' &&
         std::all_of(name.begin(), name.end(), [](char c) {
           return std::isxdigit(static_cast<unsigned char>(c)) || c == ':' || c == '.';
         });
}

PciPlace place_of_address(const std::string& sysfs, const std::string& pci) {
  return pci_place(fs::path(sysfs) / "bus/pci/devices" / sysfs_pci_address(pci));
}

std::size_t shared_length(const PciPlace& a, const PciPlace& b) {
  if (a.host_bridge != b.host_bridge) return 0;
  const auto [end, unused] =
      std::mismatch(a.path.begin(), a.path.end(), b.path.begin(), b.path.end());
  return static_cast<std::size_t>(end - a.path.begin());
}

}  // namespace

const char* distance_name(Distance distance) noexcept {
  constexpr const char* kNames[] = {"PIX", "PXB", "PHB", "NODE", "SYS", "unknown"};
  return kNames[static_cast<int>(distance)];
}

PciPlace place_of_path(const fs::path& path) {
  PciPlace place;
  for (const fs::path& part : path) {
    const std::string word = part.string();
    if (is_pci_address(word)) place.path.push_back(word);
    // The first one counts: below a Volume Management Device there is a second.
    if (word.starts_with("pci") && word.size() > 3 && place.host_bridge.empty())
      place.host_bridge = word;
  }
  if (place.path.empty()) place.host_bridge.clear();
  return place;
}

PciPlace pci_place(const fs::path& device) {
  std::error_code error;
  const fs::path real = fs::canonical(device, error);
  if (error) return {};
  PciPlace place = place_of_path(real);
  if (int node = 0; std::ifstream(real / "numa_node") >> node) place.numa_node = node;
  return place;
}

Distance distance_between(const PciPlace& a, const PciPlace& b) {
  if (a.path.empty() || b.path.empty()) return Distance::kUnknown;
  const std::size_t shared = shared_length(a, b);
  if (shared > 0) {
    // One switch is its upstream port, which both share, and a downstream port for each.
    const bool one_switch = a.path.size() - shared <= 2 && b.path.size() - shared <= 2;
    return one_switch ? Distance::kPix : Distance::kPxb;
  }
  if (a.host_bridge == b.host_bridge) return Distance::kPhb;
  return a.numa_node >= 0 && a.numa_node == b.numa_node ? Distance::kNode : Distance::kSys;
}

Distance function_distance(const std::string& sysfs, const std::string& pci,
                           const std::string& gpu_pci) {
  return distance_between(place_of_address(sysfs, pci), place_of_address(sysfs, gpu_pci));
}

Distance device_distance(const std::string& sysfs, const std::string& device,
                         const std::string& gpu_pci) {
  return distance_between(pci_place(fs::path(sysfs) / "class/infiniband" / device / "device"),
                          place_of_address(sysfs, gpu_pci));
}

std::vector<std::string> bridges_between(const PciPlace& a, const PciPlace& b) {
  std::vector<std::string> bridges;
  const std::size_t shared = shared_length(a, b);
  if (shared == 0) return bridges;
  for (const PciPlace* place : {&a, &b}) {
    for (std::size_t i = shared; i + 1 < place->path.size(); ++i) {
      bridges.push_back(place->path[i]);
    }
  }
  return bridges;
}

std::string sysfs_pci_address(std::string address) {
  std::transform(address.begin(), address.end(), address.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return address;
}

}  // namespace gshmem::nic
