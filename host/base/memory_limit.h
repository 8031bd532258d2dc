// Finds out how much memory the processes of this host may use. Included by code that maps heaps in
// host memory, and by gshmem-info.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>

namespace gshmem {

/// Returns the smallest memory limit of this process's cgroups (versions 1 and 2) and of those
/// above them, in bytes; nothing when there is none. Version 1 states no limit as a number larger
/// than any memory. `root` is the root of the file system that contains /proc and /sys.
[[nodiscard]] std::optional<std::uint64_t> cgroup_memory(const std::filesystem::path& root = "/");

/// The smaller of the machine's memory and the cgroup's limit, and which of the two it is. Pure.
struct MemoryBound {
  std::uint64_t bytes;
  const char* name;
  /// Is there room for `pes` PEs of this host with a heap of `heap_bytes` each?
  [[nodiscard]] bool has_room(std::uint64_t heap_bytes, std::uint64_t pes) const {
    return heap_bytes <= bytes / pes;
  }
};
[[nodiscard]] MemoryBound memory_bound(std::uint64_t machine, std::optional<std::uint64_t> group);
/// Returns the bound for this process on this machine.
[[nodiscard]] MemoryBound memory_bound();
/// Returns the bytes of the machine's memory, with its swap space.
[[nodiscard]] std::uint64_t machine_memory();

/// Returns how many bytes of addresses a process may have (RLIMIT_AS); nothing when there is no
/// limit.
[[nodiscard]] std::optional<std::uint64_t> address_limit();

}  // namespace gshmem
