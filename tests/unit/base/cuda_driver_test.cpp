#include "host/base/cuda_driver.h"

#include <catch2/catch.hpp>

#include <cstddef>
#include <cstdint>
#include <string>

namespace gshmem {
namespace {

/// Why the driver did not load; "loaded" when it did.
std::string why_not(const std::string& library) {
  const CudaDriver::Loaded loaded = CudaDriver::load(library);
  CHECK((loaded.driver == nullptr) == !loaded.why_not.empty());
  return loaded.driver != nullptr ? "loaded" : loaded.why_not;
}

TEST_CASE("process_driver_answers_or_says_why_not") {
  const CudaDriver* driver = CudaDriver::get();
  CHECK(driver == CudaDriver::get());
  if (driver == nullptr) {
    WARN("no CUDA driver here: " << CudaDriver::why_not());
    // Whatever is missing, the reason names the library, or the call that failed and its error.
    const std::string& reason = CudaDriver::why_not();
    CHECK((reason.find("libcuda.so.1") != std::string::npos ||
           reason.find("CUDA") != std::string::npos));
    return;
  }
  CHECK(CudaDriver::why_not().empty());
  int version = 0;
  GSHMEM_CU(driver, cuDriverGetVersion, &version);
  CHECK(version >= 12000);
  CUdevice device = -1;
  GSHMEM_CU(driver, cuDeviceGet, &device, 0);
  std::size_t bytes = 0;
  GSHMEM_CU(driver, cuDeviceTotalMem, &bytes, device);
  CHECK(bytes > (std::size_t{1} << 30));
  try {
    GSHMEM_CU(driver, cuDeviceGet, &device, 1'000'000);
    FAIL("did not throw");
  } catch (const Error& error) {
    CHECK(std::string(error.what()) ==
          "cuDeviceGet: CUDA_ERROR_INVALID_DEVICE (invalid device ordinal)");
  }
}

TEST_CASE("real_driver_moves_memory_through_the_table") {
  const CudaDriver* driver = CudaDriver::get();
  if (driver == nullptr) {
    WARN("skipped: " << CudaDriver::why_not());
    return;
  }
  CUdevice device = -1;
  CUcontext context = nullptr;
  GSHMEM_CU(driver, cuDeviceGet, &device, 0);
  GSHMEM_CU(driver, cuDevicePrimaryCtxRetain, &context, device);
  GSHMEM_CU(driver, cuCtxPushCurrent, context);
  CUdeviceptr address = 0;
  const std::uint64_t sent = 0x0123456789abcdef;
  std::uint64_t received = 0;
  GSHMEM_CU(driver, cuMemAlloc, &address, sizeof(sent));
  GSHMEM_CU(driver, cuMemcpyHtoD, address, &sent, sizeof(sent));
  GSHMEM_CU(driver, cuMemcpyDtoH, &received, address, sizeof(received));
  CHECK(received == sent);
  GSHMEM_CU(driver, cuMemFree, address);
  GSHMEM_CU(driver, cuCtxPopCurrent, &context);
  GSHMEM_CU(driver, cuDevicePrimaryCtxRelease, device);
}

TEST_CASE("driver_that_works_is_loaded_whole") {
  const CudaDriver::Loaded loaded = CudaDriver::load(DOUBLE_GOOD);
  REQUIRE(loaded.driver != nullptr);
  int count = 0;
  GSHMEM_CU(loaded.driver, cuDeviceGetCount, &count);
  CHECK(count == 3);
#define GSHMEM_CUDA_FUNCTION(name) CHECK(loaded.driver->name != nullptr);
#define GSHMEM_CUDA_SINCE(version, name, parameters) CHECK(loaded.driver->name != nullptr);
#include "host/base/cuda_driver.def"
}

TEST_CASE("failed_calls_throw_the_driver_s_words_and_the_caller_s_place") {
  const CudaDriver::Loaded loaded = CudaDriver::load(DOUBLE_GOOD);
  REQUIRE(loaded.driver != nullptr);
  CUdeviceptr address = 0;
  try {
    GSHMEM_CU(loaded.driver, cuMemAlloc, &address, 0);
    FAIL("did not throw");
  } catch (const Error& error) {
    CHECK(error.code() == GSHMEMX_ERROR_CUDA);
    CHECK(std::string(error.what()) == "cuMemAlloc: CUDA_ERROR_INVALID_VALUE (text of the double)");
    CHECK(std::string(error.where().file).find("cuda_driver_test.cpp") != std::string::npos);
  }
  try {
    GSHMEM_CU(loaded.driver, cuMemAlloc, &address, 1);
    FAIL("did not throw");
  } catch (const Error& error) {
    CHECK(error.code() == GSHMEMX_ERROR_OUT_OF_MEMORY);
  }
  CHECK_NOTHROW(loaded.driver->check(CUDA_SUCCESS, "call"));
}

}  // namespace
}  // namespace gshmem
