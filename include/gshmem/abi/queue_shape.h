// The common properties of all queues of a NicView, as the host chooses them, and the word that
// device code has of them (QueueTraits). Included by transport/nic and by tests, not by kernels.
// Invariant: nothing here is shared between host and kernels but that word.
#pragma once

#include "queue.h"

#include <cstddef>
#include <cstdint>
#include <type_traits>

namespace gshmem::abi {

static_assert(offsetof(NicView, cursors) == 8 && offsetof(NicView, first_use) == 32 &&
              offsetof(NicView, max_message) % 16 == 0);
static_assert(std::is_trivially_copyable_v<QueueView> && std::is_trivially_copyable_v<NicView>);
static_assert(sizeof(NicView) == 80);

/// The memory of the entries and the doorbell record decides the scope of a writer's release.
enum class QueueMemory : std::uint32_t { kHost, kGpu };
/// The granularity in which NICs map GPU memory.
inline constexpr std::uint64_t kGpuPageBytes = 64 * 1024;
/// An exclusive queue is used by one thread at a time, without atomics.
enum class QueueKind : std::uint32_t { kShared, kExclusive };

/// How device code rings a queue's doorbell.
enum class Bell : std::uint32_t {
  kWord,           ///< a word in memory, of which only the newest value matters
  kRecordWord,     ///< such a word; the doorbell record must be visible before it
  kRegister,       ///< a register of a NIC that reads the record only after an error
  kRegisterAlone,  ///< a register of a NIC that has no record
};

constexpr bool is_register(Bell bell) {
  return bell == Bell::kRegister || bell == Bell::kRegisterAlone;
}

/// Returns the maximum number of entries between two doorbells. A reservation takes at most half
/// the depth (device/network/queue.h), and the longest WQE 16 entries: depth / 4 + depth / 2 + 16
/// <= depth. It is at most the number of threads of a warp, so that a thread that waits for room
/// finds some soon.
constexpr std::uint32_t batch_of(std::uint32_t depth) { return depth / 4 < 32 ? depth / 4 : 32; }

/// The common properties of all queues of a NicView.
struct QueueShape {
  std::uint32_t depth = kMinQueueDepth;            ///< entries, a power of two
  std::uint32_t batch = batch_of(kMinQueueDepth);  ///< a power of two
  QueueMemory memory = QueueMemory::kHost;
  QueueKind kind = QueueKind::kShared;
  Bell bell = Bell::kWord;
  std::uint64_t heap_end = std::uint64_t{1} << 63;  ///< a power of two: offsets before it have the
                                                    ///< keys of the queue
  bool dynamic = false;  ///< initiators, which the short way does not know
  bool on_gpu = true;    ///< threads of the GPU post; otherwise those of the host (CPU mode)
};

/// Returns the word of QueueTraits.
constexpr std::uint32_t traits_of(const QueueShape& shape) {
  std::uint32_t traits = 0;
  if (shape.kind == QueueKind::kExclusive) traits |= QueueTraits::kExclusive;
  if (shape.memory == QueueMemory::kGpu) traits |= QueueTraits::kGpuMemory;
  if (shape.bell == Bell::kRecordWord) traits |= QueueTraits::kRecordFirst;
  if (is_register(shape.bell)) traits |= QueueTraits::kRegister;
  if (shape.bell == Bell::kRegisterAlone) traits |= QueueTraits::kNoRecord;
  if (shape.dynamic) traits |= QueueTraits::kDynamic;
  if (!shape.dynamic && is_register(shape.bell) &&
      (shape.memory == QueueMemory::kGpu || !shape.on_gpu))
    traits |= QueueTraits::kShortWay;
  for (std::uint64_t h = shape.heap_end; h < std::uint64_t{1} << 63; h *= 2)
    traits += 1u << QueueTraits::kHeapShift;
  for (std::uint32_t d = shape.depth; d > 1; d /= 2) traits += 1u << QueueTraits::kDepthShift;
  for (std::uint32_t b = shape.batch; b > 1; b /= 2) traits += 1u << QueueTraits::kBatchShift;
  return traits;
}

/// Opens the short way if all other members of the view allow it.
constexpr void choose_way(NicView& view) {
  const std::uint32_t per_pe = view.per_pe;
  const bool by_block = (view.map == QueueMap::kBlock || per_pe == 1) && view.rails <= 1;
  const bool open = (view.traits & QueueTraits::kShortWay) != 0 && by_block && per_pe != 0 &&
                    (per_pe & (per_pe - 1)) == 0;
  view.block_mask = open ? per_pe - 1 : NicView::kNoShortWay;
}

}  // namespace gshmem::abi
