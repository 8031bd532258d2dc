// The machine of device/core/machine.h for counting: every access is executed, and counted by its
// kind. One thread plays one lane of a converged warp; the test sets which one, and of how many.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdlib>

namespace gshmem::device {

/// Operations of a call that cost more than an instruction.
struct Costs {
  unsigned returning_atomics = 0, other_atomics = 0;
  unsigned gpu_fences = 0, system_fences = 0;  ///< with that of a release addition
  unsigned cursor_loads = 0, cursor_stores = 0;
  unsigned cached_loads = 0;  ///< of cursors that one thread at a time uses
  unsigned entry_stores = 0;  ///< of 16 bytes
  unsigned record_stores = 0, doorbells = 0;
  unsigned completion_loads = 0;
  unsigned complete_fences = 0;  ///< fences after which stores are complete
};
inline Costs costs;
struct Lane {
  int rank = 0, size = 1;
  std::uint64_t first = 0;  ///< the value that the first lane passes to the others
};
inline Lane lane;
/// A function between two polls of a wait, by which the test may change the awaited value, and the
/// time.
struct Waiting {
  std::uint64_t now_ns = 1;
  std::uint32_t left = 0;  ///< what the last poll found before it, if it says so
  void (*between_polls)() = [] {};
};
inline Waiting waiting;

template <class T>
inline T load_relaxed(const T* p) {
  ++costs.cursor_loads;
  return *p;
}
template <class T>
inline T load_acquire(const T* p) {
  ++costs.completion_loads;
  return *p;
}
template <class T>
inline T load_bulk(const T* p) {
  return *p;
}
template <class T>
inline T load_constant(const T* p) {
  return *p;
}
inline std::uint64_t load_acquire_gpu(const std::uint64_t* p) { return load_relaxed(p); }
inline std::uint64_t load_before_stores(const std::uint64_t* p) { return load_relaxed(p); }

template <class T>
inline void store_relaxed(T* p, T v) {
  ++costs.cursor_stores;
  *p = v;
}
template <class T>
inline void store_bulk(T* p, T v) {
  *p = v;
}
template <class W>
inline void store_entry(W* p, W v) {
  ++costs.entry_stores;
  *p = v;
}
template <class W>
inline void store_entry_flags(W* entry, std::uint32_t flags) {
  ++costs.entry_stores;
  store_bulk(&entry->z, flags << 24);
}
inline std::uint64_t load_own(const std::uint64_t* p) {
  ++costs.cached_loads;
  return *p;
}
inline void store_own(std::uint64_t* p, std::uint64_t v) { store_relaxed(p, v); }
template <class T>
inline void store_flag(T* p, T v) {
  store_relaxed(p, v);
}
inline void store_record(std::uint32_t* p, std::uint32_t v) {
  ++costs.record_stores;
  *p = v;
}
template <class T>
inline void store_release(T* p, T v) {
  store_relaxed(p, v);
}
inline void store_doorbell(std::uint64_t* p, std::uint64_t v) {
  ++costs.doorbells;
  *p = v;
}
inline void store_register(std::uint64_t* p, std::uint64_t v) { store_doorbell(p, v); }

inline void fence_system() { ++costs.system_fences; }
inline void fence_gpu() { ++costs.gpu_fences; }
inline void fence_acquire_system() {}
template <class T>
inline T load_poll(const T* p) {
  return load_relaxed(p);
}
inline void fence_release_system() { fence_system(); }
inline void fence_complete_system() { ++costs.complete_fences; }
inline void fence_release_gpu() { fence_gpu(); }

template <class T, class Update>
inline T returning(T* p, const Update& update) {
  ++costs.returning_atomics;
  const T old = *p;
  *p = update(old);
  return old;
}
#define GSHMEM_COST_ATOMIC(NAME, OP)                                      \
  template <class T>                                                      \
  inline T atomic_fetch_##NAME(T* p, T v) {                               \
    return returning(p, [v](T old) { return static_cast<T>(old OP v); }); \
  }                                                                       \
  template <class T>                                                      \
  inline void atomic_##NAME(T* p, T v) {                                  \
    ++costs.other_atomics;                                                \
    *p = static_cast<T>(*p OP v);                                         \
  }
GSHMEM_COST_ATOMIC(add, +)
GSHMEM_COST_ATOMIC(and, &)
GSHMEM_COST_ATOMIC(or, |)
GSHMEM_COST_ATOMIC(xor, ^)
#undef GSHMEM_COST_ATOMIC
inline std::uint64_t atomic_fetch_add_gpu(std::uint64_t* p, std::uint64_t v) {
  return atomic_fetch_add(p, v);
}
inline void atomic_add_chain_gpu(std::uint64_t* p, std::uint64_t v) { atomic_add(p, v); }
inline void atomic_add_release_gpu(std::uint64_t* p, std::uint64_t v) {
  ++costs.gpu_fences;
  atomic_add(p, v);
}
inline void atomic_max_gpu(std::uint64_t* p, std::uint64_t v) {
  ++costs.other_atomics;
  *p = *p < v ? v : *p;
}
template <class T>
inline T atomic_exchange(T* p, T v) {
  return returning(p, [v](T) { return v; });
}
template <class T>
inline T atomic_compare_swap(T* p, T expected, T desired) {
  return returning(p, [&](T old) { return old == expected ? desired : old; });
}

inline void wake_host(const std::uint32_t*) {}
inline std::uint64_t now_ns() { return waiting.now_ns; }
inline std::uint32_t now_cycles() { return 1; }
template <class T>
inline void keep_in_memory(T&) {}
inline std::uint32_t sm_number() { return 0; }
inline void pause(unsigned) { waiting.between_polls(); }
inline void pause_far(unsigned polls) { pause(polls); }
inline void pause_behind(unsigned polls, std::uint32_t left) {
  waiting.left = left;
  pause(polls);
}
inline bool look_is_due(unsigned polls) { return polls % 1024 == 0; }
[[noreturn]] inline void trap() { std::abort(); }

inline bool is_alone() { return lane.size == 1; }

/// Converged lanes; the first one is played before the others.
class Converged {
 public:
  explicit Converged(std::uint64_t) : shared_(true) {}
  Converged() = default;
  static Converged self() { return {}; }
  [[nodiscard]] int size() const { return shared_ ? lane.size : 1; }
  [[nodiscard]] int rank() const { return shared_ ? lane.rank : 0; }
  [[nodiscard]] bool first() const { return rank() == 0; }
  [[nodiscard]] bool last() const { return rank() + 1 == size(); }
  [[nodiscard]] bool alone() const { return size() == 1; }
  void sync() const {}
  [[nodiscard]] std::uint64_t from_first(std::uint64_t value) const {
    if (first()) lane.first = value;
    return shared_ ? lane.first : value;
  }
  static std::uint32_t from_last(std::uint32_t value) { return value; }

 private:
  bool shared_ = false;
};

}  // namespace gshmem::device
