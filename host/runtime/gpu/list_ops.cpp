// Lists of pieces of host threads and streams. Neighbours in a list that are adjacent in memory on
// both sides become one piece. For mapped PEs the copy engine or a kernel moves the pieces, as the
// caller chooses. Over a network the kernel posts the pieces, whose local memory the NIC must be
// able to access. Lists that are longer than the kernel's parameters are first copied to GPU
// memory, except in a capture and over a network.
#include "host/runtime/gpu/host_ops.h"

#include <gshmem/device/pe/p2p.h>

#include <algorithm>
#include <memory>
#include <mutex>
#include <span>

namespace gshmem {

using device::Call, device::CallKind;
using Pieces = std::span<const gshmemx_piece_t>;

namespace {

Pieces pieces_of(const Call& call) {
  return {static_cast<const gshmemx_piece_t*>(call.source), call.bytes};
}
bool is_put(const Call& call) { return call.kind == CallKind::kPutv; }
const void* local_of(const Call& call, const gshmemx_piece_t& piece) {
  return is_put(call) ? piece.source : piece.dest;
}

bool are_neighbours(const gshmemx_piece_t& a, const gshmemx_piece_t& b) {
  return static_cast<char*>(a.dest) + a.bytes == b.dest &&
         static_cast<const char*>(a.source) + a.bytes == b.source;
}

/// The update after a list: a put of no bytes with a signal, which has the fence that orders stores
/// of kernels before the signal.
Call signal_after(const Call& call) {
  Call signal = Call::transfer(CallKind::kPutSignal, call.name, nullptr, nullptr, 0, call.pe, true);
  signal.signal = call.signal;
  signal.operand = call.operand;
  signal.op = call.op;
  return signal;
}

/// Bytes that the pool keeps between calls.
constexpr cuuint64_t kKeptBytes = 64 << 20;

}  // namespace

/// Loads the kernel, unless the driver is too old for its parameters.
void CudaHostOps::load_list_kernel() {
  int version = 0;
  GSHMEM_CU(&cuda_, cuDriverGetVersion, &version);
  if (version < kLargeParametersSince) return;
  GSHMEM_CU(&cuda_, cuModuleLoadData, &list_module_, gshmem_list_kernel_image);
  GSHMEM_CU(&cuda_, cuModuleGetFunction, &list_kernel_, list_module_, kListKernel);
  has_list_kernel_ = true;
}

/// Makes the memory pool. It is the library's own, so that it keeps memory between calls. No
/// allocation waits for kernels of the program: memory of another stream is reused only when it is
/// free.
void CudaHostOps::prepare_uploads() {
  CUdevice device = 0;
  int has_pools = 0;
  GSHMEM_CU(&cuda_, cuCtxGetDevice, &device);
  GSHMEM_CU(&cuda_, cuDeviceGetAttribute, &has_pools, CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED,
            device);
  if (has_pools == 0 || !has_list_kernel_) return;
  CUmemPoolProps properties{};
  properties.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  properties.location.id = device;
  cuuint64_t kept = kKeptBytes;
  int waits = 0;
  if (cuda_.cuMemPoolCreate(&list_pool_, &properties) != CUDA_SUCCESS) {
    list_pool_ = nullptr;
    return;
  }
  GSHMEM_CU(&cuda_, cuMemPoolSetAttribute, list_pool_, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &kept);
  GSHMEM_CU(&cuda_, cuMemPoolSetAttribute, list_pool_,
            CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES, &waits);
  GSHMEM_CU(&cuda_, cuStreamCreate, &upload_stream_, CU_STREAM_NON_BLOCKING);
  void* pinned = nullptr;
  GSHMEM_CU(&cuda_, cuMemHostAlloc, &pinned, kMostUploaded * sizeof(gshmemx_piece_t),
            CU_MEMHOSTALLOC_PORTABLE);
  pinned_list_ = static_cast<gshmemx_piece_t*>(pinned);
}

/// May a list be copied to GPU memory? Not in a capture: a graph keeps only the parameters of its
/// kernels.
bool CudaHostOps::uploads_in(CUstream stream) const {
  if (list_pool_ == nullptr) return false;
  CUstreamCaptureStatus capture = CU_STREAM_CAPTURE_STATUS_NONE;
  const CUresult result = cuda_.cuStreamIsCapturing(stream, &capture);
  if (is_capture_error(result)) return false;
  cuda_.check(result, "cuStreamIsCapturing");
  return capture == CU_STREAM_CAPTURE_STATUS_NONE;
}

bool CudaHostOps::reads(const void* memory) {
  bool is_read = true;
  (void)in_context([&] {
    if (!on_gpu(memory)) return;
    unsigned managed = 0;
    const CUresult result = cuda_.cuPointerGetAttribute(&managed, CU_POINTER_ATTRIBUTE_IS_MANAGED,
                                                        reinterpret_cast<CUdeviceptr>(memory));
    is_read = result == CUDA_SUCCESS && managed != 0;
  });
  return is_read;
}

/// Is the memory in the heap, or registered, so that entries may name it?
bool CudaHostOps::is_named(const void* memory, std::size_t bytes) const {
  const auto offset = static_cast<std::uint64_t>(static_cast<const char*>(memory) - state_.heap);
  return (offset < state_.heap_bytes && bytes <= state_.heap_bytes - offset) ||
         device::is_registered(state_, offset, bytes);
}

/// Calls `work(piece)` for the pieces of the list, and merges adjacent pieces. Pieces in different
/// allocations are not merged: a copy may not cross an allocation, and an entry may not cross the
/// memory of its key.
template <class Work>
void CudaHostOps::for_each_merged(const Call& call, const Work& work) const {
  gshmemx_piece_t last{};
  for (const gshmemx_piece_t& piece : pieces_of(call)) {
    if (piece.bytes == 0) continue;
    const std::size_t sum = last.bytes + piece.bytes;
    if (last.bytes != 0 && are_neighbours(last, piece) && is_named(last.dest, sum) &&
        is_named(last.source, sum)) {
      last.bytes = sum;
      continue;
    }
    if (last.bytes != 0) work(last);
    last = piece;
  }
  if (last.bytes != 0) work(last);
}

/// Errors: those of require_reached. Returns whether the copy engine can access all pieces without
/// waiting.
bool CudaHostOps::require_list_reached(const Call& call) const {
  std::uintptr_t known = reinterpret_cast<std::uintptr_t>(state_.heap),
                 known_bytes = state_.heap_bytes;
  bool all_known = true;
  std::size_t index = 0;
  for (const gshmemx_piece_t& piece : pieces_of(call)) {
    const std::size_t i = index++;
    const void* const local = local_of(call, piece);
    const auto at = reinterpret_cast<std::uintptr_t>(local);
    if (piece.bytes == 0 || (at - known < known_bytes && piece.bytes <= known_bytes - (at - known)))
      continue;
    if (!is_known(local)) {
      all_known = false;
      const std::string name = strprintf("pieces[%zu].%s", i, is_put(call) ? "source" : "dest");
      require_reached(call, name.c_str(), local);
      continue;
    }
    // Its neighbours are probably memory of the same allocation.
    CUdeviceptr start = 0;
    std::size_t bytes = 0;
    const auto address = reinterpret_cast<CUdeviceptr>(local);
    if (cuda_.cuPointerGetAttribute(&start, CU_POINTER_ATTRIBUTE_RANGE_START_ADDR, address) ==
            CUDA_SUCCESS &&
        cuda_.cuPointerGetAttribute(&bytes, CU_POINTER_ATTRIBUTE_RANGE_SIZE, address) ==
            CUDA_SUCCESS &&
        bytes != 0) {
      known = static_cast<std::uintptr_t>(start);
      known_bytes = bytes;
    }
  }
  return all_known;
}

/// Queues copies of the pieces to or from a mapped PE.
void CudaHostOps::copy_list(CUstream stream, const Call& call) {
  std::vector<CUdeviceptr> to, from;
  std::vector<std::size_t> sizes;
  for_each_merged(call, [&](const gshmemx_piece_t& piece) {
    void* const source = const_cast<void*>(piece.source);
    to.push_back(reinterpret_cast<CUdeviceptr>(
        is_put(call) ? device::peer_address(state_, piece.dest, call.pe) : piece.dest));
    from.push_back(reinterpret_cast<CUdeviceptr>(
        is_put(call) ? source : device::peer_address(state_, source, call.pe)));
    sizes.push_back(piece.bytes);
  });
  if (sizes.size() > 1 && copy_batch(stream, to, from, sizes)) return;
  for (std::size_t i = 0; i < sizes.size(); ++i)
    GSHMEM_CU(&cuda_, cuMemcpyAsync, to[i], from[i], sizes[i], stream);
}

/// Queues copies by one call of the driver. Returns false if that is impossible: with an older
/// driver, in the legacy default stream, and in a capture.
bool CudaHostOps::copy_batch(CUstream stream, std::vector<CUdeviceptr>& to,
                             std::vector<CUdeviceptr>& from, std::vector<std::size_t>& sizes) {
  if (cuda_.cuMemcpyBatchAsync == nullptr || reinterpret_cast<std::uintptr_t>(stream) <= 1)
    return false;
  CUstreamCaptureStatus capture = CU_STREAM_CAPTURE_STATUS_NONE;
  GSHMEM_CU(&cuda_, cuStreamIsCapturing, stream, &capture);
  if (capture != CU_STREAM_CAPTURE_STATUS_NONE) return false;
  // CUmemcpyAttributes of CUDA 12.8, which older headers lack: CU_MEMCPY_SRC_ACCESS_ORDER_STREAM,
  // no locations, CU_MEMCPY_FLAG_PREFER_OVERLAP_WITH_COMPUTE.
  struct {
    int order = 1;
    CUmemLocation source{}, dest{};
    unsigned flags = 1;
  } attributes;
  std::size_t first = 0, failed = 0;
  const CUresult result = cuda_.cuMemcpyBatchAsync(
      to.data(), from.data(), sizes.data(), sizes.size(), &attributes, &first, 1, &failed, stream);
  // After these errors single copies are tried; pieces that were copied are copied again.
  if (result == CUDA_ERROR_NOT_SUPPORTED || result == CUDA_ERROR_INVALID_VALUE) return false;
  cuda_.check(result, "cuMemcpyBatchAsync");
  return true;
}

/// Launches the kernel for one request. `total` is the number of bytes of all pieces, for a mapped
/// PE.
void CudaHostOps::launch_request(CUstream stream, ListRequest& request, std::uint64_t total) const {
  const Call& call = request.service.call;
  const bool mapped = device::is_mapped(state_, call.pe);
  const std::uint64_t share = kListThreads / 32 * kListShare;
  const std::uint64_t useful = (total + share - 1) / share;
  const auto blocks = static_cast<unsigned>(
      std::clamp<std::uint64_t>(useful, 1, static_cast<std::uint64_t>(std::max(call.blocks, 1))));
  abi::DeviceState state = state_;
  void* parameters[] = {&state, &request};
  GSHMEM_CU(&cuda_, cuLaunchKernel, list_kernel_, mapped ? blocks : 1, 1, 1,
            mapped ? kListThreads : kPostingThreads, 1, 1, 0, stream, parameters, nullptr);
}

/// Launches the kernel for the first pieces of the pinned memory, after they were copied to GPU
/// memory. The copy waits neither for the stream nor for kernels. From pageable memory, or in
/// `stream`, it could wait. If there is no GPU memory, the pieces are parameters.
void CudaHostOps::launch_uploaded(CUstream stream, ListRequest& request,
                                  std::uint32_t count) const {
  CUdeviceptr memory = 0;
  const std::size_t bytes = count * sizeof(gshmemx_piece_t);
  if (cuda_.cuMemAllocFromPoolAsync(&memory, bytes, list_pool_, upload_stream_) == CUDA_SUCCESS) {
    const auto free = [&](void*) { (void)cuda_.cuMemFreeAsync(memory, stream); };
    const std::unique_ptr<void, decltype(free)> freed(reinterpret_cast<void*>(memory), free);
    GSHMEM_CU(&cuda_, cuMemcpyHtoDAsync, memory, pinned_list_, bytes, upload_stream_);
    GSHMEM_CU(&cuda_, cuStreamSynchronize, upload_stream_);
    request.list = reinterpret_cast<const gshmemx_piece_t*>(memory);
    request.count = count;
    return launch_request(stream, request, pinned_list_[count - 1].bytes);
  }
  request.list = nullptr;
  std::uint64_t before = 0;
  for (std::uint32_t first = 0; first < count; first += request.count) {
    request.count = std::min(kMostPieces, count - first);
    std::copy_n(pinned_list_ + first, request.count, request.pieces);
    for (std::uint32_t i = 0; i < request.count; ++i) request.pieces[i].bytes -= before;
    const std::uint64_t total = request.pieces[request.count - 1].bytes;
    launch_request(stream, request, total);
    before += total;
  }
}

/// Launches the kernel for the pieces of `call` that `is_wanted` accepts, as often as their number
/// requires. It does not update the signal.
template <class IsWanted>
void CudaHostOps::launch_list(CUstream stream, const Call& call, const IsWanted& is_wanted) {
  const bool mapped = device::is_mapped(state_, call.pe);
  const auto request =
      std::make_unique<ListRequest>(ListRequest{ServiceRequest{call, nullptr, ""}, nullptr, 0, {}});
  device::copy_text(request->service.name, call.name, sizeof(request->service.name));
  request->service.call.context = nullptr;  // the kernel uses `state` instead
  request->service.call.signal = nullptr;
  if (call.signal) request->service.call.waits = 1;  // the signal follows
  const bool uploads = mapped && call.bytes > kMostPieces && uploads_in(stream);
  std::unique_lock lock(upload_mutex_, std::defer_lock);
  if (uploads) lock.lock();
  gshmemx_piece_t* const pieces = uploads ? pinned_list_ : request->pieces;
  const std::uint32_t most = uploads ? kMostUploaded : kMostPieces;
  std::uint32_t count = 0;
  std::uint64_t total = 0;
  const auto launch_pieces = [&] {
    if (count == 0) return;
    if (uploads) {
      launch_uploaded(stream, *request, count);
    } else {
      request->count = count;
      launch_request(stream, *request, total);
    }
    count = 0;
    total = 0;
  };
  for_each_merged(call, [&](const gshmemx_piece_t& piece) {
    if (!is_wanted(piece)) return;
    total += piece.bytes;
    pieces[count++] = {piece.dest, piece.source, mapped ? total : piece.bytes};
    if (count == most) launch_pieces();
  });
  launch_pieces();
}

/// Executes a list of a host thread. For mapped PEs it uses the copy engine: a kernel might have to
/// wait for kernels of the program that wait for this call.
void CudaHostOps::run_list(const Call& call) {
  if (device::is_mapped(state_, call.pe)) {
    guarded([&] { copy_list(stream_, call); });
  } else {
    const auto is_direct = [&](const gshmemx_piece_t& piece) {
      return has_list_kernel_ && is_named(local_of(call, piece), piece.bytes);
    };
    guarded([&] { launch_list(stream_, call, is_direct); });
    for_each_merged(call, [&](const gshmemx_piece_t& piece) {
      if (is_direct(piece)) return;
      if (is_put(call)) {
        put(piece.dest, piece.source, piece.bytes, call.pe);
      } else {
        get(piece.dest, piece.source, piece.bytes, call.pe);
      }
    });
  }
  if (!call.waits && !call.signal) return;
  complete();
  // After a fault some pieces may be missing, and the signal must not announce them.
  if (call.signal && __atomic_load_n(&state_.control->stop, __ATOMIC_ACQUIRE) == 0)
    (void)serve(signal_after(call));
}

void CudaHostOps::leave_list(CUstream stream, const Call& call) {
  const bool mapped = device::is_mapped(state_, call.pe);
  const bool known = require_list_reached(call);
  if (mapped && call.blocks == 0 && known) {
    copy_list(stream, call);
  } else if (has_list_kernel_) {
    launch_list(stream, call, [](const gshmemx_piece_t&) { return true; });
  } else {
    require(!mapped, GSHMEMX_ERROR_NOT_SUPPORTED, [&] {
      return strprintf(
          "%s: argument num_blocks = %d needs a driver of CUDA 12.1 or newer; update it, or use 0 "
          "with memory that is registered with CUDA",
          call.name, call.blocks);
    });
    for_each_merged(call, [&](const gshmemx_piece_t& piece) {
      Call one = Call::transfer(is_put(call) ? CallKind::kPut : CallKind::kGet, call.name,
                                piece.dest, piece.source, piece.bytes, call.pe, true);
      leave_transfer(stream, one);
    });
  }
  if (call.signal) launch(stream, signal_after(call), state_, nullptr, 32);
}

}  // namespace gshmem
