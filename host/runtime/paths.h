// Which PEs a PE reaches by load/store, and which of them share its GPU. Included by Pe and by its
// network, which serves the PEs that load/store does not reach. Invariant: the PE's state describes
// the mapped PEs as this object does.
#pragma once

#include <gshmem/abi/state.h>
#include <gshmem/device/pe/p2p.h>

#include "host/base/config.h"
#include "host/control/plane.h"
#include "host/runtime/gpu/gpu.h"
#include "transport/p2p/window.h"

#include <sys/types.h>

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace gshmem {

class Paths {
 public:
  /// All arguments outlive this object. `gpu` is null in CPU mode. Errors:
  /// GSHMEMX_ERROR_NOT_SUPPORTED when variables leave PEs without a path, whatever the hardware; it
  /// names the hosts or the variables.
  Paths(const Config& config, control::Plane& plane, Gpu* gpu, abi::DeviceState& state);
  /// Collective. In CPU mode a heap may grow to `host_room` bytes. At its very end are
  /// `noted_bytes`, for abi::OrderShadow. Maps the heaps and fills in what
  /// device code knows about mapped PEs and about this one's number among them. Errors:
  /// GSHMEMX_ERROR_GPU_NOT_SELECTED for too many PEs on a GPU, those of the window, and
  /// GSHMEMX_ERROR_NOT_SUPPORTED for a PE without a path.
  void open(std::uint64_t symmetric_bytes, std::uint64_t host_room, std::uint64_t noted_bytes);
  /// Unmaps the heaps, in the GPU's context.
  void close() { window_.reset(); }

  [[nodiscard]] const p2p::PeerWindow& window() const { return *window_; }
  [[nodiscard]] p2p::PeerWindow& window() { return *window_; }
  [[nodiscard]] bool is_mapped(int pe) const { return device::is_mapped(state_, pe); }
  [[nodiscard]] bool by_fabric(int pe) const { return window_->by_fabric(pe); }
  /// Returns a sentence about a PE that is not mapped.
  [[nodiscard]] std::string why_not(int pe) const;
  /// Are atomics on memory of all mapped PEs atomic to those of its owner? kNone if one link has no
  /// such atomics, kUnknown if that of one link is unknown.
  enum class LinkAtomics { kNative, kUnknown, kNone };
  [[nodiscard]] LinkAtomics link_atomics() const;
  /// Returns 0 in CPU mode.
  [[nodiscard]] int pes_on_gpu() const noexcept { return pes_on_gpu_; }
  /// Are the PEs on this GPU separate processes under MPS, whose kernels run concurrently?
  [[nodiscard]] bool shares_by_mps() const noexcept { return by_mps_; }
  /// Returns how many blocks every PE may have at a time, if each multiprocessor holds `per_sm` and
  /// there are `calls` calls at once. The result is the same for all PEs, and at least 1.
  [[nodiscard]] unsigned blocks_that_fit(unsigned per_sm, unsigned calls) const;

 private:
  [[nodiscard]] const control::HostGroup& group() const { return plane_.group(); }
  void agree_on_sharing();
  [[nodiscard]] p2p::FabricUse fabric_use(const std::vector<int>& local_groups) const;
  [[nodiscard]] std::uint64_t bytes_to_lend(std::uint64_t heap_bytes, std::size_t slots) const;
  void make_window(std::uint64_t bytes);
  void publish(std::uint64_t bytes_at_end);

  /// The data about its GPU that a PE sends to the others.
  struct GpuUse {
    std::array<char, 16> gpu;  ///< UUID
    char pci[32];
    int mps;
    pid_t process;
    std::uint64_t memory_bytes;
    int multiprocessors;
  };

  const Config& config_;
  control::Plane& plane_;
  Gpu* const gpu_;
  abi::DeviceState& state_;
  std::vector<GpuUse> gpu_uses_;  ///< by PE; empty in CPU mode
  int pes_on_gpu_ = 0;
  bool by_mps_ = false;
  std::vector<std::int32_t> slots_;  ///< in CPU mode state_.slots points to it
  std::uint64_t host_room_ = 0;
  std::unique_ptr<p2p::PeerWindow> window_;
};

}  // namespace gshmem
