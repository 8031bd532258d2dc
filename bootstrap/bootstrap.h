// A bootstrap tells a PE its rank and the size of the job, and exchanges the first addresses of the
// PEs. After that they synchronize by host/control. Implementations: pmix (launchers), mpi
// (application's communicator), uid (TCP), threads (several PEs in one process), single. All pass
// tests/bootstrap. Invariant: every call ends within the timeout given at creation, with the data
// of all ranks or with an Error. The Error names the missing rank where it is known.
#pragma once

#include "host/base/collectives.h"
#include "host/base/config.h"
#include "host/base/error.h"

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

struct gshmemx_uniqueid;

namespace gshmem::bootstrap {

class Bootstrap : public Collectives {
 public:
  [[nodiscard]] virtual const char* name() const noexcept = 0;  ///< "pmix", "mpi", "uid", ...

  /// Sets a function. `lost(why)` is called on a separate thread when the connection to the
  /// launcher is lost, so that it no longer monitors the job, until `lost` is replaced. Threads:
  /// one at a time.
  virtual void on_lost(std::function<void(const std::string& why)> /*lost*/) {}
  /// Called when all ranks have synchronized; only abort() is used afterwards. Releases what the
  /// exchange of data needed.
  virtual void finish() noexcept {}
  /// Makes the launcher end the processes of the job, if it can. This process may continue: the
  /// caller decides how it ends.
  virtual void abort(int /*code*/, std::string_view /*reason*/) noexcept {}
};

/// The limit on the bytes that a rank contributes to an allgather of a bootstrap.
inline constexpr std::size_t kMaxBytes = std::size_t{1} << 16;

using gshmem::allgather;

/// Creates the bootstrap that the configuration and the environment select (GSHMEM_BOOTSTRAP).
/// auto: pmix when a PMIx server started this process (PMIX_RANK and PMIX_NAMESPACE are set and the
/// server answers), uid when GSHMEM_UID_ADDRESS or torchrun's variables are set, otherwise single.
/// Errors: GSHMEMX_ERROR_BOOTSTRAP if a launcher started this process as one of several, and none
/// of these is available.
[[nodiscard]] std::unique_ptr<Bootstrap> create(const Config& config);

/// A launcher, described by the variables that it sets for each process. The first two give rank
/// and size for a job by GSHMEM_UID_ADDRESS.
struct Launcher {
  const char* name;
  const char *rank, *size;
  /// Number of processes on this host, for when `size` is not set; may be empty.
  const char* local_size;
  const char* way_out;  ///< explains how its processes can join a job
};
/// Returns the launcher that started this process as one of several; null if there is none.
[[nodiscard]] const Launcher* launcher_of_several(Config::Lookup lookup, void* context);
/// Returns a text that says that these processes cannot join a job, with the variable that holds
/// their number.
[[nodiscard]] std::string cannot_join(const Launcher& launcher, Config::Lookup lookup,
                                      void* context);
/// The port on which rank 0 listens under torchrun is MASTER_PORT plus this number, or minus it if
/// the sum would be out of range. PyTorch's store uses MASTER_PORT itself, and jobs on the same
/// host use the next ports.
inline constexpr int kTorchrunPortOffset = 119;

[[nodiscard]] std::unique_ptr<Bootstrap> create_single();
/// Rank, size and data come from the launcher's server. abort() makes the launcher end the job.
/// PMIx itself is finalized at process exit, not with the bootstrap. Errors:
/// GSHMEMX_ERROR_BOOTSTRAP when there is no server ("not started by a PMIx launcher ..."),
/// GSHMEMX_ERROR_NOT_SUPPORTED when libpmix is missing or the build has no PMIx.
[[nodiscard]] std::unique_ptr<Bootstrap> create_pmix(const Config& config);
/// `comm` is the address of the application's MPI_Comm (MPI_Comm*); the job uses a duplicate of it.
/// Loads the plugin libgshmem_bootstrap_mpi.so, which is compiled against the mpi.h found at build
/// time. Threads: calls MPI from the calling thread only, until finish().
[[nodiscard]] std::unique_ptr<Bootstrap> create_mpi(const void* comm, const Config& config);
/// Rank and size of this process in a communicator (see create_mpi). The call is local.
struct Place {
  int rank, size;
};
[[nodiscard]] Place place_in_mpi(const void* comm);
/// Every rank passes the id that one of them made with make_uniqueid.
[[nodiscard]] std::unique_ptr<Bootstrap> create_uid(const gshmemx_uniqueid& id, int rank, int size,
                                                    const Config& config);
/// Rank 0 listens on GSHMEM_UID_ADDRESS; no id needs to be shared.
[[nodiscard]] std::unique_ptr<Bootstrap> create_uid_from_address(const Config& config);
/// Makes an id: listens on the addresses that match GSHMEM_UID_INTERFACE, and packs them with a
/// random secret. The root service gets a thread when the first rank connects. It ends when the
/// last rank has left, at the latest with the process; ranks that are still connected then fail. If
/// no rank has connected for an hour (or GSHMEM_BOOTSTRAP_TIMEOUT if that is longer, 0 = never), it
/// ends with an error in the log.
void make_uniqueid(gshmemx_uniqueid* id, const Config& config);

/// Creates N bootstraps (at least one) for N threads of this process; element r is rank r.
[[nodiscard]] std::vector<std::unique_ptr<Bootstrap>> create_threads(int size,
                                                                     double timeout_seconds);

}  // namespace gshmem::bootstrap
