// How PEs find each other before any transport exists: rank, size, allgather, barrier, abort.
// Implementations: pmix (launchers), mpi (application's communicator), uid (TCP), threads (several
// PEs in one process), single. All pass tests/bootstrap. Invariant: every call ends within the
// timeout given at creation, with the data of all ranks or with an Error. The Error names the rank
// that is missing where that is known.
#pragma once

#include "host/base/config.h"
#include "host/base/error.h"

#include <algorithm>
#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

struct gshmemx_uniqueid;

namespace gshmem::bootstrap {

class Bootstrap {
 public:
  virtual ~Bootstrap() = default;
  [[nodiscard]] virtual int rank() const noexcept = 0;
  [[nodiscard]] virtual int size() const noexcept = 0;
  [[nodiscard]] virtual const char* name() const noexcept = 0;  ///< "pmix", "mpi", "uid", ...

  /// Shape: `bytes` from every rank (the same on all), size()*bytes into `recv` in rank order.
  /// Threads: one at a time per rank. Errors: GSHMEMX_ERROR_BOOTSTRAP, _TIMEOUT, _PEER_FAILED.
  virtual void allgather(const void* send, void* recv, std::size_t bytes) = 0;

  /// Shape: size()*bytes from every rank, a part for each in rank order; of each rank the part for
  /// this one into `recv`, in rank order. As allgather. Costs a rank what it sends and gets; by
  /// allgather, for an implementation without a better way, size() times that.
  virtual void alltoall(const void* send, void* recv, std::size_t bytes) {
    const auto n = static_cast<std::size_t>(size()), me = static_cast<std::size_t>(rank());
    std::vector<char> all(n * n * bytes);
    allgather(send, all.data(), n * bytes);
    for (std::size_t from = 0; from < n; ++from)
      std::copy_n(all.data() + (from * n + me) * bytes, bytes,
                  static_cast<char*>(recv) + from * bytes);
  }

  /// Returns on no rank before every rank has called it.
  virtual void barrier() = 0;

  /// Tells the other ranks (their current or next call fails with `reason` and this rank, where the
  /// implementation can) and leaves this process running: the caller decides how it ends.
  virtual void abort(int code, std::string_view reason) noexcept = 0;
};

/// Gathers one trivially copyable value from every rank.
template <class T>
[[nodiscard]] std::vector<T> allgather(Bootstrap& boot, const T& mine) {
  static_assert(std::is_trivially_copyable_v<T>);
  std::vector<T> all(static_cast<std::size_t>(boot.size()));
  boot.allgather(&mine, all.data(), sizeof(T));
  return all;
}

/// The bootstrap that the configuration and the environment ask for (GSHMEM_BOOTSTRAP).
/// auto: pmix when a PMIx server started us (PMIX_RANK and PMIX_NAMESPACE set and the server
/// answers), uid when GSHMEM_UID_ADDRESS is set, else single.
[[nodiscard]] std::unique_ptr<Bootstrap> create(const Config& config);

/// The variable by which a launcher says that it started several processes; null = none says so.
/// Each is a job of its own unless there is a PMIx server.
[[nodiscard]] const char* launcher_without_pmix(Config::Lookup lookup, void* context);

[[nodiscard]] std::unique_ptr<Bootstrap> create_single();
/// Rank and size come from the launcher's server; data goes over TCP between the ranks where they
/// can connect (GSHMEM_UID_INTERFACE, GSHMEM_UID_FAMILY), else through the server. abort() has the
/// launcher end the job. PMIx itself is left at process exit, not with the bootstrap. Errors:
/// GSHMEMX_ERROR_BOOTSTRAP when there is no server ("not started by a PMIx launcher ..."),
/// GSHMEMX_ERROR_NOT_SUPPORTED when libpmix is missing or the build has no PMIx.
[[nodiscard]] std::unique_ptr<Bootstrap> create_pmix(const Config& config);
/// `comm`: address of the application's MPI_Comm (MPI_Comm*), of which the job gets a duplicate.
/// Loads the plugin libgshmem_bootstrap_mpi.so, which is compiled against the mpi.h found at build
/// time. Threads: calls MPI from the calling thread only. Destroy it before MPI_Finalize.
[[nodiscard]] std::unique_ptr<Bootstrap> create_mpi(const void* comm, const Config& config);
/// Every rank passes the id that one of them made with make_uniqueid.
[[nodiscard]] std::unique_ptr<Bootstrap> create_uid(const gshmemx_uniqueid& id, int rank, int size,
                                                    const Config& config);
/// Rank 0 listens on GSHMEM_UID_ADDRESS; no id needs to be shared.
[[nodiscard]] std::unique_ptr<Bootstrap> create_uid_from_address(const Config& config);
/// Makes an id: opens a listening socket, starts the root service thread in this process, and
/// packs address, port and a random cookie. The service ends when the last rank has left, at the
/// latest with the process; the ranks that are left then fail. Where no rank has come for an hour
/// (GSHMEM_BOOTSTRAP_TIMEOUT where that is longer, 0 = never), it ends with an error in the log.
void make_uniqueid(gshmemx_uniqueid* id, const Config& config);

/// N bootstraps for N threads of this process; element r is rank r.
[[nodiscard]] std::vector<std::unique_ptr<Bootstrap>> create_threads(int size,
                                                                     double timeout_seconds);

}  // namespace gshmem::bootstrap
