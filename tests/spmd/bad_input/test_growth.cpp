// The heap that grows as programs meet it: sizes that they ask for without setting any, and memory
// that is short on one PE or on all.
#include "tests/sanitizers/sanitizers.h"
#include "tests/spmd/bad_input/children.h"

#include <catch2/catch.hpp>

#include <gshmem/abi/state.h>

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/sysinfo.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <fstream>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

using namespace gshmem;
using namespace gshmem::spmd;

namespace {

constexpr std::size_t kMiB = std::size_t{1} << 20, kGiB = std::size_t{1} << 30;

/// CPU mode with the heap of programs that set no size.
Environment unset(const Environment& changes = {}) {
  Environment all = quick(changes);
  if (changes.count("GSHMEM_SYMMETRIC_SIZE") == 0) all.erase("GSHMEM_SYMMETRIC_SIZE");
  return all;
}

/// Allocates, and has the first and the last byte of every block cross to the next PE. The rest of
/// it takes no memory.
void use_blocks(const Runtime& r, const std::vector<std::size_t>& sizes) {
  const int me = r.my_pe(), n = r.n_pes(), next = (me + 1) % n, previous = (me + n - 1) % n;
  std::vector<char*> blocks;
  for (const std::size_t bytes : sizes) {
    blocks.push_back(static_cast<char*>(gshmem_malloc(bytes)));
    if (!blocks.back()) throw std::runtime_error("null for " + std::to_string(bytes) + " bytes");
    gshmem_char_p(blocks.back(), static_cast<char>(me + 1), next);
    gshmem_char_p(blocks.back() + bytes - 1, static_cast<char>(me + 65), next);
  }
  gshmem_barrier_all();
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    const char* const block = blocks[i];
    if (block[0] != previous + 1 || block[sizes[i] - 1] != previous + 65)
      throw std::runtime_error("wrong bytes in block " + std::to_string(i));
  }
  gshmem_barrier_all();
  for (char* block : blocks) gshmem_free(block);
}

void use_by_threads(const Environment& environment, const std::vector<std::size_t>& sizes) {
  const Outcome outcome = in_child(
      environment, [&] { run_threads(2, [&](const Runtime& r) { use_blocks(r, sizes); }); });
  INFO(outcome.output);
  CHECK(outcome.code == 0);
}

/// Segments are files, to which this limit applies.
void limit_file_size(rlim_t bytes) {
  std::signal(SIGXFSZ, SIG_IGN);
  rlimit limit{};
  getrlimit(RLIMIT_FSIZE, &limit);
  limit.rlim_cur = bytes;
  setrlimit(RLIMIT_FSIZE, &limit);
}

/// Lets this process open one more descriptor. Returns the limit that it had.
rlimit leave_one_descriptor() {
  rlimit before{};
  getrlimit(RLIMIT_NOFILE, &before);
  const int lowest = ::open("/dev/null", O_RDONLY | O_CLOEXEC);  // all below it are in use
  ::close(lowest);
  rlimit limit = before;
  limit.rlim_cur = static_cast<rlim_t>(lowest) + 1;
  setrlimit(RLIMIT_NOFILE, &limit);
  return before;
}

/// Returns how many mappings of heaps this process has.
std::size_t heap_mappings() {
  std::ifstream maps("/proc/self/maps");
  std::size_t count = 0;
  for (std::string line; std::getline(maps, line);) count += contains(line, "gshmem-heap") ? 1 : 0;
  return count;
}

}  // namespace

TEST_CASE("exactly_the_size_of_the_heap_and_signals_can_be_had") {
  use_by_threads(unset(), {kGiB, 64, 64, 8});
  use_by_threads(unset({{"GSHMEM_SYMMETRIC_SIZE", "12000000"}}), {8000000, 4000000, 8, 8, 8});
}

TEST_CASE("more_than_the_heap_at_once_can_be_had") {
  use_by_threads(unset(), {kGiB / 100 * 109});
  use_by_threads(unset({{"GSHMEM_NIC", "soft"}, {"GSHMEM_P2P", "0"}}), {kGiB / 100 * 109, 100});
  use_by_threads(unset({{"GSHMEM_SYMMETRIC_SIZE", "1"}}), {3 * kGiB, 100, 2 * kGiB});
}

TEST_CASE("heap_that_is_not_to_grow_is_fixed_and_the_log_says_what_to_raise") {
  const std::map<std::string, Environment> cases{
      {"; raise GSHMEM_SYMMETRIC_SIZE", {{"GSHMEM_SYMMETRIC_GROWTH", "0"}}},
      {"raise GSHMEM_SYMMETRIC_SIZE", {{"GSHMEM_SYMMETRIC_LIMIT", "1M"}}},
      {"raise GSHMEM_SYMMETRIC_SIZE ", {{"NVSHMEM_DISABLE_CUDA_VMM", "1"}}},
      {"raise GSHMEM_SYMMETRIC_LIMIT", {{"GSHMEM_SYMMETRIC_LIMIT", "8M"}}},
      {"raise GSHMEM_SYMMETRIC_LIMIT ", {{"NVSHMEM_MAX_MEMORY_PER_GPU", "8M"}}}};
  for (const auto& [text, environment] : cases) {
    const Outcome outcome = in_child(quick(environment), [] {
      const Runtime runtime;
      if (gshmem_malloc(20 * kMiB)) throw std::runtime_error("it is not limited");
      if (!gshmem_malloc(kMiB / 2)) throw std::runtime_error("it has nothing");
    });
    INFO(outcome.output);
    CHECK(outcome.code == 0);
    CHECK(contains(outcome.output, text.substr(0, text.find_last_not_of(' ') + 1)));
  }
}

TEST_CASE("memory_that_one_pe_lacks_is_null_on_all_and_the_job_goes_on") {
  for (const int poor : {0, 1}) {
    const auto outcomes = in_children(2, quick(), [&](int rank) {
      const Runtime runtime;
      const std::size_t before = heap_mappings();
      if (rank == poor) limit_file_size(kMiB);
      if (gshmem_malloc(40 * kMiB)) throw std::runtime_error("memory that one PE does not have");
      if (heap_mappings() != before) throw std::runtime_error("memory stayed mapped");
      gshmem_barrier_all();
      if (rank == poor) limit_file_size(RLIM_INFINITY);
      use_blocks(runtime, {40 * kMiB, 3000, 90 * kMiB});
      if (gshmemx_last_fault(nullptr) != GSHMEMX_SUCCESS) throw std::runtime_error("a fault");
    });
    for (std::size_t rank = 0; rank < 2; ++rank) {
      INFO(outcomes[rank].output);
      CHECK(outcomes[rank].code == 0);
      const std::string whose =
          static_cast<int>(rank) == poor ? "" : "it failed on PE " + std::to_string(poor) + ": ";
      CHECK(contains(outcomes[rank].output,
                     "WARN: gshmem_malloc: symmetric heap: 41943040 bytes (40 MiB) requested "));
      CHECK(contains(outcomes[rank].output, ", and it does not grow: " + whose +
                                                "shared memory needs a segment of 41943040 bytes"));
    }
  }
}

TEST_CASE("descriptors_that_one_pe_lacks_are_null_on_all_and_the_job_goes_on") {
  if (kUnderAsan) skip("UBSan, which is built in with ASan, needs descriptors");
  for (const int poor : {0, 1}) {
    const auto outcomes = in_children(3, quick(), [&](int rank) {
      const Runtime runtime;
      const std::size_t before = heap_mappings();
      rlimit limit{};
      if (rank == poor) limit = leave_one_descriptor();  // for its memory, not for that of others
      if (gshmem_malloc(40 * kMiB)) throw std::runtime_error("memory that one PE does not map");
      if (rank == poor) setrlimit(RLIMIT_NOFILE, &limit);
      if (heap_mappings() != before) throw std::runtime_error("memory stayed mapped");
      gshmem_barrier_all();
      use_blocks(runtime, {40 * kMiB, 3000});
      if (gshmemx_last_fault(nullptr) != GSHMEMX_SUCCESS) throw std::runtime_error("a fault");
    });
    for (const Outcome& outcome : outcomes) {
      INFO(outcome.output);
      CHECK(outcome.code == 0);
    }
    const std::string text =
        poor == 0 ? "fcntl(F_DUPFD)" : "no descriptor left for the segment of PE 0";
    CHECK(contains(outcomes[2].output, ", and it does not grow: it failed on PE " +
                                           std::to_string(poor) + ": " + text));
  }
}

TEST_CASE("heaps_of_a_host_do_not_grow_beyond_its_memory_together") {
  struct sysinfo info {};
  REQUIRE(::sysinfo(&info) == 0);
  const std::size_t machine = (info.totalram + info.totalswap) * info.mem_unit;
  const Outcome outcome = in_child(quick(), [&] {
    run_threads(2, [&](const Runtime&) {
      if (gshmem_malloc(machine / 5 * 3)) throw std::runtime_error("more than there is");
      if (!gshmem_malloc(machine / 5)) throw std::runtime_error("less than there is");
    });
  });
  INFO(outcome.output);
  CHECK(outcome.code == 0);
  CHECK(contains(outcome.output, "; this host has no more memory or addresses for it"));
}

TEST_CASE("part_of_the_heap_is_no_registered_memory") {
  const Outcome outcome = in_child(quick(), [] {
    const Runtime runtime;
    void* const more = gshmem_malloc(512 * kMiB);  // it is all of its part
    if (!more || gshmemx_buffer_unregister_symmetric(more, 512 * kMiB) == 0)
      throw std::runtime_error("unregistered");
  });
  INFO(outcome.output);
  CHECK(outcome.code == 0);
  CHECK(contains(outcome.output, " is not registered"));
}

TEST_CASE("pe_that_dies_while_the_others_grow_is_a_fault_and_they_end") {
  const auto outcomes = in_children(3, quick(), [](int rank) {
    {
      const Runtime runtime;
      use_blocks(runtime, {30 * kMiB});
      if (rank == 1) raise(SIGKILL);
      if (gshmem_malloc(kGiB)) throw std::runtime_error("memory of a dead PE");
      print_fault();
    }
    std::puts("finalized");
  });
  for (const std::size_t rank : {0u, 2u}) {
    INFO(outcomes[rank].output);
    CHECK(outcomes[rank].code == 0);
    CHECK(contains(outcomes[rank].output, "finalized"));
    CHECK(contains(outcomes[rank].output, "fault 12 1 PE 1 "));
  }
}

TEST_CASE("pe_that_is_killed_while_all_grow_over_a_network_is_a_fault_and_the_others_end") {
  if (kUnderTsan) skip("TSan cannot see what orders the accesses of several processes");
  constexpr int kVictim = 1, kBlocks = 24;
  for (const std::string nic : {"soft", "ofi"}) {
    for (const useconds_t delay_us : {0u, 500u, 2000u, 8000u}) {
      const Environment environment = quick({{"GSHMEM_NIC", nic},
                                             {"GSHMEM_P2P", "0"},
                                             {"GSHMEM_OFI_INTERFACE", "127.0.0.1"},
                                             {"FI_PROVIDER", "tcp,ofi_rxm"},
                                             {"GSHMEM_SYMMETRIC_PART", "2M"}});
      const auto outcomes = in_children(3, environment, [&](int rank) {
        {
          const Runtime runtime;
          const int next = (rank + 1) % 3;
          std::vector<char*> blocks;
          const auto add = [&] {
            auto* const block = static_cast<char*>(gshmem_malloc(4 * kMiB));
            if (block) blocks.push_back(block);
            return block;
          };
          while (blocks.size() < 3 && add()) gshmem_char_p(blocks.back(), 'a', next);
          gshmem_barrier_all();
          std::thread killer;
          if (rank == kVictim) {
            killer = std::thread([&] {
              usleep(delay_us);
              (void)raise(SIGKILL);
            });
          }
          while (blocks.size() < kBlocks && add())
            gshmem_putmem_nbi(blocks.back(), blocks[0] + 64, 64, next);
          if (rank == kVictim) killer.join();
          if (gshmem_malloc(kGiB)) throw std::runtime_error("memory of a dead PE");
          for (std::size_t i = 0; i < 3; ++i)
            if (*blocks.at(i) != 'a') throw std::runtime_error("memory of before has changed");
          print_fault();
        }
        std::puts("finalized");
      });
      if (contains(outcomes[0].output, "libfabric.so") ||
          contains(outcomes[0].output, "was built without"))
        break;
      for (const std::size_t rank : {0u, 2u}) {
        INFO(nic << ", " << delay_us << " us, PE " << rank << ": " << outcomes[rank].output);
        CHECK(outcomes[rank].code == 0);
        CHECK(contains(outcomes[rank].output, "finalized"));
        // A NIC may be the first to tell, and another PE may tell this one.
        const std::string output = "\n" + outcomes[rank].output;
        const std::size_t at = output.find("\nfault ");
        REQUIRE(at != std::string::npos);
        CHECK(contains(output.substr(at, output.find('\n', at + 1) - at), "PE 1 "));
      }
      CHECK(outcomes[kVictim].code == 128 + SIGKILL);
    }
  }
}

TEST_CASE("argument_checks_know_the_allocations_of_later_parts") {
  const auto faults = faults_after(2, quick(), [](const Runtime& r) {
    auto* const more = static_cast<char*>(gshmem_malloc(40 * kMiB));
    void* const behind = gshmem_malloc(100);
    char local[16] = {};
    gshmem_putmem(more + 40 * kMiB - 8, local, 16, r.my_pe());
    gshmem_free(behind);
  });
  for (const gshmemx_fault_t& fault : faults) {
    INFO(fault.message);
    CHECK(fault.code == GSHMEMX_ERROR_INVALID_VALUE);
    CHECK(contains(fault.message, "8 bytes leave the allocation of 41943040 bytes (40 MiB)"));
  }
}
