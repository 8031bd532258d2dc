// GSHMEM_BOOTSTRAP: which way the ranks find each other.
#include "bootstrap/bootstrap.h"
#include "host/base/files.h"
#include "host/base/log.h"

#include <array>

namespace gshmem::bootstrap {
namespace {

/// Null when the launcher set the variables but its server does not answer (left-over environment).
std::unique_ptr<Bootstrap> try_pmix(const Config& config) {
  if (env_lookup("PMIX_RANK") == nullptr || env_lookup("PMIX_NAMESPACE") == nullptr) return nullptr;
  try {
    return create_pmix(config);
  } catch (const Error& error) {
    // Without libpmix, or with a server that hangs, every process would silently become a job of
    // its own: only an explicit address or choice may pass over that.
    const bool left_over = error.code() == GSHMEMX_ERROR_BOOTSTRAP;
    if (!left_over && config.uid_address.empty()) throw;
    GSHMEM_WARN("PMIX_RANK is set, but PMIx is not usable: %s", error.what());
    return nullptr;
  }
}

/// A launcher that is not PMIx started several processes, and each is about to be alone.
void warn_when_launched() {
  const char* const name = launcher_without_pmix(
      [](const char* variable, void*) { return env_lookup(variable); }, nullptr);
  if (name == nullptr) return;
  GSHMEM_WARN(
      "%s=%s, but there is no PMIx server: this process is a job of one PE "
      "(srun needs --mpi=pmix)",
      name, env_lookup(name));
}

}  // namespace

const char* launcher_without_pmix(Config::Lookup lookup, void* context) {
  // Set per process by Open MPI, Slurm steps, and PMI-1/2 launchers such as hydra.
  constexpr std::array kSizes{"OMPI_COMM_WORLD_SIZE", "SLURM_STEP_NUM_TASKS", "PMI_SIZE"};
  for (const char* name : kSizes) {
    const char* const text = lookup(name, context);
    if (text != nullptr && leading_number(text) > 1) return name;
  }
  return nullptr;
}

std::unique_ptr<Bootstrap> create(const Config& config) {
  switch (config.bootstrap) {
    case BootstrapKind::kPmix:
      return create_pmix(config);
    case BootstrapKind::kUid:
      return create_uid_from_address(config);
    case BootstrapKind::kSingle:
      return create_single();
    case BootstrapKind::kAuto:
      break;
  }
  if (auto boot = try_pmix(config)) return boot;
  if (!config.uid_address.empty()) return create_uid_from_address(config);
  warn_when_launched();
  return create_single();
}

}  // namespace gshmem::bootstrap
