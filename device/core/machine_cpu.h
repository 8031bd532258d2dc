// The CPU's half of machine.h: __atomic builtins for the functions that machine_gpu.h writes in
// PTX. Their contracts are documented there. The comments here have only the differences.
#pragma once

#include <gshmem/abi/doorbell_cpu.h>

#include "machine.h"

#include <linux/futex.h>
#include <sched.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>

namespace gshmem::device {

template <class T>
inline T load_relaxed(const T* p) {
  return __atomic_load_n(p, __ATOMIC_RELAXED);
}
template <class T>
inline T load_acquire(const T* p) {
  return __atomic_load_n(p, __ATOMIC_ACQUIRE);
}
template <class T>
inline void store_relaxed(T* p, T v) {
  __atomic_store_n(p, v, __ATOMIC_RELAXED);
}
template <class T>
inline void store_release(T* p, T v) {
  __atomic_store_n(p, v, __ATOMIC_RELEASE);
}
template <>
inline Word16 load_relaxed(const Word16* p) {
  return *p;
}
template <>
inline void store_relaxed(Word16* p, Word16 v) {
  *p = v;
}
template <class T>
inline T load_bulk(const T* p) {
  return *p;
}
template <class T>
inline void store_bulk(T* p, T v) {
  *p = v;
}

/// Has the contract of the GPU's function, but is a release by itself, because ThreadSanitizer does
/// not model fences.
template <class T>
inline void store_flag(T* p, T v) {
  store_release(p, v);
}

/// Stores two words of 8 bytes, neither of which is torn.
inline void store_flag(Word16* p, Word16 v) {
  auto* const half = reinterpret_cast<std::uint64_t*>(p);
  store_release(half, low_of(v));
  store_release(half + 1, high_of(v));
}

/// The fence is sequentially consistent. On x86-64 a full fence also makes a put (a plain store
/// here) leave the store buffer: this is the CPU's counterpart of "complete at the target".
inline void fence_system() {
#if defined(__SANITIZE_THREAD__)
  // g++ refuses atomic_thread_fence under -fsanitize=thread; an RMW is as strong.
  static thread_local std::uint32_t word;
  (void)__atomic_fetch_add(&word, 1u, __ATOMIC_SEQ_CST);
#else
  __atomic_thread_fence(__ATOMIC_SEQ_CST);
#endif
}

/// Both load_poll functions use an acquire load, because ThreadSanitizer does not model fences.
template <class T>
inline T load_poll(const T* p) {
  return load_acquire(p);
}
inline Word16 load_poll(const Word16* p) {
  const auto* const half = reinterpret_cast<const std::uint64_t*>(p);
  const std::uint64_t low = load_acquire(half), high = load_acquire(half + 1);
  return word16(low, high);
}
inline void fence_acquire_system() {}

// The narrower scopes of GPUs do not exist here.
inline void fence_gpu() { fence_system(); }
inline void fence_release_gpu() { fence_system(); }
inline void fence_release_system() { fence_system(); }
inline void fence_complete_system() { fence_system(); }
inline std::uint64_t load_acquire_gpu(const std::uint64_t* p) { return load_acquire(p); }
/// The load is an acquire, because a compiler may reorder accesses that a CPU keeps in order.
inline std::uint64_t load_before_stores(const std::uint64_t* p) { return load_acquire(p); }
inline void atomic_add_release_gpu(std::uint64_t* p, std::uint64_t v) {
  __atomic_fetch_add(p, v, __ATOMIC_ACQ_REL);
}
inline void atomic_add_chain_gpu(std::uint64_t* p, std::uint64_t v) {
  atomic_add_release_gpu(p, v);  // ThreadSanitizer does not model fences
}
inline std::uint64_t atomic_fetch_add_gpu(std::uint64_t* p, std::uint64_t v) {
  return __atomic_fetch_add(p, v, __ATOMIC_RELAXED);
}
/// The maximum is a release: in C++ nothing weaker orders later stores after the NIC's reads.
inline void atomic_max_gpu(std::uint64_t* p, std::uint64_t v) {
  std::uint64_t old = __atomic_load_n(p, __ATOMIC_RELAXED);
  while (old < v &&
         !__atomic_compare_exchange_n(p, &old, v, true, __ATOMIC_RELEASE, __ATOMIC_RELAXED)) {
  }
}
inline void store_doorbell(std::uint64_t* p, std::uint64_t v) { abi::store_register(p, v); }
inline void store_register(std::uint64_t* p, std::uint64_t v) { abi::store_register(p, v); }
inline void store_record(std::uint32_t* p, std::uint32_t v) { store_release(p, v); }
inline void store_entry(Word16* p, Word16 v) { store_bulk(p, v); }
inline void store_entry_flags(Word16* entry, std::uint32_t flags) {
  store_bulk(&entry->z, flags << 24);
}
inline std::uint64_t load_own(const std::uint64_t* p) { return load_relaxed(p); }
inline void store_own(std::uint64_t* p, std::uint64_t v) { store_relaxed(p, v); }
template <class T>
inline T load_constant(const T* p) {
  return *p;
}
// The memory is not always constant, so the load is atomic: abi::QueueView::number may change.
inline std::uint32_t load_constant(const std::uint32_t* p) { return load_relaxed(p); }
/// Loads the two halves, each by one load.
inline Word16 load_constant(const Word16* p) {
  const auto* half = reinterpret_cast<const std::uint64_t*>(p);
  const std::uint64_t low = load_relaxed(half), high = load_relaxed(half + 1);
  return word16(low, high);
}

#define GSHMEM_CPU_ATOMIC(NAME)                           \
  template <class T>                                      \
  inline T atomic_fetch_##NAME(T* p, T v) {               \
    return __atomic_fetch_##NAME(p, v, __ATOMIC_ACQ_REL); \
  }                                                       \
  template <class T>                                      \
  inline void atomic_##NAME(T* p, T v) {                  \
    __atomic_fetch_##NAME(p, v, __ATOMIC_ACQ_REL);        \
  }
GSHMEM_CPU_ATOMIC(add)
GSHMEM_CPU_ATOMIC(and)
GSHMEM_CPU_ATOMIC(or)
GSHMEM_CPU_ATOMIC(xor)
#undef GSHMEM_CPU_ATOMIC
template <class T>
inline T atomic_exchange(T* p, T v) {
  return __atomic_exchange_n(p, v, __ATOMIC_ACQ_REL);
}
template <class T>
inline T atomic_compare_swap(T* p, T expected, T desired) {
  __atomic_compare_exchange_n(p, &expected, desired, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE);
  return expected;
}

inline void wake_host(const std::uint32_t* word) {
  ::syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, 1, nullptr, nullptr, 0);
}
inline std::uint64_t now_ns() {
  timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return static_cast<std::uint64_t>(t.tv_sec) * 1000000000u + static_cast<std::uint64_t>(t.tv_nsec);
}
inline std::uint32_t now_cycles() { return static_cast<std::uint32_t>(now_ns()); }
template <class T>
inline void keep_in_memory(T&) {}
inline std::uint32_t sm_number() { return 0; }
/// The pause between two polls. There are often more PEs than cores, so after a short spin the core
/// is yielded. A thread that has waited for long sleeps, so that the threads that it waits for have
/// the cores. It sleeps 2 % to 7 % of the time that it has waited. With sleeps of constant length
/// 64 PEs on two cores did nothing but wake up, and the soft NIC did not run.
inline constexpr unsigned kPauseSpins = 16, kPauseYields = 64;
inline constexpr long kShortestPauseNs = 20'000, kPauseGrowthNs = 5'000,
                      kLongestPauseNs = 5'000'000;
inline void pause(unsigned polls) {
  if (polls < kPauseSpins) {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#endif
  } else if (polls < kPauseSpins + kPauseYields) {
    sched_yield();
  } else {
    const long longer = kPauseGrowthNs * static_cast<long>(polls - (kPauseSpins + kPauseYields));
    const timespec time{0, longer < kLongestPauseNs - kShortestPauseNs ? kShortestPauseNs + longer
                                                                       : kLongestPauseNs};
    nanosleep(&time, nullptr);
  }
}
inline void pause_far(unsigned polls) { pause(polls); }
/// The pause is longer for a thread with many entries ahead: each of these belongs to a thread that
/// needs a core.
inline void pause_behind(unsigned polls, std::uint32_t left) {
  if (left <= 64) return pause(polls);
  const timespec time{0, 5'000 * static_cast<long>(left < 1000 ? left : 1000)};
  nanosleep(&time, nullptr);
}
/// Does this poll of a wait read the clock and the stop word? Each poll that sleeps does. A sleep
/// costs far more than the check. A check before the first sleep would take time from other threads
/// if there are few cores.
inline bool look_is_due(unsigned polls) { return polls >= kPauseSpins + kPauseYields; }
[[noreturn]] inline void trap() { std::abort(); }
/// Lanes that are at the same point of the code (coop.h has those of a GPU): each thread is alone.
inline bool is_alone() { return true; }
class Converged {
 public:
  explicit Converged(std::uint64_t) {}
  Converged() = default;
  static Converged self() { return {}; }
  static int size() { return 1; }
  static int rank() { return 0; }
  static bool first() { return true; }
  static bool last() { return true; }
  static bool alone() { return true; }
  static void sync() {}
  static std::uint64_t from_first(std::uint64_t value) { return value; }
  static std::uint32_t from_last(std::uint32_t value) { return value; }
};

}  // namespace gshmem::device
