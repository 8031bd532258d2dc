// Call records in streams of the application. All work is done in the stream. The calls do not
// wait, use no memory that a later call reuses, and make no CUDA call that a capture refuses. The
// only exception is a long list (list_ops.cpp), which waits until the copy engine has copied it.
#include "host/runtime/gpu/host_ops.h"

#include <gshmem/device/pe/p2p.h>

#include <algorithm>
#include <memory>

namespace gshmem {

using device::Call;
using device::CallKind;

namespace {

/// The largest transfer to a mapped PE that a kernel makes. The copy engine makes larger ones.
constexpr std::uint64_t kKernelBytes = 256 << 10;

bool is_transfer(CallKind kind) {
  return kind == CallKind::kPut || kind == CallKind::kGet || kind == CallKind::kPutSignal;
}

}  // namespace

/// Returns a thread for 16 bytes or a PE, in full warps.
unsigned CudaHostOps::threads_for(const Call& call) const {
  constexpr std::uint64_t kWarp = 32;
  std::uint64_t wanted = 1;
  if (is_transfer(call.kind) || is_collective(call.kind)) wanted = call.bytes / 16;
  if (call.kind == CallKind::kIput || call.kind == CallKind::kIget)
    wanted = call.bytes / call.width;
  if (call.kind == CallKind::kBarrier || call.kind == CallKind::kSync || is_collective(call.kind))
    wanted = std::max(wanted, static_cast<std::uint64_t>(state_.n_pes));
  const std::uint64_t most = std::min<std::uint64_t>(kServiceThreads, wanted);
  return static_cast<unsigned>(std::max<std::uint64_t>((most + kWarp - 1) / kWarp, 1) * kWarp);
}

bool CudaHostOps::is_known(const void* address) const {
  unsigned kind = 0;
  const CUresult result = cuda_.cuPointerGetAttribute(&kind, CU_POINTER_ATTRIBUTE_MEMORY_TYPE,
                                                      reinterpret_cast<CUdeviceptr>(address));
  if (result == CUDA_ERROR_INVALID_VALUE) return false;
  cuda_.check(result, "cuPointerGetAttribute");
  return true;
}

void CudaHostOps::require_reached(const Call& call, const char* argument,
                                  const void* address) const {
  const bool is_reached = address == nullptr || reaches_all_ || is_known(address);
  require(is_reached, GSHMEMX_ERROR_INVALID_VALUE, [&] {
    return strprintf(
        "%s: argument %s = %p is host memory that the GPU does not reach; register it "
        "(cudaHostRegister), or allocate it with cudaMallocHost or cudaMalloc",
        call.name, argument, address);
  });
}

/// The handles of the default streams refer to the current context.
void CudaHostOps::require_stream(CUstream stream, const Call& call) const {
  if (reinterpret_cast<std::uintptr_t>(stream) <= 2) return;
  CUcontext context = nullptr;
  const CUresult result = cuda_.cuStreamGetCtx(stream, &context);
  if (is_capture_error(result)) return;
  const bool is_stream =
      result != CUDA_ERROR_INVALID_HANDLE && result != CUDA_ERROR_INVALID_CONTEXT;
  if (is_stream) cuda_.check(result, "cuStreamGetCtx");
  require(is_stream && context == context_, GSHMEMX_ERROR_INVALID_VALUE, [&] {
    return strprintf("%s: argument stream = %p is no stream of this PE's GPU", call.name,
                     static_cast<void*>(stream));
  });
}

/// Memory that CUDA does not know is not copied here: the copy could wait for earlier work of the
/// stream.
void CudaHostOps::leave_transfer(CUstream stream, const Call& call) {
  const bool to_peer = call.kind != CallKind::kGet;
  const void* const local = to_peer ? call.source : call.dest;
  if (call.bytes != 0) require_reached(call, to_peer ? "source" : "dest", local);
  if (call.bytes <= kKernelBytes || !device::is_mapped(state_, call.pe) || !is_known(local)) {
    return launch(stream, call, state_, nullptr, threads_for(call));
  }
  void* const source = const_cast<void*>(call.source);
  copy_async(to_peer ? device::peer_address(state_, call.dest, call.pe) : call.dest,
             to_peer ? source : device::peer_address(state_, source, call.pe), call.bytes, stream);
  if (call.kind != CallKind::kPutSignal) return;
  Call signal = call;
  signal.kind = CallKind::kSignal;
  launch(stream, signal, state_, nullptr, threads_for(signal));
}

std::uint64_t CudaHostOps::await_answer(const CUstream* stream, const Call& call,
                                        unsigned threads) {
  int at = 0;
  while (slots_[at].is_used.exchange(true)) at = (at + 1) % kSlots;
  Slot& slot = slots_[at];
  const auto release = [](Slot* of) { of->is_used = false; };
  const std::unique_ptr<Slot, decltype(release)> taken(&slot, release);
  std::uint64_t* const answer = word_ + 1 + at;
  if (!stream) {
    if (!slot.stream) GSHMEM_CU(&cuda_, cuStreamCreate, &slot.stream, CU_STREAM_NON_BLOCKING);
    stream = &slot.stream;
  }
  if (!launch_collective(*stream, call, answer))
    launch(*stream, call, call.context ? *call.context : state_, answer, threads);
  GSHMEM_CU(&cuda_, cuStreamSynchronize, *stream);
  return *answer;
}

/// This is the only call in a stream that a thread waits for.
std::uint64_t CudaHostOps::leave_element(CUstream stream, const Call& call) {
  CUstreamCaptureStatus capture = CU_STREAM_CAPTURE_STATUS_NONE;
  GSHMEM_CU(&cuda_, cuStreamIsCapturing, stream, &capture);
  require(capture == CU_STREAM_CAPTURE_STATUS_NONE, GSHMEMX_ERROR_NOT_SUPPORTED, [&] {
    return strprintf(
        "%s: argument stream is being captured, and the call returns a value: use a "
        "get into memory of the graph",
        call.name);
  });
  return await_answer(&stream, call, 1);
}

std::uint64_t CudaHostOps::leave(CUstream stream, const Call& call) {
  require_stream(stream, call);
  if (call.kind == CallKind::kG) return leave_element(stream, call);
  if (is_transfer(call.kind)) {
    leave_transfer(stream, call);
    return 0;
  }
  if (call.kind == CallKind::kPutv || call.kind == CallKind::kGetv) {
    leave_list(stream, call);
    return 0;
  }
  if (call.kind == CallKind::kIput) require_reached(call, "source", call.source);
  if (call.kind == CallKind::kIget) require_reached(call, "dest", call.dest);
  require_reached(call, "status", call.status);
  require_reached(call, "cmp_values", call.values);
  if (launch_collective(stream, call, nullptr)) return 0;
  const abi::DeviceState& state = call.context ? *call.context : state_;
  launch(stream, call, state, nullptr, threads_for(call));
  return 0;
}

std::uint64_t CudaHostOps::run_in(CUstream stream, const Call& call) {
  std::uint64_t answer = 0;
  const bool orders = call.kind == CallKind::kQuiet || call.kind == CallKind::kQuietStatus ||
                      call.kind == CallKind::kBarrier || call.kind == CallKind::kSync ||
                      call.kind == CallKind::kWait || is_collective(call.kind);
  const int status = in_context([&] {
    answer = leave(stream, call);
    if (orders) forget_calls(&stream);
  });
  const bool has_status =
      call.kind == CallKind::kBarrier || call.kind == CallKind::kSync || is_collective(call.kind);
  return has_status && status != GSHMEMX_SUCCESS ? static_cast<std::uint64_t>(status) : answer;
}

}  // namespace gshmem
