// The network path: puts, gets and atomics as work queue entries of a reliable connection to the
// target. One thread of a group posts; addresses are offsets into the heaps, which one key covers.
// What is one WQE and has its data in the heap takes the short way (issue.h). Everything else is a
// Request that execute() works off, step by step, in local memory. Both are out of line: a kernel
// that only might use the network keeps its registers. What the short way needs of the state is
// fetched by the caller, where it comes from constant memory.
//
// Local memory outside of the heap has no key. What is put from there travels inside the entries,
// and may be reused at once; what is fetched to there goes through a scratch slot of the heap.
#pragma once

#include "copy.h"
#include "issue.h"
#include "p2p.h"

namespace gshmem::device::nic {

/// A blocking put up to here goes inline even from the heap: it need not wait for the target.
inline constexpr std::size_t kInlinePutBytes = 28;

/// Which of the queues to `pe` the calling thread uses: always the same one.
GSHMEM_FN std::uint32_t queue_index(const State& state, int pe) {
  const abi::NicView& nic = state.nic;
  std::uint32_t slot = 0;
  if (nic.per_pe > 1) {
    if (nic.map == abi::QueueMap::kBlock) slot = block_number();
    if (nic.map == abi::QueueMap::kWarp) slot = warp_number();
    if (nic.map == abi::QueueMap::kSm) slot = sm_number();
    const std::uint32_t mask = nic.per_pe - 1;
    slot = nic.per_pe & mask ? slot % nic.per_pe : slot & mask;
  }
  return static_cast<std::uint32_t>(pe) * nic.per_pe + slot;
}
GSHMEM_FN Queue queue_to(const State& state, int pe) {
  return Queue(state.nic.queues + queue_index(state, pe));
}

/// Offset of an address in this PE's heap: what WQEs call it, here and at every PE.
GSHMEM_FN std::uint64_t heap_offset(const State& state, const void* p) {
  return static_cast<std::uint64_t>(static_cast<const char*>(p) - state.heap);
}
/// The NIC can read and write it: any part of the heap, that of the library included.
GSHMEM_FN bool in_heap(const State& state, const void* p, std::size_t bytes) {
  const std::uint64_t offset = heap_offset(state, p);
  return (offset < state.heap_bytes) & (bytes <= state.heap_bytes - offset);  // one branch
}

/// When the source of a put may be reused.
enum class Reuse : std::uint32_t { kOnReturn, kAtQuiet };
/// When the destination of a get holds the data.
enum class Arrival : std::uint32_t { kOnReturn, kAtQuiet };

enum class Operation : std::uint32_t { kPut, kGet, kAtomic, kPutSignal };
/// How a transfer goes: WRITEs that carry the payload, WRITEs or READs between heaps, or READs into
/// a scratch slot.
enum class Way : std::uint32_t { kInline, kWrite, kRead, kFetch };

/// A call: a transfer, an atomic, or an atomic behind a transfer. As the Post, it lies in local
/// memory, and what is left to do is noted in it.
struct Request {
  const State* state;
  Operation operation;
  int pe;
  bool blocking = false;
  bool fetching = false;  ///< the atomic's old value is wanted
  Way way = Way::kInline;
  std::uint32_t piece = 0;  ///< bytes of the WQE that was made last
  const char* local = nullptr;
  const char* remote = nullptr;
  std::size_t bytes = 0;   ///< 0: no transfer
  void* target = nullptr;  ///< of the atomic; null: there is none
  Amo amo{};
  std::uint64_t old = 0;
  abi::ScratchSlot* slot = nullptr;  ///< where what is read arrives, if it needs one

  GSHMEM_FN bool empty() const { return bytes == 0 && !target; }
  GSHMEM_FN std::uint32_t next_piece() const {
    std::uint32_t most = way == Way::kInline ? kInlineBytes : state->nic.max_message;
    if (way == Way::kFetch && most > sizeof(slot->data)) most = sizeof(slot->data);
    return bytes < most ? static_cast<std::uint32_t>(bytes) : most;
  }
  /// Where the NIC reads or writes on this side.
  GSHMEM_FN const char* place() const {
    return way == Way::kFetch ? reinterpret_cast<const char*>(slot->data) : local;
  }
  /// To what is behind the last piece.
  GSHMEM_FN void advance() {
    local += piece;
    remote += piece;
    bytes -= piece;
    piece = 0;
  }
};

GSHMEM_FN const char* name_of(Operation operation) {
  switch (operation) {
    case Operation::kPut:
      return "put";
    case Operation::kGet:
      return "get";
    case Operation::kAtomic:
      return "atomic";
    case Operation::kPutSignal:
      break;
  }
  return "put_signal";
}

GSHMEM_FN KeyedAddress remote_place(const Post& post, const void* symmetric) {
  return {heap_offset(*post.state, symmetric), post.queue.remote_key()};
}
GSHMEM_FN KeyedAddress local_place(const Post& post, const void* p) {
  return {heap_offset(*post.state, p), post.queue.local_key()};
}
/// Where results go that nobody wants.
GSHMEM_FN KeyedAddress sink(const Post& post) {
  return {offsetof(abi::InternalArea, sink), post.queue.local_key()};
}

// The steps of execute(), out of line for the sake of registers (see Post): it must keep nothing
// but the request's address.

GSHMEM_FN Way way_of(const Request& request) {
  const bool reachable = in_heap(*request.state, request.local, request.bytes);
  if (request.operation == Operation::kGet) return reachable ? Way::kRead : Way::kFetch;
  const bool small = request.blocking && request.bytes <= kInlinePutBytes;
  return reachable && !small ? Way::kWrite : Way::kInline;
}

/// Chooses queue and way. True: a scratch slot is needed.
GSHMEM_OUTLINE bool begin(Request& request, Post& post) {
  post.state = request.state;
  post.queue = queue_to(*request.state, request.pe);
  post.call = name_of(request.operation);
  request.way = way_of(request);
  return request.way == Way::kFetch || request.fetching;
}

/// The payload of `bytes` bytes at `source`, of any alignment, into the image.
GSHMEM_FN void load_payload(std::uint32_t* to, const char* source, std::uint32_t bytes) {
  std::uint32_t at = 0;
  if (reinterpret_cast<std::uintptr_t>(source) % 4 == 0) {
    GSHMEM_NO_UNROLL
    for (; at + 4 <= bytes; at += 4) {
      to[at / 4] = load_bulk(reinterpret_cast<const std::uint32_t*>(source + at));
    }
  }
  std::uint32_t word = 0;
  GSHMEM_NO_UNROLL
  for (; at < bytes; ++at) {
    word |=
        static_cast<std::uint32_t>(load_bulk(reinterpret_cast<const std::uint8_t*>(source) + at))
        << 8 * (at % 4);
    if (at % 4 == 3 || at + 1 == bytes) {
      to[at / 4] = word;
      word = 0;
    }
  }
}

template <class W>
GSHMEM_FN void take_word(char* to, const char* from) {
  store_bulk(reinterpret_cast<W*>(to), load_relaxed(reinterpret_cast<const W*>(from)));
}
/// The part of a get that lies in the scratch slot, to its destination of any alignment.
GSHMEM_FN void copy_fetched(char* to, const abi::ScratchSlot* slot, std::uint32_t bytes) {
  const char* from = reinterpret_cast<const char*>(slot->data);
  GSHMEM_NO_UNROLL
  while (bytes > 0) {
    const std::uintptr_t at = reinterpret_cast<std::uintptr_t>(to);
    std::uint32_t step = 1;
    if (at % 8 == 0 && bytes >= 8) {
      take_word<std::uint64_t>(to, from);
      step = 8;
    } else if (at % 4 == 0 && bytes >= 4) {
      take_word<std::uint32_t>(to, from);
      step = 4;
    } else {
      take_word<std::uint8_t>(to, from);
    }
    to += step;
    from += step;
    bytes -= step;
  }
}

/// A scratch slot of the heap for the calling thread; without one when the PE is stopped or none
/// got free in time. Slots are searched from a place that differs between threads.
GSHMEM_OUTLINE void claim_scratch(Request& request, Post& post) {
  constexpr std::uint32_t kMask = abi::kScratchSlots - 1;
  static_assert((abi::kScratchSlots & kMask) == 0);
  post.await = Await::kScratch;
  unsigned polls = 1;
  GSHMEM_NO_UNROLL
  do {
    const std::uint32_t at = block_number() * 37 + thread_number() + polls;
    abi::ScratchSlot* slots = reinterpret_cast<abi::InternalArea*>(post.state->heap)->scratch;
    abi::ScratchSlot* mine = &slots[at & kMask];
    if (load_relaxed(&mine->busy) == 0 && atomic_compare_swap(&mine->busy, 0u, 1u) == 0u) {
      request.slot = mine;
      return;
    }
  } while (post_may_wait(post, polls++));
}
/// Its contents have been read (release: the next owner's READ comes after). Out of line, or what
/// its store needs would live in two registers all through execute().
GSHMEM_OUTLINE void free_scratch(abi::ScratchSlot* slot) { store_release(&slot->busy, 0u); }

/// The images of the next piece of a transfer: carried by the entry, or between heaps.
GSHMEM_OUTLINE void make_inline(Request& request, Post& post) {
  request.piece = request.next_piece();
  std::uint32_t* payload =
      image_inline(post.image, remote_place(post, request.remote), request.piece);
  load_payload(payload, request.local, request.piece);
}
GSHMEM_OUTLINE void make_transfer(Request& request, Post& post) {
  request.piece = request.next_piece();
  image_transfer(post.image, request.way == Way::kWrite ? Opcode::kRdmaWrite : Opcode::kRdmaRead,
                 remote_place(post, request.remote), local_place(post, request.place()),
                 request.piece);
}
/// Where data of READs may trail its completion, a DUMP of the last bytes that waits for the READ
/// carries the completion: it ends when the NIC has read what it had written.
GSHMEM_OUTLINE void make_dump(const Request& request, Post& post) {
  if (!(post.state->nic.flags & abi::kNicReadNeedsDump)) return;
  const std::uint32_t bytes = request.piece < 4 ? request.piece : 4;
  image_append_dump(post.image, local_place(post, request.place() + request.piece - bytes), bytes);
}

/// The image of the atomic, behind a transfer of one entry if there is one. (In two steps: one
/// would have 38 registers, where these have 35.)
GSHMEM_OUTLINE void make_operands(const Request& request, Post& post) {
  post.image.second = request.piece == 0 ? 0 : 4;
  image_amo_operands(post.image, post.image.second, request.amo);
}
GSHMEM_OUTLINE void make_places(Request& request, Post& post) {
  image_amo_places(post.image, post.image.second, request.amo.width,
                   remote_place(post, request.target),
                   request.fetching ? local_place(post, request.slot->data) : sink(post));
  request.target = nullptr;
}

/// The image of what is to be posted next; false when that is nothing. The atomic goes behind the
/// last piece in one reservation where the piece is one entry, else on its own: by the same thread
/// on the same queue, where it is never visible before the writes in front of it (InfiniBand,
/// section 9.5; contract of transport/nic/nic.h).
GSHMEM_OUTLINE bool next_image(Request& request, Post& post) {
  request.advance();
  if (request.empty() || !post.good()) return false;
  if (request.bytes > 0) {
    if (request.way == Way::kInline) {
      make_inline(request, post);
    } else {
      make_transfer(request, post);
      if (request.way != Way::kWrite) make_dump(request, post);
    }
  }
  const bool behind = request.way == Way::kWrite && request.piece == request.bytes;
  if (request.target && (behind || request.bytes == 0)) {
    make_operands(request, post);
    make_places(request, post);
  }
  return true;
}

/// What has arrived in the scratch slot, to where it is wanted.
GSHMEM_OUTLINE void take_result(Request& request, Post& post) {
  const std::uint64_t* data = request.slot->data;
  if (request.fetching) {
    const std::uint32_t width = request.amo.width;
    const std::uint64_t stored = width == 8
                                     ? load_relaxed(data)
                                     : load_relaxed(reinterpret_cast<const std::uint32_t*>(data));
    request.old = fetched_value(stored, width, post.state->nic.flags);
  } else {
    copy_fetched(const_cast<char*>(request.local), request.slot, request.piece);
  }
}

/// One WQE between heaps does.
GSHMEM_FN bool is_short(const State& state, const void* local, std::size_t bytes) {
  return (bytes - 1 < state.nic.max_message) & in_heap(state, local, bytes);
}
GSHMEM_FN TransferEntry transfer_of(const State& state, Opcode opcode, const void* remote,
                                    const void* local, std::size_t bytes) {
  return {heap_offset(state, remote), heap_offset(state, local), static_cast<std::uint32_t>(bytes),
          opcode};
}

/// Makes the call step by step, by one thread. A scratch slot stays taken after a failure: a late
/// READ may still write there.
GSHMEM_OUTLINE void execute_long(Request& request) {
  if (request.empty()) return;
  Post post;
  if (begin(request, post)) claim_scratch(request, post);
  GSHMEM_NO_UNROLL
  while (next_image(request, post)) {
    queue_try_post(post);
    if (request.slot && post.good() && queue_await(post)) take_result(request, post);
  }
  if (post.good()) {
    if (request.slot) {
      free_scratch(request.slot);
    } else if (request.blocking && request.way != Way::kInline) {
      queue_await(post);
    }
  }
  post_report(post);
}
// The API of the network path. What a group puts or gets, its first thread does; out of line,
// because the request would be made of registers of the caller (STREAM_putmem_block 48 for 40).

template <class Coop>
GSHMEM_OUTLINE void put(Coop coop, const State& state, void* dest, const void* source,
                        std::size_t bytes, int pe, Reuse reuse) {
  if (coop.thread_rank() != 0) return;
  const bool blocking = reuse == Reuse::kOnReturn;
  if (is_short(state, source, bytes) && (!blocking || bytes > kInlinePutBytes)) {
    IssueOf<TransferEntry> issue;
    issue_to(issue, state, queue_index(state, pe));
    issue.entries = transfer_of(state, Opcode::kRdmaWrite, dest, source, bytes);
    issue_call(issue, state, blocking, "put");
    return;
  }
  Request request{&state, Operation::kPut, pe};
  request.blocking = blocking;
  request.local = static_cast<const char*>(source);
  request.remote = static_cast<const char*>(dest);
  request.bytes = bytes;
  execute_long(request);
}
template <class Coop>
GSHMEM_OUTLINE void get(Coop coop, const State& state, void* dest, const void* source,
                        std::size_t bytes, int pe, Arrival arrival) {
  if (coop.thread_rank() != 0) return;
  const bool blocking = arrival == Arrival::kOnReturn;
  if (is_short(state, dest, bytes) && !(state.nic.flags & abi::kNicReadNeedsDump)) {
    IssueOf<TransferEntry> issue;
    issue_to(issue, state, queue_index(state, pe));
    issue.entries = transfer_of(state, Opcode::kRdmaRead, source, dest, bytes);
    issue_call(issue, state, blocking, "get");
    return;
  }
  Request request{&state, Operation::kGet, pe};
  request.blocking = blocking;
  request.local = static_cast<const char*>(dest);
  request.remote = static_cast<const char*>(source);
  request.bytes = bytes;
  execute_long(request);
}

/// The low `bytes` bytes, at most 8, of `raw` travel inside the entry.
GSHMEM_FN void put_word(const State& state, void* dest, std::uint64_t raw, std::uint32_t bytes,
                        int pe) {
  IssueOf<InlineEntry> issue;
  issue_to(issue, state, queue_index(state, pe));
  issue.entries = {heap_offset(state, dest),
                   {{static_cast<std::uint32_t>(raw), static_cast<std::uint32_t>(raw >> 32), 0}},
                   bytes};
  issue_call(issue, state, false, "p");
}
/// One element of 1 to 16 bytes.
template <class T>
GSHMEM_OUTLINE void p(const State& state, T* dest, T value, int pe) {
  if constexpr (sizeof(T) > sizeof(std::uint64_t)) {
    Request request{&state, Operation::kPut, pe};
    request.local = reinterpret_cast<const char*>(&value);
    request.remote = reinterpret_cast<const char*>(dest);
    request.bytes = sizeof(T);
    execute_long(request);
  } else {
    std::uint64_t raw = 0;
    std::memcpy(&raw, &value, sizeof(T));
    put_word(state, dest, raw, sizeof(T), pe);
  }
}
/// Zero when the read failed.
template <class T>
GSHMEM_OUTLINE T g(const State& state, const T* source, int pe) {
  T value{};
  Request request{&state, Operation::kGet, pe};
  request.blocking = true;
  request.local = reinterpret_cast<const char*>(&value);
  request.remote = reinterpret_cast<const char*>(source);
  request.bytes = sizeof(T);
  execute_long(request);
  return value;
}

/// Nobody waits for the old value.
GSHMEM_OUTLINE void amo(const State& state, void* target, Amo operation, int pe) {
  IssueOf<AtomicEntries> issue;
  issue_to(issue, state, queue_index(state, pe));
  make_atomic(issue.entries, Queue(issue.queue), heap_offset(state, target), operation);
  issue_call(issue, state, false, "atomic");
}
/// Returns the old value; 0 when it could not be had.
GSHMEM_OUTLINE std::uint64_t amo_fetching(const State& state, void* target, Amo operation, int pe) {
  Request request{&state, Operation::kAtomic, pe};
  request.target = target;
  request.amo = operation;
  request.fetching = true;
  execute_long(request);
  return request.old;
}

/// What is done to a signal word of 8 bytes. (An Amo would be three registers more.)
struct SignalAmo {
  void* word;
  std::uint64_t value;
  AmoOp op;
};
GSHMEM_FN void put_signal_alone(const State& state, void* dest, const void* source,
                                std::size_t bytes, SignalAmo signal, int pe, Reuse reuse) {
  const bool blocking = reuse == Reuse::kOnReturn;
  const Amo amo{signal.op, sizeof(signal.value), signal.value, 0};
  if (is_short(state, source, bytes) && (!blocking || bytes > kInlinePutBytes)) {
    IssueOf<AtomicEntries> issue;
    issue_to(issue, state, queue_index(state, pe));
    const Queue queue(issue.queue);
    make_transfer(issue.entries, queue,
                  transfer_of(state, Opcode::kRdmaWrite, dest, source, bytes));
    make_atomic(issue.entries, queue, heap_offset(state, signal.word), amo);
    issue_call(issue, state, blocking, "put_signal");
    return;
  }
  Request request{&state, Operation::kPutSignal, pe};
  request.blocking = blocking;
  request.local = static_cast<const char*>(source);
  request.remote = static_cast<const char*>(dest);
  request.bytes = bytes;
  request.target = signal.word;
  request.amo = amo;
  execute_long(request);
}
/// A payload and the signal behind it, by one thread. With kOnReturn the group meets at the end.
template <class Coop>
GSHMEM_OUTLINE void put_signal(Coop coop, const State& state, void* dest, const void* source,
                               std::size_t bytes, SignalAmo signal, int pe, Reuse reuse) {
  if (coop.thread_rank() == 0) {
    put_signal_alone(state, dest, source, bytes, signal, pe, reuse);
  }
  if (reuse == Reuse::kOnReturn) coop.sync();
}

/// Waits until everything that the PE has posted is complete, or `post.end` says why not. Threads
/// of the group share the queues; only those that were ever used are looked at. The group need not
/// meet.
template <class Coop>
GSHMEM_FN void try_quiet(Coop coop, Wait& wait, const State& state, const char* call) {
  wait.state = &state;
  wait.call = call;
  int nth = 0;
  GSHMEM_NO_UNROLL
  for (std::uint32_t at = 0; at < state.nic.count; ++at) {
    const std::uint32_t used = load_relaxed(&state.nic.used[at / 32]) >> at % 32;
    if (used == 0) {
      at |= 31;  // none until the next word
      continue;
    }
    at += bit_number(used & (0u - used));
    if (nth++ % coop.size() != coop.thread_rank()) continue;
    wait.queue = Queue(state.nic.queues + at);
    if (!queue_try_quiet(wait)) break;
  }
}
/// False: it had to end without.
template <class Coop>
GSHMEM_OUTLINE bool quiet(Coop coop, const State& state, const char* call) {
  Wait wait;
  try_quiet(coop, wait, state, call);
  return post_report(wait);
}
/// The same for a caller that returns a status.
template <class Coop>
GSHMEM_OUTLINE bool quiet_noted(Coop coop, const State& state, const char* call) {
  Wait wait;
  try_quiet(coop, wait, state, call);
  return post_note(wait);
}

}  // namespace gshmem::device::nic
