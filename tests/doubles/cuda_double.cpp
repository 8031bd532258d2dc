#include "tests/doubles/cuda_double.h"

#include "tests/doubles/cuda_heaps.h"

#include <cuda.h>

#include <sched.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <map>
#include <string_view>
#include <vector>

namespace gshmem::test {
namespace {

struct Copy {
  std::uint8_t* to;
  const std::uint8_t* from;  ///< null: the copied bytes are `value`
  std::size_t bytes;
  std::int64_t due_ns;
  bool to_device;
  std::uint64_t value;
};
/// A smaller copy goes through the queue of kernels unless it has rows.
constexpr std::size_t kByEngine = 28 * 1024;
struct Stream {
  std::deque<Copy> copies;
  std::int64_t busy_until_ns = 0;
};
struct GpuBlock {
  std::uint8_t* view;
  std::size_t bytes;
};

/// All state but the record, under record().mutex.
struct World {
  std::map<std::uintptr_t, GpuBlock> gpu;
  std::map<std::uintptr_t, std::size_t> pinned;
};

CudaDouble& record() {
  static auto& one = *new CudaDouble;
  return one;
}
World& world() {
  static auto& one = *new World;
  return one;
}
thread_local std::vector<CUcontext> contexts_of_thread;  ///< the stack of this thread
thread_local CUstreamCaptureMode capture_mode = CU_STREAM_CAPTURE_MODE_GLOBAL;

std::int64_t now_ns() {
  timespec now = {};
  ::clock_gettime(CLOCK_MONOTONIC, &now);
  return std::int64_t{now.tv_sec} * 1'000'000'000 + now.tv_nsec;
}

CUresult violation(const std::string& what, CUresult result) {
  record().violations.push_back(what);
  return result;
}

/// The address of a device's element is its context; the second part has contexts that an
/// application has made, the third part those of the library.
constexpr int kDevices = 32;
char all_contexts[3 * kDevices];
std::atomic<unsigned> flags_of_context[2 * kDevices];
std::ptrdiff_t number_of(CUcontext context) {
  return reinterpret_cast<char*>(context) - all_contexts;
}
int device_of(CUcontext context) { return static_cast<int>(number_of(context)) % kDevices; }
bool is_made(CUcontext context) { return number_of(context) >= 2 * kDevices; }

bool in_context(const char* call) {
  const CUcontext context = contexts_of_thread.empty() ? nullptr : contexts_of_thread.back();
  const bool waits = context != nullptr && record().held && !is_made(context);
  if (context != nullptr && !waits) return true;
  const std::lock_guard lock(record().mutex);
  violation(std::string(call) + (waits ? " in a context that a call of the application holds"
                                       : " without a context"),
            CUDA_ERROR_INVALID_CONTEXT);
  return false;
}

/// Would the call break the capture of another thread?
bool breaks_capture(const char* call) {
  if (!record().capturing || capture_mode == CU_STREAM_CAPTURE_MODE_RELAXED) return false;
  const std::lock_guard lock(record().mutex);
  violation(std::string(call) + " while another thread captures", CUDA_ERROR_UNKNOWN);
  return true;
}
constexpr CUresult kCaptured = CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;

/// Returns the test's view of a range of GPU memory, or null if it is none. Requires the lock.
std::uint8_t* view_of(CUdeviceptr address, std::size_t bytes) {
  auto above = world().gpu.upper_bound(address);
  if (above == world().gpu.begin()) return nullptr;
  const auto& [base, block] = *--above;
  const std::size_t into = address - base;
  return into <= block.bytes && bytes <= block.bytes - into ? block.view + into : nullptr;
}

bool is_pinned(const void* memory, std::size_t bytes) {
  const auto address = reinterpret_cast<std::uintptr_t>(memory);
  auto above = world().pinned.upper_bound(address);
  if (above == world().pinned.begin()) return false;
  const auto& [base, size] = *--above;
  return address - base <= size && bytes <= size - (address - base);
}

/// Executes the copies that are due; returns true when none is left.
bool advance(Stream& stream, std::int64_t now) {
  while (!stream.copies.empty() && stream.copies.front().due_ns <= now) {
    const Copy copy = stream.copies.front();
    if (copy.to_device && record().holding_to_device) break;
    const void* const from = copy.from;
    std::memcpy(copy.to, from != nullptr ? from : &copy.value, copy.bytes);
    stream.copies.pop_front();
  }
  return stream.copies.empty();
}

CUresult start(CUstream handle, CUdeviceptr device, const void* host, std::size_t bytes,
               bool to_device, std::uint64_t value = 0) {
  if (!in_context("cuMemcpyAsync")) return CUDA_ERROR_INVALID_CONTEXT;
  CudaDouble& seen = record();
  const std::lock_guard lock(seen.mutex);
  std::uint8_t* const view = is_allocated(device, bytes) ? reinterpret_cast<std::uint8_t*>(device)
                                                         : view_of(device, bytes);
  if (view == nullptr) return violation("a copy outside of GPU memory", CUDA_ERROR_INVALID_VALUE);
  if (host != nullptr && !is_pinned(host, bytes)) {
    return violation("a copy with host memory that is not pinned", CUDA_ERROR_INVALID_VALUE);
  }
  std::atomic<int>& failing = to_device ? seen.failing_to_device : seen.failing_to_host;
  if (failing.load() > 0) {
    --failing;
    return CUDA_ERROR_ILLEGAL_ADDRESS;
  }
  ++(to_device ? seen.to_device : seen.to_host);
  if (bytes >= 4096 && reinterpret_cast<std::uintptr_t>(host) % 256 != device % 256) {
    ++seen.misaligned;
  }
  auto& stream = *reinterpret_cast<Stream*>(handle);
  const std::int64_t rate = seen.bytes_per_ns;
  stream.busy_until_ns = std::max(stream.busy_until_ns, now_ns() + seen.latency_ns) +
                         (rate > 0 ? static_cast<std::int64_t>(bytes) / rate : 0);
  auto* const memory = static_cast<std::uint8_t*>(const_cast<void*>(host));
  stream.copies.push_back({to_device ? view : memory, to_device ? memory : view, bytes,
                           stream.busy_until_ns, to_device, value});
  return CUDA_SUCCESS;
}

CUresult to_device(CUdeviceptr to, const void* from, std::size_t bytes, CUstream stream) {
  if ((to + 3) / 4 * 4 < (to + bytes) / 4 * 4 && bytes < kByEngine) ++record().by_time_slice;
  return start(stream, to, from, bytes, true);
}
/// Copies rows without gaps.
CUresult rows_to_device(const CUDA_MEMCPY2D* copy, CUstream stream) {
  const std::size_t width = copy->WidthInBytes;
  if (copy->srcMemoryType != CU_MEMORYTYPE_HOST || copy->dstMemoryType != CU_MEMORYTYPE_DEVICE ||
      copy->srcPitch != width || copy->dstPitch != width)
    return CUDA_ERROR_INVALID_VALUE;
  if (copy->Height < 2) ++record().by_time_slice;
  return start(stream, copy->dstDevice, copy->srcHost, width * copy->Height, true);
}
template <class Word>
CUresult write_value(CUstream stream, CUdeviceptr to, Word value, unsigned) {
  if (to % sizeof value != 0) return CUDA_ERROR_INVALID_VALUE;
  return start(stream, to, nullptr, sizeof value, true, value);
}
CUresult to_host(void* to, CUdeviceptr from, std::size_t bytes, CUstream stream) {
  return start(stream, from, to, bytes, false);
}

CUresult query(CUstream handle) {
  if (!in_context("cuStreamQuery")) return CUDA_ERROR_INVALID_CONTEXT;
  if (breaks_capture("cuStreamQuery")) return kCaptured;
  ++record().queries;
  if (record().refused_queries > 0) return --record().refused_queries, kCaptured;
  const std::lock_guard lock(record().mutex);
  return advance(*reinterpret_cast<Stream*>(handle), now_ns()) ? CUDA_SUCCESS
                                                               : CUDA_ERROR_NOT_READY;
}
CUresult synchronize(CUstream handle) {
  if (!in_context("cuStreamSynchronize")) return CUDA_ERROR_INVALID_CONTEXT;
  if (record().failed) return CUDA_ERROR_ILLEGAL_ADDRESS;
  if (breaks_capture("cuStreamSynchronize")) return kCaptured;
  if (record().holding_collectives && has_collective(handle)) {
    ++record().held_collectives;
    while (record().holding_collectives) sched_yield();
    --record().held_collectives;
  }
  note_wait(handle);
  for (bool first = true;; first = false) {
    const std::lock_guard lock(record().mutex);
    auto& stream = *reinterpret_cast<Stream*>(handle);
    if (first && !stream.copies.empty()) ++record().waits;
    if (advance(stream, now_ns())) return CUDA_SUCCESS;
  }
}
CUresult create_stream(CUstream* stream, unsigned flags) {
  if (!in_context("cuStreamCreate")) return CUDA_ERROR_INVALID_CONTEXT;
  if (flags != CU_STREAM_NON_BLOCKING) {
    const std::lock_guard lock(record().mutex);
    return violation("a stream that waits for kernels of the default stream",
                     CUDA_ERROR_INVALID_VALUE);
  }
  *stream = reinterpret_cast<CUstream>(new Stream);
  ++record().streams;
  return CUDA_SUCCESS;
}
CUresult destroy_stream(CUstream stream) {
  --record().streams;
  if (record().holding_collectives && has_collective(stream)) {
    const std::lock_guard lock(record().mutex);
    return violation("the end of a stream in which a kernel runs", CUDA_ERROR_INVALID_VALUE);
  }
  delete reinterpret_cast<Stream*>(stream);
  return CUDA_SUCCESS;
}

CUresult host_alloc(void** memory, std::size_t bytes, unsigned) {
  if (!in_context("cuMemHostAlloc")) return CUDA_ERROR_INVALID_CONTEXT;
  if (breaks_capture("cuMemHostAlloc")) return kCaptured;
  *memory = std::aligned_alloc(4096, (bytes + 4095) / 4096 * 4096);
  const std::lock_guard lock(record().mutex);
  world().pinned[reinterpret_cast<std::uintptr_t>(*memory)] = bytes;
  return CUDA_SUCCESS;
}
CUresult host_free(void* memory) {
  {
    const std::lock_guard lock(record().mutex);
    world().pinned.erase(reinterpret_cast<std::uintptr_t>(memory));
  }
  std::free(memory);
  return CUDA_SUCCESS;
}

CUresult attribute(void* value, CUpointer_attribute which, CUdeviceptr address) {
  if (record().failed) return CUDA_ERROR_ILLEGAL_ADDRESS;
  const std::lock_guard lock(record().mutex);
  if (view_of(address, 1) == nullptr && !is_of_gpu(address)) return CUDA_ERROR_INVALID_VALUE;
  const unsigned answer = which == CU_POINTER_ATTRIBUTE_MEMORY_TYPE ? CU_MEMORYTYPE_DEVICE : 0;
  std::memcpy(value, &answer, sizeof answer);  // not managed, of device 0
  return CUDA_SUCCESS;
}

CUresult init(unsigned) { return CUDA_SUCCESS; }
CUresult driver_version(int* version) {
  return *version = std::getenv("CUDA_DOUBLE_OLD") ? 12000 : 13000, CUDA_SUCCESS;
}
CUresult device_get(CUdevice* device, int number) { return *device = number, CUDA_SUCCESS; }
/// Users of each primary context that had one. Without any it is destroyed, and stays current where
/// it is.
struct Primary {
  std::atomic<int> users{0};
  std::atomic<bool> had_one{false};
} primaries[kDevices];
bool is_destroyed(CUcontext context) {
  if (number_of(context) >= kDevices) return false;
  const Primary& primary = primaries[number_of(context)];
  return primary.had_one && primary.users == 0;
}
CUresult retain(CUcontext* context, CUdevice device) {
  ++primaries[device].users;
  primaries[device].had_one = true;
  *context = reinterpret_cast<CUcontext>(&all_contexts[device]);
  return CUDA_SUCCESS;
}
CUresult release(CUdevice device) { return --primaries[device].users, CUDA_SUCCESS; }
CUresult create_context(CUcontext* context, unsigned, CUdevice device) {
  if (breaks_capture("cuCtxCreate")) return kCaptured;
  if (record().crowded) return CUDA_ERROR_OUT_OF_MEMORY;
  *context = reinterpret_cast<CUcontext>(&all_contexts[2 * kDevices + device]);
  contexts_of_thread.push_back(*context);
  return ++record().made, CUDA_SUCCESS;
}
CUresult destroy_context(CUcontext) {
  if (breaks_capture("cuCtxDestroy")) return kCaptured;
  return --record().made, CUDA_SUCCESS;
}
CUresult push(CUcontext context) {
  if (record().gone) return CUDA_ERROR_CONTEXT_IS_DESTROYED;
  contexts_of_thread.push_back(context);
  ++record().contexts;
  return CUDA_SUCCESS;
}
CUresult pop(CUcontext* context) {
  *context = nullptr;
  if (contexts_of_thread.empty()) {
    const std::lock_guard lock(record().mutex);
    return violation("a pop without a context", CUDA_ERROR_INVALID_CONTEXT);
  }
  *context = contexts_of_thread.back();
  contexts_of_thread.pop_back();
  return CUDA_SUCCESS;
}
CUresult set_current(CUcontext context) {
  if (!contexts_of_thread.empty()) contexts_of_thread.pop_back();
  if (context != nullptr) contexts_of_thread.push_back(context);
  return CUDA_SUCCESS;
}
CUresult current(CUcontext* context) {
  *context = contexts_of_thread.empty() ? nullptr : contexts_of_thread.back();
  return CUDA_SUCCESS;
}
CUresult current_device(CUdevice* device) {
  if (contexts_of_thread.empty()) return CUDA_ERROR_INVALID_CONTEXT;
  if (is_destroyed(contexts_of_thread.back())) return CUDA_ERROR_CONTEXT_IS_DESTROYED;
  return *device = device_of(contexts_of_thread.back()), CUDA_SUCCESS;
}
CUresult get_flags(unsigned* flags) {
  if (contexts_of_thread.empty()) return CUDA_ERROR_INVALID_CONTEXT;
  return *flags = flags_of_context[number_of(contexts_of_thread.back())], CUDA_SUCCESS;
}
/// Waits for the context when a flag is new, so it breaks captures in any mode, as CUDA 13.0 does
/// on an H100.
CUresult set_flags(unsigned flags) {
  if (contexts_of_thread.empty()) return CUDA_ERROR_INVALID_CONTEXT;
  std::atomic<unsigned>& now = flags_of_context[number_of(contexts_of_thread.back())];
  if (record().capturing && (flags & ~now) != 0) {
    const std::lock_guard lock(record().mutex);
    return violation("cuCtxSetFlags while another thread captures", kCaptured);
  }
  return now = flags, CUDA_SUCCESS;
}
/// Returns the context of a stream that the application has passed to the library.
CUresult stream_context(CUstream stream, CUcontext* context) {
  if (record().failed) return CUDA_ERROR_ILLEGAL_ADDRESS;
  const auto number = (reinterpret_cast<std::uintptr_t>(stream) - kCudaDoubleStreams) / 16;
  if (number >= kDevices) return CUDA_ERROR_INVALID_HANDLE;
  *context = reinterpret_cast<CUcontext>(&all_contexts[number]);
  return CUDA_SUCCESS;
}
/// Only the stream that is being captured synchronizes with the default stream.
CUresult is_capturing(CUstream stream, CUstreamCaptureStatus* status) {
  const auto handle = reinterpret_cast<std::uintptr_t>(stream);
  const bool is_own = handle - kCudaDoubleStreams < 16 * kDevices && handle % 16 == 8;
  *status = is_own ? CU_STREAM_CAPTURE_STATUS_ACTIVE : CU_STREAM_CAPTURE_STATUS_NONE;
  const bool by_default = stream == CU_STREAM_LEGACY && record().capturing;
  return by_default ? CUDA_ERROR_STREAM_CAPTURE_IMPLICIT : CUDA_SUCCESS;
}
CUresult exchange_capture_mode(CUstreamCaptureMode* mode) {
  return std::swap(*mode, capture_mode), CUDA_SUCCESS;
}
CUresult set_attribute(const void* value, CUpointer_attribute which, CUdeviceptr) {
  if (which != CU_POINTER_ATTRIBUTE_SYNC_MEMOPS || *static_cast<const unsigned*>(value) != 1)
    return CUDA_ERROR_INVALID_VALUE;
  return ++record().synchronous_ranges, CUDA_SUCCESS;
}
CudaDoubleCode code_in_gpu;
bool in_code(CUdeviceptr at, std::size_t bytes) {
  const auto begin = reinterpret_cast<CUdeviceptr>(&code_in_gpu.symbol);
  return at >= begin && at + bytes <= begin + code_in_gpu.bytes;
}
CUresult find_global(CUdeviceptr* at, std::size_t* bytes, std::uintptr_t code, const char* name) {
  if (code != kCudaDoubleCode || name != std::string_view("gshmemi_device_state"))
    return CUDA_ERROR_NOT_FOUND;
  *at = reinterpret_cast<CUdeviceptr>(&code_in_gpu.symbol);
  return *bytes = code_in_gpu.bytes, CUDA_SUCCESS;
}
CUresult copy_to_code(CUdeviceptr to, const void* from, std::size_t bytes) {
  if (!in_code(to, bytes)) return CUDA_ERROR_INVALID_VALUE;
  return std::memcpy(reinterpret_cast<void*>(to), from, bytes), CUDA_SUCCESS;
}
CUresult copy_from_code(void* to, CUdeviceptr from, std::size_t bytes) {
  if (!in_code(from, bytes)) return CUDA_ERROR_INVALID_VALUE;
  return std::memcpy(to, reinterpret_cast<const void*>(from), bytes), CUDA_SUCCESS;
}
/// CUDA 12.8: cuMemGetHandleForAddressRange, whose range is whole pages of the host.
CUresult export_range(void* handle, CUdeviceptr address, std::size_t bytes,
                      CUmemRangeHandleType type, unsigned long long flags) {
  constexpr unsigned long long kPcie = 1;  // CU_MEM_RANGE_FLAG_DMA_BUF_MAPPING_TYPE_PCIE
  const std::lock_guard lock(record().mutex);
  const auto page = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  if (address % page != 0 || bytes % page != 0 || type != CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD ||
      (flags & ~kPcie) != 0)
    return violation("a range that has no dmabuf", CUDA_ERROR_INVALID_VALUE);
  if (view_of(address, bytes) == nullptr) return CUDA_ERROR_NOT_SUPPORTED;  // heaps of cuMemMap
  if (flags != 0 && record().no_pcie_mapping) return CUDA_ERROR_NOT_SUPPORTED;
  ++(flags != 0 ? record().pcie_dmabufs : record().plain_dmabufs);
  const int file = ::memfd_create("dmabuf of the double", MFD_CLOEXEC);
  std::memcpy(handle, &file, sizeof file);
  return CUDA_SUCCESS;
}
CUresult error_text(CUresult, const char** text) { return *text = "by the double", CUDA_SUCCESS; }
CUresult not_in_the_double() { return CUDA_ERROR_NOT_SUPPORTED; }

template <class F>
void* address_of(F* function) {
  return reinterpret_cast<void*>(function);
}

void* find(const std::string& name) {
  static const std::map<std::string, void*> functions{
      {"cuInit", address_of(init)},
      {"cuDriverGetVersion", address_of(driver_version)},
      {"cuDeviceGet", address_of(device_get)},
      {"cuDevicePrimaryCtxRetain", address_of(retain)},
      {"cuDevicePrimaryCtxRelease", address_of(release)},
      {"cuCtxCreate", address_of(create_context)},
      {"cuCtxDestroy", address_of(destroy_context)},
      {"cuCtxPushCurrent", address_of(push)},
      {"cuCtxPopCurrent", address_of(pop)},
      {"cuCtxSetCurrent", address_of(set_current)},
      {"cuCtxGetCurrent", address_of(current)},
      {"cuCtxGetDevice", address_of(current_device)},
      {"cuCtxGetFlags", address_of(get_flags)},
      {"cuCtxSetFlags", std::getenv("CUDA_DOUBLE_OLD") ? nullptr : address_of(set_flags)},
      {"cuStreamIsCapturing", address_of(is_capturing)},
      {"cuThreadExchangeStreamCaptureMode", address_of(exchange_capture_mode)},
      {"cuPointerSetAttribute", address_of(set_attribute)},
      {"cuModuleGetGlobal", address_of(find_global)},
      {"cuLibraryGetGlobal", address_of(find_global)},
      {"cuMemcpyHtoD", address_of(copy_to_code)},
      {"cuMemcpyDtoH", address_of(copy_from_code)},
      {"cuGetErrorName", address_of(error_text)},
      {"cuGetErrorString", address_of(error_text)},
      {"cuMemGetHandleForAddressRange", address_of(export_range)},
      {"cuMemHostAlloc", address_of(host_alloc)},
      {"cuMemFreeHost", address_of(host_free)},
      {"cuMemcpyHtoDAsync", address_of(to_device)},
      {"cuMemcpyDtoHAsync", address_of(to_host)},
      {"cuMemcpy2DAsync", address_of(rows_to_device)},
      {"cuStreamWriteValue32", address_of(write_value<cuuint32_t>)},
      {"cuStreamWriteValue64", address_of(write_value<cuuint64_t>)},
      {"cuStreamCreate", address_of(create_stream)},
      {"cuStreamDestroy", address_of(destroy_stream)},
      {"cuStreamSynchronize", address_of(synchronize)},
      {"cuStreamQuery", address_of(query)},
      {"cuStreamGetCtx", address_of(stream_context)},
      {"cuPointerGetAttribute", address_of(attribute)}};
  const auto found = functions.find(name);
  if (found != functions.end()) return found->second;
  void* const of_heaps = find_in_heaps(name);
  return of_heaps != nullptr ? of_heaps : address_of(not_in_the_double);
}

}  // namespace
}  // namespace gshmem::test

#define EXPORTED extern "C" __attribute__((visibility("default")))

// cuda.h defines cuGetProcAddress as cuGetProcAddress_v2.
EXPORTED CUresult cuGetProcAddress(const char* symbol, void** function, int, cuuint64_t,
                                   CUdriverProcAddressQueryResult* status) {
  *status = CU_GET_PROC_ADDRESS_SUCCESS;
  *function = gshmem::test::find(symbol);
  return CUDA_SUCCESS;
}

EXPORTED gshmem::test::CudaDouble* cuda_double_record() { return &gshmem::test::record(); }

EXPORTED int cuda_double_current() {
  const std::vector<CUcontext>& contexts = gshmem::test::contexts_of_thread;
  return contexts.empty() ? -1 : static_cast<int>(gshmem::test::number_of(contexts.back()));
}
EXPORTED void cuda_double_enter(int context) {
  gshmem::test::push(reinterpret_cast<CUcontext>(&gshmem::test::all_contexts[context]));
}
EXPORTED void cuda_double_leave() {
  CUcontext popped = nullptr;
  gshmem::test::pop(&popped);
}
EXPORTED gshmem::test::CudaDoubleCode* cuda_double_code() { return &gshmem::test::code_in_gpu; }
EXPORTED std::atomic<unsigned>* cuda_double_flags(int device) {
  return &gshmem::test::flags_of_context[device];
}

EXPORTED void* cuda_double_allocate(std::size_t bytes) {
  using namespace gshmem::test;
  const int file = ::memfd_create("cuda_double", MFD_CLOEXEC);
  if (file < 0 || ::ftruncate(file, static_cast<off_t>(bytes)) != 0) return nullptr;
  void* const view = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  void* const gpu = ::mmap(nullptr, bytes, PROT_NONE, MAP_SHARED, file, 0);
  ::close(file);
  if (view == MAP_FAILED || gpu == MAP_FAILED) return nullptr;
  const std::lock_guard lock(record().mutex);
  world().gpu[reinterpret_cast<std::uintptr_t>(gpu)] = {static_cast<std::uint8_t*>(view), bytes};
  return gpu;
}

EXPORTED void* cuda_double_view(void* gpu_memory) {
  using namespace gshmem::test;
  const std::lock_guard lock(record().mutex);
  return view_of(reinterpret_cast<CUdeviceptr>(gpu_memory), 0);
}
