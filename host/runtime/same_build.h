// The first exchange between the PEs of a job: it checks that they are of one build. Structs in
// shared memory, heaps and messages depend on the build, so that another one would misread them.
#pragma once

#include "host/base/collectives.h"

#include <cstdint>

namespace gshmem {

/// The message of a PE about its build. It is sent as it is in memory, and all versions use this
/// layout.
struct Build {
  char version[24] = "";
  std::uint32_t abi = 0;  ///< kStateAbi
  std::uint32_t unused = 0;
  std::uint64_t layouts = 0;  ///< hash over everything that PEs share (host/base/layout.h)
};
static_assert(sizeof(Build) == 40);

[[nodiscard]] Build this_build();

/// Collective, the first of a job. Errors: GSHMEMX_ERROR_SYMMETRY on all PEs, which names two of
/// them and their builds.
void require_same_build(Collectives& ranks);

}  // namespace gshmem
