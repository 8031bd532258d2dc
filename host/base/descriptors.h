// How many descriptors this process may have open, and what to say when they are used up. Included
// by what takes in connections.
#pragma once

#include <cstddef>
#include <string>

namespace gshmem {

/// The soft limit.
[[nodiscard]] std::size_t descriptor_limit() noexcept;
/// "this process may have 1024 descriptors open (ulimit -n)".
[[nodiscard]] std::string descriptor_limit_text();
/// Raises the soft limit to the hard one where it is below `count`; true when it changed. Programs
/// that use select(2) may rely on a low one, so only who needs many asks.
bool raise_descriptor_limit(std::size_t count) noexcept;

/// What an accept4 that failed says: no descriptors or memory for now.
[[nodiscard]] bool is_shortage(int error) noexcept;

/// Of connections that have not shown that they belong to the job: the others are this process's.
[[nodiscard]] std::size_t stranger_limit() noexcept;
/// For a caller to show it. One of ours does so at once.
inline constexpr double kHandshakeSeconds = 5;

}  // namespace gshmem
