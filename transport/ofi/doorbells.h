// The search among doorbells for those that were rung: what an executor without work does all the
// time, for as many queues as there are.
#pragma once

#include <cstddef>
#include <cstdint>

namespace gshmem::ofi {

/// The index of the first word from `begin` on that is not all ones, `end` when there is none.
[[nodiscard]] std::size_t first_rung(const std::uint64_t* words, std::size_t begin,
                                     std::size_t end);

}  // namespace gshmem::ofi
