#include "host/runtime/gpu/host_ops.h"

#include <gshmem/abi/order_shadow.h>

#include <gshmem/constants.h>
#include <gshmem/device/pe/p2p.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstring>
#include <thread>

namespace gshmem {

using device::Call;
using device::CallKind;

namespace {

/// Does a grid of several blocks execute the call, in which each block moves a part?
bool is_in_parts(const Call& call) { return call.kind == CallKind::kTimed && call.blocks > 0; }

}  // namespace

CudaHostOps::CudaHostOps(const CudaDriver& cuda, CUcontext context)
    : cuda_(cuda), context_(context) {
  // The stream is non-blocking: it must not wait for kernels that wait for this PE.
  GSHMEM_CU(&cuda_, cuStreamCreate, &stream_, CU_STREAM_NON_BLOCKING);
  void* word = nullptr;
  GSHMEM_CU(&cuda_, cuMemHostAlloc, &word, (1 + kSlots) * sizeof(*word_),
            CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP);
  word_ = static_cast<std::uint64_t*>(word);
  void* pinned = nullptr;
  GSHMEM_CU(&cuda_, cuMemHostAlloc, &pinned, kStagingBytes, CU_MEMHOSTALLOC_PORTABLE);
  pinned_ = static_cast<char*>(pinned);
  CUdevice device = 0;
  int pageable = 0;
  GSHMEM_CU(&cuda_, cuCtxGetDevice, &device);
  GSHMEM_CU(&cuda_, cuDeviceGetAttribute, &pageable, CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS,
            device);
  reaches_all_ = pageable != 0;
  // This is done now and not at first use: loading a module can wait for running kernels.
  load_service();
  load_collectives();
  load_list_kernel();
  prepare_uploads();
}

CudaHostOps::~CudaHostOps() {
  if (list_module_) cuda_.cuModuleUnload(list_module_);
  if (list_pool_) cuda_.cuMemPoolDestroy(list_pool_);
  if (pinned_list_) cuda_.cuMemFreeHost(pinned_list_);
  if (upload_stream_) cuda_.cuStreamDestroy(upload_stream_);
  if (collectives_) cuda_.cuModuleUnload(collectives_);
  if (service_) cuda_.cuModuleUnload(service_);
  if (word_) cuda_.cuMemFreeHost(word_);
  if (pinned_) cuda_.cuMemFreeHost(pinned_);
  for (const Slot& slot : slots_)
    if (slot.stream) cuda_.cuStreamDestroy(slot.stream);
  if (stream_) cuda_.cuStreamDestroy(stream_);
}

void CudaHostOps::load_service() {
  GSHMEM_CU(&cuda_, cuModuleLoadData, &service_, gshmem_service_image);
  GSHMEM_CU(&cuda_, cuModuleGetFunction, &kernel_, service_, kServiceKernel);
}

int CudaHostOps::in_context(const std::function<void()>& work) {
  try {
    const CudaScope scope(cuda_, context_);
    work();
    return GSHMEMX_SUCCESS;
  } catch (const Error& error) {
    fault_(error);
    return error.code();
  }
}
void CudaHostOps::guarded(const std::function<void()>& work) {
  const std::lock_guard lock(mutex_);
  (void)in_context(work);
}

std::uint64_t CudaHostOps::run(const Call& call) {
  switch (call.kind) {
    case CallKind::kPut:
      put(call.dest, call.source, call.bytes, call.pe);
      break;
    case CallKind::kP:
      put(call.dest, &call.operand, call.width, call.pe);
      break;
    case CallKind::kGet:
      get(call.dest, call.source, call.bytes, call.pe);
      break;
    case CallKind::kG: {
      std::uint64_t value = 0;
      get(&value, call.source, call.width, call.pe);
      complete();
      return value;
    }
    case CallKind::kIput:
      put_strided(call);
      break;
    case CallKind::kIget:
      get_strided(call);
      break;
    case CallKind::kPutSignal:
      put_signal(call);
      return 0;
    case CallKind::kPutv:
    case CallKind::kGetv:
      run_list(call);
      return 0;
    case CallKind::kCopy:
      copy(call.dest, call.source, call.bytes);
      break;
    case CallKind::kAmo:
    case CallKind::kSignal:
    case CallKind::kProve:
    case CallKind::kOrder:
    case CallKind::kNop:
    case CallKind::kTimed:
      return serve(call);
    case CallKind::kLoad:
      return load(call.source, call.width);
    case CallKind::kQuiet:
      complete(call.context);
      forget_calls(nullptr);
      return 0;
    case CallKind::kQuietStatus:
      forget_calls(nullptr);
      return static_cast<std::uint64_t>(complete_status(call.context));
    case CallKind::kBarrier:
    case CallKind::kSync:
      complete();
      forget_calls(nullptr);
      return static_cast<std::uint64_t>(sync_(call.name, call.team));
    case CallKind::kAlltoall:
    case CallKind::kBroadcast:
    case CallKind::kFcollect:
    case CallKind::kCollect:
    case CallKind::kAlltoalls:
    case CallKind::kReduce:
    case CallKind::kReducescatter:
    case CallKind::kInscan:
    case CallKind::kExscan:
      forget_calls(nullptr);
      return serve_collective(call);
    case CallKind::kWait:  // host threads wait by device/core/wait.h, which loads words
      return 0;
  }
  if (call.waits) complete();
  return 0;
}

void CudaHostOps::copy_async(void* dst, const void* src, std::size_t bytes, CUstream stream) {
  GSHMEM_CU(&cuda_, cuMemcpyAsync, reinterpret_cast<CUdeviceptr>(dst),
            reinterpret_cast<CUdeviceptr>(src), bytes, stream);
}

void CudaHostOps::launch(CUstream stream, const Call& call, const abi::DeviceState& state,
                         std::uint64_t* answer, unsigned threads) {
  ServiceRequest request{call, answer, ""};
  request.call.context = nullptr;  // the kernel uses `state` instead
  device::copy_text(request.name, call.name, sizeof(request.name));
  abi::DeviceState of = state;
  void* parameters[] = {&of, &request};
  const unsigned blocks = is_in_parts(call) ? static_cast<unsigned>(call.blocks) : 1;
  GSHMEM_CU(&cuda_, cuLaunchKernel, kernel_, blocks, 1, 1, threads, 1, 1, 0, stream, parameters,
            nullptr);
}

/// Copies through pinned memory of the library, and waits only for the stream. Pageable memory must
/// not be copied while a service kernel waits for the network. The driver would hold its lock while
/// it waits for the kernel. An executor that copies for that kernel needs the same lock (a get of
/// 256 KiB over libfabric never ended).
template <class Chunk>
void CudaHostOps::staged(std::size_t bytes, const Chunk& chunk) {
  for (std::size_t at = 0; at < bytes; at += kStagingBytes) {
    chunk(at, std::min(kStagingBytes, bytes - at));
  }
}

bool CudaHostOps::on_gpu(const void* address) const {
  unsigned kind = 0;
  const CUresult result = cuda_.cuPointerGetAttribute(&kind, CU_POINTER_ATTRIBUTE_MEMORY_TYPE,
                                                      reinterpret_cast<CUdeviceptr>(address));
  if (result == CUDA_ERROR_INVALID_VALUE) return false;  // CUDA does not know this memory
  cuda_.check(result, "cuPointerGetAttribute");
  return kind == CU_MEMORYTYPE_DEVICE;
}

void CudaHostOps::copy(void* dst, const void* src, std::size_t bytes) {
  if (bytes == 0) return;
  guarded([&] { copy_async(dst, src, bytes, stream_); });
}

void CudaHostOps::finish() {
  guarded([&] { GSHMEM_CU(&cuda_, cuStreamSynchronize, stream_); });
}

void CudaHostOps::put(void* dest, const void* source, std::size_t bytes, int pe) {
  if (device::is_mapped(state_, pe)) {
    return copy(device::peer_address(state_, dest, pe), source, bytes);
  }
  char* staging = state_.heap + offsetof(abi::InternalArea, staging);
  guarded([&] {
    const bool direct = on_gpu(source);
    staged(bytes, [&](std::size_t at, std::size_t chunk) {
      const char* from = static_cast<const char*>(source) + at;
      copy_async(staging, direct ? from : std::memcpy(pinned_, from, chunk), chunk, stream_);
      launch(Call::transfer(CallKind::kPut, "put", static_cast<char*>(dest) + at, staging, chunk,
                            pe, true));
      // Afterwards the pinned memory is free again.
      GSHMEM_CU(&cuda_, cuStreamSynchronize, stream_);
    });
  });
}

void CudaHostOps::get(void* dest, const void* source, std::size_t bytes, int pe) {
  if (device::is_mapped(state_, pe)) {
    return copy(dest, device::peer_address(state_, const_cast<void*>(source), pe), bytes);
  }
  char* staging = state_.heap + offsetof(abi::InternalArea, staging);
  guarded([&] {
    const bool direct = on_gpu(dest);
    staged(bytes, [&](std::size_t at, std::size_t chunk) {
      launch(Call::transfer(CallKind::kGet, "get", staging, static_cast<const char*>(source) + at,
                            chunk, pe, true));
      // No copy is queued after the kernel: it could delay those of an executor that serves the
      // kernel.
      GSHMEM_CU(&cuda_, cuStreamSynchronize, stream_);
      char* to = static_cast<char*>(dest) + at;
      copy_async(direct ? to : pinned_, staging, chunk, stream_);
      GSHMEM_CU(&cuda_, cuStreamSynchronize, stream_);
      if (!direct) std::memcpy(to, pinned_, chunk);
    });
  });
}

void CudaHostOps::put_strided(const Call& call) {
  const char* source = static_cast<const char*>(call.source);
  char* dest = static_cast<char*>(call.dest);
  const std::ptrdiff_t width = call.width;
  for (std::uint64_t done = 0; done < call.bytes; done += call.width) {
    put(dest, source, call.width, call.pe);
    dest += call.dst_stride * width;
    source += call.src_stride * width;
  }
}
void CudaHostOps::get_strided(const Call& call) {
  const char* source = static_cast<const char*>(call.source);
  char* dest = static_cast<char*>(call.dest);
  const std::ptrdiff_t width = call.width;
  for (std::uint64_t done = 0; done < call.bytes; done += call.width) {
    get(dest, source, call.width, call.pe);
    dest += call.dst_stride * width;
    source += call.src_stride * width;
  }
}
void CudaHostOps::put_signal(const Call& call) {
  put(call.dest, call.source, call.bytes, call.pe);
  complete();
  Call signal = call;
  signal.kind = CallKind::kSignal;
  (void)serve(signal);
}

/// Operations of host threads use the PE's own queues, whatever context they name.
void CudaHostOps::launch_on_queues(const Call& quiet, const abi::DeviceState* context) {
  if (state_.nic.queues) launch(quiet);
  if (context && context->nic.queues && context->nic.queues != state_.nic.queues) {
    launch(stream_, quiet, *context, nullptr, 1);
  }
  GSHMEM_CU(&cuda_, cuStreamSynchronize, stream_);
}

void CudaHostOps::complete(const abi::DeviceState* context) {
  guarded([&] { launch_on_queues(Call::quiet("quiet"), context); });
}

int CudaHostOps::complete_status(const abi::DeviceState* context) {
  bool done = false;
  guarded([&] {
    launch_on_queues(Call(CallKind::kQuietStatus, "gshmemx_quiet_status"), context);
    done = true;
  });
  if (device::load_acquire(&state_.control->stop) != 0) return device::fault_code(state_);
  return done ? GSHMEMX_SUCCESS : GSHMEMX_ERROR_CUDA;
}

std::uint64_t CudaHostOps::load(const void* address, std::size_t width) {
  // Waits poll in this way. The mapping needs neither lock nor stream. No order is guaranteed
  // between such a load and copies that this PE has not completed, which OpenSHMEM permits.
  std::uint64_t offset = 0;
  if (mapping_ != nullptr && mapping_->holds(address, width, &offset))
    return mapping_->load(offset, width);
  std::uint64_t value = 0;
  guarded([&] {
    *word_ = 0;
    GSHMEM_CU(&cuda_, cuMemcpyDtoHAsync, word_, reinterpret_cast<CUdeviceptr>(address), width,
              stream_);
    GSHMEM_CU(&cuda_, cuStreamSynchronize, stream_);
    value = *word_;
  });
  return value;
}

/// Makes kernels that run later regard the calls that they have noted as complete.
void CudaHostOps::forget_calls(const CUstream* stream) {
  abi::Control* const control = state_.control;
  if (!control || !control->order) return;
  const std::uint32_t epoch = __atomic_add_fetch(&control->order_epoch, 1, __ATOMIC_RELAXED);
  const auto word = reinterpret_cast<CUdeviceptr>(&control->order->epoch);
  if (stream) return GSHMEM_CU(&cuda_, cuMemsetD32Async, word, epoch, 1, *stream);
  guarded([&] {
    GSHMEM_CU(&cuda_, cuMemsetD32Async, word, epoch, 1, stream_);
    GSHMEM_CU(&cuda_, cuStreamSynchronize, stream_);
  });
}

std::uint64_t CudaHostOps::serve(const Call& call) {
  std::uint64_t value = 0;
  guarded([&] {
    const abi::DeviceState& of = call.context ? *call.context : state_;
    launch(stream_, call, of, word_, is_in_parts(call) ? kServiceThreads : 1);
    GSHMEM_CU(&cuda_, cuStreamSynchronize, stream_);
    value = *word_;
  });
  return value;
}

std::uint64_t CudaHostOps::serve_collective(const Call& call) {
  ++in_collectives_;
  finish();  // as if it were in the stream of the copies
  std::uint64_t answer = 0;
  const int status = in_context([&] { answer = await_answer(nullptr, call, threads_for(call)); });
  --in_collectives_;  // after this the object may be destroyed
  return status == GSHMEMX_SUCCESS ? answer : static_cast<std::uint64_t>(status);
}

void CudaHostOps::await_collectives() const {
  while (in_collectives_ != 0) std::this_thread::sleep_for(std::chrono::milliseconds(1));
}

void CudaHostOps::zero(void* memory, std::size_t bytes) {
  guarded([&] {
    GSHMEM_CU(&cuda_, cuMemsetD8Async, reinterpret_cast<CUdeviceptr>(memory), 0, bytes, stream_);
    GSHMEM_CU(&cuda_, cuStreamSynchronize, stream_);
  });
}

}  // namespace gshmem
