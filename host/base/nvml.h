// NVML, loaded at run time, for facts that the CUDA driver does not report. It tells which NVLink
// fabric a GPU is in, so that heaps of other hosts are mapped only if they can be reached. It also
// tells which links GPUs of other processes have. Included by code that sets up a PE's memory and
// by gshmem-info. Invariant: nothing stays loaded or initialized.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

namespace gshmem::nvml {

inline constexpr const char* kSoname = "libnvidia-ml.so.1";

/// This is nvmlReturn_t; 0 is success.
using Result = int;

/// This is nvmlGpuFabricInfo_v2_t, available since NVML 12.4.
struct FabricInfo {
  std::uint32_t version = 0;
  std::array<std::uint8_t, 16> cluster{};
  Result status = 0;  ///< result of the registration, when it is completed
  std::uint32_t clique = 0;
  std::uint8_t state = 0;  ///< one of NVML_GPU_FABRIC_STATE_*
  std::uint32_t health_mask = 0;
};
static_assert(sizeof(FabricInfo) == 36 && offsetof(FabricInfo, status) == 20 &&
              offsetof(FabricInfo, state) == 28 && offsetof(FabricInfo, health_mask) == 32);
/// This is NVML_STRUCT_VERSION(GpuFabricInfo, 2).
inline constexpr std::uint32_t kFabricInfoVersion = sizeof(FabricInfo) | 2u << 24;

enum FabricState : std::uint8_t {
  kFabricNotSupported = 0,
  kFabricNotStarted = 1,
  kFabricInProgress = 2,
  kFabricCompleted = 3
};

/// The multi-host fabric that a GPU is in: GPUs with the same cluster and clique may map each
/// other's memory.
struct GpuFabric {
  std::array<std::uint8_t, 16> cluster{};
  std::uint32_t clique = 0;
  std::string why_none = "not asked for";  ///< why the GPU is in no fabric; empty if it is in one
};

/// Are atomics of the first GPU on memory of the second, on the same host, atomic to other threads
/// there? Works for GPUs that CUDA does not show to this process. If NVML does not show a GPU
/// either (a container with one GPU), the NVLinks of the first decide. Returns nothing when NVML
/// does not know.
[[nodiscard]] std::optional<bool> native_atomics(const std::string& pci, const std::string& peer,
                                                 const std::string& soname = kSoname);

/// Asks for the GPU at a PCI address ("0000:1b:00.0"). If something is missing, why_none has the
/// reason; it is not an error.
[[nodiscard]] GpuFabric gpu_fabric(const std::string& pci, const std::string& soname = kSoname);

}  // namespace gshmem::nvml
