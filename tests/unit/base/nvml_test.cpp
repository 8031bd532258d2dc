#include "host/base/nvml.h"

#include "host/base/dynamic_library.h"

#include <catch2/catch.hpp>

#include <dlfcn.h>
#include <pthread.h>
#include <signal.h>

namespace gshmem {
namespace {

std::string why(const char* pci, const char* library = NVML_DOUBLE) {
  const DynamicLibrary kept(library);  // keeps its count of sessions
  const nvml::GpuFabric fabric = nvml::gpu_fabric(pci, library);
  CHECK(*kept.function<int>("nvml_double_sessions") == 0);
  return fabric.why_none;
}

TEST_CASE("a_gpu_in_a_fabric_has_its_cluster_and_clique") {
  const nvml::GpuFabric fabric = nvml::gpu_fabric("0000:01:00.0", NVML_DOUBLE);
  CHECK(fabric.why_none == "");
  CHECK(::dlopen(NVML_DOUBLE, RTLD_NOW | RTLD_NOLOAD) == nullptr);  // the library is unloaded
  CHECK(fabric.clique == 7);
  for (std::size_t i = 0; i < fabric.cluster.size(); ++i) CHECK(fabric.cluster[i] == i + 1);
  CHECK(why("0000:01:00.0") == "");
}

TEST_CASE("links_between_gpus_have_native_atomics_or_not_or_are_unknown") {
  const auto between = [](const char* pci, const char* peer) {
    return nvml::native_atomics(pci, peer, NVML_DOUBLE);
  };
  CHECK(between("0000:01:00.0", "0000:02:00.0") == true);
  CHECK(between("0000:02:00.0", "0000:01:00.0") == true);
  CHECK(between("0000:01:00.0", "0000:03:00.0") == false);
  // For a GPU that is hidden from this container the links of the visible GPU decide: a link to it,
  // to a switch, to another GPU, or no link.
  CHECK(between("0000:01:00.0", "0000:07:00.0") == true);
  CHECK(between("0000:02:00.0", "0000:07:00.0") == true);
  CHECK(between("0000:01:00.0", "0000:08:00.0") == false);
  CHECK(between("0000:03:00.0", "0000:07:00.0") == false);
  CHECK(between("0000:07:00.0", "0000:01:00.0") == std::nullopt);
  CHECK(nvml::native_atomics("0000:01:00.0", "0000:07:00.0", NVML_DOUBLE_OLD) == std::nullopt);
  CHECK(nvml::native_atomics("0000:01:00.0", "0000:02:00.0", "libnvml_of_nowhere.so.1") ==
        std::nullopt);
}

// A signal while libfabric was being loaded ended the process without a message.
TEST_CASE("signals_are_blocked_while_a_library_loads_and_no_longer") {
  const DynamicLibrary library(NVML_DOUBLE);
  CHECK(*static_cast<const bool*>(library.find("nvml_double_undisturbed")));
  sigset_t now;
  REQUIRE(::pthread_sigmask(SIG_BLOCK, nullptr, &now) == 0);
  CHECK(::sigismember(&now, SIGALRM) == 0);
}

TEST_CASE("a_gpu_outside_of_a_fabric_has_a_reason") {
  CHECK(why("0000:02:00.0") == "the GPU's NVLink fabric ends at its host (no cluster UUID)");
  CHECK(why("0000:03:00.0") == "the GPU is on no NVLink fabric");
  CHECK(why("0000:04:00.0") == "the GPU is not registered with the NVLink fabric (not started)");
  CHECK(why("0000:05:00.0") == "the GPU's registration with the NVLink fabric is in progress");
  CHECK(why("0000:06:00.0") ==
        "the GPU's registration with the NVLink fabric has failed: Unknown Error");
  CHECK(why("0000:07:00.0") == "nvmlDeviceGetHandleByPciBusId_v2: Not Found");
}

TEST_CASE("a_missing_function_of_nvml_is_a_reason") {
  CHECK(why("0000:01:00.0", NVML_DOUBLE_OLD).find("nvmlDeviceGetGpuFabricInfoV") !=
        std::string::npos);
  const nvml::GpuFabric fabric = nvml::gpu_fabric("0000:01:00.0", "libno-nvml-here.so.1");
  CHECK(fabric.why_none.find("cannot load libno-nvml-here.so.1") == 0);
}

}  // namespace
}  // namespace gshmem
