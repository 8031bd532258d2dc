// The GPU of a PE, by the CUDA driver API, which is loaded at run time.
#include "host/runtime/gpu/gpu.h"

#include "host/base/cuda_scope.h"
#include "host/base/error.h"
#include "host/base/log.h"
#include "host/base/nvml.h"
#include "host/runtime/gpu/host_ops.h"

#include <cctype>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <mutex>
#include <optional>

namespace gshmem {
namespace {

const CudaDriver& driver() {
  const CudaDriver* cuda = CudaDriver::get();
  require(cuda != nullptr, GSHMEMX_ERROR_NOT_SUPPORTED, "no GPU: " + CudaDriver::why_not());
  return *cuda;
}

int device_count(const CudaDriver& cuda) {
  int count = 0;
  GSHMEM_CU(&cuda, cuDeviceGetCount, &count);
  return count;
}

/// Returns the device of the context that is current on this thread. Returns nothing if there is
/// none, or if it has been destroyed but is still current. This happens to a primary context when
/// its last user, such as the PE of an earlier job, releases it. Source: CUDA driver API,
/// cuDevicePrimaryCtxRelease.
std::optional<CUdevice> current_device(const CudaDriver& cuda) {
  CUcontext current = nullptr;
  GSHMEM_CU(&cuda, cuCtxGetCurrent, &current);
  if (!current) return {};
  CUdevice device = 0;
  const CUresult result = cuda.cuCtxGetDevice(&device);
  if (result == CUDA_ERROR_CONTEXT_IS_DESTROYED || result == CUDA_ERROR_INVALID_CONTEXT) return {};
  cuda.check(result, "cuCtxGetDevice");
  return device;
}

int choose_device(const CudaDriver& cuda, int device, int local_rank) {
  const int count = device_count(cuda);
  require(
      device >= -1 && device < count, GSHMEMX_ERROR_GPU_NOT_SELECTED,
      strprintf("gshmemx_init_attr: attr->args.cuda_device_id = %d is neither -1 nor one of the "
                "%d GPUs that this process sees",
                device, count));
  if (device >= 0) return device;
  return current_device(cuda).value_or(local_rank % count);
}

/// Requires the current context to be a primary one. The CUDA runtime uses only primary contexts,
/// and kernels find their PE by them. An application that has made another context current would
/// lose it. Errors: GSHMEMX_ERROR_NOT_SUPPORTED.
void require_primary(const CudaDriver& cuda) {
  const std::optional<CUdevice> device = current_device(cuda);
  if (!device) return;
  CUcontext current = nullptr, primary = nullptr;
  GSHMEM_CU(&cuda, cuCtxGetCurrent, &current);
  GSHMEM_CU(&cuda, cuDevicePrimaryCtxRetain, &primary, *device);
  cuda.cuDevicePrimaryCtxRelease(*device);
  require(current == primary, GSHMEMX_ERROR_NOT_SUPPORTED,
          strprintf("the CUDA context that is current on this thread is not the primary one of GPU "
                    "%d (cuCtxCreate, or a green context), which gshmem and the CUDA runtime use; "
                    "call cudaSetDevice(%d) before, or pop it",
                    *device, *device));
}

bool has_native_atomics(const CudaDriver& cuda, CUdevice device, CUdevice peer) {
  int atomics = device == peer;
  if (device != peer) {
    GSHMEM_CU(&cuda, cuDeviceGetP2PAttribute, &atomics,
              CU_DEVICE_P2P_ATTRIBUTE_NATIVE_ATOMIC_SUPPORTED, device, peer);
  }
  return atomics != 0;
}

/// Is `page` in anonymous memory or a file of shared memory, according to /proc/self/maps?
bool is_ordinary_memory(const void* page) {
  const auto address = reinterpret_cast<std::uintptr_t>(page);
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);) {
    std::uintptr_t first = 0, end = 0;
    int name = 0;
    if (std::sscanf(line.c_str(), "%lx-%lx %*s %*s %*s %*s %n", &first, &end, &name) < 2) continue;
    if (address < first || address >= end) continue;
    const std::string file = line.substr(static_cast<std::size_t>(name));
    return file.empty() || file.rfind("/memfd:", 0) == 0 || file.rfind("/dev/shm/", 0) == 0 ||
           file[0] == '[' || file.rfind("/dev/zero", 0) == 0;
  }
  return false;
}

class CudaGpu final : public Gpu {
 public:
  CudaGpu(int device, int local_rank)
      : cuda_(driver()), device_(choose_device(cuda_, device, local_rank)) {
    GSHMEM_CU(&cuda_, cuDeviceGet, &handle_, device_);
    char name[128] = "";
    GSHMEM_CU(&cuda_, cuDeviceGetName, name, sizeof(name), handle_);
    name_ = name;
    GSHMEM_CU(&cuda_, cuDevicePrimaryCtxRetain, &context_, handle_);
    try {
      const CaptureRelaxed relaxed(cuda_);
      make_current();
      control_ = static_cast<abi::Control*>(host_memory(sizeof(abi::Control)));
      ops_ = std::make_unique<CudaHostOps>(cuda_, context_);
    } catch (...) {
      release();
      throw;
    }
  }
  ~CudaGpu() override { release(); }

  int device() const noexcept override { return device_; }
  const char* name() const noexcept override { return name_.c_str(); }
  std::uint64_t memory_bytes() const override {
    std::size_t bytes = 0;
    GSHMEM_CU(&cuda_, cuDeviceTotalMem, &bytes, handle_);
    return bytes;
  }
  std::array<char, 16> uuid() const override {
    CUuuid id{};
    GSHMEM_CU(&cuda_, cuDeviceGetUuid, &id, handle_);
    std::array<char, 16> bytes{};
    std::memcpy(bytes.data(), id.bytes, bytes.size());
    return bytes;
  }
  int multiprocessors() const override {
    int count = 0;
    GSHMEM_CU(&cuda_, cuDeviceGetAttribute, &count, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT,
              handle_);
    return count;
  }
  bool under_mps() const override {
    int value = 0;
    constexpr auto kAttribute = static_cast<CUdevice_attribute>(kMpsEnabled);
    return cuda_.cuDeviceGetAttribute(&value, kAttribute, handle_) == CUDA_SUCCESS && value != 0;
  }
  bool orders_writes() const override {
    int ordering = CU_GPU_DIRECT_RDMA_WRITES_ORDERING_NONE;
    GSHMEM_CU(&cuda_, cuDeviceGetAttribute, &ordering,
              CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WRITES_ORDERING, handle_);
    return ordering >= CU_GPU_DIRECT_RDMA_WRITES_ORDERING_OWNER;
  }
  std::optional<bool> has_native_atomics_on(const std::array<char, 16>& uuid,
                                            const std::string& peer_pci) const override {
    int count = 0;
    GSHMEM_CU(&cuda_, cuDeviceGetCount, &count);
    for (int peer = 0; peer < count; ++peer) {
      CUuuid id{};
      GSHMEM_CU(&cuda_, cuDeviceGetUuid, &id, peer);
      if (std::memcmp(id.bytes, uuid.data(), uuid.size()) == 0)
        return has_native_atomics(cuda_, handle_, peer);
    }
    return nvml::native_atomics(pci(), peer_pci);
  }
  abi::Control* control() noexcept override { return control_; }
  void* host_memory(std::size_t bytes) override {
    const CudaScope scope(cuda_, context_);
    void* memory = nullptr;
    GSHMEM_CU(&cuda_, cuMemHostAlloc, &memory, bytes,
              CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP);
    host_memory_.push_back(memory);
    std::memset(memory, 0, bytes);
    return memory;
  }
  device::HostOps* ops() noexcept override { return ops_.get(); }
  std::uint64_t run_in(CUstream_st* stream, const device::Call& call) override {
    return ops_->run_in(stream, call);
  }
  void await_collectives() const override { ops_->await_collectives(); }
  void set_callbacks(std::function<int(const char*, int)> sync,
                     std::function<void(const Error&)> fault) override {
    ops_->set_callbacks(std::move(sync), std::move(fault));
  }
  void with_context(const std::function<void()>& work) override {
    const CudaScope scope(cuda_, context_);
    work();
  }
  void make_current() override {
    require_primary(cuda_);
    GSHMEM_CU(&cuda_, cuCtxSetCurrent, context_);
  }
  void push_current() override { GSHMEM_CU(&cuda_, cuCtxPushCurrent, context_); }
  void pop_current() noexcept override {
    CUcontext popped = nullptr;
    cuda_.cuCtxPopCurrent(&popped);
  }
  std::shared_ptr<void> enter() override { return std::make_shared<CudaScope>(cuda_, context_); }
  std::optional<int> device_of(const void* memory) override {
    const auto get = [&](void* value, CUpointer_attribute attribute) {
      const CUresult result =
          cuda_.cuPointerGetAttribute(value, attribute, reinterpret_cast<CUdeviceptr>(memory));
      if (result == CUDA_ERROR_INVALID_VALUE) return false;  // CUDA does not know this memory
      cuda_.check(result, "cuPointerGetAttribute");
      return true;
    };
    unsigned kind = 0, managed = 0;
    int device = 0;
    if (!get(&kind, CU_POINTER_ATTRIBUTE_MEMORY_TYPE)) return std::nullopt;
    const bool moves = get(&managed, CU_POINTER_ATTRIBUTE_IS_MANAGED) && managed != 0;
    require(!moves, GSHMEMX_ERROR_NOT_SUPPORTED, "it is managed memory, which moves");
    if (kind != CU_MEMORYTYPE_DEVICE) return std::nullopt;
    if (!get(&device, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL)) return std::nullopt;
    return device;
  }
  void zero(void* memory, std::size_t bytes) override { ops_->zero(memory, bytes); }
  void complete_memory_calls_on(void* heap) override {
    with_context([&] {
      if (cuda_.cuCtxSetFlags != nullptr) {
        unsigned flags = 0;
        GSHMEM_CU(&cuda_, cuCtxGetFlags, &flags);
        if ((flags & kSyncMemops) != 0) return;  // set by the application, or by another PE's init
        if (!default_stream_disturbs_a_capture()) {
          const CUresult set = cuda_.cuCtxSetFlags(flags | kSyncMemops);
          flag_is_ours_ = set == CUDA_SUCCESS;
          if (flag_is_ours_) return;
          if (!is_capture_error(set)) cu_check(set, "cuCtxSetFlags");
        }
      }
      const int on = 1;
      const CUresult result = cuda_.cuPointerSetAttribute(&on, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS,
                                                          reinterpret_cast<CUdeviceptr>(heap));
      if (result != CUDA_SUCCESS) {
        GSHMEM_INFO(
            "cudaMemset and cudaMemcpy on the heap may end later than they return: the driver is "
            "older than CUDA 12.1, or a graph was being captured at init");
      }
    });
  }
  void set_heap_mapping(const GpuMapping* mapping) override { ops_->set_heap_mapping(mapping); }
  void set_most_blocks(unsigned blocks) override { ops_->set_most_blocks(blocks); }
  void set_state(const abi::DeviceState& state) override { ops_->set_state(state); }
  void copy(void* dst, const void* src, std::size_t bytes) override {
    ops_->copy(dst, src, bytes);
    ops_->finish();
  }
  std::string pci() const override {
    char text[32] = "";
    GSHMEM_CU(&cuda_, cuDeviceGetPCIBusId, text, sizeof(text), handle_);
    for (char* c = text; *c != '\0'; ++c) *c = static_cast<char>(std::tolower(*c));
    return text;
  }
  void* device_memory(std::size_t bytes) override {
    CUdeviceptr memory = 0;
    with_context([&] {
      GSHMEM_CU(&cuda_, cuMemAlloc, &memory, bytes);
      const std::lock_guard lock(allocated_mutex_);
      allocated_.push_back(memory);
    });
    zero(reinterpret_cast<void*>(memory), bytes);
    return reinterpret_cast<void*>(memory);
  }
  Registers map_registers(void* page, std::size_t bytes) override {
    Registers mapped{};
    with_context([&] { mapped = register_page(page, bytes); });
    return mapped;
  }

  void unmap_registers() noexcept override {
    in_context_if_there(cuda_, context_, [&] { unregister_pages(); });
  }

  void write_module_state(const char* call, CUmod_st* module,
                          const abi::DeviceState& state) override {
    write_state(call, "module", state, [&](CUdeviceptr* symbol, std::size_t* bytes) {
      return cuda_.cuModuleGetGlobal(symbol, bytes, module, kStateSymbol);
    });
  }
  void write_library_state(const char* call, CUlib_st* library,
                           const abi::DeviceState& state) override {
    write_state(call, "library", state, [&](CUdeviceptr* symbol, std::size_t* bytes) {
      return cuda_.cuLibraryGetGlobal(symbol, bytes, library, kStateSymbol);
    });
  }

 private:
  static constexpr unsigned kSyncMemops = 0x80;  ///< CU_CTX_SYNC_MEMOPS, which not every cuda.h has
  static constexpr char kStateSymbol[] = "gshmemi_device_state";  ///< device/core/state.h
  template <class Find>
  void write_state(const char* call, const char* argument, const abi::DeviceState& state,
                   const Find& find) {
    with_context([&] {
      CUdeviceptr symbol = 0;
      std::size_t bytes = 0;
      const CUresult found = find(&symbol, &bytes);
      std::uint64_t number = 0;
      require(found == CUDA_SUCCESS && bytes > sizeof(number), GSHMEMX_ERROR_INVALID_VALUE,
              strprintf("%s: argument %s has no device state of gshmem; does its code include "
                        "<gshmem/gshmem.h>, or link the device library?",
                        call, argument));
      GSHMEM_CU(&cuda_, cuMemcpyDtoH, &number, symbol + bytes - sizeof(number), sizeof(number));
      require(bytes == sizeof(abi::StateSymbol) && number == abi::kStateAbi,
              GSHMEMX_ERROR_NOT_SUPPORTED,
              strprintf("%s: argument %s was compiled with headers, or the device library, of "
                        "another gshmem (device state of %zu bytes, number %llu; this library's "
                        "has %zu, number %u); compile it again with this one's",
                        call, argument, bytes, static_cast<unsigned long long>(number),
                        sizeof(abi::StateSymbol), abi::kStateAbi));
      GSHMEM_CU(&cuda_, cuMemcpyHtoD, symbol, &state, sizeof(state));
    });
  }
  /// Maps device registers for the GPU. Real registers are mapped as I/O memory, which needs
  /// CAP_SYS_ADMIN or the driver's PeerMappingOverride. For the ordinary memory of the soft NIC
  /// this fails (invalid argument), and it is mapped as memory. A real register is never mapped as
  /// memory, since it would be cached.
  Registers register_page(void* page, std::size_t bytes) {
    constexpr unsigned kFlags = CU_MEMHOSTREGISTER_PORTABLE | CU_MEMHOSTREGISTER_DEVICEMAP;
    CUresult result = cuda_.cuMemHostRegister(page, bytes, kFlags | CU_MEMHOSTREGISTER_IOMEMORY);
    const bool is_memory = result != CUDA_SUCCESS && is_ordinary_memory(page);
    if (is_memory) {
      result = cuda_.cuMemHostRegister(page, bytes, kFlags);
    }
    // Several registers are in one page, which other code of this process may have registered; that
    // code unregisters it.
    const bool by_other = result == CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED;
    if (result == CUDA_ERROR_NOT_PERMITTED || result == CUDA_ERROR_NOT_SUPPORTED) {
      throw Error(
          GSHMEMX_ERROR_NOT_SUPPORTED,
          "the driver does not let the GPU reach the NIC's doorbell; load the nvidia module "
          "with NVreg_RegistryDwords=\"PeerMappingOverride=1\", run with CAP_SYS_ADMIN (as root; "
          "docker run --cap-add SYS_ADMIN), or set GSHMEM_DOORBELL=agent");
    }
    if (!by_other) {
      cu_check(result, "cuMemHostRegister");
      registered_.push_back(page);
    }
    CUdeviceptr mapped = 0;
    GSHMEM_CU(&cuda_, cuMemHostGetDevicePointer, &mapped, page, 0);
    return {reinterpret_cast<void*>(mapped), is_memory};
  }

  /// Would a new flag of the context end a capture? It ends all captures in the context. A query of
  /// the default stream shows captures with which that stream would interfere, and does not harm
  /// them. No query shows captures of other streams. Source: CUDA driver API, cuStreamIsCapturing.
  [[nodiscard]] bool default_stream_disturbs_a_capture() const {
    CUstreamCaptureStatus status{};
    return is_capture_error(cuda_.cuStreamIsCapturing(CU_STREAM_LEGACY, &status));
  }
  /// Restores the flags of the context. It does not clear a flag that the application has set in
  /// the meantime.
  void restore_flags() noexcept {
    unsigned flags = 0;
    if (flag_is_ours_ && cuda_.cuCtxGetFlags(&flags) == CUDA_SUCCESS)
      cuda_.cuCtxSetFlags(flags & ~kSyncMemops);
    flag_is_ours_ = false;
  }

  void unregister_pages() noexcept {
    for (void* page : registered_) cuda_.cuMemHostUnregister(page);
    registered_.clear();
  }

  void release_memory() noexcept {
    unregister_pages();
    for (void* memory : host_memory_) cuda_.cuMemFreeHost(memory);
    for (const CUdeviceptr memory : allocated_) cuda_.cuMemFree(memory);
  }

  void release() noexcept {
    // If the application made the context current, it stays current; only our objects are
    // destroyed.
    in_context_if_there(cuda_, context_, [&] {
      restore_flags();
      ops_.reset();
      release_memory();
    });
    CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
    cuda_.cuThreadExchangeStreamCaptureMode(&mode);
    cuda_.cuDevicePrimaryCtxRelease(handle_);
    cuda_.cuThreadExchangeStreamCaptureMode(&mode);
  }

  const CudaDriver& cuda_;
  int device_;
  CUdevice handle_ = 0;
  CUcontext context_ = nullptr;
  std::string name_;
  abi::Control* control_ = nullptr;
  std::vector<void*> host_memory_;
  std::unique_ptr<CudaHostOps> ops_;
  std::vector<void*> registered_;
  std::mutex allocated_mutex_;  ///< threads create teams and connections at the same time
  std::vector<CUdeviceptr> allocated_;
  bool flag_is_ours_ = false;
};

std::string uuid_text(const CUuuid& id) {
  std::string text = "GPU-";
  for (std::size_t i = 0; i < sizeof(id.bytes); ++i) {
    if (i == 4 || i == 6 || i == 8 || i == 10) text += '-';
    text += strprintf("%02x", static_cast<unsigned>(static_cast<unsigned char>(id.bytes[i])));
  }
  return text;
}

GpuInfo describe(const CudaDriver& cuda, int device, int count) {
  GpuInfo info;
  info.device = device;
  CUdevice handle = 0;
  GSHMEM_CU(&cuda, cuDeviceGet, &handle, device);
  char text[128] = "";
  GSHMEM_CU(&cuda, cuDeviceGetName, text, sizeof(text), handle);
  info.name = text;
  GSHMEM_CU(&cuda, cuDeviceGetPCIBusId, text, sizeof(text), handle);
  info.pci = text;
  CUuuid id{};
  GSHMEM_CU(&cuda, cuDeviceGetUuid, &id, handle);
  info.uuid = uuid_text(id);
  std::size_t bytes = 0;
  GSHMEM_CU(&cuda, cuDeviceTotalMem, &bytes, handle);
  info.memory_bytes = bytes;
  for (int peer = 0; peer < count; ++peer) {
    int access = peer == device;
    if (peer != device) GSHMEM_CU(&cuda, cuDeviceCanAccessPeer, &access, handle, peer);
    info.peer_access.push_back(access != 0);
    info.peer_atomics.push_back(has_native_atomics(cuda, handle, peer));
  }
  return info;
}

}  // namespace

std::unique_ptr<Gpu> open_gpu(int device, int local_rank) {
  return std::make_unique<CudaGpu>(device, local_rank);
}

std::string why_no_gpu() { return CudaDriver::get() != nullptr ? "" : CudaDriver::why_not(); }

std::vector<GpuInfo> gpu_list() {
  std::vector<GpuInfo> list;
  const CudaDriver* const cuda = CudaDriver::get();
  const int count = cuda != nullptr ? device_count(*cuda) : 0;
  for (int device = 0; device < count; ++device) list.push_back(describe(*cuda, device, count));
  return list;
}

}  // namespace gshmem
