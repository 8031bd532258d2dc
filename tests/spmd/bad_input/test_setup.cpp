// Misuse of init and finalize, and configurations that cannot work: an error that names the cause,
// within a time limit, on all PEs.
#include "tests/spmd/bad_input/children.h"

#include <gshmem/device/core/registrar.h>

#include "tests/sanitizers/sanitizers.h"

#include <catch2/catch.hpp>
#include <malloc.h>
#include <sys/resource.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>

using namespace gshmem;
using namespace gshmem::spmd;

namespace {

/// Calls gshmemx_init_attr in one child with `environment`, and returns its status and message.
Outcome init_with(const Environment& environment) {
  return in_child(quick(environment), [] {
    std::printf("status %d\n", gshmemx_init_attr(GSHMEMX_INIT_DEFAULT, nullptr));
    print_fault();
  });
}

void expect_status(const Outcome& outcome, int status, const std::vector<std::string>& parts) {
  INFO(outcome.output);
  CHECK(outcome.code == 0);
  CHECK(contains(outcome.output, "status " + std::to_string(status) + "\n"));
  CHECK(contains(outcome.output, "fault " + std::to_string(status) + " "));
  for (const std::string& part : parts) CHECK(contains(outcome.output, part));
}

void require_gpu() {
  const Outcome gpu = init_with({{"GSHMEM_DEVICE", "cuda"}});
  if (!contains(gpu.output, "status 0\n")) skip("needs a GPU: " + gpu.output);
}

/// Allows only so many more bytes in the calling process; returns the previous limit.
rlimit limit_addresses(std::size_t more) {
  rlimit before{};
  getrlimit(RLIMIT_AS, &before);
  std::size_t pages = 0;
  std::ifstream("/proc/self/statm") >> pages;
  rlimit little = before;
  little.rlim_cur = pages * static_cast<std::size_t>(sysconf(_SC_PAGESIZE)) + more;
  setrlimit(RLIMIT_AS, &little);
  return before;
}

}  // namespace

TEST_CASE("call_before_init_or_after_finalize_ends_the_process_with_a_message") {
  int local = 0;
  const std::map<std::string, std::function<void()>> calls{
      {"gshmem_int_put", [&] { gshmem_int_put(&local, &local, 1, 0); }},
      {"gshmem_malloc", [] { (void)gshmem_malloc(8); }},
      {"gshmem_barrier_all", [] { gshmem_barrier_all(); }},
      {"gshmem_ctx_quiet", [] { gshmem_ctx_quiet(GSHMEM_CTX_DEFAULT); }},
      {"gshmem_ctx_int_p", [&] { gshmem_ctx_int_p(1 << 10, &local, 1, 0); }},
      {"gshmem_my_pe", [] { (void)gshmem_my_pe(); }},
      {"gshmem_int_wait_until", [&] { gshmem_int_wait_until(&local, GSHMEM_CMP_EQ, 1); }}};
  for (const auto& [name, call] : calls) {
    for (const bool after : {false, true}) {
      const Outcome outcome = in_child(quick(), [&, call = call, after = after] {
        if (after) const Runtime runtime;
        call();
        std::puts("still here");
      });
      INFO(name << " " << outcome.output);
      CHECK(outcome.code != 0);
      CHECK(outcome.code != 128 + SIGALRM);
      CHECK(outcome.code != 128 + SIGSEGV);
      CHECK(contains(outcome.output, name + ": the library is not initialized"));
      CHECK_FALSE(contains(outcome.output, "still here"));
    }
  }
}

TEST_CASE("launch_before_init_throws") {
  const Outcome outcome = in_child(quick(), [] { launch({}, [](const LaunchContext&) {}); });
  CHECK(outcome.code == 3);
  CHECK(contains(outcome.output, "not initialized"));
}

TEST_CASE("launches_and_pes_of_a_wrong_number_throw") {
  const Outcome outcome = in_child(quick(), [] {
    const auto say = [](const auto& call) {
      try {
        call();
        std::puts("no error");
      } catch (const std::runtime_error& error) {
        std::puts(error.what());
      }
    };
    for (const int n : {0, -1, 65537}) say([&] { run_threads(n, [](const Runtime&) {}); });
    const Runtime runtime;
    for (const LaunchShape& shape : {LaunchShape{0, 1}, LaunchShape{1, 0}, LaunchShape{1, 1025},
                                     LaunchShape{5, 1024}, LaunchShape{~0u, 1024}})
      say([&] { launch(shape, [](const LaunchContext&) {}); });
    say([] { launch<32>({.threads = 33}, [](const LaunchContext&) {}); });
  });
  INFO(outcome.output);
  CHECK(outcome.code == 0);
  CHECK_FALSE(contains(outcome.output, "no error"));
  for (const char* text :
       {"run_threads: argument n_pes = 0 is", "run_threads: argument n_pes = -1 is",
        "run_threads: argument n_pes = 65537 is",
        "launch: 0 blocks of 1 threads; there is at least",
        "launch: 1 blocks of 0 threads; allowed are 1 to 1024 per block",
        "launch: 1 blocks of 1025 threads; allowed are 1 to 1024 per block",
        "launch: 5 blocks of 1024 threads are more than the 4096",
        "launch: 4294967295 blocks of 1024 threads are more than the 4096",
        "launch: 1 blocks of 33 threads; allowed are 1 to 32 per block"})
    CHECK(contains(outcome.output, text));
}

TEST_CASE("launch_whose_threads_cannot_all_be_started_throws_and_runs_none") {
  if (kUnderAsan || kUnderTsan) skip("sanitizers need address space without limit");
  const Outcome outcome = in_child(quick(), [] {
    const Runtime runtime;
    static std::atomic<int> ran{0};
    // It waits for the whole block, and so for missing threads.
    const auto body = [](const LaunchContext& ctx) {
      ++ran;
      ctx.block().sync();
    };
    // There is memory for some of 64 threads: each has a stack of 8 MiB, or of the size of `ulimit
    // -s`.
    const rlimit before = limit_addresses(100u << 20);
    try {
      launch({.blocks = 1, .threads = 64}, body);
      std::puts("launched");
    } catch (const std::runtime_error& error) {
      std::printf("refused: %s\n", error.what());
    }
    setrlimit(RLIMIT_AS, &before);
    std::printf("ran %d\n", ran.load());
    launch({.blocks = 1, .threads = 64}, body);
    std::printf("then %d\n", ran.load());
  });
  INFO(outcome.output);
  CHECK(outcome.code == 0);
  CHECK(contains(outcome.output,
                 "refused: gshmem::launch: 1 blocks of 64 threads could not be started: "));
  int started = 0;
  const auto line = outcome.output.find("ERROR: only ");
  REQUIRE(line != std::string::npos);
  CHECK(std::sscanf(outcome.output.c_str() + line, "ERROR: only %d of 64 threads", &started) == 1);
  CHECK(started > 0);
  CHECK(started < 64);
  CHECK(contains(outcome.output, " of 64 threads could be started: "));
  CHECK(contains(outcome.output, "ran 0\nthen 64\n"));
  CHECK(outcome.output.find("ERROR: only ", line + 1) ==
        std::string::npos);  // of the second launch
}

TEST_CASE("finalize_without_init_and_twice_returns") {
  const Outcome outcome = in_child(quick(), [] {
    gshmem_finalize();
    gshmem_init();
    gshmem_finalize();
    gshmem_finalize();
    std::puts("still here");
  });
  INFO(outcome.output);
  CHECK(outcome.code == 0);
  CHECK(contains(outcome.output, "still here"));
  // The message names no PE, even if there has been one.
  const std::string line = "gshmem[-] WARN: gshmem_finalize: the library is not initialized";
  const auto first = outcome.output.find(line);
  REQUIRE(first != std::string::npos);
  CHECK(outcome.output.find(line, first + 1) != std::string::npos);
}

TEST_CASE("global_exit_without_a_pe_ends_the_process_with_its_status") {
  const Outcome outcome = in_child(quick(), [] {
    std::puts("said before");  // buffered by the stream of a pipe
    gshmem_global_exit(7);
    std::puts("still here");
  });
  INFO(outcome.output);
  CHECK(outcome.code == 7);
  CHECK(outcome.output == "said before\n");
}

TEST_CASE("bad_configuration_value_is_an_error_that_names_it") {
  const std::vector<std::pair<std::string, std::string>> bad{
      {"GSHMEM_SYMMETRIC_SIZE", "12Q"}, {"GSHMEM_SYMMETRIC_SIZE", "-1"},
      {"GSHMEM_TIMEOUT", "abc"},        {"GSHMEM_BOOTSTRAP_TIMEOUT", "-3"},
      {"GSHMEM_DEVICE", "tpu"},         {"GSHMEM_BOOTSTRAP", "smoke"},
      {"GSHMEM_P2P", "perhaps"},        {"GSHMEM_MAX_PES_PER_GPU", "0"},
      {"GSHMEM_FAULT", "maybe"},        {"GSHMEM_LOG", "loud"},
      {"GSHMEM_UID_RANK", "1x"}};
  for (const auto& [name, value] : bad) {
    expect_status(init_with({{name, value}}), GSHMEMX_ERROR_CONFIG, {name, value, "expected"});
    const Outcome ended = in_child(quick({{name, value}, {"GSHMEM_FAULT", "abort"}}), [] {
      gshmem_init();
      std::puts("still here");
    });
    INFO(ended.output);
    CHECK(ended.code == 1);
    CHECK(contains(ended.output, name));
    CHECK_FALSE(contains(ended.output, "still here"));
  }
}

TEST_CASE("uninitialized_attr_is_read_as_the_flags_say_with_a_warning") {
  for (const bool good : {false, true}) {
    const Outcome outcome = in_child(quick({{"GSHMEM_LOG", "info"}}), [=] {
      gshmemx_init_attr_t attr = GSHMEMX_INIT_ATTR_INITIALIZER;
      attr.args.symmetric_size = 8 << 20;
      if (!good) attr.version = 7;
      std::printf("status %d\n", gshmemx_init_attr(GSHMEMX_INIT_DEFAULT, &attr));
      gshmem_finalize();
    });
    INFO(outcome.output);
    CHECK(outcome.code == 0);
    CHECK(contains(outcome.output, "status 0\n"));
    const std::size_t heap = outcome.output.find("heap of ");
    REQUIRE(heap != std::string::npos);
    // Memory is in pages of 2 MiB, and the program may use the rest of the last one.
    CHECK((std::strtoull(outcome.output.c_str() + heap + 8, nullptr, 10) >= 8 << 20) == good);
    CHECK(contains(outcome.output,
                   "INFO: gshmemx_init_attr: attr is not initialized, using only what flags = 0 "
                   "names\n") == !good);
  }
}

TEST_CASE("failed_init_under_report_can_be_followed_by_a_good_one") {
  const Outcome outcome = in_child(quick({{"GSHMEM_SYMMETRIC_SIZE", "x"}}), [] {
    gshmem_init();
    std::printf("state %d\n", gshmemx_init_status());
    print_fault();
    setenv("GSHMEM_SYMMETRIC_SIZE", "1M", 1);
    gshmem_init();
    std::printf("state %d, fault %d\n", gshmemx_init_status(), gshmemx_last_fault(nullptr));
    gshmem_finalize();
  });
  INFO(outcome.output);
  CHECK(outcome.code == 0);
  CHECK(contains(outcome.output, "state 0\nfault 10"));
  CHECK(contains(outcome.output, "state 2, fault 0"));
}

TEST_CASE("file_of_the_log_that_cannot_be_written_is_named_by_the_variable_that_the_user_has_set") {
  const std::string file = "/no/such/folder/log";
  expect_status(init_with({{"GSHMEM_LOG_FILE", file}}), GSHMEMX_ERROR_CONFIG,
                {"GSHMEM_LOG_FILE=\"" + file + "\": ", "No such file or directory"});
  // NVSHMEM goes on without it.
  const Outcome outcome = init_with({{"NVSHMEM_DEBUG_FILE", file}});
  INFO(outcome.output);
  CHECK(contains(outcome.output, "status 0\n"));
  CHECK(contains(outcome.output, file + "): No such file or directory; messages go to stderr"));
  CHECK(contains(outcome.output, "(GSHMEM_LOG_FILE is set by NVSHMEM_DEBUG_FILE)"));
}

TEST_CASE("a_second_init_that_asks_for_another_gpu_fails_and_names_both") {
  require_gpu();
  const Outcome outcome = in_child(quick({{"GSHMEM_DEVICE", "cuda"}}), [] {
    gshmemx_init_attr_t attr = GSHMEMX_INIT_ATTR_INITIALIZER;
    for (const int gpu : {0, 7}) {
      attr.args.cuda_device_id = gpu;
      std::printf("status %d\n", gshmemx_init_attr(GSHMEMX_INIT_DEFAULT, &attr));
    }
  });
  INFO(outcome.output);
  CHECK(contains(outcome.output, "status 0\n"));
  CHECK(contains(outcome.output, "status " + std::to_string(GSHMEMX_ERROR_INVALID_VALUE)));
  CHECK(contains(outcome.output, "this PE has GPU 0, and a second init asks for GPU 7"));
}

TEST_CASE("part_of_the_program_with_other_headers_fails_init_while_it_is_loaded") {
  const Outcome outcome = in_child(quick(), [] {
    gshmemi_unit unit{[](const void*, unsigned long) { return 0; }, sizeof(abi::DeviceState),
                      abi::kStateAbi};
    std::string seen;
    const auto init = [&seen] {
      const int status = gshmem_init_thread(GSHMEM_THREAD_SINGLE, nullptr);
      seen += " " + std::string(gshmemx_status_string(status));
      if (status == GSHMEMX_SUCCESS) gshmem_finalize();
    };
    gshmemi_register_unit(&unit);
    init();
    unit.state_bytes += 8;
    init();
    unit.state_bytes -= 8;
    ++unit.abi;
    init();
    gshmemi_unregister_unit(&unit);
    init();
    std::printf("seen:%s\n", seen.c_str());
  });
  INFO(outcome.output);
  CHECK(outcome.code == 0);
  CHECK(contains(outcome.output, "seen: success not supported not supported success\n"));
  CHECK(contains(outcome.output,
                 "a part of this program was compiled with headers of another gshmem"));
}

TEST_CASE("init_that_fails_on_another_pe_leaves_no_state_to_the_kernels") {
  const auto outcomes = in_children(2, quick(), [](int rank) {
    if (!kSanitized) (void)::mallopt(M_PERTURB, 0x55);  // freed memory is overwritten
    const auto upload = [](const void*, unsigned long) { return 0; };
    gshmemi_unit unit{upload, sizeof(abi::DeviceState), abi::kStateAbi}, later = unit;
    if (rank == 1) unit.state_bytes += 8;
    gshmemi_register_unit(&unit);
    std::printf("status %d\n", gshmemx_init_attr(GSHMEMX_INIT_DEFAULT, nullptr));
    print_fault();
    gshmemi_register_unit(&later);
    for (const gshmemi_unit* each : {&unit, &later}) gshmemi_unregister_unit(each);
  });
  for (const Outcome& outcome : outcomes)
    expect_status(outcome, GSHMEMX_ERROR_NOT_SUPPORTED, {"compiled with headers of another"});
}

TEST_CASE("failed_init_follows_the_policy_in_any_spelling") {
  const Outcome outcome =
      in_child(quick({{"GSHMEM_SYMMETRIC_SIZE", "x"}, {"GSHMEM_FAULT", "Report"}}), [] {
        gshmem_init();
        std::puts("still here");
      });
  INFO(outcome.output);
  CHECK(outcome.code == 0);
  CHECK(contains(outcome.output, "still here"));
}

TEST_CASE("unknown_variable_is_a_warning_with_the_nearest_name") {
  const Outcome outcome = in_child(quick({{"GSHMEM_SYMETRIC_SIZE", "1M"}}), [] { Runtime(); });
  CHECK(outcome.code == 0);
  CHECK(contains(outcome.output, "did you mean GSHMEM_SYMMETRIC_SIZE"));
}

TEST_CASE("heap_larger_than_the_machine_is_an_error") {
  for (const std::string size : {"500T", "16000000T"}) {
    expect_status(
        init_with({{"GSHMEM_SYMMETRIC_SIZE", size}}), GSHMEMX_ERROR_OUT_OF_MEMORY,
        {"symmetric heap of", size == "500T" ? "GSHMEM_SYMMETRIC_SIZE" : "address space"});
    expect_status(init_with({{"GSHMEM_REGISTERED_SIZE", size}}), GSHMEMX_ERROR_OUT_OF_MEMORY,
                  {"GSHMEM_REGISTERED_SIZE=", "a process has 128T of addresses"});
  }
  expect_status(init_with({{"GSHMEM_REGISTERED_SIZE", "128T"}}), GSHMEMX_ERROR_OUT_OF_MEMORY,
                {"GSHMEM_REGISTERED_SIZE=140737488355328: a process has 128T of addresses"});
}

TEST_CASE("queues_without_free_addresses_are_an_error_that_says_so") {
  if (kUnderAsan || kUnderTsan) skip("sanitizers need address space without limit");
  const Outcome outcome =
      in_child(quick({{"GSHMEM_P2P", "0"},
                      {"GSHMEM_NIC", "soft"},
                      {"GSHMEM_QPS_PER_PE", "64"},
                      {"GSHMEM_QP_DEPTH", "32768"}}),
               [] {
                 limit_addresses(500u << 20);  // two times 128 queues of 2 MiB do not fit
                 run_threads(2, [](const Runtime&) {});
               });
  INFO(outcome.output);
  CHECK(outcome.code == 3);
  CHECK(contains(outcome.output, " bytes of host memory for work queues\n"));
}

TEST_CASE("no_path_to_any_pe_is_an_error_that_says_what_to_change") {
  expect_status(init_with({{"GSHMEM_P2P", "0"}, {"GSHMEM_NIC", "none"}}),
                GSHMEMX_ERROR_NOT_SUPPORTED,
                {"GSHMEM_P2P=0 and GSHMEM_NIC=none", "unset GSHMEM_P2P"});
}

TEST_CASE("a_pe_without_a_path_is_named_if_there_is_no_nic") {
  const auto outcomes =
      in_children(2, quick({{"GSHMEM_P2P_GROUP", "1"}, {"GSHMEM_NIC", "none"}}), [](int) {
        std::printf("status %d\n", gshmemx_init_attr(GSHMEMX_INIT_DEFAULT, nullptr));
        print_fault();
      });
  for (std::size_t pe = 0; pe < 2; ++pe) {
    expect_status(outcomes[pe], GSHMEMX_ERROR_NOT_SUPPORTED,
                  {"-1 GSHMEM_NIC=none leaves no path but load/store; ",
                   ": PE " + std::to_string(1 - pe) + " ("});
  }
}

TEST_CASE("a_network_for_atomics_only_may_be_missing_unless_requested") {
  if (std::filesystem::exists("/sys/class/infiniband")) skip("this machine may have a NIC");
  // With GSHMEM_P2P=0 there is no other path.
  for (const auto& [nic, p2p] : {std::pair{"ofi", "1"}, {"auto", "1"}, {"auto", "0"}}) {
    const bool may_lack = nic == std::string("auto") && p2p == std::string("1");
    const auto outcomes = in_children(2,
                                      quick({{"GSHMEM_NIC", nic},
                                             {"GSHMEM_P2P", p2p},
                                             {"GSHMEM_OFI_PROVIDER", "none77"},
                                             {"GSHMEM_TEST_NO_NATIVE_ATOMICS", "1"}}),
                                      [](int) {
                                        std::printf("status %d\n", gshmemx_init_attr(0, nullptr));
                                        print_fault();
                                        if (gshmemx_pe_handle()) gshmem_finalize();
                                      });
    for (std::size_t pe = 0; pe < 2; ++pe) {
      const std::string& output = outcomes[pe].output;
      INFO(nic << ", P2P " << p2p << ", PE " << pe << ": " << output);
      CHECK(contains(output, "status 0\n") == may_lack);
      CHECK(contains(output, "WARN: GPUs of this job map each other without native atomics") ==
            (may_lack && pe == 0));
    }
  }
}

TEST_CASE("links_of_which_nothing_says_whether_they_have_atomics_are_a_warning_of_pe_0") {
  if (kUnderTsan) skip("TSan does not see what orders two processes");
  const auto outcomes = in_children(
      2, quick({{"GSHMEM_NIC", "soft"}, {"GSHMEM_TEST_NO_NATIVE_ATOMICS", "unknown"}}), [](int) {
        const Runtime runtime;
        SymmetricArray<std::uint64_t> word(1);
        gshmem_uint64_atomic_inc(word.data(), 1 - runtime.my_pe());
        gshmem_barrier_all();
        std::printf("word %lu\n", gshmem_uint64_g(word.data(), runtime.my_pe()));
      });
  for (std::size_t pe = 0; pe < 2; ++pe) {
    const std::string& output = outcomes[pe].output;
    INFO("PE " << pe << ": " << output);
    CHECK(contains(output, "word 1\n"));
    CHECK(contains(output,
                   "WARN: GPUs of this job map each other by links of which neither CUDA "
                   "nor NVML says whether they have native atomics") == (pe == 0));
  }
}

TEST_CASE("different_settings_on_two_pes_are_an_error_on_all") {
  struct Case {
    const char *variable, *value, *message;
  };
  for (const Case& one :
       {Case{"GSHMEM_P2P", "0", "GSHMEM_P2P is 1 on PE 0 and 0 on PE 1"},
        {"GSHMEM_P2P_GROUP", "2", "GSHMEM_P2P_GROUP is 0 on PE 0 and 2 on PE 1"},
        {"GSHMEM_FABRIC", "off", "GSHMEM_FABRIC is auto on PE 0 and off on PE 1"},
        {"GSHMEM_NIC", "ofi", "GSHMEM_NIC is auto on PE 0 and ofi on PE 1"},
        {"GSHMEM_QPS_PER_PE", "3", "GSHMEM_QPS_PER_PE is 0 on PE 0 and 3 on PE 1"},
        {"GSHMEM_CONTEXTS", "1", "GSHMEM_CONTEXTS is 0 on PE 0 and 1 on PE 1"},
        {"GSHMEM_TEAMS", "4", "GSHMEM_TEAMS is 128 on PE 0 and 4 on PE 1"},
        {"GSHMEM_SYMMETRIC_SIZE", "3M", " on PE 0 and 3145728 bytes (3 MiB) on PE 1"}}) {
    const auto outcomes = in_children(2, quick(), [&](int rank) {
      if (rank == 1) setenv(one.variable, one.value, 1);
      std::printf("status %d\n", gshmemx_init_attr(GSHMEMX_INIT_DEFAULT, nullptr));
      print_fault();
    });
    for (const Outcome& outcome : outcomes)
      expect_status(outcome, GSHMEMX_ERROR_SYMMETRY, {one.message});
  }
}

TEST_CASE("pmix_without_a_server_is_an_error") {
  const Outcome outcome = in_child(quick({{"GSHMEM_BOOTSTRAP", "pmix"}}), [] {
    for (const char* name : {"PMIX_RANK", "PMIX_NAMESPACE", "PMIX_SERVER_URI2"}) unsetenv(name);
    const int status = gshmemx_init_attr(GSHMEMX_INIT_DEFAULT, nullptr);
    std::printf("status %d\n", status);
    print_fault();
  });
  INFO(outcome.output);
  CHECK(outcome.code == 0);
  CHECK((contains(outcome.output, "status 9\n") || contains(outcome.output, "status 3\n")));
  CHECK(contains(outcome.output, "PMIx"));
}

TEST_CASE("cuda_mode_without_a_gpu_is_an_error") {
  const Outcome outcome = init_with({{"GSHMEM_DEVICE", "cuda"}});
  if (contains(outcome.output, "status 0\n")) skip("this machine has a GPU");
  const char* reason = "has no GPU support";
  for (const char* of_a_driver : {"libcuda.so.1", "CUDA driver"})
    if (contains(outcome.output, of_a_driver)) reason = of_a_driver;
  expect_status(outcome, GSHMEMX_ERROR_NOT_SUPPORTED, {"GSHMEM_DEVICE=cuda: ", reason});
}

TEST_CASE("pes_in_different_modes_or_with_a_failed_init_are_an_error_on_all") {
  const auto outcomes = in_children(3, quick(), [](int rank) {
    if (rank == 1) setenv("GSHMEM_DEVICE", "cuda", 1);
    std::printf("status %d\n", gshmemx_init_attr(GSHMEMX_INIT_DEFAULT, nullptr));
    print_fault();
  });
  for (const int rank : {0, 1, 2}) {
    const Outcome& outcome = outcomes[static_cast<std::size_t>(rank)];
    INFO(outcome.output);
    CHECK(outcome.code == 0);
    CHECK_FALSE(contains(outcome.output, "status 0\n"));
    CHECK(contains(outcome.output, "GSHMEM_DEVICE"));
    if (rank != 1) CHECK(contains(outcome.output, "PE 1"));
  }
}

TEST_CASE("heap_larger_than_the_gpu_is_an_error", "[gpu]") {
  require_gpu();
  const Environment environment{{"GSHMEM_DEVICE", "cuda"}, {"GSHMEM_SYMMETRIC_SIZE", "1T"}};
  expect_status(init_with(environment), GSHMEMX_ERROR_OUT_OF_MEMORY,
                {"symmetric heap of 10995",  // including the library's own part
                 "does not fit on the GPU (", "lower GSHMEM_SYMMETRIC_SIZE"});
}

TEST_CASE("more_pes_than_gpus_without_permission_is_an_error", "[gpu]") {
  require_gpu();
  const Outcome outcome =
      in_child(quick({{"GSHMEM_DEVICE", "cuda"}, {"CUDA_VISIBLE_DEVICES", "0"}}),
               [] { run_threads(2, [](const Runtime&) {}); });
  INFO(outcome.output);
  CHECK(outcome.code == 3);
  CHECK(contains(outcome.output, "2 PEs share GPU 0"));
  CHECK(contains(outcome.output, "GSHMEM_MAX_PES_PER_GPU=2"));
}

TEST_CASE("atomics_that_neither_link_nor_network_has_are_an_error") {
  const auto calls = GENERATE(
      +[](std::uint64_t* word, int pe) { gshmem_uint64_atomic_inc(word, pe); },
      +[](std::uint64_t* word, int pe) { (void)gshmem_uint64_atomic_fetch(word, pe); },
      +[](std::uint64_t* word, int pe) { gshmemx_signal_op(word, 1, GSHMEM_SIGNAL_ADD, pe); });
  const auto faults =
      faults_after(2, quick({{"GSHMEM_NIC", "none"}, {"GSHMEM_TEST_NO_NATIVE_ATOMICS", "1"}}),
                   [&](const Runtime& runtime) {
                     SymmetricArray<std::uint64_t> word(1);
                     const int other = 1 - runtime.my_pe();
                     gshmem_uint64_p(word.data(), 5, other);
                     gshmem_barrier_all();
                     if (gshmem_uint64_g(word.data(), other) == 5) calls(word.data(), other);
                   });
  for (const int pe : {0, 1}) {
    const gshmemx_fault_t& fault = faults[static_cast<std::size_t>(pe)];
    INFO(fault.message);
    CHECK(fault.code == GSHMEMX_ERROR_NOT_SUPPORTED);
    CHECK(fault.pe == 1 - pe);
    CHECK(contains(fault.message, "map each other by a link without native atomics"));
    CHECK(contains(fault.message, "GSHMEM_NIC"));
  }
}

TEST_CASE("signals_are_set_by_stores_if_neither_link_nor_network_has_atomics") {
  const auto faults =
      faults_after(2, quick({{"GSHMEM_NIC", "none"}, {"GSHMEM_TEST_NO_NATIVE_ATOMICS", "1"}}),
                   [&](const Runtime& runtime) {
                     SymmetricArray<std::uint64_t> word(2);
                     const int other = 1 - runtime.my_pe();
                     const std::uint64_t payload = 7;
                     gshmem_uint64_put_signal(word.data(), &payload, 1, word.data() + 1, 5,
                                              GSHMEM_SIGNAL_SET, other);
                     // The other PE may be ahead.
                     gshmem_signal_wait_until(word.data() + 1, GSHMEM_CMP_GE, 5);
                     gshmemx_signal_op(word.data() + 1, 6, GSHMEM_SIGNAL_SET, other);
                     gshmem_signal_wait_until(word.data() + 1, GSHMEM_CMP_EQ, 6);
                   });
  for (const gshmemx_fault_t& fault : faults) {
    INFO(fault.message);
    CHECK(fault.code == GSHMEMX_SUCCESS);
  }
}

TEST_CASE("pe_that_never_comes_is_a_timeout_of_init") {
  const Outcome outcome = init_with({{"GSHMEM_BOOTSTRAP", "uid"},
                                     {"GSHMEM_BOOTSTRAP_TIMEOUT", "0.5"},
                                     {"GSHMEM_UID_ADDRESS", free_address()},
                                     {"GSHMEM_UID_RANK", "0"},
                                     {"GSHMEM_UID_SIZE", "2"}});
  INFO(outcome.output);
  CHECK(outcome.code == 0);
  CHECK(contains(outcome.output, "status 11\n"));
  CHECK(contains(outcome.output, "fault 11 "));
}

TEST_CASE("finalize_leaves_no_memory_descriptor_or_thread_behind") {
  const Outcome outcome = in_child(quick(), [] {
    const auto count = [](const char* folder) {
      long n = 0;
      for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator(folder)) ++n;
      return n;
    };
    // Objects that are made only once exist now.
    run_threads(3, [](const Runtime&) { gshmem_barrier_all(); });
    const long descriptors = count("/proc/self/fd"), threads = count("/proc/self/task");
    for (int i = 0; i < 5; ++i) run_threads(3, [](const Runtime&) { gshmem_barrier_all(); });
    {
      const Runtime runtime;
      launch({.blocks = 2, .threads = 4}, [](const LaunchContext&) {});
    }
    std::printf("descriptors %ld threads %ld\n", count("/proc/self/fd") - descriptors,
                count("/proc/self/task") - threads);
    std::ifstream maps("/proc/self/maps");
    for (std::string line; std::getline(maps, line);) {
      if (contains(line, "gshmem-")) std::puts(line.c_str());
    }
  });
  INFO(outcome.output);
  CHECK(outcome.code == 0);
  CHECK(contains(outcome.output, "descriptors 0 threads 0\n"));
  CHECK_FALSE(contains(outcome.output, "memfd:gshmem"));
}
