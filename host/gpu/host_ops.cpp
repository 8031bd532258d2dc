#include "host/gpu/host_ops.h"

#include "host/gpu/service.h"

#include <cstring>

namespace gshmem {

CudaHostOps::CudaHostOps(const CudaDriver& cuda, CUcontext context)
    : cuda_(cuda), context_(context) {
  // Non-blocking: must not wait for kernels that wait for us.
  GSHMEM_CU(&cuda_, cuStreamCreate, &stream_, CU_STREAM_NON_BLOCKING);
  void* word = nullptr;
  GSHMEM_CU(&cuda_, cuMemHostAlloc, &word, sizeof(*word_),
            CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP);
  word_ = static_cast<std::uint64_t*>(word);
  // Now and not at first use: loading a module can wait for running kernels.
  load_service();
}

CudaHostOps::~CudaHostOps() {
  if (service_) cuda_.cuModuleUnload(service_);
  if (word_) cuda_.cuMemFreeHost(word_);
  if (stream_) cuda_.cuStreamDestroy(stream_);
}

void CudaHostOps::load_service() {
  GSHMEM_CU(&cuda_, cuModuleLoadData, &service_, gshmem_service_image);
  GSHMEM_CU(&cuda_, cuModuleGetFunction, &amo_kernel_, service_, kServiceAmoKernel);
}

void CudaHostOps::guarded(const std::function<void()>& work) {
  try {
    const std::lock_guard lock(mutex_);
    const ScopedContext scope(cuda_, context_);
    work();
  } catch (const Error& error) {
    fault_(error);
  }
}

void CudaHostOps::copy(void* dst, const void* src, std::size_t bytes) {
  if (bytes == 0) return;
  guarded([&] {
    GSHMEM_CU(&cuda_, cuMemcpyAsync, reinterpret_cast<CUdeviceptr>(dst),
              reinterpret_cast<CUdeviceptr>(src), bytes, stream_);
  });
}

void CudaHostOps::complete() {
  guarded([&] { GSHMEM_CU(&cuda_, cuStreamSynchronize, stream_); });
}

std::uint64_t CudaHostOps::load(const void* address, std::size_t width) {
  std::uint64_t value = 0;
  guarded([&] {
    *word_ = 0;
    GSHMEM_CU(&cuda_, cuMemcpyDtoHAsync, word_, reinterpret_cast<CUdeviceptr>(address), width,
              stream_);
    GSHMEM_CU(&cuda_, cuStreamSynchronize, stream_);
    value = *word_;
  });
  return value;
}

std::uint64_t CudaHostOps::amo(device::AmoOp op, void* target, std::uint64_t operand,
                               std::uint64_t cond, std::size_t width) {
  std::uint64_t value = 0;
  guarded([&] {
    ServiceAmo request{target, word_, operand, cond, op, static_cast<std::uint32_t>(width)};
    void* parameters[] = {&request};
    GSHMEM_CU(&cuda_, cuLaunchKernel, amo_kernel_, 1, 1, 1, 1, 1, 1, 0, stream_, parameters,
              nullptr);
    GSHMEM_CU(&cuda_, cuStreamSynchronize, stream_);
    value = *word_;
  });
  return value;
}

void CudaHostOps::barrier(const char* call) {
  complete();
  barrier_(call);
}

void CudaHostOps::zero(void* memory, std::size_t bytes) {
  guarded([&] {
    GSHMEM_CU(&cuda_, cuMemsetD8Async, reinterpret_cast<CUdeviceptr>(memory), 0, bytes, stream_);
    GSHMEM_CU(&cuda_, cuStreamSynchronize, stream_);
  });
}

}  // namespace gshmem
