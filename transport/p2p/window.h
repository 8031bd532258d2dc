// The peer window: the heaps of all PEs mapped into one reserved address range at a fixed stride,
// so that device code finds a peer's copy of an object by arithmetic. Two makers, one result: host
// shared memory (CPU mode) and CUDA virtual memory management (GPUs). Invariant: segments are
// anonymous kernel objects; they are gone when the last process that maps them is, however it
// ended.
#pragma once

#include "transport/p2p/peer_sockets.h"

#include <cstddef>
#include <memory>

namespace gshmem::p2p {

class PeerWindow {
 public:
  virtual ~PeerWindow() = default;
  /// First byte of PE `pe`'s heap in this process.
  [[nodiscard]] char* heap(int pe) const { return base_ + stride_ * pe; }
  [[nodiscard]] std::int64_t stride() const noexcept { return stride_; }
  /// Bytes mapped per PE, at least what was asked for.
  [[nodiscard]] std::uint64_t bytes() const noexcept { return bytes_; }

 protected:
  char* base_ = nullptr;
  std::int64_t stride_ = 0;
  std::uint64_t bytes_ = 0;
};

/// Collective. A heap of `bytes` bytes in host shared memory on every PE, all mapped here.
/// Errors: GSHMEMX_ERROR_OUT_OF_MEMORY, GSHMEMX_ERROR_SYSTEM, what PeerSockets::exchange throws.
[[nodiscard]] std::unique_ptr<PeerWindow> make_host_window(PeerSockets& sockets,
                                                           std::uint64_t bytes);

/// Collective. The same in the memory of GPU `device`, whose context is current.
/// Errors: GSHMEMX_ERROR_OUT_OF_MEMORY naming the free memory, GSHMEMX_ERROR_CUDA, and
/// GSHMEMX_ERROR_NOT_SUPPORTED naming the PE whose GPU this one cannot reach.
[[nodiscard]] std::unique_ptr<PeerWindow> make_cuda_window(PeerSockets& sockets, int device,
                                                           std::uint64_t bytes);

}  // namespace gshmem::p2p
