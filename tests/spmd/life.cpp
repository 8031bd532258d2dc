// Init and finalize themselves: these tests join and leave the job on their own.
#include "tests/spmd/session.h"

namespace gshmem::spmd {
namespace {

#define LIFE_CHECK(condition)                                                       \
  do {                                                                              \
    if (!(condition))                                                               \
      failures.push_back("life.cpp:" + std::to_string(__LINE__) + ": " #condition); \
  } while (0)

constexpr std::uint64_t kMiB = 1 << 20;

/// Joins with heaps of several sizes, one after the other; each has the requested size and is
/// clean.
void job_can_be_joined_again_with_another_heap(const Session& session,
                                               std::vector<std::string>& failures) {
  int me = -1;
  for (const std::uint64_t size : {32 * kMiB, 1 * kMiB}) {
    LIFE_CHECK(gshmemx_init_status() == GSHMEMX_INIT_STATUS_NOT_INITIALIZED);
    const auto runtime = session.join(size);
    LIFE_CHECK(gshmemx_init_status() != GSHMEMX_INIT_STATUS_NOT_INITIALIZED);
    LIFE_CHECK(me == -1 || me == runtime->my_pe());
    me = runtime->my_pe();
    void* all = gshmem_malloc(size);
    LIFE_CHECK(all != nullptr);
    auto* word = static_cast<std::uint64_t*>(all) + size / 8 - 1;
    const int next = (me + 1) % runtime->n_pes();
    gshmem_uint64_p(word, size + static_cast<std::uint64_t>(me), next);
    gshmem_barrier_all();
    const int previous = (me + runtime->n_pes() - 1) % runtime->n_pes();
    LIFE_CHECK(gshmem_uint64_g(word, me) == size + static_cast<std::uint64_t>(previous));
    gshmem_barrier_all();
    gshmem_free(all);
    // A GPU heap is rounded up by less than this.
    LIFE_CHECK(gshmemi_ambient()->state->heap_bytes - abi::kInternalBytes < size + 4 * kMiB);
  }
  LIFE_CHECK(gshmemx_init_status() == GSHMEMX_INIT_STATUS_NOT_INITIALIZED);
  LIFE_CHECK(gshmemx_pe_handle() == nullptr);
}

/// Barriers and a leak: finalize frees the program's remaining allocations.
void finalize_frees_what_is_left(const Session& session, std::vector<std::string>& failures) {
  for (int i = 0; i < 2; ++i) {
    const auto runtime = session.join(8 * kMiB);
    LIFE_CHECK(gshmem_malloc(7 * kMiB) != nullptr);
    gshmem_barrier_all();
  }
}

#undef LIFE_CHECK

}  // namespace

const std::vector<LifeTest>& life_tests() {
  static const std::vector<LifeTest> all{
      {"job_can_be_joined_again_with_another_heap", job_can_be_joined_again_with_another_heap},
      {"finalize_frees_what_is_left", finalize_frees_what_is_left}};
  return all;
}

}  // namespace gshmem::spmd
