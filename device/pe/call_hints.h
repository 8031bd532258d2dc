// Hints for later calls that a block, or a PE's host threads, have given. A region announces calls
// of one kind until it is closed. It changes no call: posts of many threads share doorbells anyway,
// and host threads only start puts that do not wait (device/network/post.h,
// host/runtime/gpu/host_ops.cpp). device/pe/smem.h has the shared memory that copies may use.
// Invariant: the open region and the given memory are one word each, so that host threads may
// change them concurrently.
#pragma once

#include <gshmem/constants.h>
#include <gshmem/types.h>

#include "caller.h"
#include "check.h"
#include "../core/coop.h"
#include "../core/machine.h"
#include "smem.h"

namespace gshmem::device {

/// The hints of a block of a GPU or of a launch in CPU mode, or of the host threads of a PE.
struct Region {
  std::uint64_t open = 0;    ///< the handle of the open region; 0 = none
  std::uint64_t number = 0;  ///< number of the newest region
  std::uint64_t block = 0;   ///< on a GPU: the block that the record belongs to
  std::uint64_t smem = 0;    ///< in CPU mode: the address of the given memory (device/pe/smem.h)
};

/// A handle has the hints in its low bits, and above them the region's number, from 1.
inline constexpr std::uint32_t kRegionHints = GSHMEMX_REGION_HINT_BATCH_RMA;
inline constexpr unsigned kRegionHintBits = 1;
static_assert(kRegionHints < 1u << kRegionHintBits);

#if defined(__CUDA_ARCH__)
// The calling block's record is in shared memory, and is valid if it has the block's number. Only
// the first thread of a block call changes it, between synchronizations of the block.
GSHMEM_FN Region& own_region() {
  __shared__ std::uint64_t words[sizeof(Region) / sizeof(std::uint64_t)];
  Region& region = *reinterpret_cast<Region*>(words);
  return region;
}
GSHMEM_FN std::uint64_t open_handle(const Region& region) {
  return region.block == this_block_id() ? region.open : 0;
}
GSHMEM_FN std::uint64_t next_number(Region& region) {
  if (region.block != this_block_id()) region = {0, 0, this_block_id(), 0};
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
/// Stores the given memory as on the GPU, but copies do not use it.
inline bool keep_smem(const void* smem, std::size_t) {
  const std::uint64_t address = as_value(smem);
  const std::uint64_t before = atomic_compare_swap(&own_region().smem, std::uint64_t{0}, address);
  return before == 0 || before == address;
}
inline void drop_smem() { store_relaxed(&own_region().smem, std::uint64_t{0}); }
#endif

GSHMEM_FN bool are_region_hints(std::uint32_t hints) { return (hints & ~kRegionHints) == 0; }

/// Opens a region, and returns its handle; 0 if one is open.
GSHMEM_FN std::uint64_t open_region(Region& region, std::uint32_t hints) {
  const std::uint64_t handle = next_number(region) << kRegionHintBits | hints;
  return replace_open(region, 0, handle) ? handle : 0;
}
/// Closes the open region; false if `handle` is another's.
GSHMEM_FN bool close_region(Region& region, std::uint64_t handle) {
  return handle != 0 && open_handle(region) == handle && replace_open(region, handle, 0);
}
/// Is a region open that has all of `hints`?
GSHMEM_FN bool is_region_open(const Region& region, std::uint32_t hints) {
  const std::uint64_t handle = open_handle(region);
  return handle != 0 && (handle & hints) == hints;
}

}  // namespace gshmem::device

namespace gshmem::api {

/// For a block: all threads get the handle, and the same status.
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

struct SmemAmount {
  int flag;
  GSHMEM_FN bool good(const State& state, const char* call) const {
    if (flag >= GSHMEMX_SMEM_RECOMMENDED && flag <= GSHMEMX_SMEM_BARRIERS_ONLY) return true;
    return bad_argument(state, call, "flag", abi::Rule::kAmount, as_value(flag));
  }
};
/// Shared memory of the calling block; in CPU mode any memory.
struct Smem {
  const void* p;
  std::size_t bytes;
  GSHMEM_FN bool good(const State& state, const char* call) const {
    if (!Local{{"smem", p, {kSmemStateBytes, 1}}}.good(state, call)) return false;
    if (as_value(p) % kSmemAlignment != 0)
      return bad_argument(state, call, "smem", abi::Rule::kAligned, as_value(p), kSmemAlignment);
    if (bytes < kSmemStateBytes)
      return bad_argument(state, call, "size", abi::Rule::kAtLeast, bytes, kSmemStateBytes);
#if defined(__CUDA_ARCH__)
    if (!__isShared(p)) return bad_argument(state, call, "smem", abi::Rule::kShared, as_value(p));
#endif
    return true;
  }
};

GSHMEM_FN int ask_smem(const Caller& call, int flag) {
  if (!check_arguments(call.state, call.name, SmemAmount{flag})) return 0;
  if (flag == GSHMEMX_SMEM_BARRIERS_ONLY) return kSmemStateBytes;
  return flag == GSHMEMX_SMEM_MINIMUM ? kSmemMinimum : kSmemRecommended;
}
GSHMEM_FN void give_smem(const Caller& call, void* smem, std::size_t size) {
  if (!check_arguments(call.state, call.name, Smem{smem, size})) return;
  if (!keep_smem(smem, size))
    bad_argument(call.state, call.name, "smem", abi::Rule::kGiven, as_value(smem));
}
GSHMEM_FN void release_smem(const Caller&) { drop_smem(); }

}  // namespace gshmem::api
