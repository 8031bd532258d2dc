// The GPU of a PE: its context, the stream of host operations, memory that the GPU and the host
// share, and the device state of kernels. It is an interface, so that the code above builds without
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

/// This is CU_DEVICE_ATTRIBUTE_MPS_ENABLED, which cuda.h of CUDA 12.0 lacks.
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
  /// Are contexts on it shared with other processes through MPS? Also returns false if the driver
  /// is too old to tell.
  [[nodiscard]] virtual bool under_mps() const = 0;
  /// Do its kernels see another device's writes to its memory in the order in which they arrived
  /// (CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WRITES_ORDERING)?
  [[nodiscard]] virtual bool orders_writes() const = 0;
  /// Are atomics of this GPU on memory of the GPU `uuid` of this host, at PCI address `pci`, atomic
  /// to all others there? Returns nothing if neither CUDA nor NVML knows.
  [[nodiscard]] virtual std::optional<bool> has_native_atomics_on(const std::array<char, 16>& uuid,
                                                                  const std::string& pci) const = 0;
  /// Returns zeroed host memory that kernels access by the same address; one per PE.
  [[nodiscard]] virtual abi::Control* control() noexcept = 0;
  /// Returns zeroed host memory that kernels access by the same address; it lives as long as the
  /// Gpu.
  [[nodiscard]] virtual void* host_memory(std::size_t bytes) = 0;
  /// Returns the PE's host operations, which are valid until the Gpu is destroyed.
  [[nodiscard]] virtual device::HostOps* ops() noexcept = 0;
  /// Queues a call in a stream of this GPU: see CudaHostOps::run_in.
  virtual std::uint64_t run_in(CUstream_st* stream, const device::Call& call) = 0;
  /// Waits for the host threads that are in a collective.
  virtual void await_collectives() const = 0;
  /// Sets the functions for syncs of host threads and for faults of host operations.
  virtual void set_callbacks(std::function<int(const char* call, int team)> sync,
                             std::function<void(const class Error&)> fault) = 0;
  /// Runs `work` with this GPU's context current on the calling thread.
  virtual void with_context(const std::function<void()>& work) = 0;
  /// Makes this GPU the calling thread's current one, for the application's CUDA runtime calls.
  /// Errors: GSHMEMX_ERROR_NOT_SUPPORTED if a context that the application created is current.
  virtual void make_current() = 0;
  /// Makes this GPU current until pop_current, which restores the previous context.
  virtual void push_current() = 0;
  virtual void pop_current() noexcept = 0;
  /// Makes this GPU current for as long as the returned object lives.
  [[nodiscard]] virtual std::shared_ptr<void> enter() = 0;
  /// Makes cudaMemset and cudaMemcpy on the heap end before they return, until the Gpu is
  /// destroyed. Otherwise the CUDA runtime runs them in a stream, for which a barrier of host
  /// threads does not wait. Then an earlier memset could overwrite puts that come after such a
  /// barrier. Source: CUDA driver API, CU_CTX_SYNC_MEMOPS and CU_POINTER_ATTRIBUTE_SYNC_MEMOPS.
  virtual void complete_memory_calls_on(void* heap) = 0;
  /// Returns the GPU whose memory is at an address; nothing for host memory. Errors:
  /// GSHMEMX_ERROR_NOT_SUPPORTED for managed memory, which moves.
  [[nodiscard]] virtual std::optional<int> device_of(const void* memory) = 0;
  virtual void zero(void* device_memory, std::size_t bytes) = 0;
  /// Sets a mapping of the PE's heap for words that host threads poll in it; null = none. No
  /// operation may be running.
  virtual void set_heap_mapping(const class GpuMapping* mapping) = 0;
  /// Returns the number of multiprocessors that its kernels run on.
  [[nodiscard]] virtual int multiprocessors() const = 0;
  /// Sets the maximum number of blocks of a collective of host threads and streams, which is the
  /// same for all PEs.
  virtual void set_most_blocks(unsigned blocks) = 0;
  /// Sets the PE's state, for its host operations.
  virtual void set_state(const abi::DeviceState& state) = 0;
  /// Copies between any two addresses of this process; complete on return.
  virtual void copy(void* dst, const void* src, std::size_t bytes) = 0;
  /// Returns the PCI address, such as "0000:1b:00.0".
  [[nodiscard]] virtual std::string pci() const = 0;

  // Memory for work queues. It is released with the Gpu.
  /// Returns zeroed memory of the GPU.
  [[nodiscard]] virtual void* device_memory(std::size_t bytes) = 0;
  /// The address by which the GPU accesses page-aligned memory that was allocated elsewhere: device
  /// registers (a UAR), or memory of the soft NIC that stands in for them. Errors:
  /// GSHMEMX_ERROR_NOT_SUPPORTED, with what to do.
  struct Registers {
    void* address;
    bool is_memory;  ///< it keeps only the last store
  };
  [[nodiscard]] virtual Registers map_registers(void* page, std::size_t bytes) = 0;
  /// Unmaps all of them, before the owner of the pages frees them; no kernel rings any more.
  virtual void unmap_registers() noexcept = 0;

  /// Sets (or clears) the device state of a module or library that the program has loaded.
  virtual void write_module_state(const char* call, CUmod_st* module,
                                  const abi::DeviceState& state) = 0;
  virtual void write_library_state(const char* call, CUlib_st* library,
                                   const abi::DeviceState& state) = 0;
};

/// Opens `device`; -1 = the calling thread's current GPU if it has one, else number `local_rank`
/// modulo their count. Errors: GSHMEMX_ERROR_GPU_NOT_SELECTED, GSHMEMX_ERROR_CUDA,
/// GSHMEMX_ERROR_NOT_SUPPORTED.
[[nodiscard]] std::unique_ptr<Gpu> open_gpu(int device, int local_rank);

/// Returns an empty text if there is a GPU.
[[nodiscard]] std::string why_no_gpu();
[[nodiscard]] std::vector<GpuInfo> gpu_list();

}  // namespace gshmem
