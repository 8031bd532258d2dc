// Properties that the results of a job do not show: it logs nothing when nothing is wrong, a
// setting is obeyed where another path would work as well, faults are reported, and programs that
// are started meanwhile inherit nothing.
#include <gshmem/compat/nvshmemx.h>
#include <gshmem/device/core/registrar.h>

#include "tests/sanitizers/sanitizers.h"
#include "tests/spmd/bad_input/children.h"

#include <catch2/catch.hpp>

#include <dirent.h>
#include <fcntl.h>
#include <sched.h>
#include <unistd.h>

#include <cstdlib>
#include <set>
#include <stdexcept>
#include <string>
#include <tuple>
#include <vector>

using namespace gshmem;
using namespace gshmem::spmd;

namespace {

constexpr int kPes = 2;

const Environment kMapped;
const Environment kSoft = {{"GSHMEM_P2P", "0"}, {"GSHMEM_NIC", "soft"}};
const Environment kOfi = {{"GSHMEM_P2P", "0"}, {"GSHMEM_NIC", "ofi"}};

/// Returns those of the paths whose ordering this build can check. TSan does not see the ordering
/// between two processes that share memory.
std::vector<Environment> visible(std::vector<Environment> paths) {
  if (kUnderTsan) paths.resize(1);
  return paths;
}

std::string name_of(const Environment& environment) {
  std::string name;
  for (const auto& [variable, value] : environment) name += variable + "=" + value + " ";
  return name;
}

bool lacks_path(const Outcome& outcome) {
  return contains(outcome.output, "was built without") || contains(outcome.output, "libfabric.so");
}

/// Makes a put to the other PE and a get back, and an atomic.
void use_all_paths() {
  auto* words = static_cast<std::uint64_t*>(gshmem_calloc(4, sizeof(std::uint64_t)));
  const int other = (gshmem_my_pe() + 1) % gshmem_n_pes();
  gshmem_uint64_put(words, words + 1, 1, other);
  gshmem_uint64_atomic_add(words + 2, 1, other);
  gshmem_quiet();
  gshmem_barrier_all();
  gshmem_free(words);
}

std::set<int> open_descriptors() {
  std::set<int> found;
  DIR* folder = opendir("/proc/self/fd");
  while (const dirent* entry = readdir(folder)) {
    if (entry->d_name[0] != '.') found.insert(std::atoi(entry->d_name));
  }
  closedir(folder);
  return found;
}

}  // namespace

TEST_CASE("job_with_default_settings_logs_nothing") {
  for (const Environment& path : visible({kMapped, kSoft, kOfi})) {
    const auto outcomes = in_children(kPes, quick(path), [](int) {
      const Runtime runtime;
      use_all_paths();
    });
    for (const Outcome& outcome : outcomes) {
      if (lacks_path(outcome)) continue;
      INFO(name_of(path) << "\n" << outcome.output);
      CHECK(outcome.code == 0);
      CHECK(outcome.output.empty());
    }
  }
}

TEST_CASE("variables_that_are_not_known_are_named_once_per_job") {
  // PE 2 alone has another name, which PE 0 cannot know of.
  const std::string all = "GSHMEM_SYMETRIC_SIZE is not", its = "GSHMEM_TIMOUT is not",
                    theirs = "NVSHMEM_HCA_PREFIX: no counterpart";
  const auto outcomes = in_children(
      3, quick({{"GSHMEM_SYMETRIC_SIZE", "1M"}, {"NVSHMEM_HCA_PREFIX", "mlx5"}}), [](int rank) {
        if (rank == 2) ::setenv("GSHMEM_TIMOUT", "1", 1);
        Runtime();
      });
  for (std::size_t pe = 0; pe < outcomes.size(); ++pe) {
    INFO(pe << "\n" << outcomes[pe].output);
    CHECK(outcomes[pe].code == 0);
    const std::size_t is_named = pe == 1 ? 0 : 1;
    CHECK(times(outcomes[pe].output, all) == is_named);
    CHECK(times(outcomes[pe].output, theirs) == is_named);
    CHECK(times(outcomes[pe].output, its) == (pe == 2 ? 1 : 0));
  }
}

TEST_CASE("variables_that_are_not_known_are_named_where_no_job_starts") {
  const Environment misspelt = {{"GSHMEM_UID_INTERFCE", "lo"}, {"GSHMEM_LOG", "warn"}};
  for (const auto& [name, value] :
       {std::pair{"GSHMEM_UID_INTERFACE", "=none"}, std::pair{"GSHMEM_TIMEOUT", "abc"}}) {
    Environment environment = quick(misspelt);
    environment[name] = value;
    const Outcome outcome = in_child(environment, [] {
      gshmemx_uniqueid_t id;
      if (gshmemx_get_uniqueid(&id) == GSHMEMX_SUCCESS) std::puts("an id");
    });
    INFO(outcome.output);
    CHECK_FALSE(contains(outcome.output, "an id"));
    CHECK(times(outcome.output, "did you mean GSHMEM_UID_INTERFACE?") == 1);
  }
}

TEST_CASE("doorbells_are_rung_by_the_configured_thread") {
  if (kUnderTsan) skip("TSan does not see what orders two processes");
  for (const auto& [setting, who] :
       {std::pair{"auto", "doorbell by thread"}, std::pair{"agent", "doorbell by agent"}}) {
    const auto outcomes = in_children(kPes,
                                      quick({{"GSHMEM_P2P", "0"},
                                             {"GSHMEM_NIC", "soft"},
                                             {"GSHMEM_DOORBELL", setting},
                                             {"GSHMEM_LOG", "info"}}),
                                      [](int) {
                                        const Runtime runtime;
                                        use_all_paths();
                                      });
    for (const Outcome& outcome : outcomes) {
      INFO(outcome.output);
      CHECK(outcome.code == 0);
      CHECK(contains(outcome.output, std::string(who) + ", queues in host memory"));
      CHECK(contains(outcome.output, " of 2, bootstrap uid, CPU mode, heap "));
      CHECK(contains(outcome.output, "network path to 2 PEs by mlx5 ("));
    }
  }
}

TEST_CASE("queues_exist_to_the_pes_whose_heaps_are_not_mapped") {
  if (kUnderTsan) skip("TSan does not see what orders two processes");
  // The queues made on first use include those to this PE, which test them.
  for (const auto& [connect, of_two, alone] :
       {std::tuple{"init", "to 1 PEs by", "to 2 PEs by"}, {"use", "to 2 PEs by", "to 3 PEs by"}}) {
    const auto outcomes = in_children(3,
                                      quick({{"GSHMEM_P2P_GROUP", "2"},
                                             {"GSHMEM_NIC", "soft"},
                                             {"GSHMEM_CONNECT", connect},
                                             {"GSHMEM_LOG", "info"}}),
                                      [](int) { const Runtime runtime; });
    for (int rank = 0; rank < 3; ++rank) {
      const Outcome& outcome = outcomes[static_cast<std::size_t>(rank)];
      INFO(connect << "\n" << outcome.output);
      CHECK(outcome.code == 0);
      CHECK(contains(outcome.output, std::string("network path ") + (rank < 2 ? of_two : alone)));
    }
  }
}

TEST_CASE("pes_of_a_host_share_memory_though_one_of_another_is_between_them") {
  if (kUnderTsan) skip("TSan does not see what orders two processes");
  const auto elsewhere = [] {
    return ::unshare(CLONE_NEWUTS) == 0 && ::sethostname("elsewhere", 9) == 0;
  };
  const Outcome tried = in_child(quick(), [&] { std::printf("%d\n", elsewhere()); });
  if (!contains(tried.output, "1\n")) skip("needs root for a UTS namespace");
  const Environment environment =
      quick({{"GSHMEM_NIC", "ofi"}, {"GSHMEM_OFI_INTERFACE", "127.0.0.1"}});
  const auto outcomes = in_children(3, environment, [&](int rank) {
    if (rank == 1 && !elsewhere()) std::exit(4);
    const Runtime runtime;
    SymmetricArray<int> words(3);
    for (int to = 0; to < 3; ++to) {
      auto* const mapped = static_cast<int*>(gshmem_ptr(words.data(), to));
      std::printf("%d", mapped != nullptr);
      if (mapped)
        mapped[rank] = 10 + rank;
      else
        gshmem_int_p(words.data() + rank, 10 + rank, to);
    }
    gshmem_barrier_all();
    std::printf(" %d %d %d, shared by %d\n", words.data()[0], words.data()[1], words.data()[2],
                gshmem_team_n_pes(GSHMEM_TEAM_SHARED));
  });
  for (std::size_t rank = 0; rank < 3; ++rank) {
    const Outcome& outcome = outcomes[rank];
    if (lacks_path(outcome)) continue;
    INFO(outcome.output);
    CHECK(outcome.code == 0);
    CHECK(contains(outcome.output,
                   rank == 1 ? "010 10 11 12, shared by 1\n" : "101 10 11 12, shared by 2\n"));
  }
}

TEST_CASE("many_teams_synchronize_over_the_network") {
  if (kUnderTsan) skip("TSan does not see what orders two processes");
  // More teams than have their slots at the front of the heap.
  for (const Environment& path : {kSoft, kOfi}) {
    Environment environment = quick(path);
    environment["GSHMEM_TEAMS"] = "700";
    const auto outcomes = in_children(kPes, environment, [](int) {
      const Runtime runtime;
      gshmem_team_t team = GSHMEM_TEAM_INVALID;
      if (gshmem_team_split_strided(GSHMEM_TEAM_WORLD, kPes - 1, -1, kPes, nullptr, 0, &team) != 0)
        throw std::runtime_error("no team");
      SymmetricArray<int> words(2);
      for (int round = 1; round <= 3; ++round) {
        words.data()[0] = round;
        if (gshmem_int_sum_reduce(team, words.data() + 1, words.data(), 1) != 0 ||
            gshmem_barrier(team) != 0 || words.data()[1] != kPes * round)
          throw std::runtime_error("another sum");
      }
    });
    for (const Outcome& outcome : outcomes) {
      if (lacks_path(outcome)) continue;
      INFO(name_of(path) << "\n" << outcome.output);
      CHECK(outcome.code == 0);
      CHECK(outcome.output.empty());
    }
  }
}

TEST_CASE("queues_on_a_gpu_without_one_are_an_error_on_all") {
  for (Environment environment : visible({kSoft, kOfi})) {
    environment.insert({{"GSHMEM_DEVICE", "cpu"}, {"GSHMEM_QUEUE_MEMORY", "gpu"}});
    for (const Outcome& outcome : in_children(kPes, quick(environment), [](int) {
           gshmem_init();
           std::printf("state %d\n", gshmemx_init_status());
         })) {
      if (lacks_path(outcome)) continue;
      INFO(name_of(environment) << "\n" << outcome.output);
      CHECK(outcome.code == 0);
      CHECK(contains(outcome.output, "state 0\n"));
      CHECK(contains(outcome.output, "GSHMEM_QUEUE_MEMORY=gpu: the PEs run in CPU mode; use host"));
    }
  }
}

TEST_CASE("doorbells_that_do_not_arrive_are_rung_by_a_host_thread") {
  if (kUnderTsan) skip("TSan does not see what orders two processes");
  const auto run = [](const std::string& setting, const std::string& seconds) {
    return in_children(kPes,
                       quick({{"GSHMEM_P2P", "0"},
                              {"GSHMEM_NIC", "soft"},
                              {"GSHMEM_DOORBELL", setting},
                              {"GSHMEM_LOG", "info"},
                              {"GSHMEM_TIMEOUT", seconds},
                              {"GSHMEM_FAULT", "abort"},  // for errors other than those of init
                              {"GSHMEM_TEST_DEAD_DOORBELLS", "1"}}),
                       [](int) {
                         const Runtime runtime;
                         use_all_paths();
                         print_fault();
                       });
  };
  for (const Outcome& outcome : run("auto", "2")) {  // the following output must arrive in time
    INFO(outcome.output);
    CHECK(outcome.code == 0);
    CHECK(contains(outcome.output, "fault 0 "));
    CHECK(contains(outcome.output, "a host thread rings instead"));
    CHECK(contains(outcome.output, "ACS"));
    CHECK(contains(outcome.output, "doorbell by agent"));
  }
  for (const Outcome& outcome : run("gpu", "1")) {
    INFO(outcome.output);
    CHECK(outcome.code == 3);
    CHECK(contains(outcome.output, "the NIC does not work off its queues"));
    CHECK(contains(outcome.output, "waited 1 s"));  // no longer than GSHMEM_TIMEOUT
  }
}

TEST_CASE("fault_is_logged_once_by_its_pe") {
  const auto outcomes = in_children(kPes, quick({{"GSHMEM_FAULT", "report"}}), [](int rank) {
    const Runtime runtime;
    int local = 0;
    if (rank == 0) gshmem_int_p(&local, 1, 1);                // found by device code
    if (rank == 1) gshmem_free(reinterpret_cast<void*>(64));  // found by the host
  });
  for (int rank = 0; rank < kPes; ++rank) {
    const std::string& output = outcomes[static_cast<std::size_t>(rank)].output;
    INFO("PE " << rank << ":\n" << output);
    const std::string call =
        rank == 0 ? "gshmem_int_p: argument dest" : "gshmem_free: argument ptr";
    CHECK(times(output, "ERROR: " + call) == 1);
  }
}

TEST_CASE("programs_that_a_pe_starts_inherit_no_descriptor_of_the_library") {
  // libfabric opens its own descriptors.
  for (const Environment& path : visible({kMapped, kSoft})) {
    const auto outcomes = in_children(kPes, quick(path), [](int) {
      const std::set<int> before = open_descriptors();
      const Runtime runtime;
      use_all_paths();
      gshmem_ctx_t context;
      if (gshmem_ctx_create(0, &context) != 0) std::puts("no context");
      for (const int fd : open_descriptors()) {
        const int flags = fcntl(fd, F_GETFD);
        if (flags < 0 || before.count(fd) != 0 || (flags & FD_CLOEXEC) != 0) continue;
        char target[256] = {};
        const std::string name = "/proc/self/fd/" + std::to_string(fd);
        if (readlink(name.c_str(), target, sizeof(target) - 1) < 0) continue;
        std::printf("inherited: %s\n", target);
      }
      std::printf("%zu more\n", open_descriptors().size() - before.size());
      gshmem_barrier_all();
      // LeakSanitizer's tracer crashed at the exit of this one, twice, on a busy machine.
      gshmem_finalize();
      std::fflush(nullptr);
      _exit(0);
    });
    for (const Outcome& outcome : outcomes) {
      INFO(name_of(path) << "\n" << outcome.output);
      CHECK(outcome.code == 0);
      CHECK_FALSE(contains(outcome.output, "inherited"));
      CHECK_FALSE(contains(outcome.output, "\n0 more"));  // otherwise this proves nothing
    }
  }
}

// The bug: the kernels did nothing, and the program ended with 0.
TEST_CASE("kernels_without_a_gpu_are_a_warning_of_pe_0_and_an_error_under_nvshmem_s_names") {
  const Environment hidden{{"GSHMEM_DEVICE", "auto"}, {"CUDA_VISIBLE_DEVICES", ""}};
  constexpr const char* kText = "this program has kernels, and there is no GPU for them: ";
  const auto run = [](bool has_kernels, int (*init)()) {
    const auto upload = [](const void*, unsigned long) { return 0; };
    static const gshmemi_unit unit{upload, sizeof(abi::DeviceState), abi::kStateAbi};
    if (has_kernels) gshmemi_register_unit(&unit);
    std::printf("status %d\n", init());
    print_fault();
    if (gshmemx_pe_handle()) gshmem_finalize();
  };
  const auto ours = [] { return gshmemx_init_attr(GSHMEMX_INIT_DEFAULT, nullptr); };
  const auto theirs = [] { return nvshmemx_init_attr(GSHMEMX_INIT_DEFAULT, nullptr); };
  const auto warned = in_children(2, quick(hidden), [&](int) { run(true, ours); });
  for (std::size_t pe = 0; pe < 2; ++pe) {
    INFO(warned[pe].output);
    CHECK(contains(warned[pe].output, "status 0\n"));
    CHECK(times(warned[pe].output, kText) == (pe == 0 ? 1 : 0));
    CHECK(times(warned[pe].output, "set GSHMEM_DEVICE=cpu") == (pe == 0 ? 1 : 0));
  }
  const Outcome failed = in_child(quick(hidden), [&] { run(true, theirs); });
  INFO(failed.output);
  CHECK(contains(failed.output, "status " + std::to_string(GSHMEMX_ERROR_NOT_SUPPORTED) + "\n"));
  CHECK((contains(failed.output, kText) && contains(failed.output, "set GSHMEM_DEVICE=cpu")));
  // Nothing is logged if CPU mode was requested, or if there are only host functors.
  for (const Environment& environment :
       {hidden, Environment{{"GSHMEM_DEVICE", "cpu"}, {"CUDA_VISIBLE_DEVICES", ""}}}) {
    const bool has_kernels = environment.at("GSHMEM_DEVICE") == std::string("cpu");
    for (int (*init)() : {+ours, +theirs}) {
      const Outcome silent = in_child(quick(environment), [&] { run(has_kernels, init); });
      INFO(silent.output);
      CHECK(contains(silent.output, "status 0\n"));
      CHECK_FALSE(contains(silent.output, "WARN"));
    }
  }
}
