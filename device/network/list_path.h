// The network path of lists of pieces: WRITEs or READs of many pieces with one doorbell. A batch is
// a reservation of one entry for each piece. Pieces that one entry between heaps, or registered
// local memory and a heap, cannot move take the general path (network_path.h). Included by
// device/ops/pieces.h. Invariant: all entries of a list with a signal are in one queue, and the
// signal after them.
#pragma once

#include <gshmem/types.h>

#include "network_path.h"

namespace gshmem::device {

using Piece = gshmemx_piece_t;

/// A call for a list. It is in local memory, in order to save registers.
struct ListCall {
  const State* state;
  const char* name;
  const Piece* list;
  std::size_t count;
  int pe;
  bool is_put;
  bool blocking;    ///< on return the sources may be reused, or the data has arrived
  bool has_signal;  ///< the update is in the last three members
  AmoOp op;
  std::uint64_t* word;
  std::uint64_t value;
};

namespace nic {

/// The maximum number of entries in a batch of one thread, and of each thread of a warp whose
/// threads make the same call.
inline constexpr std::uint32_t kMostInBatch = 64, kMostInSharedBatch = 16;

/// The pieces of a batch: the entries of a Posting (post.h), which write_batch() writes. The local
/// addresses of all pieces are in the heap, or in one range of registered local memory.
struct PieceBatch {
  const Piece* list;
  std::uint32_t count;
  const Be32* keys;  ///< the keys of that range; null: the pieces are in the heap
  GSHMEM_FN std::uint32_t entries() const { return count; }
  GSHMEM_FN std::uint32_t last() const { return count - 1; }
};

/// The pieces [at, end) of a call, which one thread posts to queue `index`.
struct ListWork {
  const ListCall* call;
  std::size_t at, end;
  std::uint32_t index;
  std::uint32_t most;     ///< the maximum number of pieces in a batch
  bool strayed;           ///< a piece has taken the general path, perhaps by another queue
  const Be32* keys;       ///< the keys for the next batch, as in PieceBatch
  abi::LocalRange range;  ///< the last range that was found
};

GSHMEM_FN const void* remote_of(const ListCall& call, const Piece& piece) {
  return call.is_put ? piece.dest : piece.source;
}
GSHMEM_FN const void* local_of(const ListCall& call, const Piece& piece) {
  return call.is_put ? piece.source : piece.dest;
}

/// Can one entry move the piece, if its local address has a key?
GSHMEM_FN bool is_entry(const ListCall& call, const Piece& piece) {
  const State& state = *call.state;
  return takes_keys(state) && piece.bytes - 1 < state.nic.max_message &&
         heap_offset(state, remote_of(call, piece)) < state.heap_bytes &&
         (call.is_put || !(state.nic.flags & abi::kNicReadNeedsDump));
}
/// Is the local address of the piece in the memory of the next batch?
GSHMEM_FN bool is_in_batch(const ListWork& work, const Piece& piece) {
  const ListCall& call = *work.call;
  const void* const local = local_of(call, piece);
  if (!work.keys) return in_heap(*call.state, local, piece.bytes);
  const std::uint64_t at = reinterpret_cast<std::uint64_t>(local) - work.range.begin,
                      size = work.range.end - work.range.begin;
  return (at < size) & (piece.bytes <= size - at);
}
/// Finds the memory of the next batch: that of its first piece. The table of ranges is in host
/// memory, so it is not read again for pieces in the range that was found last.
GSHMEM_OUTLINE void find_memory(ListWork& work) {
  const ListCall& call = *work.call;
  const Piece& piece = call.list[work.at];
  work.keys = nullptr;
  if (is_in_batch(work, piece)) return;
  work.keys = work.range.keys;
  if (!work.keys || !is_in_batch(work, piece))
    work.range = local_range(*call.state, local_of(call, piece), piece.bytes);
  work.keys = work.range.keys;
  // A READ into that range may need a DUMP (transfer.h, make_dump), which a batch does not have.
  if (!call.is_put && (call.state->nic.traits & abi::QueueTraits::kGpuMemory)) work.keys = nullptr;
}
/// Returns how many pieces, from the next one on, form a batch.
GSHMEM_OUTLINE std::uint32_t batch_of(ListWork& work) {
  std::uint32_t count = 0;
  if (!is_entry(*work.call, work.call->list[work.at])) return count;
  find_memory(work);
  GSHMEM_NO_UNROLL
  while (count < work.most && work.at + count < work.end &&
         is_entry(*work.call, work.call->list[work.at + count]) &&
         is_in_batch(work, work.call->list[work.at + count]))
    ++count;
  return count;
}

/// Does what step_write of post.h does: every thread of the group writes an entry for each of its
/// pieces. Returns true if the first thread must wait for its turn.
GSHMEM_OUTLINE bool write_batch(const ListCall& call, PostingOf<PieceBatch>& posting) {
  if (posting.end != PostEnd::kGood) {
    if (is_exclusive(posting.traits())) store_relaxed(&posting.cursor->reserved, posting.first);
    posting.first = kQueueFailed;
  }
  posting.group.sync();
  posting.first = posting.group.from_first(posting.first);
  if (posting.first == kQueueFailed) return false;
  posting.tail = 1;
  const std::uint32_t count = posting.entries.count;
  const std::uint32_t begin = own_entry(posting.entries, posting.group, posting.first);
  const Opcode opcode = call.is_put ? Opcode::kRdmaWrite : Opcode::kRdmaRead;
  const Be32* const keys = posting.entries.keys;
  const HeldKeys held{keys ? keys[posting.queue.nic()] : posting.queue.local_key(),
                      posting.queue.remote_key()};
  GSHMEM_NO_UNROLL
  for (std::uint32_t i = 0; i < count; ++i) {
    const Piece& piece = posting.entries.list[i];
    EntryStore store(reinterpret_cast<Word16*>(posting.queue.entries()),
                     abi::QueueTraits::depth(posting.traits()) - 1, begin + i,
                     posting.queue.number(), 0, i + 1 == count ? own_flags(posting.group) : 0);
    transfer_entry(opcode, posting.offset(remote_of(call, piece)),
                   posting.offset(local_of(call, piece)), static_cast<std::uint32_t>(piece.bytes))
        .fill(store, held);
  }
  posting.group.sync();
  if (!posting.group.first()) return false;
  if (!has_register(posting.traits())) queue_fence(posting.traits());
  wait_for(posting, Await::kTurn, posting.first);
  return !is_exclusive(posting.traits());
}

/// Posts the next `count` pieces. Returns false if that failed, which is then recorded as a fault.
GSHMEM_OUTLINE bool post_batch(const ListWork& work, std::uint32_t count) {
  PostingOf<PieceBatch> posting;
  if (work.keys) source_fence(work.call->state->nic.traits);  // only a put has keys here
  posting.entries = {work.call->list + work.at, count, work.keys};
  post_by(posting, *work.call->state, work.index);
  begin_wait(posting, work.call->name);
  posting.group = !work.call->has_signal && is_shared<Sharing::kWarp>(posting.traits(), count)
                      ? group_at(posting.cursor, CoalesceGroup::kBySteps, posting.entries)
                      : Converged::self();
  step_reserve(posting);
  if (posting.group.first() && posting.queue.number() == 0) queue_connect(posting);
  if (step_room(posting)) queue_await(posting);
  if (write_batch(*work.call, posting)) queue_await(posting);
  step_publish(posting);
  return post_report(posting) && posting.good();
}

/// Moves the next piece by itself.
GSHMEM_OUTLINE void post_piece(const ListWork& work) {
  const ListCall& call = *work.call;
  const Piece& piece = call.list[work.at];
  if (piece.bytes == 0) return;
  if (call.is_put) {
    put(Thread{}, *call.state, piece.dest, piece.source, piece.bytes, call.pe, Reuse::kAtQuiet);
  } else {
    get(Thread{}, *call.state, piece.dest, piece.source, piece.bytes, call.pe, Arrival::kAtQuiet);
  }
}

/// Posts the update of a put list to the queue of its pieces. There it is never visible before them
/// (transfer.h, next_image).
GSHMEM_OUTLINE void post_update(const ListWork& work) {
  const ListCall& call = *work.call;
  PostingOf<WqeImage> posting;
  post_by(posting, *call.state, work.index);
  make_atomic(posting.entries, posting.queue, posting.offset(call.word),
              {call.op, sizeof(*call.word), call.value, 0}, kSink);
  if (heap_offset(*call.state, call.word) >= call.state->heap_bytes)
    use_registered_key(posting.entries, *call.state, posting.queue, KeyUse::kAtomic);
  post<Sharing::kNone>(posting);
}

/// Posts pieces of the calling thread, and after them the update of a put list.
GSHMEM_OUTLINE void post_pieces(ListWork& work) {
  const bool updates = work.call->is_put && work.call->has_signal;
  GSHMEM_NO_UNROLL
  while (work.at < work.end) {
    const std::uint32_t count = batch_of(work);
    if (count != 0) {
      if (!post_batch(work, count)) return;
      work.at += count;
    } else {
      work.strayed = work.strayed || work.call->list[work.at].bytes != 0;
      post_piece(work);
      ++work.at;
    }
  }
  if (!updates) return;
  if (work.strayed && !quiet(Thread{}, *work.call->state, work.call->name)) return;
  post_update(work);
}

/// Posts the pieces of a list, by all threads of a group, or by its first one if their order
/// matters or the queue belongs to one thread.
template <class Coop>
GSHMEM_OUTLINE void post_list(Coop coop, const ListCall& call) {
  const std::uint32_t traits = call.state->nic.traits;
  const bool by_one = call.has_signal || is_exclusive(traits);
  const std::size_t rank = static_cast<std::size_t>(coop.thread_rank());
  const std::size_t size = by_one ? 1 : static_cast<std::size_t>(coop.size());
  if (rank >= size) return;
  const std::uint32_t depth = abi::QueueTraits::depth(traits);
  // Half of the queue is enough for all threads of a warp that post together.
  const bool alone = by_one || (size == 1 && is_alone());
  const std::uint32_t most = alone ? kMostInBatch : kMostInSharedBatch;
  const std::uint32_t room = alone ? depth / 4 : depth / 64;
  const std::size_t share = (call.count + size - 1) / size;
  const std::size_t first = share * rank < call.count ? share * rank : call.count;
  ListWork work{&call,
                first,
                call.count - first < share ? call.count : first + share,
                queue_index(*call.state, call.pe, call.has_signal ? Rail::kFirst : Rail::kAny),
                most < room ? most : room,
                false,
                nullptr,
                {}};
  post_pieces(work);
}

}  // namespace nic
}  // namespace gshmem::device
