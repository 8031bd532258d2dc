// The machine as the checks of gshmem-info --doctor see it: everything that they read comes from
// here, so that a test is a folder of files and a few values. Checks change nothing on it.
#pragma once

#include "host/base/config.h"
#include "host/base/nvml.h"
#include "host/runtime/gpu/gpu.h"
#include "host/tools/info/program_library.h"

#include <cstdint>
#include <filesystem>
#include <functional>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace gshmem::info {

struct Limit {
  static constexpr std::uint64_t kUnlimited = std::numeric_limits<std::uint64_t>::max();
  std::uint64_t soft = kUnlimited, hard = kUnlimited;
};

/// A shared library as the loader finds it.
struct Library {
  std::string file;  ///< the file that the name resolves to, with its version; empty = not loadable
  std::string why_not;               ///< the loader's error
  std::vector<std::string> missing;  ///< requested symbols that it lacks
};

enum class ComputeMode { kDefault, kExclusiveProcess, kProhibited };

struct CudaGpu {
  GpuInfo info;
  bool dma_buf = false;         ///< its memory can be exported as a dma-buf
  bool fabric_handles = false;  ///< its memory can be mapped by other hosts
  nvml::GpuFabric fabric{};
  bool gpudirect_rdma = false;  ///< memory of cuMemCreate, which heaps use, may be used for RDMA
  bool orders_writes = false;   ///< keeps the order of other devices' writes to its memory
  ComputeMode mode = ComputeMode::kDefault;
  bool mps = false;  ///< processes share it through MPS
};

/// Facts from the CUDA driver: checks do not call it, and tests set them directly.
struct CudaFacts {
  bool built = false;    ///< this build can ask
  std::string why_none;  ///< why there is no GPU; empty when there is one
  std::vector<CudaGpu> gpus;
  bool sync_memops = false;  ///< contexts can be told to complete memory calls
};

[[nodiscard]] CudaFacts cuda_facts();

struct Machine {
  std::filesystem::path root = "/";  ///< the folder of /sys, /proc and /dev
  std::string host, architecture;    ///< architecture as in uname -m
  Limit memlock, open_files;
  bool built_with_pmix = true, built_with_order_check = false;
  CudaFacts cuda;
  ProgramLibrary program_library;
  std::string others_nvshmem;              ///< info::nvshmem_of_others
  Config config;                           ///< has defaults where the environment has bad values
  std::vector<ConfigEntry> variables;      ///< as set, good or bad
  std::vector<std::string> unknown_names;  ///< complete sentences about unknown GSHMEM_* variables

  std::function<const char*(const char* name)> env;
  /// Returns 0 when the device file opens for reading and writing, otherwise errno.
  std::function<int(const std::filesystem::path&)> open_errno;
  /// Returns the size of the file system that holds a folder.
  std::function<std::optional<std::uint64_t>(const std::filesystem::path&)> volume_bytes;
  std::function<Library(const std::string& soname, const std::vector<std::string>& symbols)>
      library;

  /// Returns "/sys/class" below the root.
  [[nodiscard]] std::filesystem::path at(std::string_view path) const {
    return root / path.substr(1);
  }
  [[nodiscard]] std::string env_or_empty(const char* name) const {
    const char* const value = env(name);
    return value ? value : "";
  }
};

/// Returns this machine and this process.
[[nodiscard]] Machine this_machine();

/// Bits of <linux/capability.h> that matter here.
enum class Capability { kIpcLock = 14, kSysAdmin = 21 };
/// Is the kernel's capable() true for this process? The capability must be effective, and held in
/// the initial user namespace (that of a rootless container does not count).
[[nodiscard]] bool has_capability(const Machine& machine, Capability capability);

/// Returns true in a container of Docker, Podman, Kubernetes or Apptainer, by the marks they leave.
[[nodiscard]] bool in_container(const Machine& machine);

/// Returns for example "8 MiB", "1.5 GiB", "unlimited".
[[nodiscard]] std::string bytes_text(std::uint64_t bytes);

/// Returns for example "a, b, c".
[[nodiscard]] std::string joined(const std::vector<std::string>& words,
                                 std::string_view between = ", ");

}  // namespace gshmem::info
