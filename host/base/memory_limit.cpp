#include "host/base/memory_limit.h"

#include <algorithm>
#include <fstream>
#include <string>

namespace gshmem {

std::optional<std::uint64_t> cgroup_memory(const std::filesystem::path& root) {
  std::ifstream groups(root / "proc/self/cgroup");
  std::optional<std::uint64_t> least;
  for (std::string line; std::getline(groups, line);) {
    if (!line.starts_with("0::/")) continue;  // version 2 (cgroups(7))
    for (std::filesystem::path group = line.substr(4);; group = group.parent_path()) {
      std::uint64_t limit = 0;
      if (std::ifstream(root / "sys/fs/cgroup" / group / "memory.max") >> limit)
        least = std::min(least.value_or(limit), limit);
      if (group.empty()) break;
    }
  }
  return least;
}

}  // namespace gshmem
