// The general path of the network. It is for calls that take more than one WQE, have their data
// outside of symmetric memory, or must be followed by a DUMP. execute_long executes a Request step
// by step, in local memory, by the protocol of queue.h. One thread of a group posts. Addresses in
// entries are offsets in the heap of a PE, or of registered memory after it. One key covers the
// heap, and each range of registered memory has its own key.
//
// Other local memory has no key. Data that is put from such memory is copied into the entries, so
// its source may be reused at once. Data that is fetched to such memory first arrives in a scratch
// slot of the heap.
#pragma once

#include "post.h"

namespace gshmem::device::nic {

/// A blocking put of up to this size is inline even from the heap: then it need not wait for a
/// completion, which takes a round trip to the target.
inline constexpr std::size_t kInlinePutBytes = 28;

/// Returns `value` modulo `by`, which is a power of two most of the time: then no division is
/// needed.
GSHMEM_FN std::uint32_t modulo(std::uint32_t value, std::uint32_t by) {
  const std::uint32_t mask = by - 1;
  return by & mask ? value % by : value & mask;
}

/// The NIC of the target at which a call must arrive. Words that atomics change are written through
/// the first NIC only (NicView), and `p` may write a word that atomics use. Blocking puts do not
/// wait until other inline payloads are complete. These payloads must nevertheless precede later
/// atomics of the thread.
enum class Rail : std::uint32_t { kAny, kFirst };

/// Returns the number of the queue to `pe` that the calling thread uses. A thread always gets the
/// same queue. For calls that arrive by the first rail, it is the first queue of the thread's group
/// of `rails` queues. (ShortWay has a form of this for the most frequent case.)
GSHMEM_FN std::uint32_t queue_index(const State& state, int pe, Rail rail) {
  const abi::NicView& nic = state.nic;
  std::uint32_t slot = 0;
  if (nic.per_pe > 1) {
    slot = static_cast<std::uint32_t>(nic.map);
    if (nic.map == abi::QueueMap::kBlock) slot = block_spread();
    if (nic.map == abi::QueueMap::kWarp) slot = warp_number();
    if (nic.map == abi::QueueMap::kSm) slot = sm_number();
    slot = modulo(slot, nic.per_pe);
    if (rail == Rail::kFirst && nic.rails > 1) slot -= modulo(slot, nic.rails);
  }
  return static_cast<std::uint32_t>(pe) * nic.per_pe + slot;
}

/// Prepares posting to the calling thread's queue to `pe`. Returns false if `symmetric` is not in
/// the heap, so that the keys of the queue do not cover it.
GSHMEM_FN bool post_to(Posting& posting, const State& state, int pe, Rail rail,
                       const void* symmetric) {
  const PostState held(state);
  post_by(posting, state, held, queue_index(state, pe, rail));
  return held.has_in_heap(symmetric);
}

/// Returns the offset of an address in this PE's heap. WQEs use offsets for addresses here and at
/// every PE.
GSHMEM_FN std::uint64_t heap_offset(const State& state, const void* p) {
  return static_cast<std::uint64_t>(static_cast<const char*>(p) - state.heap);
}
/// Do the keys of the queue cover the address? They do unless it is in registered memory.
GSHMEM_FN bool has_queue_keys(const State& state, const void* symmetric) {
  return !abi::QueueTraits::is_beyond(state.nic.traits, heap_offset(state, symmetric));
}
/// Is the memory in the heap, where the NIC can access it? The library's own part of the heap
/// counts, too.
GSHMEM_FN bool in_heap(const State& state, const void* p, std::size_t bytes) {
  const std::uint64_t offset = heap_offset(state, p);
  // This form needs one branch.
  return (offset < state.heap_bytes) & (bytes <= state.heap_bytes - offset);
}

/// When the source of a put may be reused.
enum class Reuse : std::uint32_t { kOnReturn, kAtQuiet };
/// When the destination of a get holds the data.
enum class Arrival : std::uint32_t { kOnReturn, kAtQuiet };

enum class Operation : std::uint32_t { kPut, kGet, kPutSignal };
/// How a transfer is executed: WRITEs with inline payload, WRITEs or READs between heaps, or READs
/// into a scratch slot.
enum class TransferKind : std::uint32_t { kInline, kWrite, kRead, kFetch };

/// A call: a transfer, an atomic, or an atomic after a transfer. It is in local memory, like the
/// Post. It describes what is still to be done.
struct Request {
  const State* state;
  Operation operation;
  int pe;
  bool blocking = false;
  TransferKind kind = TransferKind::kInline;
  std::uint32_t chunk = 0;  ///< size of the last chunk in bytes
  const char* local = nullptr;
  const char* remote = nullptr;
  std::size_t bytes = 0;   ///< 0: no transfer is left
  void* target = nullptr;  ///< target of the atomic; null: none is left
  Amo amo{};
  abi::ScratchSlot* slot = nullptr;  ///< receives fetched data, if needed
  bool reachable = false;            ///< the NIC can access `local` directly
  bool beyond = false;               ///< an address may be in registered memory
  const Be32* keys = nullptr;        ///< keys of `local`, if it is registered local memory
  static constexpr std::uint32_t kByThread = ~0u;
  std::uint32_t queue = kByThread;  ///< index of the queue; kByThread: that of the calling thread

  GSHMEM_FN bool empty() const { return bytes == 0 && !target; }
  GSHMEM_FN std::uint32_t next_chunk() const {
    std::uint32_t most = state->nic.max_message;
    if (kind == TransferKind::kInline)
      most = is_dynamic(state->nic.traits) ? kAddressedInlineBytes : kInlineBytes;
    if (kind == TransferKind::kFetch && most > sizeof(slot->data)) most = sizeof(slot->data);
    return bytes < most ? static_cast<std::uint32_t>(bytes) : most;
  }
  /// Returns the local address that the NIC accesses.
  GSHMEM_FN const char* nic_address() const {
    return kind == TransferKind::kFetch ? reinterpret_cast<const char*>(slot->data) : local;
  }
  /// Advances to the data after the last chunk.
  GSHMEM_FN void advance() {
    local += chunk;
    remote += chunk;
    bytes -= chunk;
    chunk = 0;
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

GSHMEM_FN KeyedAddress remote_address(const Post& post, const void* symmetric) {
  return {post.offset(symmetric), post.queue.remote_key()};
}
GSHMEM_FN KeyedAddress local_address(const Post& post, const void* p) {
  return {post.offset(p), post.queue.local_key()};
}

// The steps of execute_long(). They are out of line to save registers (see Post): only the address
// of the request is live between them.

GSHMEM_FN TransferKind kind_of(const Request& request) {
  if (request.operation == Operation::kGet)
    return request.reachable ? TransferKind::kRead : TransferKind::kFetch;
  const bool small = request.blocking && request.bytes <= kInlinePutBytes;
  return request.reachable && !small ? TransferKind::kWrite : TransferKind::kInline;
}

/// Chooses the queue and how to transfer. Returns true if a scratch slot is needed.
GSHMEM_OUTLINE bool begin(Request& request, Post& post) {
  request.kind = kind_of(request);
  const auto beyond = [&](const void* p) {
    return heap_offset(*request.state, p) >= request.state->heap_bytes;
  };
  request.beyond = beyond(request.remote) || (request.reachable && beyond(request.local)) ||
                   (request.target && beyond(request.target));
  const bool first = request.target || request.kind == TransferKind::kInline;
  const Rail rail = first ? Rail::kFirst : Rail::kAny;
  const bool chosen = request.queue != Request::kByThread;
  post_by(post, *request.state,
          chosen ? request.queue : queue_index(*request.state, request.pe, rail));
  begin_wait(post, name_of(request.operation));
  return request.kind == TransferKind::kFetch;
}

/// Copies the payload of `bytes` bytes at `source`, of any alignment, into the image.
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
/// Copies the fetched chunk from the scratch slot to its destination, which may have any alignment.
/// It uses the widest words that both alignments allow.
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

/// Claims a scratch slot of the heap for the calling thread. Returns null when the PE is stopped or
/// no slot became free in time; then `wait` has the reason. The search begins at a slot that
/// differs between threads.
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
/// Frees a slot whose contents have been read. The store is a release: the next owner's READ comes
/// after it. It is out of line, since otherwise the operands of its store would occupy two
/// registers all through execute_long().
GSHMEM_OUTLINE void free_scratch(abi::ScratchSlot* slot) { store_release(&slot->busy, 0u); }

/// Builds the images of the next chunk of a transfer: inline, or between heaps.
GSHMEM_OUTLINE void make_inline(Request& request, Post& post) {
  request.chunk = request.next_chunk();
  std::uint32_t* payload =
      image_inline(post.entries, remote_address(post, request.remote), request.chunk);
  load_payload(payload, request.local, request.chunk);
}
GSHMEM_OUTLINE void make_between_heaps(Request& request, Post& post) {
  request.chunk = request.next_chunk();
  image_transfer(post.entries,
                 request.kind == TransferKind::kWrite ? Opcode::kRdmaWrite : Opcode::kRdmaRead,
                 remote_address(post, request.remote), local_address(post, request.nic_address()),
                 request.chunk);
}
/// Appends a DUMP if data of READs may arrive after their completion. The DUMP reads the last
/// bytes, waits for the READ, and carries the completion: it ends when the NIC has read what it had
/// written. It is also needed if completions are in GPU memory and `local` is not in symmetric
/// memory: their data may take different paths.
GSHMEM_OUTLINE void make_dump(const Request& request, Post& post) {
  const bool apart = request.keys && (post.traits() & abi::QueueTraits::kGpuMemory) != 0;
  if (!apart && !(post.state->nic.flags & abi::kNicReadNeedsDump)) return;
  const std::uint32_t bytes = request.chunk < 4 ? request.chunk : 4;
  image_dump(post.entries, 4, local_address(post, request.nic_address() + request.chunk - bytes),
             bytes);
}

/// Builds the image of the atomic, after a transfer of one entry if there is one. (A single step
/// would take more registers than these two.)
GSHMEM_OUTLINE void make_operands(const Request& request, Post& post) {
  post.entries.second = request.chunk == 0 ? 0 : 4;
  image_amo_operands(post.entries, post.entries.second, request.amo);
}
GSHMEM_OUTLINE void make_amo_addresses(Request& request, Post& post) {
  image_amo_addresses(post.entries, post.entries.second, request.amo.width,
                      {post.offset(request.target), post.queue.atomic_key()},
                      {kSink, post.queue.local_key()});
  request.target = nullptr;
}

/// Builds the image of the WQEs to be posted next. Returns false when there are none. If the last
/// chunk is one entry, the atomic follows it in the same reservation. Otherwise it is posted on its
/// own, by the same thread on the same queue. On one queue an atomic is never visible before the
/// writes before it (InfiniBand, section 9.5; contract of transport/nic/nic.h).
GSHMEM_OUTLINE bool next_image(Request& request, Post& post) {
  request.advance();
  if (request.empty() || !post.good()) return false;
  if (request.bytes > 0) {
    if (request.kind == TransferKind::kInline) {
      make_inline(request, post);
    } else {
      make_between_heaps(request, post);
      if (request.kind != TransferKind::kWrite) make_dump(request, post);
    }
  }
  const bool behind = request.kind == TransferKind::kWrite && request.chunk == request.bytes;
  if (request.target && (behind || request.bytes == 0)) {
    make_operands(request, post);
    make_amo_addresses(request, post);
  }
  return true;
}

/// The unit of the image that contains the address, in the order in which execute_long uses them.
enum class KeyedPart : std::uint32_t { kRemote, kLocal, kSecond };
/// Stores the key of an address in registered memory into the image.
GSHMEM_OUTLINE void use_registered_key(const Request& request, Post& post, KeyedPart part) {
  const bool carries = request.chunk != 0;
  std::uint32_t at = 1;
  KeyUse use = carries ? KeyUse::kPayload : KeyUse::kAtomic;
  if (part == KeyedPart::kLocal) {
    if (!carries || request.kind == TransferKind::kInline) return;
    at = 2;
    use = KeyUse::kLocal;
  } else if (part == KeyedPart::kSecond) {  // an atomic, or a DUMP
    if (post.entries.second == 0) return;
    at = 5;
    use = request.operation == Operation::kGet ? KeyUse::kLocal : KeyUse::kAtomic;
  }
  if (use == KeyUse::kLocal && request.keys) {
    post.entries.unit[at].y = request.keys[post.queue.nic()].raw;
    return;
  }
  put_registered_key(post.entries.unit[at], *request.state, post.queue, use);
}

/// Can the NIC access the local memory of the call? Stores the keys in `keys` if it is registered
/// local memory.
GSHMEM_OUTLINE bool find_local(Request& request) {
  const State& state = *request.state;
  if (in_heap(state, request.local, request.bytes) ||
      is_registered(state, heap_offset(state, request.local), request.bytes))
    return true;
  request.keys = local_range(state, request.local, request.bytes).keys;
  return request.keys != nullptr;
}

/// Copies the fetched data from the scratch slot to its destination.
GSHMEM_OUTLINE void take_result(const Request& request) {
  copy_fetched(const_cast<char*>(request.local), request.slot, request.chunk);
}

/// Executes the call step by step, on one thread. A scratch slot is not freed after a failure: a
/// late READ may still write to it.
GSHMEM_OUTLINE void execute_long(Request& request) {
  if (request.empty()) return;
  request.reachable = find_local(request);
  if (request.keys && request.operation != Operation::kGet) source_fence(request.state->nic.traits);
  Post post;
  if (begin(request, post)) request.slot = claim_scratch(post);
  GSHMEM_NO_UNROLL
  while (next_image(request, post)) {
    if (request.beyond) {
      use_registered_key(request, post, KeyedPart::kRemote);
      use_registered_key(request, post, KeyedPart::kLocal);
      use_registered_key(request, post, KeyedPart::kSecond);
    }
    prepare(post);
    post_by_steps<Sharing::kWarp>(post);
    if (request.slot && post.good() && queue_await(post)) take_result(request);
  }
  if (post.good()) {
    if (request.slot) {
      free_scratch(request.slot);
    } else if (request.blocking && request.kind != TransferKind::kInline) {
      queue_await(post);
    }
  }
  post_report(post);
}

}  // namespace gshmem::device::nic
