// Reductions and scans of long double (OpenSHMEM 1.5, table 9; 1.6), which GPUs do not have. The
// calling host threads compute them, wherever the heaps are: every member gets all sources. All
// threads of a host get the same bits. Included by collective_functions.cpp.
#pragma once

#include <gshmem/device/api/api_context.h>

#include <algorithm>
#include <array>
#include <cstddef>

namespace gshmem::api {

/// Which members' elements are combined.
enum class Members { kAll, kUpToThis, kBeforeThis };

/// Works in chunks: when all members have read a chunk, each stores its own result, because `dest`
/// may be `source`.
template <Members kMembers, class Combine>
int combine_on_host(const Caller& call, int handle, long double* dest, const long double* source,
                    std::size_t nelems, const Combine& combine) {
  constexpr std::size_t kPiece = 1024;
  const Elements n{nelems, sizeof(long double)};
  const abi::Team* const team = find_team(call.state, call.name, "team", handle);
  if (!team || !check_arguments(call.state, call.name, parts_of("dest", dest, n, 1, n.size),
                                parts_of("source", source, n, 1, n.size)))
    return GSHMEMX_ERROR_INVALID_VALUE;
  const int end =
      kMembers == Members::kAll ? team->n_pes : team->my_pe + (kMembers == Members::kUpToThis);
#if defined(GSHMEM_ORDER_ON)
  constexpr CallKind kKind = kMembers == Members::kAll        ? CallKind::kReduce
                             : kMembers == Members::kUpToThis ? CallKind::kInscan
                                                              : CallKind::kExscan;
  const device::OrderedCollective<Thread> ordered(
      {}, {&call.state, call.name, team, dest, source, n.bytes()}, call_of(kKind));
#endif
  std::array<long double, kPiece> sums, more;
  int status = team_sync(call, Thread{}, handle);  // all sources are ready
  for (std::size_t at = 0; at < nelems && status == 0; at += kPiece) {
    const Elements piece{std::min(kPiece, nelems - at), n.size};
    sums.fill(0);
    for (int i = 0; i < end; ++i) {
      get(call, Thread{}, i == 0 ? sums.data() : more.data(), source + at, piece,
          team_pe(*team, i));
      for (std::size_t k = 0; i != 0 && k < piece.count; ++k) sums[k] = combine(sums[k], more[k]);
    }
    status = team_sync(call, Thread{}, handle);
    if (status != 0) break;
    GSHMEM_ORDER(std::copy_n(sums.data(), piece.count, dest + at); continue;)  // this is not a put
    put(call, Thread{}, dest + at, sums.data(), piece, call.state.my_pe);
  }
  quiet(call);
  return status;
}

// Replaces the templates of device/api/api_collective.h, which kernels have, too.
#define GSHMEM_ON_HOST(NAME, MEMBERS, RESULT)                                                      \
  inline int NAME(const Caller& call, Thread, int team, long double* dest,                         \
                  const long double* source, std::size_t nelems) {                                 \
    return combine_on_host<Members::MEMBERS>(call, team, dest, source, nelems,                     \
                                             [](long double a, long double b) { return RESULT; }); \
  }
GSHMEM_ON_HOST(reduce_sum, kAll, a + b)
GSHMEM_ON_HOST(reduce_prod, kAll, a* b)
GSHMEM_ON_HOST(reduce_min, kAll, b < a ? b : a)
GSHMEM_ON_HOST(reduce_max, kAll, a < b ? b : a)
GSHMEM_ON_HOST(inscan_sum, kUpToThis, a + b)
GSHMEM_ON_HOST(exscan_sum, kBeforeThis, a + b)
#undef GSHMEM_ON_HOST

}  // namespace gshmem::api
