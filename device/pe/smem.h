// Shared memory that a block gives to the library. Copies of its threads to and from mapped PEs
// then use it with the SM's bulk copy engine. With the engine one thread moves as much as many
// threads, whose loads and stores need registers while they are in flight. Invariant: nothing is
// pending when a copy returns. So these copies complete as others do, and memory that is taken back
// belongs to the block again.
//
// A block that has given no memory needs 16 bytes of shared memory for this. Only long copies read
// them (smem_from of device/pe/copy.h). GSHMEM_SMEM=0 omits this code.
#pragma once

#include "../core/coop.h"
#include "../core/machine.h"
#include "../core/state.h"

#ifndef GSHMEM_SMEM
#define GSHMEM_SMEM 1
#endif

namespace gshmem::device {

/// The header of the given memory: a lock, and for each stage an mbarrier that signals the arrival
/// of its load. The rest holds the bytes in flight, in stages.
inline constexpr std::uint32_t kSmemStateBytes = 128, kSmemAlignment = 16;
inline constexpr std::uint32_t kSmemStages = 4, kLeastStageBytes = 1024;
inline constexpr std::uint32_t kSmemMinimum = kSmemStateBytes + kSmemStages * 4 * 1024;
inline constexpr std::uint32_t kSmemRecommended = kSmemStateBytes + kSmemStages * 16 * 1024;

#if defined(__CUDA_ARCH__)

inline constexpr bool kHasEngine = GSHMEM_SMEM != 0 && __CUDA_ARCH__ >= 900;

/// Returns a number that is unique to the calling block, and never 0. Shared memory has arbitrary
/// contents when a kernel begins, also those of an earlier block: a record is valid if it has this
/// number. Each process counts its own grids, and with MPS the SM keeps what a block of another
/// process has left. So the number also contains the PE, and an address that differs between jobs.
GSHMEM_FN std::uint64_t this_block_id() {
  const State& state = *reinterpret_cast<const State*>(gshmemi_device_state.state);
  const std::uint64_t owner =
      reinterpret_cast<std::uintptr_t>(state.control) ^ static_cast<std::uint32_t>(state.my_pe);
  return (grid_number() * 0x9e3779b97f4a7c15u ^ owner * 0xc2b2ae3d27d4eb4fu ^ block_number()) |
         std::uint64_t{1} << 63;
}

/// Memory of the calling block by its shared address; 0 bytes = none.
struct GivenSmem {
  std::uint32_t address, bytes;
};

/// Returns the shared address of the record: the number of the calling block, and the memory that
/// it has given. (It is accessed by PTX as words: for the compiler, a kernel that only reads it
/// would otherwise read memory that is never written.)
GSHMEM_FN std::uint32_t smem_record() {
  __shared__ Word16 record;
  return shared_address(&record);
}
GSHMEM_FN GivenSmem given_smem() {
  const Word16 record = load_shared(smem_record());
  const std::uint64_t block = record.x | std::uint64_t{record.y} << 32;
  return block == this_block_id() ? GivenSmem{record.z, record.w} : GivenSmem{0, 0};
}
/// Returns false if the block has given other memory.
GSHMEM_FN bool keep_smem(void* smem, std::size_t bytes) {
  const std::uint32_t record = smem_record(), address = shared_address(smem);
  if (const GivenSmem given = given_smem(); given.bytes != 0) return given.address == address;
  store_shared(address, 0);  // the lock
  store_shared(record + 8, address | std::uint64_t{static_cast<std::uint32_t>(bytes)} << 32);
  store_shared(record, this_block_id());
  return true;
}
GSHMEM_FN void drop_smem() { store_shared(smem_record(), 0); }

#if __CUDA_ARCH__ >= 900

/// Copies by one thread, which has the lock: loads of the next stages are in flight while one is
/// stored.
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
    await_older_reads();  // the next load overwrites the source of the store before
    load_next();
  }
  await_stores();
  GSHMEM_NO_UNROLL
  for (std::uint32_t n = 0; n < kSmemStages; ++n) end_arrivals(arrivals(n));
}

/// Copies the whole 16-byte words by the group's first thread, and returns their size. Returns 0 if
/// that is impossible: no memory was given, another thread is using it, or a side is not aligned or
/// not global memory. A source in the block's shared memory is allowed, and needs no stages.
/// (Copies of a block are faster without stages: 5.8 against 8.9 us for a put of 128 KiB, two
/// H100.) All threads get the same result. Their earlier writes to the source, and reads of `dst`,
/// are ordered before the copy; they synchronize after it.
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
