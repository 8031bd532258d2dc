// The order checker for kernels (docs/order-check.md). In programs compiled with
// -DGSHMEM_CHECK_ORDER each call checks whether its memory overlaps that of a call that is not
// complete, and is then recorded. Included by order_calls.h. Invariant: no thread has returned from
// a quiet that came after a recorded call. So calls that are reported are not ordered, whichever
// thread made them.
#pragma once

#if defined(GSHMEM_CHECK_ORDER)

#include <gshmem/abi/order_shadow.h>

#include "../core/wait.h"
#include "../ops/signal.h"
#include "../pe/caller.h"
#include "../pe/context.h"
#include "../pe/p2p.h"

#include <cstdio>

#if !defined(__CUDACC_RTC__)
/// Requests abi::OrderShadow in the heaps of PEs that are initialized later.
extern "C" __attribute__((visibility("default"))) int gshmemi_note_calls(void);
namespace {
[[maybe_unused]] const int gshmemi_calls_are_noted = gshmemi_note_calls();
}
#endif

namespace gshmem::device::order {

using abi::OrderKind;

/// Memory of a call: `count` elements of `bytes`, `stride` apart.
struct Range {
  std::uint64_t at, bytes, count;
  std::int64_t stride;

  GSHMEM_FN std::uint64_t step() const { return static_cast<std::uint64_t>(stride); }
  GSHMEM_FN std::uint64_t end() const { return at + (count - 1) * step() + bytes; }
  GSHMEM_FN bool empty() const { return bytes == 0 || count == 0; }
  /// Is a byte of it in [begin, limit)?
  GSHMEM_FN bool touches(std::uint64_t begin, std::uint64_t limit) const {
    if (empty() || begin >= end() || limit <= at) return false;
    if (count == 1) return true;
    const std::uint64_t i = begin < at + bytes ? 0 : (begin - at - bytes) / step() + 1;
    return i < count && at + i * step() < limit;
  }
};
GSHMEM_FN bool overlap(const Range& a, const Range& b) {
  if (a.empty() || b.empty()) return false;
  const Range& few = a.count < b.count ? a : b;
  const Range& many = a.count < b.count ? b : a;
  GSHMEM_NO_UNROLL
  for (std::uint64_t i = 0; i < few.count; ++i) {
    const std::uint64_t at = few.at + i * few.step();
    if (many.touches(at, at + few.bytes)) return true;
  }
  return false;
}

/// The place of a call. A finding has two; the first one may be on another PE.
struct Place {
  const char *name, *file;
  int line, pe;
};
struct Finding {
  const char *first_does, *second_does, *missing, *mend;
  bool between;  ///< the call that corrects the order belongs between the two places
};

/// Prints a pair of places once.
GSHMEM_OUTLINE void report(abi::OrderShadow* shadow, const Place& first, const Place& second,
                           const Finding& finding) {
  const auto place = [](const Place& of) {
    return (reinterpret_cast<std::uintptr_t>(of.name) << 20 ^
            static_cast<std::uint64_t>(static_cast<std::uint32_t>(of.line))) *
           0x9e3779b97f4a7c15u;
  };
  const std::uint64_t pair =
      (place(first) * 3 + place(second)) ^ reinterpret_cast<std::uintptr_t>(finding.missing);
  for (std::uint32_t i = 0; i < abi::kOrderPairs; ++i) {
    std::uint64_t* const entry = &shadow->pairs[(pair + i) % abi::kOrderPairs];
    const std::uint64_t old = atomic_compare_swap(entry, std::uint64_t{0}, pair | 1);
    if (old == (pair | 1)) return;
    if (old == 0) break;
  }
  (void)atomic_fetch_add(&shadow->findings, 1u);
  const char* const first_file = first.file ? first.file : "?";
  const char* const second_file = second.file ? second.file : "?";
  if (finding.between) {
    printf(
        "gshmem-check: finding: not ordered\n  PE %d: %s %s: %s:%d\n  PE %d: %s %s: %s:%d\n  "
        "missing: %s\n  mend:    %s between %s:%d and %s:%d.\n",
        first.pe, first.name, finding.first_does, first_file, first.line, second.pe, second.name,
        finding.second_does, second_file, second.line, finding.missing, finding.mend, first_file,
        first.line, second_file, second.line);
  } else {
    printf(
        "gshmem-check: finding: not ordered\n  PE %d: %s %s: %s:%d\n  PE %d: %s %s: %s:%d\n  "
        "missing: %s\n  mend:    %s\n",
        first.pe, first.name, finding.first_does, first_file, first.line, second.pe, second.name,
        finding.second_does, second_file, second.line, finding.missing, finding.mend);
  }
#if !defined(__CUDA_ARCH__)
  fflush(stdout);
#endif
}

GSHMEM_FN std::uint64_t calling_thread() {
#if defined(__CUDA_ARCH__)
  const std::uint64_t block =
      (static_cast<std::uint64_t>(blockIdx.z) * gridDim.y + blockIdx.y) * gridDim.x + blockIdx.x;
  return block << 11 | (threadIdx.z * blockDim.y + threadIdx.y) * blockDim.x + threadIdx.x;
#else
  return reinterpret_cast<std::uintptr_t>(gshmemi_ambient());
#endif
}

/// Returns a hash over a sample of a payload: up to 127 of its words, and the bytes after them. If
/// another store replaces the whole payload, the hash changes.
GSHMEM_OUTLINE std::uint64_t sum_of(const void* payload, std::uint64_t bytes) {
  constexpr std::uint64_t kSamples = 64;
  const char* const at = static_cast<const char*>(payload);
  const std::uint64_t words = bytes / 8, step = words < kSamples ? 1 : words / kSamples;
  std::uint64_t sum = bytes;
  const auto add = [&sum](std::uint64_t word) {
    sum = (sum ^ word) * 0x9e3779b97f4a7c15u;
    sum ^= sum >> 29;
  };
  GSHMEM_NO_UNROLL
  for (std::uint64_t i = 0; i < words; i += step) {
    std::uint64_t word;
    memcpy(&word, at + i * 8, 8);
    add(word);
  }
  GSHMEM_NO_UNROLL
  for (std::uint64_t i = words * 8; i < bytes; ++i) add(static_cast<unsigned char>(at[i]));
  return sum;
}

/// A call, and the memory that it uses: addresses of this PE.
struct Use {
  Range local, remote;
  int pe;
  OrderKind kind;
  bool writes = true;  ///< it writes the memory of `pe`
  bool is_amo = false;
};
GSHMEM_FN bool is_get(OrderKind kind) {
  return kind == OrderKind::kGet || kind == OrderKind::kFetch;
}
GSHMEM_FN Range range_of(const void* at, std::uint64_t bytes) {
  return {reinterpret_cast<std::uintptr_t>(at), bytes, 1, 0};
}

/// The caller of a function, and the records of its PE.
struct Watch {
  const api::Caller& call;
  const State& state;
  abi::OrderShadow* shadow;
  std::uint32_t context;  ///< its entry plus 1; 0: the default context

  GSHMEM_FN Watch(const api::Caller& of, const State& its)
      : call(of), state(its), shadow(its.control->order), context(0) {
#if !defined(__CUDA_ARCH__)
    if (gshmemi_ambient()->ops != nullptr) shadow = nullptr;  // it is in the GPU's memory
#endif
    if (!shadow) return;
    const abi::ContextEntry* const entries = context_entries(state);
    const State* each = nullptr;
    GSHMEM_NO_UNROLL
    for (std::uint32_t i = 0; i < abi::kMaxContexts && (each = context_of(entries[i])); ++i) {
      if (each != &state) continue;
      context = i + 1;
      if (context >= abi::kOrderContexts) shadow = nullptr;  // too many contexts to record
      break;
    }
  }
  GSHMEM_FN Place place() const { return {call.name, call.file, call.line, state.my_pe}; }
};

/// A record, and whether its operation is ordered before later calls.
struct Pending {
  abi::OrderRecord note;
  std::uint64_t number;
  bool is_fenced;  ///< ordered before later operations of its context
  bool has_come;   ///< another PE that has seen the operation has notified this PE
  GSHMEM_FN Range local() const { return {note.local, note.bytes, note.count, note.local_stride}; }
  GSHMEM_FN Range remote() const {
    return {note.remote, note.bytes, note.count, note.remote_stride};
  }
  GSHMEM_FN Place place(const State& state) const {
    return {note.name, note.file, note.line, state.my_pe};
  }
};

/// Copies the words of a record after `turn`, which the owner of the slot writes.
template <class Copy>
GSHMEM_FN void for_each_word(const Copy& copy) {
  static_assert(sizeof(abi::OrderRecord) % 8 == 0);
  GSHMEM_NO_UNROLL
  for (std::size_t i = 1; i < sizeof(abi::OrderRecord) / 8; ++i) copy(i);
}

GSHMEM_FN void raise(std::uint64_t* to, std::uint64_t value) {
  std::uint64_t old = load_relaxed(to);
  while (old < value) {
    const std::uint64_t seen = atomic_compare_swap(to, old, value);
    if (seen == old) return;
    old = seen;
  }
}

/// Calls visit(pending) for each operation that is not complete. A record of a complete one costs
/// three loads. Complete ones at the beginning are not read again: on GPUs a whole record takes
/// microseconds.
template <class Visit>
GSHMEM_FN void for_each_pending(const Watch& watch, const Visit& visit) {
  abi::OrderShadow& shadow = *watch.shadow;
  const std::uint64_t end = load_relaxed(&shadow.head), first = load_relaxed(&shadow.first);
  if (end <= first) return;
  std::uint64_t number = end - first > abi::kOrderRecords ? end - abi::kOrderRecords : first;
  std::uint64_t all_over = number;  // all records before it are complete
  Pending pending{};
  auto* const to = reinterpret_cast<std::uint64_t*>(&pending.note);
  GSHMEM_NO_UNROLL
  for (; number < end; ++number) {
    const abi::OrderRecord& slot = shadow.records[number % abi::kOrderRecords];
    const std::uint64_t turn = load_acquire(&slot.turn);
    if (turn != number + 1) {  // it is being written, or is complete, or its slot is reused
      if (turn > number && turn != abi::kOrderBusy && all_over == number) ++all_over;
      continue;
    }
    const std::uint32_t of = load_relaxed(&slot.context) % abi::kOrderContexts;
    const abi::OrderContext& context = shadow.context[of];
    if (load_relaxed(&slot.epoch) != load_relaxed(&shadow.epoch) ||
        number < load_relaxed(&context.quiet)) {
      if (all_over == number) ++all_over;
      continue;
    }
    const auto* const from = reinterpret_cast<const std::uint64_t*>(&slot);
    for_each_word([&](std::size_t i) { to[i] = load_relaxed(from + i); });
    fence_acquire_system();
    if (load_relaxed(&slot.turn) != number + 1) continue;
    const abi::OrderRecord& note = pending.note;
    pending.number = number;
    pending.is_fenced = note.context == watch.context && number < load_relaxed(&context.fence);
    pending.has_come =
        number <
        load_relaxed(note.kind == OrderKind::kPutSignal ? &shadow.acquired : &context.acquired);
    visit(pending);
  }
  if (first < all_over) raise(&shadow.first, all_over);
}

/// Records a call that is not complete when it returns. `nbi`: it may use local memory until quiet.
GSHMEM_OUTLINE void note(const Watch& watch, const Use& use, bool nbi) {
  abi::OrderShadow& shadow = *watch.shadow;
  const std::uint64_t number = atomic_fetch_add(&shadow.head, std::uint64_t{1});
  abi::OrderRecord& slot = shadow.records[number % abi::kOrderRecords];
  const std::uint64_t old = load_relaxed(&slot.turn);
  if (old == abi::kOrderBusy || atomic_compare_swap(&slot.turn, old, abi::kOrderBusy) != old)
    return;
  if (watch.context != 0) store_relaxed(&shadow.contexts, 1u);
  const Range& sized = use.remote.empty() ? use.local : use.remote;
  abi::OrderRecord made{};
  made.local = use.local.at;
  made.remote = use.remote.at;
  made.bytes = sized.bytes;
  made.count = sized.count;
  made.local_stride = use.local.stride;
  made.remote_stride = use.remote.stride;
  made.name = watch.call.name;
  made.file = watch.call.file;
  made.thread = calling_thread();
  made.line = watch.call.line;
  made.pe = use.pe;
  made.context = watch.context;
  made.epoch = load_relaxed(&shadow.epoch);
  made.kind = use.kind;
  made.nbi = nbi ? 1 : 0;
  const auto* const from = reinterpret_cast<const std::uint64_t*>(&made);
  auto* const to = reinterpret_cast<std::uint64_t*>(&slot);
  for_each_word([&](std::size_t i) { store_relaxed(to + i, from[i]); });
  store_release(&slot.turn, number + 1);
}

/// Reports pending operations that use the memory of the call, and are not ordered before it.
GSHMEM_OUTLINE void look(const Watch& watch, const Use& use) {
  const int me = watch.state.my_pe;
  const auto found = [&](const Pending& pending, const Finding& finding) {
    report(watch.shadow, pending.place(watch.state), watch.place(), finding);
  };
  const auto at_own_heap = [&](const Range& range) {
    return use.pe == me && overlap(use.remote, range);
  };
  for_each_pending(watch, [&](const Pending& pending) {
    const abi::OrderRecord& note = pending.note;
    const bool same_target = note.pe == use.pe && overlap(use.remote, pending.remote());
    if (is_get(note.kind)) {
      if (overlap(use.local, pending.local()) || at_own_heap(pending.local())) {
        found(pending,
              {"is pending", "uses the memory that it brings something to",
               "What the first call brings is there after a quiet.", "Call gshmem_quiet()", true});
      } else if (note.kind == OrderKind::kGet && use.writes && same_target) {
        found(pending, {"is pending", "stores to what it reads",
                        "Nothing orders the two: a fence orders puts alone, no gets.",
                        "Call gshmem_quiet()", true});
      }
      return;
    }
    if (pending.has_come) return;
    if (note.nbi != 0 && ((is_get(use.kind) && overlap(use.local, pending.local())) ||
                          (use.writes && at_own_heap(pending.local())))) {
      found(pending, {"may still read its source", "stores to it",
                      "The source of the first call may change after a quiet.",
                      "Call gshmem_quiet()", true});
    } else if (note.pe == me && overlap(use.local, pending.remote())) {
      found(pending, {"is pending", "uses the memory that it stores to",
                      "The first call is complete at its target, this PE, after a quiet.",
                      "Call gshmem_quiet()", true});
    } else if (same_target && !(use.is_amo && note.kind == OrderKind::kUpdate)) {
      if (!use.writes && !use.is_amo) {
        found(pending, {"is pending", "reads what it stores to",
                        "Nothing orders the two: a fence orders puts alone, no gets.",
                        "Call gshmem_quiet()", true});
      } else if (!pending.is_fenced) {
        found(pending, {"is pending", "uses the same memory of the target",
                        "Nothing orders the two operations of one PE to the same memory.",
                        "Call gshmem_fence()", true});
      }
    }
  });
}

/// Reports puts of the thread to `pe` that are not ordered before a signal: only the payload of the
/// signal is.
GSHMEM_OUTLINE void look_at_signal(const Watch& watch, int pe) {
  const std::uint64_t thread = calling_thread();
  for_each_pending(watch, [&](const Pending& pending) {
    const abi::OrderRecord& note = pending.note;
    if (note.kind != OrderKind::kPut || note.pe != pe || note.thread != thread ||
        pending.is_fenced || pending.has_come)
      return;
    report(watch.shadow, pending.place(watch.state), watch.place(),
           {"is pending", "signals the same PE",
            "The signal may be visible before the data of the first call.", "Call gshmem_fence()",
            true});
  });
}

/// Returns the entry of a word by its offset in the heap, or null. With `makes` it adds an entry if
/// there is none.
GSHMEM_FN abi::OrderWord* find_word(abi::OrderShadow* shadow, std::uint64_t word, bool makes) {
  GSHMEM_NO_UNROLL
  for (std::uint32_t i = 0; i < 8; ++i) {
    abi::OrderWord* const entry = &shadow->words[(word / 8 + i) % abi::kOrderWords];
    std::uint64_t of = load_relaxed(&entry->word);
    if (of == 0 && makes) {
      of = atomic_compare_swap(&entry->word, std::uint64_t{0}, word);
      if (of == 0) of = word;
    }
    if (of == word) return entry;
  }
  return nullptr;
}
GSHMEM_FN std::uint64_t offset_of(const State& state, const void* p) {
  return reinterpret_cast<std::uintptr_t>(p) - reinterpret_cast<std::uintptr_t>(state.heap);
}
/// Copies the place of the call to an entry that another PE reads.
template <class Entry>
GSHMEM_FN void copy_place(const Watch& watch, Entry& to) {
  to.pe = watch.state.my_pe;
  to.line = watch.call.line;
  copy_text(to.name, watch.call.name, sizeof(to.name));
  const char* file = watch.call.file ? watch.call.file : "?";
  GSHMEM_NO_UNROLL
  for (const char* at = file; *at != '\0'; ++at) {
    if (*at == '/') file = at + 1;
  }
  copy_text(to.file, file, sizeof(to.file));
}
/// Records at the target that the word is added to, or that it is set.
GSHMEM_OUTLINE void tell_word(const Watch& watch, const void* word, int pe, bool adds) {
  if (!amo_is_mapped(watch.state, pe)) return;
  abi::OrderShadow* const theirs = peer_address(watch.state, watch.shadow, pe);
  abi::OrderWord* const entry = find_word(theirs, offset_of(watch.state, word), adds);
  if (!entry) return;
  if (adds && (load_relaxed(&entry->adds) == 0 || entry->line != watch.call.line))
    copy_place(watch, *entry);
  store_release(&entry->adds, adds ? 1u : 0u);
}

/// Records at the target that the payload of a put with signal is pending.
GSHMEM_OUTLINE void tell_payload(const Watch& watch, const Transfer& t, const void* word) {
  if (!set_is_mapped(watch.state, t.pe) || t.bytes == 0) return;
  abi::OrderShadow* const theirs = peer_address(watch.state, watch.shadow, t.pe);
  const std::uint64_t at = offset_of(watch.state, word);
  const auto me = static_cast<std::uint64_t>(static_cast<std::uint32_t>(watch.state.my_pe));
  abi::OrderPayload& to = theirs->payloads[(at / 8 + me) % abi::kOrderWords];
  const std::uint64_t old = load_acquire(&to.state);
  const bool is_free = old == abi::kOrderFree ||
                       (old != abi::kOrderLooked && to.word == at && to.pe == watch.state.my_pe);
  if (!is_free || atomic_compare_swap(&to.state, old, std::uint64_t{abi::kOrderComing}) != old)
    return;
  to.word = at;
  to.dest = offset_of(watch.state, t.dest);
  to.bytes = t.bytes;
  to.sum = sum_of(t.source, t.bytes);
  to.barriers = load_relaxed(&watch.shadow->barriers);
  to.epoch = load_relaxed(&theirs->epoch);
  copy_place(watch, to);
  fence_release_system();
}
/// Records at the target that the payload and its signal have arrived.
GSHMEM_OUTLINE void tell_arrival(const Watch& watch, const void* word, int pe) {
  if (!set_is_mapped(watch.state, pe)) return;
  abi::OrderShadow* const theirs = peer_address(watch.state, watch.shadow, pe);
  const std::uint64_t at = offset_of(watch.state, word);
  const auto me = static_cast<std::uint64_t>(static_cast<std::uint32_t>(watch.state.my_pe));
  abi::OrderPayload& to = theirs->payloads[(at / 8 + me) % abi::kOrderWords];
  if (to.word != at || to.pe != watch.state.my_pe) return;
  fence_release_system();
  (void)atomic_compare_swap(&to.state, std::uint64_t{abi::kOrderComing},
                            std::uint64_t{abi::kOrderThere});
}

/// Time limits of a wait: how long it checks whether additions exceed its value, and how long it
/// waits for the record that a payload has arrived.
#if defined(__CUDA_ARCH__)
inline constexpr std::uint64_t kOrderLingerNs = 500'000;  // calls of the adders take longer
#else
inline constexpr std::uint64_t kOrderLingerNs = 50'000;
#endif
inline constexpr std::uint64_t kOrderArrivalNs = 1'000'000'000;

/// Checks that payloads which a signal has announced were not replaced. Threads that wait for the
/// signal return after the check.
GSHMEM_OUTLINE void look_at_payloads(const Watch& watch, std::uint64_t word, bool is_barrier) {
  GSHMEM_NO_UNROLL
  for (abi::OrderPayload& each : watch.shadow->payloads) {
    std::uint64_t now = load_acquire(&each.state);
    if (now == abi::kOrderFree) continue;
    if (is_barrier && each.barriers == load_relaxed(&watch.shadow->barriers)) continue;
    if (each.word != word || each.epoch != load_relaxed(&watch.shadow->epoch)) {
      if (now != abi::kOrderLooked)  // the record is out of date
        (void)atomic_compare_swap(&each.state, now, std::uint64_t{abi::kOrderFree});
      continue;
    }
    const std::uint64_t started = now_ns();
    while (now != abi::kOrderFree) {
      if (now == abi::kOrderThere &&
          atomic_compare_swap(&each.state, now, std::uint64_t{abi::kOrderLooked}) == now) {
        fence_acquire_system();
        if (sum_of(watch.state.heap + each.dest, each.bytes) != each.sum) {
          report(watch.shadow, {each.name, each.file, each.line, each.pe}, watch.place(),
                 {"put data", "waits for its signal, and the data was replaced",
                  "Another store has replaced the data, such as a memset after gshmem_malloc.",
                  "Fill the memory first, then call gshmem_barrier_all(), then let others put.",
                  false});
        }
        store_release(&each.state, std::uint64_t{abi::kOrderFree});
        break;
      }
      if (now == abi::kOrderComing && now_ns() - started > kOrderArrivalNs)
        (void)atomic_compare_swap(&each.state, now, std::uint64_t{abi::kOrderFree});
      now = load_acquire(&each.state);
    }
  }
}

/// Records that this PE has synchronized with another one. `word` is the word that it has read, by
/// its offset in the heap, or 0. After a barrier of all PEs, records of payloads that were put
/// later are kept.
GSHMEM_OUTLINE void acquire(const Watch& watch, std::uint64_t word = 0, bool is_barrier = false) {
  abi::OrderShadow& shadow = *watch.shadow;
  raise(&shadow.acquired, load_relaxed(&shadow.head));
  const std::uint32_t contexts = load_relaxed(&shadow.contexts) == 0 ? 1 : abi::kOrderContexts;
  GSHMEM_NO_UNROLL
  for (std::uint32_t i = 0; i < contexts; ++i)
    raise(&shadow.context[i].acquired, load_relaxed(&shadow.context[i].fence));
  look_at_payloads(watch, word, is_barrier);
}

GSHMEM_OUTLINE void fence(const Watch& watch) {
  raise(&watch.shadow->context[watch.context].fence, load_relaxed(&watch.shadow->head));
}
/// The operations to `pe`, or to all (-1), are complete.
GSHMEM_OUTLINE void quiet(const Watch& watch, int pe) {
  abi::OrderShadow& shadow = *watch.shadow;
  const std::uint64_t end = load_relaxed(&shadow.head);
  if (pe < 0) {
    raise(&shadow.context[watch.context].quiet, end);
    if (load_relaxed(&shadow.contexts) == 0) raise(&shadow.first, end);
    return;
  }
  for_each_pending(watch, [&](const Pending& pending) {
    if (pending.note.pe != pe || pending.note.context != watch.context || pending.number >= end)
      return;
    (void)atomic_compare_swap(&shadow.records[pending.number % abi::kOrderRecords].turn,
                              pending.number + 1, std::uint64_t{0});
  });
}

/// Reports that additions have passed the value for which a wait by EQ waits.
GSHMEM_OUTLINE void report_passed(const Watch& watch, const abi::OrderWord& word) {
  report(watch.shadow, {word.name, word.file, word.line, word.pe}, watch.place(),
         {"adds to a word", "waits until it is equal to a value, which it has passed",
          "Additions do not wait for the wait: it may never see the value.",
          "Wait for GSHMEM_CMP_GE, or use a word for each of the additions.", false});
}

/// Waits for up to a second. Returns true if `*seen` is an awaited value: then the call has ended.
template <class T>
GSHMEM_FN bool await(const Watch& watch, const T* ivar, int cmp, T value, T* seen) {
  constexpr std::uint64_t kLong = 200'000'000, kMost = 1'000'000'000;
  const std::uint64_t word = offset_of(watch.state, ivar), started = now_ns();
  const bool is_equal = cmp == GSHMEM_CMP_EQ;
  bool was_below = false;
  for (unsigned polls = 1;; ++polls) {
    const T now = poll_sync(ivar);
    *seen = now;
    if (compare(now, cmp, value)) break;
    const bool is_due = look_is_due(polls);
    if (is_equal && now < value) was_below = true;
    if (is_equal && value < now && (was_below || (is_due && now_ns() - started > kLong))) {
      const abi::OrderWord* const entry =
          value != T{} ? find_word(watch.shadow, word, false) : nullptr;
      if (entry && load_acquire(&entry->adds) != 0) report_passed(watch, *entry);
    }
    if (is_due && (load_relaxed(&watch.state.control->stop) != 0 || now_ns() - started > kMost))
      return false;
    pause(polls);
  }
  fence_acquire_system();
  const abi::OrderWord* const entry = is_equal ? find_word(watch.shadow, word, false) : nullptr;
  if (entry && load_acquire(&entry->adds) != 0) {
    for (const std::uint64_t now = now_ns(); now_ns() - now < kOrderLingerNs;) {
      const T later = poll_sync(ivar);
      if (!(value < later)) continue;
      report_passed(watch, *entry);
      break;
    }
  }
  acquire(watch, word);
  return true;
}

}  // namespace gshmem::device::order

#endif
