// The short way into a queue: a call whose WQEs are known beforehand, in at most three entries that
// are made where they are to lie. It is the protocol of queue.h, with what can be asked for at once
// asked for at once: the reservation, how far the NIC and the writers before are, and the queue's
// own values; and with fences of which each is there for one reason. Whoever finds no room, or that
// it is not its turn, goes on in queue.h. Measured by perftest/issue_cost.
#pragma once

#include "queue.h"

namespace gshmem::device {

/// The image of a call that goes to its entries of the queue unit by unit as it is made.
class EntryStore {
 public:
  std::uint32_t units = 0, second = 0;  ///< for the image functions
  /// `mask` is of entries; `last` the first entry of the last WQE, which gets the flags.
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

// What a call may consist of. `fill` makes the image, given the keys of both heaps; `entries` and
// `last` say how many entries that takes, and which of them is the first of the last WQE.

struct TransferEntry {
  std::uint64_t remote, local;  ///< offsets into the heaps
  std::uint32_t bytes;
  Opcode opcode;
  GSHMEM_FN std::uint32_t entries() const { return 1; }
  GSHMEM_FN std::uint32_t last() const { return 0; }
  template <class Image>
  GSHMEM_FN void fill(Image& image, Be32 local_key, Be32 remote_key) const {
    image_transfer(image, opcode, {remote, remote_key}, {local, local_key}, bytes);
  }
};

struct InlineEntry {
  std::uint64_t remote;
  ShortPayload payload;
  std::uint32_t bytes;
  GSHMEM_FN std::uint32_t entries() const { return 1; }
  GSHMEM_FN std::uint32_t last() const { return 0; }
  template <class Image>
  GSHMEM_FN void fill(Image& image, Be32, Be32 remote_key) const {
    image_short_inline(image, {remote, remote_key}, payload, bytes);
  }
};

/// An atomic, alone or behind a transfer. Made beforehand in local memory, because at once it would
/// take too many registers.
struct AtomicEntries {
  /// For old values that nobody wants.
  static constexpr std::uint64_t kSink = offsetof(abi::InternalArea, sink);
  static constexpr std::uint32_t kMostAlone = 2;  ///< entries of an atomic
  std::uint32_t units = 0, second = 0;
  Word16 unit[10];  ///< an atomic of up to 5 units, a transfer in front or a DUMP behind

  GSHMEM_FN void put(std::uint32_t at, Word16 word) { unit[at] = word; }
  GSHMEM_FN std::uint32_t entries() const { return (units + 3) / 4; }
  GSHMEM_FN std::uint32_t last() const { return second / 4; }
  template <class Image>
  GSHMEM_FN void fill(Image& image, Be32, Be32) const {
    GSHMEM_NO_UNROLL
    for (std::uint32_t at = 0; at < units; ++at) image.put(at, unit[at]);
    image.units = units;
    image.second = second;
  }
};
GSHMEM_OUTLINE void make_atomic(AtomicEntries& entries, Queue queue, std::uint64_t remote,
                                const Amo& amo, std::uint64_t result) {
  image_amo(entries, entries.second, amo, {remote, queue.remote_key()},
            {result, queue.local_key()});
}
/// The old value that an atomic has fetched may be on its way when the atomic is complete, as data
/// of READs (request.h, make_dump).
GSHMEM_OUTLINE void append_dump(AtomicEntries& entries, Queue queue, std::uint64_t result) {
  image_dump(entries, entries.entries() * 4, {result, queue.local_key()}, sizeof(std::uint64_t));
}
GSHMEM_OUTLINE void make_transfer(AtomicEntries& entries, Queue queue,
                                  const TransferEntry& transfer) {
  transfer.fill(entries, queue.local_key(), queue.remote_key());
  entries.second = 4;
}

/// How far the short way has led.
enum class IssueEnd : std::uint32_t {
  kDone,  ///< published, by a thread alone
  kMeet,  ///< written; the first thread of the group has published, and the others wait for that
  kTurn,  ///< written; writers before have not published
  kRoom,  ///< reserved; entries of the lap before may not be complete
};

/// Reservation without room, in the word that a group shares.
inline constexpr std::uint64_t kNoRoom = std::uint64_t{1} << 63;

/// What the first thread of a group has learnt with its reservation. Counts are the low bits: what
/// is compared is far less than 2^28 apart.
struct Taken {
  std::uint64_t first = 0;   ///< entry; with kNoRoom if queue.h has to look
  std::uint32_t word = 0;    ///< of `ready`
  std::uint32_t behind = 0;  ///< entries reserved by all
};

/// A call on its way. It lies in local memory for the sake of registers, as a Post does: loads from
/// there cost little while the answer to the reservation is under way.
struct Issue {
  const State* state;
  const QueueView* queue;
  QueueCursor* cursor;
  Taken taken;
  Converged group;         ///< threads that share the reservation
  abi::ScratchSlot* slot;  ///< where what it reads arrives, if that is not in the heap
};
template <class Entries>
struct IssueOf : Issue {
  Entries entries;
};

GSHMEM_FN bool is_exclusive(std::uint32_t traits) {
  return (traits & abi::QueueTraits::kExclusive) != 0;
}

/// `count` entries of a queue that only the calling thread uses. What it knows of the NIC lies
/// beside its own cursor, in its cache.
GSHMEM_FN Taken issue_take_own(QueueCursor* cursor, std::uint32_t traits, std::uint32_t count) {
  Taken taken{load_own(&cursor->reserved)};
  std::uint64_t room = load_own(&cursor->room);
  const std::uint64_t end = taken.first + count;
  if (end > room) {
    room = load_before_stores(&cursor->done) + abi::QueueTraits::depth(traits);
    store_own(&cursor->room, room);
  }
  store_own(&cursor->reserved, end);
  if (end > room) taken.first |= kNoRoom;
  return taken;
}

/// The same of any queue. All that is asked for is under way before the first answer is needed.
GSHMEM_FN Taken issue_take(QueueCursor* cursor, std::uint32_t traits, std::uint32_t count) {
  if (is_exclusive(traits)) return issue_take_own(cursor, traits, count);
  Taken taken{atomic_fetch_add_gpu(&cursor->reserved, count)};
  taken.word = static_cast<std::uint32_t>(load_before_stores(&cursor->ready));
  taken.behind = static_cast<std::uint32_t>(load_before_stores(&cursor->reserved));
  const std::uint32_t done = static_cast<std::uint32_t>(load_before_stores(&cursor->done));
  const std::uint32_t end = static_cast<std::uint32_t>(taken.first) + count;
  if (end - done > abi::QueueTraits::depth(traits)) taken.first |= kNoRoom;
  return taken;
}

/// As far as the consumer must see. A release only: an acquire would also drop what is cached, the
/// queue's values and the state among it, for nothing, because nothing is loaded that other writers
/// have stored. (That they have published means that their stores have reached the consumer: the
/// addition that says so began when their fence had ended.)
///
/// Each fence is in a loop that never goes round: short branches become predicates, and a fence
/// that is predicated off still takes 160 clocks.
GSHMEM_FN void issue_fence(std::uint32_t traits) {
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

/// The turn is that of the writer whose first entry is `first`.
GSHMEM_FN bool is_turn(std::uint32_t word, std::uint64_t first) {
  constexpr std::uint32_t kBits = PublishedWord::kBits;
  return word >> kBits == (static_cast<std::uint32_t>(first) << kBits) >> kBits;
}

/// In the turn of the group's first thread: publishes `count` entries, the last `tail` of which are
/// the last WQE.
template <class Bells>
GSHMEM_FN void issue_publish(const Bells& bells, QueueCursor* cursor, std::uint32_t traits,
                             const Taken& taken, std::uint32_t count, std::uint32_t tail) {
  const bool exclusive = is_exclusive(traits);
  const std::uint32_t first = static_cast<std::uint32_t>(taken.first), end = first + count;
  // Nobody has reserved behind, or a multiple of `batch` was crossed. (Exclusive: `behind` is 0.)
  const bool rings = exclusive || static_cast<std::int32_t>(taken.behind - end) <= 0 ||
                     ((first ^ end) & ~(abi::QueueTraits::batch(traits) - 1)) != 0;
  if (rings) {
    const QueueBells at = bells();
    store_record(&at.send_record->raw, Be32(end & 0xffff).raw);
    if (traits & abi::QueueTraits::kRecordFirst) issue_fence(traits);
    store_doorbell(at.doorbell, abi::doorbell_value(end, at.number));
  }
  if (exclusive) {
    // The next user synchronizes with this one.
    store_relaxed(&cursor->ready, PublishedWord::make(taken.first + count, tail));
  } else {
    const std::uint32_t next = static_cast<std::uint32_t>(PublishedWord::make(end, tail));
    queue_advance(cursor, next - taken.word, rings);
  }
}

/// Reserves, writes and publishes. One function that calls nothing (see Wait for what a call
/// costs); what one part leaves to the next lies in `issue`. `Group` is Alone or Converged.
template <class Entries, class Group>
GSHMEM_OUTLINE IssueEnd issue_now(IssueOf<Entries>& issue, std::uint32_t traits, Group group) {
  const std::uint32_t own = issue.entries.entries();
  if (group.first()) {
    issue.taken = issue_take(issue.cursor, traits, own * static_cast<std::uint32_t>(group.size()));
  }
  const std::uint64_t first = group.from_first(issue.taken.first);
  issue.taken.first = first & ~kNoRoom;
  // The first call of all goes on in queue.h, too, which notes that the queue is used.
  if (static_cast<std::int64_t>(first) <= 0) return IssueEnd::kRoom;
  keep_in_memory(issue);

  const std::uint32_t last = issue.entries.last();
  const QueueEntries place = Queue(issue.queue).place();
  // The last WQE of the group asks for a completion.
  EntryStore store(
      place.entries, abi::QueueTraits::depth(traits) - 1,
      static_cast<std::uint32_t>(first) + static_cast<std::uint32_t>(group.rank()) * own,
      place.number, last, group.last() ? abi::kCqUpdate : 0);
  issue.entries.fill(store, Queue(issue.queue).local_key(), place.remote_key);
  keep_in_memory(issue);
  group.sync();
  if (group.first()) {
    const Taken taken = issue.taken;
    issue_fence(traits);
    if (!is_exclusive(traits) && !is_turn(taken.word, taken.first)) return IssueEnd::kTurn;
    issue_publish([&] { return Queue(issue.queue).bells(); }, issue.cursor, traits, taken,
                  own * static_cast<std::uint32_t>(group.size()), own - last);
  }
  return group.alone() ? IssueEnd::kDone : IssueEnd::kMeet;
}

/// Publishes in a turn that has to be waited for. What is needed then is loaded before, because
/// writers behind are waiting, too. If the turn does not come, `wait.end` says why.
GSHMEM_OUTLINE void issue_publish_late(const Issue& issue, Wait& wait, std::uint32_t count,
                                       std::uint32_t tail) {
  const QueueBells bells = wait.queue.bells();
  QueueCursor* const cursor = issue.cursor;
  const std::uint32_t traits = wait.state->nic.traits;
  Taken taken{issue.taken.first};
  wait.await = Await::kTurn;
  wait.target = issue.taken.first;
  unsigned polls = 1;
  GSHMEM_NO_UNROLL
  for (;;) {
    taken.word = static_cast<std::uint32_t>(load_before_stores(&cursor->ready));
    taken.behind = static_cast<std::uint32_t>(load_before_stores(&cursor->reserved));
    if (is_turn(taken.word, taken.first)) break;
    if (!post_may_wait(wait, polls++)) return;
  }
  issue_publish([&] { return bells; }, cursor, traits, taken, count, tail);
}

/// What a call that found no room becomes: a Post behind its reservation. True: its first thread
/// must wait.
template <class Entries>
GSHMEM_OUTLINE bool issue_become(const IssueOf<Entries>& issue, Post& post) {
  const Queue queue(issue.queue);
  post.group = issue.group;
  post.first = issue.taken.first;
  issue.entries.fill(post.image, queue.local_key(), queue.remote_key());
  return post.group.first() && queue_want_room(post);
}

/// The rest of a call: what it has to wait for. False: it had to end without.
template <class Entries>
GSHMEM_FN bool issue_rest(const IssueOf<Entries>& issue, IssueEnd end, bool waits,
                          const char* call) {
  Post post;
  post.state = issue.state;
  post.queue = Queue(issue.queue);
  post.call = call;
  if (end == IssueEnd::kRoom) {
    if (issue_become(issue, post)) queue_await(post);
    if (queue_write(post)) queue_await(post);
    queue_publish(post);
  } else {
    const std::uint32_t own = issue.entries.entries(), tail = own - issue.entries.last();
    const std::uint32_t count = own * static_cast<std::uint32_t>(issue.group.size());
    if (end == IssueEnd::kTurn) issue_publish_late(issue, post, count, tail);
    issue.group.sync();  // the others see `ready` too: a quiet of theirs waits for these
    if (post.end == PostEnd::kGood) {
      post.await = Await::kDone;
      post.target = issue.taken.first + count - tail + 1;
    }
  }
  if (waits && post.good()) queue_await(post);
  return post_report(post) && post.good();
}

/// Threads of the warp that are here with the same queue share a reservation of all. As in
/// queue_reserve, but with keys of their own: a cursor is 384 bytes long, so that 64 more is none
/// of those there.
template <class Entries>
GSHMEM_FN IssueEnd issue_start(IssueOf<Entries>& issue, std::uint32_t traits) {
  const std::uint32_t own = issue.entries.entries();
  if (is_exclusive(traits) || is_alone() ||
      (own > 1 && own * 32 > abi::QueueTraits::depth(traits) / 2)) {
    return issue_now(issue, traits, Alone{});
  }
  issue.group = Converged(reinterpret_cast<std::uintptr_t>(issue.cursor) + 64 + own);
  return issue_now(issue, traits, issue.group);
}

/// A call to `pe`: what it needs of the state, which is fetched here, where it comes from constant
/// memory.
GSHMEM_FN void issue_to(Issue& issue, const State& state, std::uint32_t index) {
  issue.state = &state;
  issue.queue = state.nic.queues + index;
  issue.cursor = state.nic.cursors + index;
}

/// Makes the call, and waits until it is complete if the caller says so. False: it could not, which
/// is on record as a fault then.
template <class Entries>
GSHMEM_FN bool issue_call(IssueOf<Entries>& issue, const State& state, bool waits,
                          const char* call) {
  const IssueEnd end = issue_start(issue, state.nic.traits);
  return (end == IssueEnd::kDone && !waits) || issue_rest(issue, end, waits, call);
}

}  // namespace gshmem::device
