// Executes call records of host threads on GPU heaps. Copies are made by the copy engine on a
// stream of the PE. Atomics, and everything over the network, are executed by the service kernel
// (host/runtime/gpu/service.cu). One mutex serializes the PE's host threads. It is not taken for
// polls by the CPU's mapping of the heap, for records that are queued in a stream of the
// application, and in collectives. Invariant: no thread waits for another PE with the mutex held.
#pragma once

#include <gshmem/abi/state.h>
#include <gshmem/device/core/call_record.h>

#include "host/base/cuda_scope.h"
#include "host/base/error.h"
#include "host/base/gpu_mapping.h"
#include "host/runtime/gpu/grid_kernels.h"
#include "host/runtime/gpu/list_kernel.h"
#include "host/runtime/gpu/service.h"

#include <atomic>
#include <functional>
#include <mutex>
#include <vector>

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

  /// Sets the state that the operations use; it must be complete.
  void set_state(const abi::DeviceState& state) { state_ = state; }
  /// Sets the maximum number of blocks of a collective, which is the same for all PEs.
  void set_most_blocks(unsigned blocks) { most_blocks_ = blocks; }
  /// Sets GDRCopy's mapping of the heap for the CPU; null = not mapped.
  void set_heap_mapping(const GpuMapping* mapping) { mapping_ = mapping; }

  bool reads(const void* memory) override;
  std::uint64_t run(const device::Call& call) override;
  /// Queues the call in `stream`, a stream of this GPU, and waits only for the result of kG. The
  /// service kernel or a copy executes it after earlier work of the stream; a graph that is being
  /// captured includes it.
  std::uint64_t run_in(CUstream stream, const device::Call& call);
  void copy(void* dst, const void* src, std::size_t bytes);
  void zero(void* memory, std::size_t bytes);
  /// Waits for the copies. complete() also waits for the network.
  void finish();
  /// Waits for the host threads that are in a collective. A collective ends by itself, if necessary
  /// by a fault.
  void await_collectives() const;

 private:
  static constexpr std::size_t kStagingBytes = sizeof(abi::InternalArea::staging);
  static constexpr int kSlots = 511;  ///< with word_ they fill a page
  /// For one call that a thread waits for without the mutex.
  struct Slot {
    std::atomic<bool> is_used{false};
    CUstream stream = nullptr;  ///< created when the first call needs it
  };
  void put(void* dest, const void* source, std::size_t bytes, int pe);
  void get(void* dest, const void* source, std::size_t bytes, int pe);
  void put_strided(const device::Call& call);
  void get_strided(const device::Call& call);
  void put_signal(const device::Call& call);
  void run_list(const device::Call& call);
  void leave_list(CUstream stream, const device::Call& call);
  void copy_list(CUstream stream, const device::Call& call);
  [[nodiscard]] bool copy_batch(CUstream stream, std::vector<CUdeviceptr>& to,
                                std::vector<CUdeviceptr>& from, std::vector<std::size_t>& sizes);
  [[nodiscard]] bool uploads_in(CUstream stream) const;
  void launch_request(CUstream stream, ListRequest& request, std::uint64_t total) const;
  void launch_uploaded(CUstream stream, ListRequest& request, std::uint32_t count) const;
  template <class IsWanted>
  void launch_list(CUstream stream, const device::Call& call, const IsWanted& is_wanted);
  [[nodiscard]] bool is_named(const void* memory, std::size_t bytes) const;
  template <class Work>
  void for_each_merged(const device::Call& call, const Work& work) const;
  [[nodiscard]] bool require_list_reached(const device::Call& call) const;
  /// Completes everything that was started, and what kernels have posted to the queues of the
  /// context.
  void complete(const abi::DeviceState* context = nullptr);
  /// Marks all noted calls as complete (abi::OrderShadow): now, or in the order of `stream`.
  void forget_calls(const CUstream* stream);
  /// Does what complete() does, but an error is returned, and no kernel traps.
  [[nodiscard]] int complete_status(const abi::DeviceState* context);
  void launch_on_queues(const device::Call& quiet, const abi::DeviceState* context);
  [[nodiscard]] std::uint64_t load(const void* address, std::size_t width);
  /// Has the service kernel execute the call, and returns its result.
  [[nodiscard]] std::uint64_t serve(const device::Call& call);
  /// Does what serve() does, for a call that waits for other PEs: calls of other threads continue.
  [[nodiscard]] std::uint64_t serve_collective(const device::Call& call);
  void copy_async(void* dst, const void* src, std::size_t bytes, CUstream stream);
  void launch(CUstream stream, const device::Call& call, const abi::DeviceState& state,
              std::uint64_t* answer, unsigned threads);
  [[nodiscard]] unsigned threads_for(const device::Call& call) const;
  void launch(const device::Call& call) { launch(stream_, call, state_, nullptr, 1); }
  /// Calls `chunk(offset, bytes)` for each part of a transfer that fits into the staging memory.
  template <class Chunk>
  void staged(std::size_t bytes, const Chunk& chunk);
  [[nodiscard]] bool on_gpu(const void* address) const;
  /// Is the memory CUDA memory, or host memory that is registered with CUDA? Then a copy of it does
  /// not wait.
  [[nodiscard]] bool is_known(const void* address) const;
  void require_stream(CUstream stream, const device::Call& call) const;
  void require_reached(const device::Call& call, const char* argument, const void* address) const;
  [[nodiscard]] std::uint64_t leave(CUstream stream, const device::Call& call);
  void leave_transfer(CUstream stream, const device::Call& call);
  [[nodiscard]] std::uint64_t leave_element(CUstream stream, const device::Call& call);
  /// Waits for the result of a call in `stream`; null: in a stream that has no other call.
  [[nodiscard]] std::uint64_t await_answer(const CUstream* stream, const device::Call& call,
                                           unsigned threads);
  /// Runs `work` with the context current; guarded() also takes the lock. An Error becomes a fault
  /// of the PE, and its code is returned.
  int in_context(const std::function<void()>& work);
  void guarded(const std::function<void()>& work);
  void load_service();
  void load_collectives();
  void load_list_kernel();
  void prepare_uploads();
  [[nodiscard]] CUfunction grid_kernel(const device::Call& call) const;
  void launch_grid(CUstream stream, CUfunction kernel, GridRequest& request, std::uint64_t blocks,
                   std::uint64_t threads);
  /// Queues a collective in `stream` that has a kernel of its own. Returns false if there is none:
  /// then the service kernel has to execute it.
  [[nodiscard]] bool launch_collective(CUstream stream, const device::Call& call,
                                       std::uint64_t* answer);

  const CudaDriver& cuda_;
  CUcontext context_;
  CUstream stream_ = nullptr;
  CUmodule service_ = nullptr;
  CUfunction kernel_ = nullptr;
  CUmodule collectives_ = nullptr;
  CUmodule list_module_ = nullptr;
  CUfunction list_kernel_ = nullptr;
  bool has_list_kernel_ = false;
  /// Memory for lists that are too long for the parameters of a kernel. It comes from the library's
  /// own pool, null if the GPU has no pools. A stream without kernels copies the lists there from
  /// pinned memory.
  CUmemoryPool list_pool_ = nullptr;
  CUstream upload_stream_ = nullptr;
  gshmemx_piece_t* pinned_list_ = nullptr;  ///< kMostUploaded pieces, under upload_mutex_
  std::mutex upload_mutex_;
  CUfunction move_kernel_ = nullptr, sync_kernel_ = nullptr;
  CUfunction reduce_kernels_[device::kReduceOps][device::kElementTypes] = {};
  unsigned most_blocks_ = 1;
  bool reaches_all_ = false;  ///< kernels can access any memory of the process
  abi::DeviceState state_;
  const GpuMapping* mapping_ = nullptr;
  char* pinned_ = nullptr;  ///< kStagingBytes bytes, for transfers on the network path
  /// pinned: the result under the mutex, followed by those of slots.
  std::uint64_t* word_ = nullptr;
  Slot slots_[kSlots];
  std::atomic<int> in_collectives_{0};  ///< number of host threads
  std::mutex mutex_;
  std::function<int(const char*, int)> sync_;
  std::function<void(const Error&)> fault_;
};

}  // namespace gshmem
