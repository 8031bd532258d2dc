// fork without exec: what the child finds. It has the forking thread only, and copies of all memory
// and descriptors. Included by what is one per process. Invariant: the child holds none of the
// descriptors named here. No mutex named here is held by a thread that the child lacks, and what
// such a mutex guards is whole. vfork, posix_spawn and raw clone are not seen: exec must follow.
#pragma once

#include <cstdint>
#include <mutex>

namespace gshmem {

/// How many forks lie between the first process and this one. An object that keeps the number
/// knows whether a fork has copied it. Threads: any.
[[nodiscard]] std::uint32_t fork_count() noexcept;

/// From now on a fork closes `fd` in the child, until keep_in_children. Numbers of 2^20 and more
/// are left alone. Threads: any; takes no lock, as the fork does not for this.
void close_in_children(int fd) noexcept;
void keep_in_children(int fd) noexcept;

/// From now on fork waits for `mutex`, and `in_child` (may be null) runs in the child while it is
/// held. The mutex is static. It is held for a short time, and no other one of these is taken under
/// it. `in_child` allocates nothing. Once per mutex.
void hold_over_forks(std::mutex& mutex, void (*in_child)() noexcept = nullptr);

}  // namespace gshmem
