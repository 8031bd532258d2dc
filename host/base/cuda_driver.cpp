#include "host/base/cuda_driver.h"

#include <utility>

namespace gshmem {
namespace {

// The version that selects what cuGetProcAddress returns for each function: the newest one not
// newer than this. All functions of cuda_driver.def have had their present signature since then. So
// any cuda.h from 12.0 on declares what a driver from 12.0 on returns.
constexpr int kCudaVersion = 12000;
static_assert(CUDA_VERSION >= kCudaVersion, "gshmem needs the CUDA toolkit 12.0 or newer");

/// Is this an error of earlier work? Then every later call into the context returns it. Source:
/// CUDA driver API, CUresult: "leaves the process in an inconsistent state".
bool is_of_earlier_work(CUresult result) {
  switch (result) {
    case CUDA_ERROR_ECC_UNCORRECTABLE:
    case CUDA_ERROR_NVLINK_UNCORRECTABLE:
    case CUDA_ERROR_ILLEGAL_ADDRESS:
    case CUDA_ERROR_LAUNCH_TIMEOUT:
    case CUDA_ERROR_ASSERT:
    case CUDA_ERROR_HARDWARE_STACK_ERROR:
    case CUDA_ERROR_ILLEGAL_INSTRUCTION:
    case CUDA_ERROR_MISALIGNED_ADDRESS:
    case CUDA_ERROR_INVALID_ADDRESS_SPACE:
    case CUDA_ERROR_INVALID_PC:
    case CUDA_ERROR_LAUNCH_FAILED:
      return true;
    default:
      return false;
  }
}

std::string error_text(const CudaDriver* driver, CUresult result) {
  const char* name = nullptr;
  const char* text = nullptr;
  if (driver != nullptr) {
    driver->cuGetErrorName(result, &name);
    driver->cuGetErrorString(result, &text);
  }
  if (name == nullptr) return strprintf("CUDA error %d", static_cast<int>(result));
  return std::string(name) + " (" + (text != nullptr ? text : "no description") + ")";
}

[[noreturn]] void throw_cuda(const CudaDriver* driver, CUresult result, const char* call,
                             Where where) {
  const gshmemx_status code =
      result == CUDA_ERROR_OUT_OF_MEMORY ? GSHMEMX_ERROR_OUT_OF_MEMORY : GSHMEMX_ERROR_CUDA;
  const char* const before =
      is_of_earlier_work(result)
          ? "an earlier kernel of this program has failed, and CUDA works no more in this process "
            "(compute-sanitizer shows the kernel); seen by "
          : "";
  throw Error(code, before + std::string(call) + ": " + error_text(driver, result), where);
}

const CudaDriver::Loaded& process_driver() {
  // It is never freed: other static objects may still call the driver while the process ends.
  static const auto* const loaded = new CudaDriver::Loaded(CudaDriver::load("libcuda.so.1"));
  return *loaded;
}

}  // namespace

void CudaDriver::resolve_all(const std::string& soname) {
  library_ = DynamicLibrary(soname);
  // cuda.h maps cuGetProcAddress to the _v2 of CUDA 12.0. An older driver lacks it.
  auto* const get_address =
      reinterpret_cast<decltype(&::cuGetProcAddress)>(library_.find("cuGetProcAddress_v2"));
  require(get_address != nullptr, GSHMEMX_ERROR_NOT_SUPPORTED,
          soname + " has no cuGetProcAddress_v2: the driver is older than CUDA 12.0");

  const auto resolve = [&](const char* name, int version) {
    void* address = nullptr;
    CUdriverProcAddressQueryResult status{};
    const CUresult result =
        get_address(name, &address, version, CU_GET_PROC_ADDRESS_DEFAULT, &status);
    if (version > kCudaVersion && (result != CUDA_SUCCESS || address == nullptr)) return address;
    require(result == CUDA_SUCCESS && address != nullptr, GSHMEMX_ERROR_NOT_SUPPORTED,
            strprintf("%s has no %s (CUDA error %d, query status %d)", soname.c_str(), name,
                      static_cast<int>(result), static_cast<int>(status)));
    return address;
  };
// #name is the name without a version: an operand of # is not expanded, the other two are.
#define GSHMEM_CUDA_FUNCTION(name) \
  name = reinterpret_cast<decltype(name)>(resolve(#name, kCudaVersion));
#define GSHMEM_CUDA_SINCE(version, name, parameters) \
  name = reinterpret_cast<decltype(name)>(resolve(#name, version));
#include "host/base/cuda_driver.def"
}

void CudaDriver::start() const {
  GSHMEM_CU(this, cuInit, 0);
  int count = 0;
  GSHMEM_CU(this, cuDeviceGetCount, &count);
  require(count > 0, GSHMEMX_ERROR_NOT_SUPPORTED, "the CUDA driver reports no GPU");
}

CudaDriver::Loaded CudaDriver::load(const std::string& soname) {
  try {
    auto driver = std::make_unique<CudaDriver>();
    driver->resolve_all(soname);
    driver->start();
    return {.driver = std::move(driver), .why_not = ""};
  } catch (const Error& error) {
    return {.driver = nullptr, .why_not = error.what()};
  }
}

const CudaDriver* CudaDriver::get() { return process_driver().driver.get(); }

const std::string& CudaDriver::why_not() { return process_driver().why_not; }

void CudaDriver::fail(CUresult result, const char* call, Where where) const {
  throw_cuda(this, result, call, where);
}

void cu_check(CUresult result, const char* call, Where where) {
  if (result != CUDA_SUCCESS) throw_cuda(CudaDriver::get(), result, call, where);
}

}  // namespace gshmem
