// The short way is the fast path of a put or a get, or of a put and a signal after it: the whole
// call is in registers, from the choice of the queue to the doorbell. It is for data in the first
// part of the heap, for calls that do not wait for completion, and only where NicView::block_mask
// permits it. A single thread may take it, and so may the threads of a warp that post to one queue
// together. All other calls use post.h. A call that has a reservation, but must wait, continues
// there, too (post_late). Measured by perftest/issue_cost, "register" and "gpu".
#pragma once

#include "post.h"

namespace gshmem::device::nic {

/// The queue of a call, and the members of the state that the call needs. All members are loaded at
/// once, and computed without branches: each dependent step of a single thread takes some 30
/// clocks, and each branch 15.
struct ShortWay {
  std::uint64_t heap, heap_bytes;
  std::uint64_t queues, cursors;  ///< addresses of the tables; after set_queue, of this queue's
                                  ///< elements
  std::uint32_t traits, max_message;
  std::uint32_t index;  ///< index of the queue
  std::uint32_t open;   ///< 1: the call may take the short way
  std::uint32_t alone;  ///< 1: and a single thread posts

  GSHMEM_INLINE explicit ShortWay(const State& state) {
    const TwoWords bounds = load_two(&state.heap), tables = load_two(&state.nic.queues),
                   limits = load_two(&state.nic.max_message);
    heap = bounds.first;
    heap_bytes = bounds.second;
    queues = tables.first;
    cursors = tables.second;
    max_message = static_cast<std::uint32_t>(limits.first);
    traits = static_cast<std::uint32_t>(limits.first >> 32);
    index = static_cast<std::uint32_t>(limits.second >> 32);  // NicView::block_mask
    open = index != abi::NicView::kNoShortWay ? 1 : 0;
    // The contract of an exclusive queue is that only one thread uses it.
    alone = open & (static_cast<std::uint32_t>(is_exclusive(traits)) |
                    static_cast<std::uint32_t>(is_alone()));
  }
  /// Chooses the queue to `pe` by the number of the block.
  GSHMEM_INLINE ShortWay(const State& state, int pe) : ShortWay(state) {
    index = static_cast<std::uint32_t>(pe) * (index + 1) + (block_spread() & index);
    set_queue(index);
  }
  GSHMEM_INLINE void set_queue(std::uint32_t number) {
    index = number;
    queues += std::uint64_t{number} * sizeof(QueueView);
    cursors += std::uint64_t{number} * sizeof(QueueCursor);
#if defined(__CUDA_ARCH__)
    compute_here(queues);
    compute_here(cursors);
#endif
  }
  GSHMEM_FN const QueueView* view() const { return reinterpret_cast<const QueueView*>(queues); }
  GSHMEM_FN QueueCursor* cursor() const { return reinterpret_cast<QueueCursor*>(cursors); }
  GSHMEM_FN std::uint64_t offset(const void* p) const {
    return reinterpret_cast<std::uint64_t>(p) - heap;
  }
  GSHMEM_FN std::uint32_t has(const void* p) const { return offset(p) < heap_bytes ? 1 : 0; }
  GSHMEM_FN std::uint32_t has(const void* p, std::size_t bytes) const {
    const std::uint32_t is_one = bytes - 1 < max_message ? 1 : 0;
    const std::uint32_t ends = bytes <= heap_bytes - offset(p) ? 1 : 0;
    return has(p) & is_one & ends;
  }
  /// Returns the traits of the queue. The compiler knows the bits that every queue with a short way
  /// has.
  GSHMEM_FN std::uint32_t known_traits() const {
    using Traits = abi::QueueTraits;
    return (traits & ~(Traits::kRecordFirst | Traits::kNever)) | Traits::kGpuMemory |
           Traits::kRegister;
  }
};

/// The arguments that only a call needs that has to wait. They are in local memory, to save
/// registers.
struct LateCall {
  const State* state;
  std::uint32_t index;
};
/// Continues a call that has a reservation, but must wait. From here on its data is in memory.
/// Returns `first`, which may have the flag Reservation::kLate.
template <class Entries>
GSHMEM_OUTLINE std::uint64_t post_late(const LateCall& call, Entries entries, Converged group,
                                       std::uint64_t first) {
  PostingOf<WqeImage> posting;
  post_by(posting, *call.state, call.index);
  posting.first = first | Reservation::kLate;
  posting.group = group;
  entries.fill(posting.entries, posting.queue);
  post_end(posting, nullptr);
  return first;
}
/// Posts for one thread.
template <class Entries>
GSHMEM_INLINE void post_alone(const State& state, const ShortWay& way, const Entries& entries) {
  LateCall call{&state, way.index};
  keep_in_memory(call);
  const auto late = [&](std::uint64_t first) {
    return post_late(call, entries, Converged::self(), first);
  };
  const std::uint32_t traits = way.known_traits();
  constexpr std::uint32_t kOwn = abi::QueueTraits::kExclusive;
  if (is_exclusive(traits)) {
    post_now(way.view(), way.cursor(), traits | kOwn, entries, Alone{}, late);
  } else {
    post_now(way.view(), way.cursor(), traits & ~kOwn, entries, Alone{}, late);
  }
}
/// Posts for all threads of a warp, which have converged.
template <class Entries>
GSHMEM_OUTLINE void post_by_warp(const State& state, std::uint32_t index, Entries entries) {
  ShortWay way(state);
  way.set_queue(index);
  LateCall call{&state, index};
  keep_in_memory(call);
  const WholeWarp warp;
  post_now(way.view(), way.cursor(), way.known_traits(), entries, warp,
           [&](std::uint64_t first) { return post_late(call, entries, warp.converged(), first); });
}
/// Posts for those threads of a warp that post to the same queue.
template <class Entries>
GSHMEM_OUTLINE void post_by_group(const State& state, std::uint32_t index, const Entries& entries) {
  ShortWay way(state);
  way.set_queue(index);
  LateCall call{&state, index};
  keep_in_memory(call);
  const Converged group = is_shared<Sharing::kWarp>(way.traits, entries.entries())
                              ? group_at(way.cursor(), CoalesceGroup::kAtOnce, entries)
                              : Converged::self();
  post_now(way.view(), way.cursor(), way.known_traits(), entries, group,
           [&](std::uint64_t first) { return post_late(call, entries, group, first); });
}
/// Posts for threads of a warp that may have converged.
template <class Entries>
GSHMEM_INLINE void post_together(const State& state, const ShortWay& way, const Entries& entries) {
  if (WholeWarp::is_here(way.index) && fits_by_warp(way.traits, entries.entries())) {
    post_by_warp(state, way.index, entries);
  } else {
    post_by_group(state, way.index, entries);
  }
}

}  // namespace gshmem::device::nic
