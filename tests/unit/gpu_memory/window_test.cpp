// Tests the window of GPU heaps, with PEs that are threads and GPUs of the double: which PEs map
// which heap, by which kind of handle, in which slots.
#include "transport/p2p/window.h"

#include "bootstrap/bootstrap.h"
#include "host/base/cuda_driver.h"
#include "tests/unit/gpu_memory/four_gpus.h"
#include "transport/p2p/cuda_heap.h"
#include "transport/p2p/mapped_set.h"

#include <catch2/catch.hpp>

#include <fcntl.h>

#include <algorithm>
#include <functional>
#include <thread>

using namespace gshmem;
using namespace gshmem::p2p;

namespace {

using Numbers = std::vector<int>;
using Texts = std::vector<std::string>;

using test::heaps;

/// Counts the steps in which the window uses it.
class CountingBoot final : public Collectives {
 public:
  explicit CountingBoot(Collectives& inner) : inner_(inner) {}
  int rank() const noexcept override { return inner_.rank(); }
  int size() const noexcept override { return inner_.size(); }
  void allgather(const void* send, void* recv, std::size_t bytes) override {
    ++steps;
    inner_.allgather(send, recv, bytes);
  }
  int steps = 0;

 private:
  Collectives& inner_;
};

struct Job {
  Texts hosts;
  FabricUse fabric = FabricUse::kAuto;
  Peers peers = Peers::kAll;
  int p2p_group = 0;
  std::vector<std::uint8_t> clusters{};  ///< by PE, 0: its GPU is in no cluster; empty: all in one
  std::vector<std::uint64_t> bytes{};    ///< by PE; empty: 1 MiB each
};

/// The state of a PE after it has made its window.
struct Seen {
  Numbers pes, mapped, by_fabric;  ///< PE numbers
  Texts why_not;                   ///< by PE
  MappedSet set;
  int steps = 0;
  gshmemx_status code = GSHMEMX_SUCCESS;
  std::string error;
};

nvml::GpuFabric place_of(const Job& job, std::size_t pe) {
  nvml::GpuFabric place;
  place.cluster[0] = job.clusters.empty() ? 1 : job.clusters[pe];
  place.why_none = place.cluster[0] != 0 ? "" : "no fabric in this test";
  return place;
}

/// Every PE writes into every heap that it maps, and finds in its own heap the values of the PEs
/// that map it.
void write_and_look(const PeerWindow& window, Collectives& boot) {
  const int me = boot.rank();
  const auto slot_of_me = std::find(window.pes().begin(), window.pes().end(), me);
  const std::int64_t mine = slot_of_me - window.pes().begin();
  boot.barrier();
  for (std::size_t slot = 0; slot < window.pes().size(); ++slot) {
    if (!window.mapped()[slot]) continue;
    char* heap = window.heap() + (static_cast<std::int64_t>(slot) - mine) * window.stride();
    reinterpret_cast<int*>(heap)[me] = 1000 * (me + 1) + window.pes()[slot];
  }
  boot.barrier();
  for (std::size_t slot = 0; slot < window.pes().size(); ++slot) {
    const int pe = window.pes()[slot];
    const int found = reinterpret_cast<const int*>(window.heap())[pe];
    if (window.mapped()[slot] && found != 1000 * (pe + 1) + me)
      throw Error(GSHMEMX_ERROR_INTERNAL, strprintf("PE %d wrote %d into PE %d", pe, found, me));
  }
  boot.barrier();  // no PE unmaps before
}

Seen look_at(const PeerWindow& window, int me, int n) {
  Seen seen;
  seen.pes = window.pes();
  seen.set = mapped_set(window.pes(), window.mapped(), me, n);
  for (int pe = 0; pe < n; ++pe) {
    seen.why_not.push_back(window.why_not(pe));
    if (window.by_fabric(pe)) seen.by_fabric.push_back(pe);
  }
  for (std::size_t slot = 0; slot < seen.pes.size(); ++slot)
    if (window.mapped()[slot]) seen.mapped.push_back(seen.pes[slot]);
  return seen;
}

Seen run_pe(const Job& job, Collectives& inner) {
  Seen seen;
  CountingBoot boot(inner);
  const auto me = static_cast<std::size_t>(boot.rank());
  bool made = false;
  try {
    const control::HostGroup group = control::group_hosts(job.hosts, boot.rank());
    control::LocalPeers local;
    const auto links = local.connect(group, allgather(boot, local.open()), 20);
    boot.steps = 0;
    const auto window = make_cuda_window(
        {.local = local,
         .boot = boot,
         .device = boot.rank(),
         .bytes = {.heap = job.bytes.empty() ? 1 << 20 : job.bytes[me], .lent = 1 << 20},
         .peers = job.peers,
         .local_groups = control::local_groups(group, job.p2p_group),
         .fabric = job.fabric,
         .place = place_of(job, me)});
    made = true;
    seen = look_at(*window, boot.rank(), boot.size());
    seen.steps = boot.steps;
    write_and_look(*window, boot);
  } catch (const Error& error) {
    seen.code = error.code();
    seen.error = error.what();
  }
  // Its peers may have windows and wait in write_and_look.
  for (int barrier = 0; !made && barrier < 3; ++barrier) boot.barrier();
  return seen;
}

std::vector<Seen> run(const Job& job) {
  auto boots = bootstrap::create_threads(static_cast<int>(job.hosts.size()), 20);
  std::vector<Seen> all(job.hosts.size());
  std::vector<std::thread> threads;
  for (std::size_t pe = 0; pe < all.size(); ++pe)
    threads.emplace_back([&, pe] { all[pe] = run_pe(job, *boots[pe]); });
  for (std::thread& thread : threads) thread.join();
  CHECK(heaps().violations == Texts{});
  CHECK(heaps().clean());
  return all;
}

/// Runs the job and requires that all PEs succeed.
std::vector<Seen> run_well(const Job& job) {
  std::vector<Seen> all = run(job);
  for (const Seen& pe : all) CHECK(pe.error == "");
  for (const Seen& pe : all) REQUIRE(pe.code == GSHMEMX_SUCCESS);
  return all;
}

}  // namespace

TEST_CASE("hosts_of_one_fabric_map_each_other_in_the_order_of_pes") {
  heaps().reset();
  for (const Seen& pe : run_well({.hosts = {"a", "a", "b", "b"}})) {
    CHECK(pe.pes == Numbers{0, 1, 2, 3});
    CHECK(pe.mapped == Numbers{0, 1, 2, 3});
    CHECK(pe.set.slots.empty());
    CHECK(pe.set.count == 4);
    CHECK(pe.why_not == Texts(4));
    CHECK(pe.steps == 2);
  }
  CHECK(heaps().with_fabric == 4);
  CHECK(heaps().fd_imports == 8);      // of this host, with its own heap
  CHECK(heaps().fabric_imports == 8);  // of the other host
}

TEST_CASE("a_host_outside_of_the_fabric_leaves_a_hole") {
  heaps().reset();
  const std::vector<Seen> all = run_well({.hosts = {"a", "b", "c"}, .clusters = {1, 0, 1}});
  CHECK(all[0].pes == Numbers{0, 2});
  CHECK(all[0].mapped == Numbers{0, 2});
  CHECK(all[0].set.slots == std::vector<std::int32_t>{0, -1, 1});
  CHECK(all[2].set.my_slot == 1);
  CHECK(all[1].mapped == Numbers{1});
  CHECK_THAT(
      all[0].why_not[1],
      Catch::Contains("it is on another host, and PE 1 has no fabric handle: no fabric in this"));
  CHECK_THAT(all[1].why_not[0], Catch::Contains("PE 1 has no fabric handle"));
  CHECK(heaps().with_fabric == 2);
  CHECK(heaps().without_fabric == 1);
}

TEST_CASE("auto_uses_only_the_fabric_that_nvml_names_and_on_does_not") {
  heaps().reset();
  Job job{.hosts = {"a", "b"}, .clusters = {1, 2}};
  for (const Seen& pe : run_well(job)) {
    CHECK(pe.mapped.size() == 1);
    CHECK(pe.steps == 1);  // all PEs know that there is no peer to try
  }
  CHECK_THAT(run_well(job)[0].why_not[1], Catch::Contains("in another NVLink fabric"));
  job.fabric = FabricUse::kOn;
  job.clusters = {0, 2};
  for (const Seen& pe : run_well(job)) CHECK(pe.mapped == Numbers{0, 1});
}

TEST_CASE("a_handle_that_cannot_be_imported_leaves_the_hosts_as_they_are") {
  heaps().reset();
  heaps().no_import = {2};
  const std::vector<Seen> all = run_well({.hosts = {"a", "a", "b", "b"}});
  for (std::size_t pe = 0; pe < 4; ++pe)
    CHECK(all[pe].mapped == (pe < 2 ? Numbers{0, 1} : Numbers{2, 3}));
  CHECK_THAT(all[0].why_not[2],
             Catch::Contains("its fabric handle: cuMemImportFromShareableHandle"));
  CHECK_THAT(all[0].why_not[2], Catch::Contains("another IMEX channel?"));
  CHECK_THAT(all[0].why_not[3],
             Catch::Contains("not all PEs of its host and of this one reach each other"));
  CHECK_THAT(all[2].why_not[0], Catch::Contains("PE 0 cannot map the heap of this one"));
}

TEST_CASE("auto_works_without_a_permission_and_on_names_the_missing_one") {
  heaps().reset();
  heaps().without_channel = {0, 1};
  Job job{.hosts = {"a", "b"}};
  std::vector<Seen> all = run_well(job);
  CHECK(all[0].mapped == Numbers{0});
  CHECK_THAT(all[0].why_not[1],
             Catch::Contains("PE 0 has no fabric handle: cuMemCreate with a fabric handle"));
  CHECK_THAT(all[0].why_not[1], Catch::Contains("no IMEX channel"));
  CHECK(heaps().without_fabric == 2);

  heaps().without_channel = {1};
  all = run_well(job);
  CHECK_THAT(all[0].why_not[1], Catch::Contains("PE 1 has no fabric handle"));
  job.fabric = FabricUse::kOn;
  all = run(job);
  for (const Seen& pe : all) CHECK(pe.code == GSHMEMX_ERROR_NOT_SUPPORTED);
  CHECK_THAT(all[1].error, Catch::Contains("GSHMEM_FABRIC=on: "));
  CHECK_THAT(all[1].error, Catch::Contains("/dev/nvidia-caps-imex-channels/channel0"));
  CHECK_THAT(all[1].error, Catch::Contains("nvidia-imex"));
  CHECK_THAT(all[0].error, Catch::Contains("init failed on PE 1: GSHMEM_FABRIC=on: "));
}

TEST_CASE("a_heap_of_another_size_is_not_mapped") {
  heaps().reset();
  const std::vector<Seen> all =
      run_well({.hosts = {"a", "b", "c"}, .bytes = {1 << 20, 1 << 23, 1 << 20}});
  CHECK(all[0].mapped == Numbers{0, 2});
  CHECK_THAT(all[0].why_not[1], Catch::Contains("with a heap of 8388608 bytes, not 2097152"));
}
