// The peer window: the heaps of the PEs that may be mapped, those of the own host and of its NVLink
// fabric. They are in one reserved address range at a fixed stride, with a slot each in PE order.
// So device code finds a peer's copy of an object by arithmetic. In each slot addresses follow the
// heap at which memory of the program can be mapped. Two makers, one result: host
// shared memory (CPU mode) and CUDA virtual memory management (GPUs). Invariant: segments are
// anonymous kernel objects; they are gone when the last process that maps them is, however it
// ended.
#pragma once

#include "host/control/local_peers.h"
#include "transport/p2p/fabric_peers.h"
#include "transport/p2p/lent_memory.h"

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
  /// Alignment of every PE's first byte, the same on all: a power of two.
  [[nodiscard]] std::uint64_t alignment() const noexcept { return alignment_of(bytes_); }
  /// Bytes mapped per PE, at least what was asked for.
  [[nodiscard]] std::uint64_t bytes() const noexcept { return bytes_; }
  /// [p, p + bytes) and the window's addresses have some in common.
  [[nodiscard]] bool meets(const void* p, std::size_t bytes) const noexcept {
    const auto* const first = static_cast<const char*>(p);
    return first < base_ + whole_bytes_ && first + bytes > base_;
  }

  // Memory of the program, at offsets from the heaps' first bytes.
  /// So many addresses are for it, of that granularity, from a power of two on that no heap
  /// reaches.
  [[nodiscard]] std::uint64_t lent_begin() const noexcept { return std::bit_ceil(bytes_); }
  [[nodiscard]] std::uint64_t lent_bytes() const noexcept { return lent_bytes_; }
  [[nodiscard]] std::uint64_t lent_granularity() const noexcept { return lent_granularity_; }
  /// Local: what map_lent takes. Errors: GSHMEMX_ERROR_INVALID_VALUE, GSHMEMX_ERROR_NOT_SUPPORTED
  /// where it is not made to be shared, in words that go on after "argument buf_ptr = 0x... ".
  [[nodiscard]] virtual LentMemory lend(const void* p, std::size_t bytes) const = 0;
  /// Collective over the host: maps what this PE and those that it maps lend, as many bytes each,
  /// at `offset`. Errors: GSHMEMX_ERROR_CUDA, GSHMEMX_ERROR_SYSTEM, those of exchange_lent; then
  /// unmap_lent is to be called.
  virtual void map_lent(std::uint64_t offset, const LentMemory& mine) = 0;
  /// Local: takes back what map_lent has done at `offset`.
  virtual void unmap_lent(std::uint64_t offset) noexcept = 0;

  /// Indexed by slot: the PE, ascending.
  [[nodiscard]] const std::vector<int>& pes() const noexcept { return pes_; }
  /// Indexed by slot.
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
  void set_stride() {
    const std::uint64_t end = lent_bytes_ == 0 ? bytes_ : lent_begin() + lent_bytes_;
    stride_ = static_cast<std::int64_t>((end + alignment() - 1) & ~(alignment() - 1));
  }

  char* base_ = nullptr;           ///< of slot 0
  std::uint64_t whole_bytes_ = 0;  ///< addresses of all slots
  char* heap_ = nullptr;
  std::int64_t stride_ = 0;
  std::uint64_t bytes_ = 0, lent_bytes_ = 0, lent_granularity_ = 1;
  std::vector<int> pes_;
  std::vector<bool> mapped_;
};

/// Bytes of memory and of addresses for each PE, the same on all; rounded up.
struct WindowBytes {
  std::uint64_t heap = 0, lent = 0;
};

/// Collective over the host. A heap in host shared memory for every PE; those of the PE's local
/// group (local_groups(), by PE) are mapped. `local` outlives the use of the window. Errors:
/// GSHMEMX_ERROR_OUT_OF_MEMORY, GSHMEMX_ERROR_SYSTEM, what LocalPeers::exchange throws.
[[nodiscard]] std::unique_ptr<PeerWindow> make_host_window(control::LocalPeers& local,
                                                           WindowBytes bytes, Peers peers,
                                                           const std::vector<int>& local_groups);

/// Heaps in the memory of GPUs.
struct CudaWindowOptions {
  control::LocalPeers& local;
  Collectives& boot;
  int device = 0;  ///< its context is current
  WindowBytes bytes;
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
