// DeviceState: everything device code knows about its PE, one trivially copyable value. The host
// fills it at init; kernels read it from __constant__ memory or take it as a parameter. Invariant:
// read-only while the PE is initialized; it points to what changes.
#pragma once

#include "fault.h"
#include "queue.h"

#include <cstddef>
#include <cstdint>
#include <type_traits>

namespace gshmem::abi {

/// Number of the layouts in abi/ and of what kernels and the library expect of each other. One more
/// with every change of them: a program compiled with other headers is then refused by init.
inline constexpr std::uint32_t kStateAbi = 1;

inline constexpr std::uint32_t kStateMagic = 0x67736831;  ///< initialized ("gsh1")
inline constexpr std::uint32_t kStateAmbiguous =
    0x67736832;  ///< two PEs share this GPU and process

enum class FaultPolicy : std::uint32_t { kAbort, kReport };

/// Most PEs that a job may have: bounds the flags below.
inline constexpr int kMaxPes = 65536;

/// Layout of the first bytes of every PE's heap, which the library keeps for itself.
/// `arrived[n % 2][p]` is written by PE p only: when it enters barrier n, the low bits of n. Two
/// words, because flags that go by the network by different queues may overtake each other: n + 2
/// is told when all PEs have told n + 1, and so have seen n.
struct SyncArea {
  alignas(128) std::uint64_t epoch;  ///< barriers completed by this PE; touched by this PE only
  alignas(128) std::uint32_t arrived[2][kMaxPes];
};

/// Least alignment of every heap, and of its first allocatable byte.
inline constexpr std::uint64_t kHeapAlignment = 2u << 20;

/// Where results of remote reads and atomics land before they go to registers or to memory that the
/// NIC cannot write. The slots follow the SyncArea. One thread owns a slot while `busy` is 1.
struct ScratchSlot {
  std::uint32_t busy;
  std::uint32_t reserved[31];
  std::uint64_t data[240];
};
static_assert(sizeof(ScratchSlot) == 2048);
inline constexpr int kScratchSlots = 512;  // a power of two

/// Layout of the bytes kept at the front of each heap.
struct InternalArea {
  SyncArea sync;
  alignas(128) std::uint64_t sink[16];  ///< results that nobody wants
  alignas(128) ScratchSlot scratch[kScratchSlots];
  alignas(128) std::uint64_t staging[32768];  ///< host threads' transfers on the network path
};
inline constexpr std::uint64_t kInternalBytes = kHeapAlignment;
static_assert(sizeof(InternalArea) <= kInternalBytes);

/// Where this PE stands in the job; what the predefined teams are made of.
struct Place {
  std::int32_t node_rank = 0, node_size = 1;  ///< among the PEs of its host
  std::int32_t node = 0, n_nodes = 1;         ///< among the PEs with its node_rank
};

/// An open context or queue handle, found by the low bits of the handle. What `state` points to
/// never changes: the PE's state with the queues of that context. Null: no entry was ever used from
/// here on.
struct ContextEntry {
  const struct DeviceState* state;
  std::uint32_t handle;  ///< 0: closed
  std::uint32_t reserved;
};
static_assert(sizeof(ContextEntry) == 16);
inline constexpr std::uint32_t kMaxContexts = 1024;  ///< open at a time; a power of two

/// No PE follows it so closely that it would be one of consecutive ones.
inline constexpr std::int32_t kMappedByTable = 1 << 30;

struct DeviceState {
  std::uint32_t magic = 0;
  std::int32_t my_pe = -1;
  std::int32_t n_pes = 0;
  FaultPolicy fault_policy = FaultPolicy::kAbort;

  // The load/store path. Heaps of mapped PEs are in one reserved address range, `stride` apart, in
  // the order of their slots. Usually their numbers are consecutive, and the slot of PE p is
  // p - mapped_first; else `slots` has an entry for every PE, -1 where it is not mapped, and
  // mapped_first is kMappedByTable.
  char* heap = nullptr;          ///< this PE's
  std::uint64_t heap_bytes = 0;  ///< the first kInternalBytes included
  std::int64_t stride = 0;
  const std::int32_t* slots = nullptr;
  std::int32_t mapped_first = 0, mapped_count = 0;
  std::int32_t my_slot = 0;  ///< only with `slots`
  /// Atomics on memory that a NIC also updates must all go by the NIC: its atomics and those of
  /// this machine need not be atomic to each other. The same where the link between two GPUs has no
  /// atomics; without a network they are then an error. False: mapped PEs are updated in place.
  std::uint32_t amo_by_nic = 0;

  Control* control = nullptr;    ///< host memory, mapped
  std::uint64_t timeout_ns = 0;  ///< bound of every wait; 0 = none
  Place place;
  NicView nic;
  /// kMaxContexts entries, for kernels and for host threads (in CPU mode the same).
  const ContextEntry* contexts = nullptr;
  const ContextEntry* host_contexts = nullptr;
};
static_assert(std::is_trivially_copyable_v<DeviceState>);
static_assert(sizeof(DeviceState) == 168);

}  // namespace gshmem::abi
