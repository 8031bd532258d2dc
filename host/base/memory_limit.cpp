#include "host/base/memory_limit.h"

#include "host/base/files.h"

#include <algorithm>
#include <string>

namespace gshmem {

std::optional<std::uint64_t> cgroup_memory(const std::filesystem::path& root) {
  std::optional<std::uint64_t> least;
  const std::string own = value_in(root / "proc/self/cgroup", "0::");  // version 2 (cgroups(7))
  if (own.empty()) return least;
  for (std::filesystem::path group = own.substr(1);; group = group.parent_path()) {
    if (const auto limit = number_in(root / "sys/fs/cgroup" / group / "memory.max")) {
      const auto bytes = static_cast<std::uint64_t>(*limit);
      least = std::min(least.value_or(bytes), bytes);
    }
    if (group.empty()) return least;
  }
}

MemoryBound memory_bound(std::uint64_t machine, std::optional<std::uint64_t> group) {
  if (group && *group < machine) return {*group, "cgroup's memory.max"};
  return {machine, "host's memory"};
}

}  // namespace gshmem
