// Host operations on GPU heaps: copies by the copy engine on a stream of the PE's own; atomics, and
// all that goes over the network, by a one-thread service kernel (host/gpu/service.cu). One mutex
// serializes the PE's host threads, except where they poll by the CPU's mapping of the heap.
#pragma once

#include <gshmem/abi/state.h>
#include <gshmem/device/host_ops.h>

#include "host/base/cuda_scope.h"
#include "host/base/error.h"
#include "host/base/gpu_mapping.h"
#include "host/gpu/service.h"

#include <functional>
#include <mutex>

namespace gshmem {

class CudaHostOps final : public device::HostOps {
 public:
  /// `context` is current.
  CudaHostOps(const CudaDriver& cuda, CUcontext context);
  ~CudaHostOps();
  CudaHostOps(const CudaHostOps&) = delete;

  void set_callbacks(std::function<int(const char*, int)> sync,
                     std::function<void(const Error&)> fault) {
    sync_ = std::move(sync);
    fault_ = std::move(fault);
  }

  /// The state that the operations use; not before it is complete.
  void set_state(const abi::DeviceState& state) { state_ = state; }
  /// The heap as the CPU sees it by GDRCopy; null = not mapped.
  void set_heap_mapping(const GpuMapping* mapping) { mapping_ = mapping; }

  void put(void* dest, const void* source, std::size_t bytes, int pe) override;
  void get(void* dest, const void* source, std::size_t bytes, int pe) override;
  void copy(void* dst, const void* src, std::size_t bytes) override;
  int complete_status() override;
  void complete() override { complete(state_); }
  void complete(const abi::DeviceState& context) override;
  std::uint64_t load(const void* address, std::size_t width) override;
  std::uint64_t amo(device::AmoOp op, void* target, std::uint64_t operand, std::uint64_t cond,
                    std::size_t width, int pe) override;
  void barrier(const char* call) override;
  int sync(const char* call, int team) override;
  void zero(void* memory, std::size_t bytes);
  /// Waits for the copies; complete() also for the network.
  void finish();

 private:
  void copy_async(void* dst, const void* src, std::size_t bytes);
  void run_service(const ServiceRequest& request) { run_service(request, state_); }
  void run_service(const ServiceRequest& request, const abi::DeviceState& state);
  /// Calls `piece(offset, bytes)` for each part of a transfer that fits the staging memory.
  static constexpr std::size_t kStagingBytes = sizeof(abi::InternalArea::staging);
  [[nodiscard]] bool on_gpu(const void* address) const;
  template <class Piece>
  void staged(std::size_t bytes, const Piece& piece);
  /// Runs `work` locked and with the context current; an Error becomes a fault of the PE.
  void guarded(const std::function<void()>& work);
  void load_service();

  const CudaDriver& cuda_;
  CUcontext context_;
  CUstream stream_ = nullptr;
  CUmodule service_ = nullptr;
  CUfunction kernel_ = nullptr;
  abi::DeviceState state_;
  const GpuMapping* mapping_ = nullptr;
  char* pinned_ = nullptr;         ///< kStagingBytes: transfers on the network path
  std::uint64_t* word_ = nullptr;  ///< pinned: results of load and amo
  std::mutex mutex_;
  std::function<int(const char*, int)> sync_;
  std::function<void(const Error&)> fault_;
};

}  // namespace gshmem
