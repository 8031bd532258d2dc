// The report of gshmem-info as data: it is collected once, and printed as text or as JSON.
#pragma once

#include "host/base/config.h"
#include "host/runtime/gpu/gpu.h"
#include "host/tools/info/algorithms.h"
#include "host/tools/info/nics.h"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace gshmem::info {

/// How one PE accesses another's memory: by load/store, except for kNetwork.
enum class Path : std::uint8_t {
  kSelf,
  kSharedMemory,
  kSameGpu,
  kNvlink,
  kPcie,
  kPeerGpu,
  kFabric,
  kNetwork
};
[[nodiscard]] std::string_view path_name(Path path);

/// One PE. It is trivially copyable, because PEs exchange it through symmetric memory.
struct PeFacts {
  int rank = 0;
  int gpu = -1;  ///< number in the PE's own process; -1 in CPU mode
  char bootstrap[16] = "";
  char nic[16] = "";  ///< consumer of its work queues
  char host[192] = "";
  char gpu_name[96] = "";
  char gpu_uuid[48] = "";
};

/// Returns the path between two PEs that are mapped inside a host. `gpus` are those that PE `from`
/// sees. The driver does not name the link between two GPUs; it offers native atomics over NVLink
/// and not over PCIe, so these decide.
[[nodiscard]] Path path_between(const PeFacts& from, const PeFacts& to,
                                const std::vector<GpuInfo>& gpus);

struct Job {
  int rank = 0;
  std::vector<PeFacts> pes;
  std::vector<Path> paths;       ///< the path from PE p to PE q is at p * pes.size() + q
  std::vector<std::string> why;  ///< for the same pair: why load/store is not used; empty if it is
  Algorithms algorithms = {};
};

/// Returns true when a launcher that the library supports started this process.
[[nodiscard]] bool launched();

/// Collective over the job. All fields but `rank` are complete on PE 0 only. Errors: those of init,
/// with their texts.
[[nodiscard]] Job join_job();

struct Fact {
  std::string name, value;
};

struct VariableReport {
  ConfigEntry entry;
  std::string error;  ///< empty when the value is valid
};

struct Report {
  std::vector<Fact> build;
  std::vector<VariableReport> variables;
  std::vector<std::string> unknown_variables;  ///< complete sentences
  std::string no_gpus;                         ///< why there are none
  std::vector<GpuInfo> gpus;
  std::vector<NicPort> nics;
  std::optional<Job> job;
  std::string job_error;  ///< why there is no job, when one should have been joined

  [[nodiscard]] bool good() const;
  /// Returns the value in force; empty for an unknown variable.
  [[nodiscard]] std::string value_of(std::string_view variable) const;
};

/// Returns everything but the job. It throws nothing for what it finds: a machine without driver,
/// GPU or cards is a valid result.
[[nodiscard]] Report collect(const std::string& sysfs_root);
[[nodiscard]] std::vector<VariableReport> check_variables(std::vector<ConfigEntry> entries);

[[nodiscard]] std::string as_text(const Report& report);
[[nodiscard]] std::string as_json(const Report& report);
/// Returns those of `all` that have these names. Errors: GSHMEMX_ERROR_INVALID_VALUE, which
/// suggests a name.
[[nodiscard]] std::vector<VariableReport> only(const std::vector<std::string>& names,
                                               std::vector<VariableReport> all);
[[nodiscard]] std::string as_text(const std::vector<VariableReport>& variables);
[[nodiscard]] std::string as_json(const std::vector<VariableReport>& variables);
/// Returns for example "gshmem 0.1.0, ABI 12, NVSHMEM 3.8.0".
[[nodiscard]] std::string version_line();
/// Returns the variables as the tables in docs/variables.md.
[[nodiscard]] std::string variables_as_markdown(const std::vector<ConfigEntry>& entries);

}  // namespace gshmem::info
