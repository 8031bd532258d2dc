// The GPU's half of machine.h: accesses, fences and atomics in PTX (sm_70 and later, PTX ISA 8.2),
// with the contract of each function; the functions of machine_cpu.h keep the same contract.
#pragma once

#include "machine.h"

#include <cstdint>

#if defined(__CUDA_ARCH__)

/// The PTX ISA version of the compiler, times 10, as far as it matters here: 8.6 came with CUDA
/// 12.7 (PTX ISA, "Release notes").
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

/// Bulk accesses may be cached, and may tear between words; they are only for data that other code
/// orders. Addresses are generic, because sources may be in shared memory or on the stack.
/// `volatile` keeps the order of issue, so that the loads of one unrolled group are all in flight
/// before the first store.
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

/// Releases and acquires: orders all accesses before it and after it, at the scope of the system.
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
// For float in global memory, subnormal operands and results are treated as 0 (PTX ISA, "atom").
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

// For memory that is accessed only by threads of this GPU, or by a NIC that reads the GPU's memory:
// the scope is narrower, and fences are much cheaper (569 against 2,842 clocks after the stores of
// a work queue entry).
/// Releases and acquires, at the scope of this GPU.
__device__ inline void fence_gpu() { asm volatile("fence.acq_rel.gpu;" ::: "memory"); }
__device__ inline std::uint64_t load_acquire_gpu(const std::uint64_t* p) {
  std::uint64_t v;
  asm volatile("ld.acquire.gpu.u64 %0, [%1];" : "=l"(v) : "l"(p) : "memory");
  return v;
}
/// A load after which the caller only stores, and only if the value permits it. The GPU starts no
/// store before the branch on the value is decided, so no acquire is needed.
__device__ inline std::uint64_t load_before_stores(const std::uint64_t* p) {
  std::uint64_t v;
  asm volatile("ld.relaxed.gpu.global.u64 %0, [%1];"
               : "=l"(v)
               : "l"(__cvta_generic_to_global(p))
               : "memory");
  return v;
}
/// Loads a word that one thread at a time uses. The word may be cached, because the next user has
/// synchronized with the previous one.
__device__ inline std::uint64_t load_own(const std::uint64_t* p) {
  std::uint64_t v;
  asm volatile("ld.global.u64 %0, [%1];" : "=l"(v) : "l"(__cvta_generic_to_global(p)) : "memory");
  return v;
}
__device__ inline void store_own(std::uint64_t* p, std::uint64_t v) {
  asm volatile("st.global.u64 [%0], %1;" ::"l"(__cvta_generic_to_global(p)), "l"(v) : "memory");
}
/// Stores a unit of a work queue entry.
__device__ inline void store_entry(Word16* p, Word16 v) {
  asm volatile("st.global.v4.u32 [%0], {%1,%2,%3,%4};" ::"l"(__cvta_generic_to_global(p)), "r"(v.x),
               "r"(v.y), "r"(v.z), "r"(v.w)
               : "memory");
}
/// Stores the flags of an entry that is not published, in the last byte of its third word; the rest
/// of that word is 0.
__device__ inline void store_entry_flags(Word16* entry, std::uint32_t flags) {
  asm volatile("st.global.u32 [%0+8], %1;" ::"l"(__cvta_generic_to_global(entry)), "r"(flags << 24)
               : "memory");
}
/// Stores a doorbell record.
__device__ inline void store_record(std::uint32_t* p, std::uint32_t v) {
  asm volatile("st.relaxed.sys.global.u32 [%0], %1;" ::"l"(__cvta_generic_to_global(p)), "r"(v)
               : "memory");
}
/// Only acquires. It is for use after a load_poll that has seen the awaited value. Its cost is that
/// it drops the first-level cache.
__device__ inline void fence_acquire_system() { GSHMEM_PTX_FENCE("acquire", "sys"); }
template <class T>
__device__ inline T load_poll(const T* p) {
  return load_relaxed(p);
}
/// Loads two words of 8 bytes, neither of which is torn.
__device__ inline Word16 load_poll(const Word16* p) {
  std::uint64_t low, high;
  asm volatile("ld.relaxed.sys.v2.u64 {%0,%1}, [%2];" : "=l"(low), "=l"(high) : "l"(p) : "memory");
  return word16(low, high);
}
/// Releases only: cached data stays, so that later loads need not go to memory again.
__device__ inline void fence_release_gpu() { GSHMEM_PTX_FENCE("release", "gpu"); }
__device__ inline void fence_release_system() { GSHMEM_PTX_FENCE("release", "sys"); }
/// Completes every earlier store. All such fences of the system have one order. A load after a
/// later fence sees the store (PTX ISA, "membar/fence", fence.sc). A release only orders.
__device__ inline void fence_complete_system() { asm volatile("fence.sc.sys;" ::: "memory"); }
/// Adds to a word whose readers acquire it. The addition is relaxed: a reader synchronizes with the
/// release of the fence before every addition that led to the value it reads. (PTX ISA: observation
/// order extends through read-modify-writes.)
__device__ inline void atomic_add_chain_gpu(std::uint64_t* p, std::uint64_t v) {
  asm volatile("red.relaxed.gpu.global.add.u64 [%0], %1;" ::"l"(__cvta_generic_to_global(p)), "l"(v)
               : "memory");
}
/// Adds to a word whose readers acquire it, and releases also the stores after the last fence.
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
/// Advances a cursor that says how far a NIC is. It is relaxed: an acquire load has returned the
/// position to the caller, and the maximum comes after it. A thread that acquires the cursor may
/// overwrite entries that the NIC has read. To read data that the NIC has written, it needs an
/// acquire load of its own.
__device__ inline void atomic_max_gpu(std::uint64_t* p, std::uint64_t v) {
  asm volatile("red.relaxed.gpu.global.max.u64 [%0], %1;" ::"l"(__cvta_generic_to_global(p)), "l"(v)
               : "memory");
}
/// Rings a NIC by one 64-bit store that is neither merged nor split (PTX ISA, "st.mmio").
__device__ inline void store_doorbell(std::uint64_t* p, std::uint64_t v) {
  asm volatile("st.mmio.relaxed.sys.global.u64 [%0], %1;" ::"l"(__cvta_generic_to_global(p)), "l"(v)
               : "memory");
}
/// Rings a NIC whose doorbell is a register. The store leaves the GPU in order: assume that another
/// thread sees a later store of this thread, executes a fence, and stores. Then this store leaves
/// the GPU before the store of that thread. PTX's memory model does not promise it, but UCX's
/// uct/ib/mlx5/gdaki relies on it, too.
__device__ inline void store_register(std::uint64_t* p, std::uint64_t v) { store_doorbell(p, v); }
/// Loads from memory that is not written while kernels run; fences do not drop it from the cache.
/// It is volatile, so that every use loads again: a value that takes 30 clocks to load need not
/// occupy a register.
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

// Returns the shared-state-space address of shared memory of the block.
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
/// Tries to take a lock; false if another thread of the block has it. Acquires what the previous
/// owner released.
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
// multiples of 16 bytes; shared memory is named by its shared-state-space address.
/// Orders accesses by instructions and accesses by the engine: earlier ones before later ones. It
/// covers the calling thread and threads with which it has synchronized (PTX ISA, "Async Proxy").
/// After a wait for the engine no such fence is needed: its completion includes one.
__device__ inline void fence_engine() { asm volatile("fence.proxy.async;" ::: "memory"); }
/// Initializes an mbarrier, an object of 8 bytes that signals the arrival of loads, once per phase.
/// It exists until end_arrivals.
__device__ inline void begin_arrivals(std::uint32_t arrivals) {
  asm volatile("mbarrier.init.shared.b64 [%0], 1;" ::"r"(arrivals) : "memory");
}
__device__ inline void end_arrivals(std::uint32_t arrivals) {
  asm volatile("mbarrier.inval.shared.b64 [%0];" ::"r"(arrivals) : "memory");
}
/// Starts to load `bytes` bytes of global memory.
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
/// Waits for the load of a phase. `number` is the number of the phase modulo 2.
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
/// Starts a store to global memory.
__device__ inline void engine_store(void* to, std::uint32_t from, std::uint32_t bytes) {
  asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;" ::"l"(
                   __cvta_generic_to_global(to)),
               "r"(from), "r"(bytes)
               : "memory");
  asm volatile("cp.async.bulk.commit_group;" ::: "memory");
}
/// Waits until all stores of the calling thread but the newest have read shared memory.
__device__ inline void await_older_reads() {
  asm volatile("cp.async.bulk.wait_group.read 1;" ::: "memory");
}
/// Waits until all stores of the calling thread are made and visible to it. A later release of this
/// thread orders them. (PTX ISA, "cp.async.bulk.wait_group": without .read.)
__device__ inline void await_stores() { asm volatile("cp.async.bulk.wait_group 0;" ::: "memory"); }
#endif

/// Stores a flag, after fence_system() if older writes must be visible first: fence and relaxed
/// store together form a release. (A release store would pay for a second fence.)
template <class T>
__device__ inline void store_flag(T* p, T v) {
  store_relaxed(p, v);
}
/// Stores two words of 8 bytes, neither of which is torn.
__device__ inline void store_flag(Word16* p, Word16 v) {
  asm volatile("st.relaxed.sys.v2.u64 [%0], {%1,%2};" ::"l"(p), "l"(low_of(v)), "l"(high_of(v))
               : "memory");
}

/// Does nothing: a GPU cannot wake the host thread that sleeps until a word in host memory changes.
/// That thread polls instead.
__device__ inline void wake_host(const std::uint32_t*) {}
/// Returns nanoseconds of a clock that never goes back; coarse (about 1 us) on GPUs.
__device__ inline std::uint64_t now_ns() {
  std::uint64_t t;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(t));
  return t;
}
/// Returns another value at every call: the clock of this SM. (now_ns is constant for many calls.)
__device__ inline std::uint32_t now_cycles() {
  std::uint32_t t;
  asm volatile("mov.u32 %0, %%clock;" : "=r"(t));
  return t;
}
/// Returns the pointer plus `bytes`. It forces the compiler to add here. Otherwise the compiler may
/// derive a series of such pointers from one base, and keep them all in registers.
template <class T>
__device__ inline T* advance(T* p, std::uint32_t bytes) {
  std::uintptr_t at = reinterpret_cast<std::uintptr_t>(p) + bytes;
  asm volatile("" : "+l"(at));
  return reinterpret_cast<T*>(at);
}
/// Keeps `object` in memory, not in registers, from here to its next use.
template <class T>
__device__ inline void keep_in_memory(T& object) {
  asm volatile("" ::"l"(&object) : "memory");
}
/// Makes the compiler compute an address here, before the next branches.
__device__ inline void compute_here(std::uint64_t& address) { asm volatile("" : "+l"(address)); }
/// Returns the number of the running kernel: no other kernel of this process has it on this GPU.
__device__ inline std::uint64_t grid_number() {
  std::uint64_t number;
  asm("mov.u64 %0, %%gridid;" : "=l"(number));
  return number;
}

/// Returns the number of the SM that runs the calling thread.
__device__ inline std::uint32_t sm_number() {
  std::uint32_t sm;
  asm("mov.u32 %0, %%smid;" : "=r"(sm));
  return sm;
}
/// Returns the position of the calling thread in its warp.
__device__ inline int lane_id() {
  std::uint32_t lane;
  asm("mov.u32 %0, %%laneid;" : "=r"(lane));
  return static_cast<int>(lane);
}
/// Returns the mask of a whole warp, as a value that the compiler does not know.
__device__ inline std::uint32_t all_lanes() {
  std::uint32_t lanes, others;
  asm volatile("mov.u32 %0, %%lanemask_le;" : "=r"(lanes));
  asm volatile("mov.u32 %0, %%lanemask_gt;" : "=r"(others));
  return lanes | others;
}
/// Synchronizes `threads` threads, of whole warps, at the block's barrier `number`. The second form
/// also returns whether `mine` was true on one of them.
__device__ inline void sync_at(std::uint32_t number, std::uint32_t threads) {
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
/// The pause between two polls. It is empty: a poll over NVLink or L2 already takes its time.
__device__ inline void pause(unsigned) {}
/// The pause between two polls of host memory. Thousands of threads that poll at once saturate the
/// bus, which then delays the data that they wait for. The first polls, for about 10 us, have no
/// pause.
__device__ inline void pause_far(unsigned polls) {
  if (polls > 8) __nanosleep(polls < 40 ? 32 * (polls - 8) : 1024);
}
/// The pause between two polls of a thread with `left` entries ahead of it in a queue. It is about
/// half of the time that a NIC takes for them.
__device__ inline void pause_behind(unsigned, std::uint32_t left) {
  if (left > 32) __nanosleep(left < 1024 ? left : 1024);
}
/// Does this poll of a wait read the clock and the stop word, which is in host memory? A read over
/// PCIe costs about as much as three polls.
__device__ inline bool look_is_due(unsigned polls) { return polls % 1024 == 0; }
[[noreturn]] __device__ inline void trap() {
  asm volatile("trap;");
  __builtin_unreachable();
}

}  // namespace gshmem::device

#undef GSHMEM_PTX_FENCE
#endif
