#include "host/base/nvml.h"

#include "host/base/dynamic_library.h"

#include <algorithm>

namespace gshmem::nvml {
namespace {

struct Device;  // opaque

/// NVML between its init and its shutdown, which count.
class Session {
 public:
  explicit Session(const std::string& soname)
      : library_(soname), error_text_(library_.function<const char*(Result)>("nvmlErrorString")) {
    check(library_.function<Result()>("nvmlInit_v2")(), "nvmlInit_v2");
  }
  ~Session() {
    if (void* end = library_.find("nvmlShutdown")) reinterpret_cast<Result (*)()>(end)();
  }
  Session(const Session&) = delete;

  [[nodiscard]] Device* device(const std::string& pci) const {
    Device* found = nullptr;
    check(library_.function<Result(const char*, Device**)>("nvmlDeviceGetHandleByPciBusId_v2")(
              pci.c_str(), &found),
          "nvmlDeviceGetHandleByPciBusId_v2");
    return found;
  }
  [[nodiscard]] FabricInfo fabric(Device* device) const {
    FabricInfo info;
    info.version = kFabricInfoVersion;
    check(library_.function<Result(Device*, FabricInfo*)>("nvmlDeviceGetGpuFabricInfoV")(device,
                                                                                         &info),
          "nvmlDeviceGetGpuFabricInfoV");
    return info;
  }
  [[nodiscard]] bool native_atomics(Device* device, Device* peer) const {
    constexpr int kAtomics = 3;  // NVML_P2P_CAPS_INDEX_ATOMICS
    int status = -1;             // nvmlGpuP2PStatus_t; 0 is NVML_P2P_STATUS_OK
    check(library_.function<Result(Device*, Device*, int, int*)>("nvmlDeviceGetP2PStatus")(
              device, peer, kAtomics, &status),
          "nvmlDeviceGetP2PStatus");
    return status == 0;
  }
  [[nodiscard]] std::string text(Result result) const { return error_text_(result); }

 private:
  void check(Result result, const char* call) const {
    if (result == 0) return;
    throw Error(GSHMEMX_ERROR_NOT_SUPPORTED, std::string(call) + ": " + text(result));
  }
  DynamicLibrary library_;
  const char* (*error_text_)(Result);
};

std::string why_none(const Session& nvml, const FabricInfo& info) {
  if (info.state == kFabricNotSupported) return "the GPU is on no NVLink fabric";
  if (info.state == kFabricNotStarted)
    return "the GPU is not registered with the NVLink fabric (not started)";
  if (info.state != kFabricCompleted)
    return "the GPU's registration with the NVLink fabric is in progress";
  if (info.status != 0) {
    return "the GPU's registration with the NVLink fabric has failed: " + nvml.text(info.status);
  }
  const bool zero = std::ranges::all_of(info.cluster, [](std::uint8_t byte) { return byte == 0; });
  return zero ? "the GPU's NVLink fabric ends at its host (no cluster UUID)" : "";
}

}  // namespace

std::optional<bool> native_atomics(const std::string& pci, const std::string& peer,
                                   const std::string& soname) {
  try {
    const Session nvml(soname);
    return nvml.native_atomics(nvml.device(pci), nvml.device(peer));
  } catch (const Error&) {
    return std::nullopt;
  }
}

GpuFabric gpu_fabric(const std::string& pci, const std::string& soname) {
  GpuFabric fabric;
  try {
    const Session nvml(soname);
    const FabricInfo info = nvml.fabric(nvml.device(pci));
    fabric.why_none = why_none(nvml, info);
    fabric.cluster = info.cluster;
    fabric.clique = info.clique;
  } catch (const Error& error) {
    fabric.why_none = error.what();
  }
  return fabric;
}

}  // namespace gshmem::nvml
