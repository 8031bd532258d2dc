// The machine of device/core/machine.h on the memory of memory.h: the same device code as in the
// product, compiled with GSHMEM_MACHINE set to this file. Orders are those of the GPU's
// instructions, which are weaker than the CPU's: atomics and doorbells are relaxed, and atomics
// without a result may be pending when the call returns. It also has threads of a warp that
// converge (device/core/coop.h), which CPU mode lacks.
#pragma once

#include "tests/model/store_buffer/model.h"

#include <cstddef>
#include <cstdint>

namespace gshmem::device {

template <class T>
inline T load_relaxed(const T* p) {
  T v;
  model::load(p, &v, sizeof(v));
  return v;
}
template <class T>
inline T load_acquire(const T* p) {
  return load_relaxed(p);
}
template <class T>
inline T load_bulk(const T* p) {
  return load_relaxed(p);
}
template <class T>
inline T load_constant(const T* p) {
  return *p;
}
inline std::uint64_t load_acquire_gpu(const std::uint64_t* p) { return load_relaxed(p); }

template <class T>
inline void store_relaxed(T* p, T v) {
  model::store(p, &v, sizeof(v), model::Order::kRelaxed);
}
template <class T>
inline void store_bulk(T* p, T v) {
  store_relaxed(p, v);
}
template <class T>
inline void store_flag(T* p, T v) {
  store_relaxed(p, v);
}
template <class T>
inline void store_release(T* p, T v) {
  model::store(p, &v, sizeof(v), model::Order::kReleaseSystem);
}
inline void store_release_gpu(std::uint64_t* p, std::uint64_t v) {
  model::store(p, &v, sizeof(v), model::Order::kReleaseGpu);
}
inline void store_doorbell(std::uint64_t* p, std::uint64_t v) { store_relaxed(p, v); }
/// Not delayed: device/core/machine_gpu.h relies on that.
inline void store_register(std::uint64_t* p, std::uint64_t v) {
  model::step();
  model::model().memory.nic_store(p, &v, sizeof(v));
  model::model().rung[p].insert(v);
}
inline void store_record(std::uint32_t* p, std::uint32_t v) { store_relaxed(p, v); }
template <class W>
inline void store_entry(W* p, W v) {
  store_bulk(p, v);
}
template <class W>
inline void store_entry_flags(W* entry, std::uint32_t flags) {
  store_bulk(&entry->z, flags << 24);
}
inline std::uint64_t load_own(const std::uint64_t* p) { return load_relaxed(p); }
inline void store_own(std::uint64_t* p, std::uint64_t v) { store_relaxed(p, v); }

inline void fence_system() { model::fence(model::View::kSystem); }
inline void fence_gpu() { model::fence(model::View::kGpu); }
inline void fence_acquire_system() {}
template <class T>
inline T load_poll(const T* p) {
  return load_relaxed(p);
}
inline void fence_release_system() { fence_system(); }
inline void fence_complete_system() { fence_system(); }
inline void fence_release_gpu() { fence_gpu(); }
inline std::uint64_t load_before_stores(const std::uint64_t* p) { return load_relaxed(p); }

template <class T, class Update>
inline T atomic(T* p, const Update& update) {
  T old;
  model::begin_atomic(p, &old, sizeof(old));
  const T made = update(old);
  model::end_atomic(p, &made, sizeof(made));
  return old;
}
#define GSHMEM_MODEL_ATOMIC(NAME, OP, UPDATE)                                      \
  template <class T>                                                               \
  inline T atomic_fetch_##NAME(T* p, T v) {                                        \
    return atomic(p, [v](T old) { return static_cast<T>(old OP v); });             \
  }                                                                                \
  template <class T>                                                               \
  inline void atomic_##NAME(T* p, T v) {                                           \
    model::store(p, &v, sizeof(v), model::Order::kRelaxed, model::Update::UPDATE); \
  }
GSHMEM_MODEL_ATOMIC(add, +, kAdd)
GSHMEM_MODEL_ATOMIC(and, &, kAnd)
GSHMEM_MODEL_ATOMIC(or, |, kOr)
GSHMEM_MODEL_ATOMIC(xor, ^, kXor)
#undef GSHMEM_MODEL_ATOMIC
inline std::uint64_t atomic_fetch_add_gpu(std::uint64_t* p, std::uint64_t v) {
  return atomic_fetch_add(p, v);
}
inline void atomic_add_chain_gpu(std::uint64_t* p, std::uint64_t v) { atomic_add(p, v); }
inline void atomic_add_release_gpu(std::uint64_t* p, std::uint64_t v) {
  model::store(p, &v, sizeof(v), model::Order::kReleaseGpu, model::Update::kAdd);
}
inline void atomic_max_gpu(std::uint64_t* p, std::uint64_t v) {
  model::store(p, &v, sizeof(v), model::Order::kRelaxed, model::Update::kMax);
}
template <class T>
inline T atomic_exchange(T* p, T v) {
  return atomic(p, [v](T) { return v; });
}
template <class T>
inline T atomic_compare_swap(T* p, T expected, T desired) {
  return atomic(p, [&](T old) { return old == expected ? desired : old; });
}

inline void wake_host(const std::uint32_t*) {}
inline std::uint64_t now_ns() { return model::steps(); }
inline std::uint32_t now_cycles() { return static_cast<std::uint32_t>(model::steps()); }
template <class T>
inline void keep_in_memory(T&) {}
inline std::uint32_t sm_number() { return 0; }
inline void pause(unsigned) { model::pause(); }
inline void pause_far(unsigned polls) { pause(polls); }
inline void pause_behind(unsigned polls, std::uint32_t) { pause(polls); }
inline bool look_is_due(unsigned polls) { return polls % 1024 == 0; }
[[noreturn]] inline void trap() { model::fail("trap"); }

/// A thread may find itself alone although others are about to arrive.
inline bool is_alone() { return model::model().random.chance(64); }

/// Threads of a warp that arrive at the same point together, with the same key.
class Converged {
 public:
  explicit Converged(std::uint64_t key) : group_(model::converge(key)), rank_(group_->rank()) {}
  Converged() = default;
  static Converged self() { return {}; }
  [[nodiscard]] int size() const { return group_ ? group_->size() : 1; }
  [[nodiscard]] int rank() const { return rank_; }
  [[nodiscard]] bool first() const { return rank_ == 0; }
  [[nodiscard]] bool last() const { return rank_ + 1 == size(); }
  [[nodiscard]] bool alone() const { return size() == 1; }
  void sync() const {
    if (group_) group_->sync();
  }
  [[nodiscard]] std::uint64_t from_first(std::uint64_t value) const {
    return group_ ? group_->value_of(0, value) : value;
  }
  [[nodiscard]] std::uint32_t from_last(std::uint32_t value) const {
    return group_ ? static_cast<std::uint32_t>(group_->value_of(size() - 1, value)) : value;
  }

 private:
  std::shared_ptr<model::Group> group_;
  int rank_ = 0;
};

}  // namespace gshmem::device
