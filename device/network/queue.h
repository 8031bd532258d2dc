// The queue protocol: reserve entries, write them, ring the doorbell and publish in turn, and find
// out which entries are complete. It does not depend on the consumer. Included by
// device/network/network_path.h. It is checked by tests/model (every interleaving of a small queue)
// and by tests/nic.
//
// An entry is reserved, written, published and done, in this order. A writer that rings does so in
// its turn, before it publishes. `reserved`, `ready` and `done` (QueueCursor) count entries since
// the queue was made. `ready`, a PublishedWord, counts published entries.
//
// - A writer publishes when `ready` has reached its own first entry. The turn serializes the
//   writers: the queue needs no lock, and its doorbells are stored in order.
// - A writer leaves the doorbell to the next writer if one has reserved already, unless its entries
//   cross a multiple of `batch`. So fewer than `batch` published entries are ever without a
//   doorbell. A writer that waits for room waits for entries before these (batch + one reservation
//   <= depth, see QueueSet), which have a doorbell.
// - Only the last WQE of a reservation requests a completion. WQEs complete in order, so its
//   completion shows that all before it are complete. The CQ is collapsed: its one entry holds the
//   newest completion.
//
// Order. (1) Entries are visible before `ready` moves past them: the writer's release fence, at the
// scope of the queue's memory, comes before the addition that moves it. (2) The thread that rings
// has acquired `ready`, which synchronizes with all writers before, since they only ever add to it.
// So all entries up to there are visible before the doorbell record, and the record before the
// doorbell. (3) A thread that has rung passes the turn by a release: doorbells are in order. (4) A
// completion is read with acquire: data that the NIC has written before it is visible.
//
// A writer reads `ready` and `done` without acquiring them, since an acquire drops the first-level
// cache. After these reads it only stores. GPUs order that, although PTX's model would require the
// acquire: a store comes after the load whose value decides the branch to it. The user of an
// exclusive queue keeps `reserved` in that cache (load_own).
//
// If the doorbell is a register of a NIC, (2) and (3) are cheaper. The writer fences in its turn,
// so that its one fence is between the turn and the doorbell, and passes the turn by an addition
// that releases nothing. The record follows the doorbell (queue_ring).
#pragma once

#include <gshmem/abi/state.h>

#include "../core/coop.h"
#include "../core/wait.h"
#include "wqe.h"

namespace gshmem::device {

using abi::PublishedWord;
using abi::QueueCursor;
using abi::QueueView;

/// The members of the view that a call needs to write its entries. One load reads them all.
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
/// The keys of a transfer that an atomic follows: the last unit of a view
/// (tests/unit/wqe_test.cpp), which one load reads.
struct QueueKeys {
  abi::Be32 local;
  std::uint32_t ends, index;
  abi::Be32 atomic;
};

/// A queue, identified by the address of its view. Every use loads what it needs: if the object
/// held the values, every kernel that might communicate would need registers for them.
class Queue {
 public:
  GSHMEM_FN explicit Queue(const QueueView* view) : view_(view) {}
  GSHMEM_FN const QueueView* view() const { return view_; }
  GSHMEM_FN QueueCursor* cursor() const { return pointer(view_->cursor); }
  GSHMEM_FN std::uint64_t* doorbell() const { return pointer(view_->doorbell); }
  GSHMEM_FN abi::Be32* send_record() const { return pointer(view_->send_record); }
  GSHMEM_FN const abi::Be32* completion() const { return pointer(view_->completion); }
  GSHMEM_FN char* entries() const { return pointer(view_->entries); }
  /// Returns the newest number. layout() may still return the number 0 for a queue that is
  /// connected. A number never changes after it is set, so memory is read only if the cached number
  /// is 0.
  GSHMEM_FN std::uint32_t number() const {
    const std::uint32_t known = word(view_->number);
    return known != 0 ? known : load_relaxed(&view_->number);
  }
  GSHMEM_FN void set_number(std::uint32_t number) const {
    store_relaxed(const_cast<std::uint32_t*>(&view_->number), number);
  }
  GSHMEM_FN std::uint32_t index() const { return word(view_->index); }
  GSHMEM_FN abi::Be32 local_key() const { return abi::Be32::from_raw(word(view_->local_key)); }
  GSHMEM_FN abi::Be32 remote_key() const { return abi::Be32::from_raw(word(view_->remote_key)); }
  GSHMEM_FN abi::Be32 atomic_key() const { return abi::Be32::from_raw(word(view_->atomic_key)); }
  GSHMEM_FN QueueEntries layout() const { return bits<QueueEntries>(unit(view_->entries)); }
  GSHMEM_FN QueueKeys keys() const { return bits<QueueKeys>(unit(view_->local_key)); }
  GSHMEM_FN QueueBells bells(std::uint32_t number) const {
    const Word16 at = unit(view_->doorbell);
    return {reinterpret_cast<std::uint64_t*>(std::uint64_t{at.y} << 32 | at.x),
            reinterpret_cast<abi::Be32*>(std::uint64_t{at.w} << 32 | at.z), number};
  }
  GSHMEM_FN QueueBells bells() const { return bells(number()); }
  GSHMEM_FN int pe() const { return static_cast<int>(ends() & 0xffff); }
  /// Returns QueueView::nic; likewise for rail.
  GSHMEM_FN std::uint32_t nic() const { return ends() >> 16 & 0xff; }
  GSHMEM_FN std::uint32_t rail() const { return ends() >> 24; }

 private:
  /// Returns `pe`, `nic` and `rail`, which are one word.
  GSHMEM_FN std::uint32_t ends() const {
    static_assert(offsetof(QueueView, rail) == offsetof(QueueView, pe) + 3);
    return load_constant(reinterpret_cast<const std::uint32_t*>(&view_->pe));
  }
  template <class T>
  GSHMEM_FN static T* pointer(T* const& field) {
    return reinterpret_cast<T*>(load_constant(reinterpret_cast<const std::uint64_t*>(&field)));
  }
  template <class T>
  GSHMEM_FN static std::uint32_t word(const T& field) {
    static_assert(sizeof(T) == sizeof(std::uint32_t));
    return load_constant(reinterpret_cast<const std::uint32_t*>(&field));
  }
  /// Returns the 16 bytes of the view that begin with a field.
  template <class T>
  GSHMEM_FN static Word16 unit(const T& field) {
    return load_constant(reinterpret_cast<const Word16*>(&field));
  }
  const QueueView* view_;
};

/// The result of a call that failed. It is never a position in a queue.
inline constexpr std::uint64_t kQueueFailed = ~std::uint64_t{0};

/// The conditions that a thread on the network path may have to wait for.
enum class Await : std::uint32_t { kDone, kRoom, kTurn, kScratch, kConnection };
enum class PostEnd : std::uint32_t { kGood, kStopped, kTooLong, kQueueError };

/// One call on the network path, and what it may have to wait for. The registers of a kernel are
/// those that are live across a call plus those of the called function, level by level. So all data
/// of a call is here, in the thread's local memory, and the call is a sequence of steps that call
/// no further function. Each step loads what it needs from here, and only the address of the Wait
/// is live in between.
///
/// The reason why a wait ended is stored in `end`, and post_report records it as a fault after the
/// steps. If the deepest function recorded the fault, every function would have to keep the
/// arguments for it. A kernel of 31 registers would then have 50 with a gshmem_int_p that is never
/// executed, and 74 with a get. It has 32 and 40 (STREAM of tests/device/registers, nvcc 13.0).
struct Wait {
  const State* state;
  Queue queue{nullptr};
  const char* call;  ///< for messages
  std::uint64_t target;
  std::uint64_t started;  ///< time of its first check of the clock, or of its last progress
  std::uint32_t left;     ///< number of entries ahead of it at the last check
  Await await;
  PostEnd end;
  std::uint32_t bad;       ///< number of completions with an impossible counter (queue_poll)
  std::uint32_t ready;     ///< low bits of the PublishedWord at the turn
  std::uint32_t reserved;  ///< low bits of the number of entries that were reserved then

  GSHMEM_FN std::uint32_t traits() const { return state->nic.traits; }
  /// Has neither this thread nor the one that posts for it failed?
  GSHMEM_FN bool good() const { return end == PostEnd::kGood && target != kQueueFailed; }
};
/// Initializes the Wait of a call with a state, and a queue if it waits for one.
GSHMEM_FN void begin_wait(Wait& wait, const char* call) {
  wait.call = call ? call : "network";
  wait.target = 0;
  wait.started = 0;
  wait.left = 0;
  wait.await = Await::kDone;
  wait.end = PostEnd::kGood;
  wait.bad = 0;
  wait.ready = 0;
  wait.reserved = 0;
}
GSHMEM_FN void begin_wait(Wait& wait, const State* state, const QueueView* view, const char* call) {
  wait.state = state;
  wait.queue = Queue(view);
  begin_wait(wait, call);
}

/// Polls the completion once. Returns a position: WQEs that begin before it are complete. Returns
/// kQueueFailed if the completion is an error.
///
/// The counter in the completion has 16 bits. The base is read first: an older base with a newer
/// counter can only yield too little. A newer base with an older counter would yield 2^16 too much.
///
/// At most `depth` entries are posted and not complete. A counter that is further ahead is stale or
/// wrong, and is ignored. It is counted in `bad` unless `done` has moved since the base was read.
GSHMEM_FN std::uint64_t queue_poll(Wait& wait) {
  const Queue queue = wait.queue;
  const std::uint64_t base = load_acquire_gpu(&queue.cursor()->done);
  // Acquire pairs with the consumer that writes completions (a NIC; transport/softnic,
  // transport/ofi).
  const std::uint32_t word = Be32::from_raw(load_acquire(&queue.completion()->raw)).get();
  const std::uint32_t opcode = word >> 4 & 0xf;
  if (opcode != static_cast<std::uint32_t>(abi::CompletionOpcode::kRequester)) {
    const bool none = opcode == static_cast<std::uint32_t>(abi::CompletionOpcode::kInvalid);
    return none ? base : kQueueFailed;
  }
  const std::uint32_t ahead = ((word >> 16) + 1 - static_cast<std::uint32_t>(base)) & 0xffff;
  if (ahead > abi::QueueTraits::depth(wait.state->nic.traits)) {
    if (load_acquire_gpu(&queue.cursor()->done) == base) ++wait.bad;
    return base;
  }
  if (ahead != 0) atomic_max_gpu(&queue.cursor()->done, base + ahead);
  return base + ahead;
}

/// Is it the turn of the writer whose first entry is `first`?
GSHMEM_FN bool is_turn(std::uint32_t ready, std::uint64_t first) {
  const std::uint32_t differ = ready ^ static_cast<std::uint32_t>(first) << PublishedWord::kBits;
  return differ >> PublishedWord::kBits == 0;
}

/// Begins a wait.
GSHMEM_FN void wait_for(Wait& wait, Await condition, std::uint64_t target) {
  wait.await = condition;
  wait.target = target;
  wait.started = 0;
}

/// May the thread poll again? Otherwise `wait.end` has the reason. `left` is the number of entries
/// ahead of it. The timeout counts from when this number last fell. A thread with many entries
/// ahead polls less often, so that those with few make progress.
GSHMEM_FN bool post_may_wait(Wait& wait, unsigned polls, std::uint32_t left) {
  if (look_is_due(polls)) {
    const std::uint64_t before = left == wait.left ? wait.started : 0;
    const std::uint64_t begin = wait_look(*wait.state, before);
    if (begin >= kWaitTooLong) {
      wait.end = begin == kWaitStopped ? PostEnd::kStopped : PostEnd::kTooLong;
      return false;
    }
    wait.started = begin;
    wait.left = left;
#if !defined(__CUDA_ARCH__)
    if (before != 0) note_wait(*wait.state, wait.call, before, abi::kNetwork, nullptr);
#endif
  }
  if (wait.await == Await::kTurn) {
    pause_behind(polls, left);
  } else if (wait.await == Await::kScratch) {
    pause(polls);
  } else {
    pause_far(polls);  // the completion is in host memory
    if (wait.await == Await::kRoom) pause_behind(polls, left);
  }
  return true;
}

/// Waits for the condition of `wait.await` and `wait.target`: WQEs that begin before the target are
/// complete, or it is the turn of the writer whose first entry is the target. Returns false if it
/// had to end early.
GSHMEM_OUTLINE bool queue_await(Wait& wait) {
  unsigned polls = 1;
  wait.started = 0;
  std::uint32_t left = 0;
  GSHMEM_NO_UNROLL
  do {
    const std::uint64_t target = wait.target;
    if (wait.await == Await::kTurn) {
      const QueueCursor* const cursor = wait.queue.cursor();
      const std::uint32_t ready = static_cast<std::uint32_t>(load_before_stores(&cursor->ready));
      wait.reserved = static_cast<std::uint32_t>(load_before_stores(&cursor->reserved));
      wait.ready = ready;
      if (is_turn(ready, target)) return true;
      left = (static_cast<std::uint32_t>(target) << PublishedWord::kBits) - ready;
      left >>= PublishedWord::kBits;
    } else {
      const std::uint64_t done = queue_poll(wait);
      if (done == kQueueFailed) {
        wait.end = PostEnd::kQueueError;
        return false;
      }
      if (done >= target) return true;
      left = static_cast<std::uint32_t>(target - done);
    }
  } while (post_may_wait(wait, polls++, left));
  return false;
}

/// Requests the host to connect the queue, and waits until both ends are connected.
GSHMEM_OUTLINE void queue_connect(Wait& wait) {
  wait_for(wait, Await::kConnection, 0);
  abi::FirstUse* const use = wait.state->nic.first_use + wait.queue.index();
  store_relaxed(&use->asked, 1u);
  fence_release_system();
  store_relaxed(&wait.state->control->asked, 1u);
  wake_host(&wait.state->control->asked);
  unsigned polls = 1;
  std::uint32_t number = load_acquire(&use->number);
  GSHMEM_NO_UNROLL
  while (number == 0 && post_may_wait(wait, polls++, 0)) number = load_acquire(&use->number);
  if (number != 0) wait.queue.set_number(number);
}

/// Reads a completion that is an error. Returns the data of the first error that any thread saw,
/// because the completions of the entries that are flushed after it overwrite it.
GSHMEM_FN FaultInfo queue_fault(Queue queue) {
  const Be32* last = queue.completion();
  const std::uint32_t word = Be32::from_raw(load_acquire(&last->raw)).get();
  const std::uint32_t opcode = Be32::from_raw(load_relaxed(&last[-1].raw)).get() >> 24;
  const std::uint32_t syndromes = Be32::from_raw(load_relaxed(&last[-2].raw)).get();
  const std::uint64_t mine = std::uint64_t{syndromes >> 8} << 40 | std::uint64_t{1} << 32 |
                             (word >> 16) << 16 | opcode << 8 | (syndromes & 0xff);
  const std::uint64_t seen = atomic_compare_swap(&queue.cursor()->error, std::uint64_t{0}, mine);
  const std::uint64_t all = seen == 0 ? mine : seen;
  const std::uint32_t first = static_cast<std::uint32_t>(all);
  FaultInfo info{GSHMEMX_ERROR_NIC, "network", "completion", all >> 40};
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
    case Await::kConnection:
      return "network (connection)";
  }
  return wait.call;
}

/// Returns why the call failed, unless another fault has stopped it.
GSHMEM_FN FaultInfo post_fault(const Wait& wait) {
  if (wait.end == PostEnd::kQueueError) return queue_fault(wait.queue);
  FaultInfo info{GSHMEMX_ERROR_TIMEOUT, await_name(wait), "wait", now_ns() - wait.started,
                 wait.state->timeout_ns};
  if (wait.await == Await::kScratch) return info;  // the fault concerns all queues
  info.pe = wait.queue.pe();
  if (wait.await == Await::kConnection) return info;  // the queue has no number yet
  info.queue = wait.queue.number();
  info.wqe_index = static_cast<std::uint32_t>(wait.target - 1) & 0xffff;
  return info;
}
/// Finds the target of an initiator's entry by its address vector. Stores -1 if the entry has none,
/// or if the NIC has overwritten it.
GSHMEM_FN void find_pe(const Wait& wait, FaultInfo& info) {
  const abi::NicView& nic = wait.state->nic;
  if (!nic.vectors || info.queue == 0) return;
  const std::uint32_t at = info.wqe_index & (abi::QueueTraits::depth(nic.traits) - 1);
  const auto* const seen =
      reinterpret_cast<const std::uint64_t*>(wait.queue.entries() + at * abi::kWqebbBytes) + 2;
  int pe = wait.state->n_pes - 1;
  GSHMEM_NO_UNROLL
  for (; pe >= 0; --pe) {
    const std::uint64_t* const known = nic.vectors[pe].words;  // number and LID, and interface id
                                                               // of the GID
    if (known[1] == seen[1] && known[5] == seen[5]) break;
  }
  info.pe = pe;
}

/// Records why the call failed; this is its last step. Returns true if it succeeded.
GSHMEM_OUTLINE bool post_report(Wait& wait) {
  if (wait.bad != 0) atomic_add(&wait.state->control->bad_completions, wait.bad);
  if (wait.end == PostEnd::kGood) return true;
  if (wait.end == PostEnd::kStopped) {
    stop_here(*wait.state);
  } else {
    FaultInfo info = post_fault(wait);
    keep_in_memory(info);
    find_pe(wait, info);
    fault(*wait.state, info);
  }
  return false;
}

/// Does what post_report does, for a call that returns a status: it ends neither the kernel nor the
/// process, even with FaultPolicy::kAbort.
GSHMEM_OUTLINE bool post_note(Wait& wait) {
  if (wait.bad != 0) atomic_add(&wait.state->control->bad_completions, wait.bad);
  if (wait.end == PostEnd::kGood) return true;
  if (wait.end == PostEnd::kStopped) return false;
  FaultInfo info = post_fault(wait);
  keep_in_memory(info);
  find_pe(wait, info);
  note_fault(*wait.state, info);
  return false;
}

GSHMEM_FN bool is_exclusive(std::uint32_t traits) {
  return (traits & abi::QueueTraits::kExclusive) != 0;
}

/// Are the queues initiators of dynamic connections?
GSHMEM_FN bool is_dynamic(std::uint32_t traits) {
  return (traits & abi::QueueTraits::kDynamic) != 0;
}

/// Is the doorbell a register of the NIC?
GSHMEM_FN bool has_register(std::uint32_t traits) {
  return (traits & abi::QueueTraits::kRegister) != 0;
}

/// Fences at the scope of the consumer. It only releases. An acquire would also drop cached data,
/// such as the queue's values and the state. It is not needed, because this thread loads nothing
/// that other writers have stored. (Stores of writers that have published have reached the
/// consumer: each began the addition that published after its fence.)
///
/// Each fence is in a loop that never repeats. Without the loop, the compiler would turn the short
/// branch into a predicate, and a fence that is predicated off still takes 160 clocks.
GSHMEM_FN void queue_fence(std::uint32_t traits) {
  if (traits & abi::QueueTraits::kGpuMemory) {
    GSHMEM_NO_UNROLL
    do {
      fence_release_gpu();
    } while (traits & abi::QueueTraits::kNever);
  } else {
    GSHMEM_NO_UNROLL
    do {
      fence_release_system();
    } while (traits & abi::QueueTraits::kNever);
  }
}

/// Fences before entries whose source may be outside of this GPU's memory. If the queue is in GPU
/// memory, queue_fence has a narrow scope. Then stores of this or another thread to that source may
/// still be on their way (PTX ISA, memory consistency model: a scope has to include the reader).
GSHMEM_FN void source_fence(std::uint32_t traits) {
  if (traits & abi::QueueTraits::kGpuMemory) {
    GSHMEM_NO_UNROLL
    do {
      fence_release_system();
    } while (traits & abi::QueueTraits::kNever);
  }
}

/// Passes the turn: adds to the PublishedWord. `rang`: this thread has rung, and its doorbell must
/// come before the doorbells of later turns.
GSHMEM_FN void queue_advance(QueueCursor* cursor, std::uint64_t more, bool rang) {
  if (rang) {
    atomic_add_release_gpu(&cursor->ready, more);
  } else {
    atomic_add_chain_gpu(&cursor->ready, more);
  }
}

/// Tells the NIC that all entries before `end` are ready. Call it only in the turn.
///
/// A NIC whose doorbell is a register is rung before the record is stored, and again after it (DOCA
/// GPUNetIO and UCX's uct/ib/mlx5/gdaki do so). The NIC reads the record only when it recovers from
/// an error. If the first doorbell then arrives before the record, the NIC sees no new entries, and
/// without a second doorbell it would never see them. A NIC that uses no record is rung once. A
/// doorbell word that a host thread forwards is stored once. If the record must be visible before
/// it (kRecordFirst), it is stored after the record.
GSHMEM_FN void queue_ring(const QueueBells& bells, std::uint32_t traits, std::uint32_t end) {
  const std::uint64_t value = abi::doorbell_value(end, bells.number);
  const std::uint32_t record = abi::record_value(end);
  if (has_register(traits)) {
    store_register(bells.doorbell, value);
    if (traits & abi::QueueTraits::kNoRecord) return;
    store_record(&bells.send_record->raw, record);
    store_register(bells.doorbell, value);
  } else {
    store_record(&bells.send_record->raw, record);
    if (traits & abi::QueueTraits::kRecordFirst) queue_fence(traits);
    store_doorbell(bells.doorbell, value);
  }
}

/// Marks the queue as used: quiet checks only queues that were ever used.
GSHMEM_FN void queue_note_used(const Wait& wait) {
  const std::uint32_t index = wait.queue.index();
  atomic_or(&wait.state->nic.used[index / 32], 1u << index % 32);
}
/// Returns the first of the queues [at, end) that was ever used, or `end`.
GSHMEM_FN std::uint32_t next_used(const State& state, std::uint32_t at, std::uint32_t end) {
  GSHMEM_NO_UNROLL
  while (at < end) {
    const std::uint32_t used = load_relaxed(&state.nic.used[at / 32]) >> at % 32;
    if (used != 0) {
      at += lowest_bit_number(used);
      break;
    }
    at = (at | 31) + 1;  // no queue of this word is left
  }
  return at < end ? at : end;
}

/// Waits until everything up to the PublishedWord `published` is complete at its target. Does not
/// report a fault.
GSHMEM_FN bool queue_await_all(Wait& wait, std::uint64_t published) {
  wait.target = PublishedWord::target(published);
  return queue_await(wait);
}
/// Waits until everything that was published before the call is complete at its target. Does not
/// report a fault. The completion is not read if another thread has seen it already, since it may
/// be in host memory. Data that the NIC wrote before that completion is in memory, and the acquire
/// drops older cached data.
GSHMEM_FN bool queue_try_quiet(Wait& wait) {
  const std::uint64_t published = load_relaxed(&wait.queue.cursor()->ready);
  if (published == 0) return true;
  const std::uint64_t done = load_acquire_gpu(&wait.queue.cursor()->done);
  return done >= PublishedWord::target(published) || queue_await_all(wait, published);
}

/// Waits until everything that was published before the call is complete. Returns false if it had
/// to end early.
GSHMEM_FN bool queue_quiet(const State& state, Queue queue, const char* call) {
  Wait wait;
  begin_wait(wait, &state, queue.view(), call);
  queue_try_quiet(wait);
  return post_report(wait);
}

}  // namespace gshmem::device
