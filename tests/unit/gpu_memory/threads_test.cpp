// Tests host threads of a PE in collectives that wait for other PEs, as kernels of the libcuda
// double that end at the request of the test.
#include <gshmem/gshmem.hpp>

#include "tests/unit/gpu_memory/four_gpus.h"

#include <catch2/catch.hpp>

#include <atomic>
#include <chrono>
#include <functional>
#include <optional>
#include <thread>
#include <vector>

using namespace gshmem;
using test::cuda_double, test::heaps, test::four_gpus;

namespace {

void one_pe() {
  four_gpus(
      {{"GSHMEM_BOOTSTRAP", "single"}, {"GSHMEM_P2P_GROUP", "0"}, {"GSHMEM_FAULT", "report"}});
}

bool comes_true(const std::function<bool()>& fact) {
  const auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  while (!fact() && std::chrono::steady_clock::now() < limit) std::this_thread::yield();
  return fact();
}

/// A host thread of the PE that runs until the object ends; it leaves no kernel held.
class HostThread {
 public:
  explicit HostThread(std::function<void()> work)
      : thread_([this, work = std::move(work), handle = gshmemx_pe_handle()] {
          gshmemx_bind_thread(handle);
          work();
          gshmemx_bind_thread(nullptr);
          done_ = true;
        }) {}
  ~HostThread() {
    cuda_double().holding_collectives = false;
    thread_.join();
  }
  HostThread(const HostThread&) = delete;
  [[nodiscard]] bool ends() const {
    return comes_true([this] { return done_.load(); });
  }

 private:
  std::atomic<bool> done_{false};
  std::thread thread_;
};

}  // namespace

TEST_CASE("threads_in_collectives_of_distinct_teams_do_not_delay_each_other") {
  one_pe();
  const Runtime runtime;
  constexpr int kTeams = 3;
  gshmem_team_t teams[kTeams];
  for (gshmem_team_t& team : teams)
    REQUIRE(gshmem_team_split_strided(GSHMEM_TEAM_WORLD, 0, 1, 1, nullptr, 0, &team) == 0);
  SymmetricArray<int> words(4 * kTeams);
  cuda_double().holding_collectives = true;
  {
    std::optional<HostThread> reduces[kTeams];
    for (int i = 0; i < kTeams; ++i) {
      reduces[i].emplace([&, i] {
        gshmem_int_sum_reduce(teams[i], words.data() + 2 * i, words.data() + 2 * i + 1, 1);
      });
    }
    CHECK(comes_true([] { return cuda_double().held_collectives == kTeams; }));
    // The other members may be waiting for this.
    const HostThread works([&] {
      const int value = 5;
      gshmem_int_put(words.data() + 2 * kTeams, &value, 1, 0);
      gshmem_int_atomic_add(words.data() + 2 * kTeams + 1, 1, 0);
      gshmem_quiet();
      gshmem_team_sync(GSHMEM_TEAM_WORLD);
    });
    CHECK(works.ends());
    CHECK(cuda_double().held_collectives == kTeams);
  }
  CHECK(words.to_vector(0)[2 * kTeams] == 5);
  CHECK(gshmemx_last_fault(nullptr) == GSHMEMX_SUCCESS);
  test::require_no_violations();
}

TEST_CASE("collectives_follow_the_copies_that_their_thread_has_begun") {
  one_pe();
  const Runtime runtime;
  SymmetricArray<int> words(4);
  heaps().in_streams.clear();
  gshmem_int_put_nbi(words.data(), words.data() + 1, 1, 0);
  gshmem_int_sum_reduce(GSHMEM_TEAM_WORLD, words.data() + 2, words.data() + 3, 1);
  REQUIRE(heaps().in_streams.size() == 2);
  CHECK_FALSE(heaps().in_streams[0].is_launch);
  const test::InStream& reduce = heaps().in_streams[1];
  CHECK(reduce.stream != heaps().in_streams[0].stream);
  CHECK(reduce.request.call.kind == device::CallKind::kReduce);
  CHECK_FALSE(reduce.beside_others);
}

TEST_CASE("finalize_waits_for_a_collective_that_a_thread_is_in") {
  one_pe();
  std::optional<Runtime> runtime(std::in_place);
  int* const words = static_cast<int*>(gshmem_malloc(2 * sizeof(int)));
  cuda_double().holding_collectives = true;
  {
    const HostThread reduces(
        [&] { gshmem_int_sum_reduce(GSHMEM_TEAM_WORLD, words, words + 1, 1); });
    CHECK(comes_true([] { return cuda_double().held_collectives == 1; }));
    std::thread releases([] {
      for (int i = 0; i < 5000; ++i) std::this_thread::yield();
      cuda_double().holding_collectives = false;
    });
    runtime.reset();
    releases.join();
    CHECK(reduces.ends());
  }
  test::require_no_violations();
  CHECK(heaps().clean());
}
