#include "host/tools/info/nics.h"

#include "host/base/files.h"

#include <algorithm>
#include <charconv>
#include <tuple>

namespace gshmem::info {

namespace fs = std::filesystem;

namespace {

/// Returns the text after the number, for example "ACTIVE" for "4: ACTIVE".
std::string after_number(const std::string& text) {
  const std::size_t colon = text.find(": ");
  return colon == std::string::npos ? text : text.substr(colon + 2);
}

}  // namespace

std::vector<NicPort> nic_ports(const std::string& sysfs_root) {
  std::vector<NicPort> found;
  const fs::path cards = fs::path(sysfs_root) / "class" / "infiniband";
  for (const std::string& device : names_in(cards)) {
    for (const std::string& name : names_in(cards / device / "ports")) {
      const fs::path folder = cards / device / "ports" / name;
      NicPort port;
      port.device = device;
      std::from_chars(name.data(), name.data() + name.size(), port.port);
      port.link_layer = first_line(folder / "link_layer");
      port.state = after_number(first_line(folder / "state"));
      port.phys_state = after_number(first_line(folder / "phys_state"));
      port.rate = first_line(folder / "rate");
      found.push_back(std::move(port));
    }
  }
  std::ranges::sort(found, [](const NicPort& a, const NicPort& b) {
    return std::tie(a.device, a.port) < std::tie(b.device, b.port);
  });
  return found;
}

}  // namespace gshmem::info
