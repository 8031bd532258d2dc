// The layer of device/api/api.h for collectives (OpenSHMEM 1.5, section 9.9): it checks arguments,
// and finds the team. A part of api.h.
#pragma once

#include "order_calls.h"
#include "../collective/collective_check.h"
#include "../pe/caller.h"
#include "../pe/check.h"
#include "../collective/collective.h"
#include "../core/register_bounds.h"
#include "../pe/team.h"

namespace gshmem::api {

/// A member of a team by its number in the team.
struct Member {
  const char* name;
  int number, n_pes;
  GSHMEM_FN bool good(const State& state, const char* call) const {
    if (number >= 0 && number < n_pes) return true;
    return bad_argument(state, call, name, abi::Rule::kPe, as_value(number), as_value(n_pes));
  }
};
/// `n` elements for each of `parts` members, aligned to words of `alignment` bytes.
GSHMEM_FN Symmetric parts_of(const char* name, const void* p, Elements n, int parts,
                             std::size_t alignment = 1) {
  return {{name, p, {n.count, n.size * static_cast<std::size_t>(parts)}, alignment}};
}

template <class Coop>
GSHMEM_FN int alltoall(const Caller& call, Coop coop, int handle, void* dest, const void* source,
                       Elements n) {
  const abi::Team* const team = find_team(call.state, call.name, "team", handle);
  if (!team || !check_arguments(call.state, call.name, parts_of("dest", dest, n, team->n_pes),
                                parts_of("source", source, n, team->n_pes)))
    return GSHMEMX_ERROR_INVALID_VALUE;
  GSHMEM_BY_HOST_OPS(
      int, Call::collective(CallKind::kAlltoall, call.name, handle, dest, source, n.bytes()))
  GSHMEM_FIT(&device::alltoall<Coop>, Coop, TeamCall);
  GSHMEM_WATCH(const std::size_t all = n.bytes() * static_cast<std::size_t>(team->n_pes);
               order::collective(watch, coop, dest, all, source, all);)
  const TeamCall of = at_own_part({&call.state, call.name, team, dest, source, n.bytes()});
  return checked_collective(coop, of, call_of(CallKind::kAlltoall), of.bytes,
                            [&] { return device::alltoall(coop, of); });
}

template <class Coop>
GSHMEM_FN int broadcast(const Caller& call, Coop coop, int handle, void* dest, const void* source,
                        Elements n, int root) {
  const abi::Team* const team = find_team(call.state, call.name, "team", handle);
  if (!team || !check_arguments(call.state, call.name, Member{"root", root, team->n_pes},
                                Symmetric{{"dest", dest, n}}, Symmetric{{"source", source, n}}))
    return GSHMEMX_ERROR_INVALID_VALUE;
  GSHMEM_BY_HOST_OPS(
      int, Call::collective(CallKind::kBroadcast, call.name, handle, dest, source, n.bytes(), root))
  GSHMEM_FIT(&device::broadcast<Coop>, Coop, TeamCall, int);
  GSHMEM_WATCH(
      order::collective(watch, coop, dest, n.bytes(), source, root == team->my_pe ? n.bytes() : 0);)
  const TeamCall of{&call.state, call.name, team, dest, source, n.bytes()};
  return checked_collective(coop, of, call_of(CallKind::kBroadcast, root), of.bytes,
                            [&] { return device::broadcast(coop, of, root); });
}

template <class Coop>
GSHMEM_FN int fcollect(const Caller& call, Coop coop, int handle, void* dest, const void* source,
                       Elements n) {
  const abi::Team* const team = find_team(call.state, call.name, "team", handle);
  if (!team || !check_arguments(call.state, call.name, parts_of("dest", dest, n, team->n_pes),
                                Symmetric{{"source", source, n}}))
    return GSHMEMX_ERROR_INVALID_VALUE;
  GSHMEM_BY_HOST_OPS(
      int, Call::collective(CallKind::kFcollect, call.name, handle, dest, source, n.bytes()))
  GSHMEM_FIT(&device::fcollect<Coop>, Coop, TeamCall);
  GSHMEM_WATCH(order::collective(watch, coop, dest,
                                 n.bytes() * static_cast<std::size_t>(team->n_pes), source,
                                 n.bytes());)
  const TeamCall of{&call.state, call.name, team, dest, source, n.bytes()};
  return checked_collective(coop, of, call_of(CallKind::kFcollect), of.bytes,
                            [&] { return device::fcollect(coop, of); });
}

template <class Coop>
GSHMEM_FN int collect(const Caller& call, Coop coop, int handle, void* dest, const void* source,
                      Elements n) {
  const abi::Team* const team = find_team(call.state, call.name, "team", handle);
  if (!team || !check_arguments(call.state, call.name, Symmetric{{"dest", dest, n}},
                                Symmetric{{"source", source, n}}))
    return GSHMEMX_ERROR_INVALID_VALUE;
  GSHMEM_BY_HOST_OPS(
      int, Call::collective(CallKind::kCollect, call.name, handle, dest, source, n.bytes()))
  GSHMEM_FIT(&device::collect<Coop>, Coop, TeamCall);
  GSHMEM_WATCH(order::collective(watch, coop, dest, 0, source, n.bytes());)
  const TeamCall of{&call.state, call.name, team, dest, source, n.bytes()};
  return checked_collective(coop, of, call_of(CallKind::kCollect), 0,
                            [&] { return device::collect(coop, of); });
}

template <std::size_t kSize, class Coop>
GSHMEM_FN int alltoalls(const Caller& call, Coop coop, int handle, void* dest, const void* source,
                        Strides strides) {
  const Elements n{strides.nelems, kSize};
  const abi::Team* const team = find_team(call.state, call.name, "team", handle);
  if (!team) return GSHMEMX_ERROR_INVALID_VALUE;
  const std::size_t parts = static_cast<std::size_t>(team->n_pes);
  if (!check_arguments(call.state, call.name,
                       Strided<Symmetric>{"dest", "dst", dest, strides.dst, n, parts},
                       Strided<Symmetric>{"source", "sst", source, strides.src, n, parts}))
    return GSHMEMX_ERROR_INVALID_VALUE;
  GSHMEM_ON_HOST_OPS({
    Call record =
        Call::collective(CallKind::kAlltoalls, call.name, handle, dest, source, n.bytes());
    record.dst_stride = strides.dst;
    record.src_stride = strides.src;
    record.width = static_cast<std::uint32_t>(kSize);
    return static_cast<int>(ops->run(record));
  })
  using W = typename WordOf<kSize>::type;
  GSHMEM_FIT(&device::alltoalls<W, Coop>, Coop, TeamCall, Strides);
  GSHMEM_WATCH(order::collective(watch, coop, dest, 0, source, 0);)
  const TeamCall of{&call.state, call.name, team, dest, source, n.bytes()};
  return checked_collective(coop, of, call_of(CallKind::kAlltoalls), of.bytes,
                            [&] { return device::alltoalls<W>(coop, of, strides); });
}

/// In kernels operator and type are known at compile time. In CPU mode one function is used for
/// all.
template <ReduceOp kOp, class T>
GSHMEM_FN auto reducer_of() {
#if defined(__CUDA_ARCH__)
  return TypedReducer<kOp, T>{};
#else
  return AnyReducer{kOp, element_type<T>()};
#endif
}
/// `kKind` is a reduction or a scan of elements of the width of W.
template <CallKind kKind, class W, class Coop, class Reducer>
GSHMEM_FN int reduce_by(Coop coop, const TeamCall& call, Reducer reducer) {
  GSHMEM_FIT((&reduce_by<kKind, W, Coop, Reducer>), Coop, TeamCall, Reducer);
  if constexpr (kKind == CallKind::kReducescatter) {
    return device::reducescatter<W>(coop, call, reducer);
  } else if constexpr (kKind == CallKind::kInscan) {
    return device::scan<Result::kInclusive, W>(coop, call, reducer);
  } else if constexpr (kKind == CallKind::kExscan) {
    return device::scan<Result::kExclusive, W>(coop, call, reducer);
  } else {
    return device::reduce<W>(coop, call, reducer);
  }
}
/// Executes a reduction. Operator and type are in `reducer`. On the host they are values and not
/// types, so one function is used for all types of a width.
template <CallKind kKind, class W, class Coop, class Reducer>
GSHMEM_FN int reduction_by(const Caller& call, Coop coop, int handle, void* dest,
                           const void* source, std::size_t nelems, ReduceOp op, ElementType type,
                           Reducer reducer) {
  const Elements n{nelems, sizeof(W)};
  const abi::Team* const team = find_team(call.state, call.name, "team", handle);
  const int parts = team && kKind == CallKind::kReducescatter ? team->n_pes : 1;
  if (!team || !check_arguments(call.state, call.name, parts_of("dest", dest, n, 1, n.size),
                                parts_of("source", source, n, parts, n.size)))
    return GSHMEMX_ERROR_INVALID_VALUE;
  GSHMEM_ON_HOST_OPS({
    Call record = Call::collective(kKind, call.name, handle, dest, source, n.bytes());
    record.reduce_op = op;
    record.type = type;
    return static_cast<int>(ops->run(record));
  })
  TeamCall of{&call.state, call.name, team, dest, source, n.bytes()};
  if (kKind == CallKind::kReducescatter) of = at_own_part(of);
  GSHMEM_WATCH(order::collective(watch, coop, dest, n.bytes(), source,
                                 n.bytes() * static_cast<std::size_t>(parts));)
  return checked_collective(coop, of, call_of(kKind, op, type), of.bytes,
                            [&] { return reduce_by<kKind, W>(coop, of, reducer); });
}
template <CallKind kKind, ReduceOp kOp, class T, class Coop>
GSHMEM_FN int reduction(const Caller& call, Coop coop, int handle, T* dest, const T* source,
                        std::size_t nelems) {
  static_assert(sizeof(Word<T>) == sizeof(T));
  return reduction_by<kKind, Word<T>>(call, coop, handle, dest, source, nelems, kOp,
                                      element_type<Reduced<T>>(), reducer_of<kOp, Reduced<T>>());
}
#define GSHMEM_API_REDUCTION(NAME, KIND, OP)                                                \
  template <class T, class Coop>                                                            \
  GSHMEM_FN int NAME(const Caller& call, Coop coop, int team, T* dest, const T* source,     \
                     std::size_t nelems) {                                                  \
    return reduction<CallKind::KIND, ReduceOp::OP>(call, coop, team, dest, source, nelems); \
  }
#define GSHMEM_API_REDUCE(OP, OP_NAME)                \
  GSHMEM_API_REDUCTION(reduce_##OP, kReduce, OP_NAME) \
  GSHMEM_API_REDUCTION(reducescatter_##OP, kReducescatter, OP_NAME)
GSHMEM_API_REDUCE(sum, kSum)
GSHMEM_API_REDUCE(prod, kProd)
GSHMEM_API_REDUCE(min, kMin)
GSHMEM_API_REDUCE(max, kMax)
GSHMEM_API_REDUCE(and, kAnd)
GSHMEM_API_REDUCE(or, kOr)
GSHMEM_API_REDUCE(xor, kXor)
GSHMEM_API_REDUCTION(reduce_maxloc, kReduce, kMaxloc)
GSHMEM_API_REDUCTION(inscan_sum, kInscan, kSum)
GSHMEM_API_REDUCTION(exscan_sum, kExscan, kSum)
#undef GSHMEM_API_REDUCE
#undef GSHMEM_API_REDUCTION

}  // namespace gshmem::api
