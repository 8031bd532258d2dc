// Whole PEs, threads of this process, on GPUs of the double, without kernels: whom load/store
// reaches by fabric handles, what init says where they are missing, and which GPU a launch is for.
#include <gshmem/gshmem.hpp>

#include "host/base/dynamic_library.h"
#include "tests/unit/gpu_memory/cuda_double.h"
#include "tests/unit/gpu_memory/cuda_heaps.h"

#include <catch2/catch.hpp>

#include <atomic>
#include <cstdlib>
#include <map>
#include <string>
#include <thread>
#include <vector>

using namespace gshmem;

namespace {

const DynamicLibrary& double_library() {
  static const DynamicLibrary library(CUDA_DOUBLE);
  return library;
}
test::CudaHeaps& heaps() {
  return *double_library().function<test::CudaHeapsRecord>("cuda_double_heaps")();
}
int current_gpu() {
  return double_library().function<test::CudaDoubleCurrent>("cuda_double_current")();
}

/// Variables of a job of four PEs, which are as if on hosts of two PEs each.
void four_gpus(const std::map<std::string, std::string>& variables) {
  heaps().reset();
  heaps().gpus = 4;
  for (const char* name : {"GSHMEM_P2P", "GSHMEM_FABRIC"}) unsetenv(name);
  for (const auto& [name, value] :
       std::map<std::string, std::string>{{"GSHMEM_DEVICE", "cuda"},
                                          {"GSHMEM_NIC", "none"},
                                          {"GSHMEM_P2P_GROUP", "2"},
                                          {"GSHMEM_SYMMETRIC_SIZE", "1M"},
                                          {"GSHMEM_BOOTSTRAP_TIMEOUT", "20"}})
    setenv(name.c_str(), value.c_str(), 1);
  for (const auto& [name, value] : variables) setenv(name.c_str(), value.c_str(), 1);
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
  CHECK_THAT(
      error,
      Catch::Contains(
          "is not reached by load/store: GSHMEM_P2P_GROUP puts it into another group, and PE "));
  // NVML is not there, or does not know the double's GPUs.
  CHECK_THAT(error, Catch::Contains(" has no fabric handle: "));
  CHECK_THAT(error, Catch::Contains("GSHMEM_NIC=none leaves no path but load/store; unset it"));
  CHECK(heaps().with_fabric == 0);
  four_gpus({{"GSHMEM_FABRIC", "off"}});
  CHECK_THAT(
      error_of_init(),
      Catch::Contains("is not reached by load/store: GSHMEM_P2P_GROUP puts it into another group"));
}

TEST_CASE("fabric_on_says_what_is_missing") {
  four_gpus({{"GSHMEM_FABRIC", "on"}});
  heaps().without_channel = {0, 1, 2, 3};
  const std::string error = error_of_init();
  CHECK_THAT(error, Catch::Contains("GSHMEM_FABRIC=on: cuMemCreate with a fabric handle: "));
  CHECK_THAT(error, Catch::Contains("/dev/nvidia-caps-imex-channels/channel0"));
}

TEST_CASE("fabric_on_and_no_p2p_contradict_each_other") {
  four_gpus({{"GSHMEM_FABRIC", "on"}, {"GSHMEM_P2P", "0"}, {"GSHMEM_NIC", "ofi"}});
  CHECK_THAT(error_of_init(),
             Catch::Contains("GSHMEM_P2P=0 maps no heap, which GSHMEM_FABRIC=on asks for"));
}

TEST_CASE("one_host_makes_no_fabric_handles_by_itself") {
  four_gpus({{"GSHMEM_P2P_GROUP", "0"}});
  run_threads(4, [](const Runtime&) {});
  CHECK(heaps().with_fabric == 0);
  CHECK(heaps().fd_imports == 16);
  CHECK(heaps().clean());
}

TEST_CASE("doorbell_pages_are_taken_back_before_the_nic_gives_them_up") {
  four_gpus({{"GSHMEM_NIC", "soft"}, {"GSHMEM_P2P_GROUP", "0"}, {"GSHMEM_P2P", "off"}});
  CHECK(error_of_init() == "no error");
  CHECK(heaps().ever_registered > 0);
  CHECK(heaps().clean());
  for (const std::string& violation : heaps().violations) FAIL_CHECK(violation);
}

TEST_CASE("any_thread_of_a_pe_launches_on_its_gpu") {
  four_gpus({{"GSHMEM_BOOTSTRAP", "single"}, {"GSHMEM_P2P_GROUP", "0"}});
  gshmemx_init_attr_t attr = GSHMEMX_INIT_ATTR_INITIALIZER;
  attr.args.cuda_device_id = 2;
  const Runtime runtime(GSHMEMX_INIT_DEFAULT, attr);
  CHECK(current_gpu() == 2);
  int before = 0, inside = 0, after = 0;
  std::thread([&] {
    before = current_gpu();
    {
      const detail::GpuScope scope;
      inside = current_gpu();
    }
    after = current_gpu();
  }).join();
  CHECK(before == -1);
  CHECK(inside == 2);
  CHECK(after == -1);
}

TEST_CASE("pes_of_one_process_share_a_gpu_only_when_they_may_mps_or_not") {
  for (const bool mps : {false, true}) {
    four_gpus({{"GSHMEM_P2P_GROUP", "0"}});
    heaps().gpus = 2;
    heaps().mps = mps;
    CHECK_THAT(error_of_init(), Catch::Contains("2 PEs share GPU ") &&
                                    Catch::Contains("nvidia-cuda-mps-control") &&
                                    Catch::Contains("GSHMEM_MAX_PES_PER_GPU=2"));
    setenv("GSHMEM_MAX_PES_PER_GPU", "2", 1);
    std::atomic<int> limited{0};
    run_threads(4, [&](const Runtime&) {
      limited += gshmemx_init_status() == GSHMEMX_INIT_STATUS_LIMITED_MPG ? 1 : 0;
    });
    CHECK(limited == 4);
    unsetenv("GSHMEM_MAX_PES_PER_GPU");
  }
}
