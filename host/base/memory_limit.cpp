#include "host/base/memory_limit.h"

#include "host/base/error.h"
#include "host/base/files.h"

#include <sys/resource.h>
#include <sys/sysinfo.h>

#include <algorithm>
#include <sstream>
#include <string>

namespace gshmem {
namespace {

/// Returns this process's cgroup of version 1 that has the memory controller, with a leading slash;
/// empty if there is none. A line is "4:cpu,memory:/slurm/job_7" (cgroups(7)).
std::string version_1_group(const std::filesystem::path& root) {
  std::istringstream lines(whole_file(root / "proc/self/cgroup"));
  for (std::string line; std::getline(lines, line);) {
    const std::size_t first = line.find(':'), second = line.find(':', first + 1);
    if (first == std::string::npos || second == std::string::npos) continue;
    const std::string controllers = "," + line.substr(first + 1, second - first - 1) + ",";
    if (controllers.find(",memory,") != std::string::npos) return line.substr(second + 1);
  }
  return {};
}

/// Lowers `least` to the smallest number in files `name` from the folder `group` of `tree` upwards.
void take_least(const std::filesystem::path& tree, const std::string& group, const char* name,
                std::optional<std::uint64_t>& least) {
  if (group.empty()) return;
  for (std::filesystem::path at = group.substr(1);; at = at.parent_path()) {
    if (const auto limit = number_in(tree / at / name)) {
      const auto bytes = static_cast<std::uint64_t>(*limit);
      least = std::min(least.value_or(bytes), bytes);
    }
    if (at.empty()) return;
  }
}

}  // namespace

std::optional<std::uint64_t> cgroup_memory(const std::filesystem::path& root) {
  std::optional<std::uint64_t> least;
  const std::filesystem::path tree = root / "sys/fs/cgroup";
  take_least(tree, value_in(root / "proc/self/cgroup", "0::"), "memory.max", least);
  take_least(tree / "memory", version_1_group(root), "memory.limit_in_bytes", least);
  return least;
}

MemoryBound memory_bound(std::uint64_t machine, std::optional<std::uint64_t> group) {
  if (group && *group < machine) return {*group, "cgroup's memory limit"};
  return {machine, "host's memory"};
}

std::uint64_t machine_memory() {
  struct sysinfo info {};
  check_errno(::sysinfo(&info), "sysinfo");
  return (info.totalram + info.totalswap) * info.mem_unit;
}

MemoryBound memory_bound() { return memory_bound(machine_memory(), cgroup_memory()); }

std::optional<std::uint64_t> address_limit() {
  rlimit limit{};
  check_errno(::getrlimit(RLIMIT_AS, &limit), "getrlimit");
  if (limit.rlim_cur == RLIM_INFINITY) return std::nullopt;
  return limit.rlim_cur;
}

}  // namespace gshmem
