// How much memory the processes of this host may use. Included by what maps heaps in host memory,
// and by gshmem-info.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>

namespace gshmem {

/// The smallest memory.max from this process's cgroup (version 2) upwards, in bytes; nothing when
/// no limit is set. `root`: of the file system that /proc and /sys are in.
[[nodiscard]] std::optional<std::uint64_t> cgroup_memory(const std::filesystem::path& root = "/");

}  // namespace gshmem
