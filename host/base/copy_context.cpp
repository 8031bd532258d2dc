#include "host/base/copy_context.h"

#include "host/base/cuda_scope.h"
#include "host/base/log.h"

#include <cstdint>
#include <cstring>
#include <map>
#include <mutex>

namespace gshmem {
namespace {

/// The size from which the driver itself chooses the copy engine (H100, driver 580: from 28 KiB
/// on).
constexpr std::size_t kByEngine = 32 * 1024;

template <class Word>
Word word_at(const char* from) {
  Word word;
  std::memcpy(&word, from, sizeof word);
  return word;
}

}  // namespace

std::shared_ptr<const CopyContext> CopyContext::on(const CudaDriver& cuda, int device) {
  static std::mutex mutex;
  static auto& of_device = *new std::map<int, std::weak_ptr<const CopyContext>>;
  const std::lock_guard lock(mutex);
  std::shared_ptr<const CopyContext> context = of_device[device].lock();
  if (context == nullptr) {
    context = std::make_shared<const CopyContext>(cuda, device);
    of_device[device] = context;
  }
  return context;
}

CopyContext::CopyContext(const CudaDriver& cuda, int device) : cuda_(cuda) {
  const CaptureRelaxed relaxed(cuda_);
  GSHMEM_CU(&cuda_, cuDeviceGet, &device_, device);
  const CUresult made = cuda_.cuCtxCreate(&context_, CU_CTX_SCHED_AUTO, device_);
  is_own_ = made == CUDA_SUCCESS;
  if (is_own_) {
    CUcontext made_current = nullptr;
    cuda_.cuCtxPopCurrent(&made_current);
    return;
  }
  const char* why = "";
  cuda_.cuGetErrorString(made, &why);
  GSHMEM_WARN(
      "GPU %d has no room for a context of this library (cuCtxCreate: %s): while a call such as "
      "cudaMemcpy waits for a kernel, transfers over the network to or from this PE wait, too; "
      "call cudaDeviceSynchronize first, or free memory, or under MPS lower "
      "CUDA_DEVICE_MAX_CONNECTIONS",
      device, why);
  GSHMEM_CU(&cuda_, cuDevicePrimaryCtxRetain, &context_, device_);
}

CopyContext::~CopyContext() {
  CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
  cuda_.cuThreadExchangeStreamCaptureMode(&mode);
  if (is_own_) {
    cuda_.cuCtxDestroy(context_);
  } else {
    cuda_.cuDevicePrimaryCtxRelease(device_);
  }
  cuda_.cuThreadExchangeStreamCaptureMode(&mode);
}

// The driver sends short copies to the GPU through the queue of kernels. There they wait for a time
// slice while a kernel of another context runs: 2.4 ms instead of 8 us, on an H100 without MPS.
// Copies of several rows always use the copy engine, and a word that is written in stream order
// needs no time slice either. So whole words are written first. The bytes before and after them are
// copied as one row of two; the other row repeats bytes that are written already.
void CopyContext::to_gpu(CUdeviceptr to, const void* from, std::size_t bytes,
                         CUstream stream) const {
  CUdeviceptr first = (to + 3) / 4 * 4, end = (to + bytes) / 4 * 4;
  if (bytes >= kByEngine || first >= end) {
    GSHMEM_CU(&cuda_, cuMemcpyHtoDAsync, to, from, bytes, stream);
    return;
  }
  const auto source_of = [&](CUdeviceptr at) { return static_cast<const char*>(from) + (at - to); };
  words(first, source_of(first), end - first, stream);
  const std::size_t before = first - to, after = to + bytes - end;
  if ((before & 2) != 0) {
    first -= 2;
    rows(first, source_of(first), 2, stream);
  }
  if ((before & 1) != 0) rows(to, source_of(to), 1, stream);
  if ((after & 2) != 0) {
    rows(end - 2, source_of(end - 2), 2, stream);
    end += 2;
  }
  if ((after & 1) != 0) rows(end - 1, source_of(end - 1), 1, stream);
}

/// Copies aligned words of 4 bytes.
void CopyContext::words(CUdeviceptr to, const char* from, std::size_t bytes,
                        CUstream stream) const {
  const auto move = [&](std::size_t moved) { to += moved, from += moved, bytes -= moved; };
  const auto word = [&] {
    GSHMEM_CU(&cuda_, cuStreamWriteValue32, stream, to, word_at<std::uint32_t>(from), 0);
    move(4);
  };
  if (to % 8 != 0) word();
  if (const std::size_t width = bytes / 16 * 8; width != 0) {
    rows(to, from, width, stream);
    move(2 * width);
  }
  if (bytes >= 8) {
    GSHMEM_CU(&cuda_, cuStreamWriteValue64, stream, to, word_at<std::uint64_t>(from), 0);
    move(8);
  }
  if (bytes != 0) word();
}

/// Copies two rows without a gap between them.
void CopyContext::rows(CUdeviceptr to, const char* from, std::size_t width, CUstream stream) const {
  CUDA_MEMCPY2D copy{};
  copy.srcMemoryType = CU_MEMORYTYPE_HOST;
  copy.srcHost = from;
  copy.dstMemoryType = CU_MEMORYTYPE_DEVICE;
  copy.dstDevice = to;
  copy.srcPitch = copy.dstPitch = copy.WidthInBytes = width;
  copy.Height = 2;
  GSHMEM_CU(&cuda_, cuMemcpy2DAsync, &copy, stream);
}

}  // namespace gshmem
