#include "host/gpu/host_ops.h"

#include <gshmem/constants.h>
#include <gshmem/device/p2p.h>

#include <algorithm>
#include <cstddef>
#include <cstring>

namespace gshmem {

CudaHostOps::CudaHostOps(const CudaDriver& cuda, CUcontext context)
    : cuda_(cuda), context_(context) {
  // Non-blocking: must not wait for kernels that wait for us.
  GSHMEM_CU(&cuda_, cuStreamCreate, &stream_, CU_STREAM_NON_BLOCKING);
  void* word = nullptr;
  GSHMEM_CU(&cuda_, cuMemHostAlloc, &word, sizeof(*word_),
            CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP);
  word_ = static_cast<std::uint64_t*>(word);
  void* pinned = nullptr;
  GSHMEM_CU(&cuda_, cuMemHostAlloc, &pinned, kStagingBytes, CU_MEMHOSTALLOC_PORTABLE);
  pinned_ = static_cast<char*>(pinned);
  // Now and not at first use: loading a module can wait for running kernels.
  load_service();
}

CudaHostOps::~CudaHostOps() {
  if (service_) cuda_.cuModuleUnload(service_);
  if (word_) cuda_.cuMemFreeHost(word_);
  if (pinned_) cuda_.cuMemFreeHost(pinned_);
  if (stream_) cuda_.cuStreamDestroy(stream_);
}

void CudaHostOps::load_service() {
  GSHMEM_CU(&cuda_, cuModuleLoadData, &service_, gshmem_service_image);
  GSHMEM_CU(&cuda_, cuModuleGetFunction, &kernel_, service_, kServiceKernel);
}

void CudaHostOps::guarded(const std::function<void()>& work) {
  try {
    const std::lock_guard lock(mutex_);
    const CudaScope scope(cuda_, context_);
    work();
  } catch (const Error& error) {
    fault_(error);
  }
}

void CudaHostOps::copy_async(void* dst, const void* src, std::size_t bytes) {
  GSHMEM_CU(&cuda_, cuMemcpyAsync, reinterpret_cast<CUdeviceptr>(dst),
            reinterpret_cast<CUdeviceptr>(src), bytes, stream_);
}

void CudaHostOps::run_service(const ServiceRequest& request, const abi::DeviceState& state) {
  ServiceRequest copy = request;
  abi::DeviceState of = state;
  void* parameters[] = {&of, &copy};
  GSHMEM_CU(&cuda_, cuLaunchKernel, kernel_, 1, 1, 1, 1, 1, 1, 0, stream_, parameters, nullptr);
}

/// Pageable memory must not be copied while a service kernel waits for the network: the driver
/// waits for the kernel with its lock held, which an executor that copies for that very kernel then
/// needs (get of 256 KiB over libfabric: no end). So everything passes through pinned memory of our
/// own, and this thread waits for the stream only.
template <class Piece>
void CudaHostOps::staged(std::size_t bytes, const Piece& piece) {
  for (std::size_t at = 0; at < bytes; at += kStagingBytes) {
    piece(at, std::min(kStagingBytes, bytes - at));
  }
}

bool CudaHostOps::on_gpu(const void* address) const {
  unsigned kind = 0;
  const CUresult result = cuda_.cuPointerGetAttribute(&kind, CU_POINTER_ATTRIBUTE_MEMORY_TYPE,
                                                      reinterpret_cast<CUdeviceptr>(address));
  return result == CUDA_SUCCESS && kind == CU_MEMORYTYPE_DEVICE;
}

void CudaHostOps::copy(void* dst, const void* src, std::size_t bytes) {
  if (bytes == 0) return;
  guarded([&] { copy_async(dst, src, bytes); });
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
    staged(bytes, [&](std::size_t at, std::size_t piece) {
      const char* from = static_cast<const char*>(source) + at;
      copy_async(staging, direct ? from : std::memcpy(pinned_, from, piece), piece);
      ServiceRequest request{};
      request.kind = ServiceRequest::Kind::kPut;
      request.pe = pe;
      request.remote = static_cast<char*>(dest) + at;
      request.local = staging;
      request.bytes = piece;
      run_service(request);
      GSHMEM_CU(&cuda_, cuStreamSynchronize, stream_);  // the pinned memory is free again
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
    staged(bytes, [&](std::size_t at, std::size_t piece) {
      ServiceRequest request{};
      request.kind = ServiceRequest::Kind::kGet;
      request.pe = pe;
      request.remote = const_cast<char*>(static_cast<const char*>(source)) + at;
      request.local = staging;
      request.bytes = piece;
      run_service(request);
      // No copy is queued after the kernel: it could hold up those of an executor that serve it.
      GSHMEM_CU(&cuda_, cuStreamSynchronize, stream_);
      char* to = static_cast<char*>(dest) + at;
      copy_async(direct ? to : pinned_, staging, piece);
      GSHMEM_CU(&cuda_, cuStreamSynchronize, stream_);
      if (!direct) std::memcpy(to, pinned_, piece);
    });
  });
}

/// Operations of host threads go by the PE's own queues, whatever context they name.
void CudaHostOps::complete(const abi::DeviceState& context) {
  guarded([&] {
    ServiceRequest request{};
    request.kind = ServiceRequest::Kind::kQuiet;
    if (state_.nic.queues) run_service(request);
    if (context.nic.queues && context.nic.queues != state_.nic.queues) {
      run_service(request, context);
    }
    GSHMEM_CU(&cuda_, cuStreamSynchronize, stream_);
  });
}

int CudaHostOps::complete_status() {
  bool done = false;
  guarded([&] {
    if (state_.nic.queues) {
      ServiceRequest request{};
      request.kind = ServiceRequest::Kind::kQuietStatus;
      run_service(request);
    }
    GSHMEM_CU(&cuda_, cuStreamSynchronize, stream_);
    done = true;
  });
  if (device::load_acquire(&state_.control->stop) != 0) return device::fault_code(state_);
  return done ? GSHMEMX_SUCCESS : GSHMEMX_ERROR_CUDA;
}

std::uint64_t CudaHostOps::load(const void* address, std::size_t width) {
  // Waits poll by this. The mapping needs neither lock nor stream: nothing orders such a load
  // after copies that this PE has not completed, as OpenSHMEM has it.
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

std::uint64_t CudaHostOps::amo(device::AmoOp op, void* target, std::uint64_t operand,
                               std::uint64_t cond, std::size_t width, int pe) {
  std::uint64_t value = 0;
  guarded([&] {
    ServiceRequest request{};
    request.kind = ServiceRequest::Kind::kAmo;
    request.pe = pe;
    request.remote = target;
    request.operand = operand;
    request.cond = cond;
    request.op = op;
    request.width = static_cast<std::uint32_t>(width);
    request.result = word_;
    run_service(request);
    GSHMEM_CU(&cuda_, cuStreamSynchronize, stream_);
    value = *word_;
  });
  return value;
}

void CudaHostOps::barrier(const char* call) { (void)sync(call, GSHMEM_TEAM_WORLD); }

int CudaHostOps::sync(const char* call, int team) {
  complete();
  return sync_(call, team);
}

void CudaHostOps::zero(void* memory, std::size_t bytes) {
  guarded([&] {
    GSHMEM_CU(&cuda_, cuMemsetD8Async, reinterpret_cast<CUdeviceptr>(memory), 0, bytes, stream_);
    GSHMEM_CU(&cuda_, cuStreamSynchronize, stream_);
  });
}

}  // namespace gshmem
