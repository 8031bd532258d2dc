// Posts work queue entries: reserves and writes them, then rings and publishes in turn. The
// ordering argument is in queue.h. `Entries` is the type that is posted. `Group` is the threads
// that share a reservation, a fence and a doorbell: one thread, or threads of a warp that make the
// same call together. A call that need not wait is executed by post_now, which calls no function
// and uses registers only. post_at_once calls it for entries in memory, short_way.h for entries in
// registers. All other calls continue in post_end. burst.h publishes the entries that a thread
// keeps pending between its calls. Measured by perftest/issue_cost.
#pragma once

#include "../pe/p2p.h"
#include "entries.h"
#include "queue.h"

#include <type_traits>

namespace gshmem::device {

/// Writes the units of an image directly into the entries of a queue.
class EntryStore {
 public:
  std::uint32_t units = 0, second = 0;  ///< for the image functions
  /// `mask` applies to entry indices; `last` is the first entry of the last WQE, which gets the
  /// flags.
  GSHMEM_FN EntryStore(Word16* entries, std::uint32_t mask, std::uint32_t index,
                       std::uint32_t number, std::uint32_t last, std::uint32_t flags)
      : entries_(entries),
        mask_(mask),
        index_(index),
        number_(number),
        last_(last),
        flags_(flags) {}
  GSHMEM_FN void put(std::uint32_t at, Word16 unit) const {
    const std::uint32_t index = index_ + at / 4;
    if (at == 0 || at == last_ * 4) {
      unit = placed(unit, index, number_, at == last_ * 4 ? flags_ : 0);
    }
    store_entry(entries_ + (index & mask_) * 4 + at % 4, unit);
  }

 private:
  Word16* entries_;
  std::uint32_t mask_, index_, number_, last_, flags_;
};

/// The maximum number of entries of an atomic.
inline constexpr std::uint32_t kMostAtomicEntries = 2;

// Atomics are first built in a WqeImage: written directly they would take too many registers.

/// Builds the atomic at unit image.second.
GSHMEM_OUTLINE void make_atomic(WqeImage& image, Queue queue, std::uint64_t remote, const Amo& amo,
                                std::uint64_t result) {
  image_amo(image, image.second, amo, {remote, queue.atomic_key()}, {result, queue.local_key()});
}
/// The memory that a unit of an image names: local memory, or remote memory for payload or atomics.
enum class KeyUse : std::uint32_t { kLocal, kPayload, kAtomic };
/// Returns the registered memory that the unit names, or null.
GSHMEM_FN const abi::RegisteredRange* range_of(const Word16& unit, const State& state, KeyUse use) {
  const std::uint64_t raw = use == KeyUse::kLocal ? high_of(unit) : low_of(unit);
  return range_at(state, Be64::from_raw(raw).get());
}
/// If the unit names registered memory, stores the key of that memory in it. Otherwise the unit
/// keeps the key of the heap, which gives access to nothing beyond the heap.
GSHMEM_FN void put_key(Word16& unit, const abi::RegisteredRange* range, const State& state,
                       Queue queue, KeyUse use) {
  if (!range) return;
  if (use == KeyUse::kLocal) {
    unit.y = load_relaxed(local_key_at(*range, remote_key_count(state), queue));
    return;
  }
  const abi::RemoteKeys& keys = remote_keys_at(*range, state.key_rails, queue);
  unit.z = load_relaxed(use == KeyUse::kPayload ? &keys.payload.raw : &keys.atomic.raw);
}
GSHMEM_FN void put_registered_key(Word16& unit, const State& state, Queue queue, KeyUse use) {
  put_key(unit, range_of(unit, state, use), state, queue, use);
}
/// Calls put_key for the remote address of the first WQE.
GSHMEM_OUTLINE void use_registered_key(WqeImage& image, const State& state, Queue queue,
                                       KeyUse use) {
  put_registered_key(image.unit[1], state, queue, use);
}
/// Calls put_key for a transfer and the atomic after it. `names_local`: the payload is not inline.
/// No load waits for another load that it does not depend on.
GSHMEM_OUTLINE void use_registered_keys(WqeImage& image, const State& state, Queue queue,
                                        bool names_local) {
  Word16 &payload = image.unit[1], &local = image.unit[2], &atomic = image.unit[image.second + 1];
  const auto* const of_payload = range_of(payload, state, KeyUse::kPayload);
  const auto* const of_local = names_local ? range_of(local, state, KeyUse::kLocal) : nullptr;
  const auto* const of_atomic = range_of(atomic, state, KeyUse::kAtomic);
  put_key(payload, of_payload, state, queue, KeyUse::kPayload);
  put_key(local, of_local, state, queue, KeyUse::kLocal);
  put_key(atomic, of_atomic, state, queue, KeyUse::kAtomic);
}
/// The old value of an atomic may still be in flight when the atomic is complete, like the data of
/// READs (transfer.h, make_dump).
GSHMEM_OUTLINE void append_dump(WqeImage& image, Queue queue, std::uint64_t result) {
  image_dump(image, image.entries() * 4, {result, queue.local_key()}, sizeof(std::uint64_t));
}
/// Builds the transfer that an atomic follows.
GSHMEM_OUTLINE void make_transfer(WqeImage& image, Queue queue, const OneEntry& transfer) {
  transfer.fill(image, queue);
  image.second = 4;
}

/// The result of a reservation by the first thread of a group. `ready` and `reserved` are low bits
/// only: values that are compared differ by far less than 2^28.
struct Reservation {
  /// A flag of `first`: the call must wait. Entries of the previous lap may not be complete, or
  /// other writers publish first, or the queue is not known to be used or connected.
  static constexpr std::uint64_t kLate = std::uint64_t{1} << 63;
  std::uint64_t first = 0;     ///< the first entry
  std::uint32_t late = 0;      ///< 1: the call must wait
  std::uint32_t ready = 0;     ///< the PublishedWord `ready`
  std::uint32_t reserved = 0;  ///< number of entries reserved by all

  GSHMEM_FN std::uint64_t flagged() const { return late != 0 ? first | kLate : first; }
  GSHMEM_FN static bool is_at_once(std::uint64_t first) {
    return static_cast<std::int64_t>(first) >= 0;
  }
  GSHMEM_FN static std::uint64_t entry(std::uint64_t first) { return first & ~kLate; }
};

/// Reserves `count` entries of a queue that only the calling thread uses. The known progress of the
/// NIC is next to the thread's own cursor, in its cache.
GSHMEM_FN Reservation reserve_own(QueueCursor* cursor, std::uint32_t traits, std::uint32_t count) {
  Reservation taken;
  taken.first = load_own(&cursor->reserved);
  std::uint64_t room = load_own(&cursor->room);
  const std::uint64_t end = taken.first + count;
  if (end > room) {
    room = load_before_stores(&cursor->done) + abi::QueueTraits::depth(traits);
    store_own(&cursor->room, room);
  }
  store_own(&cursor->reserved, end);
  taken.late =
      static_cast<std::uint32_t>(taken.first == 0) | static_cast<std::uint32_t>(end > room);
  return taken;
}

/// Reserves `count` entries of any queue. All loads are issued before the first result is needed.
GSHMEM_FN Reservation reserve(QueueCursor* cursor, std::uint32_t traits, std::uint32_t count) {
  if (is_exclusive(traits)) return reserve_own(cursor, traits, count);
  Reservation taken;
  taken.first = atomic_fetch_add_gpu(&cursor->reserved, count);
  taken.ready = static_cast<std::uint32_t>(load_before_stores(&cursor->ready));
  taken.reserved = static_cast<std::uint32_t>(load_before_stores(&cursor->reserved));
  const std::uint32_t done = static_cast<std::uint32_t>(load_before_stores(&cursor->done));
  const std::uint32_t end = static_cast<std::uint32_t>(taken.first) + count;
  const bool has_turn = is_turn(taken.ready, taken.first);
  const bool has_room = end - done <= abi::QueueTraits::depth(traits);
  const bool is_new = static_cast<std::uint32_t>(taken.first) == 0;  // or the counter has wrapped,
                                                                     // which does no harm
  taken.late = (is_new ? 1u : 0u) | (has_turn ? 0u : 1u) | (has_room ? 0u : 1u);
  return taken;
}

/// Returns the low bits of the calling thread's first entry, in a group whose first entry is
/// `first`.
template <class Entries, class Group>
GSHMEM_FN std::uint32_t own_entry(const Entries& entries, Group group, std::uint64_t first) {
  return static_cast<std::uint32_t>(first) +
         static_cast<std::uint32_t>(group.rank()) * entries.entries();
}
/// Returns the flags of the thread's WQE: the group's last WQE requests a completion.
template <class Group>
GSHMEM_FN std::uint32_t own_flags(Group group) {
  return group.last() ? abi::kCqUpdate : 0;
}

/// Are entries of this type in registers?
template <class Entries>
inline constexpr bool kIsHeld =
    std::is_same_v<Entries, OneEntry> || std::is_same_v<Entries, SignalledEntry>;

/// Returns the number of entries of the group's last WQE.
template <class Entries, class Group>
GSHMEM_FN std::uint32_t last_entries(const Entries& entries, Group group) {
  const std::uint32_t own = entries.entries() - entries.last();
  if constexpr (kIsHeld<Entries> || std::is_same_v<Group, Alone>) {
    return own;  // the same for all (group_at)
  } else {
    return group.from_last(own);
  }
}

/// How the first thread of a group publishes its `count` entries, the last `tail` of which are the
/// last WQE. The object is computed before the entries are written.
struct Publication {
  std::uint32_t end;   ///< low bits of the index after the last entry
  std::uint32_t more;  ///< the increment of `ready`; not used for exclusive queues
  bool rings;

  /// The thread rings if no other reservation follows, or if its entries cross a multiple of
  /// `batch`. (On an exclusive queue every call rings.)
  GSHMEM_FN Publication(std::uint32_t traits, const Reservation& taken, std::uint32_t count,
                        std::uint32_t tail)
      : end(static_cast<std::uint32_t>(taken.first) + count),
        more(static_cast<std::uint32_t>(PublishedWord::make(end, tail)) - taken.ready),
        rings(is_exclusive(traits) || static_cast<std::int32_t>(taken.reserved - end) <= 0 ||
              ((static_cast<std::uint32_t>(taken.first) ^ end) &
               ~(abi::QueueTraits::batch(traits) - 1)) != 0) {}
};
/// Passes the turn to the next writer.
GSHMEM_FN void pass_turn(QueueCursor* cursor, std::uint32_t traits,
                         const Publication& publication) {
  queue_advance(cursor, publication.more, publication.rings && !has_register(traits));
}
/// Publishes entries of an exclusive queue. The stores are relaxed, because the next user of the
/// queue synchronizes with this one.
GSHMEM_FN void pass_own(QueueCursor* cursor, std::uint64_t end, std::uint32_t tail) {
  store_relaxed(&cursor->ready, PublishedWord::make(end, tail));
}

/// Reserves, writes and publishes, if the call need not wait. Otherwise it calls `late` with the
/// first entry of the group, which may have the flag Reservation::kLate. Returns the first entry,
/// or the result of `late`. `Group` is Alone, Converged or WholeWarp. It calls no other function
/// (see Wait for the registers that a call costs). Loads of queue properties are issued first, and
/// arrive while the reservation is pending.
template <class Entries, class Group, class Late>
GSHMEM_INLINE std::uint64_t post_now(const QueueView* view, QueueCursor* cursor,
                                     std::uint32_t traits, const Entries& entries, Group group,
                                     Late late) {
  // An exclusive queue is never shared: the compiler can drop the test.
  if constexpr (!std::is_same_v<Group, Alone>) traits &= ~abi::QueueTraits::kExclusive;
  // A single thread that has all data in registers does not pack the flag and the entry into one
  // word.
  constexpr bool kAtOnceAlone = kIsHeld<Entries> && std::is_same_v<Group, Alone>;
  const Queue queue(view);
  const QueueEntries layout = queue.layout();
  const std::uint32_t count = entries.entries() * static_cast<std::uint32_t>(group.size());
  const std::uint32_t tail = last_entries(entries, group);
  const auto ranges = ranges_of(entries);
  Reservation taken;
  if (group.first()) {
    taken = reserve(cursor, traits, count);
    taken.late |= static_cast<std::uint32_t>(layout.number == 0);  // it appears not to be connected
    if constexpr (!kAtOnceAlone) taken.first = taken.flagged();
  }
  const auto keys = keys_of(entries, ranges, queue, layout.remote_key);
  std::uint64_t first = taken.first;
  if constexpr (kAtOnceAlone) {
    if (taken.late != 0) return late(first);
  } else {
    first = group.from_first(taken.first);
    if (!Reservation::is_at_once(first)) return late(first);
  }
  Publication publication(traits, taken, count, tail);
  if constexpr (!std::is_same_v<Entries, OneEntry>) keep_in_memory(publication);  // saves registers
  EntryStore store(layout.entries, abi::QueueTraits::depth(traits) - 1,
                   own_entry(entries, group, first), layout.number, entries.last(),
                   own_flags(group));
  entries.fill(store, keys);
  group.sync();
  if (group.first()) {
    const QueueBells bells = queue.bells(layout.number);  // loaded while the fence is pending
    queue_fence(traits);
    if (publication.rings) queue_ring(bells, traits, publication.end);
    if (is_exclusive(traits)) {
      pass_own(cursor, first + count, tail);
    } else {
      pass_turn(cursor, traits, publication);
    }
  }
  group.sync();  // the other threads see `ready`, too: their quiet waits for these entries
  return first;
}
/// Calls post_now out of line, for entries in memory. Returns Reservation::flagged.
template <class Entries, class Group>
GSHMEM_OUTLINE std::uint64_t post_at_once(const QueueView* view, QueueCursor* cursor,
                                          std::uint32_t traits, const Entries& entries,
                                          Group group) {
  return post_now(view, cursor, traits, entries, group,
                  [](std::uint64_t first) { return first | Reservation::kLate; });
}

/// A pending call, and what it may have to wait for. It is created in local memory before
/// post_at_once, so that only its address is live across calls. The Wait part is initialized only
/// when the call must wait.
struct Posting : Wait {
  QueueCursor* cursor;
  /// The result of post_at_once; later the group's first entry, or kQueueFailed.
  std::uint64_t first;
  Converged group;     ///< the threads that share the reservation
  std::uint32_t tail;  ///< number of entries of the group's last WQE
  std::uint32_t held_traits;
  const char* heap;
  GSHMEM_FN Reservation taken() const { return {first, 0, ready, reserved}; }
  GSHMEM_FN std::uint32_t traits() const { return held_traits; }
  /// Returns the offset of an address in this PE's heap. WQEs use it, here and at every PE.
  GSHMEM_FN std::uint64_t offset(const void* p) const {
    return static_cast<std::uint64_t>(static_cast<const char*>(p) - heap);
  }
};
template <class Entries>
struct PostingOf : Posting {
  Entries entries;
  GSHMEM_FN std::uint32_t count() const {
    return entries.entries() * static_cast<std::uint32_t>(this->group.size());
  }
};
/// The members of the state that a call needs. They may not be in the first-level cache: after an
/// acquire each sector comes from the second level, which takes 360 clocks on an H100. So all are
/// loaded at once, before the loads that depend on them.
struct PostState {
  std::uint64_t queues, cursors, heap;
  std::uint32_t traits;
  GSHMEM_FN explicit PostState(const State& state)
      : queues(load_bulk(reinterpret_cast<const std::uint64_t*>(&state.nic.queues))),
        cursors(load_bulk(reinterpret_cast<const std::uint64_t*>(&state.nic.cursors))),
        heap(load_bulk(reinterpret_cast<const std::uint64_t*>(&state.heap))),
        traits(load_bulk(&state.nic.traits)) {}
  /// Is the address in memory for which the queue has the keys?
  GSHMEM_FN bool has_in_heap(const void* p) const {
    return !abi::QueueTraits::is_beyond(traits, reinterpret_cast<std::uint64_t>(p) - heap);
  }
};
/// Prepares posting to queue `index`.
GSHMEM_FN void post_by(Posting& posting, const State& state, const PostState& held,
                       std::uint32_t index) {
  posting.state = &state;
  posting.queue = Queue(reinterpret_cast<const QueueView*>(held.queues) + index);
  posting.cursor = reinterpret_cast<QueueCursor*>(held.cursors) + index;
  posting.held_traits = held.traits;
  posting.heap = reinterpret_cast<const char*>(held.heap);
}
/// Does the same, but loads the members one after another, which takes fewer registers.
GSHMEM_FN void post_by(Posting& posting, const State& state, std::uint32_t index) {
  posting.state = &state;
  posting.queue = Queue(state.nic.queues + index);
  posting.cursor = state.nic.cursors + index;
  posting.held_traits = state.nic.traits;
  posting.heap = state.heap;
}

// The steps of a call that has to wait, is the first of its queue, or needs its registers for
// something else. Each step calls no function, and works on memory. Every thread of the group takes
// the steps, and its first thread acts for all. When a step returns true, the thread must wait
// (queue_await) before it takes the next.

/// Reserves the entries.
template <class Entries>
GSHMEM_OUTLINE void step_reserve(PostingOf<Entries>& posting) {
  if (!posting.group.first()) return;
  posting.first = reserve(posting.cursor, posting.traits(), posting.count()).flagged();
}

/// Notes that the queue is used, and then checks for room. Entries [end - depth, end) may be
/// written when those of the previous lap are complete. (Only the first entry of a WQE shows its
/// completion, so this may wait for one WQE more than it must.)
template <class Entries>
GSHMEM_OUTLINE bool step_room(PostingOf<Entries>& posting) {
  if (!posting.group.first()) return false;
  const std::uint64_t first = Reservation::entry(posting.first);
  posting.first = first;
  if (first == 0) queue_note_used(posting);
  if (!posting.good()) return false;
  const std::uint64_t depth = abi::QueueTraits::depth(posting.traits());
  const std::uint64_t end = first + posting.count();
  if (end <= depth) return false;
  wait_for(posting, Await::kRoom, end - depth);
  return load_acquire_gpu(&posting.cursor->done) < end - depth;
}

/// Writes the units of a Posting's entries into the queue. Queue properties are loaded again for
/// each unit.
class StepStore {
 public:
  std::uint32_t units = 0, second = 0;  ///< for the image functions
  GSHMEM_FN StepStore(const Posting& posting, std::uint32_t index, std::uint32_t last)
      : posting_(posting), index_(index), last_(last) {}
  GSHMEM_FN void put(std::uint32_t at, Word16 unit) const {
    const std::uint32_t index = index_ + at / 4;
    if (at == 0 || at == last_ * 4) {
      const std::uint32_t flags = at == last_ * 4 ? own_flags(posting_.group) : 0;
      unit = placed(unit, index, posting_.queue.number(), flags);
    }
    const std::uint32_t mask = abi::QueueTraits::depth(posting_.traits()) - 1;
    Word16* const entries = reinterpret_cast<Word16*>(posting_.queue.entries());
    keep_in_memory(unit);  // these are four registers for all units, not for each
    store_bulk(entries + (index & mask) * 4 + at % 4, unit);
  }

 private:
  const Posting& posting_;
  std::uint32_t index_, last_;
};

/// Writes the entries, if there is room. Afterwards it must be the group's turn.
template <class Entries>
GSHMEM_OUTLINE bool step_write(PostingOf<Entries>& posting) {
  if (posting.end != PostEnd::kGood) {
    // Takes the reservation back. Otherwise it would leave a hole of unwritten entries, and a later
    // call could ring past it. (On a shared queue no writer gets its turn after a hole.)
    if (is_exclusive(posting.traits())) store_relaxed(&posting.cursor->reserved, posting.first);
    posting.first = kQueueFailed;
  }
  posting.group.sync();  // all threads get the index that the first thread has found
  posting.first = posting.group.from_first(posting.first);
  if (posting.first == kQueueFailed) return false;
  posting.tail = last_entries(posting.entries, posting.group);
  StepStore store(posting, own_entry(posting.entries, posting.group, posting.first),
                  posting.entries.last());
  posting.entries.fill(store, posting.queue);
  posting.group.sync();
  if (!posting.group.first()) return false;
  if (!has_register(posting.traits())) queue_fence(posting.traits());
  wait_for(posting, Await::kTurn, posting.first);
  return !is_exclusive(posting.traits());
}

/// Publishes in the turn. `target` is then the position to wait for, or kQueueFailed if another
/// thread's wait has ended the call. A thread whose own wait failed keeps its target.
template <class Entries>
GSHMEM_OUTLINE void step_publish(PostingOf<Entries>& posting) {
  if (posting.end != PostEnd::kGood) {
    posting.first = kQueueFailed;
  } else if (posting.first != kQueueFailed && posting.group.first()) {
    if (has_register(posting.traits())) queue_fence(posting.traits());
    const Publication publication(posting.traits(), posting.taken(), posting.count(), posting.tail);
    if (publication.rings) queue_ring(posting.queue.bells(), posting.traits(), publication.end);
    keep_in_memory(posting);  // saves registers
    if (is_exclusive(posting.traits())) {
      pass_own(posting.cursor, posting.first + posting.count(), posting.tail);
    } else {
      pass_turn(posting.cursor, posting.traits(), publication);
    }
  }
  posting.group.sync();  // as in post_now
  posting.first = posting.group.from_first(posting.first);
  if (posting.end != PostEnd::kGood) return;
  posting.await = Await::kDone;
  posting.target = posting.first == kQueueFailed
                       ? kQueueFailed
                       : posting.first + posting.count() - posting.tail + 1;
}

/// Executes the remaining steps of a call with a reservation. Does not report a fault.
template <class Entries>
GSHMEM_FN void post_reserved(PostingOf<Entries>& posting) {
  if (posting.group.first() && posting.queue.number() == 0) queue_connect(posting);
  if (step_room(posting)) queue_await(posting);
  if (step_write(posting)) queue_await(posting);
  step_publish(posting);
}

/// Executes the steps that post_at_once has not executed, and waits for completion if `awaited_as`
/// is given. Returns false if the call was not posted or failed, which is then recorded as a fault.
template <class Entries>
GSHMEM_OUTLINE bool post_end(PostingOf<Entries>& posting, const char* awaited_as) {
  begin_wait(posting, awaited_as);
  if (Reservation::is_at_once(posting.first)) {
    posting.target =
        posting.first + posting.count() - last_entries(posting.entries, posting.group) + 1;
  } else {
    post_reserved(posting);
  }
  if (awaited_as && posting.good()) queue_await(posting);
  return post_report(posting) && posting.good();
}

/// May all threads of a warp post `entries` entries each in one reservation? It must leave room for
/// entries that may have no doorbell.
GSHMEM_FN bool fits_by_warp(std::uint32_t traits, std::uint32_t entries) {
  return entries == 1 || entries * 32 <= abi::QueueTraits::depth(traits) / 2;
}
/// The threads that may share a reservation with the caller: none, or threads of its warp that make
/// the same call at the same time.
enum class Sharing { kNone, kWarp };
template <Sharing kSharing>
GSHMEM_FN bool is_shared(std::uint32_t traits, std::uint32_t entries) {
  if (kSharing == Sharing::kNone || is_exclusive(traits) || is_alone()) return false;
  return fits_by_warp(traits, entries);
}
/// The ways to post, which synchronize at different points, and so need separate groups. A call
/// that waits for completion must not delay one that returns before.
enum class CoalesceGroup : std::uint32_t { kAtOnce = 0, kBySteps = 64, kAwaited = 96 };
/// Forms a group of the threads that arrive together, take the same path, and have the same number
/// of entries. (Cursors are 384 bytes apart.)
template <class Entries>
GSHMEM_FN Converged group_at(const QueueCursor* cursor, CoalesceGroup path,
                             const Entries& entries) {
  const std::uint32_t image = std::is_same_v<Entries, OneEntry>         ? 0
                              : std::is_same_v<Entries, SignalledEntry> ? 16
                              : std::is_same_v<Entries, KeyedEntry>     ? 256
                                                                        : 128;
  return Converged(reinterpret_cast<std::uintptr_t>(cursor) + static_cast<std::uint32_t>(path) +
                   image + entries.entries());
}

/// Stores the address vector of the target into the entries of an initiator. All views of an
/// initiator have one cursor.
GSHMEM_OUTLINE void address_entries(PostingOf<WqeImage>& posting) {
  posting.cursor = posting.queue.cursor();
  const abi::AddressVector& to = posting.state->nic.vectors[posting.queue.pe()];
  address_image(posting.entries, reinterpret_cast<const Word16*>(&to));
}
/// Prepares the entries for the queue. An initiator takes only a WqeImage.
template <class Entries>
GSHMEM_FN void prepare(PostingOf<Entries>& posting) {
  if constexpr (std::is_same_v<Entries, WqeImage>)
    if (is_dynamic(posting.traits())) address_entries(posting);
}

/// Posts the entries. `awaited_as` is the name of the call if it returns when everything is
/// complete. Returns false if it was not posted or failed, which is then recorded as a fault.
template <Sharing kSharing, class Entries>
GSHMEM_FN bool post(PostingOf<Entries>& posting, const char* awaited_as = nullptr) {
  prepare(posting);
  const std::uint32_t traits = posting.traits(), own = posting.entries.entries();
  const QueueView* const view = posting.queue.view();
  QueueCursor* const cursor = posting.cursor;
  if (!is_shared<kSharing>(traits, own)) {
    keep_in_memory(posting);
    posting.first = post_at_once(view, cursor, traits, posting.entries, Alone{});
    if (Reservation::is_at_once(posting.first) && !awaited_as) return true;
    posting.group = Converged::self();
  } else {
    const Converged group = group_at(
        cursor, awaited_as ? CoalesceGroup::kAwaited : CoalesceGroup::kAtOnce, posting.entries);
    posting.group = group;
    keep_in_memory(posting);
    posting.first = post_at_once(view, cursor, traits, posting.entries, group);
    if (Reservation::is_at_once(posting.first) && !awaited_as) return true;
  }
  return post_end(posting, awaited_as);
}

/// Posts the entries step by step, after begin_wait. If an entry has a remote address, call prepare
/// first. The caller records the fault (post_report).
template <Sharing kSharing, class Entries>
GSHMEM_FN void post_by_steps(PostingOf<Entries>& posting) {
  const std::uint32_t own = posting.entries.entries();
  posting.group = is_shared<kSharing>(posting.traits(), own)
                      ? group_at(posting.cursor, CoalesceGroup::kBySteps, posting.entries)
                      : Converged::self();
  step_reserve(posting);
  post_reserved(posting);
}

}  // namespace gshmem::device
