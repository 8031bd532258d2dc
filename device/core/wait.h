// Waits for a value that another thread stores: one polling loop for every wait of the library, and
// the wait_until/test family of the API on top of it. Invariant: every wait ends, with the
// condition true, or with a recorded fault after GSHMEM_TIMEOUT, or because another fault stopped
// this PE.
#pragma once

#include "fault.h"
#include "machine.h"
#include "order_check.h"

#include <gshmem/constants.h>

#include <type_traits>

namespace gshmem::device {

/// wait_check returns kWaitOver when the wait must end. wait_look returns the reason.
inline constexpr std::uint64_t kWaitOver = ~std::uint64_t{0};
inline constexpr std::uint64_t kWaitStopped = ~std::uint64_t{1}, kWaitTooLong = ~std::uint64_t{2};

/// Checks whether a wait that began at `started` (0 = first check) may continue: returns its start
/// time, kWaitStopped or kWaitTooLong. Records nothing.
GSHMEM_FN std::uint64_t wait_look(const State& state, std::uint64_t started) {
  if (load_acquire(&state.control->stop) != 0) return kWaitStopped;
  const std::uint64_t now = now_ns();
  if (started == 0) return now;
  if (state.timeout_ns == 0 || now - started < state.timeout_ns) return started;
  return kWaitTooLong;
}

/// Ends a wait: calls stop_here after kWaitStopped, and after kWaitTooLong reports a fault about
/// the PE that was waited for.
GSHMEM_FN void wait_ended(const State& state, const char* call, std::uint64_t started,
                          std::uint64_t why, int pe = -1) {
  if (why == kWaitStopped) return stop_here(state);
  fault(state, {GSHMEMX_ERROR_TIMEOUT, call, "wait", now_ns() - started, state.timeout_ns, pe});
}

/// A wait that is longer than this is recorded for the host.
inline constexpr std::uint64_t kLongWaitNs = 200'000'000;

/// A word of the program that a thread waits for. `wanted` is the value that `cmp` compares it
/// with, extended to 64 bits.
struct AwaitedWord {
  const void* address;
  std::uint64_t wanted;
  std::int32_t cmp;
  std::uint32_t bytes, is_signed;
};

/// Returns the current value of the word, extended to 64 bits.
GSHMEM_FN std::uint64_t load_word(const AwaitedWord& word) {
  const unsigned unused = 64 - 8 * word.bytes;
  std::uint64_t value = 0;
  GSHMEM_ON_HOST_OPS(value = ops->run(Call::load(word.address, word.bytes));)
#if defined(__CUDA_ARCH__)
  const bool is_here = true;
#else
  bool is_here = gshmemi_ambient()->ops == nullptr;
#endif
  GSHMEM_ORDER(value = checker->poll(word.address, word.bytes); is_here = false;)
  if (is_here) {
    switch (word.bytes) {
      case 2:
        value = load_relaxed(static_cast<const std::uint16_t*>(word.address));
        break;
      case 4:
        value = load_relaxed(static_cast<const std::uint32_t*>(word.address));
        break;
      default:
        value = load_relaxed(static_cast<const std::uint64_t*>(word.address));
    }
  }
  if (word.is_signed == 0) return value;
  return static_cast<std::uint64_t>(static_cast<std::int64_t>(value << unused) >> unused);
}

/// Notes a pending wait for the host (abi::WaitRecord), unless it is short. `word` is null if the
/// wait is not for a word of the program.
GSHMEM_FN void note_wait(const State& state, const char* call, std::uint64_t started, int pe,
                         const AwaitedWord* word) {
  const std::uint64_t waited = now_ns() - started;
  if (waited < kLongWaitNs) return;
  abi::WaitRecord& record =
      state.control->waits[pe >= 0 ? pe % (abi::kWaits - 1) : abi::kWaits - 1];
  const auto address = reinterpret_cast<std::uint64_t>(word ? word->address : nullptr);
  if (load_acquire(&record.published) != 0) {
    if (record.started != started || record.pe != pe || record.address != address) return;
  } else {
    if (atomic_compare_swap(&record.claimed, 0u, 1u) != 0u) return;
    record.pe = pe;
    record.started = started;
    record.address = address;
    record.wanted = word ? word->wanted : 0;
    record.cmp = word ? word->cmp : 0;
    record.is_signed = word ? word->is_signed : 0;
#if defined(__CUDA_ARCH__)
    record.by_host = 0;
#else
    record.by_host = 1;
#endif
    copy_text(record.call, call, sizeof(record.call));
  }
  if (word) store_relaxed(&record.seen, load_word(*word));
  store_relaxed(&record.waited, waited);
  fence_system();
  store_flag(&record.published, 1u);  // pairs with host/runtime/waits.cpp
}

/// Calls wait_look, notes a long wait, and ends the wait if it must end: returns its start time or
/// kWaitOver. Arguments are passed by value: a variable whose address is taken is in local memory,
/// and the fence of the next barrier waits for it.
GSHMEM_OUTLINE std::uint64_t wait_check(const State& state, const char* call, std::uint64_t started,
                                        int pe) {
  const std::uint64_t begin = wait_look(state, started);
  if (begin >= kWaitTooLong) {
    wait_ended(state, call, started, begin, pe);
    return kWaitOver;
  }
  if (started != 0) note_wait(state, call, started, pe, nullptr);
  return begin;
}
/// Does what wait_check does, for a word of the program. `traits` is its size, plus 16 if it is
/// signed.
GSHMEM_OUTLINE std::uint64_t wait_check_word(const State& state, const char* call,
                                             std::uint64_t started, const void* address,
                                             std::uint64_t wanted, int cmp, std::uint32_t traits) {
  const std::uint64_t begin = wait_look(state, started);
  const AwaitedWord word{address, wanted, cmp, traits % 16, traits / 16};
  if (begin < kWaitTooLong) {
    if (started != 0) note_wait(state, call, started, abi::kAnyPe, &word);
    return begin;
  }
  // This records the last value of the word.
  if (begin == kWaitTooLong) note_wait(state, call, started, abi::kAnyPe, &word);
  wait_ended(state, call, started, begin);
  return kWaitOver;
}

/// Calls `done()` until it is true. Returns false when the wait had to end before that. `pe` is the
/// PE that is waited for, -1 = none in particular. When the wait is long, it calls `good()`, which
/// ends the wait by returning false.
template <class Done, class Good>
GSHMEM_FN bool spin_until(const State& state, const char* call, const Done& done, int pe,
                          const Good& good) {
  std::uint64_t started = 0;
  for (unsigned polls = 1;; ++polls) {
    if (done()) return true;
    if (look_is_due(polls)) {
      if (!good()) return false;
      started = wait_check(state, call, started, pe);
      if (started == kWaitOver) return false;
    }
    pause(polls);
  }
}
template <class Done>
GSHMEM_FN bool spin_until(const State& state, const char* call, const Done& done, int pe = -1) {
  return spin_until(state, call, done, pe, [] { return true; });
}

/// OpenSHMEM 1.5, table 6 ("Point-to-point comparison constants"). An unknown operator is false.
template <class T>
GSHMEM_FN bool compare(T value, int cmp, T with) {
  switch (cmp) {
    case GSHMEM_CMP_EQ:
      return value == with;
    case GSHMEM_CMP_NE:
      return value != with;
    case GSHMEM_CMP_GT:
      return value > with;
    case GSHMEM_CMP_GE:
      return value >= with;
    case GSHMEM_CMP_LT:
      return value < with;
    case GSHMEM_CMP_LE:
      return value <= with;
    default:
      return false;
  }
}

/// Returns the value of a synchronization variable. Stores that were ordered before its store are
/// visible afterwards (pairs with store_flag, the AMOs and store_release of the writer).
template <class T>
GSHMEM_FN T load_sync(const T* ivar) {
  GSHMEM_ON_HOST_OPS(return bits<T>(static_cast<Word<T>>(ops->run(Call::load(ivar, sizeof(T)))));)
  GSHMEM_ORDER(const std::uint64_t seen = checker->poll(ivar, sizeof(T)); checker->acquire(ivar);
               return bits<T>(static_cast<Word<T>>(seen));)
  return bits<T>(load_acquire(reinterpret_cast<const Word<T>*>(ivar)));
}

/// Returns the value of `ivar` without acquiring. The caller acquires (fence_acquire_system) when
/// it has seen the awaited value: an acquire drops the first-level cache, and would delay the next
/// poll.
template <class T>
GSHMEM_FN T poll_sync(const T* ivar) {
  GSHMEM_ON_HOST_OPS(return bits<T>(static_cast<Word<T>>(ops->run(Call::load(ivar, sizeof(T)))));)
  GSHMEM_ORDER(return bits<T>(static_cast<Word<T>>(checker->poll(ivar, sizeof(T))));)
  return bits<T>(load_poll(reinterpret_cast<const Word<T>*>(ivar)));
}

template <class T>
GSHMEM_FN bool test(const T* ivar, int cmp, T value) {
  if (!compare(poll_sync(ivar), cmp, value)) return false;
  GSHMEM_ORDER(checker->acquire(ivar);)
  fence_acquire_system();
  return true;
}

/// Does what spin_until does, for a wait on `ivar` or another word of its set; `cmp` and `value`
/// are those of `ivar`.
template <class T, class Done>
GSHMEM_FN bool spin_on_word(const State& state, const char* call, const Done& done, const T* ivar,
                            int cmp, T value) {
  constexpr std::uint32_t kTraits = sizeof(T) + (std::is_signed_v<T> ? 16 : 0);
  std::uint64_t started = 0;
  for (unsigned polls = 1;; ++polls) {
    if (done()) return true;
    if (look_is_due(polls)) {
      started = wait_check_word(state, call, started, ivar, static_cast<std::uint64_t>(value), cmp,
                                kTraits);
      if (started == kWaitOver) return false;
    }
    pause(polls);
  }
}

template <class T>
GSHMEM_FN bool wait_until(const State& state, const char* call, const T* ivar, int cmp, T value) {
  return spin_on_word(
      state, call, [&] { return test(ivar, cmp, value); }, ivar, cmp, value);
}

/// Comparison values of a set: one for all, or one per element (the `_vector` forms).
template <class T>
struct WaitValues {
  T one;
  const T* each;
  GSHMEM_FN T at(std::size_t i) const { return each ? each[i] : one; }
};

/// A set of synchronization variables: `status[i] != 0` excludes element i; null = all take part.
template <class T>
struct WaitSet {
  const T* ivars;
  std::size_t nelems;
  const int* status;
  int cmp;
  WaitValues<T> values;

  GSHMEM_FN bool takes_part(std::size_t i) const { return !status || status[i] == 0; }
  GSHMEM_FN bool satisfied(std::size_t i) const { return test(ivars + i, cmp, values.at(i)); }
  GSHMEM_FN bool empty() const {
    for (std::size_t i = 0; i < nelems; ++i) {
      if (takes_part(i)) return false;
    }
    return true;
  }
};

template <class T>
GSHMEM_FN bool test_all(const WaitSet<T>& set) {
  for (std::size_t i = 0; i < set.nelems; ++i) {
    if (set.takes_part(i) && !set.satisfied(i)) return false;
  }
  return true;
}

/// Returns where a search for one of `nelems` elements begins. Each call begins at another element.
/// Otherwise an element that is always satisfied would hide the others for ever (OpenSHMEM 1.5,
/// section 9.10: a series of calls must return each satisfied one). The position comes from the
/// clock, multiplied by 2^32 over the golden ratio (Knuth, The Art of Computer Programming, section
/// 6.4). A counter would need memory on GPUs.
GSHMEM_FN std::size_t search_start(std::size_t nelems) {
  if (nelems < 2) return 0;
  const std::uint32_t spread = now_cycles() * 0x9e3779b9u;
  const std::uint64_t count = nelems < UINT32_MAX ? nelems : UINT32_MAX;
  return static_cast<std::size_t>(spread * count >> 32);
}

/// Returns the index of the first satisfied element, searching from `start` and wrapping around, or
/// SIZE_MAX.
template <class T>
GSHMEM_FN std::size_t test_any(const WaitSet<T>& set, std::size_t start) {
  std::size_t i = start;
  for (std::size_t left = set.nelems; left > 0; --left) {
    if (set.takes_part(i) && set.satisfied(i)) return i;
    if (++i == set.nelems) i = 0;
  }
  return SIZE_MAX;
}
template <class T>
GSHMEM_FN std::size_t test_any(const WaitSet<T>& set) {
  return test_any(set, search_start(set.nelems));
}

/// Writes the indices of satisfied elements to `indices`; returns their number.
template <class T>
GSHMEM_FN std::size_t test_some(const WaitSet<T>& set, std::size_t* indices) {
  std::size_t count = 0;
  for (std::size_t i = 0; i < set.nelems; ++i) {
    if (set.takes_part(i) && set.satisfied(i)) indices[count++] = i;
  }
  return count;
}

template <class T>
GSHMEM_FN void wait_until_all(const State& state, const char* call, const WaitSet<T>& set) {
  for (std::size_t i = 0; i < set.nelems; ++i) {
    if (!set.takes_part(i)) continue;
    const auto satisfied = [&] { return set.satisfied(i); };
    if (!spin_on_word(state, call, satisfied, set.ivars + i, set.cmp, set.values.at(i))) return;
  }
}

/// Returns SIZE_MAX when no element takes part, or when the wait had to end.
template <class T>
GSHMEM_FN std::size_t wait_until_any(const State& state, const char* call, const WaitSet<T>& set) {
  std::size_t found = SIZE_MAX;
  if (set.empty()) return found;
  const std::size_t start = search_start(set.nelems);
  spin_on_word(
      state, call, [&] { return (found = test_any(set, start)) != SIZE_MAX; }, set.ivars + start,
      set.cmp, set.values.at(start));
  return found;
}

/// Returns 0 when no element takes part, or when the wait had to end.
template <class T>
GSHMEM_FN std::size_t wait_until_some(const State& state, const char* call, const WaitSet<T>& set,
                                      std::size_t* indices) {
  std::size_t count = 0;
  if (set.empty()) return count;
  spin_on_word(
      state, call, [&] { return (count = test_some(set, indices)) != 0; }, set.ivars, set.cmp,
      set.values.at(0));
  return count;
}

}  // namespace gshmem::device
