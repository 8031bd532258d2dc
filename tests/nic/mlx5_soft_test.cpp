// Tests the mlx5 transport end to end on the soft NIC's libibverbs and libmlx5; PEs are threads.
#include "bootstrap/bootstrap.h"
#include "tests/nic/mlx5_pe.h"
#include "tests/nic/soft_findings.h"
#include "tests/capture.h"
#include "transport/nic/mlx5/mlx5.h"
#include "transport/nic/mlx5/verbs_api.h"

#include <catch2/catch.hpp>

#include <dlfcn.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <filesystem>
#include <functional>
#include <numeric>
#include <thread>

namespace gshmem::nic {

/// Stands for the libfabric transport; no test here chooses it.
std::unique_ptr<Nic> open_ofi(const OpenOptions&) {
  throw Error(GSHMEMX_ERROR_NOT_SUPPORTED, "no libfabric in this test");
}

namespace {

// Set before the libraries read it: PEs alternate between two cards with different ports. A third
// card is on RoCE.
[[maybe_unused]] const bool is_set =
    (setenv("GSHNIC_DEVICES", "3", 1), setenv("GSHNIC_PROFILE", "mtu=1024;mtu=4096;roce", 1), true);

Config on(const char* devices) {
  return Config::from(
      [](const char* name, void* value) -> const char* {
        return std::strcmp(name, "GSHMEM_NIC_DEVICES") == 0 ? static_cast<const char*>(value)
                                                            : nullptr;
      },
      const_cast<char*>(devices));
}

const Config& config(std::size_t pe = 0) {
  static const Config values[] = {on("=mlx5_0"), on("=mlx5_1")};
  return values[pe % 2];
}

/// Runs `body` per PE, each on a thread; rethrows the first exception when all have ended.
void run_pes(int count, const std::function<void(TestPe&, bootstrap::Bootstrap&)>& body,
             const std::function<const Config&(std::size_t pe)>& config_of = config) {
  auto boots = bootstrap::create_threads(count, 60);
  std::vector<std::exception_ptr> errors(boots.size());
  std::vector<std::thread> threads;
  for (std::size_t i = 0; i < boots.size(); ++i) {
    threads.emplace_back([&, i] {
      try {
        TestPe pe(config_of(i), *boots[i]);
        body(pe, *boots[i]);
        boots[i]->barrier();
        pe.nic().stop();
      } catch (const std::exception& error) {
        boots[i].reset();
        errors[i] = std::current_exception();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const std::exception_ptr& error : errors) {
    if (error) std::rethrow_exception(error);
  }
  CHECK(test::soft_nic_findings() == 0);
}

/// The macros of Catch2 work in one thread only.
void check(bool ok, const char* what) { require(ok, GSHMEMX_ERROR_INTERNAL, what); }

std::uint64_t word(const TestPe& pe, std::size_t at) {
  std::uint64_t value = 0;
  std::memcpy(&value, pe.heap() + at, sizeof(value));
  return value;
}

}  // namespace

TEST_CASE("writes_and_reads_reach_the_other_pe_and_itself") {
  for (const int pes : {1, 2, 3}) {
    run_pes(pes, [](TestPe& pe, bootstrap::Bootstrap& boot) {
      const int me = boot.rank(), n = boot.size();
      std::memset(pe.heap(), 'a' + me, 4000);
      for (int to = 0; to < n; ++to) {
        const auto at = static_cast<std::uint64_t>(8192 + me * 4096);
        check(!pe.write(to, me % 2, 0, at, 4000), "write failed");
      }
      boot.barrier();
      for (int from = 0; from < n; ++from) {
        const char* got = pe.heap() + 8192 + from * 4096;
        check(std::all_of(got, got + 4000, [&](char c) { return c == 'a' + from; }),
              "written bytes differ");
        check(got[4000] == 0, "a write went too far");
      }
      boot.barrier();
      const int left = (me + n - 1) % n;
      check(!pe.read(left, 1, 32768, 1, 3333), "read failed");
      const char* got = pe.heap() + 32768;
      check(std::all_of(got, got + 3333, [&](char c) { return c == 'a' + left; }),
            "read bytes differ");
    });
  }
}

TEST_CASE("many_entries_go_around_the_ring") {
  run_pes(2, [](TestPe& pe, bootstrap::Bootstrap& boot) {
    const int other = 1 - boot.rank();
    for (std::uint64_t i = 0; i < 300; ++i) {
      std::memcpy(pe.heap(), &i, sizeof(i));
      check(!pe.write(other, 0, 0, 1024, 8), "write failed");
    }
    boot.barrier();
    check(word(pe, 1024) == 299, "the last write is not the one that is there");
  });
}

TEST_CASE("atomics_add_up_and_return_the_old_value") {
  run_pes(3, [](TestPe& pe, bootstrap::Bootstrap& boot) {
    std::vector<std::uint64_t> old;
    for (int i = 0; i < 50; ++i) {
      check(!pe.fetch_add(0, 1, 512, 3, 1024), "fetch_add failed");
      old.push_back(word(pe, 1024));
    }
    check(std::is_sorted(old.begin(), old.end()), "old values do not grow");
    check(old.back() % 3 == 0, "an old value is impossible");
    boot.barrier();
    if (boot.rank() == 0) check(word(pe, 512) == 3u * 50u * 3u, "the sum is wrong");
    boot.barrier();
    if (boot.rank() == 1) {
      check(!pe.compare_swap(0, 0, 512, 450, 7, 2048), "compare_swap failed");
      check(word(pe, 2048) == 450, "compare_swap returned something else");
      check(!pe.compare_swap(0, 0, 512, 450, 9, 2048), "compare_swap failed");
      check(word(pe, 2048) == 7, "compare_swap swapped what did not compare");
    }
  });
}

TEST_CASE("bad_key_is_a_completion_with_its_syndrome") {
  run_pes(2, [](TestPe& pe, bootstrap::Bootstrap& boot) {
    if (boot.rank() == 0) {
      const std::optional<Failure> failure = pe.write_with_bad_key(1);
      check(failure.has_value(), "a write with a bad key succeeded");
      check(failure->syndrome == static_cast<int>(abi::Syndrome::kRemoteAccess),
            "the syndrome is not that of a remote access error");
      // The other queue of the same pair of PEs still works.
      check(!pe.write(1, 1, 0, 0, 8), "an error of one queue broke another");
    }
  });
}

TEST_CASE("init_after_finalize_works") {
  for (int round = 0; round < 3; ++round) {
    run_pes(2, [](TestPe& pe, bootstrap::Bootstrap& boot) {
      check(!pe.write(1 - boot.rank(), 0, 0, 64, 64), "write failed");
    });
  }
}

TEST_CASE("pes_with_ports_on_several_networks_use_one") {
  const Config all = on("=mlx5_0,mlx5_2"), roce = on("=mlx5_2");
  test::StderrCapture capture;
  log_configure(LogLevel::kInfo, "");
  run_pes(
      2,
      [](TestPe& pe, bootstrap::Bootstrap& boot) {
        CHECK_THAT(pe.nic().describe(), Catch::Contains("mlx5_2 port 1 (Ethernet"));
        CHECK_FALSE(pe.write(1 - boot.rank(), 0, 0, 4096, 8));
        boot.barrier();
      },
      [&](std::size_t pe) -> const Config& { return pe == 0 ? all : roce; });
  log_configure(LogLevel::kWarn, "");
  std::size_t said = 0;  // by the PE that has another network, too
  for (const std::string& line : capture.writes())
    said += line.find("network: ports on Ethernet only, where all PEs have one") != line.npos;
  CHECK(said == 1);
}

TEST_CASE("pes_without_a_common_network_get_an_error_when_they_are_connected") {
  const Config ib = on("=mlx5_0"), roce = on("=mlx5_2");
  std::string text;
  try {
    run_pes(
        2, [](TestPe&, bootstrap::Bootstrap&) {},
        [&](std::size_t pe) -> const Config& { return pe == 0 ? ib : roce; });
  } catch (const std::exception& error) {
    text = error.what();
  }
  CHECK_THAT(text, Catch::Contains("PE 1 is on Ethernet, this PE's mlx5_0 port 1 (InfiniBand") &&
                       Catch::Contains("choose ports of one network by GSHMEM_NIC_DEVICES"));
}

TEST_CASE("wrong_device_name_is_an_error_on_all_pes") {
  const Config other = [] {
    return Config::from(
        [](const char* name, void*) -> const char* {
          return std::strcmp(name, "GSHMEM_NIC_DEVICES") == 0 ? "=mlx5_99" : nullptr;
        },
        nullptr);
  }();
  const auto boots = bootstrap::create_threads(2, 60);
  std::vector<std::string> texts(2);
  std::vector<std::thread> threads;
  for (std::size_t i = 0; i < 2; ++i) {
    threads.emplace_back([&, i] {
      try {
        const TestPe pe(i == 1 ? other : config(), *boots[i]);
      } catch (const Error& error) {
        texts[i] = error.what();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK_THAT(texts[0],
             Catch::StartsWith("init failed on PE 1: no RDMA device that gshmem can use"));
  CHECK_THAT(texts[1], Catch::Contains("=mlx5_99"));
}

TEST_CASE("queues_may_be_at_any_page_of_large_memory") {
  const auto boot = bootstrap::create_single();
  const NicList nics = open_soft({.config = config(), .boot = *boot, .node_root = true});
  // The length is a multiple of large pages, which the kernel uses if it may.
  const Pages memory(4 << 20);
  nics.front()->use_queue_memory({memory.data(), memory.size(), MemoryKind::kHost, -1});
  for (const std::uint64_t page : {1u, 100u, 1001u}) {
    const std::uint64_t at = page * 4096;
    CHECK_NOTHROW(nics.front()->create_queue({.entries = at,
                                              .completion = at + 4096,
                                              .record = at + 8192,
                                              .cq_record = at + 8200,
                                              .depth = 64}));
  }
  nics.front()->stop();
}

TEST_CASE("kind_of_nic_is_chosen_by_configuration") {
  const auto open_as = [](const char* kind) {
    static const char* now = nullptr;
    now = kind;
    const Config with = Config::from(
        [](const char* name, void*) -> const char* {
          return std::strcmp(name, "GSHMEM_NIC") == 0 ? now : nullptr;
        },
        nullptr);
    const auto boot = bootstrap::create_single();
    const NicList nics = open({.config = with, .boot = *boot});
    return std::string(nics.empty() ? "none" : nics.front()->name());
  };
  CHECK(open_as("none") == "none");
  CHECK(open_as("soft") == "mlx5");
  CHECK_THROWS_WITH(open_as("ofi"), "no libfabric in this test");
  // The soft NIC's libraries are in this process now, but must not be used as a ConnectX.
  test::StderrCapture log;
  CHECK_THROWS_WITH(open_as("auto"), "no libfabric in this test");
  CHECK(log.writes().empty());  // a missing NIC is not reported unless it is requested
  CHECK_THROWS_WITH(open_as("mlx5"), Catch::Contains("cannot load"));
}

TEST_CASE("soft_nic_is_usable_unless_the_heap_is_out_of_reach") {
  const auto boot = bootstrap::create_single();
  const Pages heap(1 << 16);
  OpenOptions options{.config = config(), .boot = *boot, .heap_kind = MemoryKind::kGpu};
  options.heap = {heap.data(), heap.size(), MemoryKind::kGpu, 0};
  CHECK(mlx5::usable(options, GSHNIC_FOLDER).why_not.empty());
  options.heap.bytes = 0;  // it cannot be registered
  const mlx5::Usable usable = mlx5::usable(options, GSHNIC_FOLDER);
  CHECK_THAT(usable.why_not, Catch::Contains("ibv_reg_mr_iova2"));
  CHECK(usable.has_device);
  CHECK_FALSE(mlx5::usable(options, "/nowhere").has_device);
}

TEST_CASE("an_available_nic_is_used_or_reported_unless_it_is_not_wanted") {
  // The loader finds them by the names of the system's libraries.
  for (const char* name : {"/libibverbs.so.1", "/libmlx5.so.1"})
    REQUIRE(dlopen((GSHNIC_FOLDER + std::string(name)).c_str(), RTLD_NOW | RTLD_LOCAL) != nullptr);
  try {
    (void)mlx5::VerbsApi::get("");
  } catch (const Error& error) {
    std::printf("skipped: %s\n", error.what());
    return;
  }
  const Pages heap(1 << 16);
  const auto boot = bootstrap::create_single();
  for (const char* gdr : {"auto", "off"}) {
    static const char* now = nullptr;
    now = gdr;
    const Config with = Config::from(
        [](const char* name, void*) -> const char* {
          if (std::strcmp(name, "GSHMEM_NIC") == 0) return "auto";
          return std::strcmp(name, "GSHMEM_GDR") == 0 ? now : nullptr;
        },
        nullptr);
    OpenOptions options{.config = with, .boot = *boot, .heap_kind = MemoryKind::kGpu};
    options.heap = {heap.data(), 0, MemoryKind::kGpu, 0};  // it cannot be registered
    test::StderrCapture log;
    CHECK_THROWS_WITH(open(options), "no libfabric in this test");
    const std::vector<std::string> lines = log.writes();
    REQUIRE(lines.size() == (now == std::string("auto") ? 1 : 0));
    if (!lines.empty())
      CHECK_THAT(lines[0], Catch::Contains("WARN: GSHMEM_NIC=auto: libfabric on all PEs, because "
                                           "PE 0 cannot use mlx5: "));
    // Every NIC can register a heap in host memory.
    options.heap_kind = options.heap.kind = MemoryKind::kHost;
    const NicList nics = open(options);
    REQUIRE(nics.size() == 1);
    CHECK(nics.front()->name() == std::string("mlx5"));
  }
}

TEST_CASE("soft_nic_refuses_a_second_host") {
  const auto boots = bootstrap::create_threads(2, 60);
  std::vector<std::string> texts(2);
  std::vector<std::thread> threads;
  for (std::size_t i = 0; i < 2; ++i) {
    threads.emplace_back([&, i] {
      try {
        const TestPe pe(config(), *boots[i], true);  // each the first PE of its host
      } catch (const Error& error) {
        texts[i] = error.what();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const std::string& text : texts) CHECK_THAT(text, Catch::Contains("this job has 2 hosts"));
}

TEST_CASE("the_systems_libraries_in_the_process_do_no_harm") {
  // MPI or NCCL may have loaded them before.
  try {
    (void)mlx5::VerbsApi::get("");
  } catch (const Error& error) {
    std::printf("skipped: %s\n", error.what());
    return;
  }
  run_pes(2, [](TestPe& pe, bootstrap::Bootstrap& boot) {
    check(!pe.write(1 - boot.rank(), 0, 0, 64, 64), "write failed");
  });
}

TEST_CASE("libraries_that_lack_a_call_are_refused_with_its_name") {
  char folder[] = "/tmp/gshmem_verbs_XXXXXX";
  REQUIRE(mkdtemp(folder) != nullptr);
  for (const char* name : {"libibverbs.so.1", "libmlx5.so.1"})  // names that another library has
    std::filesystem::create_symlink(GSHNIC_FOLDER "/libgshnic.so",
                                    std::filesystem::path(folder) / name);
  CHECK_THROWS_WITH(mlx5::VerbsApi::get(folder),
                    Catch::Contains("/libibverbs.so.1 has no ibv_") &&
                        Catch::Contains("@IBVERBS_") &&
                        Catch::EndsWith(": gshmem needs rdma-core 28 or newer"));
  std::filesystem::remove_all(folder);
}

}  // namespace gshmem::nic
