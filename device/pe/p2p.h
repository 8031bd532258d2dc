// The load/store path: heaps of peers are mapped at a fixed stride, so the address of a peer's copy
// of a symmetric object is computed. device/network/network_path.h reaches peers that are not
// mapped; device/ops/rma.h and device/ops/amo.h choose per PE.
#pragma once

#include <gshmem/abi/state.h>

#include "../core/fault.h"
#include "../core/machine.h"

namespace gshmem::device {

/// Returns `p` moved by a number of bytes.
template <class T>
GSHMEM_FN T* byte_offset(T* p, std::int64_t bytes) {
  return reinterpret_cast<T*>(reinterpret_cast<std::intptr_t>(p) + bytes);
}

/// Is the PE in the consecutive range of mapped PEs, which is the usual case? It takes one
/// comparison.
GSHMEM_FN bool is_consecutive(const State& state, int pe) {
  return static_cast<std::uint32_t>(pe) - static_cast<std::uint32_t>(state.mapped_first) <
         static_cast<std::uint32_t>(state.mapped_count);
}
// Looks the PE up in the table, for jobs in which the PEs of a host do not have consecutive
// numbers. It is out of line: inline, its loads would be predicated, and would take time even when
// the predicate is false.
GSHMEM_OUTLINE bool is_mapped_by_table(const State& state, int pe) {
  return state.slots && state.slots[pe] >= 0;
}
GSHMEM_OUTLINE int steps_by_table(const State& state, int pe) {
  return state.slots ? state.slots[pe] - state.my_slot : pe - state.my_pe;
}
/// Is PE `pe`, in range, reached by load and store?
GSHMEM_FN bool is_mapped(const State& state, int pe) {
  return is_consecutive(state, pe) || is_mapped_by_table(state, pe);
}
/// Do atomics reach PE `pe` by load and store?
GSHMEM_FN bool amo_is_mapped(const State& state, int pe) {
  return state.amo_path == abi::AmoPath::kInPlace && is_mapped(state, pe);
}
/// Are signals of PE `pe` set by a store?
GSHMEM_FN bool set_is_mapped(const State& state, int pe) {
  return state.amo_path != abi::AmoPath::kNic && is_mapped(state, pe);
}

/// Returns the address of mapped PE `pe`'s copy of the symmetric object at `p`, in this PE's
/// address space.
template <class T>
GSHMEM_FN T* peer_address(const State& state, T* p, int pe) {
  const int steps = is_consecutive(state, pe) ? pe - state.my_pe : steps_by_table(state, pe);
  return byte_offset(p, static_cast<std::int64_t>(steps) * state.stride);
}

/// Returns the word that points to the range with the granule of `offset`, relative to the heap's
/// first byte. The range is registered memory of the program, or a part by which the heap has
/// grown. Null: there is none.
GSHMEM_FN const std::uint64_t* range_word(const State& state, std::uint64_t offset) {
  if (offset < state.heap_bytes || offset >= static_cast<std::uint64_t>(state.stride))
    return nullptr;
#if defined(__CUDA_ARCH__)
  const abi::RegisteredRange* const* const table = state.registered;
#else
  const abi::RegisteredRange* const* const table = state.host_registered;
#endif
  if (!table) return nullptr;
  return reinterpret_cast<const std::uint64_t*>(table + (offset >> abi::kGranuleShift));
}
/// Returns the range to which such a word points, or null. Pairs with RegisteredMemory::publish: a
/// thread that uses the memory has synchronized with the thread that published it.
GSHMEM_FN const abi::RegisteredRange* load_range(const std::uint64_t* word) {
  return word ? reinterpret_cast<const abi::RegisteredRange*>(load_poll(word)) : nullptr;
}
GSHMEM_FN const abi::RegisteredRange* range_at(const State& state, std::uint64_t offset) {
  return load_range(range_word(state, offset));
}
/// Is [offset, offset + bytes) in one such range? It is out of line, since only addresses beyond
/// the heap need it.
GSHMEM_OUTLINE bool is_registered(const State& state, std::uint64_t offset, std::uint64_t bytes) {
  const abi::RegisteredRange* const range = range_at(state, offset);
  if (!range) return false;
  const std::uint64_t end = load_relaxed(&range->end);
  return offset < end && bytes <= end - offset;
}
/// These functions return the keys that follow a range: those by which NICs access the memory of
/// all PEs, their number, and those of this PE's NICs for its own memory.
GSHMEM_FN const abi::RemoteKeys* remote_keys(const abi::RegisteredRange& range) {
  return reinterpret_cast<const abi::RemoteKeys*>(&range + 1);
}
GSHMEM_FN std::uint32_t remote_key_count(const State& state) {
  return static_cast<std::uint32_t>(state.n_pes) * state.key_rails;
}
GSHMEM_FN const abi::Be32* local_keys(const abi::RegisteredRange& range,
                                      std::uint32_t remote_key_count) {
  return reinterpret_cast<const abi::Be32*>(remote_keys(range) + remote_key_count);
}
/// Returns the registered local memory that contains [p, p + bytes). Its keys are null if there is
/// none. Pairs with LocalRanges::publish. The rows are in host memory. For most addresses one load
/// of the bounds shows that no row contains them.
GSHMEM_OUTLINE abi::LocalRange local_range(const State& state, const void* p, std::uint64_t bytes) {
  if (!state.local) return {};
  const auto at = reinterpret_cast<std::uint64_t>(p);
  const Word16 bounds = load_poll(reinterpret_cast<const Word16*>(state.local));
  if (at < low_of(bounds) || at >= high_of(bounds)) return {};
  const abi::LocalRange* const rows = state.local->rows;
  GSHMEM_NO_UNROLL
  for (std::uint32_t i = 0; i < abi::kMaxLocal; ++i) {
    const abi::LocalRange& row = rows[i];
    const std::uint64_t end = load_acquire(&row.end), begin = load_acquire(&row.begin);
    if (begin == 0) break;
    // The row may have been reused for other memory between the two loads.
    if (at < begin || at >= end || load_relaxed(&row.end) != end) continue;
    if (bytes <= end - at) return {begin, end, row.keys};
    break;
  }
  return {};
}
/// Is [p, p + bytes) in this PE's allocatable heap, or in registered memory?
GSHMEM_FN bool is_symmetric(const State& state, const void* p, std::size_t bytes) {
  const std::uintptr_t offset =
      reinterpret_cast<std::uintptr_t>(p) - reinterpret_cast<std::uintptr_t>(state.heap);
  return (offset >= abi::kInternalBytes && offset < state.heap_bytes &&
          bytes <= state.heap_bytes - offset) ||
         is_registered(state, offset, bytes);
}

/// OpenSHMEM 1.5, section 9.1 (shmem_ptr). Returns null when `p` is not symmetric, or `pe` is out
/// of range or not mapped.
GSHMEM_FN void* ptr(const State& state, const void* p, int pe) {
  if (pe < 0 || pe >= state.n_pes || !is_symmetric(state, p, 0)) return nullptr;
  if (pe == state.my_pe) return const_cast<void*>(p);
  if (!is_mapped(state, pe)) return nullptr;
  return peer_address(state, const_cast<void*>(p), pe);
}

}  // namespace gshmem::device
