// A CUDA stream of a test, and launches in it. In CPU mode there are no streams: what would go into
// one is done at once. Included by tests of on_stream calls.
#pragma once

#include "tests/spmd/spmd.h"

namespace gshmem::spmd {

/// Why a body is left out in CPU mode.
inline constexpr char kNoStreams[] = "there are no streams in CPU mode";

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
