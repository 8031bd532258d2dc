// The short way into a queue: a call whose WQEs are known beforehand, in at most three entries that
// are made where they are to lie. It is the protocol of ring.h, with what can be asked for at once
// asked for at once: the reservation, how far the NIC and the writers before are, and the queue's
// own values; and with fences of which each is there for one reason. Whoever finds no room goes on
// in ring.h. Measured by perftest/issue_cost.
#pragma once

#include "ring.h"

namespace gshmem::device {

/// The image of one WQE that goes to the queue unit by unit as it is made.
class EntryStore {
 public:
  std::uint32_t units = 0, second = 0;  ///< for the image functions
  GSHMEM_FN EntryStore(Word16* entries, std::uint32_t mask, std::uint32_t index,
                       std::uint32_t number, std::uint32_t flags)
      : entries_(entries), mask_(mask), index_(index), number_(number), flags_(flags) {}
  GSHMEM_FN void put(std::uint32_t at, Word16 unit) const {
    if (at == 0) unit = placed(unit, index_, number_, flags_);
    store_bulk(entries_ + ((index_ * 4 + at) & mask_), unit);
  }

 private:
  Word16* entries_;
  std::uint32_t mask_;  ///< of units
  std::uint32_t index_, number_, flags_;
};

// What a call may consist of. `fill` makes the image, given the keys of both heaps; `entries` and
// `last` say how many entries that takes, and which of them is the first of the last WQE. `each`
// gives the parts that are stored one by one (all at once would take more registers), with the
// entry where the WQE of each begins.

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
  template <class Write>
  GSHMEM_FN void each(const Write& write) const {
    write(0u, *this);
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
  template <class Write>
  GSHMEM_FN void each(const Write& write) const {
    write(0u, *this);
  }
};

/// Nobody wants the old value.
struct AtomicEntry {
  std::uint64_t remote;
  Amo amo;
  static constexpr std::uint64_t kSink = offsetof(abi::InternalArea, sink);

  struct Operands {
    const AtomicEntry& entry;
    template <class Image>
    GSHMEM_FN void fill(Image& image, Be32, Be32) const {
      image_amo_operands(image, 0, entry.amo);
    }
  };
  struct Places {
    const AtomicEntry& entry;
    template <class Image>
    GSHMEM_FN void fill(Image& image, Be32 local_key, Be32 remote_key) const {
      image.units = amo_units(entry.amo.op, entry.amo.width);
      image_amo_places(image, 0, entry.amo.width, {entry.remote, remote_key}, {kSink, local_key});
    }
  };
  GSHMEM_FN std::uint32_t entries() const { return (amo_units(amo.op, amo.width) + 3) / 4; }
  GSHMEM_FN std::uint32_t last() const { return 0; }
  template <class Image>
  GSHMEM_FN void fill(Image& image, Be32 local_key, Be32 remote_key) const {
    image_amo(image, 0, amo, {remote, remote_key}, {kSink, local_key});
  }
  template <class Write>
  GSHMEM_FN void each(const Write& write, std::uint32_t at = 0) const {
    write(at, Operands{*this});
    write(at, Places{*this});
  }
};

/// A transfer and an atomic behind it.
struct SignalledEntries {
  TransferEntry transfer;
  AtomicEntry signal;
  GSHMEM_FN std::uint32_t entries() const { return 1 + signal.entries(); }
  GSHMEM_FN std::uint32_t last() const { return 1; }
  template <class Image>
  GSHMEM_FN void fill(Image& image, Be32 local_key, Be32 remote_key) const {
    image.second = 4;
    transfer.fill(image, local_key, remote_key);
    image_amo(image, 4, signal.amo, {signal.remote, remote_key}, {AtomicEntry::kSink, local_key});
  }
  template <class Write>
  GSHMEM_FN void each(const Write& write) const {
    write(0u, transfer);
    signal.each(write, 1);
  }
};

/// A call on its way. As a Post, and for the same reason, it lies in local memory, and is worked
/// off in steps that call nothing further.
struct Issue : Wait {
  QueueCursor* cursor = nullptr;
  std::uint32_t traits = 0;  ///< abi::QueueTraits
  std::uint32_t own = 0;     ///< entries of each thread
  Converged group{};         ///< threads that share the reservation
  std::uint64_t first = 0;   ///< entry of the group
  std::uint64_t word = 0;    ///< of `ready`, as the first thread saw it
  std::uint64_t behind = 0;  ///< entries reserved by all, likewise

  GSHMEM_FN bool is(std::uint32_t trait) const { return (traits & trait) != 0; }
  GSHMEM_FN std::uint32_t count() const { return own * static_cast<std::uint32_t>(group.size()); }
};

/// Notes that the queue has been used; out of line, since that is once.
GSHMEM_OUTLINE void issue_first(const Issue& issue) {
  const std::uint32_t index = issue.queue.index();
  atomic_or(&issue.state->nic.used[index / 32], 1u << index % 32);
}

/// Reservation without room, in the word that a group shares.
inline constexpr std::uint64_t kNoRoom = std::uint64_t{1} << 63;

/// Entries for the whole group, by its first thread: `first`, with kNoRoom where those of the lap
/// before may not be complete. All that is asked for is under way before the first answer is
/// needed.
GSHMEM_FN std::uint64_t issue_take(Issue& issue) {
  QueueCursor* cursor = issue.cursor;
  const std::uint32_t count = issue.count();
  std::uint64_t first, word = 0, behind = 0, done;
  if (issue.is(abi::QueueTraits::kExclusive)) {
    first = load_relaxed(&cursor->reserved);
    done = load_before_stores(&cursor->done);
    store_relaxed(&cursor->reserved, first + count);
  } else {
    first = atomic_fetch_add_gpu(&cursor->reserved, count);
    word = load_before_stores(&cursor->ready);
    behind = load_before_stores(&cursor->reserved);
    done = load_before_stores(&cursor->done);
  }
  const bool room = first + count <= done + abi::QueueTraits::depth(issue.traits);
  issue.word = word;
  issue.behind = behind;
  return room ? first : first | kNoRoom;
}

/// Makes the group and its reservation. True: there was room.
GSHMEM_OUTLINE bool issue_reserve(Issue& issue) {
  // As in queue_reserve; who does that at the same time is elsewhere in the code, and in no group
  // of these.
  const bool together = !issue.is(abi::QueueTraits::kExclusive) &&
                        issue.own * 32 <= abi::QueueTraits::depth(issue.traits) / 2;
  issue.group = together
                    ? Converged(reinterpret_cast<std::uintptr_t>(issue.cursor) + 64 + issue.own)
                    : Converged();
  std::uint64_t first = 0;
  if (issue.group.first()) first = issue_take(issue);
  first = issue.group.from_first(first);
  issue.first = first & ~kNoRoom;
  return (first & kNoRoom) == 0;
}

/// Stores a WQE of the calling thread, at its entry `at`.
template <class Entry>
GSHMEM_OUTLINE void issue_write(const Issue& issue, const Entry& entry, std::uint32_t at,
                                std::uint32_t flags) {
  const std::uint32_t index = static_cast<std::uint32_t>(issue.first) + at +
                              static_cast<std::uint32_t>(issue.group.rank()) * issue.own;
  EntryStore store(reinterpret_cast<Word16*>(issue.queue.entries()),
                   abi::QueueTraits::depth(issue.traits) * 4 - 1, index, issue.queue.number(),
                   flags);
  entry.fill(store, issue.queue.local_key(), issue.queue.remote_key());
}

/// As far as the consumer must see. A release only: an acquire would also drop what is cached, the
/// queue's values and the state among it, for nothing, because nothing is loaded that other writers
/// have stored. (That they have published means that their stores have reached the consumer: the
/// addition that says so began when their fence had ended.)
GSHMEM_FN void issue_fence(const Issue& issue) {
  if (issue.is(abi::QueueTraits::kGpuMemory)) {
    fence_release_gpu();
  } else {
    fence_release_system();
  }
}

/// The group's entries are where the consumer sees them. True: their first thread must wait for the
/// turn (queue_await).
GSHMEM_OUTLINE bool issue_line_up(Issue& issue) {
  issue_fence(issue);
  if (issue.is(abi::QueueTraits::kExclusive)) return false;
  if (PublishedWord::end(issue.word) == issue.first) return false;
  issue.await = Await::kTurn;
  issue.target = issue.first;
  return true;
}

/// In the turn of the group's first thread: record and doorbell of everything before `end`.
GSHMEM_FN void issue_ring(const Issue& issue, std::uint32_t end) {
  store_flag(&issue.queue.send_record()->raw, Be32(end & 0xffff).raw);
  if (issue.is(abi::QueueTraits::kRecordFirst)) issue_fence(issue);
  store_doorbell(issue.queue.doorbell(), abi::doorbell_value(end, issue.queue.number()));
}

/// In the turn of the group's first thread, `tail` entries being those of the last WQE. `waited`:
/// the turn has come since the reservation.
GSHMEM_OUTLINE void issue_publish(Issue& issue, std::uint32_t tail, bool waited) {
  const bool exclusive = issue.is(abi::QueueTraits::kExclusive);
  const std::uint64_t word = waited ? load_relaxed(&issue.cursor->ready) : issue.word;
  const std::uint64_t end = issue.first + issue.count();
  const std::uint64_t boundary = ~std::uint64_t{abi::QueueTraits::batch(issue.traits) - 1};
  const bool rings =
      exclusive || issue.behind <= end || (issue.first & boundary) != (end & boundary);
  if (rings) issue_ring(issue, static_cast<std::uint32_t>(end));
  const std::uint64_t next = PublishedWord::make(end, tail);
  if (exclusive) {
    store_relaxed(&issue.cursor->ready, next);  // the next user synchronizes with this one
  } else {
    queue_advance(issue.cursor, word, next, rings);
  }
}

/// What a call that found no room becomes: a Post behind its reservation. True: its first thread
/// must wait.
template <class Entries>
GSHMEM_OUTLINE bool issue_become(const Issue& issue, const Entries& entries, Post& post) {
  static_cast<Wait&>(post) = issue;
  post.group = issue.group;
  post.first = issue.first;
  entries.fill(post.image, issue.queue.local_key(), issue.queue.remote_key());
  post.await = Await::kRoom;
  post.target = issue.first + issue.count() - abi::QueueTraits::depth(issue.traits);
  return post.group.first();
}

/// A call and its way. The caller makes it in its local memory, each value where it is computed, so
/// that only its address is a register.
template <class Entries>
struct IssueOf : Issue {
  Entries entries;
};

/// The rest of a call without room; the same steps as queue_try_post.
template <class Entries>
GSHMEM_FN void issue_late(IssueOf<Entries>& issue) {
  Post post;
  if (issue_become(issue, issue.entries, post)) queue_await(post);
  if (queue_write(post)) queue_await(post);
  queue_publish(post);
  static_cast<Wait&>(issue) = post;
}

/// The rest of a call with room.
template <class Entries>
GSHMEM_FN void issue_now(IssueOf<Entries>& issue) {
  issue.entries.each([&](std::uint32_t at, const auto& entry) {
    // The last WQE of the group asks for a completion.
    const bool asks = issue.group.last() && at == issue.entries.last();
    issue_write(issue, entry, at, asks ? abi::kCqUpdate : 0);
  });
  const std::uint32_t tail = issue.group.from_last(issue.own - issue.entries.last());
  issue.group.sync();
  if (issue.group.first()) {
    const bool waits = issue_line_up(issue);
    if (!waits || queue_await(issue)) issue_publish(issue, tail, waits);
  }
  issue.group.sync();  // the others see `ready` too: a quiet of theirs waits for these
  if (issue.end != PostEnd::kGood) return;
  issue.await = Await::kDone;
  issue.target = issue.first + issue.count() - tail + 1;
}

/// Makes the call, and waits until it is complete if the caller says so. What could not be done is
/// on record as a fault when it returns.
template <class Entries>
GSHMEM_FN void issue_call(IssueOf<Entries>& issue, bool waits) {
  issue.own = issue.entries.entries();
  const bool room = issue_reserve(issue);
  if (issue.first == 0 && issue.group.first()) issue_first(issue);
  room ? issue_now(issue) : issue_late(issue);
  if (waits && issue.good()) queue_await(issue);
  if (issue.end != PostEnd::kGood) post_report(issue);
}

}  // namespace gshmem::device
