// The functions of ThreadSanitizer that the order checker uses. Included by order_checker.cpp and
// its parts, which are not instrumented. Invariant: ThreadSanitizer knows of this code only what it
// reports by these functions. So the code has no mutex.
#pragma once

#include <gshmem/abi/state.h>

#include <pthread.h>
#include <sched.h>

#include <sanitizer/tsan_interface.h>

#include <cstddef>
#include <cstdint>
#include <cstdio>

// Compilers call these functions, which no header of g++ declares.
extern "C" {
void __tsan_read_range(void* address, unsigned long bytes);
void __tsan_write_range(void* address, unsigned long bytes);
void __tsan_func_entry(void* pc);
void __tsan_func_exit(void);
void AnnotateIgnoreReadsBegin(const char* file, int line);
void AnnotateIgnoreReadsEnd(const char* file, int line);
void AnnotateIgnoreWritesBegin(const char* file, int line);
void AnnotateIgnoreWritesEnd(const char* file, int line);
#define GSHMEM_TSAN_ATOMIC(BITS)                                                        \
  void __tsan_atomic##BITS##_store(void* word, std::uint##BITS##_t, int order);         \
  std::uint##BITS##_t __tsan_atomic##BITS##_fetch_add(void*, std::uint##BITS##_t, int); \
  std::uint##BITS##_t __tsan_atomic##BITS##_fetch_and(void*, std::uint##BITS##_t, int); \
  std::uint##BITS##_t __tsan_atomic##BITS##_fetch_or(void*, std::uint##BITS##_t, int);  \
  std::uint##BITS##_t __tsan_atomic##BITS##_fetch_xor(void*, std::uint##BITS##_t, int);
GSHMEM_TSAN_ATOMIC(32)
GSHMEM_TSAN_ATOMIC(64)
#undef GSHMEM_TSAN_ATOMIC
}

namespace gshmem::tsan {

/// Flag: __tsan_switch_to_fiber does not order the two fibers.
inline constexpr unsigned kNoSync = 1;
inline constexpr int kFrames = 12;

/// A lock that ThreadSanitizer does not see, and that therefore orders nothing.
class SpinLock {
 public:
  void lock() {
    while (__atomic_exchange_n(&taken_, 1, __ATOMIC_ACQUIRE) != 0) sched_yield();
  }
  void unlock() { __atomic_store_n(&taken_, 0, __ATOMIC_RELEASE); }

 private:
  int taken_ = 0;
};
class Locked {
 public:
  explicit Locked(SpinLock& lock) : lock_(lock) { lock_.lock(); }
  ~Locked() { lock_.unlock(); }
  Locked(const Locked&) = delete;

 private:
  SpinLock& lock_;
};

inline void note_reading(const char* at, std::size_t bytes) {
  __tsan_read_range(const_cast<char*>(at), bytes);
}

/// Returns the return addresses of the callers of the checker, innermost first. It stops at the
/// first frame without a frame pointer.
inline int callers(void** frame, void** pcs) {
  thread_local char* stack_end = nullptr;
  if (!stack_end) {
    pthread_attr_t attributes;
    void* stack = nullptr;
    std::size_t bytes = 0;
    if (pthread_getattr_np(pthread_self(), &attributes) != 0) return 0;
    (void)pthread_attr_getstack(&attributes, &stack, &bytes);
    (void)pthread_attr_destroy(&attributes);
    stack_end = static_cast<char*>(stack) + bytes;
  }
  int n = 0;
  while (n < kFrames && reinterpret_cast<char*>(frame + 2) <= stack_end && frame[1] != nullptr) {
    pcs[n++] = frame[1];
    void** const next = static_cast<void**>(frame[0]);
    if (next <= frame || reinterpret_cast<std::uintptr_t>(next) % sizeof(void*) != 0) break;
    frame = next;
  }
  return n;
}

/// Makes the name that reports show: the PE of a thread or an operation, and the addresses of the
/// heaps.
inline int name_of(const char* what, const abi::DeviceState& state, char (&name)[64]) {
  const int slot = state.slots ? state.my_slot : state.my_pe - state.mapped_first;
  const auto heap = reinterpret_cast<std::uintptr_t>(state.heap);
  const auto stride = static_cast<std::uintptr_t>(state.stride);
  return std::snprintf(name, sizeof(name), "%s of PE %d, heaps %lx+%lx", what, state.my_pe,
                       heap - static_cast<std::uintptr_t>(slot) * stride, stride);
}

/// Returns a number that looks random.
inline std::uint64_t mixed(std::uint64_t z) {  // splitmix64 (Steele, Lea and Flood, 2014)
  z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
  z = (z ^ z >> 27) * 0x94d049bb133111ebu;
  return z ^ z >> 31;
}

}  // namespace gshmem::tsan
