// The peer window: the heaps of the PEs that may be mapped, those of the own host and of its NVLink
// fabric. They are in one reserved address range at a fixed stride, with a slot each in PE order.
// So device code finds a peer's copy of an object by arithmetic. Two makers, one result: host
// shared memory (CPU mode) and CUDA virtual memory management (GPUs). Invariant: segments are
// anonymous kernel objects; they are gone when the last process that maps them is, however it
// ended.
#pragma once

#include "transport/p2p/fabric_peers.h"
#include "host/control/local_peers.h"

#include <bit>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace gshmem::p2p {

/// Whose heaps to map: those of all PEs that can be, or only the PE's own, which then does not
/// count as mapped (GSHMEM_P2P=0).
enum class Peers { kAll, kNone };

class PeerWindow {
 public:
  virtual ~PeerWindow() = default;
  /// First byte of this PE's heap.
  [[nodiscard]] char* heap() const noexcept { return heap_; }
  [[nodiscard]] std::int64_t stride() const noexcept { return stride_; }
  /// Of every PE's first byte, the same on all: a power of two.
  [[nodiscard]] std::uint64_t alignment() const noexcept { return alignment_of(bytes_); }
  /// Bytes mapped per PE, at least what was asked for.
  [[nodiscard]] std::uint64_t bytes() const noexcept { return bytes_; }
  /// By slot: the PE, ascending.
  [[nodiscard]] const std::vector<int>& pes() const noexcept { return pes_; }
  /// By slot.
  [[nodiscard]] const std::vector<bool>& mapped() const noexcept { return mapped_; }
  /// Why PE `pe` of the job is not mapped; empty where it is.
  [[nodiscard]] virtual std::string why_not(int pe) const = 0;
  /// Whether PE `pe` is mapped by its fabric handle.
  [[nodiscard]] virtual bool by_fabric(int) const { return false; }

 protected:
  /// No block of a heap can have a larger one, up to what takes too many addresses.
  [[nodiscard]] static std::uint64_t alignment_of(std::uint64_t bytes) {
    constexpr std::uint64_t kMost = std::uint64_t{1} << 30;
    return bytes < kMost ? std::bit_ceil(bytes) : kMost;
  }
  /// From heap to heap in the range, so that each is aligned.
  [[nodiscard]] static std::uint64_t stride_of(std::uint64_t bytes) {
    return (bytes + alignment_of(bytes) - 1) & ~(alignment_of(bytes) - 1);
  }

  char* heap_ = nullptr;
  std::int64_t stride_ = 0;
  std::uint64_t bytes_ = 0;
  std::vector<int> pes_;
  std::vector<bool> mapped_;
};

/// Collective over the host. A heap of `bytes` bytes in host shared memory for every PE; those of
/// the PE's local group (local_groups(), by PE) are mapped. Errors: GSHMEMX_ERROR_OUT_OF_MEMORY,
/// GSHMEMX_ERROR_SYSTEM, what LocalPeers::exchange throws.
[[nodiscard]] std::unique_ptr<PeerWindow> make_host_window(control::LocalPeers& local,
                                                           std::uint64_t bytes, Peers peers,
                                                           const std::vector<int>& local_groups);

/// Heaps in the memory of GPUs.
struct CudaWindowOptions {
  control::LocalPeers& local;
  Collectives& boot;
  int device = 0;  ///< its context is current
  std::uint64_t bytes = 0;
  Peers peers = Peers::kAll;
  std::vector<int> local_groups;  ///< by PE
  FabricUse fabric = FabricUse::kOff;
  nvml::GpuFabric place;  ///< of the GPU
};

/// Collective over the host; over the job unless `fabric` is kOff (and then with the same on every
/// PE). A PE whose memory this GPU cannot reach is not mapped, nor one whose fabric handle will not
/// do. Errors: what make_cuda_heap throws, GSHMEMX_ERROR_CUDA.
[[nodiscard]] std::unique_ptr<PeerWindow> make_cuda_window(CudaWindowOptions options);

}  // namespace gshmem::p2p
