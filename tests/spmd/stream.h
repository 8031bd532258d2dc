// A CUDA stream of a test, and launches in it. In CPU mode there are no streams: what would go into
// one is done at once. Included by tests of on_stream calls.
#pragma once

#include "tests/spmd/spmd.h"

namespace gshmem::spmd {

/// Why a body is left out in CPU mode.
inline constexpr char kNoStreams[] = "there are no streams in CPU mode";

/// How many streams each PE may have at most, of `wanted`, so that every one has a hardware queue
/// of its own: a process has 32 of them on a GPU, for the PEs' own streams, too.
[[nodiscard]] inline std::size_t most_streams(const Pe& pe, std::size_t wanted) {
  const bool shared = gshmemx_init_status() == GSHMEMX_INIT_STATUS_LIMITED_MPG;
  const std::size_t pes = static_cast<std::size_t>(pe.n());
  return shared && pes * (wanted + 3) > 32 ? (pes * 5 > 32 ? 1 : 2) : wanted;
}
inline constexpr char kTooManyStreams[] = "a process has fewer hardware queues than this needs";

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
