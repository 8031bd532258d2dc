// Collects the report; cuda.h is needed for the versions of the toolkit and the driver.
#include "host/tools/info/report.h"

#include "host/base/error.h"

#include "host/tools/info/program_library.h"

#include <gshmem/abi/state.h>
#include <gshmem/gshmem.h>

#if defined(GSHMEM_HAVE_CUDA)
#include "host/base/cuda_driver.h"

#include <cuda.h>
#endif

#include <algorithm>
#include <utility>

namespace gshmem::info {
namespace {

#if defined(GSHMEM_HAVE_CUDA)
std::string cuda_version(int version) {
  return strprintf("%d.%d", version / 1000, version % 1000 / 10);
}

std::string toolkit() {
  return cuda_version(CUDA_VERSION) + ", architectures " GSHMEM_INFO_CUDA_ARCHITECTURES;
}

std::string driver() {
  const CudaDriver* cuda = CudaDriver::get();
  if (cuda == nullptr) return "none: " + CudaDriver::why_not();
  int version = 0;
  GSHMEM_CU(cuda, cuDriverGetVersion, &version);
  return cuda_version(version);
}
#else
std::string toolkit() { return "none: CPU mode only"; }
std::string driver() { return "not used by this build"; }
#endif

/// Returns the possible consumers of the work queues, as words of GSHMEM_NIC.
std::string network() {
  std::string words;
  if (GSHMEM_INFO_RDMA) words = "mlx5 (rdma-core is loaded when used), soft";
  if (GSHMEM_INFO_LIBFABRIC)
    words += (words.empty() ? "" : ", ") + std::string("ofi (libfabric.so.1 is loaded when used)");
  return words.empty() ? "none: built without headers of rdma-core and libfabric" : words;
}

std::vector<Fact> build_facts() {
#if defined(__clang__)
  const std::string compiler =
      strprintf("clang++ %d.%d.%d", __clang_major__, __clang_minor__, __clang_patchlevel__);
#else
  const std::string compiler = "g++ " __VERSION__;
#endif
  return {
      {"version", strprintf("%d.%d.%d", GSHMEM_VENDOR_MAJOR_VERSION, GSHMEM_VENDOR_MINOR_VERSION,
                            GSHMEM_VENDOR_PATCH_VERSION)},
      {"abi", std::to_string(abi::kStateAbi)},
      {"library", library_text(program_library())},
      {"specification", strprintf("OpenSHMEM %d.%d", GSHMEM_MAJOR_VERSION, GSHMEM_MINOR_VERSION)},
      {"nvshmem", GSHMEM_INFO_NVSHMEM},
      {"compiler", compiler},
      {"build_type", GSHMEM_INFO_BUILD_TYPE},
      {"sanitizers", GSHMEM_INFO_SANITIZE[0] ? GSHMEM_INFO_SANITIZE : "none"},
      {"cuda_toolkit", toolkit()},
      {"cuda_driver", driver()},
      {"pmix", GSHMEM_INFO_PMIX ? "yes, libpmix.so.2 is loaded when used" : "no"},
      {"mpi", GSHMEM_INFO_MPI ? "yes, as a plugin" : "no"},
      {"network", network()}};
}

}  // namespace

std::string version_line() {
  return strprintf("gshmem %d.%d.%d, ABI %u, NVSHMEM " GSHMEM_INFO_NVSHMEM,
                   GSHMEM_VENDOR_MAJOR_VERSION, GSHMEM_VENDOR_MINOR_VERSION,
                   GSHMEM_VENDOR_PATCH_VERSION, abi::kStateAbi);
}

std::vector<VariableReport> check_variables(std::vector<ConfigEntry> entries) {
  std::vector<VariableReport> reports;
  for (ConfigEntry& entry : entries) {
    VariableReport report{std::move(entry), ""};
    try {
      // All other variables have their defaults, so that an error is about this one.
      (void)Config::from(
          [](const char* name, void* context) -> const char* {
            const auto& mine = *static_cast<const ConfigEntry*>(context);
            return mine.name == name ? mine.value.c_str() : nullptr;
          },
          &report.entry);
    } catch (const Error& error) {
      // The text begins with the variable's name, which may not be the one that the user has set.
      const std::string& name = report.entry.name;
      report.error = report.entry.set_by + std::string(error.what()).substr(name.size());
    }
    reports.push_back(std::move(report));
  }
  return reports;
}

std::vector<VariableReport> only(const std::vector<std::string>& names,
                                 std::vector<VariableReport> all) {
  std::vector<VariableReport> found;
  for (const std::string& given : names) {
    const std::string ours = config_set_through(given), &name = ours.empty() ? given : ours;
    const auto at = std::ranges::find(
        all, name, [](const VariableReport& variable) { return variable.entry.name; });
    if (at == all.end()) {
      std::vector<std::string> unknown = config_unknown_names({name});
      unknown.push_back(config_names_without_twin({name}));
      throw Error(GSHMEMX_ERROR_INVALID_VALUE,
                  unknown.front().empty()
                      ? name + " is not a variable of gshmem; gshmem-info lists those it has"
                      : unknown.front());
    }
    found.push_back(*at);
  }
  return found;
}

bool Report::good() const {
  return job_error.empty() &&
         std::ranges::all_of(variables, [](const VariableReport& v) { return v.error.empty(); });
}

std::string Report::value_of(std::string_view variable) const {
  const auto found = std::ranges::find(
      variables, variable, [](const VariableReport& v) { return std::string_view(v.entry.name); });
  return found == variables.end() ? "" : found->entry.value;
}

Report collect(const std::string& sysfs_root) {
  Report report;
  report.build = build_facts();
  report.variables = check_variables(config_entries_from_env());
  report.unknown_variables = config_warnings_from_env();
  try {
    report.no_gpus = why_no_gpu();
    report.gpus = gpu_list();
  } catch (const Error& error) {
    report.no_gpus = error.what();
  }
  report.nics = nic_ports(sysfs_root);
  return report;
}

}  // namespace gshmem::info
