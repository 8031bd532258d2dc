// Point-to-point synchronization: wait_until and test, of one variable and of sets, with one value
// and with one per element, for every type that may be waited for.
#include "tests/spmd/spmd.h"

using namespace gshmem;
using namespace gshmem::spmd;

namespace {

#include "tests/spmd/wait.def"

constexpr std::size_t kVars = 8;

/// Elements 0 .. kVars-1 hold their index: checks each test and wait on that.
template <class W>
GSHMEM_FN void check_static(Log log, typename W::Type* v, std::uint64_t tag) {
  using T = typename W::Type;
  SPMD_EQ(log, W::test(v + 3, GSHMEM_CMP_EQ, 3), 1, tag);
  SPMD_EQ(log, W::test(v + 3, GSHMEM_CMP_EQ, 2), 0, tag);
  SPMD_EQ(log, W::test(v + 3, GSHMEM_CMP_NE, 3), 0, tag);
  SPMD_EQ(log, W::test(v + 3, GSHMEM_CMP_NE, 4), 1, tag);
  SPMD_EQ(log, W::test(v + 3, GSHMEM_CMP_GT, 2), 1, tag);
  SPMD_EQ(log, W::test(v + 3, GSHMEM_CMP_GT, 3), 0, tag);
  SPMD_EQ(log, W::test(v + 3, GSHMEM_CMP_GE, 3), 1, tag);
  SPMD_EQ(log, W::test(v + 3, GSHMEM_CMP_GE, 4), 0, tag);
  SPMD_EQ(log, W::test(v + 3, GSHMEM_CMP_LT, 4), 1, tag);
  SPMD_EQ(log, W::test(v + 3, GSHMEM_CMP_LT, 3), 0, tag);
  SPMD_EQ(log, W::test(v + 3, GSHMEM_CMP_LE, 3), 1, tag);
  SPMD_EQ(log, W::test(v + 3, GSHMEM_CMP_LE, 2), 0, tag);
  // -1 is below everything or, unsigned, above.
  const T minus_one = static_cast<T>(-1);
  SPMD_EQ(log, W::test(v + 3, GSHMEM_CMP_GT, minus_one), minus_one < T(0) ? 1 : 0, tag);

  int none[kVars], skip[kVars] = {1, 0, 0, 1, 0, 0, 0, 0};
  T same[kVars], other[kVars];
  for (std::size_t i = 0; i < kVars; ++i) {
    none[i] = 1;
    same[i] = other[i] = static_cast<T>(i);
  }
  other[2] = 77;
  std::size_t found[kVars] = {};
  SPMD_EQ(log, W::test_all(v, kVars, nullptr, GSHMEM_CMP_GE, T(0)), 1, tag);
  SPMD_EQ(log, W::test_all(v, kVars, nullptr, GSHMEM_CMP_GT, T(0)), 0, tag);
  SPMD_EQ(log, W::test_all(v, kVars, skip, GSHMEM_CMP_GT, T(0)), 1, tag);
  SPMD_EQ(log, W::test_all(v, kVars, none, GSHMEM_CMP_LT, T(0)), 1, tag);
  SPMD_EQ(log, W::test_all(v, 0, nullptr, GSHMEM_CMP_LT, T(0)), 1, tag);
  SPMD_EQ(log, W::test_all(v, kVars, nullptr, GSHMEM_CMP_EQ, same), 1, tag);
  SPMD_EQ(log, W::test_all(v, kVars, nullptr, GSHMEM_CMP_EQ, other), 0, tag);
  SPMD_EQ(log, W::test_any(v, kVars, nullptr, GSHMEM_CMP_EQ, T(5)), 5u, tag);
  SPMD_EQ(log, W::test_any(v, kVars, nullptr, GSHMEM_CMP_EQ, T(9)), SIZE_MAX, tag);
  SPMD_EQ(log, W::test_any(v, kVars, skip, GSHMEM_CMP_EQ, T(3)), SIZE_MAX, tag);
  SPMD_EQ(log, W::test_any(v, 0, nullptr, GSHMEM_CMP_GE, T(0)), SIZE_MAX, tag);
  SPMD_EQ(log, W::test_any(v, kVars, none, GSHMEM_CMP_GE, T(0)), SIZE_MAX, tag);
  SPMD_EQ(log, W::test_any(v, kVars, nullptr, GSHMEM_CMP_NE, other), 2u, tag);
  SPMD_EQ(log, W::test_some(v, kVars, found, skip, GSHMEM_CMP_LE, T(4)), 3u, tag);
  SPMD_CHECK(log, found[0] == 1 && found[1] == 2 && found[2] == 4);
  SPMD_EQ(log, W::test_some(v, kVars, found, nullptr, GSHMEM_CMP_GT, T(7)), 0u, tag);
  SPMD_EQ(log, W::test_some(v, 0, found, nullptr, GSHMEM_CMP_GE, T(0)), 0u, tag);
  SPMD_EQ(log, W::test_some(v, kVars, found, nullptr, GSHMEM_CMP_NE, other), 1u, tag);
  SPMD_EQ(log, found[0], 2u, tag);
  // Waits for conditions that hold already, and for nothing, return at once.
  W::until(v + 3, GSHMEM_CMP_EQ, 3);
  W::until_all(v, kVars, skip, GSHMEM_CMP_GT, T(0));
  W::until_all(v, kVars, none, GSHMEM_CMP_GT, T(100));
  W::until_all(v, 0, nullptr, GSHMEM_CMP_GT, T(100));
  SPMD_EQ(log, W::until_any(v, kVars, nullptr, GSHMEM_CMP_EQ, T(5)), 5u, tag);
  SPMD_EQ(log, W::until_any(v, kVars, none, GSHMEM_CMP_EQ, T(5)), SIZE_MAX, tag);
  SPMD_EQ(log, W::until_any(v, 0, nullptr, GSHMEM_CMP_EQ, same), SIZE_MAX, tag);
  SPMD_EQ(log, W::until_some(v, kVars, found, skip, GSHMEM_CMP_LE, T(4)), 3u, tag);
  SPMD_EQ(log, W::until_some(v, kVars, found, none, GSHMEM_CMP_LE, same), 0u, tag);
  SPMD_EQ(log, W::until_some(v, 0, found, nullptr, GSHMEM_CMP_LE, T(4)), 0u, tag);
}

/// The next PE's elements become index + 1, one after the other, while it waits for them with every
/// function. There are three sets of kVars.
template <class W>
GSHMEM_FN void check_waiting(const Context& ctx, Log log, typename W::Type* v, std::uint64_t tag) {
  using T = typename W::Type;
  const int next = (ctx.my_pe() + 1) % ctx.n_pes();
  for (std::size_t set = 0; set < 3; ++set) {
    for (std::size_t i = kVars; i-- > 0;) ctx.p(v + set * kVars + i, static_cast<T>(i + 1), next);
  }
  T expected[kVars];
  int done[kVars] = {};
  std::size_t found[kVars];
  for (std::size_t i = 0; i < kVars; ++i) expected[i] = static_cast<T>(i + 1);
  W::until(v + 2, GSHMEM_CMP_NE, 0);
  W::until_all(v, kVars, nullptr, GSHMEM_CMP_GT, T(0));
  W::until_all(v, kVars, nullptr, GSHMEM_CMP_EQ, expected);
  for (std::size_t got = 0; got < kVars; ++got) {
    const std::size_t i = W::until_any(v + kVars, kVars, done, GSHMEM_CMP_EQ, expected);
    if (i >= kVars || done[i]) return SPMD_EQ(log, i, kVars, tag);
    done[i] = 1;
  }
  SPMD_EQ(log, W::until_any(v + kVars, kVars, done, GSHMEM_CMP_NE, T(0)), SIZE_MAX, tag);
  int some_done[kVars] = {};
  for (std::size_t got = 0; got < kVars;) {
    const std::size_t count =
        W::until_some(v + 2 * kVars, kVars, found, some_done, GSHMEM_CMP_NE, T(0));
    if (count == 0 || count > kVars - got) return SPMD_EQ(log, count, kVars - got, tag);
    for (std::size_t k = 0; k < count; ++k) some_done[found[k]] = 1;
    got += count;
  }
  for (std::size_t i = 0; i < kVars; ++i) SPMD_EQ(log, some_done[i], 1, tag);
}

/// `vars` has 256 bytes for the static checks, then 256 for the waiting.
template <class W>
GSHMEM_FN void check_all(const Context& ctx, Log log, std::uint64_t* vars, std::uint64_t tag) {
  using T = typename W::Type;
  T* v = reinterpret_cast<T*>(vars);
  for (std::size_t i = 0; i < kVars; ++i) ctx.p(v + i, static_cast<T>(i), ctx.my_pe());
  ctx.quiet();
  check_static<W>(log, v, tag);
  check_waiting<W>(ctx, log, reinterpret_cast<T*>(vars + 32), tag);
}

/// If all elements hold, each one is found after some calls.
template <class W>
GSHMEM_FN void check_fairness(Log log, typename W::Type* v) {
  using T = typename W::Type;
  constexpr int kMostCalls = 1 << 20;
  T zeros[kVars] = {};
  int left_out[kVars] = {};
  left_out[4] = 1;
  for (int form = 0; form < 4; ++form) {
    unsigned seen = 1u << 4;
    for (int call = 0; call < kMostCalls && seen != (1u << kVars) - 1; ++call) {
      std::size_t i = SIZE_MAX;
      if (form == 0) i = W::test_any(v, kVars, left_out, GSHMEM_CMP_GE, T(0));
      if (form == 1) i = W::test_any(v, kVars, left_out, GSHMEM_CMP_GE, zeros);
      if (form == 2) i = W::until_any(v, kVars, left_out, GSHMEM_CMP_GE, T(0));
      if (form == 3) i = W::until_any(v, kVars, left_out, GSHMEM_CMP_GE, zeros);
      if (i >= kVars || i == 4) return SPMD_EQ(log, i, kVars, static_cast<std::uint64_t>(form));
      seen |= 1u << i;
    }
    SPMD_EQ(log, seen, (1u << kVars) - 1, static_cast<std::uint64_t>(form));
  }
}
struct FairnessInKernel {
  GSHMEM_FN void operator()(const LaunchContext&, Log log, int* vars) const {
    check_fairness<Wait_int>(log, vars);
  }
};

/// There is one kernel per C++ type; the other names of the table are the same types, and the host
/// thread below tests them, because compiling them all for GPUs takes minutes.
template <class W>
struct WaitKernel {
  GSHMEM_FN void operator()(const LaunchContext& ctx, Log log, std::uint64_t* vars,
                            std::uint64_t tag) const {
    check_all<W>(ctx, log, vars, tag);
  }
};

}  // namespace

SPMD_TEST(wait_until_and_test_of_every_type_in_every_form) {
  if (!pe.c_api_in_kernels()) return pe.skip(kTwoPesOnAGpu);
  SymmetricArray<std::uint64_t> vars(8 * 64);
  std::uint64_t tag = 0;
  const auto run = [&]<class W>(W) {
    pe.run({}, WaitKernel<W>{}, vars.data() + tag * 64, tag);
    ++tag;
  };
  run(Wait_short{});
  run(Wait_int{});
  run(Wait_long{});
  run(Wait_longlong{});
  run(Wait_ushort{});
  run(Wait_uint{});
  run(Wait_ulong{});
  run(Wait_ulonglong{});
}

SPMD_TEST(wait_until_and_test_of_every_name_by_host_thread_in_every_form) {
  SymmetricArray<std::uint64_t> vars(14 * 64);
  std::uint64_t tag = 0;
#define WAIT_0(N)
#define WAIT_1(N)                                                             \
  check_all<Wait_##N>(context(), pe.host_log(), vars.data() + tag * 64, tag); \
  ++tag;
#define GSHMEM_TYPE(N, T, AMO, WAIT, REDUCE) WAIT_##WAIT(N)
#include <gshmem/types.def>
}

SPMD_TEST(wait_until_any_and_test_any_find_every_element_that_holds) {
  SymmetricArray<int> vars(kVars);
  check_fairness<Wait_int>(pe.host_log(), vars.data());
  if (pe.c_api_in_kernels()) pe.run({}, FairnessInKernel{}, vars.data());
}
