// DeviceState: everything device code knows about its PE, in one trivially copyable value. The host
// fills it at init; kernels read it from __constant__ memory or take it as a parameter. Invariant:
// it is read-only while the PE is initialized; it points to data that changes.
#pragma once

#include "fault.h"
#include "queue.h"
#include "team.h"

#include <cstddef>
#include <cstdint>
#include <type_traits>

namespace gshmem::abi {

/// The number of the layouts in abi/ and of the interface between kernels and the library. It
/// increases with every change of them: init then refuses a program that was compiled with other
/// headers.
inline constexpr std::uint32_t kStateAbi = 21;

inline constexpr std::uint32_t kStateMagic = 0x67736831;  ///< initialized ("gsh1")
inline constexpr std::uint32_t kStateAmbiguous =
    0x67736832;  ///< two PEs share this GPU and process

enum class FaultPolicy : std::uint32_t { kAbort, kReport };

/// The minimum alignment of every heap, and of its first allocatable byte.
inline constexpr std::uint64_t kHeapAlignment = 2u << 20;

/// Receives results of remote reads and atomics before they are copied to registers or to memory
/// that the NIC cannot write. One thread owns a slot while `busy` is 1.
struct ScratchSlot {
  std::uint32_t busy;
  std::uint32_t reserved[31];
  std::uint64_t data[240];
};
static_assert(sizeof(ScratchSlot) == 2048);
inline constexpr int kScratchSlots = 512;  // a power of two

/// The layout of the bytes kept at the front of each heap. The slots of teams follow, if they fit;
/// otherwise they are at the end of the heap (host/runtime/teams.h).
struct InternalArea {
  alignas(128) std::uint64_t sink[16];  ///< results that are not needed
  alignas(128) ScratchSlot scratch[kScratchSlots];
  alignas(128) std::uint64_t staging[32768];  ///< for host threads' transfers on the network path
};
inline constexpr std::uint64_t kInternalBytes = kHeapAlignment;
static_assert(sizeof(InternalArea) <= kInternalBytes);

/// An open context or queue handle, found by the low bits of the handle. The state to which `state`
/// points never changes: it is the PE's state with the queues of that context. Null: no entry from
/// here on was ever used.
struct ContextEntry {
  const struct DeviceState* state;
  std::uint32_t handle;  ///< 0: closed
  std::uint32_t team;    ///< for a handle with kTeamContext: the team that numbers its PEs
};
static_assert(sizeof(ContextEntry) == 16);
/// Handles of contexts of a team have this bit. Those of all PEs are below it, from kFirstContext.
inline constexpr std::uint32_t kTeamContext = 1u << 30, kFirstContext = 2;
inline constexpr std::uint32_t kMaxContexts = 1024;  ///< open at a time; a power of two

/// A number with which no PE is in the range of consecutive ones.
inline constexpr std::int32_t kMappedByTable = 1 << 30;

/// The unit that executes atomics and signal updates on memory of mapped PEs, including this one.
/// Atomics of a NIC need not be atomic to those of CPUs and GPUs.
enum class AmoPath : std::uint32_t {
  kInPlace,  ///< the calling thread
  /// A NIC, because a link between GPUs has no atomics; a signal is still set by a store, which
  /// needs none.
  kSetsInPlace,
  kNic,  ///< a NIC, like atomics on memory of PEs that are not mapped (GSHMEM_AMO=nic)
};

inline constexpr std::uint32_t kAllPesFlat = 1u << 31;  ///< a bit of DeviceState::all_pes

/// Registered memory of the program that is symmetric (gshmemx_buffer_register_symmetric), or a
/// part by which the heap has grown. It is beyond the heap, at the same offset from
/// DeviceState::heap for every PE. If the job uses a network, its keys follow: RemoteKeys for the
/// memory of PE p, at number p * DeviceState::key_rails + QueueView::rail, and then keys for this
/// PE's memory, by QueueView::nic.
struct RegisteredRange {
  std::uint64_t end;  ///< an offset
};
/// Each begins at a multiple of this number of bytes, so no two ranges have bytes of one granule.
inline constexpr int kGranuleShift = 21;
inline constexpr std::uint64_t kGranuleBytes = std::uint64_t{1} << kGranuleShift;

/// Local memory that the NICs of its PE may access (gshmemx_buffer_register), by addresses.
struct LocalRange {
  std::uint64_t begin;  ///< 0: no row was ever used from here on
  std::uint64_t end;    ///< 0: no longer registered
  const Be32* keys;     ///< by QueueView::nic, for offsets from DeviceState::heap
};
inline constexpr std::uint32_t kMaxLocal = 256;  ///< number of ranges at a time
/// The table of local ranges. No address outside of [begin, end) is in one of them.
struct alignas(16) LocalTable {
  std::uint64_t begin, end;
  const LocalRange* rows;  ///< kMaxLocal rows, in host memory that kernels access, too
};

struct alignas(16) DeviceState {
  std::uint32_t magic = 0;
  std::int32_t my_pe = -1;
  std::int32_t n_pes = 0;
  FaultPolicy fault_policy = FaultPolicy::kAbort;

  // The load/store path. Heaps of mapped PEs are in one reserved address range, `stride` apart, in
  // the order of their slots. Usually their numbers are consecutive, and the slot of PE p is p -
  // mapped_first. Otherwise `slots` has an entry for every PE, -1 if it is not mapped, and
  // mapped_first is kMappedByTable.
  char* heap = nullptr;          ///< this PE's heap; loaded together with the next
  std::uint64_t heap_bytes = 0;  ///< including the first kInternalBytes
  std::int64_t stride = 0;
  const std::int32_t* slots = nullptr;
  std::int32_t mapped_first = 0, mapped_count = 0;
  std::int32_t my_slot = 0;  ///< used only with `slots`
  /// For mapped PEs; without a network atomics to other PEs are an error.
  AmoPath amo_path = AmoPath::kInPlace;

  NicView nic;
  Control* control = nullptr;    ///< host memory, mapped
  std::uint64_t timeout_ns = 0;  ///< limit of every wait; 0 = none
  /// kMaxContexts entries, for kernels and for host threads (the same in CPU mode).
  const ContextEntry* contexts = nullptr;
  const ContextEntry* host_contexts = nullptr;

  /// n_teams entries, for kernels and for host threads; the first are the predefined teams. A
  /// team's slot has the number of its entry.
  const Team* teams = nullptr;
  const Team* host_teams = nullptr;
  SyncSlot* team_slots = nullptr;  ///< in this PE's heap
  std::uint32_t n_teams = 0;
  /// Bit i: predefined team i has all PEs, in order. With kAllPesFlat: Team::flat of all PEs.
  std::uint32_t all_pes = 1 | kAllPesFlat;

  /// For each granule of the addresses [0, stride) from `heap`, the range that has bytes of it, or
  /// null. For kernels and for host threads (the same in CPU mode).
  const RegisteredRange* const* registered = nullptr;
  const RegisteredRange* const* host_registered = nullptr;
  std::uint32_t key_rails = 0;  ///< of the keys of ranges
  std::uint32_t reserved = 0;

  /// In memory of this PE's GPU, or of the host in CPU mode; null: no network path.
  const LocalTable* local = nullptr;
};
static_assert(std::is_trivially_copyable_v<DeviceState>);
static_assert(sizeof(DeviceState) == 240 && offsetof(DeviceState, heap) % 16 == 0 &&
              offsetof(DeviceState, nic) % 32 == 0);

/// The symbol gshmemi_device_state of kernels. In every version its last word is the number of the
/// version, and the rest is the state. So the library can detect another version before it writes a
/// state.
struct StateSymbol {
  std::uint64_t state[sizeof(DeviceState) / 8] = {};
  std::uint64_t abi = kStateAbi;
};
static_assert(sizeof(StateSymbol) == sizeof(DeviceState) + 8);

}  // namespace gshmem::abi
