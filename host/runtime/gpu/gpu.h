// The GPU of a PE: its context, the stream of host operations, memory that the GPU and the host
// share, and the device state of kernels. An interface, so that everything above builds without
// CUDA.
#pragma once

#include <gshmem/abi/fault.h>
#include <gshmem/abi/state.h>
#include <gshmem/device/core/call_record.h>

#include <array>
#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

struct CUmod_st;
struct CUlib_st;
struct CUstream_st;

namespace gshmem {

/// CU_DEVICE_ATTRIBUTE_MPS_ENABLED, which cuda.h of CUDA 12.0 lacks.
inline constexpr int kMpsEnabled = 133;

/// A GPU of this machine, as gshmem-info prints it.
struct GpuInfo {
  int device = 0;
  std::string name, uuid, pci;
  std::uint64_t memory_bytes = 0;
  std::vector<bool> peer_access, peer_atomics;  ///< by device
};

class Gpu {
 public:
  virtual ~Gpu() = default;

  [[nodiscard]] virtual int device() const noexcept = 0;
  [[nodiscard]] virtual std::array<char, 16> uuid() const = 0;
  [[nodiscard]] virtual const char* name() const noexcept = 0;
  [[nodiscard]] virtual std::uint64_t memory_bytes() const = 0;
  /// Contexts on it are shared with other processes through MPS. False also where the driver is too
  /// old to tell.
  [[nodiscard]] virtual bool under_mps() const = 0;
  /// Its kernels see what another device has written to its memory in the order in which it came
  /// (CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WRITES_ORDERING).
  [[nodiscard]] virtual bool orders_writes() const = 0;
  /// Atomics of this GPU on memory of the GPU `uuid` of this host, at PCI address `pci`, are atomic
  /// to all others there. Nothing where neither CUDA nor NVML tells.
  [[nodiscard]] virtual std::optional<bool> has_native_atomics_on(const std::array<char, 16>& uuid,
                                                                  const std::string& pci) const = 0;
  /// Host memory, zeroed, that kernels reach by the same address; one per PE.
  [[nodiscard]] virtual abi::Control* control() noexcept = 0;
  /// Zeroed host memory that kernels reach by the same address; lives as long as the Gpu.
  [[nodiscard]] virtual void* host_memory(std::size_t bytes) = 0;
  /// The PE's host operations; valid until the Gpu is destroyed.
  [[nodiscard]] virtual device::HostOps* ops() noexcept = 0;
  /// Leaves a call in a stream of this GPU: CudaHostOps::run_in.
  virtual std::uint64_t run_in(CUstream_st* stream, const device::Call& call) = 0;
  /// Waits for the host threads that are in a collective.
  virtual void await_collectives() const = 0;
  /// Where syncs of host threads and faults of host operations go.
  virtual void set_callbacks(std::function<int(const char* call, int team)> sync,
                             std::function<void(const class Error&)> fault) = 0;
  /// Runs `work` with this GPU's context current on the calling thread.
  virtual void with_context(const std::function<void()>& work) = 0;
  /// Makes this GPU the calling thread's current one, for the application's CUDA runtime calls.
  /// Errors: GSHMEMX_ERROR_NOT_SUPPORTED where a context of the application's own is current.
  virtual void make_current() = 0;
  /// Makes this GPU current until pop_current, which brings back what was current before.
  virtual void push_current() = 0;
  virtual void pop_current() noexcept = 0;
  /// Makes this GPU current for as long as the returned object lives.
  [[nodiscard]] virtual std::shared_ptr<void> enter() = 0;
  /// From now on, cudaMemset and cudaMemcpy on the heap have ended when they return: a barrier of
  /// host threads after one must not let in what it then overwrites. The CUDA runtime's otherwise
  /// run in a stream, which that barrier does not wait for. Until the Gpu is destroyed.
  /// Source: CUDA driver API, CU_CTX_SYNC_MEMOPS and CU_POINTER_ATTRIBUTE_SYNC_MEMOPS.
  virtual void complete_memory_calls_on(void* heap) = 0;
  virtual void zero(void* device_memory, std::size_t bytes) = 0;
  /// A mapping of the PE's heap for what host threads poll in it; null = none. While no operation
  /// runs.
  virtual void set_heap_mapping(const class GpuMapping* mapping) = 0;
  /// Multiprocessors that its kernels run on.
  [[nodiscard]] virtual int multiprocessors() const = 0;
  /// Blocks of a collective of host threads and streams at most, the same for all PEs.
  virtual void set_most_blocks(unsigned blocks) = 0;
  /// The PE's state, for its host operations.
  virtual void set_state(const abi::DeviceState& state) = 0;
  /// Between any two places of this process, complete on return.
  virtual void copy(void* dst, const void* src, std::size_t bytes) = 0;
  /// PCI address, "0000:1b:00.0".
  [[nodiscard]] virtual std::string pci() const = 0;

  // Memory for work queues. Released with the Gpu.
  /// Zeroed memory of the GPU.
  [[nodiscard]] virtual void* device_memory(std::size_t bytes) = 0;
  /// The address by which the GPU reaches page-aligned memory that was allocated elsewhere: device
  /// registers (a UAR), or memory of the soft NIC that stands for them. Errors:
  /// GSHMEMX_ERROR_NOT_SUPPORTED saying what to do.
  struct Registers {
    void* address;
    bool is_memory;  ///< it keeps the last store only
  };
  [[nodiscard]] virtual Registers map_registers(void* page, std::size_t bytes) = 0;
  /// Takes all of them back, before who owns the pages gives them up; no kernel rings any more.
  virtual void unmap_registers() noexcept = 0;

  /// Fills (or clears) the device state of a module or library loaded by hand.
  virtual void write_module_state(const char* call, CUmod_st* module,
                                  const abi::DeviceState& state) = 0;
  virtual void write_library_state(const char* call, CUlib_st* library,
                                   const abi::DeviceState& state) = 0;
};

/// Opens `device`; -1 = the calling thread's current GPU if it has one, else number `local_rank`
/// modulo their count. Errors: GSHMEMX_ERROR_GPU_NOT_SELECTED, GSHMEMX_ERROR_CUDA,
/// GSHMEMX_ERROR_NOT_SUPPORTED.
[[nodiscard]] std::unique_ptr<Gpu> open_gpu(int device, int local_rank);

/// Empty where there is a GPU.
[[nodiscard]] std::string why_no_gpu();
[[nodiscard]] std::vector<GpuInfo> gpu_list();

}  // namespace gshmem
