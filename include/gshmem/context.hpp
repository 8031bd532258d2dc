// Context: a PE as C++ code sees it, in kernels and on host threads alike. It has the same
// operations as the C API, typed by concepts, with the group as the first argument. It names its
// PE, so several PEs may share a process or a GPU. C++20.
//
// Arguments, order, visibility and errors are those of the C function of the same name
// (functions.def); counts and strides are in elements.
#pragma once

#include "concepts.hpp"
#include "gshmem.h"

#include <gshmem/device/api/api.h>
#include <gshmem/device/api/api_context.h>
#include <gshmem/device/api/api_pieces.h>
#include <gshmem/device/api/lock.h>
#include <gshmem/device/api/strided_blocks.h>
#include <gshmem/device/pe/context.h>
#include <gshmem/device/pe/call_hints.h>

namespace gshmem {

using device::Block;
using device::ReduceOp;
using device::Thread;
using device::Warp;

/// Comparison operators of wait_until and test.
enum class Cmp : int {
  kEq = GSHMEM_CMP_EQ,
  kNe = GSHMEM_CMP_NE,
  kGt = GSHMEM_CMP_GT,
  kLe = GSHMEM_CMP_LE,
  kLt = GSHMEM_CMP_LT,
  kGe = GSHMEM_CMP_GE
};

/// The change that put_signal and signal make to the 64-bit word at `address` of the target.
struct Signal {
  std::uint64_t* address;
  std::uint64_t value;
  enum Op : int { kSet = GSHMEM_SIGNAL_SET, kAdd = GSHMEM_SIGNAL_ADD } op = kSet;
};

namespace detail {
template <class T, ReduceOp kOp>
constexpr bool is_reducible() {
  using Own = device::Reduced<T>;
  if constexpr (kOp == ReduceOp::kMaxloc) {
    return std::is_same_v<Own, gshmem_double2_t>;
  } else if constexpr (device::kIsComplex<Own>) {
    return kOp == ReduceOp::kSum || kOp == ReduceOp::kProd;
  } else if constexpr (std::is_integral_v<Own>) {
    return sizeof(Own) <= 8 && !std::is_same_v<Own, bool>;
  } else {
    return (std::is_same_v<Own, float> || std::is_same_v<Own, double> ||
            device::kIsNarrow<Own>)&&(kOp == ReduceOp::kSum || kOp == ReduceOp::kProd ||
                                      kOp == ReduceOp::kMin || kOp == ReduceOp::kMax);
  }
}
}  // namespace detail

/// Elements that reductions combine with kOp: integers of up to 8 bytes by all but maxloc; float,
/// double and the types of 16 bits by sum, prod, min and max; complex types by sum and prod;
/// gshmem_double2_t by maxloc.
template <class T, ReduceOp kOp>
concept Reducible = Element<T> && detail::is_reducible<std::remove_cv_t<T>, kOp>();

class Context {
 public:
  GSHMEM_FN explicit Context(const abi::DeviceState& state) : state_(state) {}

  GSHMEM_FN int my_pe() const { return state_.my_pe; }
  GSHMEM_FN int n_pes() const { return state_.n_pes; }
  /// Returns PE `pe`'s copy of a symmetric object, for plain loads and stores; null when it is not
  /// mapped.
  template <class T>
  GSHMEM_FN T* ptr(T* symmetric, int pe) const {
    return static_cast<T*>(device::ptr(state_, symmetric, pe));
  }

  /// Returns this PE with a context or queue handle: calls on the result use its queues, and fence
  /// and quiet apply to them. A handle that is not open is a fault, and selects the PE's own
  /// queues.
  GSHMEM_FN Context on(gshmem_ctx_t handle) const {
    const abi::DeviceState* state = device::find_context(state_, "on", "ctx", handle);
    return Context(state ? *state : state_);
  }
  [[nodiscard]] GSHMEM_FN const abi::DeviceState& state() const { return state_; }

  // RMA: OpenSHMEM 1.5, section 9.6
  template <Group G, Element T>
  GSHMEM_FN void put(G group, T* dest, const T* source, std::size_t count,
                     int pe GSHMEM_SITE) const {
    api::put(caller("put" GSHMEM_HERE), group, dest, source, {count, sizeof(T)}, pe);
  }
  template <Group G, Element T>
  GSHMEM_FN void put_nbi(G group, T* dest, const T* source, std::size_t count,
                         int pe GSHMEM_SITE) const {
    api::put_nbi(caller("put_nbi" GSHMEM_HERE), group, dest, source, {count, sizeof(T)}, pe);
  }
  template <Group G, Element T>
  GSHMEM_FN void get(G group, T* dest, const T* source, std::size_t count,
                     int pe GSHMEM_SITE) const {
    api::get(caller("get" GSHMEM_HERE), group, dest, source, {count, sizeof(T)}, pe);
  }
  template <Group G, Element T>
  GSHMEM_FN void get_nbi(G group, T* dest, const T* source, std::size_t count,
                         int pe GSHMEM_SITE) const {
    api::get_nbi(caller("get_nbi" GSHMEM_HERE), group, dest, source, {count, sizeof(T)}, pe);
  }
  template <Group G, Scalar T>
  GSHMEM_FN void iput(G group, T* dest, const T* source, device::Strides strides,
                      int pe GSHMEM_SITE) const {
    api::iput<sizeof(T)>(caller("iput" GSHMEM_HERE), group, dest, source, strides, pe);
  }
  template <Group G, Scalar T>
  GSHMEM_FN void iget(G group, T* dest, const T* source, device::Strides strides,
                      int pe GSHMEM_SITE) const {
    api::iget<sizeof(T)>(caller("iget" GSHMEM_HERE), group, dest, source, strides, pe);
  }
  /// Blocks with gaps, by the calling thread: OpenSHMEM 1.6, section 9.6.
  template <Scalar T>
  GSHMEM_FN void ibput(T* dest, const T* source, api::Blocked shape, int pe GSHMEM_SITE) const {
    api::ibput<sizeof(T)>(caller("ibput" GSHMEM_HERE), dest, source, shape, pe);
  }
  template <Scalar T>
  GSHMEM_FN void ibget(T* dest, const T* source, api::Blocked shape, int pe GSHMEM_SITE) const {
    api::ibget<sizeof(T)>(caller("ibget" GSHMEM_HERE), dest, source, shape, pe);
  }
  template <Scalar T>
  GSHMEM_FN void p(T* dest, std::type_identity_t<T> value, int pe GSHMEM_SITE) const {
    api::p(caller("p" GSHMEM_HERE), dest, value, pe);
  }
  template <Scalar T>
  GSHMEM_FN T g(const T* source, int pe GSHMEM_SITE) const {
    return api::g(caller("g" GSHMEM_HERE), source, pe);
  }

  // Lists of pieces: gshmem's own
#define GSHMEM_CONTEXT_LIST(NAME)                                                  \
  template <Group G>                                                               \
  GSHMEM_FN void NAME(G group, const gshmemx_piece_t* pieces, std::size_t npieces, \
                      int pe GSHMEM_SITE) const {                                  \
    api::NAME(caller(#NAME GSHMEM_HERE), group, {pieces, npieces}, pe);            \
  }
#define GSHMEM_CONTEXT_LIST_SIGNAL(NAME)                                                          \
  template <Group G>                                                                              \
  GSHMEM_FN void NAME(G group, const gshmemx_piece_t* pieces, std::size_t npieces, Signal signal, \
                      int pe GSHMEM_SITE) const {                                                 \
    api::NAME(caller(#NAME GSHMEM_HERE), group, {pieces, npieces},                                \
              {signal.address, signal.value, signal.op}, pe);                                     \
  }
  GSHMEM_CONTEXT_LIST(putv)
  GSHMEM_CONTEXT_LIST(putv_nbi)
  GSHMEM_CONTEXT_LIST(getv)
  GSHMEM_CONTEXT_LIST(getv_nbi)
  GSHMEM_CONTEXT_LIST_SIGNAL(putv_signal)
  GSHMEM_CONTEXT_LIST_SIGNAL(putv_signal_nbi)
  GSHMEM_CONTEXT_LIST_SIGNAL(getv_signal)
#undef GSHMEM_CONTEXT_LIST
#undef GSHMEM_CONTEXT_LIST_SIGNAL

  // Signals: section 9.8
  template <Group G, Element T>
  GSHMEM_FN void put_signal(G group, T* dest, const T* source, std::size_t count, Signal signal,
                            int pe GSHMEM_SITE) const {
    api::put_signal(caller("put_signal" GSHMEM_HERE), group, dest, source, {count, sizeof(T)},
                    {signal.address, signal.value, signal.op}, pe);
  }
  template <Group G, Element T>
  GSHMEM_FN void put_signal_nbi(G group, T* dest, const T* source, std::size_t count, Signal signal,
                                int pe GSHMEM_SITE) const {
    api::put_signal_nbi(caller("put_signal_nbi" GSHMEM_HERE), group, dest, source,
                        {count, sizeof(T)}, {signal.address, signal.value, signal.op}, pe);
  }
  GSHMEM_FN void signal(Signal signal, int pe GSHMEM_SITE) const {
    api::signal_op(caller("signal" GSHMEM_HERE), {signal.address, signal.value, signal.op}, pe);
  }
  GSHMEM_FN std::uint64_t signal_fetch(const std::uint64_t* address GSHMEM_SITE) const {
    return api::signal_fetch(caller("signal_fetch" GSHMEM_HERE), address);
  }
  GSHMEM_FN std::uint64_t signal_wait_until(const std::uint64_t* address, Cmp cmp,
                                            std::uint64_t value GSHMEM_SITE) const {
    return api::signal_wait_until(caller("signal_wait_until" GSHMEM_HERE), address,
                                  static_cast<int>(cmp), value);
  }

  // Atomics: section 9.7
  template <AtomicWord T>
  GSHMEM_FN T atomic_fetch(const T* source, int pe GSHMEM_SITE) const {
    return api::amo_fetch(caller("atomic_fetch" GSHMEM_HERE), source, pe);
  }
  template <AtomicWord T>
  GSHMEM_FN void atomic_set(T* dest, std::type_identity_t<T> value, int pe GSHMEM_SITE) const {
    api::amo_set(caller("atomic_set" GSHMEM_HERE), dest, value, pe);
  }
  template <AtomicWord T>
  GSHMEM_FN T atomic_swap(T* dest, std::type_identity_t<T> value, int pe GSHMEM_SITE) const {
    return api::amo_swap(caller("atomic_swap" GSHMEM_HERE), dest, value, pe);
  }
  template <AtomicInteger T>
  GSHMEM_FN T atomic_compare_swap(T* dest, std::type_identity_t<T> cond,
                                  std::type_identity_t<T> value, int pe GSHMEM_SITE) const {
    return api::amo_compare_swap(caller("atomic_compare_swap" GSHMEM_HERE), dest, cond, value, pe);
  }
#define GSHMEM_CONTEXT_AMO(OP, CONCEPT)                                                          \
  template <CONCEPT T>                                                                           \
  GSHMEM_FN void atomic_##OP(T* dest, std::type_identity_t<T> value, int pe GSHMEM_SITE) const { \
    api::amo_##OP(caller("atomic_" #OP GSHMEM_HERE), dest, value, pe);                           \
  }                                                                                              \
  template <CONCEPT T>                                                                           \
  GSHMEM_FN T atomic_fetch_##OP(T* dest, std::type_identity_t<T> value, int pe GSHMEM_SITE)      \
      const {                                                                                    \
    return api::amo_fetch_##OP(caller("atomic_fetch_" #OP GSHMEM_HERE), dest, value, pe);        \
  }
  template <AtomicWord T>
  GSHMEM_FN void atomic_add(T* dest, std::type_identity_t<T> value, int pe GSHMEM_SITE) const {
    if constexpr (AtomicInteger<T>) {
      api::amo_add(caller("atomic_add" GSHMEM_HERE), dest, value, pe);
    } else {
      api::amo_add_float(caller("atomic_add" GSHMEM_HERE), dest, value, pe);
    }
  }
  template <AtomicWord T>
  GSHMEM_FN T atomic_fetch_add(T* dest, std::type_identity_t<T> value, int pe GSHMEM_SITE) const {
    if constexpr (AtomicInteger<T>) {
      return api::amo_fetch_add(caller("atomic_fetch_add" GSHMEM_HERE), dest, value, pe);
    } else {
      return api::amo_fetch_add_float(caller("atomic_fetch_add" GSHMEM_HERE), dest, value, pe);
    }
  }
  template <AtomicInteger T>
  GSHMEM_FN void atomic_inc(T* dest, int pe GSHMEM_SITE) const {
    api::amo_add(caller("atomic_inc" GSHMEM_HERE), dest, static_cast<T>(1), pe);
  }
  template <AtomicInteger T>
  GSHMEM_FN T atomic_fetch_inc(T* dest, int pe GSHMEM_SITE) const {
    return api::amo_fetch_add(caller("atomic_fetch_inc" GSHMEM_HERE), dest, static_cast<T>(1), pe);
  }
  GSHMEM_CONTEXT_AMO(and, AtomicBits)
  GSHMEM_CONTEXT_AMO(or, AtomicBits)
  GSHMEM_CONTEXT_AMO(xor, AtomicBits)
#undef GSHMEM_CONTEXT_AMO

  // Waiting: section 9.10
  template <WaitWord T>
  GSHMEM_FN void wait_until(const T* ivar, Cmp cmp,
                            std::type_identity_t<T> value GSHMEM_SITE) const {
    api::wait_until(caller("wait_until" GSHMEM_HERE), ivar, static_cast<int>(cmp), value);
  }
  template <WaitWord T>
  GSHMEM_FN bool test(const T* ivar, Cmp cmp, std::type_identity_t<T> value GSHMEM_SITE) const {
    return api::test(caller("test" GSHMEM_HERE), ivar, static_cast<int>(cmp), value) != 0;
  }

  // Sets of variables. An element whose `status` is not 0 takes no part; null: all do. The forms
  // with _vector have a value for each element.
#define GSHMEM_CONTEXT_SET(RETURN, NAME)                                                         \
  template <WaitWord T>                                                                          \
  GSHMEM_FN RETURN NAME(const T* ivars, std::size_t nelems, const int* status, Cmp cmp,          \
                        std::type_identity_t<T> value GSHMEM_SITE) const {                       \
    return static_cast<RETURN>(api::NAME(caller(#NAME GSHMEM_HERE), ivars, nelems, status,       \
                                         static_cast<int>(cmp), api::one<T>(value)));            \
  }                                                                                              \
  template <WaitWord T>                                                                          \
  GSHMEM_FN RETURN NAME##_vector(const T* ivars, std::size_t nelems, const int* status, Cmp cmp, \
                                 const T* values GSHMEM_SITE) const {                            \
    return static_cast<RETURN>(api::NAME(caller(#NAME "_vector" GSHMEM_HERE), ivars, nelems,     \
                                         status, static_cast<int>(cmp), api::each<T>(values)));  \
  }
#define GSHMEM_CONTEXT_SOME(NAME)                                                               \
  template <WaitWord T>                                                                         \
  GSHMEM_FN std::size_t NAME(const T* ivars, std::size_t nelems, std::size_t* indices,          \
                             const int* status, Cmp cmp,                                        \
                             std::type_identity_t<T> value GSHMEM_SITE) const {                 \
    return api::NAME(caller(#NAME GSHMEM_HERE), ivars, nelems, indices, status,                 \
                     static_cast<int>(cmp), api::one<T>(value));                                \
  }                                                                                             \
  template <WaitWord T>                                                                         \
  GSHMEM_FN std::size_t NAME##_vector(const T* ivars, std::size_t nelems, std::size_t* indices, \
                                      const int* status, Cmp cmp, const T* values GSHMEM_SITE)  \
      const {                                                                                   \
    return api::NAME(caller(#NAME "_vector" GSHMEM_HERE), ivars, nelems, indices, status,       \
                     static_cast<int>(cmp), api::each<T>(values));                              \
  }
  GSHMEM_CONTEXT_SET(void, wait_until_all)
  GSHMEM_CONTEXT_SET(std::size_t, wait_until_any)
  GSHMEM_CONTEXT_SOME(wait_until_some)
  GSHMEM_CONTEXT_SET(bool, test_all)
  GSHMEM_CONTEXT_SET(std::size_t, test_any)
  GSHMEM_CONTEXT_SOME(test_some)
#undef GSHMEM_CONTEXT_SET
#undef GSHMEM_CONTEXT_SOME

  // Locks: section 9.12
  GSHMEM_FN void set_lock(long* lock GSHMEM_SITE) const {
    api::set_lock(caller("set_lock" GSHMEM_HERE), lock);
  }
  /// Returns true if the calling thread has the lock now.
  [[nodiscard]] GSHMEM_FN bool test_lock(long* lock GSHMEM_SITE) const {
    return api::test_lock(caller("test_lock" GSHMEM_HERE), lock) == 0;
  }
  GSHMEM_FN void clear_lock(long* lock GSHMEM_SITE) const {
    api::clear_lock(caller("clear_lock" GSHMEM_HERE), lock);
  }

  // Order: sections 9.9 and 9.11
  GSHMEM_FN void fence(GSHMEM_ONLY_SITE) const { api::fence(caller("fence" GSHMEM_HERE)); }
  GSHMEM_FN void quiet(GSHMEM_ONLY_SITE) const { api::quiet(caller("quiet" GSHMEM_HERE)); }
  /// Does what quiet does for the operations to PE `pe` only.
  template <Group G>
  GSHMEM_FN void pe_quiet(G group, int pe GSHMEM_SITE) const {
    api::pe_quiet(caller("pe_quiet" GSHMEM_HERE), group, pe);
  }
  /// `group` is a Thread, Warp or Block.
  template <Group G>
  [[nodiscard]] GSHMEM_FN int quiet_status(G group GSHMEM_SITE) const {
    return api::quiet_status(caller("quiet_status" GSHMEM_HERE), group);
  }
  template <Group G>
  GSHMEM_FN void barrier_all(G group GSHMEM_SITE) const {
    api::barrier_all(caller("barrier_all" GSHMEM_HERE), group);
  }
  template <Group G>
  GSHMEM_FN void sync_all(G group GSHMEM_SITE) const {
    api::sync_all(caller("sync_all" GSHMEM_HERE), group);
  }

  // Shared memory for copies: gshmemx_give_smem
  GSHMEM_FN void give_smem(void* smem, std::size_t size GSHMEM_SITE) const {
    api::give_smem(caller("give_smem" GSHMEM_HERE), smem, size);
  }
  GSHMEM_FN void release_smem(GSHMEM_ONLY_SITE) const {
    api::release_smem(caller("release_smem" GSHMEM_HERE));
  }

  // Teams: sections 9.4 and 9.9. The calls return 0, or a status.
  template <Group G>
  GSHMEM_FN int barrier(G group, gshmem_team_t team GSHMEM_SITE) const {
    return api::barrier(caller("barrier" GSHMEM_HERE), group, team);
  }
  template <Group G>
  GSHMEM_FN int team_sync(G group, gshmem_team_t team GSHMEM_SITE) const {
    return api::team_sync(caller("team_sync" GSHMEM_HERE), group, team);
  }
  GSHMEM_FN int team_my_pe(gshmem_team_t team GSHMEM_SITE) const {
    return api::team_my_pe(caller("team_my_pe" GSHMEM_HERE), team);
  }
  GSHMEM_FN int team_n_pes(gshmem_team_t team GSHMEM_SITE) const {
    return api::team_n_pes(caller("team_n_pes" GSHMEM_HERE), team);
  }
  GSHMEM_FN int team_translate_pe(gshmem_team_t src_team, int src_pe,
                                  gshmem_team_t dest_team GSHMEM_SITE) const {
    return api::team_translate_pe(caller("team_translate_pe" GSHMEM_HERE), src_team, src_pe,
                                  dest_team);
  }

  // Collectives: section 9.9. All members make the call. The calls return 0, or a status.
  template <Group G, Element T>
  GSHMEM_FN int alltoall(G group, gshmem_team_t team, T* dest, const T* source,
                         std::size_t count GSHMEM_SITE) const {
    return api::alltoall(caller("alltoall" GSHMEM_HERE), group, team, dest, source,
                         {count, sizeof(T)});
  }
  template <Group G, Element T>
  GSHMEM_FN int broadcast(G group, gshmem_team_t team, T* dest, const T* source, std::size_t count,
                          int root GSHMEM_SITE) const {
    return api::broadcast(caller("broadcast" GSHMEM_HERE), group, team, dest, source,
                          {count, sizeof(T)}, root);
  }
  template <Group G, Element T>
  GSHMEM_FN int fcollect(G group, gshmem_team_t team, T* dest, const T* source,
                         std::size_t count GSHMEM_SITE) const {
    return api::fcollect(caller("fcollect" GSHMEM_HERE), group, team, dest, source,
                         {count, sizeof(T)});
  }
  template <Group G, Element T>
  GSHMEM_FN int collect(G group, gshmem_team_t team, T* dest, const T* source,
                        std::size_t count GSHMEM_SITE) const {
    return api::collect(caller("collect" GSHMEM_HERE), group, team, dest, source,
                        {count, sizeof(T)});
  }
  template <Group G, Scalar T>
  GSHMEM_FN int alltoalls(G group, gshmem_team_t team, T* dest, const T* source,
                          device::Strides strides GSHMEM_SITE) const {
    return api::alltoalls<sizeof(T)>(caller("alltoalls" GSHMEM_HERE), group, team, dest, source,
                                     strides);
  }
  // Reductions of the types that Reducible names. Scans use kSum.
#define GSHMEM_CONTEXT_REDUCTION(NAME, KIND)                                                   \
  template <ReduceOp kOp, Group G, Reducible<kOp> T>                                           \
  GSHMEM_FN int NAME(G group, gshmem_team_t team, T* dest, const T* source,                    \
                     std::size_t count GSHMEM_SITE) const {                                    \
    return api::reduction<device::CallKind::KIND, kOp>(caller(#NAME GSHMEM_HERE), group, team, \
                                                       dest, source, count);                   \
  }
  GSHMEM_CONTEXT_REDUCTION(reduce, kReduce)
  GSHMEM_CONTEXT_REDUCTION(reducescatter, kReducescatter)
  GSHMEM_CONTEXT_REDUCTION(inscan, kInscan)
  GSHMEM_CONTEXT_REDUCTION(exscan, kExscan)
#undef GSHMEM_CONTEXT_REDUCTION

 private:
  GSHMEM_FN api::Caller caller(const char* name GSHMEM_SITE_PARAMS) const {
    return {state_, name GSHMEM_HERE};
  }

  const abi::DeviceState& state_;
};

/// Returns the calling thread's PE (for host threads, and plain kernels).
GSHMEM_FN Context context() { return Context(device::ambient_state("context")); }

}  // namespace gshmem
