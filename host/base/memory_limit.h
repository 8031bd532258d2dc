// How much memory the processes of this host may use. Included by what maps heaps in host memory,
// and by gshmem-info.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>

namespace gshmem {

/// The smallest memory limit from this process's cgroups of version 1 and 2 upwards, in bytes;
/// nothing when none is set. Version 1 has a number beyond any memory for no limit. `root`: of the
/// file system that /proc and /sys are in.
[[nodiscard]] std::optional<std::uint64_t> cgroup_memory(const std::filesystem::path& root = "/");

/// The less of the machine's memory and the cgroup's, and which of them that is. Pure.
struct MemoryBound {
  std::uint64_t bytes;
  const char* name;
  /// `pes` PEs of this host have room for a heap of `heap_bytes` each.
  [[nodiscard]] bool has_room(std::uint64_t heap_bytes, std::uint64_t pes) const {
    return heap_bytes <= bytes / pes;
  }
};
[[nodiscard]] MemoryBound memory_bound(std::uint64_t machine, std::optional<std::uint64_t> group);

}  // namespace gshmem
