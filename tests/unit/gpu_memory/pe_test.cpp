// Tests whole PEs, as threads of this process, on GPUs of the double, without kernels: which peers
// fabric handles map, what init reports where they are missing, which GPU a launch uses, and which
// state of the application stays unchanged.
#include <gshmem/device/core/registrar.h>
#include <gshmem/gshmem.hpp>

#include "tests/spmd/bad_input/children.h"
#include "tests/capture.h"
#include "tests/unit/gpu_memory/four_gpus.h"

#include <catch2/catch.hpp>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <string>
#include <thread>
#include <vector>

using namespace gshmem;
using namespace gshmem::test;

namespace {

int current_gpu() {
  return cuda_library().function<test::CudaDoubleCurrent>("cuda_double_current")();
}
std::atomic<unsigned>& flags_of(int device) {
  return *cuda_library().function<test::CudaDoubleFlags>("cuda_double_flags")(device);
}
test::CudaDoubleCode& code_in_gpu() {
  return *cuda_library().function<test::CudaDoubleCodeInGpu>("cuda_double_code")();
}
void check_driver() {
  const std::lock_guard lock(cuda_double().mutex);
  CHECK(cuda_double().violations == std::vector<std::string>{});
}

/// A context of the application that is current in its scope.
struct OwnContext {
  explicit OwnContext(int device) {
    cuda_library().function<test::CudaDoubleEnter>("cuda_double_enter")(test::kCudaDoubleOwn +
                                                                        device);
  }
  ~OwnContext() { cuda_library().function<test::CudaDoubleLeave>("cuda_double_leave")(); }
  OwnContext(const OwnContext&) = delete;
};

/// Makes a job of one PE, with the variables of four_gpus.
Runtime one_pe(int device = 2) {
  gshmemx_init_attr_t attr = GSHMEMX_INIT_ATTR_INITIALIZER;
  attr.args.cuda_device_id = device;
  return Runtime(GSHMEMX_INIT_DEFAULT, attr);
}
const std::map<std::string, std::string> kAlone{{"GSHMEM_BOOTSTRAP", "single"},
                                                {"GSHMEM_P2P_GROUP", "0"}};
std::string error_of_one_pe(int device = 2) {
  try {
    const Runtime runtime = one_pe(device);
  } catch (const std::exception& error) {
    return error.what();
  }
  return "no error";
}

/// A translation unit with kernels, which the library registers as a part of the program.
struct Unit {
  explicit Unit(int (*upload)(const void*, unsigned long)) : unit{upload, kBytes, abi::kStateAbi} {}
  ~Unit() { gshmemi_unregister_unit(&unit); }
  Unit(const Unit&) = delete;
  static constexpr unsigned long kBytes = sizeof(abi::DeviceState);
  gshmemi_unit unit;
};
std::vector<std::uint32_t> uploaded;  ///< magic numbers
int note_upload(const void* state, unsigned long) {
  uploaded.push_back(static_cast<const abi::DeviceState*>(state)->magic);
  return 0;
}

std::string error_of_init() {
  try {
    run_threads(4, [](const Runtime&) {});
  } catch (const std::exception& error) {
    CHECK(heaps().clean());
    return error.what();
  }
  return "no error";
}

}  // namespace

TEST_CASE("pes_reach_all_others_by_descriptors_and_fabric_handles") {
  four_gpus({{"GSHMEM_FABRIC", "on"}});
  std::atomic<int> wrong{0};
  run_threads(4, [&](const Runtime& runtime) {
    const int me = runtime.my_pe();
    SymmetricArray<int> words(4);
    const auto count = [&](bool right) { wrong += right ? 0 : 1; };
    count(runtime.on_gpu());
    count(gshmem_team_n_pes(GSHMEM_TEAM_SHARED) == 4 &&
          gshmem_team_my_pe(GSHMEM_TEAM_SHARED) == me);
    count(gshmem_team_n_pes(GSHMEMX_TEAM_NODE) == 4);
    for (int pe = 0; pe < 4; ++pe) {
      count(gshmem_ptr(words.data(), pe) != nullptr);
      const int value = 10 * me + pe;
      gshmem_int_put(words.data() + me, &value, 1, pe);
    }
    gshmem_barrier_all();
    for (int pe = 0; pe < 4; ++pe) {
      const std::vector<int> theirs = words.to_vector(pe);
      for (int from = 0; from < 4; ++from)
        count(theirs[static_cast<std::size_t>(from)] == 10 * from + pe);
    }
    gshmem_barrier_all();
  });
  CHECK(wrong == 0);
  CHECK(heaps().with_fabric == 4);
  CHECK(heaps().fd_imports == 8);
  CHECK(heaps().fabric_imports == 8);
  CHECK(heaps().clean());
}

TEST_CASE("without_a_fabric_the_groups_need_a_network") {
  four_gpus({});
  const std::string error = error_of_init();
  CHECK_THAT(error, Catch::Contains("cannot be accessed by load/store: GSHMEM_P2P_GROUP puts it "
                                    "into another group, and PE "));
  // NVML is missing, or does not know the GPUs of the double.
  CHECK_THAT(error, Catch::Contains(" has no fabric handle: "));
  CHECK_THAT(error, Catch::Contains("GSHMEM_NIC=none leaves no path but load/store; unset it"));
  CHECK(heaps().with_fabric == 0);
  four_gpus({{"GSHMEM_FABRIC", "off"}});
  CHECK_THAT(error_of_init(),
             Catch::Contains(
                 "cannot be accessed by load/store: GSHMEM_P2P_GROUP puts it into another group"));
}

TEST_CASE("doorbell_pages_are_unregistered_before_the_nic_frees_them") {
  four_gpus({{"GSHMEM_NIC", "soft"}, {"GSHMEM_P2P_GROUP", "0"}, {"GSHMEM_P2P", "off"}});
  CHECK(error_of_init() == "no error");
  CHECK(heaps().ever_registered > 0);
  CHECK(heaps().clean());
  for (const std::string& violation : heaps().violations) FAIL_CHECK(violation);
}

TEST_CASE("finalize_completes_the_queues_of_contexts_by_kernels_that_do_not_trap") {
  four_gpus({{"GSHMEM_NIC", "soft"},
             {"GSHMEM_P2P_GROUP", "0"},
             {"GSHMEM_P2P", "off"},
             {"GSHMEM_CONTEXTS", "1"}});
  run_threads(4, [](const Runtime&) {
    gshmem_ctx_t context{};
    if (gshmem_ctx_create(0, &context) != 0) throw std::runtime_error("gshmem_ctx_create");
  });
  unsetenv("GSHMEM_CONTEXTS");
  const auto launches = [](device::CallKind kind) {
    const auto& all = heaps().in_streams;
    return std::count_if(all.begin(), all.end(), [&](const test::InStream& made) {
      return made.is_launch && made.request.call.kind == kind;
    });
  };
  // Each PE waits for its own queues, then for those of its context.
  CHECK(launches(device::CallKind::kQuietStatus) == 12);
  CHECK(launches(device::CallKind::kQuiet) == 0);
}

TEST_CASE("module_or_library_without_a_state_of_gshmem_is_an_error_that_names_it") {
  four_gpus(kAlone);
  const Runtime runtime = one_pe();
  auto* const module = reinterpret_cast<CUmod_st*>(0x40);
  auto* const library = reinterpret_cast<CUlib_st*>(0x40);
  test::StderrCapture log;
  CHECK(gshmemx_cumodule_init(module) == GSHMEMX_ERROR_INVALID_VALUE);
  CHECK(gshmemx_cumodule_finalize(module) == GSHMEMX_ERROR_INVALID_VALUE);
  CHECK(gshmemx_culibrary_init(library) == GSHMEMX_ERROR_INVALID_VALUE);
  CHECK(gshmemx_culibrary_finalize(library) == GSHMEMX_ERROR_INVALID_VALUE);
  const std::string said = log.text();
  for (const char* text : {"gshmemx_cumodule_init: argument module has no device state of gshmem; "
                           "does its code include <gshmem/gshmem.h>, or link the device library?",
                           "gshmemx_cumodule_finalize: argument module has no device state",
                           "gshmemx_culibrary_init: argument library has no device state",
                           "gshmemx_culibrary_finalize: argument library has no device state"})
    CHECK_THAT(said, Catch::Contains(text));
}

TEST_CASE("kernels_of_a_module_or_library_know_a_pe_from_its_init_to_its_finalize") {
  four_gpus(kAlone);
  const Runtime runtime = one_pe();
  auto* const module = reinterpret_cast<CUmod_st*>(test::kCudaDoubleCode);
  auto* const library = reinterpret_cast<CUlib_st*>(test::kCudaDoubleCode);
  const auto known = [] {
    abi::DeviceState state;
    std::memcpy(static_cast<void*>(&state), &code_in_gpu().symbol, sizeof(state));
    return state;
  };
  CHECK(gshmemx_cumodule_init(module) == GSHMEMX_SUCCESS);
  CHECK(known().magic == abi::kStateMagic);
  CHECK(gshmemx_cumodule_finalize(module) == GSHMEMX_SUCCESS);
  CHECK(known().magic == 0);
  CHECK(gshmemx_culibrary_init(library) == GSHMEMX_SUCCESS);
  CHECK(known().magic == abi::kStateMagic);
  CHECK(gshmemx_culibrary_finalize(library) == GSHMEMX_SUCCESS);
  CHECK(known().magic == 0);
}

TEST_CASE("module_or_library_of_another_version_is_refused_and_keeps_its_state") {
  four_gpus(kAlone);
  const Runtime runtime = one_pe();
  auto* const module = reinterpret_cast<CUmod_st*>(test::kCudaDoubleCode);
  auto* const library = reinterpret_cast<CUlib_st*>(test::kCudaDoubleCode);
  test::CudaDoubleCode& code = code_in_gpu();
  struct Version {
    std::size_t bytes;
    std::uint64_t number;
  };
  constexpr std::size_t kBytes = sizeof(abi::StateSymbol);
  // The second is of the time before modules had a number.
  for (const auto& [bytes, number] :
       {Version{kBytes, abi::kStateAbi - 1}, Version{kBytes - 8, 0},
        Version{kBytes, abi::kStateAbi + 1}, Version{kBytes + 16, abi::kStateAbi + 1},
        Version{kBytes - 16, abi::kStateAbi}}) {
    code = {};
    code.symbol.abi = 0;
    code.bytes = bytes;
    std::memcpy(reinterpret_cast<char*>(&code) + bytes - 8, &number, 8);
    const test::CudaDoubleCode before = code;
    test::StderrCapture log;
    CHECK(gshmemx_cumodule_init(module) == GSHMEMX_ERROR_NOT_SUPPORTED);
    CHECK(gshmemx_cumodule_finalize(module) == GSHMEMX_ERROR_NOT_SUPPORTED);
    CHECK(gshmemx_culibrary_init(library) == GSHMEMX_ERROR_NOT_SUPPORTED);
    CHECK(gshmemx_culibrary_finalize(library) == GSHMEMX_ERROR_NOT_SUPPORTED);
    CHECK(std::memcmp(&code, &before, sizeof(code)) == 0);
    const std::string said = log.text();
    const std::string versions =
        " was compiled with headers, or the device library, of another gshmem "
        "(device state of " +
        std::to_string(bytes) + " bytes, number " + std::to_string(number) +
        "; this library's has " + std::to_string(kBytes) + ", number " +
        std::to_string(abi::kStateAbi) + "); compile it again with this one's";
    CHECK_THAT(said, Catch::Contains("gshmemx_cumodule_init: argument module" + versions));
    CHECK_THAT(said, Catch::Contains("gshmemx_culibrary_init: argument library" + versions));
  }
  code = {};
}

TEST_CASE("pes_of_different_processes_share_a_gpu_through_mps_without_permission") {
  for (const bool mps : {true, false}) {
    four_gpus({{"GSHMEM_NIC", "soft"}, {"GSHMEM_P2P_GROUP", "0"}, {"GSHMEM_P2P", "0"}});
    heaps().gpus = 1;
    heaps().mps = mps;
    const auto outcomes = spmd::in_children(
        2, spmd::quick({{"GSHMEM_DEVICE", "cuda"}, {"GSHMEM_NIC", "soft"}}), [](int) {
          const int status = gshmemx_init_attr(GSHMEMX_INIT_DEFAULT, nullptr);
          std::printf("status %d, init status %d\n", status, gshmemx_init_status());
          if (status == GSHMEMX_SUCCESS) gshmem_finalize();
        });
    for (const spmd::Outcome& pe : outcomes) {
      if (spmd::contains(pe.output, "the soft NIC does not survive a fork")) {
        std::printf("skipped: needs a process of its own\n");
        return;
      }
      CHECK_THAT(pe.output, Catch::Contains(mps ? "status 0, init status 4\n"  // FULL_MPG
                                                : "2 PEs share GPU "));
    }
  }
}

TEST_CASE("a_context_of_the_application_s_own_is_refused_and_stays_current") {
  four_gpus(kAlone);
  std::thread([] {
    const OwnContext own(1);
    CHECK_THAT(error_of_one_pe(), Catch::Contains("is not the primary one of GPU 1") &&
                                      Catch::Contains("cudaSetDevice(1)"));
    CHECK(current_gpu() == test::kCudaDoubleOwn + 1);
  }).join();
  const Runtime runtime = one_pe();
  std::thread([] {
    void* const handle = gshmemx_pe_handle();
    const OwnContext own(2);
    CHECK(gshmemx_bind_thread(handle) == GSHMEMX_ERROR_NOT_SUPPORTED);
    CHECK(current_gpu() == test::kCudaDoubleOwn + 2);
    CHECK_FALSE(gshmemi_ambient()->bound);
  }).join();
  check_driver();
}

TEST_CASE("a_job_follows_one_whose_context_was_destroyed_on_the_same_thread") {
  four_gpus(kAlone);
  std::thread([] {
    CHECK(error_of_one_pe(1) == "no error");
    CHECK(current_gpu() == 1);  // and no longer there
    CHECK(error_of_one_pe(-1) == "no error");
    CHECK(current_gpu() == 0);  // the one of its number on the host
    CHECK(error_of_one_pe(3) == "no error");
  }).join();
  check_driver();
  CHECK(heaps().clean());
}

TEST_CASE("kernels_know_a_pe_from_init_to_finalize") {
  four_gpus(kAlone);
  uploaded.clear();
  Unit unit(note_upload);
  gshmemi_register_unit(&unit.unit);
  CHECK(error_of_one_pe() == "no error");
  CHECK(uploaded == std::vector<std::uint32_t>{abi::kStateMagic, 0});
  uploaded.clear();
  {
    const Runtime runtime = one_pe();
    Unit late(note_upload);
    gshmemi_register_unit(&late.unit);
    CHECK(uploaded == std::vector<std::uint32_t>{abi::kStateMagic, abi::kStateMagic});
  }
  CHECK(uploaded.size() == 3);
}

TEST_CASE("a_unit_of_other_headers_fails_init") {
  four_gpus(kAlone);
  uploaded.clear();
  Unit unit(note_upload);
  gshmemi_register_unit(&unit.unit);
  unit.unit.state_bytes -= 8;
  CHECK_THAT(error_of_one_pe(), Catch::Contains("headers of another gshmem (device state of ") &&
                                    Catch::Contains("compile it again"));
  unit.unit.state_bytes += 8;
  unit.unit.abi += 1;
  CHECK_THAT(error_of_one_pe(), Catch::Contains("headers of another gshmem"));
  unit.unit.abi -= 1;
  CHECK(error_of_one_pe() == "no error");
  CHECK(uploaded == std::vector<std::uint32_t>{abi::kStateMagic, 0});
  CHECK(heaps().clean());
}

/// cudaMemcpyToSymbol may do this when it loads a module while another thread is in dlopen.
std::atomic<bool> other_registered{false};

TEST_CASE("memory_calls_on_heaps_are_synchronous_from_init_to_finalize") {
  constexpr unsigned kSyncMemops = 0x80, kMine = 0x04;
  four_gpus(kAlone);
  flags_of(2) = kMine;
  unsigned inside = 0;
  {
    const Runtime runtime = one_pe();
    inside = flags_of(2);
    CHECK(flags_of(1) == 0);
  }
  if (inside == kMine) {
    std::printf("skipped: the driver was loaded as an old one\n");
    return;
  }
  CHECK(inside == (kMine | kSyncMemops));
  CHECK(flags_of(2) == kMine);
  CHECK(cuda_double().synchronous_ranges == 0);
  flags_of(2) = kSyncMemops;
  CHECK(error_of_one_pe() == "no error");
  CHECK(flags_of(2) == kSyncMemops);  // set by the application
  flags_of(2) = 0;
}

TEST_CASE("pes_start_work_and_end_while_another_thread_captures") {
  four_gpus({{"GSHMEM_NIC", "soft"}, {"GSHMEM_P2P_GROUP", "0"}, {"GSHMEM_P2P", "off"}});
  cuda_double().capturing = true;
  std::atomic<int> wrong{0};
  run_threads(4, [&](const Runtime& runtime) {
    SymmetricArray<int> words(4);
    const int value = 10 + runtime.my_pe();
    gshmem_int_put(words.data(), &value, 1, runtime.my_pe());
    gshmem_barrier_all();
    wrong += gshmemx_last_fault(nullptr) == GSHMEMX_SUCCESS ? 0 : 1;
  });
  cuda_double().capturing = false;
  CHECK(wrong == 0);
  check_driver();
}

TEST_CASE("atomics_use_the_network_if_a_link_has_none") {
  struct Seen {
    abi::AmoPath path{9};
    bool network = false;
  };
  const auto job = [](const char* nic, bool native, const char* interface = "127.0.0.1",
                      int lacking = 3) {
    four_gpus({{"GSHMEM_NIC", nic}, {"GSHMEM_P2P_GROUP", "0"}});
    setenv("GSHMEM_OFI_INTERFACE", interface, 1);
    if (!native) heaps().no_atomics = {{2, lacking}};  // one pair, in one direction only
    Seen seen[4];
    run_threads(4, [&](const Runtime& runtime) {
      const abi::DeviceState& state = *gshmemi_ambient()->state;
      seen[runtime.my_pe()] = {state.amo_path, state.nic.queues != nullptr};
    });
    CHECK(heaps().clean());
    for (const Seen& pe : seen) {
      CHECK(pe.path == seen[0].path);
      CHECK(pe.network == seen[0].network);
    }
    return seen[0];
  };
  for (const char* nic : {"none", "soft", "auto"}) {
    CHECK(job(nic, true).path == abi::AmoPath::kInPlace);
    CHECK(job(nic, true).network == false);
    CHECK(job(nic, false).path == abi::AmoPath::kSetsInPlace);
  }
  CHECK(job("soft", false).network);
  CHECK_FALSE(job("none", false).network);
  CHECK(job("none", false, "127.0.0.1", 0).path == abi::AmoPath::kSetsInPlace);
  // There is no network either: PE 0 reports it for all PEs.
  test::StderrCapture capture;
  CHECK_FALSE(job("auto", false, "192.0.2.1").network);
  std::size_t warnings = 0;
  for (const std::string& line : capture.writes())
    warnings += line.find("without native atomics (PCIe), and no network does them") != line.npos;
  CHECK(warnings == 1);
}
