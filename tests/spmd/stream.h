// A CUDA stream of a test, and launches in it. In CPU mode there are no streams: the work is done
// at once. Included by tests of on_stream calls.
#pragma once

#include "tests/spmd/spmd.h"

#include <algorithm>

namespace gshmem::spmd {

/// Why a body is skipped in CPU mode.
inline constexpr char kNoStreams[] = "there are no streams in CPU mode";

/// Must a body that waits in streams be skipped, because PEs of one process share a GPU's context?
/// CUDA does not promise that streams of one context run concurrently. On an H100 with 4 such PEs
/// the next kernel of one stream did not start while those of three others waited for it, with 8
/// and with 32 hardware queues. Processes under MPS, one for each PE, run the same bodies.
[[nodiscard]] inline bool streams_hold_each_other_up(Pe& pe) {
  const bool share = pe.on_gpu() && pe.mode() == Mode::kThreads &&
                     gshmemx_init_status() == GSHMEMX_INIT_STATUS_LIMITED_MPG;
  if (share) pe.skip("PEs of one process share a GPU, whose streams hold each other up");
  return share;
}

/// Returns how many streams each PE may have at most, of `wanted`, so that every one has a hardware
/// queue of its own: many processes under MPS have few each.
[[nodiscard]] inline std::size_t most_streams(const Pe& pe, std::size_t wanted) {
  const bool is_crowded = gshmemx_init_status() == GSHMEMX_INIT_STATUS_FULL_MPG && pe.n() > 4;
  return is_crowded ? std::min<std::size_t>(wanted, 2) : wanted;
}

/// Made by what only units that nvcc compiles can call; static, as launch is.
class Stream {
 public:
  explicit Stream([[maybe_unused]] const Pe& pe) {
#if defined(__CUDACC__)
    if (!pe.on_gpu()) return;
    const detail::GpuScope scope;
    detail::check_cuda(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking),
                       "cudaStreamCreateWithFlags");
#endif
  }
  ~Stream() {
#if defined(__CUDACC__)
    if (stream_) (void)cudaStreamDestroy(stream_);
#endif
  }
  Stream(const Stream&) = delete;
  [[nodiscard]] gshmemx_stream_t get() const { return stream_; }
  void finish() const { synchronize(stream_); }
  /// `functor(ctx, log, args...)` by one block, after what is in the stream.
  template <class F, class... Args>
  void run(const Pe& pe, const F& functor, Args... args) const {
    launch({.blocks = 1, .threads = pe.on_gpu() ? 64u : 3u, .stream = stream_}, functor, pe.log(),
           args...);
  }

 private:
  gshmemx_stream_t stream_ = nullptr;
};

}  // namespace gshmem::spmd
