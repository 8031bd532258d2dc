// Chooses how the ranks find each other (GSHMEM_BOOTSTRAP).
#include "bootstrap/bootstrap.h"
#include "host/base/files.h"
#include "host/base/log.h"

#include <algorithm>
#include <charconv>
#include <iterator>

namespace gshmem::bootstrap {
namespace {

// torchrun is last: users of other launchers set its variables, too.
constexpr Launcher kLaunchers[] = {
    {"Open MPI's mpirun", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "",
     "mpirun -x GSHMEM_UID_ADDRESS=<host of rank 0>:<port> ..., or an Open MPI of version 4 or "
     "newer with its libpmix.so.2"},
    {"srun", "SLURM_PROCID", "SLURM_STEP_NUM_TASKS", "",
     "srun --mpi=pmix ... (srun --mpi=list shows what there is)"},
    {"PALS", "PALS_RANKID", "PMI_SIZE", "PALS_LOCAL_SIZE",
     "mpiexec --pmi=pmix ..., or mpiexec --env GSHMEM_UID_ADDRESS=<host of rank 0>:<port> ..."},
    {"Flux", "FLUX_TASK_RANK", "FLUX_JOB_SIZE", "",
     "flux run -o pmi=pmix ... (package flux-pmix), or "
     "flux run --env=GSHMEM_UID_ADDRESS=<host of rank 0>:<port> ..."},
    {"jsrun", "JSM_NAMESPACE_RANK", "JSM_NAMESPACE_SIZE", "",
     "jsrun -E GSHMEM_UID_ADDRESS=<host of rank 0>:<port> ..."},
    {"MVAPICH's mpirun_rsh", "MV2_COMM_WORLD_RANK", "MV2_COMM_WORLD_SIZE", "",
     "mpirun_rsh ... GSHMEM_UID_ADDRESS=<host of rank 0>:<port> ./program"},
    {"MVAPICH's mpirun_rsh", "MPIRUN_RANK", "MPIRUN_NPROCS", "",
     "mpirun_rsh ... GSHMEM_UID_ADDRESS=<host of rank 0>:<port> ./program"},
    {"a PMI launcher (hydra)", "PMI_RANK", "PMI_SIZE", "",
     "mpiexec -genv GSHMEM_UID_ADDRESS <host of rank 0>:<port> ..."},
    {"torchrun", "RANK", "WORLD_SIZE", "",
     "MASTER_ADDR and MASTER_PORT, or GSHMEM_UID_ADDRESS=<host of rank 0>:<port>, in the "
     "environment of all ranks"},
};

const char* environment(const char* name, void*) { return env_lookup(name); }

/// Returns the number in a variable; 0 if there is none.
int number_of(const char* name, Config::Lookup lookup, void* context) {
  const char* const text = *name != 0 ? lookup(name, context) : nullptr;
  const auto number = text != nullptr ? leading_number(text) : std::nullopt;
  return number && *number > 0 && *number <= 1'000'000'000 ? static_cast<int>(*number) : 0;
}

/// Did torchrun start this process itself? Then other launchers' variables are leftovers that
/// torchrun has inherited.
bool is_torchrun() { return env_lookup("TORCHELASTIC_RUN_ID") != nullptr; }

/// Returns the address at which ranks under torchrun synchronize; empty if torchrun does not
/// provide one. PyTorch uses MASTER_PORT itself.
std::string torchrun_address() {
  const char* const host = env_lookup("MASTER_ADDR");
  const int port = number_of("MASTER_PORT", environment, nullptr);
  if (host == nullptr || *host == 0 || port < 1 || port > 65535) return {};
  const int beside = port + (port + kTorchrunPortOffset <= 65535 ? 1 : -1) * kTorchrunPortOffset;
  const std::string name = host;
  const bool is_ipv6 = name.find(':') != std::string::npos && name.front() != '[';
  return (is_ipv6 ? "[" + name + "]" : name) + ":" + std::to_string(beside);
}

/// Creates a bootstrap from an address. Rank and size come from the launcher where GSHMEM_UID_RANK
/// and GSHMEM_UID_SIZE are not set.
std::unique_ptr<Bootstrap> create_by_address(Config config, const Launcher* launcher) {
  if (launcher != nullptr && config.uid_rank < 0 && config.uid_size < 0) {
    config.uid_rank = number_of(launcher->rank, environment, nullptr);
    config.uid_size = number_of(launcher->size, environment, nullptr);
  }
  if (!config.uid_address.empty() || launcher == nullptr) return create_uid_from_address(config);
  config.uid_address = torchrun_address();
  try {
    return create_uid_from_address(config);
  } catch (const Error& error) {
    throw Error(error.code(),
                strprintf("%s; the address is that of MASTER_ADDR and MASTER_PORT with the port %d "
                          "from it, and GSHMEM_UID_ADDRESS=<host of rank 0>:<port> for all ranks "
                          "sets another one",
                          error.what(), kTorchrunPortOffset));
  }
}

/// Returns null when the launcher set the variables but its server does not answer (left-over
/// environment).
std::unique_ptr<Bootstrap> try_pmix(const Config& config) {
  if (env_lookup("PMIX_RANK") == nullptr || env_lookup("PMIX_NAMESPACE") == nullptr) return nullptr;
  try {
    return create_pmix(config);
  } catch (const Error& error) {
    // Without libpmix, or with a server that hangs, every process would silently become a
    // separate job. Only an explicit address or choice may override that.
    const bool left_over = error.code() == GSHMEMX_ERROR_BOOTSTRAP;
    if (!left_over && config.uid_address.empty()) throw;
    GSHMEM_WARN("PMIX_RANK is set, but PMIx is not usable: %s", error.what());
    return nullptr;
  }
}

}  // namespace

const Launcher* launcher_of_several(Config::Lookup lookup, void* context) {
  const auto found = std::ranges::find_if(kLaunchers, [&](const Launcher& launcher) {
    const int most = std::max(number_of(launcher.size, lookup, context),
                              number_of(launcher.local_size, lookup, context));
    return lookup(launcher.rank, context) != nullptr && most > 1;
  });
  return found != std::end(kLaunchers) ? found : nullptr;
}

std::string cannot_join(const Launcher& launcher, Config::Lookup lookup, void* context) {
  const char* const size =
      number_of(launcher.size, lookup, context) > 1 ? launcher.size : launcher.local_size;
  return strprintf(
      "%s started this process as one of several (%s=%s), and there is no PMIx server "
      "by which they would find each other",
      launcher.name, size, lookup(size, context));
}

std::unique_ptr<Bootstrap> create(const Config& config) {
  const Launcher* const launcher = launcher_of_several(environment, nullptr);
  switch (config.bootstrap) {
    case BootstrapKind::kPmix:
      return create_pmix(config);
    case BootstrapKind::kUid:
      return create_by_address(config, launcher);
    case BootstrapKind::kSingle:
      return create_single();
    case BootstrapKind::kAuto:
      break;
  }
  if (!is_torchrun()) {
    if (auto boot = try_pmix(config)) return boot;
  }
  if (!config.uid_address.empty()) return create_by_address(config, launcher);
  if (launcher == nullptr) return create_single();
  const bool by_torchrun = launcher->rank == std::string_view("RANK");
  if (by_torchrun && !torchrun_address().empty()) return create_by_address(config, launcher);
  throw Error(GSHMEMX_ERROR_BOOTSTRAP,
              cannot_join(*launcher, environment, nullptr) + "; use " + launcher->way_out +
                  "; or GSHMEM_BOOTSTRAP=single where each process is a separate job");
}

}  // namespace gshmem::bootstrap
