// The peer window: the heaps of the PEs that can be mapped, which are PEs of this host and of its
// NVLink fabric. They are in one reserved address range at a fixed stride, with one slot per PE, in
// PE order. So device code can compute the address of a peer's copy of an object. In each slot, the
// addresses after the heap are for memory that is mapped later: when the heap grows, and memory of
// the program. There are two implementations: host shared memory (CPU mode) and CUDA virtual memory
// management (GPUs). Invariant: segments are anonymous kernel objects. They are freed when the last
// process that maps them ends, however it ends.
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

/// The heaps to map: those of all PEs that can be mapped, or only the PE's own, which then does not
/// count as mapped (GSHMEM_P2P=0).
enum class Peers { kAll, kNone };

class PeerWindow {
 public:
  virtual ~PeerWindow() = default;
  /// Returns the first byte of this PE's heap.
  [[nodiscard]] char* heap() const noexcept { return heap_; }
  [[nodiscard]] std::int64_t stride() const noexcept { return stride_; }
  /// Returns the alignment of every PE's first byte, which is the same on all: a power of two.
  [[nodiscard]] std::uint64_t alignment() const noexcept { return alignment_of(bytes_); }
  /// Returns the bytes mapped per PE, at least what was requested.
  [[nodiscard]] std::uint64_t bytes() const noexcept { return bytes_; }
  /// Do [p, p + bytes) and the window's addresses overlap?
  [[nodiscard]] bool overlaps(const void* p, std::size_t bytes) const noexcept {
    const auto* const first = static_cast<const char*>(p);
    return first < base_ + whole_bytes_ && first + bytes > base_;
  }

  // Memory of the program, and memory that was added to the heap, are at offsets from the heaps'
  // first bytes.
  /// The range for them has this many addresses of that granularity. It begins at a power of two
  /// after the heap.
  [[nodiscard]] std::uint64_t lent_begin() const noexcept { return std::bit_ceil(bytes_); }
  [[nodiscard]] std::uint64_t lent_bytes() const noexcept { return lent_bytes_; }
  [[nodiscard]] std::uint64_t lent_granularity() const noexcept { return lent_granularity_; }
  /// Local: returns the argument for map_lent. Errors: GSHMEMX_ERROR_INVALID_VALUE,
  /// GSHMEMX_ERROR_NOT_SUPPORTED for memory that cannot be shared, with a text that continues
  /// "argument buf_ptr = 0x... ".
  [[nodiscard]] virtual LentMemory lend(const void* p, std::size_t bytes) const = 0;
  /// Collective over the host: maps the memory that this PE and the PEs mapped by it lend, of the
  /// same size each, at `offset`. Errors: GSHMEMX_ERROR_CUDA, GSHMEMX_ERROR_SYSTEM, those of
  /// exchange_lent; afterwards unmap_lent must be called.
  virtual void map_lent(std::uint64_t offset, const LentMemory& mine) = 0;
  /// Local: makes new memory of this PE for map_lent, by which its heap grows; `held` is the size
  /// of its heap so far. `bytes` is a multiple of the granularity. Errors:
  /// GSHMEMX_ERROR_OUT_OF_MEMORY, with the numbers; GSHMEMX_ERROR_NOT_SUPPORTED;
  /// GSHMEMX_ERROR_CUDA, GSHMEMX_ERROR_SYSTEM.
  [[nodiscard]] virtual LentMemory make_more(std::uint64_t bytes, std::uint64_t held) const = 0;
  /// Local: undoes map_lent at `offset`.
  virtual void unmap_lent(std::uint64_t offset) noexcept = 0;

  /// Indexed by slot: the PE, ascending.
  [[nodiscard]] const std::vector<int>& pes() const noexcept { return pes_; }
  /// Indexed by slot.
  [[nodiscard]] const std::vector<bool>& mapped() const noexcept { return mapped_; }
  /// Returns why PE `pe` of the job is not mapped; empty if it is.
  [[nodiscard]] virtual std::string why_not(int pe) const = 0;
  /// Is PE `pe` mapped by its fabric handle?
  [[nodiscard]] virtual bool by_fabric(int) const { return false; }

 protected:
  /// No block of a heap can have a larger alignment; it is limited so that it does not take too
  /// many addresses.
  [[nodiscard]] static std::uint64_t alignment_of(std::uint64_t bytes) {
    constexpr std::uint64_t kMost = std::uint64_t{1} << 30;
    return bytes < kMost ? std::bit_ceil(bytes) : kMost;
  }
  /// Sets the distance from heap to heap in the range, so that each is aligned.
  void set_stride() {
    const std::uint64_t end = lent_bytes_ == 0 ? bytes_ : lent_begin() + lent_bytes_;
    stride_ = static_cast<std::int64_t>((end + alignment() - 1) & ~(alignment() - 1));
  }

  char* base_ = nullptr;           ///< address of slot 0
  std::uint64_t whole_bytes_ = 0;  ///< size of the addresses of all slots
  char* heap_ = nullptr;
  std::int64_t stride_ = 0;
  std::uint64_t bytes_ = 0, lent_bytes_ = 0, lent_granularity_ = 1;
  std::vector<int> pes_;
  std::vector<bool> mapped_;
};

/// Bytes of memory and of addresses for each PE, the same on all; they are rounded up.
struct WindowBytes {
  std::uint64_t heap = 0, lent = 0;
};

/// Collective over the host. Makes a heap in host shared memory for every PE, and maps those of the
/// PE's local group (local_groups(), by PE). `local` outlives the window. Errors:
/// GSHMEMX_ERROR_OUT_OF_MEMORY, GSHMEMX_ERROR_SYSTEM, those of LocalPeers::exchange.
[[nodiscard]] std::unique_ptr<PeerWindow> make_host_window(control::LocalPeers& local,
                                                           WindowBytes bytes, Peers peers,
                                                           const std::vector<int>& local_groups);

/// Options for heaps in GPU memory.
struct CudaWindowOptions {
  control::LocalPeers& local;
  Collectives& boot;
  int device = 0;  ///< its context is current
  WindowBytes bytes;
  Peers peers = Peers::kAll;
  std::vector<int> local_groups;  ///< by PE
  FabricUse fabric = FabricUse::kOff;
  nvml::GpuFabric place;  ///< the fabric of the GPU
};

/// Collective over the host; over the job unless `fabric` is kOff (which is the same on every PE).
/// A PE is not mapped if this GPU cannot access its memory, or if its fabric handle does not work.
/// Errors: those of make_cuda_heap, GSHMEMX_ERROR_CUDA.
[[nodiscard]] std::unique_ptr<PeerWindow> make_cuda_window(CudaWindowOptions options);

}  // namespace gshmem::p2p
