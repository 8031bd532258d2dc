// Who the PEs of a job are, and how they exchange their first addresses; from then on they meet by
// host/control. Implementations: pmix (launchers), mpi (application's communicator), uid (TCP),
// threads (several PEs in one process), single. All pass tests/bootstrap. Invariant: every call
// ends within the timeout given at creation, with the data of all ranks or with an Error. The Error
// names the rank that is missing where that is known.
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

  /// `lost(why)` is called when the launcher does not watch over the job any more, on a thread of
  /// its own, until `lost` is replaced. Threads: one at a time.
  virtual void on_lost(std::function<void(const std::string& why)> /*lost*/) {}
  /// The ranks have met: all that is left is abort(). Lets go of what the others' data came by.
  virtual void finish() noexcept {}
  /// Has the launcher end the processes of the job, where it can. This process may run on: the
  /// caller decides how it ends.
  virtual void abort(int /*code*/, std::string_view /*reason*/) noexcept {}
};

/// Of what a rank brings to an allgather of a bootstrap.
inline constexpr std::size_t kMaxBytes = std::size_t{1} << 16;

using gshmem::allgather;

/// The bootstrap that the configuration and the environment ask for (GSHMEM_BOOTSTRAP).
/// auto: pmix when a PMIx server started us (PMIX_RANK and PMIX_NAMESPACE set and the server
/// answers), uid when GSHMEM_UID_ADDRESS or torchrun's variables are set, else single. Errors:
/// GSHMEMX_ERROR_BOOTSTRAP where a launcher started this process as one of several, and none of
/// these is there.
[[nodiscard]] std::unique_ptr<Bootstrap> create(const Config& config);

/// A launcher, by the variables that it sets for each process. The first two give rank and size of
/// a job by GSHMEM_UID_ADDRESS.
struct Launcher {
  const char* name;
  const char *rank, *size;
  const char* local_size;  ///< processes on this host, where `size` may not be set; or empty
  const char* way_out;     ///< how its processes join a job
};
/// The launcher that started this process as one of several; null = none says so.
[[nodiscard]] const Launcher* launcher_of_several(Config::Lookup lookup, void* context);
/// That they cannot join a job, with the variable that says how many they are.
[[nodiscard]] std::string cannot_join(const Launcher& launcher, Config::Lookup lookup,
                                      void* context);
/// Under torchrun rank 0 listens on the port this far from MASTER_PORT: above, or below where there
/// is none. PyTorch's store has MASTER_PORT itself, and jobs side by side have the next ones.
inline constexpr int kTorchrunPortOffset = 119;

[[nodiscard]] std::unique_ptr<Bootstrap> create_single();
/// Rank, size and data come from the launcher's server. abort() has the launcher end the job. PMIx
/// itself is left at process exit, not with the bootstrap. Errors:
/// GSHMEMX_ERROR_BOOTSTRAP when there is no server ("not started by a PMIx launcher ..."),
/// GSHMEMX_ERROR_NOT_SUPPORTED when libpmix is missing or the build has no PMIx.
[[nodiscard]] std::unique_ptr<Bootstrap> create_pmix(const Config& config);
/// `comm`: address of the application's MPI_Comm (MPI_Comm*), of which the job gets a duplicate.
/// Loads the plugin libgshmem_bootstrap_mpi.so, which is compiled against the mpi.h found at build
/// time. Threads: calls MPI from the calling thread only, until finish().
[[nodiscard]] std::unique_ptr<Bootstrap> create_mpi(const void* comm, const Config& config);
/// This process's, in a communicator as of create_mpi. Local.
struct Place {
  int rank, size;
};
[[nodiscard]] Place place_in_mpi(const void* comm);
/// Every rank passes the id that one of them made with make_uniqueid.
[[nodiscard]] std::unique_ptr<Bootstrap> create_uid(const gshmemx_uniqueid& id, int rank, int size,
                                                    const Config& config);
/// Rank 0 listens on GSHMEM_UID_ADDRESS; no id needs to be shared.
[[nodiscard]] std::unique_ptr<Bootstrap> create_uid_from_address(const Config& config);
/// Makes an id: listens on the addresses that fit GSHMEM_UID_INTERFACE, and packs them with a
/// random secret. The root service gets a thread when the first rank calls. It ends when the last
/// rank has left, at the latest with the process; the ranks that are left then fail. Where no rank
/// has come for an hour (GSHMEM_BOOTSTRAP_TIMEOUT where that is longer, 0 = never), it ends with an
/// error in the log.
void make_uniqueid(gshmemx_uniqueid* id, const Config& config);

/// N bootstraps for N threads of this process, one at least; element r is rank r.
[[nodiscard]] std::vector<std::unique_ptr<Bootstrap>> create_threads(int size,
                                                                     double timeout_seconds);

}  // namespace gshmem::bootstrap
