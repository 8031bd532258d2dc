#include "host/info/nics.h"

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <fstream>
#include <tuple>

namespace gshmem::info {
namespace {

namespace fs = std::filesystem;

std::string first_line(const fs::path& file) {
  std::string line;
  std::getline(std::ifstream(file), line);
  return line;
}

/// Names in a folder; none when it cannot be read.
std::vector<std::string> names_in(const fs::path& folder) {
  std::vector<std::string> names;
  std::error_code error;
  for (fs::directory_iterator entry(folder, error), end; !error && entry != end;
       entry.increment(error)) {
    names.push_back(entry->path().filename().string());
  }
  return names;
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
      port.state = first_line(folder / "state");  // "4: ACTIVE"
      if (const std::size_t colon = port.state.find(": "); colon != std::string::npos) {
        port.state.erase(0, colon + 2);
      }
      port.rate = first_line(folder / "rate");
      found.push_back(std::move(port));
    }
  }
  std::sort(found.begin(), found.end(), [](const NicPort& a, const NicPort& b) {
    return std::tie(a.device, a.port) < std::tie(b.device, b.port);
  });
  return found;
}

}  // namespace gshmem::info
