// The load/store path: every peer's heap is mapped at a fixed stride, so a peer's copy of a
// symmetric object is arithmetic away. No table, no branch.
#pragma once

#include <gshmem/abi/state.h>

#include "fault.h"
#include "machine.h"

namespace gshmem::device {

/// `p` moved by a number of bytes.
template <class T>
GSHMEM_FN T* byte_offset(T* p, std::int64_t bytes) {
  return reinterpret_cast<T*>(reinterpret_cast<std::intptr_t>(p) + bytes);
}

/// Address of PE `pe`'s copy of the symmetric object at `p`, in this PE's address space.
template <class T>
GSHMEM_FN T* peer_address(const State& state, T* p, int pe) {
  return byte_offset(p, static_cast<std::int64_t>(pe - state.my_pe) * state.stride);
}

/// True when [p, p + bytes) lies in this PE's allocatable heap.
GSHMEM_FN bool is_symmetric(const State& state, const void* p, std::size_t bytes) {
  const std::uintptr_t offset =
      reinterpret_cast<std::uintptr_t>(p) - reinterpret_cast<std::uintptr_t>(state.heap);
  return offset >= abi::kInternalBytes && offset < state.heap_bytes &&
         bytes <= state.heap_bytes - offset;
}

/// OpenSHMEM 1.5, section 9.1 (shmem_ptr). Null when `p` is not symmetric or `pe` out of range.
GSHMEM_FN void* ptr(const State& state, const void* p, int pe) {
  if (pe < 0 || pe >= state.n_pes || !is_symmetric(state, p, 0)) return nullptr;
  return peer_address(state, const_cast<void*>(p), pe);
}

}  // namespace gshmem::device
