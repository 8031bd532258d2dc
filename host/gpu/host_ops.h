// Host operations on GPU heaps: copies by the copy engine on a stream of the PE's own, atomics by a
// one-thread service kernel (host/gpu/service.cu). One mutex serializes the PE's host threads.
#pragma once

#include <gshmem/device/host_ops.h>

#include "host/base/cuda_driver.h"
#include "host/base/error.h"

#include <functional>
#include <mutex>

namespace gshmem {

/// A context current on this thread for as long as the object lives.
class ScopedContext {
 public:
  ScopedContext(const CudaDriver& cuda, CUcontext context) : cuda_(cuda) {
    GSHMEM_CU(&cuda_, cuCtxPushCurrent, context);
  }
  ~ScopedContext() {
    CUcontext popped = nullptr;
    cuda_.cuCtxPopCurrent(&popped);
  }
  ScopedContext(const ScopedContext&) = delete;

 private:
  const CudaDriver& cuda_;
};

class CudaHostOps final : public device::HostOps {
 public:
  /// `context` is current.
  CudaHostOps(const CudaDriver& cuda, CUcontext context);
  ~CudaHostOps();
  CudaHostOps(const CudaHostOps&) = delete;

  void set_callbacks(std::function<void(const char*)> barrier,
                     std::function<void(const Error&)> fault) {
    barrier_ = std::move(barrier);
    fault_ = std::move(fault);
  }

  void copy(void* dst, const void* src, std::size_t bytes) override;
  void complete() override;
  std::uint64_t load(const void* address, std::size_t width) override;
  std::uint64_t amo(device::AmoOp op, void* target, std::uint64_t operand, std::uint64_t cond,
                    std::size_t width) override;
  void barrier(const char* call) override;
  void zero(void* memory, std::size_t bytes);

 private:
  /// Runs `work` locked and with the context current; an Error becomes a fault of the PE.
  void guarded(const std::function<void()>& work);
  void load_service();

  const CudaDriver& cuda_;
  CUcontext context_;
  CUstream stream_ = nullptr;
  CUmodule service_ = nullptr;
  CUfunction amo_kernel_ = nullptr;
  std::uint64_t* word_ = nullptr;  ///< pinned: results of load and amo
  std::mutex mutex_;
  std::function<void(const char*)> barrier_;
  std::function<void(const Error&)> fault_;
};

}  // namespace gshmem
