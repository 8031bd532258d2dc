// Shared memory that a block gives to the library: copies of its threads to and from mapped PEs
// then go through it by the SM's bulk copy engine. One thread so moves what else takes many, whose
// loads and stores are kept in flight by registers. Invariant: nothing is under way when a copy
// returns, so that copies complete as others do, and memory that is released is the block's again.
//
// A block that has given none pays with 16 bytes of shared memory. Long copies alone look at them
// (smem_from of device/pe/copy.h). GSHMEM_SMEM=0 leaves this out: copies are then as ever.
#pragma once

#include "../core/coop.h"
#include "../core/machine.h"
#include "../core/state.h"

#ifndef GSHMEM_SMEM
#define GSHMEM_SMEM 1
#endif

namespace gshmem::device {

/// What begins the memory that is given: a lock, and an object for each stage that tells when its
/// load has arrived. The rest is for the bytes under way, in stages.
inline constexpr std::uint32_t kSmemStateBytes = 128, kSmemAlignment = 16;
inline constexpr std::uint32_t kSmemStages = 4, kLeastStageBytes = 1024;
inline constexpr std::uint32_t kSmemMinimum = kSmemStateBytes + kSmemStages * 4 * 1024;
inline constexpr std::uint32_t kSmemRecommended = kSmemStateBytes + kSmemStages * 16 * 1024;

#if defined(__CUDA_ARCH__)

inline constexpr bool kHasEngine = GSHMEM_SMEM != 0 && __CUDA_ARCH__ >= 900;

/// The calling block, of all that ever run here. Shared memory holds anything when a kernel begins,
/// also what an earlier block left there: it counts where it has this number, which is never 0.
/// Each process counts its own grids, and under MPS the SM keeps what a block of another process
/// has left: so the PE is in it, too, and an address that differs between jobs.
GSHMEM_FN std::uint64_t this_place() {
  const State& state = *reinterpret_cast<const State*>(gshmemi_device_state);
  const std::uint64_t owner =
      reinterpret_cast<std::uintptr_t>(state.control) ^ static_cast<std::uint32_t>(state.my_pe);
  return (grid_number() * 0x9e3779b97f4a7c15u ^ owner * 0xc2b2ae3d27d4eb4fu ^ block_number()) |
         std::uint64_t{1} << 63;
}

/// Memory of the calling block by its shared address; of 0 bytes, none.
struct GivenSmem {
  std::uint32_t address, bytes;
};

/// Where the calling block keeps its number, and what it has given. (Read and written as words: a
/// kernel that only reads it must not be taken for one that reads what nobody writes.)
GSHMEM_FN std::uint32_t smem_record() {
  __shared__ Word16 record;
  return shared_address(&record);
}
GSHMEM_FN GivenSmem given_smem() {
  const Word16 record = load_shared(smem_record());
  const std::uint64_t place = record.x | std::uint64_t{record.y} << 32;
  return place == this_place() ? GivenSmem{record.z, record.w} : GivenSmem{0, 0};
}
/// False where the block has given other memory.
GSHMEM_FN bool keep_smem(void* smem, std::size_t bytes) {
  const std::uint32_t record = smem_record(), address = shared_address(smem);
  if (const GivenSmem given = given_smem(); given.bytes != 0) return given.address == address;
  store_shared(address, 0);  // the lock
  store_shared(record + 8, address | std::uint64_t{static_cast<std::uint32_t>(bytes)} << 32);
  store_shared(record, this_place());
  return true;
}
GSHMEM_FN void drop_smem() { store_shared(smem_record(), 0); }

#if __CUDA_ARCH__ >= 900

/// By one thread, which has the lock: loads of the next stages are under way while one is stored.
GSHMEM_OUTLINE void copy_in_stages(char* dst, const char* src, std::size_t bytes, GivenSmem smem) {
  const std::uint32_t stage = (smem.bytes - kSmemStateBytes) / kSmemStages & ~127u;
  const auto arrivals = [&](std::uint32_t n) { return smem.address + 16 + n % kSmemStages * 8; };
  const auto buffer = [&](std::uint32_t n) {
    return smem.address + kSmemStateBytes + n % kSmemStages * stage;
  };
  const auto part_of = [&](std::size_t left) {
    return left < stage ? static_cast<std::uint32_t>(left) : stage;
  };
  GSHMEM_NO_UNROLL
  for (std::uint32_t n = 0; n < kSmemStages; ++n) begin_arrivals(arrivals(n));
  fence_engine();
  std::size_t to_load = bytes;
  std::uint32_t loaded = 0;
  const auto load_next = [&] {
    const std::uint32_t part = part_of(to_load);
    engine_load(buffer(loaded), src, part, arrivals(loaded));
    src += part, to_load -= part, ++loaded;
  };
  GSHMEM_NO_UNROLL
  while (loaded < kSmemStages - 1 && to_load != 0) load_next();
  GSHMEM_NO_UNROLL
  for (std::uint32_t n = 0; bytes != 0; ++n) {
    const std::uint32_t part = part_of(bytes);
    await_arrival(arrivals(n), n / kSmemStages % 2);
    engine_store(dst, buffer(n), part);
    dst += part, bytes -= part;
    if (to_load == 0) continue;
    await_older_reads();  // the next load goes where the store before this one is from
    load_next();
  }
  await_stores();
  GSHMEM_NO_UNROLL
  for (std::uint32_t n = 0; n < kSmemStages; ++n) end_arrivals(arrivals(n));
}

/// The part of a copy that is whole words of 16 bytes, by the group's first thread; 0 where it
/// cannot go this way: no memory was given or another thread is using it, a side is not aligned, or
/// is neither global memory nor the source in the block's shared memory, which needs no stages.
/// (Those of a block are faster without stages: 5.8 against 8.9 us for a put of 128 KiB, two H100.)
/// All threads get the same answer. What they wrote to the source, or read of `dst`, is ordered
/// before the copy; they meet after it.
template <class Coop>
GSHMEM_OUTLINE std::size_t copy_by_smem(Coop coop, char* dst, const char* src, std::size_t bytes) {
  const GivenSmem smem = given_smem();
  if (smem.bytes == 0 ||
      (reinterpret_cast<std::uintptr_t>(dst) | reinterpret_cast<std::uintptr_t>(src)) %
              sizeof(Word16) !=
          0 ||
      !__isGlobal(dst))
    return 0;
  const bool staged = !__isShared(src);
  if (staged && (std::is_same_v<Coop, Block> || !__isGlobal(src) ||
                 smem.bytes < kSmemStateBytes + kSmemStages * kLeastStageBytes))
    return 0;
  if constexpr (!std::is_base_of_v<Thread, Coop>) fence_engine();
  const bool first = coop.thread_rank() == 0;
  if (!coop.any(first && (!staged || try_lock_shared(smem.address)))) return 0;
  bytes -= bytes % sizeof(Word16);
  if (!first) return bytes;
  if (staged) {
    copy_in_stages(dst, src, bytes, smem);
    unlock_shared(smem.address);
  } else {
    fence_engine();
    engine_store(dst, shared_address(src), static_cast<std::uint32_t>(bytes));
    await_stores();
  }
  return bytes;
}

#endif
#endif

}  // namespace gshmem::device
