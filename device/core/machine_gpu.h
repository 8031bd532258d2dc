// The GPU's half of machine.h: accesses, fences and atomics in PTX (sm_70 and later, PTX ISA 8.2),
// and what each function promises; machine_cpu.h promises the same.
#pragma once

#include "machine.h"

#include <cstdint>

#if defined(__CUDA_ARCH__)

/// The PTX ISA that the compiler knows, 10 times its version, as far as it matters here: 8.6 came
/// with CUDA 12.7 (PTX ISA, "Release notes").
#if !defined(GSHMEM_PTX_ISA)
#if __CUDACC_VER_MAJOR__ * 100 + __CUDACC_VER_MINOR__ >= 1207
#define GSHMEM_PTX_ISA 86
#else
#define GSHMEM_PTX_ISA 82
#endif
#endif
// A fence that only releases or only acquires; before PTX ISA 8.6 one that does both.
#if GSHMEM_PTX_ISA >= 86
#define GSHMEM_PTX_FENCE(ORDER, SCOPE) asm volatile("fence." ORDER "." SCOPE ";" ::: "memory")
#else
#define GSHMEM_PTX_FENCE(ORDER, SCOPE) asm volatile("fence.acq_rel." SCOPE ";" ::: "memory")
#endif

namespace gshmem::device {

#define GSHMEM_PTX_ACCESS(T, TYPE, CONSTRAINT, WIDE)                                       \
  __device__ inline T load_relaxed(const T* p) {                                           \
    WIDE v;                                                                                \
    asm volatile("ld.relaxed.sys." TYPE " %0, [%1];" : CONSTRAINT(v) : "l"(p) : "memory"); \
    return static_cast<T>(v);                                                              \
  }                                                                                        \
  __device__ inline T load_acquire(const T* p) {                                           \
    WIDE v;                                                                                \
    asm volatile("ld.acquire.sys." TYPE " %0, [%1];" : CONSTRAINT(v) : "l"(p) : "memory"); \
    return static_cast<T>(v);                                                              \
  }
GSHMEM_PTX_ACCESS(std::uint8_t, "u8", "=h", std::uint16_t)
GSHMEM_PTX_ACCESS(std::uint16_t, "u16", "=h", std::uint16_t)
GSHMEM_PTX_ACCESS(std::uint32_t, "u32", "=r", std::uint32_t)
GSHMEM_PTX_ACCESS(std::uint64_t, "u64", "=l", unsigned long long)
#undef GSHMEM_PTX_ACCESS

#define GSHMEM_PTX_STORE(T, TYPE, CONSTRAINT, WIDE)                                             \
  __device__ inline void store_relaxed(T* p, T v) {                                             \
    asm volatile("st.relaxed.sys." TYPE " [%0], %1;" ::"l"(p), CONSTRAINT(static_cast<WIDE>(v)) \
                 : "memory");                                                                   \
  }                                                                                             \
  __device__ inline void store_release(T* p, T v) {                                             \
    asm volatile("st.release.sys." TYPE " [%0], %1;" ::"l"(p), CONSTRAINT(static_cast<WIDE>(v)) \
                 : "memory");                                                                   \
  }
GSHMEM_PTX_STORE(std::uint8_t, "u8", "h", std::uint16_t)
GSHMEM_PTX_STORE(std::uint16_t, "u16", "h", std::uint16_t)
GSHMEM_PTX_STORE(std::uint32_t, "u32", "r", std::uint32_t)
GSHMEM_PTX_STORE(std::uint64_t, "u64", "l", std::uint64_t)
#undef GSHMEM_PTX_STORE

__device__ inline Word16 load_relaxed(const Word16* p) {
  Word16 v;
  asm volatile("ld.relaxed.sys.v4.u32 {%0,%1,%2,%3}, [%4];"
               : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
               : "l"(p)
               : "memory");
  return v;
}
__device__ inline void store_relaxed(Word16* p, Word16 v) {
  asm volatile("st.relaxed.sys.v4.u32 [%0], {%1,%2,%3,%4};" ::"l"(p), "r"(v.x), "r"(v.y), "r"(v.z),
               "r"(v.w)
               : "memory");
}

/// Bulk access: may be cached, may tear between words; only for data that somebody else orders.
/// Generic addresses, because sources may be in shared memory or on the stack. `volatile` keeps
/// the order of issue, so that the loads of one unrolled group are all in flight before the first
/// store.
#define GSHMEM_PTX_BULK(T, TYPE, LOADED, STORED, WIDE)                                       \
  __device__ inline T load_bulk(const T* p) {                                                \
    WIDE v;                                                                                  \
    asm volatile("ld." TYPE " %0, [%1];" : LOADED(v) : "l"(p) : "memory");                   \
    return static_cast<T>(v);                                                                \
  }                                                                                          \
  __device__ inline void store_bulk(T* p, T v) {                                             \
    asm volatile("st." TYPE " [%0], %1;" ::"l"(p), STORED(static_cast<WIDE>(v)) : "memory"); \
  }
GSHMEM_PTX_BULK(std::uint8_t, "u8", "=h", "h", std::uint16_t)
GSHMEM_PTX_BULK(std::uint16_t, "u16", "=h", "h", std::uint16_t)
GSHMEM_PTX_BULK(std::uint32_t, "u32", "=r", "r", std::uint32_t)
GSHMEM_PTX_BULK(std::uint64_t, "u64", "=l", "l", unsigned long long)
#undef GSHMEM_PTX_BULK
__device__ inline Word16 load_bulk(const Word16* p) {
  Word16 v;
  asm volatile("ld.v4.u32 {%0,%1,%2,%3}, [%4];"
               : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
               : "l"(p)
               : "memory");
  return v;
}
__device__ inline void store_bulk(Word16* p, Word16 v) {
  asm volatile("st.v4.u32 [%0], {%1,%2,%3,%4};" ::"l"(p), "r"(v.x), "r"(v.y), "r"(v.z), "r"(v.w)
               : "memory");
}

/// Release and acquire for everything before and after it, to and from the whole system.
__device__ inline void fence_system() { asm volatile("fence.acq_rel.sys;" ::: "memory"); }

#define GSHMEM_PTX_ATOMIC(T, NAME, OP, TYPE, OUT, IN)                    \
  __device__ inline T atomic_##NAME(T* p, T v) {                         \
    T old;                                                               \
    asm volatile("atom.relaxed.sys.global." OP "." TYPE " %0, [%1], %2;" \
                 : OUT(old)                                              \
                 : "l"(__cvta_generic_to_global(p)), IN(v)               \
                 : "memory");                                            \
    return old;                                                          \
  }
GSHMEM_PTX_ATOMIC(std::uint32_t, fetch_add, "add", "u32", "=r", "r")
GSHMEM_PTX_ATOMIC(std::uint64_t, fetch_add, "add", "u64", "=l", "l")
// Of float in global memory, subnormal operands and results are 0 (PTX ISA, "atom").
GSHMEM_PTX_ATOMIC(float, fetch_add, "add", "f32", "=f", "f")
GSHMEM_PTX_ATOMIC(double, fetch_add, "add", "f64", "=d", "d")
GSHMEM_PTX_ATOMIC(std::uint32_t, fetch_and, "and", "b32", "=r", "r")
GSHMEM_PTX_ATOMIC(std::uint64_t, fetch_and, "and", "b64", "=l", "l")
GSHMEM_PTX_ATOMIC(std::uint32_t, fetch_or, "or", "b32", "=r", "r")
GSHMEM_PTX_ATOMIC(std::uint64_t, fetch_or, "or", "b64", "=l", "l")
GSHMEM_PTX_ATOMIC(std::uint32_t, fetch_xor, "xor", "b32", "=r", "r")
GSHMEM_PTX_ATOMIC(std::uint64_t, fetch_xor, "xor", "b64", "=l", "l")
GSHMEM_PTX_ATOMIC(std::uint32_t, exchange, "exch", "b32", "=r", "r")
GSHMEM_PTX_ATOMIC(std::uint64_t, exchange, "exch", "b64", "=l", "l")
#undef GSHMEM_PTX_ATOMIC

#define GSHMEM_PTX_REDUCE(T, NAME, OP, TYPE, IN)                  \
  __device__ inline void atomic_##NAME(T* p, T v) {               \
    asm volatile("red.relaxed.sys.global." OP "." TYPE            \
                 " [%0], %1;" ::"l"(__cvta_generic_to_global(p)), \
                 IN(v)                                            \
                 : "memory");                                     \
  }
GSHMEM_PTX_REDUCE(std::uint32_t, add, "add", "u32", "r")
GSHMEM_PTX_REDUCE(std::uint64_t, add, "add", "u64", "l")
GSHMEM_PTX_REDUCE(float, add, "add", "f32", "f")
GSHMEM_PTX_REDUCE(double, add, "add", "f64", "d")
GSHMEM_PTX_REDUCE(std::uint32_t, and, "and", "b32", "r")
GSHMEM_PTX_REDUCE(std::uint64_t, and, "and", "b64", "l")
GSHMEM_PTX_REDUCE(std::uint32_t, or, "or", "b32", "r")
GSHMEM_PTX_REDUCE(std::uint64_t, or, "or", "b64", "l")
GSHMEM_PTX_REDUCE(std::uint32_t, xor, "xor", "b32", "r")
GSHMEM_PTX_REDUCE(std::uint64_t, xor, "xor", "b64", "l")
#undef GSHMEM_PTX_REDUCE

#define GSHMEM_PTX_CAS(T, TYPE, OUT, IN)                                       \
  __device__ inline T atomic_compare_swap(T* p, T expected, T desired) {       \
    T old;                                                                     \
    asm volatile("atom.relaxed.sys.global.cas." TYPE " %0, [%1], %2, %3;"      \
                 : OUT(old)                                                    \
                 : "l"(__cvta_generic_to_global(p)), IN(expected), IN(desired) \
                 : "memory");                                                  \
    return old;                                                                \
  }
GSHMEM_PTX_CAS(std::uint32_t, "b32", "=r", "r")
GSHMEM_PTX_CAS(std::uint64_t, "b64", "=l", "l")
#undef GSHMEM_PTX_CAS

// For memory that only threads of this GPU, or a NIC that reads the GPU's memory, look at: narrower
// scope, and much cheaper fences (569 against 2,842 clocks after the stores of a work queue entry).
/// Release and acquire to and from the threads of this GPU.
__device__ inline void fence_gpu() { asm volatile("fence.acq_rel.gpu;" ::: "memory"); }
__device__ inline std::uint64_t load_acquire_gpu(const std::uint64_t* p) {
  std::uint64_t v;
  asm volatile("ld.acquire.gpu.u64 %0, [%1];" : "=l"(v) : "l"(p) : "memory");
  return v;
}
/// A load after which the caller only stores, and only if the value lets it: the GPU begins no
/// store before the branch on it is decided.
__device__ inline std::uint64_t load_before_stores(const std::uint64_t* p) {
  std::uint64_t v;
  asm volatile("ld.relaxed.gpu.global.u64 %0, [%1];"
               : "=l"(v)
               : "l"(__cvta_generic_to_global(p))
               : "memory");
  return v;
}
/// A word that one thread at a time uses: the next user has synchronized with the last one. So
/// it may be cached.
__device__ inline std::uint64_t load_own(const std::uint64_t* p) {
  std::uint64_t v;
  asm volatile("ld.global.u64 %0, [%1];" : "=l"(v) : "l"(__cvta_generic_to_global(p)) : "memory");
  return v;
}
__device__ inline void store_own(std::uint64_t* p, std::uint64_t v) {
  asm volatile("st.global.u64 [%0], %1;" ::"l"(__cvta_generic_to_global(p)), "l"(v) : "memory");
}
/// A unit of a work queue entry.
__device__ inline void store_entry(Word16* p, Word16 v) {
  asm volatile("st.global.v4.u32 [%0], {%1,%2,%3,%4};" ::"l"(__cvta_generic_to_global(p)), "r"(v.x),
               "r"(v.y), "r"(v.z), "r"(v.w)
               : "memory");
}
/// The flags of an entry that is not published, in the last byte of its third word; the rest of
/// that word is 0.
__device__ inline void store_entry_flags(Word16* entry, std::uint32_t flags) {
  asm volatile("st.global.u32 [%0+8], %1;" ::"l"(__cvta_generic_to_global(entry)), "r"(flags << 24)
               : "memory");
}
/// A doorbell record.
__device__ inline void store_record(std::uint32_t* p, std::uint32_t v) {
  asm volatile("st.relaxed.sys.global.u32 [%0], %1;" ::"l"(__cvta_generic_to_global(p)), "r"(v)
               : "memory");
}
/// Acquire only, after a load_poll that has seen what it waits for: costs nothing but the cache.
__device__ inline void fence_acquire_system() { GSHMEM_PTX_FENCE("acquire", "sys"); }
template <class T>
__device__ inline T load_poll(const T* p) {
  return load_relaxed(p);
}
/// Two words of 8 bytes, each of them whole.
__device__ inline Word16 load_poll(const Word16* p) {
  std::uint64_t low, high;
  asm volatile("ld.relaxed.sys.v2.u64 {%0,%1}, [%2];" : "=l"(low), "=l"(high) : "l"(p) : "memory");
  return word16(low, high);
}
/// Release only: what was cached stays, so that later loads need not go to memory again.
__device__ inline void fence_release_gpu() { GSHMEM_PTX_FENCE("release", "gpu"); }
__device__ inline void fence_release_system() { GSHMEM_PTX_FENCE("release", "sys"); }
/// Every store before it is performed: every load of the system that comes after it, in the one
/// order of all such fences, sees it (PTX ISA, "membar/fence", fence.sc). A release only orders.
__device__ inline void fence_complete_system() { asm volatile("fence.sc.sys;" ::: "memory"); }
/// Adds to a word whose readers acquire it. Relaxed: a reader synchronizes with the release of the
/// fence before every addition that led to what it reads. (PTX ISA: observation order goes on
/// through read-modify-writes.)
__device__ inline void atomic_add_chain_gpu(std::uint64_t* p, std::uint64_t v) {
  asm volatile("red.relaxed.gpu.global.add.u64 [%0], %1;" ::"l"(__cvta_generic_to_global(p)), "l"(v)
               : "memory");
}
/// Adds to such a word, and releases the stores after that fence.
__device__ inline void atomic_add_release_gpu(std::uint64_t* p, std::uint64_t v) {
  asm volatile("red.release.gpu.global.add.u64 [%0], %1;" ::"l"(__cvta_generic_to_global(p)), "l"(v)
               : "memory");
}
__device__ inline std::uint64_t atomic_fetch_add_gpu(std::uint64_t* p, std::uint64_t v) {
  std::uint64_t old;
  asm volatile("atom.relaxed.gpu.global.add.u64 %0, [%1], %2;"
               : "=l"(old)
               : "l"(__cvta_generic_to_global(p)), "l"(v)
               : "memory");
  return old;
}
/// For a cursor that says how far a NIC is. Relaxed: an acquire load has told the caller so, and
/// the maximum comes after it. A thread that acquires the cursor may store to what the NIC has
/// read. It needs an acquire load of its own to read what the NIC has written.
__device__ inline void atomic_max_gpu(std::uint64_t* p, std::uint64_t v) {
  asm volatile("red.relaxed.gpu.global.max.u64 [%0], %1;" ::"l"(__cvta_generic_to_global(p)), "l"(v)
               : "memory");
}
/// Rings a NIC: one 64-bit store that is neither merged nor split (PTX ISA, "st.mmio").
__device__ inline void store_doorbell(std::uint64_t* p, std::uint64_t v) {
  asm volatile("st.mmio.relaxed.sys.global.u64 [%0], %1;" ::"l"(__cvta_generic_to_global(p)), "l"(v)
               : "memory");
}
/// Rings a NIC whose doorbell is a register. The store leaves the GPU before a store that another
/// thread makes after it has seen a later store of this thread and a fence of its own (UCX's
/// uct/ib/mlx5/gdaki relies on it; PTX's memory model does not promise it).
__device__ inline void store_register(std::uint64_t* p, std::uint64_t v) { store_doorbell(p, v); }
/// Memory that nobody writes while kernels run; fences do not drop it from the cache. Volatile, so
/// that every use loads again: a value that is at hand for 30 clocks need not live in a register.
__device__ inline std::uint32_t load_constant(const std::uint32_t* p) {
  std::uint32_t v;
  asm volatile("ld.global.nc.u32 %0, [%1];" : "=r"(v) : "l"(__cvta_generic_to_global(p)));
  return v;
}
__device__ inline std::uint64_t load_constant(const std::uint64_t* p) {
  std::uint64_t v;
  asm volatile("ld.global.nc.u64 %0, [%1];" : "=l"(v) : "l"(__cvta_generic_to_global(p)));
  return v;
}

__device__ inline Word16 load_constant(const Word16* p) {
  Word16 v;
  asm volatile("ld.global.nc.v4.u32 {%0,%1,%2,%3}, [%4];"
               : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
               : "l"(__cvta_generic_to_global(p)));
  return v;
}

// Shared memory of the block, by its address there.
__device__ inline std::uint32_t shared_address(const void* p) {
  return static_cast<std::uint32_t>(__cvta_generic_to_shared(p));
}
__device__ inline Word16 load_shared(std::uint32_t p) {
  Word16 v;
  asm volatile("ld.shared.v4.u32 {%0,%1,%2,%3}, [%4];"
               : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
               : "r"(p)
               : "memory");
  return v;
}
__device__ inline void store_shared(std::uint32_t p, std::uint64_t v) {
  asm volatile("st.shared.u64 [%0], %1;" ::"r"(p), "l"(v) : "memory");
}
/// A lock: false where another thread of the block has it. Acquires what the last one released.
__device__ inline bool try_lock_shared(std::uint32_t p) {
  std::uint32_t old;
  asm volatile("atom.acquire.cta.shared.cas.b32 %0, [%1], 0, 1;" : "=r"(old) : "r"(p) : "memory");
  return old == 0;
}
__device__ inline void unlock_shared(std::uint32_t p) {
  asm volatile("st.release.cta.shared.u32 [%0], 0;" ::"r"(p) : "memory");
}

#if __CUDA_ARCH__ >= 900
// The bulk copy engine of the SM (PTX ISA 8.0, "Asynchronous copy"). Addresses and sizes are
// multiples of 16 bytes; in shared memory they are addresses there.
/// Between accesses by instructions and by the engine, of the calling thread and of those that it
/// has synchronized with: the one that comes first, before the one after (PTX ISA, "Async Proxy").
/// None is needed after a wait for the engine, whose completion is such a fence.
__device__ inline void fence_engine() { asm volatile("fence.proxy.async;" ::: "memory"); }
/// An object of 8 bytes that tells of loads, each phase of one; until it is ended.
__device__ inline void begin_arrivals(std::uint32_t arrivals) {
  asm volatile("mbarrier.init.shared.b64 [%0], 1;" ::"r"(arrivals) : "memory");
}
__device__ inline void end_arrivals(std::uint32_t arrivals) {
  asm volatile("mbarrier.inval.shared.b64 [%0];" ::"r"(arrivals) : "memory");
}
/// Begins to load `bytes` bytes of global memory.
__device__ inline void engine_load(std::uint32_t to, const void* from, std::uint32_t bytes,
                                   std::uint32_t arrivals) {
  asm volatile("mbarrier.arrive.expect_tx.shared.b64 _, [%0], %1;" ::"r"(arrivals), "r"(bytes)
               : "memory");
  asm volatile(
      "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::
          "r"(to),
      "l"(__cvta_generic_to_global(from)), "r"(bytes), "r"(arrivals)
      : "memory");
}
/// The load of phase `number` modulo 2 has arrived.
__device__ inline void await_arrival(std::uint32_t arrivals, std::uint32_t number) {
  std::uint32_t done;
  do {
    asm volatile(
        "{ .reg .pred done; mbarrier.try_wait.parity.shared.b64 done, [%1], %2; "
        "selp.u32 %0, 1, 0, done; }"
        : "=r"(done)
        : "r"(arrivals), "r"(number)
        : "memory");
  } while (done == 0);
}
/// Begins to store to global memory.
__device__ inline void engine_store(void* to, std::uint32_t from, std::uint32_t bytes) {
  asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;" ::"l"(
                   __cvta_generic_to_global(to)),
               "r"(from), "r"(bytes)
               : "memory");
  asm volatile("cp.async.bulk.commit_group;" ::: "memory");
}
/// All stores of the calling thread but the newest have read shared memory.
__device__ inline void await_older_reads() {
  asm volatile("cp.async.bulk.wait_group.read 1;" ::: "memory");
}
/// All its stores are made, and visible to it: a release of this thread orders them. (PTX ISA,
/// "cp.async.bulk.wait_group": without .read.)
__device__ inline void await_stores() { asm volatile("cp.async.bulk.wait_group 0;" ::: "memory"); }
#endif

/// The store of a flag, after fence_system() where older writes must be seen first: fence and
/// relaxed store are together a release. (A release store would pay for a second fence.)
template <class T>
__device__ inline void store_flag(T* p, T v) {
  store_relaxed(p, v);
}
/// Two words of 8 bytes, each of them whole.
__device__ inline void store_flag(Word16* p, Word16 v) {
  asm volatile("st.relaxed.sys.v2.u64 [%0], {%1,%2};" ::"l"(p), "l"(low_of(v)), "l"(high_of(v))
               : "memory");
}

/// Wakes the host thread that sleeps until a word in host memory is another one. A GPU wakes
/// nobody: there the thread looks again and again.
__device__ inline void wake_host(const std::uint32_t*) {}
/// Nanoseconds of a clock that never goes back; coarse (about 1 us) on GPUs.
__device__ inline std::uint64_t now_ns() {
  std::uint64_t t;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(t));
  return t;
}
/// Another value at every call: the clock of this SM. (now_ns stands still for many calls.)
__device__ inline std::uint32_t now_cycles() {
  std::uint32_t t;
  asm volatile("mov.u32 %0, %%clock;" : "=r"(t));
  return t;
}
/// The pointer `bytes` further, computed here: the compiler may not derive a row of such pointers
/// from one base, which would keep them all in registers.
template <class T>
__device__ inline T* advance(T* p, std::uint32_t bytes) {
  std::uintptr_t at = reinterpret_cast<std::uintptr_t>(p) + bytes;
  asm volatile("" : "+l"(at));
  return reinterpret_cast<T*>(at);
}
/// `object` is in memory from here to its next use, not in registers.
template <class T>
__device__ inline void keep_in_memory(T& object) {
  asm volatile("" ::"l"(&object) : "memory");
}
/// Number of the kernel that runs: no other has it on this GPU, by this process.
__device__ inline std::uint64_t grid_number() {
  std::uint64_t number;
  asm("mov.u64 %0, %%gridid;" : "=l"(number));
  return number;
}

/// Number of the SM that runs the calling thread.
__device__ inline std::uint32_t sm_number() {
  std::uint32_t sm;
  asm("mov.u32 %0, %%smid;" : "=r"(sm));
  return sm;
}
/// Position of the calling thread in its warp.
__device__ inline int lane_id() {
  std::uint32_t lane;
  asm("mov.u32 %0, %%laneid;" : "=r"(lane));
  return static_cast<int>(lane);
}
/// The mask of a whole warp, as a value that no compiler knows.
__device__ inline std::uint32_t all_lanes() {
  std::uint32_t lanes, others;
  asm volatile("mov.u32 %0, %%lanemask_le;" : "=r"(lanes));
  asm volatile("mov.u32 %0, %%lanemask_gt;" : "=r"(others));
  return lanes | others;
}
/// `threads` threads, of whole warps, wait for each other at the block's barrier `number`; and the
/// same with an answer, whether `mine` was true on one of them.
__device__ inline void meet_at(std::uint32_t number, std::uint32_t threads) {
  asm volatile("barrier.sync %0, %1;" ::"r"(number), "r"(threads) : "memory");
}
__device__ inline bool any_at(std::uint32_t number, std::uint32_t threads, bool mine) {
  std::uint32_t any;
  asm volatile(
      "{ .reg .pred mine, any; setp.ne.u32 mine, %3, 0; "
      "barrier.red.or.pred any, %1, %2, mine; selp.u32 %0, 1, 0, any; }"
      : "=r"(any)
      : "r"(number), "r"(threads), "r"(static_cast<std::uint32_t>(mine))
      : "memory");
  return any != 0;
}
/// Between two polls: nothing, a poll over NVLink or L2 already takes its time.
__device__ inline void pause(unsigned) {}
/// Between two polls of host memory. Thousands of threads that poll at once fill the bus, which
/// then is slow for what they wait for; the first ones, about 10 us, come at full speed.
__device__ inline void pause_far(unsigned polls) {
  if (polls > 8) __nanosleep(polls < 40 ? 32 * (polls - 8) : 1024);
}
/// Between two polls of one that has `left` entries of a queue in front of it: about as long as
/// half of them take.
__device__ inline void pause_behind(unsigned, std::uint32_t left) {
  if (left > 32) __nanosleep(left < 1024 ? left : 1024);
}
/// Whether this poll of a wait looks at the clock and the stop word, which is in host memory: a
/// look over PCIe costs about as much as three polls.
__device__ inline bool look_is_due(unsigned polls) { return polls % 1024 == 0; }
[[noreturn]] __device__ inline void trap() {
  asm volatile("trap;");
  __builtin_unreachable();
}

}  // namespace gshmem::device

#undef GSHMEM_PTX_FENCE
#endif
