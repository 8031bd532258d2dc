// The network path: puts, gets and atomics as work queue entries of a reliable connection to the
// target. A call that is one WQE with its data in symmetric memory is posted at once (post.h). A
// call that takes several WQEs, or has its data elsewhere, is executed chunk by chunk (transfer.h).
// All of it is out of line: a kernel that only might use the network keeps its registers.
#pragma once

#include "../pe/copy.h"
#include "../pe/p2p.h"
#include "post.h"
#include "short_way.h"
#include "transfer.h"

namespace gshmem::device::nic {

/// Can one WQE between heaps make the transfer?
GSHMEM_FN bool is_short(const State& state, const void* local, std::size_t bytes) {
  return (bytes - 1 < state.nic.max_message) & in_heap(state, local, bytes);
}
GSHMEM_FN OneEntry transfer_of(const Posting& posting, Opcode opcode, const void* remote,
                               const void* local, std::size_t bytes) {
  return transfer_entry(opcode, posting.offset(remote), posting.offset(local),
                        static_cast<std::uint32_t>(bytes));
}

/// Does the payload fit into an entry of three units? Then its source may be reused at once, and
/// the NIC need not fetch it.
GSHMEM_FN bool is_words(const void* source, std::size_t bytes) {
  return (bytes - 1 < kShortInlineBytes) &
         ((reinterpret_cast<std::uintptr_t>(source) | bytes) % sizeof(std::uint32_t) == 0);
}
GSHMEM_FN ShortPayload load_words(const void* source, std::size_t bytes) {
  const std::uint32_t* word = static_cast<const std::uint32_t*>(source);
  ShortPayload payload{{load_bulk(word), 0, 0}};
  if (bytes > 4) payload.word[1] = load_bulk(word + 1);
  if (bytes > 8) payload.word[2] = load_bulk(word + 2);
  return payload;
}
GSHMEM_FN OneEntry words_entry(const Posting& posting, const void* dest, ShortPayload payload,
                               std::size_t bytes) {
  return inline_entry(posting.offset(dest), payload, static_cast<std::uint32_t>(bytes));
}

/// Can one WQE make the transfer if the local memory is in the heap or in registered memory? The
/// addresses after this PE's heap are reserved for registered memory.
GSHMEM_FN bool is_short_beyond(const State& state, const void* local, std::size_t bytes) {
  const std::uint64_t offset = heap_offset(state, local),
                      end = static_cast<std::uint64_t>(state.stride);
  return (bytes - 1 < state.nic.max_message) & (offset < end) & (bytes <= end - offset);
}
/// May the queues take a KeyedEntry? An initiator takes only a WqeImage.
GSHMEM_FN bool takes_keys(const State& state) { return !is_dynamic(state.nic.traits); }
/// Makes a KeyedEntry with the keys of registered memory. `local` is null if the payload is inline.
GSHMEM_FN void use_keys_beyond(PostingOf<KeyedEntry>& posting, const OneEntry& entry,
                               const void* remote, const void* local) {
  const State& state = *posting.state;
  posting.entries = {entry, range_word(state, heap_offset(state, remote)),
                     local ? range_word(state, heap_offset(state, local)) : nullptr,
                     state.key_rails, remote_key_count(state)};
}

/// Makes the entry of a put between heaps. With `words` the payload is in the entry: it is loaded
/// here, and arrives while the reservation is pending.
GSHMEM_INLINE OneEntry write_entry(const ShortWay& way, const void* dest, const void* source,
                                   std::size_t bytes, bool words) {
  const std::uint32_t length = static_cast<std::uint32_t>(bytes);
  OneEntry entry = transfer_entry(Opcode::kRdmaWrite, way.offset(dest), way.offset(source), length);
  if (words) entry.data = {inline_header(length), 0, 0, 0};
  const std::uint32_t* const word = static_cast<const std::uint32_t*>(source);
  if (words) entry.data.y = load_bulk(word);
  if (words & (length > 4)) entry.data.z = load_bulk(word + 1);
  if (words & (length > 8)) entry.data.w = load_bulk(word + 2);
  return entry;
}

/// Returns 1 if the source of a put allows the short way (short_way.h). Then its bytes are in the
/// entry, or they are in the heap and the call does not wait.
GSHMEM_FN std::uint32_t is_simple_put(const ShortWay& way, const void* source, std::size_t bytes,
                                      bool words, bool blocking) {
  return (words ? 1u : 0u) | (way.has(source, bytes) & (blocking ? 0u : 1u));
}

/// The one thread that posts for a warp or a block shares reservations with no other thread.
template <class Coop>
inline constexpr Sharing kSharing =
    std::is_base_of_v<Thread, Coop> ? Sharing::kWarp : Sharing::kNone;

/// May the call take the short way (short_way.h)? A group spends its time elsewhere, and a
/// LeanThread has to save registers.
template <class Coop>
inline constexpr bool kTakesShortWay = std::is_same_v<Coop, Thread>;

// The API of the network path. The first thread of a group puts or gets for all. The functions are
// out of line, because the request would take registers of the caller (48 instead of 40).

/// Makes a transfer by execute_long. It is out of line, and so are the functions `*_by_keys`. So a
/// thread never has a Request and a Posting on its stack at the same time.
GSHMEM_OUTLINE void move_long(const State& state, Operation operation, const void* symmetric,
                              const void* local, std::size_t bytes, int pe, bool blocking) {
  Request request{&state, operation, pe};
  request.blocking = blocking;
  request.local = static_cast<const char*>(local);
  request.remote = static_cast<const char*>(symmetric);
  request.bytes = bytes;
  execute_long(request);
}

/// Puts data that fits into one WQE, from any memory and through any queue but an initiator.
template <Sharing kSharing>
GSHMEM_OUTLINE void put_by_keys(const State& state, void* dest, const void* source,
                                std::size_t bytes, int pe, bool blocking) {
  PostingOf<KeyedEntry> posting;
  const bool words = is_words(source, bytes);
  ShortPayload payload{};
  if (words) payload = load_words(source, bytes);
  post_to(posting, state, pe, words ? Rail::kFirst : Rail::kAny, dest);
  use_keys_beyond(posting,
                  words ? words_entry(posting, dest, payload, bytes)
                        : transfer_of(posting, Opcode::kRdmaWrite, dest, source, bytes),
                  dest, words ? nullptr : source);
  post<kSharing>(posting, blocking && !words ? "put" : nullptr);
}
template <class Coop>
GSHMEM_OUTLINE void put(Coop coop, const State& state, void* dest, const void* source,
                        std::size_t bytes, int pe, Reuse reuse) {
  if (coop.thread_rank() != 0) return;
  const bool blocking = reuse == Reuse::kOnReturn, words = is_words(source, bytes);
  if constexpr (kTakesShortWay<Coop>) {
    const ShortWay way(state, pe);
    const std::uint32_t simple = way.has(dest) & is_simple_put(way, source, bytes, words, blocking);
    if (simple & way.alone)
      return post_alone(state, way, write_entry(way, dest, source, bytes, words));
    if (simple & way.open)
      return post_together(state, way, write_entry(way, dest, source, bytes, words));
  }
  if (takes_keys(state) && (words || (is_short_beyond(state, source, bytes) &&
                                      (!blocking || bytes > kInlinePutBytes)))) {
    put_by_keys<kSharing<Coop>>(state, dest, source, bytes, pe, blocking);
  } else {
    move_long(state, Operation::kPut, dest, source, bytes, pe, blocking);
  }
}
/// Gets data that fits into one WQE, into any memory and through any queue but an initiator.
template <Sharing kSharing>
GSHMEM_OUTLINE void get_by_keys(const State& state, void* dest, const void* source,
                                std::size_t bytes, int pe, bool blocking) {
  PostingOf<KeyedEntry> posting;
  post_to(posting, state, pe, Rail::kAny, source);
  use_keys_beyond(posting, transfer_of(posting, Opcode::kRdmaRead, source, dest, bytes), source,
                  dest);
  post<kSharing>(posting, blocking ? "get" : nullptr);
}
template <class Coop>
GSHMEM_OUTLINE void get(Coop coop, const State& state, void* dest, const void* source,
                        std::size_t bytes, int pe, Arrival arrival) {
  if (coop.thread_rank() != 0) return;
  const bool blocking = arrival == Arrival::kOnReturn;
  if constexpr (kTakesShortWay<Coop>) {
    const ShortWay way(state, pe);
    const OneEntry entry = transfer_entry(Opcode::kRdmaRead, way.offset(source), way.offset(dest),
                                          static_cast<std::uint32_t>(bytes));
    const bool waits = blocking || (state.nic.flags & abi::kNicReadNeedsDump) != 0;
    const std::uint32_t simple = way.has(source) & way.has(dest, bytes) & (waits ? 0u : 1u);
    if (simple & way.alone) return post_alone(state, way, entry);
    if (simple & way.open) return post_together(state, way, entry);
  }
  if (takes_keys(state) && is_short_beyond(state, dest, bytes) &&
      !(state.nic.flags & abi::kNicReadNeedsDump)) {
    get_by_keys<kSharing<Coop>>(state, dest, source, bytes, pe, blocking);
  } else {
    move_long(state, Operation::kGet, source, dest, bytes, pe, blocking);
  }
}

/// Transfers `bytes` bytes between any local memory and `symmetric`. When it returns, a get has
/// arrived, and the source of a put may be reused. It takes few registers of the caller: with
/// move_long, some reductions would take four more.
GSHMEM_OUTLINE void move_value(const State& state, Operation operation, const void* symmetric,
                               const void* value, std::uint32_t bytes, int pe) {
  Request request{&state, operation, pe};
  request.blocking = true;
  request.local = static_cast<const char*>(value);
  request.remote = static_cast<const char*>(symmetric);
  request.bytes = bytes;
  execute_long(request);
}
/// Does what put_word does, for a `dest` anywhere. (A KeyedEntry would take four more registers.)
GSHMEM_OUTLINE void put_word_by_keys(const State& state, void* dest, std::uint64_t raw,
                                     std::uint32_t bytes, int pe) {
  PostingOf<WqeImage> posting;
  const bool direct = post_to(posting, state, pe, Rail::kFirst, dest);
  const ShortPayload payload{
      {static_cast<std::uint32_t>(raw), static_cast<std::uint32_t>(raw >> 32), 0}};
  image_short_inline(posting.entries, {posting.offset(dest), posting.queue.remote_key()}, payload,
                     bytes);
  if (!direct) use_registered_key(posting.entries, state, posting.queue, KeyUse::kPayload);
  post<Sharing::kWarp>(posting);
}
/// Puts the low `bytes` bytes, at most 8, of `raw`, which are inside the entry.
GSHMEM_OUTLINE void put_word(const State& state, void* dest, std::uint64_t raw, std::uint32_t bytes,
                             int pe) {
  const ShortWay way(state, pe);
  const ShortPayload payload{
      {static_cast<std::uint32_t>(raw), static_cast<std::uint32_t>(raw >> 32), 0}};
  const OneEntry entry = inline_entry(way.offset(dest), payload, bytes);
  if (way.has(dest) & way.alone) return post_alone(state, way, entry);
  if (way.has(dest) & way.open) return post_together(state, way, entry);
  put_word_by_keys(state, dest, raw, bytes, pe);
}
/// Puts one element of 1 to 16 bytes. The out-of-line part is the same for all types.
template <class T>
GSHMEM_FN void p(const State& state, T* dest, T value, int pe) {
  if constexpr (sizeof(T) > sizeof(std::uint64_t)) {
    move_value(state, Operation::kPut, dest, &value, sizeof(T), pe);
  } else {
    std::uint64_t raw = 0;
    std::memcpy(&raw, &value, sizeof(T));
    put_word(state, dest, raw, sizeof(T), pe);
  }
}

/// Claims a slot for fetched data. Returns null, and records a fault, if there is none. The slot is
/// not freed when the call fails later: a late READ may still write to it.
GSHMEM_OUTLINE abi::ScratchSlot* claim_or_report(const State* state) {
  Wait wait;
  begin_wait(wait, state, nullptr, "network");
  abi::ScratchSlot* const slot = claim_scratch(wait);
  post_report(wait);
  return slot;
}

/// Returns the `bytes` bytes at `source`, at most 8, in the low bytes of the result. Returns zero
/// when the read failed.
GSHMEM_OUTLINE std::uint64_t get_word(const State& state, const void* source, std::uint32_t bytes,
                                      int pe) {
  std::uint64_t value = 0;
  if ((state.nic.flags & abi::kNicReadNeedsDump) != 0 || !has_queue_keys(state, source) ||
      !takes_keys(state)) {
    move_value(state, Operation::kGet, source, &value, bytes, pe);
    return value;
  }
  PostingOf<OneEntry> posting;
  post_to(posting, state, pe, Rail::kAny, source);
  posting.entries = transfer_of(posting, Opcode::kRdmaRead, source, state.heap, bytes);
  keep_in_memory(posting);
  abi::ScratchSlot* slot = claim_or_report(&state);
  if (!slot) return value;
  keep_in_memory(slot);
  posting.entries.set_local(heap_offset(state, slot->data));
  if (!post<Sharing::kWarp>(posting, "get")) return value;
  keep_in_memory(slot);
  value = load_relaxed(slot->data);
  free_scratch(slot);
  return value;
}
template <class T>
GSHMEM_FN T g(const State& state, const T* source, int pe) {
  if constexpr (sizeof(T) > sizeof(std::uint64_t)) {
    T value{};
    move_value(state, Operation::kGet, source, &value, sizeof(T), pe);
    return value;
  } else {
    return bits<T>(static_cast<Word<T>>(get_word(state, source, sizeof(T), pe)));
  }
}

/// Records a fault for an atomic that neither the link between the GPUs nor a network supports
/// (abi::AmoPath).
GSHMEM_OUTLINE void refuse_amo(const State& state, int pe) {
  FaultInfo info{GSHMEMX_ERROR_NOT_SUPPORTED, "atomic", "pe"};
  info.pe = pe;
  fault(state, info);
}

/// Executes an atomic whose old value is not needed.
GSHMEM_OUTLINE void amo(const State& state, void* target, Amo operation, int pe) {
  if (!state.nic.queues) return refuse_amo(state, pe);
  PostingOf<WqeImage> posting;
  const bool direct = post_to(posting, state, pe, Rail::kFirst, target);
  make_atomic(posting.entries, posting.queue, posting.offset(target), operation, kSink);
  if (!direct) use_registered_key(posting.entries, state, posting.queue, KeyUse::kAtomic);
  post<Sharing::kWarp>(posting);
}
/// Returns the old value; 0 on failure.
GSHMEM_OUTLINE std::uint64_t amo_fetching(const State& state, void* target, Amo operation, int pe) {
  if (!state.nic.queues) return refuse_amo(state, pe), 0;
  PostingOf<WqeImage> posting;
  bool direct = post_to(posting, state, pe, Rail::kFirst, target);
  std::uint64_t remote = posting.offset(target);
  keep_in_memory(posting);
  keep_in_memory(operation);
  keep_in_memory(remote);
  keep_in_memory(direct);
  abi::ScratchSlot* slot = claim_or_report(&state);
  if (!slot) return 0;
  keep_in_memory(slot);
  make_atomic(posting.entries, posting.queue, remote, operation, heap_offset(state, slot->data));
  if (!direct) use_registered_key(posting.entries, state, posting.queue, KeyUse::kAtomic);
  if (state.nic.flags & abi::kNicReadNeedsDump) {
    append_dump(posting.entries, posting.queue, heap_offset(state, slot->data));
  }
  if (!post<Sharing::kWarp>(posting, "atomic")) return 0;
  keep_in_memory(slot);
  const std::uint64_t* data = slot->data;
  const std::uint64_t stored = operation.width == 8
                                   ? load_relaxed(data)
                                   : load_relaxed(reinterpret_cast<const std::uint32_t*>(data));
  free_scratch(slot);
  return fetched_value(stored, operation.width, state.nic.flags);
}

/// The change to a signal word of 8 bytes. (An Amo would take three more registers.)
struct SignalAmo {
  void* word;
  std::uint64_t value;
  AmoOp op;
};
/// Posts a put and its signal if one WQE and an atomic can execute them, in any memory. Otherwise
/// returns false.
template <Sharing kSharing>
GSHMEM_OUTLINE bool put_signal_by_keys(const Request& put) {
  const State& state = *put.state;
  const bool words = is_words(put.local, put.bytes);
  if (!takes_keys(state)) return false;
  if (!words && (!is_short_beyond(state, put.local, put.bytes) ||
                 (put.blocking && put.bytes <= kInlinePutBytes)))
    return false;
  PostingOf<WqeImage> posting;
  post_to(posting, state, put.pe, Rail::kFirst, put.remote);
  make_transfer(posting.entries, posting.queue,
                words
                    ? words_entry(posting, put.remote, load_words(put.local, put.bytes), put.bytes)
                    : transfer_of(posting, Opcode::kRdmaWrite, put.remote, put.local, put.bytes));
  make_atomic(posting.entries, posting.queue, posting.offset(put.target), put.amo, kSink);
  use_registered_keys(posting.entries, state, posting.queue, !words);
  post<kSharing>(posting, put.blocking && !words ? "put_signal" : nullptr);
  return true;
}
template <class Coop>
GSHMEM_FN void put_signal_alone(const State& state, void* dest, const void* source,
                                std::size_t bytes, SignalAmo signal, int pe, Reuse reuse) {
  const bool blocking = reuse == Reuse::kOnReturn, words = is_words(source, bytes);
  if constexpr (kTakesShortWay<Coop>) {
    const ShortWay way(state, pe);
    if (way.open & way.has(dest) & way.has(signal.word) &
        is_simple_put(way, source, bytes, words, blocking)) {
      const SignalledEntry both{write_entry(way, dest, source, bytes, words),
                                way.offset(signal.word), signal.value, signal.op == AmoOp::kSet};
      return way.alone ? post_alone(state, way, both) : post_together(state, way, both);
    }
  }
  Request request{&state, Operation::kPutSignal, pe};
  request.blocking = blocking;
  request.local = static_cast<const char*>(source);
  request.remote = static_cast<const char*>(dest);
  request.bytes = bytes;
  request.target = signal.word;
  request.amo = {signal.op, sizeof(signal.value), signal.value, 0};
  if (!put_signal_by_keys<kSharing<Coop>>(request)) execute_long(request);
}
/// One thread puts a payload and the signal after it; the group synchronizes at the end.
template <class Coop>
GSHMEM_OUTLINE void put_signal(Coop coop, const State& state, void* dest, const void* source,
                               std::size_t bytes, SignalAmo signal, int pe, Reuse reuse) {
  coop.sync();
  if (coop.thread_rank() == 0) {
    put_signal_alone<Coop>(state, dest, source, bytes, signal, pe, reuse);
  }
  coop.sync();
}

/// Decides which queues a thread of a group checks. It uses their index only, because the set of
/// used queues may change between the reads of two threads. Used queues are spread over many
/// threads, whatever the distance between them is.
template <class Coop>
GSHMEM_FN bool is_share(Coop coop, std::uint32_t at) {
  const std::uint32_t size = static_cast<std::uint32_t>(coop.size());
  return (at + at / size) % size == static_cast<std::uint32_t>(coop.thread_rank());
}

/// The READs that flush_rails posts: one to each of the queues [at, end) that need one.
struct Flush : PostingOf<WqeImage> {
  std::uint32_t at, end;
};
/// Makes the next READ; false if there is none. A queue to which nothing was posted after its last
/// READ needs none.
template <class Coop>
GSHMEM_OUTLINE bool next_flush(Coop coop, Flush& flush) {
  const abi::NicView& nic = flush.state->nic;
  GSHMEM_NO_UNROLL
  while (flush.good()) {
    const std::uint32_t at = next_used(*flush.state, flush.at, flush.end);
    if (at == flush.end) break;
    flush.at = at + 1;
    if (!is_share(coop, at)) continue;
    const std::uint64_t published = load_acquire_gpu(&nic.cursors[at].ready);
    if (published == load_relaxed(&nic.cursors[at].flushed)) continue;
    post_by(flush, *flush.state, at);
    image_transfer(flush.entries, Opcode::kRdmaRead, {kSink, flush.queue.atomic_key()},
                   {kSink, flush.queue.local_key()}, sizeof(std::uint64_t));
    return true;
  }
  return false;
}
GSHMEM_OUTLINE void note_flushed(const Flush& flush) {
  if (!flush.good()) return;
  // The target is the end of this flush's own READ, which has its own reservation.
  store_relaxed(&flush.queue.cursor()->flushed, PublishedWord::make(flush.target, 1));
}
/// A completion means that a NIC of the target has the data on its way to memory. Data that arrives
/// later through the same NIC is ordered after it. But if PEs have several NICs, the next operation
/// may arrive through another one: a signal, the flag of a barrier, a READ. So quiet posts a READ
/// after the entries that it waits for. The READ's answer arrives when all data before it is in
/// memory (PCI Express, 2.4.1: a read does not pass posted writes). The group must synchronize
/// before it waits: a thread that waits for a queue waits for its READ.
template <class Coop>
GSHMEM_FN void post_flushes(Coop coop, Wait& wait, std::uint32_t at, std::uint32_t end) {
  Flush flush;
  begin_wait(flush, wait.state, nullptr, wait.call);
  flush.at = at;
  flush.end = end;
  GSHMEM_NO_UNROLL
  while (next_flush(coop, flush)) {
    post_by_steps<Sharing::kNone>(flush);
    note_flushed(flush);
  }
  if (!flush.good()) wait = flush;
}
/// Does what post_flushes does, and synchronizes the group.
template <class Coop>
GSHMEM_OUTLINE void flush_rails(Coop coop, Wait& wait, std::uint32_t at, std::uint32_t end) {
  post_flushes(coop, wait, at, end);
  coop.sync();
}

/// Has the NIC processed queue `index`? Posts a NOP with a completion. It moves no data, so it
/// tests only the path to the NIC and back. Returns false, and records a fault, if the NIC has not.
GSHMEM_OUTLINE bool prove(const State& state, std::uint32_t index) {
  PostingOf<WqeImage> posting;
  post_by(posting, state, index);
  posting.entries.put(0, control_unit({Opcode::kNop, 0, 1, 0}));
  posting.entries.units = 1;
  return post<Sharing::kNone>(posting, "network (proof)");
}

/// Returns the low half of the word that load_poll loads. On GPUs it takes one register.
GSHMEM_FN std::uint32_t load_poll_low(const std::uint64_t* p) {
#if defined(__CUDA_ARCH__)
  return load_poll(reinterpret_cast<const std::uint32_t*>(p));
#else
  return static_cast<std::uint32_t>(load_poll(p));
#endif
}
/// The published entries of a queue, and how many are known to be complete: low bits, since they
/// differ by far less than 2^28.
struct Progress {
  std::uint32_t published, done;
  Progress() = default;
  GSHMEM_FN explicit Progress(const QueueCursor& cursor)
      : published(load_poll_low(&cursor.ready)), done(load_poll_low(&cursor.done)) {}
  GSHMEM_FN bool is_complete() const {
    const auto target = static_cast<std::uint32_t>(PublishedWord::target(published));
    return static_cast<std::int32_t>((done - target) << PublishedWord::kBits) >= 0;
  }
};
/// Returns the first queue with entries that are not known to be complete; `end` if there is none.
/// It searches those of the thread's share of [at, end) that are set in the bitmap. Nothing is
/// acquired yet. Each load takes 300 clocks, so a single thread loads the progress of four queues
/// at once.
template <class Coop>
GSHMEM_INLINE std::uint32_t find_pending(Coop coop, const std::uint32_t* bitmap,
                                         const QueueCursor* cursors, std::uint32_t at,
                                         std::uint32_t end) {
  constexpr bool kByItself = std::is_base_of_v<Thread, Coop>;
  constexpr int kAtOnce = kByItself ? 4 : 1;
  GSHMEM_NO_UNROLL
  for (; at < end; at = (at | 31) + 1) {
    const std::uint32_t base = at & ~31u;
    std::uint32_t used = load_relaxed(&bitmap[at / 32]) >> at % 32 << at % 32;
    GSHMEM_NO_UNROLL
    while (used != 0) {
      std::uint32_t queue = base + lowest_bit_number(used), pending = end, queues[kAtOnce];
      Progress progress[kAtOnce];
      if (!kByItself && !is_share(coop, queue)) {
        used &= used - 1;
        continue;
      }
      GSHMEM_UNROLL
      for (int i = 0; i < kAtOnce; ++i) {
        queue = used != 0 ? base + lowest_bit_number(used) : queue;
        used &= used - 1;  // 0 stays 0
        queues[i] = queue;
        progress[i] = Progress(cursors[queue]);
      }
      // The loop has no branches: after a branch, the loads would be issued one by one.
      GSHMEM_UNROLL
      for (int i = kAtOnce; i-- > 0;) {
        pending = progress[i].is_complete() ? pending : queues[i];
      }
      if (pending < end) return pending;
    }
  }
  return end;
}

/// Waits until everything that was published to the queues [at, end) before the call is complete,
/// or `wait.end` says why not. The threads of a group divide the queues between them; only queues
/// that were ever used are checked.
template <class Coop>
GSHMEM_OUTLINE void await_published(Coop coop, Wait& wait, std::uint32_t at, std::uint32_t end) {
  const abi::NicView& nic = wait.state->nic;
  GSHMEM_NO_UNROLL
  for (; (at = find_pending(coop, nic.used, nic.cursors, at, end)) < end; ++at) {
    wait.queue = Queue(nic.queues + at);
    if (!queue_await_all(wait, load_relaxed(&nic.cursors[at].ready))) return;
  }
  fence_acquire_system();  // another thread may have seen completions: cached data is dropped
}

/// The fence that a quiet makes for the caller's stores to mapped PEs.
enum class Stores { kAny, kOrdered, kComplete };
/// Whether a wait that ends early is reported by the fault policy (post_report), or only by the
/// status of the call (post_note).
enum class QuietEnd { kReport, kNote };

/// Returns how many queues, from the first one on, have no pending entries. It calls no function,
/// and so it uses no stack: after a fence, the first access to a stack takes 300 clocks more.
template <class Coop>
GSHMEM_OUTLINE std::uint32_t quiet_queues(Coop coop, const State& state) {
  const abi::NicView& nic = state.nic;
  if (nic.flags & abi::kNicFlush) return 0;
  return find_pending(coop, nic.used, nic.cursors, 0, nic.count);
}
/// Waits for the queues from number `at` on.
template <class Coop>
GSHMEM_OUTLINE bool quiet_late(Coop coop, const State& state, const char* call, std::uint32_t at,
                               QuietEnd how) {
  Wait wait;
  begin_wait(wait, &state, nullptr, call);
  if (state.nic.flags & abi::kNicFlush) flush_rails(coop, wait, 0, state.nic.count);
  if (wait.good()) await_published(coop, wait, at, state.nic.count);
  return how == QuietEnd::kNote ? post_note(wait) : post_report(wait);
}
/// Waits until everything that the PE has posted is complete, and fences. Returns false if it had
/// to end early. The group need not synchronize.
///
/// The progress of the queues is read before the fence. A system fence takes 1,000 clocks, and the
/// instructions after it wait for it. If no entry is pending, the fence is the last step. Otherwise
/// the NIC works during the fence.
template <Stores kStores = Stores::kAny, class Coop>
GSHMEM_FN bool quiet(Coop coop, const State& state, const char* call,
                     QuietEnd how = QuietEnd::kReport) {
  const std::uint32_t at = quiet_queues(coop, state);
  const bool is_late = at < state.nic.count;
  if constexpr (kStores == Stores::kComplete) fence_complete_system();
  if constexpr (kStores == Stores::kOrdered) fence_release_system();
  if (is_late) return quiet_late(coop, state, call, at, how);
  // Another thread may have seen completions: cached data is dropped.
  if constexpr (kStores != Stores::kComplete) fence_acquire_system();
  return true;
}

}  // namespace gshmem::device::nic
