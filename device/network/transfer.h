// The long way of the network path: what is more than one WQE, has its data outside the heap, or
// must be followed by a DUMP. A Request is worked off step by step, in local memory (execute_long),
// by the protocol of queue.h. One thread of a group posts; addresses are offsets into the heaps, or
// beyond them into registered memory. One key covers the heap, one each of what is registered.
//
// Other local memory has no key. What is put from there travels inside the entries, and may be
// reused at once; what is fetched to there goes through a scratch slot of the heap.
#pragma once

#include "post.h"

namespace gshmem::device::nic {

/// A blocking put up to here goes inline even from the heap: it need not wait for the target.
inline constexpr std::size_t kInlinePutBytes = 28;

/// `value` modulo a number that is known to be a power of two most of the time.
GSHMEM_FN std::uint32_t modulo(std::uint32_t value, std::uint32_t by) {
  const std::uint32_t mask = by - 1;
  return by & mask ? value % by : value & mask;
}

/// By which NIC of the target a call must arrive there. Words that atomics change are changed by
/// the first one only (NicView). `p` may meet atomics at a word; and what else travels inside
/// entries is not waited for by blocking puts, but in front of atomics of the thread all the same.
enum class Rail : std::uint32_t { kAny, kFirst };

/// Which of the queues to `pe` the calling thread uses: always the same one, and for what arrives
/// by the first rail the first of the group that this one belongs to.
GSHMEM_FN std::uint32_t queue_index(const State& state, int pe, Rail rail) {
  const abi::NicView& nic = state.nic;
  std::uint32_t slot = 0;
  if (nic.per_pe > 1) {
    slot = static_cast<std::uint32_t>(nic.map);
    if (nic.map == abi::QueueMap::kBlock) slot = block_number();
    if (nic.map == abi::QueueMap::kWarp) slot = warp_number();
    if (nic.map == abi::QueueMap::kSm) slot = sm_number();
    slot = modulo(slot, nic.per_pe);
    if (rail == Rail::kFirst && nic.rails > 1) slot -= modulo(slot, nic.rails);
  }
  return static_cast<std::uint32_t>(pe) * nic.per_pe + slot;
}

/// By the calling thread's queue to `pe`. False: `symmetric` is not in the heap, and has other keys
/// than those of the queue.
GSHMEM_FN bool post_to(Posting& posting, const State& state, int pe, Rail rail,
                       const void* symmetric) {
  const PostState held(state);
  post_by(posting, state, held, queue_index(state, pe, rail));
  return held.has_in_heap(symmetric);
}

/// Offset of an address in this PE's heap: what WQEs call it, here and at every PE.
GSHMEM_FN std::uint64_t heap_offset(const State& state, const void* p) {
  return static_cast<std::uint64_t>(static_cast<const char*>(p) - state.heap);
}
/// What is not in registered memory has the keys of the queue.
GSHMEM_FN bool has_queue_keys(const State& state, const void* symmetric) {
  return !abi::QueueTraits::is_beyond(state.nic.traits, heap_offset(state, symmetric));
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

enum class Operation : std::uint32_t { kPut, kGet, kPutSignal };
/// How a transfer goes: WRITEs that carry the payload, WRITEs or READs between heaps, or READs into
/// a scratch slot.
enum class Way : std::uint32_t { kInline, kWrite, kRead, kFetch };

/// A call: a transfer, or an atomic after one. As the Post, it lies in local memory, and what is
/// left to do is noted in it.
struct Request {
  const State* state;
  Operation operation;
  int pe;
  bool blocking = false;
  Way way = Way::kInline;
  std::uint32_t piece = 0;  ///< bytes of the WQE that was made last
  const char* local = nullptr;
  const char* remote = nullptr;
  std::size_t bytes = 0;   ///< 0: no transfer
  void* target = nullptr;  ///< of the atomic; null: there is none (left)
  Amo amo{};
  abi::ScratchSlot* slot = nullptr;  ///< where what is read arrives, if it needs one
  bool reachable = false;            ///< the NIC reads and writes `local` itself
  bool beyond = false;               ///< a place may be in registered memory

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
  /// To what follows the last piece.
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
    case Operation::kPutSignal:
      break;
  }
  return "put_signal";
}

using Post = PostingOf<WqeImage>;

GSHMEM_FN KeyedAddress remote_place(const Post& post, const void* symmetric) {
  return {post.offset(symmetric), post.queue.remote_key()};
}
GSHMEM_FN KeyedAddress local_place(const Post& post, const void* p) {
  return {post.offset(p), post.queue.local_key()};
}

// The steps of execute_long(), out of line for the sake of registers (see Post): it must keep
// nothing but the request's address.

GSHMEM_FN Way way_of(const Request& request) {
  if (request.operation == Operation::kGet) return request.reachable ? Way::kRead : Way::kFetch;
  const bool small = request.blocking && request.bytes <= kInlinePutBytes;
  return request.reachable && !small ? Way::kWrite : Way::kInline;
}

/// Chooses queue and way. True: a scratch slot is needed.
GSHMEM_OUTLINE bool begin(Request& request, Post& post) {
  request.way = way_of(request);
  const auto beyond = [&](const void* p) {
    return heap_offset(*request.state, p) >= request.state->heap_bytes;
  };
  request.beyond = beyond(request.remote) || (request.reachable && beyond(request.local)) ||
                   (request.target && beyond(request.target));
  const bool first = request.target || request.way == Way::kInline;
  const Rail rail = first ? Rail::kFirst : Rail::kAny;
  post_by(post, *request.state, queue_index(*request.state, request.pe, rail));
  begin_wait(post, name_of(request.operation));
  return request.way == Way::kFetch;
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
/// The part of a get that lies in the scratch slot, to its destination of any alignment: by words
/// that both allow.
GSHMEM_FN void copy_fetched(char* to, const abi::ScratchSlot* slot, std::uint32_t bytes) {
  const char* from = reinterpret_cast<const char*>(slot->data);
  GSHMEM_NO_UNROLL
  while (bytes > 0) {
    const std::uintptr_t at =
        reinterpret_cast<std::uintptr_t>(to) | reinterpret_cast<std::uintptr_t>(from);
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

/// A scratch slot of the heap for the calling thread; none when the PE is stopped or none got free
/// in time, and then `wait` says so. Slots are searched from a place that differs between threads.
GSHMEM_OUTLINE abi::ScratchSlot* claim_scratch(Wait& wait) {
  constexpr std::uint32_t kMask = abi::kScratchSlots - 1;
  static_assert((abi::kScratchSlots & kMask) == 0);
  wait.await = Await::kScratch;
  unsigned polls = 1;
  GSHMEM_NO_UNROLL
  do {
    const std::uint32_t at = block_number() * 37 + thread_number() + polls;
    abi::ScratchSlot* slots = reinterpret_cast<abi::InternalArea*>(wait.state->heap)->scratch;
    abi::ScratchSlot* mine = &slots[at & kMask];
    if (load_relaxed(&mine->busy) == 0 && atomic_compare_swap(&mine->busy, 0u, 1u) == 0u) {
      return mine;
    }
  } while (post_may_wait(wait, polls++, 0));
  return nullptr;
}
/// Its contents have been read (release: the next owner's READ comes after). Out of line, or what
/// its store needs would live in two registers all through execute_long().
GSHMEM_OUTLINE void free_scratch(abi::ScratchSlot* slot) { store_release(&slot->busy, 0u); }

/// The images of the next piece of a transfer: carried by the entry, or between heaps.
GSHMEM_OUTLINE void make_inline(Request& request, Post& post) {
  request.piece = request.next_piece();
  std::uint32_t* payload =
      image_inline(post.entries, remote_place(post, request.remote), request.piece);
  load_payload(payload, request.local, request.piece);
}
GSHMEM_OUTLINE void make_between_heaps(Request& request, Post& post) {
  request.piece = request.next_piece();
  image_transfer(post.entries, request.way == Way::kWrite ? Opcode::kRdmaWrite : Opcode::kRdmaRead,
                 remote_place(post, request.remote), local_place(post, request.place()),
                 request.piece);
}
/// Where data of READs may trail its completion, a DUMP of the last bytes that waits for the READ
/// carries the completion: it ends when the NIC has read what it had written.
GSHMEM_OUTLINE void make_dump(const Request& request, Post& post) {
  if (!(post.state->nic.flags & abi::kNicReadNeedsDump)) return;
  const std::uint32_t bytes = request.piece < 4 ? request.piece : 4;
  image_dump(post.entries, 4, local_place(post, request.place() + request.piece - bytes), bytes);
}

/// The image of the atomic, after a transfer of one entry if there is one. (In two steps: one
/// would have more registers than both.)
GSHMEM_OUTLINE void make_operands(const Request& request, Post& post) {
  post.entries.second = request.piece == 0 ? 0 : 4;
  image_amo_operands(post.entries, post.entries.second, request.amo);
}
GSHMEM_OUTLINE void make_places(Request& request, Post& post) {
  image_amo_places(post.entries, post.entries.second, request.amo.width,
                   {post.offset(request.target), post.queue.atomic_key()},
                   {kSink, post.queue.local_key()});
  request.target = nullptr;
}

/// The image of what is to be posted next; false when that is nothing. The atomic goes after the
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
      make_between_heaps(request, post);
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

/// Which unit of the image names a place: in the order of the calls below.
enum class Place : std::uint32_t { kRemote, kLocal, kSecond };
/// The key of a place in registered memory, into the image.
GSHMEM_OUTLINE void use_registered_key(const Request& request, Post& post, Place place) {
  const bool carries = request.piece != 0;
  std::uint32_t at = 1;
  KeyUse use = carries ? KeyUse::kPayload : KeyUse::kAtomic;
  if (place == Place::kLocal) {
    if (!carries || request.way == Way::kInline) return;
    at = 2;
    use = KeyUse::kLocal;
  } else if (place == Place::kSecond) {  // an atomic, or a DUMP
    if (post.entries.second == 0) return;
    at = 5;
    use = request.operation == Operation::kGet ? KeyUse::kLocal : KeyUse::kAtomic;
  }
  put_registered_key(post.entries.unit[at], *request.state, post.queue, use);
}

/// What has arrived in the scratch slot, to where it is wanted.
GSHMEM_OUTLINE void take_result(const Request& request) {
  copy_fetched(const_cast<char*>(request.local), request.slot, request.piece);
}

/// Makes the call step by step, by one thread. A scratch slot stays taken after a failure: a late
/// READ may still write there.
GSHMEM_OUTLINE void execute_long(Request& request) {
  if (request.empty()) return;
  request.reachable =
      in_heap(*request.state, request.local, request.bytes) ||
      is_registered(*request.state, heap_offset(*request.state, request.local), request.bytes);
  Post post;
  if (begin(request, post)) request.slot = claim_scratch(post);
  GSHMEM_NO_UNROLL
  while (next_image(request, post)) {
    if (request.beyond) {
      use_registered_key(request, post, Place::kRemote);
      use_registered_key(request, post, Place::kLocal);
      use_registered_key(request, post, Place::kSecond);
    }
    post_by_steps<Sharing::kWarp>(post);
    if (request.slot && post.good() && queue_await(post)) take_result(request);
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

}  // namespace gshmem::device::nic
