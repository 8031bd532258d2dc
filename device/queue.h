// The queue protocol: reserve entries, write them, publish in turn, ring the doorbell, and find out
// what has completed. Who consumes the queue is invisible here. Included by device/nic.h; checked
// by tests/model (every interleaving of a small queue) and tests/nic.
//
// An entry is reserved, written, published, rung and done, in this order. `reserved`, `ready` and
// `done` (QueueCursor) count entries since the queue was made; `ready`, a PublishedWord, counts
// what is published.
//
//  - A writer publishes when `ready` has reached its own first entry. The turn is the lock: no
//    other is needed, and doorbells of one queue are stored in order.
//  - The doorbell is left to the next writer when one has reserved behind, unless a multiple of
//    `batch` was crossed. So fewer than `batch` published entries are ever without a doorbell, and
//    a writer that waits for room behind them (batch + one reservation <= depth, see QueueSet) gets
//    it from entries that were rung.
//  - Only the last WQE of a reservation asks for a completion; it completes in order, so it stands
//    for all before it. The CQ is collapsed: its one entry holds the newest completion.
//
// Order. (1) Entries are visible before `ready` moves past them: release fence of the writer, at
// the scope of the queue's memory, before the addition that moves it. (2) Whoever rings has
// acquired `ready`, which synchronizes with all writers before, since they only ever add to it: so
// all entries up to there are visible before the doorbell record, and the record before the
// doorbell. (3) Who has rung passes the turn on by a release: doorbells come in order. (4) A
// completion is read with acquire: data that the NIC has written before it is visible.
//
// The short way (issue.h) reads `ready` and `done` without acquiring them: an acquire drops the
// first-level cache. It stores, and loads nothing, behind them, and GPUs order that (a store whose
// branch a load decides comes after it), where PTX's model would want the acquire. Who uses an
// exclusive queue keeps `reserved` in that cache (load_own).
#pragma once

#include <gshmem/abi/state.h>

#include "coop.h"
#include "wait.h"
#include "wqe.h"

namespace gshmem::device {

using abi::PublishedWord;
using abi::QueueCursor;
using abi::QueueView;

/// Where entries go, and where it is said that they are there: what a call needs, by one load each.
struct QueueEntries {
  Word16* entries;
  std::uint32_t number;
  abi::Be32 remote_key;
};
struct QueueBells {
  std::uint64_t* doorbell;
  abi::Be32* send_record;
  std::uint32_t number;
};

/// A queue by the address of its view, of which every use loads what it needs: the view's values in
/// registers would be registers of every kernel that might communicate.
class Queue {
 public:
  GSHMEM_FN explicit Queue(const QueueView* view) : view_(view) {}
  GSHMEM_FN QueueCursor* cursor() const { return pointer(view_->cursor); }
  GSHMEM_FN std::uint64_t* doorbell() const { return pointer(view_->doorbell); }
  GSHMEM_FN abi::Be32* send_record() const { return pointer(view_->send_record); }
  GSHMEM_FN const abi::Be32* completion() const { return pointer(view_->completion); }
  GSHMEM_FN char* entries() const { return pointer(view_->entries); }
  GSHMEM_FN std::uint32_t depth() const { return word(view_->depth); }
  GSHMEM_FN std::uint32_t batch() const { return word(view_->batch); }
  GSHMEM_FN std::uint32_t number() const { return word(view_->number); }
  GSHMEM_FN std::uint32_t index() const { return word(view_->index); }
  GSHMEM_FN abi::Be32 local_key() const { return abi::Be32::from_raw(word(view_->local_key)); }
  GSHMEM_FN abi::Be32 remote_key() const { return abi::Be32::from_raw(word(view_->remote_key)); }
  GSHMEM_FN QueueEntries place() const { return bits<QueueEntries>(unit(view_->entries)); }
  GSHMEM_FN QueueBells bells() const {
    const Word16 at = unit(view_->doorbell);
    return {reinterpret_cast<std::uint64_t*>(std::uint64_t{at.y} << 32 | at.x),
            reinterpret_cast<abi::Be32*>(std::uint64_t{at.w} << 32 | at.z), number()};
  }
  GSHMEM_FN int pe() const { return static_cast<int>(word(view_->pe)); }
  GSHMEM_FN bool exclusive() const {
    return word(view_->kind) == static_cast<std::uint32_t>(abi::QueueKind::kExclusive);
  }
  GSHMEM_FN bool in_gpu_memory() const {
    return word(view_->memory) == static_cast<std::uint32_t>(abi::QueueMemory::kGpu);
  }

 private:
  template <class T>
  GSHMEM_FN static T* pointer(T* const& field) {
    return reinterpret_cast<T*>(load_constant(reinterpret_cast<const std::uint64_t*>(&field)));
  }
  template <class T>
  GSHMEM_FN static std::uint32_t word(const T& field) {
    static_assert(sizeof(T) == sizeof(std::uint32_t));
    return load_constant(reinterpret_cast<const std::uint32_t*>(&field));
  }
  /// The 16 bytes of the view that begin with a field.
  template <class T>
  GSHMEM_FN static Word16 unit(const T& field) {
    return load_constant(reinterpret_cast<const Word16*>(&field));
  }
  const QueueView* view_;
};

/// No position in a queue: the call failed.
inline constexpr std::uint64_t kQueueFailed = ~std::uint64_t{0};

/// What a thread on the network path may have to wait for.
enum class Await : std::uint32_t { kDone, kRoom, kTurn, kScratch };
enum class PostEnd : std::uint32_t { kGood, kStopped, kTooLong, kQueueError };

/// One call on the network path, and what it may have to wait for. Registers of a kernel are those
/// that live across a call plus those of what is called, level by level; so everything of a call
/// lies here, in the thread's local memory, and the call is a sequence of steps that call nothing
/// further. Each takes what it needs from here, and only the address of the Post lives in between.
///
/// What ends a wait is noted (`end`), and recorded as a fault by post_report when the steps are
/// over. With the fault at the bottom of all functions, and arguments kept in each of them, a
/// kernel of 31 registers became one of 50 by a dormant gshmem_int_p, and of 74 by a get; now 32
/// and 40 (STREAM of tests/device/registers, nvcc 13.0).
struct Wait {
  const State* state = nullptr;
  Queue queue{nullptr};
  const char* call = "network";  ///< for messages
  std::uint64_t target = 0;
  std::uint64_t started = 0;  ///< at its first look at the clock
  Await await = Await::kDone;
  PostEnd end = PostEnd::kGood;
  std::uint32_t bad = 0;  ///< completions that cannot be (queue_poll)

  /// Neither this thread nor the one that posts for it has failed.
  GSHMEM_FN bool good() const { return end == PostEnd::kGood && target != kQueueFailed; }
};
struct Post : Wait {
  WqeImage image;
  std::uint64_t first = 0;  ///< entry of the first thread of the group
  Converged group{};        ///< threads that share the reservation
  std::uint32_t tail = 0;   ///< first entry of the group's last WQE, after `first`

  GSHMEM_FN std::uint32_t entries() const { return image.entries(); }
  /// Entries of the whole group.
  GSHMEM_FN std::uint32_t count() const {
    return entries() * static_cast<std::uint32_t>(group.size());
  }
};

/// Looks at the completion once. WQEs whose first entry is before the result are complete;
/// kQueueFailed when the entry is an error.
///
/// The counter has 16 bits. The base is read first: against a newer counter an older base can only
/// yield too little, while a newer base against an older counter would yield 2^16 too much.
///
/// No more than `depth` entries are posted and not complete. A counter further ahead is stale or
/// wrong, and changes nothing; it is counted unless `done` has moved since the base was read.
GSHMEM_FN std::uint64_t queue_poll(Wait& wait) {
  const Queue queue = wait.queue;
  const std::uint64_t base = load_acquire_gpu(&queue.cursor()->done);
  // Acquire pairs with whoever writes completions (a NIC; transport/nic/soft, transport/ofi).
  const std::uint32_t word = Be32::from_raw(load_acquire(&queue.completion()->raw)).get();
  const std::uint32_t opcode = word >> 4 & 0xf;
  if (opcode != static_cast<std::uint32_t>(abi::CompletionOpcode::kRequester)) {
    const bool none = opcode == static_cast<std::uint32_t>(abi::CompletionOpcode::kInvalid);
    return none ? base : kQueueFailed;
  }
  const std::uint32_t ahead = ((word >> 16) + 1 - static_cast<std::uint32_t>(base)) & 0xffff;
  if (ahead > queue.depth()) {
    if (load_acquire_gpu(&queue.cursor()->done) == base) ++wait.bad;
    return base;
  }
  if (ahead != 0) atomic_max_gpu(&queue.cursor()->done, base + ahead);
  return base + ahead;
}

/// The thread may poll again. Otherwise `wait.end` says why not.
GSHMEM_FN bool post_may_wait(Wait& wait, unsigned polls) {
  if (look_is_due(polls)) {
    const std::uint64_t begin = wait_look(*wait.state, wait.started);
    if (begin >= kWaitTooLong) {
      wait.end = begin == kWaitStopped ? PostEnd::kStopped : PostEnd::kTooLong;
      return false;
    }
    wait.started = begin;
  }
  if (wait.await == Await::kDone || wait.await == Await::kRoom) {
    pause_far(polls);  // the completion lies in host memory
  } else {
    pause(polls);
  }
  return true;
}

/// Waits for what `wait.await` and `wait.target` say: WQEs that begin before the target are
/// complete, or `ready` is the target. False: it had to end without.
GSHMEM_OUTLINE bool queue_await(Wait& wait) {
  wait.started = 0;
  unsigned polls = 1;
  GSHMEM_NO_UNROLL
  do {
    const std::uint64_t target = wait.target;
    if (wait.await == Await::kTurn) {
      if (PublishedWord::end(load_acquire_gpu(&wait.queue.cursor()->ready)) == target) return true;
    } else {
      const std::uint64_t done = queue_poll(wait);
      if (done == kQueueFailed) {
        wait.end = PostEnd::kQueueError;
        return false;
      }
      if (done >= target) return true;
    }
  } while (post_may_wait(wait, polls++));
  return false;
}

/// The completion says error. Returns what the first one that anyone saw tells: entries that are
/// flushed behind it overwrite it.
GSHMEM_FN FaultInfo queue_fault(Queue queue) {
  const Be32* last = queue.completion();
  const std::uint32_t word = Be32::from_raw(load_acquire(&last->raw)).get();
  const std::uint32_t opcode = Be32::from_raw(load_relaxed(&last[-1].raw)).get() >> 24;
  const std::uint32_t syndrome = Be32::from_raw(load_relaxed(&last[-2].raw)).get() & 0xff;
  const std::uint64_t mine = std::uint64_t{1} << 32 | (word >> 16) << 16 | opcode << 8 | syndrome;
  const std::uint64_t seen = atomic_compare_swap(&queue.cursor()->error, std::uint64_t{0}, mine);
  const std::uint32_t first = static_cast<std::uint32_t>(seen == 0 ? mine : seen);
  FaultInfo info{GSHMEMX_ERROR_NIC, "network", "completion", first & 0xff};
  info.pe = queue.pe();
  info.queue = queue.number();
  info.wqe_index = first >> 16;
  info.opcode = first >> 8 & 0xff;
  info.syndrome = first & 0xff;
  return info;
}

GSHMEM_FN const char* await_name(const Wait& wait) {
  switch (wait.await) {
    case Await::kDone:
      break;
    case Await::kRoom:
      return "network (room in a queue)";
    case Await::kTurn:
      return "network (turn in a queue)";
    case Await::kScratch:
      return "network (scratch memory)";
  }
  return wait.call;
}

/// Why the call could not end well, unless another fault has stopped it.
GSHMEM_FN FaultInfo post_fault(const Wait& wait) {
  if (wait.end == PostEnd::kQueueError) return queue_fault(wait.queue);
  FaultInfo info{GSHMEMX_ERROR_TIMEOUT, await_name(wait), "wait", now_ns() - wait.started,
                 wait.state->timeout_ns};
  if (wait.await == Await::kScratch) return info;  // of all queues
  info.pe = wait.queue.pe();
  info.queue = wait.queue.number();
  info.wqe_index = static_cast<std::uint32_t>(wait.target - 1) & 0xffff;
  return info;
}

/// Records why the call could not end well; the last thing that it does. True: it did.
GSHMEM_OUTLINE bool post_report(Wait& wait) {
  if (wait.bad != 0) atomic_add(&wait.state->control->bad_completions, wait.bad);
  if (wait.end == PostEnd::kGood) return true;
  if (wait.end == PostEnd::kStopped) {
    stop_here(*wait.state);
  } else {
    fault(*wait.state, post_fault(wait));
  }
  return false;
}

/// The same for a call that returns a status: also under FaultPolicy::kAbort nothing ends here.
GSHMEM_OUTLINE bool post_note(Wait& wait) {
  if (wait.bad != 0) atomic_add(&wait.state->control->bad_completions, wait.bad);
  if (wait.end == PostEnd::kGood) return true;
  if (wait.end != PostEnd::kStopped) note_fault(*wait.state, post_fault(wait));
  return false;
}

/// As far as the consumer of the queue must see.
GSHMEM_FN void queue_fence(Queue queue) {
  if (queue.in_gpu_memory()) {
    fence_gpu();
  } else {
    fence_system();
  }
}

/// Passes the turn on: adds to the PublishedWord. `rang`: the doorbell comes before those of later
/// turns.
GSHMEM_FN void queue_advance(QueueCursor* cursor, std::uint64_t more, bool rang) {
  if (rang) {
    atomic_add_release_gpu(&cursor->ready, more);
  } else {
    atomic_add_chain_gpu(&cursor->ready, more);
  }
}

/// Tells the NIC that everything before `end` is there. Only in the turn.
GSHMEM_FN void queue_ring(const State& state, Queue queue, std::uint64_t end) {
  const std::uint32_t index = static_cast<std::uint32_t>(end) & 0xffff;
  store_flag(&queue.send_record()->raw, Be32(index).raw);
  if (state.nic.flags & abi::kNicRecordFirst) queue_fence(queue);
  store_doorbell(queue.doorbell(), abi::doorbell_value(index, queue.number()));
}

// A post takes three steps. Every thread of the group takes them, its first one acts for all. The
// first two return true when the thread must wait (queue_await) before it takes the next.

/// quiet looks only at queues that were ever used.
GSHMEM_FN void queue_note_used(const Wait& wait) {
  const std::uint32_t index = wait.queue.index();
  atomic_or(&wait.state->nic.used[index / 32], 1u << index % 32);
}

/// Behind the reservation of a group, by its first thread: notes that the queue is used. True: it
/// must wait for room. Entries [end - depth, end) may be written when those of the lap before are
/// complete. (A WQE is known to be complete by its first entry only, so this may wait for one WQE
/// more than it must.)
GSHMEM_FN bool queue_want_room(Post& post) {
  const Queue queue = post.queue;
  if (post.first == 0) queue_note_used(post);
  const std::uint64_t end = post.first + post.count(), depth = queue.depth();
  if (end <= depth) return false;
  post.await = Await::kRoom;
  post.target = end - depth;
  return load_acquire_gpu(&queue.cursor()->done) < end - depth;
}

/// Entries for the whole group.
GSHMEM_OUTLINE bool queue_reserve(Post& post) {
  const Queue queue = post.queue;
  const std::uint32_t entries = post.entries();
  // A reservation of a whole warp must leave room for what may be left without a doorbell.
  const bool together = !queue.exclusive() && entries * 32 <= queue.depth() / 2;
  post.group = together ? Converged(reinterpret_cast<std::uintptr_t>(queue.cursor()) + entries)
                        : Converged();
  if (!post.group.first()) return false;
  const std::uint32_t count = post.count();
  std::uint64_t first;
  if (queue.exclusive()) {
    first = load_relaxed(&queue.cursor()->reserved);
    store_relaxed(&queue.cursor()->reserved, first + count);
  } else {
    first = atomic_fetch_add_gpu(&queue.cursor()->reserved, count);
  }
  post.first = first;
  return queue_want_room(post);
}

/// Stores the calling thread's WQEs; the last one of the group asks for a completion. Then the
/// first thread lines up to publish.
GSHMEM_OUTLINE bool queue_write(Post& post) {
  if (post.end != PostEnd::kGood && post.queue.exclusive()) {
    // No hole for later calls to ring over. (On a shared queue nobody gets the turn behind one.)
    store_relaxed(&post.queue.cursor()->reserved, post.first);
  }
  post.first = post.group.from_first(post.end == PostEnd::kGood ? post.first : kQueueFailed);
  if (post.first == kQueueFailed) return false;
  const std::uint32_t before = static_cast<std::uint32_t>(post.group.rank()) * post.entries();
  const std::uint32_t flags = post.group.last() ? abi::kCqUpdate : 0;
  const std::uint32_t index = static_cast<std::uint32_t>(post.first) + before;
  GSHMEM_NO_UNROLL
  for (std::uint32_t u = 0; u < post.image.units; ++u) {
    const std::uint32_t last = post.image.second;  // where the last WQE begins
    Word16 unit = post.image.unit[u];
    if (u == 0 || u == last) {
      unit = placed(unit, index + u / 4, post.queue.number(), u == last ? flags : 0);
    }
    const std::uint32_t mask = post.queue.depth() * 4 - 1;
    store_bulk(reinterpret_cast<Word16*>(post.queue.entries()) + ((index * 4 + u) & mask), unit);
  }
  post.tail = post.count() - post.entries() + post.group.from_last(post.image.second / 4);
  post.group.sync();
  if (!post.group.first()) return false;
  queue_fence(post.queue);
  post.await = Await::kTurn;
  post.target = post.first;
  return !post.queue.exclusive() &&
         PublishedWord::end(load_acquire_gpu(&post.queue.cursor()->ready)) != post.first;
}

/// Publishes the group's entries, in its first thread's turn. `post.target` is then what to wait
/// for; kQueueFailed where another thread's wait has ended the call. A thread whose own wait did
/// keeps what it waited for.
GSHMEM_OUTLINE void queue_publish(Post& post) {
  if (post.first == kQueueFailed) {
    if (post.end == PostEnd::kGood) post.target = kQueueFailed;
    return;
  }
  const bool good = post.end == PostEnd::kGood;
  if (good) post.await = Await::kDone;  // else it says what could not be had
  if (good && post.group.first()) {
    const Queue queue = post.queue;
    const std::uint64_t first = post.first, end = first + post.count();
    const std::uint64_t boundary = ~std::uint64_t{queue.batch() - 1};
    // Relaxed: seeing less than there is only rings once more.
    const bool rings = queue.exclusive() || load_relaxed(&queue.cursor()->reserved) == end ||
                       (first & boundary) != (end & boundary);
    if (rings) queue_ring(*post.state, queue, end);
    const std::uint64_t next = PublishedWord::make(end, post.count() - post.tail);
    queue_advance(queue.cursor(), next - load_relaxed(&queue.cursor()->ready), rings);
  }
  post.group.sync();  // the others see `ready` too: a quiet of theirs waits for these
  const std::uint64_t target =
      post.group.from_first(good ? post.first + post.tail + 1 : kQueueFailed);
  if (good) post.target = target;
}

/// Reserves, writes and publishes the WQEs of `post`. Threads of a warp that come together share
/// one reservation, one fence and one doorbell. `post.target` is then what to wait for, or
/// kQueueFailed; recording the fault is left to the caller (post_report).
GSHMEM_FN void queue_try_post(Post& post) {
  if (queue_reserve(post)) queue_await(post);
  if (queue_write(post)) queue_await(post);
  queue_publish(post);
}

/// Everything that was published before the call is complete at its target. Does not report.
GSHMEM_FN bool queue_try_quiet(Wait& wait) {
  const std::uint64_t published = load_acquire_gpu(&wait.queue.cursor()->ready);
  if (published == 0) return true;
  wait.target = PublishedWord::target(published);
  return queue_await(wait);
}

/// Everything that was published before the call is complete. False: it had to end without.
GSHMEM_FN bool queue_quiet(const State& state, Queue queue, const char* call) {
  Wait wait;
  wait.state = &state;
  wait.queue = queue;
  wait.call = call;
  queue_try_quiet(wait);
  return post_report(wait);
}

}  // namespace gshmem::device
