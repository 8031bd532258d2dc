// Regions: a place says that calls of a kind follow, until it says that they have ended. What is
// said here changes no call: posts of many threads share doorbells as it is, and what host threads
// put without a wait is only begun (device/post.h, host/gpu/host_ops.cpp). Invariant: what is open
// is one word, so that host threads may open and close at the same time.
#pragma once

#include <gshmem/constants.h>
#include <gshmem/types.h>

#include "caller.h"
#include "coop.h"
#include "machine.h"

namespace gshmem::device {

/// What a place keeps: a block of a GPU or of a launch in CPU mode, or the host threads of a PE.
struct Region {
  std::uint64_t open = 0;    ///< the handle of the region that is open; 0 = none
  std::uint64_t number = 0;  ///< of the newest region
  std::uint64_t place = 0;   ///< of a GPU: the block whose it is
};

/// A handle has the hints in its low bits, and above them the region's number, from 1.
inline constexpr std::uint32_t kRegionHints = GSHMEMX_REGION_HINT_BATCH_RMA;
inline constexpr unsigned kRegionHintBits = 1;
static_assert(kRegionHints < 1u << kRegionHintBits);

#if defined(__CUDA_ARCH__)
// The calling block's is in shared memory, and a block call's first thread alone changes it,
// between meetings of the block. Shared memory holds anything when a kernel begins, also what an
// earlier block left there: it counts where it has the number of this grid and block, which is
// never 0.
GSHMEM_FN std::uint64_t this_place() {
  return (grid_number() * 0x9e3779b97f4a7c15u ^ block_number()) | std::uint64_t{1} << 63;
}
GSHMEM_FN Region& own_region() {
  __shared__ std::uint64_t words[sizeof(Region) / sizeof(std::uint64_t)];
  Region& region = *reinterpret_cast<Region*>(words);
  return region;
}
GSHMEM_FN std::uint64_t open_handle(const Region& region) {
  return region.place == this_place() ? region.open : 0;
}
GSHMEM_FN std::uint64_t next_number(Region& region) {
  if (region.place != this_place()) region = {0, 0, this_place()};
  return ++region.number;
}
GSHMEM_FN bool replace_open(Region& region, std::uint64_t before, std::uint64_t after) {
  if (region.open != before) return false;
  region.open = after;
  return true;
}
#else
inline Region& own_region() { return *gshmemi_ambient()->region; }
inline std::uint64_t open_handle(const Region& region) { return load_relaxed(&region.open); }
inline std::uint64_t next_number(Region& region) {
  return atomic_fetch_add(&region.number, std::uint64_t{1}) + 1;
}
inline bool replace_open(Region& region, std::uint64_t before, std::uint64_t after) {
  return atomic_compare_swap(&region.open, before, after) == before;
}
#endif

GSHMEM_FN bool are_region_hints(std::uint32_t hints) { return (hints & ~kRegionHints) == 0; }

/// Opens a region, and returns its handle; 0 where one is open.
GSHMEM_FN std::uint64_t open_region(Region& region, std::uint32_t hints) {
  const std::uint64_t handle = next_number(region) << kRegionHintBits | hints;
  return replace_open(region, 0, handle) ? handle : 0;
}
/// Closes the region that is open; false where `handle` is another's.
GSHMEM_FN bool close_region(Region& region, std::uint64_t handle) {
  return handle != 0 && open_handle(region) == handle && replace_open(region, handle, 0);
}
/// A region is open that has all of `hints`.
GSHMEM_FN bool is_region_open(const Region& region, std::uint32_t hints) {
  const std::uint64_t handle = open_handle(region);
  return handle != 0 && (handle & hints) == hints;
}

}  // namespace gshmem::device

namespace gshmem::api {

/// Of a block: all threads get the handle, and the same status.
template <class Coop>
GSHMEM_FN int region_start(const Caller&, Coop coop, gshmemx_region_handle_t* handle,
                           const gshmemx_region_attrs_t* attrs) {
  const std::uint32_t hints = attrs ? attrs->hints : std::uint32_t{GSHMEMX_REGION_HINT_NONE};
  if (coop.any(!handle || !are_region_hints(hints))) return GSHMEMX_ERROR_INVALID_VALUE;
  Region& region = own_region();
  if (coop.any(coop.thread_rank() == 0 && open_region(region, hints) == 0))
    return GSHMEMX_ERROR_INVALID_VALUE;
  *handle = open_handle(region);
  return GSHMEMX_SUCCESS;
}
template <class Coop>
GSHMEM_FN int region_stop(const Caller&, Coop coop, gshmemx_region_handle_t region) {
  coop.sync();
  const bool failed = coop.thread_rank() == 0 && !close_region(own_region(), region);
  return coop.any(failed) ? GSHMEMX_ERROR_INVALID_VALUE : GSHMEMX_SUCCESS;
}

GSHMEM_FN int region_is_active(const Caller&, std::uint32_t hints, int* active) {
  if (!active || !are_region_hints(hints)) return GSHMEMX_ERROR_INVALID_VALUE;
  *active = is_region_open(own_region(), hints) ? 1 : 0;
  return GSHMEMX_SUCCESS;
}

}  // namespace gshmem::api
