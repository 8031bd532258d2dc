// A libcuda.so.1 with no GPU behind it: just enough for CudaDriver to load, or to say why it does
// not. One DOUBLE_* macro per build selects what is wrong with it.
#include <cuda.h>

#include <cstring>

namespace {

CUresult init(unsigned int) {
#ifdef DOUBLE_NO_DEVICE
  return CUDA_ERROR_NO_DEVICE;
#else
  return CUDA_SUCCESS;
#endif
}

CUresult device_count(int* count) {
#ifdef DOUBLE_NO_GPU
  *count = 0;
#else
  *count = 3;
#endif
  return CUDA_SUCCESS;
}

CUresult error_name(CUresult error, const char** name) {
  *name = error == CUDA_ERROR_NO_DEVICE       ? "CUDA_ERROR_NO_DEVICE"
          : error == CUDA_ERROR_OUT_OF_MEMORY ? "CUDA_ERROR_OUT_OF_MEMORY"
          : error == CUDA_ERROR_INVALID_VALUE ? "CUDA_ERROR_INVALID_VALUE"
                                              : nullptr;
  return *name != nullptr ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult error_string(CUresult, const char** text) {
  *text = "text of the double";
  return CUDA_SUCCESS;
}

CUresult memory_alloc(CUdeviceptr*, size_t bytes) {
  return bytes == 0 ? CUDA_ERROR_INVALID_VALUE : CUDA_ERROR_OUT_OF_MEMORY;
}

// Never called: what the other names resolve to.
CUresult not_in_the_double() { return CUDA_ERROR_NOT_SUPPORTED; }

template <class F>
void* address_of(F* function) {
  return reinterpret_cast<void*>(function);
}

}  // namespace

#ifdef DOUBLE_NO_ENTRY
#undef cuGetProcAddress
#define cuGetProcAddress name_of_no_driver
#endif
// Exported by the name that cuda.h gives cuGetProcAddress, cuGetProcAddress_v2.
extern "C" __attribute__((visibility("default"))) CUresult cuGetProcAddress(
    const char* symbol, void** function, int cuda_version, cuuint64_t flags,
    CUdriverProcAddressQueryResult* status) {
  // As a real one does: base names only, never "cuMemAlloc_v2".
  const auto is = [symbol](const char* name) { return std::strcmp(symbol, name) == 0; };
  const int known = is("cuCtxSetFlags") ? 12010 : is("cuCtxCreate") ? 3020 : 12000;
  if (cuda_version != known || flags != 0 || std::strstr(symbol, "_v2") != nullptr)
    return CUDA_ERROR_INVALID_VALUE;
#ifdef DOUBLE_NO_FUNCTION
  if (std::strcmp(symbol, "cuMemMap") == 0) {
    *status = CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
    *function = nullptr;
    return CUDA_ERROR_NOT_FOUND;
  }
#endif
  *status = CU_GET_PROC_ADDRESS_SUCCESS;
  *function = is("cuInit")             ? address_of(init)
              : is("cuDeviceGetCount") ? address_of(device_count)
              : is("cuGetErrorName")   ? address_of(error_name)
              : is("cuGetErrorString") ? address_of(error_string)
              : is("cuMemAlloc")       ? address_of(memory_alloc)
                                       : address_of(not_in_the_double);
  return CUDA_SUCCESS;
}
