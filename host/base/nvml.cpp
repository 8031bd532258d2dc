#include "host/base/nvml.h"

#include "host/base/dynamic_library.h"

#include <algorithm>
#include <cstdio>

namespace gshmem::nvml {
namespace {

struct Device;  // opaque

constexpr unsigned kMaxLinks = 64;  // NVML_NVLINK_MAX_LINKS is 18 in 12.x

/// This is nvmlPciInfo_t.
struct PciInfo {
  std::array<char, 16> legacy_id{};
  std::uint32_t domain = 0, bus = 0, device = 0;
  std::uint32_t ids[2] = {};
  std::array<char, 32> id{};

  [[nodiscard]] bool is(const std::string& pci) const {
    unsigned other_domain = 0, other_bus = 0, other_device = 0;
    return std::sscanf(pci.c_str(), "%x:%x:%x", &other_domain, &other_bus, &other_device) == 3 &&
           other_domain == domain && other_bus == bus && other_device == device;
  }
};
static_assert(sizeof(PciInfo) == 68);

/// NVML between nvmlInit and nvmlShutdown, which count their calls.
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
    constexpr int kAtomics = 3;  // this is NVML_P2P_CAPS_INDEX_ATOMICS
    int status = -1;             // nvmlGpuP2PStatus_t; 0 is NVML_P2P_STATUS_OK
    check(library_.function<Result(Device*, Device*, int, int*)>("nvmlDeviceGetP2PStatus")(
              device, peer, kAtomics, &status),
          "nvmlDeviceGetP2PStatus");
    return status == 0;
  }
  /// Returns null if NVML does not show that GPU to this process.
  [[nodiscard]] Device* find(const std::string& pci) const {
    try {
      return device(pci);
    } catch (const Error&) {
      return nullptr;
    }
  }
  /// Do NVLinks of `device` lead to the GPU at `peer`, or to a switch, which connects all GPUs of
  /// the host?
  [[nodiscard]] bool is_linked_to(Device* device, const std::string& peer) const {
    const auto state =
        library_.function<Result(Device*, unsigned, unsigned*)>("nvmlDeviceGetNvLinkState");
    const auto type =
        library_.function<Result(Device*, unsigned, int*)>("nvmlDeviceGetNvLinkRemoteDeviceType");
    const auto place = library_.function<Result(Device*, unsigned, PciInfo*)>(
        "nvmlDeviceGetNvLinkRemotePciInfo_v2");
    for (unsigned link = 0; link < kMaxLinks; ++link) {
      constexpr int kSwitch = 2;  // NVML_NVLINK_DEVICE_TYPE_SWITCH
      unsigned is_active = 0;
      int kind = -1;
      PciInfo pci;
      // There may be no such link.
      if (state(device, link, &is_active) != 0 || is_active == 0) continue;
      check(type(device, link, &kind), "nvmlDeviceGetNvLinkRemoteDeviceType");
      if (kind == kSwitch) return true;
      check(place(device, link, &pci), "nvmlDeviceGetNvLinkRemotePciInfo_v2");
      if (pci.is(peer)) return true;
    }
    return false;
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
    Device* const mine = nvml.device(pci);
    if (Device* const other = nvml.find(peer)) return nvml.native_atomics(mine, other);
    return nvml.is_linked_to(mine, peer);
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
