#include "host/base/cuda_driver.h"

#include <catch2/catch.hpp>

#include <cstddef>
#include <cstdint>
#include <string>

namespace gshmem {
namespace {

TEST_CASE("process_driver_answers_or_has_a_reason") {
  const CudaDriver* driver = CudaDriver::get();
  CHECK(driver == CudaDriver::get());
  if (driver == nullptr) {
    WARN("no CUDA driver here: " << CudaDriver::why_not());
    // The reason names the library that is missing, or the call that failed and its error.
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

}  // namespace
}  // namespace gshmem
