// A burst: messages of a thread, or of the threads of a warp side by side, to one PE. It needs one
// fence and one doorbell for as many messages as the caller likes. It uses the queue of a private
// context, and keeps its values and cursor in registers. So a message costs three stores and some
// additions. The protocol is that of post.h for an exclusive queue, but reservation and publication
// cover many entries at a time. The public class is gshmem::Burst (include/gshmem/burst.hpp).
// Measured by perftest/issue_cost.
#pragma once

#include "api.h"
#include "../core/register_bounds.h"
#include "../network/post.h"

namespace gshmem::device {

/// The entry of a thread that has no message while others of its group have one.
struct IdleEntry {
  template <class Image, class Keys>
  GSHMEM_FN void fill(Image& image, const Keys&) const {
    image.put(0, control_unit({Opcode::kNop, 0, 1, 0}));
  }
};

/// Waits until half of the queue is free from entry `next` on. At the first use of the queue it
/// marks the queue as used. Returns a number of free entries that is the same for all threads of a
/// group, which must take the same branches. So it is not the exact number. Returns 0 if the wait
/// had to end early, which is recorded.
GSHMEM_OUTLINE std::uint32_t burst_room(const State* state, const QueueView* view,
                                        std::uint64_t next) {
  Wait wait;
  begin_wait(wait, state, view, "burst");
  if (next == 0) queue_note_used(wait);
  if (wait.queue.number() == 0) queue_connect(wait);
  if (!wait.good()) return post_report(wait) ? 1 : 0;
  const std::uint32_t half = abi::QueueTraits::depth(state->nic.traits) / 2;
  if (next <= half) return half;
  wait_for(wait, Await::kRoom, next - half);
  queue_await(wait);
  return post_report(wait) ? half : 0;
}

// The slow parts of a Burst, out of line.
template <class Burst>
GSHMEM_OUTLINE void burst_put(Burst& burst, void* dest, const void* source, std::size_t bytes) {
  burst.put_slowly(dest, source, bytes);
}
template <class Burst>
GSHMEM_OUTLINE void burst_put_word(Burst& burst, void* dest, std::uint64_t raw,
                                   std::uint32_t bytes) {
  burst.put_word_slowly(dest, raw, bytes);
}
template <class Burst>
GSHMEM_OUTLINE void burst_signal(Burst& burst, SignalUpdate update) {
  burst.signal_slowly(update);
}
template <class Burst>
GSHMEM_OUTLINE void burst_ring(Burst& burst) {
  burst.ring();
}

/// Calls all these functions, to bound the registers of relocatable code (register_bounds.h).
template <class Burst>
struct BurstFit {
  Burst* burst;
  void* dest;
  const void* source;
  SignalUpdate update;
};
template <class Coop, class Burst>
GSHMEM_FN int fit_burst(Coop, const BurstFit<Burst>& w) {
  burst_put(*w.burst, w.dest, w.source, w.update.value);
  burst_put_word(*w.burst, w.dest, w.update.value, w.update.op);
  burst_signal(*w.burst, w.update);
  burst_ring(*w.burst);
  return 0;
}

/// Messages on a queue that no other code uses while this object lives. All threads of the group
/// make each call, and the first one rings. Without such a queue the calls are those of api.h.
///
/// All values are in registers. Rare cases are out of line and work on a copy in memory, which is
/// copied back afterwards. So a loop of puts has one branch that is almost never taken, and no
/// value is live across a call.
template <class Coop>
class Burst {
 public:
  /// `direct`: the calling thread may post to queues.
  GSHMEM_FN Burst(Coop coop, const State& state, int pe, bool direct)
      : coop_(coop), state_(&state), pe_(pe), heap_(state.heap) {
    GSHMEM_FIT((&fit_burst<Coop, Burst>), Coop, BurstFit<Burst>);
    if (!check_arguments(state, "Burst", ToPe{pe})) {
      pe_ = kNobody;
    } else if (direct && state.nic.queues && is_exclusive(state.nic.traits) &&
               !is_mapped(state, pe)) {
      open(state, nic::queue_index(state, pe, nic::Rail::kFirst));
    }
  }

  /// Posts a message of every thread that has one. It may stay unsent until ring().
  GSHMEM_FN void put(void* dest, const void* source, Elements n) {
    const bool good = check_arguments(*state_, "Burst::put_nbi", ToPe{pe_},
                                      Symmetric{{"dest", dest, n}}, Local{{"source", source, n}});
    const std::size_t bytes = good ? n.bytes() : 0;
    if (coop_.any(!(is_simple(dest, source, bytes) && has_known_room(count())))) {
      Burst copy = *this;
      burst_put(copy, dest, source, bytes);
      *this = copy;
    } else {
      post(bytes != 0, transfer(dest, source, bytes));
    }
  }
  /// Does what put() does, with up to 8 bytes inside the entry.
  GSHMEM_FN void put_word(void* dest, std::uint64_t raw, std::uint32_t bytes) {
    if (!check_arguments(*state_, "Burst::p", ToPe{pe_}, Symmetric{{"dest", dest, {bytes, 1}}}))
      bytes = 0;
    if (coop_.any(!(is_simple(dest, bytes) && has_known_room(count())))) {
      Burst copy = *this;
      burst_put_word(copy, dest, raw, bytes);
      *this = copy;
    } else {
      post(bytes != 0, word(dest, raw, bytes));
    }
  }
  /// Updates 8 bytes, by the first thread, after all messages of all threads. Then it rings.
  GSHMEM_FN void signal(SignalUpdate update) {
    Burst copy = *this;
    burst_signal(copy, update);
    *this = copy;
  }
  /// Rings, so that the NIC begins with the posted messages.
  GSHMEM_FN void ring() {
    if (pending_ == 0) return;
    // The last thread's entry is the last WQE, which requests the completion of all.
    if (coop_.thread_rank() == coop_.size() - 1) {
      store_entry_flags(layout_.entries + ((next() - 1) & mask_) * 4, abi::kCqUpdate);
    }
    publish(1);
  }
  /// Does what ring() does, out of line.
  GSHMEM_FN void end() {
    if (pending_ == 0) return;
    Burst copy = *this;
    burst_ring(copy);
    pending_ = 0;
  }

  // The rare cases, on the object in memory. Called by all threads of the group.

  GSHMEM_FN void put_slowly(void* dest, const void* source, std::size_t bytes) {
    if (!view_) {
      if (bytes == 0 || pe_ == kNobody) return;
      api::put_nbi({*state_, "Burst::put_nbi"}, LeanThread{}, dest, source, {bytes, 1}, pe_);
    } else if (coop_.any(bytes != 0 && !is_simple(dest, source, bytes))) {
      put_each(dest, source, bytes);
    } else {
      post_slowly(bytes != 0, transfer(dest, source, bytes));
    }
  }
  GSHMEM_FN void put_word_slowly(void* dest, std::uint64_t raw, std::uint32_t bytes) {
    if (view_ && coop_.any(bytes != 0 && !is_simple(dest, bytes))) {
      put_each(dest, &raw, bytes);
    } else if (view_) {
      post_slowly(bytes != 0, word(dest, raw, bytes));
    } else if (pe_ != kNobody) {
      if (bytes == 1) store_word<std::uint8_t>(dest, raw);
      if (bytes == 2) store_word<std::uint16_t>(dest, raw);
      if (bytes == 4) store_word<std::uint32_t>(dest, raw);
      if (bytes == 8) store_word<std::uint64_t>(dest, raw);
    }
  }
  GSHMEM_FN void signal_slowly(SignalUpdate update) {
    const api::Caller caller{*state_, "Burst::signal"};
    if (pe_ == kNobody || !check_arguments(*state_, caller.name, SignalOp{update.op},
                                           device::word("sig_addr", update.address)))
      return;
    if (view_ && !is_dynamic(traits_)) {
      post_atomic(update);
      return;
    }
    if (view_) ring();
    coop_.sync();
    if (coop_.thread_rank() == 0) {
      if (!view_) api::quiet(caller);  // an initiator keeps the order by itself
      // After a fault messages may be missing that the signal would announce.
      if (load_acquire(&state_->control->stop) == 0) api::signal_op(caller, update, pe_);
    }
    coop_.sync();  // a quiet of the others covers the signal
    if (view_) note_posted();
  }

 private:
  static constexpr int kNobody = -1;  ///< the PE of a burst that was begun with an invalid argument

  GSHMEM_FN void open(const State& state, std::uint32_t index) {
    view_ = state.nic.queues + index;
    cursor_ = state.nic.cursors + index;
    traits_ = state.nic.traits;
    heap_bytes_ = state.heap_bytes;
    most_ = state.nic.max_message;
    const Queue queue(view_);
    layout_ = queue.layout();
    bells_ = queue.bells(layout_.number);
    local_key_ = queue.local_key();
    mask_ = abi::QueueTraits::depth(traits_) - 1;
    if (is_dynamic(traits_)) {  // put_each takes all messages, because they have no entry of one
      cursor_ = queue.cursor();
      heap_bytes_ = 0;
    }
    published_ = load_own(&cursor_->reserved);
  }

  template <class T>
  GSHMEM_FN static T low(std::uint64_t raw) {
    return static_cast<T>(raw);
  }
  /// An element of any alignment.
  template <class T>
  struct Bytes {
    unsigned char byte[sizeof(T)];
  };
  template <class T>
  GSHMEM_FN void store_word(void* dest, std::uint64_t raw) const {
    api::p({*state_, "Burst::p"}, static_cast<Bytes<T>*>(dest), bits<Bytes<T>>(low<T>(raw)), pe_);
  }
  GSHMEM_FN std::uint32_t count() const { return static_cast<std::uint32_t>(coop_.size()); }
  /// Returns the low bits of the next entry's index.
  GSHMEM_FN std::uint32_t next() const { return static_cast<std::uint32_t>(published_) + pending_; }
  GSHMEM_FN std::uint64_t offset(const void* p) const {
    return static_cast<std::uint64_t>(static_cast<const char*>(p) - heap_);
  }
  /// Is it one entry into a heap? With a group a thread may also have no message. (It is never true
  /// without a queue, because `heap_bytes_` is 0.)
  GSHMEM_FN bool is_simple(const void* dest, std::size_t bytes) const {
    return (bytes == 0 && count() != 1) || (bytes != 0 && offset(dest) < heap_bytes_);
  }
  /// Is it also an entry that reads from the local heap?
  GSHMEM_FN bool is_simple(const void* dest, const void* source, std::size_t bytes) const {
    const std::uint64_t local = offset(source);
    const std::size_t more = count() == 1 ? bytes - 1 : bytes;
    return (offset(dest) < heap_bytes_) & (more < most_) & (local < heap_bytes_) &
           (bytes <= heap_bytes_ - local);
  }
  GSHMEM_FN OneEntry transfer(void* dest, const void* source, std::size_t bytes) const {
    return transfer_entry(Opcode::kRdmaWrite, offset(dest), offset(source),
                          static_cast<std::uint32_t>(bytes));
  }
  GSHMEM_FN OneEntry word(void* dest, std::uint64_t raw, std::uint32_t bytes) const {
    return inline_entry(offset(dest), {{low<std::uint32_t>(raw), low<std::uint32_t>(raw >> 32), 0}},
                        bytes);
  }

  GSHMEM_FN EntryStore store_at(std::uint32_t index, std::uint32_t flags) const {
    return {layout_.entries, mask_, index, layout_.number, 0, flags};
  }
  /// Posts an entry of every thread. The caller has checked that there is room.
  template <class Entry>
  GSHMEM_FN void post(bool is_message, const Entry& entry) {
    EntryStore store = store_at(next() + static_cast<std::uint32_t>(coop_.thread_rank()), 0);
    entry.fill(store, HeldKeys{local_key_, layout_.remote_key});
    if (count() != 1 && !is_message) {
      IdleEntry{}.fill(store, HeldKeys{local_key_, layout_.remote_key});
    }
    pending_ += count();
  }
  template <class Entry>
  GSHMEM_FN void post_slowly(bool is_message, const Entry& entry) {
    if ((count() == 1 && !is_message) || !has_room(count())) return;
    post(is_message, entry);
  }
  /// Messages that take more than one entry take the general path, thread by thread, because the
  /// queue has one user at a time.
  GSHMEM_FN void put_each(void* dest, const void* source, std::size_t bytes) {
    ring();
    GSHMEM_NO_UNROLL
    for (int rank = 0; rank < coop_.size(); ++rank) {
      if (rank == coop_.thread_rank() && bytes != 0) {
        nic::put(Thread{}, *state_, dest, source, bytes, pe_, nic::Reuse::kAtQuiet);
      }
      coop_.sync();
    }
    note_posted();
  }
  /// Notes that the general path has posted to the queue.
  GSHMEM_FN void note_posted() {
    published_ = load_relaxed(&cursor_->reserved);
    room_ = 0;
  }
  GSHMEM_FN void post_atomic(SignalUpdate update) {
    if (!has_room(kMostAtomicEntries)) return;
    const AmoOp op = update.op == GSHMEM_SIGNAL_SET ? AmoOp::kSet : AmoOp::kAdd;
    WqeImage entries;
    make_atomic(entries, Queue(view_), offset(update.address),
                {op, sizeof(*update.address), update.value, 0}, kSink);
    if (offset(update.address) >= heap_bytes_)
      use_registered_key(entries, *state_, Queue(view_), KeyUse::kAtomic);
    if (coop_.thread_rank() == 0) {
      EntryStore store = store_at(next(), abi::kCqUpdate);
      entries.fill(store, HeldKeys{local_key_, layout_.remote_key});
    }
    pending_ += entries.entries();
    publish(entries.entries());
  }

  GSHMEM_FN bool has_known_room(std::uint32_t entries) const { return pending_ + entries <= room_; }
  GSHMEM_FN bool has_room(std::uint32_t entries) {
    if (has_known_room(entries)) return true;
    ring();
    room_ = burst_room(state_, view_, published_);
    if (layout_.number == 0) layout_.number = bells_.number = Queue(view_).number();
    if (coop_.any(room_ == 0)) room_ = 0;
    return room_ != 0;
  }
  /// Publishes the pending entries, of which the last `tail` are the last WQE.
  GSHMEM_FN void publish(std::uint32_t tail) {
    coop_.sync();
    if (coop_.thread_rank() == 0 && is_alone_on_queue()) {
      queue_fence(traits_);
      store_own(&cursor_->reserved, published_ + pending_);
      queue_ring(bells_, traits_, next());
      pass_own(cursor_, published_ + pending_, tail);
    }
    coop_.sync();  // a quiet of the others, or a later burst, sees what is stored here
    published_ += pending_;
    room_ -= pending_;
    pending_ = 0;
  }
  /// Checks that nothing was posted to the queue in between; otherwise that is a fault, if checks
  /// are on.
  GSHMEM_FN bool is_alone_on_queue() const {
    if (!kChecks) return true;
    const std::uint64_t reserved = load_own(&cursor_->reserved);
    if (reserved == published_) return true;
    return bad_argument(*state_, "Burst", "context", abi::Rule::kAloneBy, reserved, published_);
  }

  Coop coop_;
  const State* state_;
  int pe_;
  const char* heap_;
  const QueueView* view_ = nullptr;  ///< null: the burst has no own queue
  QueueCursor* cursor_ = nullptr;
  std::uint64_t heap_bytes_ = 0;
  QueueEntries layout_{};
  QueueBells bells_{};
  Be32 local_key_{};
  std::uint32_t most_ = 0;  ///< limit on the bytes of an entry
  std::uint32_t traits_ = 0, mask_ = 0;
  std::uint64_t published_ = 0;  ///< number of entries published so far
  std::uint32_t pending_ = 0;    ///< number of entries after them
  std::uint32_t room_ = 0;       ///< number of free entries after them, including pending ones
};

}  // namespace gshmem::device
