// DeviceState: everything device code knows about its PE, one trivially copyable value. The host
// fills it at init; kernels read it from __constant__ memory or take it as a parameter. Invariant:
// read-only while the PE is initialized; what changes (flags, counters) lies behind its pointers.
#pragma once

#include "fault.h"

#include <cstddef>
#include <cstdint>
#include <type_traits>

namespace gshmem::abi {

inline constexpr std::uint32_t kStateMagic = 0x67736831;  ///< initialized ("gsh1")
inline constexpr std::uint32_t kStateAmbiguous =
    0x67736832;  ///< two PEs share this GPU and process

enum class FaultPolicy : std::uint32_t { kAbort, kReport };

/// Most PEs that a job may have: bounds the flags below.
inline constexpr int kMaxPes = 65536;

/// Layout of the first bytes of every PE's heap, which the library keeps for itself.
/// `arrived[p]` is written by PE p only: the number of the last barrier it has entered.
struct SyncArea {
  alignas(128) std::uint64_t epoch;  ///< barriers completed by this PE; touched by this PE only
  alignas(128) std::uint64_t arrived[kMaxPes];
};

/// Alignment of the first allocatable byte of every heap, and so the largest an allocation can
/// have.
inline constexpr std::uint64_t kHeapAlignment = 2u << 20;

/// Bytes kept at the front of each heap.
inline constexpr std::uint64_t kInternalBytes = kHeapAlignment;
static_assert(sizeof(SyncArea) <= kInternalBytes);

struct DeviceState {
  std::uint32_t magic = 0;
  std::int32_t my_pe = -1;
  std::int32_t n_pes = 0;
  FaultPolicy fault_policy = FaultPolicy::kAbort;
  /// Heaps of all PEs lie in one reserved address range: the heap of PE p starts at
  /// `heap + (p - my_pe) * stride`, for every p, in this PE's address space.
  char* heap = nullptr;
  std::uint64_t heap_bytes = 0;  ///< the first kInternalBytes included
  std::int64_t stride = 0;
  Control* control = nullptr;    ///< host memory, mapped
  std::uint64_t timeout_ns = 0;  ///< bound of every wait; 0 = none
};
static_assert(std::is_trivially_copyable_v<DeviceState>);
static_assert(sizeof(DeviceState) == 56);

}  // namespace gshmem::abi
