#include "transport/nic/pci_distance.h"

#include "host/base/files.h"

#include <algorithm>
#include <cctype>
#include <numeric>
#include <tuple>

namespace gshmem::nic {
namespace {

namespace fs = std::filesystem;

/// Matches "0000:1b:00.0", with a longer domain below a Volume Management Device.
bool is_pci_address(const std::string& name) {
  const std::size_t n = name.size();
  return n >= 12 && name[n - 2] == '.' && name[n - 5] == ':' && name[n - 8] == ':' &&
         std::ranges::all_of(name, [](char c) {
           return std::isxdigit(static_cast<unsigned char>(c)) || c == ':' || c == '.';
         });
}

PciPlace place_of_address(const std::string& sysfs, const std::string& pci) {
  return pci_place(fs::path(sysfs) / "bus/pci/devices" / sysfs_pci_address(pci));
}

/// Returns the length of the common path. Below different host bridges already the first addresses
/// differ.
std::size_t shared_length(const PciPlace& a, const PciPlace& b) {
  const auto [end, unused] =
      std::mismatch(a.path.begin(), a.path.end(), b.path.begin(), b.path.end());
  return static_cast<std::size_t>(end - a.path.begin());
}

/// Chooses `take` of `equal` for the PE with local rank `rank`.
void take_in_turn(const std::vector<int>& equal, std::size_t rank, std::size_t take,
                  std::vector<int>& chosen) {
  const std::size_t size = equal.size();
  // The number of ranks that begin at different candidates, before one begins where rank 0 did.
  const std::size_t round = std::lcm(take, size) / take;
  const std::size_t begin = rank * take + rank / round % take;
  for (std::size_t i = 0; i < take; ++i) chosen.push_back(equal[(begin + i) % size]);
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
    if (word.starts_with("pci") && place.host_bridge.empty()) place.host_bridge = word;
  }
  return place;
}

PciPlace pci_place(const fs::path& device) {
  std::error_code not_there;
  PciPlace place = place_of_path(fs::canonical(device, not_there));
  place.numa_node = static_cast<int>(number_in(device / "numa_node").value_or(place.numa_node));
  return place;
}

Distance distance_between(const PciPlace& a, const PciPlace& b) {
  if (a.path.empty() || b.path.empty()) return Distance::kUnknown;
  const std::size_t shared = shared_length(a, b);
  if (shared > 0) {
    // A switch consists of its upstream port, which both share, and a downstream port for each.
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
  std::ranges::transform(address, address.begin(),
                         [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return address;
}

std::vector<int> choose_devices(const std::vector<Candidate>& candidates, int local_rank,
                                int count) {
  std::vector<int> order(candidates.size());
  std::iota(order.begin(), order.end(), 0);
  const auto of = [&](int index) -> const Candidate& {
    return candidates[static_cast<std::size_t>(index)];
  };
  std::ranges::sort(order, [&](int a, int b) {
    const Candidate &x = of(a), &y = of(b);
    // Shorter names come first: mlx5_2 before mlx5_10.
    return std::make_tuple(x.distance, -x.gbits, x.device.size(), x.device, x.port) <
           std::make_tuple(y.distance, -y.gbits, y.device.size(), y.device, y.port);
  });
  const std::size_t wanted = std::min(order.size(), static_cast<std::size_t>(count));
  std::vector<int> chosen;
  for (auto begin = order.begin(); chosen.size() < wanted;) {
    const auto end = std::find_if(begin, order.end(), [&](int index) {
      return of(index).distance != of(*begin).distance || of(index).gbits < of(*begin).gbits;
    });
    const std::vector<int> equal(begin, end);
    take_in_turn(equal, static_cast<std::size_t>(local_rank),
                 std::min(equal.size(), wanted - chosen.size()), chosen);
    begin = end;
  }
  return chosen;
}

}  // namespace gshmem::nic
