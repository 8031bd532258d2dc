// The first words of the PEs of a job to each other: whether they are of one build. Structs in
// shared memory, heaps and messages are those of the build, so that another one would read
// nonsense.
#pragma once

#include "host/base/collectives.h"

#include <cstdint>

namespace gshmem {

/// Travels as it is in memory, and stays as it is in all versions.
struct Build {
  char version[24] = "";
  std::uint32_t abi = 0;  ///< kStateAbi
  std::uint32_t unused = 0;
  std::uint64_t layouts = 0;  ///< of all that PEs share (host/base/layout.h)
};
static_assert(sizeof(Build) == 40);

[[nodiscard]] Build this_build();

/// Collective, the first of a job. Errors: GSHMEMX_ERROR_SYMMETRY on all PEs, naming two of them
/// and what they are.
void require_same_build(Collectives& ranks);

}  // namespace gshmem
