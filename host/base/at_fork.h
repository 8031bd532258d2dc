// Handles fork without exec. The child has only the forking thread, and copies of all memory and
// descriptors. Included by code that has one object per process. Invariant: the child holds none of
// the descriptors passed to close_in_children. No mutex passed to hold_over_forks is held by a
// thread that the child lacks, and the data that such a mutex guards is consistent. vfork,
// posix_spawn and raw clone are not handled: exec must follow them.
#pragma once

#include <cstdint>
#include <mutex>

namespace gshmem {

/// Returns the number of forks between the first process and this one. An object that stores the
/// number can detect that a fork has copied it. Threads: any.
[[nodiscard]] std::uint32_t fork_count() noexcept;

/// From now on a fork closes `fd` in the child, until keep_in_children(fd). Descriptors of 2^20 and
/// above are ignored. Threads: any; neither this call nor the fork takes a lock for it.
void close_in_children(int fd) noexcept;
void keep_in_children(int fd) noexcept;

/// From now on fork waits for `mutex`, and runs `in_child` (may be null) in the child while the
/// mutex is held. The mutex has static storage and is held only for a short time. No other mutex of
/// this kind is taken while it is held. `in_child` allocates nothing. Call it once per mutex.
void hold_over_forks(std::mutex& mutex, void (*in_child)() noexcept = nullptr);

}  // namespace gshmem
