// A kernel whose calls of every kind have all their words in one piece of symmetric memory: in
// registered memory, or where the heap has grown. Included by tests of both.
#pragma once

#include "tests/spmd/spmd.h"

namespace gshmem::spmd {

/// The words of a registered buffer that a test uses, up to and including its last one.
inline constexpr std::size_t kRegisteredWords = 64;

/// Every word of a kernel's calls is in that memory, which is 0 at first. `is_at_end`: it ends
/// after kRegisteredWords words.
struct AllInKernel {
  GSHMEM_FN void operator()(const LaunchContext& ctx, Log log, std::uint64_t* words, bool is_mapped,
                            bool is_at_end) const {
    const int me = ctx.my_pe(), n = ctx.n_pes(), next = (me + 1) % n, last = (me + n - 1) % n;
    const auto of = [](int pe, std::uint64_t i) {
      return 1000 * static_cast<std::uint64_t>(pe + 1) + i;
    };
    for (std::uint64_t i = 0; i < 8; ++i) words[i] = of(me, i);
    gshmem_barrier_all();
    gshmem_uint64_put(words + 8, words, 8, next);
    gshmem_uint64_get(words + 16, words, 8, next);
    for (std::uint64_t i = 0; i < 8; ++i) SPMD_EQ(log, words[16 + i], of(next, i), i);
    gshmem_uint64_p(words + 24, of(me, 24), next);
    for (int pe = 0; pe < n; ++pe) (void)gshmem_uint64_atomic_fetch_add(words + 25, 3, pe);
    gshmem_uint64_put_signal(words + 26, words, 8, words + 34, 7, GSHMEM_SIGNAL_SET, next);
    gshmem_signal_wait_until(words + 34, GSHMEM_CMP_EQ, 7);
    for (std::uint64_t i = 0; i < 8; ++i) SPMD_EQ(log, words[26 + i], of(last, i), i);
    gshmem_barrier_all();
    for (std::uint64_t i = 0; i < 8; ++i) SPMD_EQ(log, words[8 + i], of(last, i), i);
    SPMD_EQ(log, words[24], of(last, 24));
    SPMD_EQ(log, words[25], 3 * static_cast<std::uint64_t>(n));
    auto* const theirs = static_cast<std::uint64_t*>(gshmem_ptr(words + 35, next));
    SPMD_CHECK(log, (theirs != nullptr) == is_mapped);
    if (is_at_end) SPMD_CHECK(log, gshmem_ptr(words + kRegisteredWords, next) == nullptr);
    if (theirs) *theirs = of(me, 35);
    if (!theirs) gshmem_uint64_atomic_set(words + 35, of(me, 35), next);
    gshmem_barrier_all();
    SPMD_EQ(log, words[35], of(last, 35));
  }
};

}  // namespace gshmem::spmd
