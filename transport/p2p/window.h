// The peer window: the heaps of the PEs of a host mapped into one reserved address range at a fixed
// stride, a PE's slot being its index on the host, so that device code finds a peer's copy of an
// object by arithmetic. Two makers, one result: host shared memory (CPU mode) and CUDA virtual
// memory management (GPUs). Invariant: segments are anonymous kernel objects; they are gone when
// the last process that maps them is, however it ended.
#pragma once

#include "transport/p2p/peer_sockets.h"

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

namespace gshmem::p2p {

/// Whose heaps to map: those of all PEs of the host that can be, or only the PE's own, which then
/// does not count as mapped (GSHMEM_P2P=0).
enum class Peers { kOfHost, kNone };

class PeerWindow {
 public:
  virtual ~PeerWindow() = default;
  /// First byte of this PE's heap.
  [[nodiscard]] char* heap() const noexcept { return heap_; }
  [[nodiscard]] std::int64_t stride() const noexcept { return stride_; }
  /// Bytes mapped per PE, at least what was asked for.
  [[nodiscard]] std::uint64_t bytes() const noexcept { return bytes_; }
  /// By index on the host.
  [[nodiscard]] const std::vector<bool>& mapped() const noexcept { return mapped_; }
  /// Why the PE with this index is not mapped; empty where it is.
  [[nodiscard]] virtual std::string why_not(int index) const {
    return mapped_[static_cast<std::size_t>(index)] ? "" : "GSHMEM_P2P=0";
  }

 protected:
  char* heap_ = nullptr;
  std::int64_t stride_ = 0;
  std::uint64_t bytes_ = 0;
  std::vector<bool> mapped_;
};

/// Collective over the host. A heap of `bytes` bytes in host shared memory for every PE.
/// Errors: GSHMEMX_ERROR_OUT_OF_MEMORY, GSHMEMX_ERROR_SYSTEM, what PeerSockets::exchange throws.
[[nodiscard]] std::unique_ptr<PeerWindow> make_host_window(PeerSockets& sockets,
                                                           std::uint64_t bytes, Peers peers);

/// Collective over the host. The same in the memory of GPU `device`, whose context is current. A
/// PE whose memory this GPU cannot reach is not mapped.
/// Errors: GSHMEMX_ERROR_OUT_OF_MEMORY naming the free memory, GSHMEMX_ERROR_CUDA.
[[nodiscard]] std::unique_ptr<PeerWindow> make_cuda_window(PeerSockets& sockets, int device,
                                                           std::uint64_t bytes, Peers peers);

}  // namespace gshmem::p2p
