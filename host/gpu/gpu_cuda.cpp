// The GPU of a PE over the CUDA driver API, which is loaded at run time.
#include "host/gpu/gpu.h"

#include "host/base/cuda_driver.h"
#include "host/base/error.h"
#include "host/base/log.h"
#include "host/gpu/host_ops.h"

#include <cstring>

namespace gshmem {
namespace {

const CudaDriver& driver() {
  const CudaDriver* cuda = CudaDriver::get();
  require(cuda != nullptr, GSHMEMX_ERROR_NOT_SUPPORTED, "no GPU: " + CudaDriver::why_not());
  return *cuda;
}

int choose_device(const CudaDriver& cuda, int device, int local_rank) {
  int count = 0;
  GSHMEM_CU(&cuda, cuDeviceGetCount, &count);
  require(device < count, GSHMEMX_ERROR_GPU_NOT_SELECTED,
          strprintf("cuda_device_id = %d, but this process sees %d GPUs", device, count));
  if (device >= 0) return device;
  CUcontext current = nullptr;
  GSHMEM_CU(&cuda, cuCtxGetCurrent, &current);
  if (!current) return local_rank % count;
  CUdevice chosen = 0;
  GSHMEM_CU(&cuda, cuCtxGetDevice, &chosen);
  return chosen;
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
      make_current();
      void* control = nullptr;
      GSHMEM_CU(&cuda_, cuMemHostAlloc, &control, sizeof(abi::Control),
                CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP);
      std::memset(control, 0, sizeof(abi::Control));
      control_ = static_cast<abi::Control*>(control);
      ops_ = std::make_unique<CudaHostOps>(cuda_, context_);
    } catch (...) {
      release();
      throw;
    }
  }
  ~CudaGpu() override { release(); }

  int device() const noexcept override { return device_; }
  const char* name() const noexcept override { return name_.c_str(); }
  std::array<char, 16> uuid() const override {
    CUuuid id{};
    GSHMEM_CU(&cuda_, cuDeviceGetUuid, &id, handle_);
    std::array<char, 16> bytes{};
    std::memcpy(bytes.data(), id.bytes, bytes.size());
    return bytes;
  }
  abi::Control* control() noexcept override { return control_; }
  device::HostOps* ops() noexcept override { return ops_.get(); }
  void set_callbacks(std::function<void(const char*)> barrier,
                     std::function<void(const Error&)> fault) override {
    ops_->set_callbacks(std::move(barrier), std::move(fault));
  }
  void with_context(const std::function<void()>& work) override {
    const ScopedContext scope(cuda_, context_);
    work();
  }
  void make_current() override { GSHMEM_CU(&cuda_, cuCtxSetCurrent, context_); }
  void zero(void* memory, std::size_t bytes) override { ops_->zero(memory, bytes); }

  void write_module_state(CUmod_st* module, const abi::DeviceState& state) override {
    with_context([&] {
      CUdeviceptr symbol = 0;
      std::size_t bytes = 0;
      const CUresult found =
          cuda_.cuModuleGetGlobal(&symbol, &bytes, module, "gshmemi_device_state");
      require(found == CUDA_SUCCESS && bytes == sizeof(state), GSHMEMX_ERROR_INVALID_VALUE,
              "gshmemx_cumodule_init: argument module has no device state of this gshmem version; "
              "does its code include <gshmem/gshmem.h>?");
      GSHMEM_CU(&cuda_, cuMemcpyHtoD, symbol, &state, sizeof(state));
    });
  }

 private:
  void release() noexcept {
    {
      // The context stays current where the application made it so; only our objects go.
      CUcontext previous = nullptr;
      cuda_.cuCtxPushCurrent(context_);
      ops_.reset();
      if (control_) cuda_.cuMemFreeHost(control_);
      cuda_.cuCtxPopCurrent(&previous);
    }
    cuda_.cuDevicePrimaryCtxRelease(handle_);
  }

  const CudaDriver& cuda_;
  int device_;
  CUdevice handle_ = 0;
  CUcontext context_ = nullptr;
  std::string name_;
  abi::Control* control_ = nullptr;
  std::unique_ptr<CudaHostOps> ops_;
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
    int access = peer == device, atomics = peer == device;
    if (peer != device) {
      GSHMEM_CU(&cuda, cuDeviceCanAccessPeer, &access, handle, peer);
      GSHMEM_CU(&cuda, cuDeviceGetP2PAttribute, &atomics,
                CU_DEVICE_P2P_ATTRIBUTE_NATIVE_ATOMIC_SUPPORTED, handle, peer);
    }
    info.peer_access.push_back(access != 0);
    info.peer_atomics.push_back(atomics != 0);
  }
  return info;
}

}  // namespace

std::unique_ptr<Gpu> open_gpu(int device, int local_rank) {
  return std::make_unique<CudaGpu>(device, local_rank);
}

int gpu_count(std::string* why_none) {
  const CudaDriver* cuda = CudaDriver::get();
  if (!cuda) {
    if (why_none) *why_none = CudaDriver::why_not();
    return 0;
  }
  int count = 0;
  GSHMEM_CU(cuda, cuDeviceGetCount, &count);
  return count;
}

std::vector<GpuInfo> gpu_list() {
  const int count = gpu_count(nullptr);
  std::vector<GpuInfo> list;
  for (int device = 0; device < count; ++device) list.push_back(describe(driver(), device, count));
  return list;
}

}  // namespace gshmem
