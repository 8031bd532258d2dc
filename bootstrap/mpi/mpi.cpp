// Uses the application's MPI communicator as a bootstrap, through a plugin: libgshmem itself does
// not link MPI.
#include "bootstrap/bootstrap.h"
#include "bootstrap/mpi/plugin.h"
#include "host/base/dynamic_library.h"
#include "host/base/failure.h"
#include "host/base/log.h"

#include <filesystem>
#include <utility>

namespace gshmem::bootstrap {
namespace {

constexpr char kPluginName[] = "libgshmem_bootstrap_mpi.so";

/// Looks first in the folder of this library, which has the plugin of this very build, and then in
/// the system's folders.
DynamicLibrary load_plugin() {
  const std::filesystem::path here = folder_of_code(kPluginName);
  for (const auto& folder : {here, here / ".." / "lib"}) {
    std::error_code ignored;
    const auto candidate = folder / kPluginName;
    if (!here.empty() && std::filesystem::exists(candidate, ignored))
      return DynamicLibrary(candidate.string());
  }
  try {
    return DynamicLibrary(kPluginName);
  } catch (const Error& error) {
    throw Error(GSHMEMX_ERROR_NOT_SUPPORTED, std::string("no MPI bootstrap: ") + error.what() +
                                                 "; nor is it in " + here.string() +
                                                 " (it is built where CMake finds an MPI)");
  }
}

const gshmem_mpi_plugin* plugin_of(const DynamicLibrary& library) {
  using Entry = const gshmem_mpi_plugin*();
  const gshmem_mpi_plugin* const plugin = library.function<Entry>(GSHMEM_MPI_PLUGIN_SYMBOL)();
  require(plugin->version == GSHMEM_MPI_PLUGIN_VERSION, GSHMEMX_ERROR_NOT_SUPPORTED,
          strprintf("%s has version %d, this library needs version %d", kPluginName,
                    plugin->version, GSHMEM_MPI_PLUGIN_VERSION));
  return plugin;
}

class Mpi final : public Bootstrap {
 public:
  Mpi(const void* comm, double timeout_seconds)
      : library_(load_plugin()), plugin_(plugin_of(library_)), timeout_seconds_(timeout_seconds) {
    gshmem_mpi_text why{};
    check(plugin_->open(comm, timeout_seconds_, &job_, &rank_, &size_, &why), why);
  }
  Mpi(const Mpi&) = delete;
  Mpi& operator=(const Mpi&) = delete;
  ~Mpi() override { finish(); }

  int rank() const noexcept override { return rank_; }
  int size() const noexcept override { return size_; }
  const char* name() const noexcept override { return "mpi"; }
  void allgather(const void* send, void* recv, std::size_t bytes) override {
    if (failure_) failure_.raise();
    require(bytes <= kMaxBytes, GSHMEMX_ERROR_INVALID_VALUE,
            strprintf("bootstrap allgather of %zu bytes per rank; at most %zu", bytes, kMaxBytes));
    gshmem_mpi_text why{};
    // An MPI collective of no bytes need not wait for other ranks.
    check(bytes == 0 ? plugin_->barrier(job_, timeout_seconds_, &why)
                     : plugin_->allgather(job_, send, recv, bytes, timeout_seconds_, &why),
          why);
  }
  void finish() noexcept override {
    if (job_ != nullptr) plugin_->close(std::exchange(job_, nullptr));
    failure_ = {GSHMEMX_ERROR_BOOTSTRAP, "the ranks have met, and need no bootstrap any more"};
  }

 private:
  /// Stores the first failure, which every later call reports.
  void check(int status, const gshmem_mpi_text& why) {
    if (status == GSHMEMX_SUCCESS) return;
    failure_ = {static_cast<gshmemx_status>(status), why.text};
    failure_.raise();
  }

  DynamicLibrary library_;
  const gshmem_mpi_plugin* plugin_;
  void* job_ = nullptr;
  double timeout_seconds_;
  int rank_ = 0, size_ = 0;
  JobFailure failure_;
};

}  // namespace

std::unique_ptr<Bootstrap> create_mpi(const void* comm, const Config& config) {
  return std::make_unique<Mpi>(comm, config.bootstrap_timeout);
}

Place place_in_mpi(const void* comm) {
  const DynamicLibrary library = load_plugin();
  Place place{};
  gshmem_mpi_text why{};
  const int status = plugin_of(library)->place(comm, &place.rank, &place.size, &why);
  require(status == GSHMEMX_SUCCESS, static_cast<gshmemx_status>(status), why.text);
  return place;
}

}  // namespace gshmem::bootstrap
