// Calls on a queue that the caller chooses by a number. Kernels use them to order a word after data
// by the queue. Invariant: an addition is never visible before the data of the puts that precede it
// on the same queue to that PE. These are puts of any thread with which the caller synchronizes.
// Mapped PEs are reached by loads and stores, and have queue numbers, too. The public names are
// those of include/gshmem/deepep.h.
#pragma once

#include "../core/register_bounds.h"
#include "api.h"

namespace gshmem::device::nic {

/// Puts on queue `index`, by the calling thread.
GSHMEM_OUTLINE void put_by(const State& state, std::uint32_t index, void* dest, const void* source,
                           std::size_t bytes, int pe) {
  if (takes_keys(state) && has_queue_keys(state, dest) && is_short(state, source, bytes)) {
    ShortWay way(state);
    way.set_queue(index);
    const OneEntry entry = write_entry(way, dest, source, bytes, false);
    if (way.alone) return post_alone(state, way, entry);
    PostingOf<KeyedEntry> posting;
    post_by(posting, state, index);
    posting.entries = {entry};
    post<Sharing::kNone>(posting);
    return;
  }
  Request request{&state, Operation::kPut, pe};
  request.queue = index;
  request.local = static_cast<const char*>(source);
  request.remote = static_cast<const char*>(dest);
  request.bytes = bytes;
  execute_long(request);
}
/// Puts up to 8 bytes, which are inside the entry.
GSHMEM_OUTLINE void put_word_by(const State& state, std::uint32_t index, void* dest,
                                std::uint64_t raw, std::uint32_t bytes) {
  PostingOf<WqeImage> posting;
  post_by(posting, state, index);
  image_short_inline(posting.entries, {posting.offset(dest), posting.queue.remote_key()},
                     {{static_cast<std::uint32_t>(raw), static_cast<std::uint32_t>(raw >> 32), 0}},
                     bytes);
  if (!has_queue_keys(state, dest))
    use_registered_key(posting.entries, state, posting.queue, KeyUse::kPayload);
  post<Sharing::kWarp>(posting);
}
/// Makes an atomic whose old value is not needed. A reliable connection executes it after the
/// writes that were posted before (InfiniBand, section 9.5; contract of transport/nic/nic.h).
GSHMEM_OUTLINE void amo_by(const State& state, std::uint32_t index, void* target, Amo operation) {
  PostingOf<WqeImage> posting;
  post_by(posting, state, index);
  make_atomic(posting.entries, posting.queue, posting.offset(target), operation, kSink);
  if (!has_queue_keys(state, target))
    use_registered_key(posting.entries, state, posting.queue, KeyUse::kAtomic);
  post<Sharing::kWarp>(posting);
}
/// Waits until everything on queue `index` is complete.
GSHMEM_OUTLINE void quiet_by(const State& state, std::uint32_t index, const char* call) {
  if (state.nic.flags & abi::kNicFlush) {
    Wait wait;
    begin_wait(wait, &state, nullptr, call);
    post_flushes(Thread{}, wait, index, index + 1);
    if (!post_report(wait)) return;
  }
  queue_quiet(state, Queue(state.nic.queues + index), call);
}

}  // namespace gshmem::device::nic

namespace gshmem::api {

/// Returns the number of queues to each PE that can be chosen: those of the first rail, because
/// atomics change the words that follow data (NicView). 0: the job has no network path.
GSHMEM_FN std::uint32_t queues_to_pe(const State& state) {
  if (!state.nic.queues) return 0;
  return state.nic.rails == 1 ? state.nic.per_pe : state.nic.per_pe / state.nic.rails;
}

/// A queue to PE `pe`. Its number is taken modulo the number of queues.
struct ChosenQueue {
  int pe;
  int number;
  GSHMEM_FN std::uint32_t index(const State& state) const {
    const std::uint32_t count = queues_to_pe(state);
    std::uint32_t nth = static_cast<std::uint32_t>(number);
    if (nth >= count) nth %= count;
    return static_cast<std::uint32_t>(pe) * state.nic.per_pe + nth * state.nic.rails;
  }
};

template <class Coop>
GSHMEM_FN void put_nbi_on_queue(const Caller& call, Coop coop, void* dest, const void* source,
                                std::size_t bytes, ChosenQueue to) {
  const State& state = call.state;
  if (!check_arguments(state, call.name, ToPe{to.pe}, Symmetric{{"dest", dest, {bytes, 1}}},
                       Local{{"source", source, {bytes, 1}}}))
    return;
  GSHMEM_ORDER(const auto t = order::transfer(state, dest, source, bytes, to.pe, false);
               if (order::put(*checker, coop, t)) return;)
  coop.sync();
  if (is_mapped(state, to.pe)) {
    copy<Source::kLocal>(coop, peer_address(state, dest, to.pe), source, bytes);
  } else if (coop.thread_rank() == 0) {
    nic::put_by(state, to.index(state), dest, source, bytes, to.pe);
  }
  coop.sync();
}

template <class T>
GSHMEM_FN void p_on_queue(const Caller& call, T* dest, T value, ChosenQueue to) {
  const State& state = call.state;
  if (!check_arguments(state, call.name, ToPe{to.pe}, element("dest", dest))) return;
  GSHMEM_ORDER(const auto t = order::transfer(state, dest, &value, sizeof(T), to.pe, true);
               if (order::put(*checker, Thread{}, t)) return;)
  if (is_mapped(state, to.pe)) return device::p(state, dest, value, to.pe);
  nic::put_word_by(state, to.index(state), dest, bits<Word<T>>(value), sizeof(T));
}

/// Adds after all puts on the queue that precede it. The fence covers the stores of threads with
/// which the caller has synchronized (PTX ISA, causality order).
template <class T>
GSHMEM_FN void add_on_queue(const Caller& call, T* dest, T value, ChosenQueue to) {
  const State& state = call.state;
  if (!check_arguments(state, call.name, ToPe{to.pe}, word("dest", dest))) return;
  GSHMEM_ORDER(checker->fence(state);
               if (order::update(*checker, state, AmoOp::kAdd, dest, value, to.pe)) return;)
  if (is_mapped(state, to.pe)) fence_release_system();
  if (amo_is_mapped(state, to.pe)) {
    atomic_add(amo_target(state, dest, to.pe), bits<Word<T>>(value));
  } else if (!state.nic.queues) {
    nic::refuse_amo(state, to.pe);
  } else {
    nic::amo_by(state, to.index(state), dest, nic_amo(AmoOp::kAdd, value, T{}));
  }
}

GSHMEM_FN void quiet_of_queue(const Caller& call, ChosenQueue to) {
  const State& state = call.state;
  if (!check_arguments(state, call.name, ToPe{to.pe})) return;
  GSHMEM_ORDER(checker->quiet(state, to.pe);)
  if (is_mapped(state, to.pe)) fence_complete_system();
  if (state.nic.queues) nic::quiet_by(state, to.index(state), call.name);
}

/// Calls all these functions, to bound the registers of relocatable code (register_bounds.h).
struct ChosenQueueFit {
  void* dest;
  const void* source;
  std::size_t bytes;
  ChosenQueue to;
};
template <class Coop>
GSHMEM_FN int fit_chosen_queue(Coop coop, const ChosenQueueFit& w) {
  const Caller call = ambient_caller("");
  put_nbi_on_queue(call, coop, w.dest, w.source, w.bytes, w.to);
  p_on_queue(call, static_cast<int*>(w.dest), w.to.pe, w.to);
  add_on_queue(call, static_cast<int*>(w.dest), w.to.pe, w.to);
  quiet_of_queue(call, w.to);
  return 0;
}

}  // namespace gshmem::api
