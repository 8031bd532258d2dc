#include "transport/nic/nic.h"

#include "host/base/collectives.h"
#include "host/base/dynamic_library.h"
#include "host/base/fd.h"
#include "transport/nic/mlx5/mlx5.h"
#include "transport/nic/model_time.h"

#include <sys/stat.h>

#include <algorithm>
#include <filesystem>
#include <mutex>
#include <optional>
#include <vector>

namespace gshmem::nic {
namespace {

namespace fs = std::filesystem;

/// Returns the folder of the soft NIC's doubles of libibverbs and libmlx5: that of libgshmem, or
/// the lib folder of a build tree whose programs have this code linked into them.
std::string doubles_folder() {
  if (const char* named = env_lookup("GSHMEM_TEST_GSHNIC_DIR")) return named;
  const std::string here = folder_of_code(reinterpret_cast<const void*>(&doubles_folder));
  const std::vector<fs::path> places = {fs::path(here) / "gshnic",
                                        fs::path(here) / "../lib/gshnic"};
  for (const fs::path& place : places) {
    std::error_code error;
    if (fs::exists(place / "libibverbs.so.1", error)) return fs::canonical(place).string();
  }
  throw Error(GSHMEMX_ERROR_NOT_SUPPORTED,
              "GSHMEM_NIC=soft: no libibverbs.so.1 in " + places.front().string() +
                  ": this installation of gshmem lacks the soft NIC's libraries (lib/gshnic)");
}

/// The soft NIC's engine, and the fabric that this process is in. There is one per process, like
/// the engine. PEs that are threads of one process join once, and a job after finalize reuses the
/// fabric of the last.
class SoftFabric {
 public:
  static SoftFabric& get(const std::string& folder) {
    static SoftFabric fabric(folder);
    return fabric;
  }

  /// Returns a descriptor of the fabric for the PEs of this host: the one that this process is in,
  /// or else a new one.
  Fd root_fd() {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (fd_) return Fd(static_cast<int>(check_errno(dup(fd_.get()), "dup(fabric)")));
    const int made = library_.function<int()>("gshnic_make_fabric")();
    require(made >= 0, GSHMEMX_ERROR_NIC, "gshnic_make_fabric: " + reason());
    return Fd(made);
  }

  /// Tells the soft NIC's model of costs (GSHNIC_COSTS).
  void stage(bool staged) {
    require(library_.function<int(int)>("gshnic_stage")(staged ? 1 : 0) == 0, GSHMEMX_ERROR_NIC,
            "gshnic_stage: " + reason());
  }
  std::optional<ModelTime> model_time() {
    ModelTime time;
    auto* const read = library_.function<int(double*, double*)>("gshnic_model_time");
    if (read(&time.seconds, &time.cpu_seconds) == 0) return {};
    return time;
  }

  void join(Fd fd) {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (fd_ && same_file(fd_.get(), fd.get())) return;
    require(
        !fd_, GSHMEMX_ERROR_NOT_SUPPORTED,
        "this process is in the soft NIC's fabric of another job already, and can be in one only");
    require(library_.function<int(int)>("gshnic_join_fabric")(fd.get()) == 0, GSHMEMX_ERROR_NIC,
            "gshnic_join_fabric: " + reason());
    fd_ = std::move(fd);
  }

 private:
  explicit SoftFabric(const std::string& folder) : library_(folder + "/libgshnic.so") {}
  std::string reason() const { return library_.function<const char*()>("gshnic_error")(); }
  static bool same_file(int a, int b) {
    struct stat x {
    }, y{};
    check_errno(fstat(a, &x), "fstat(fabric)");
    check_errno(fstat(b, &y), "fstat(fabric)");
    return x.st_dev == y.st_dev && x.st_ino == y.st_ino;
  }

  DynamicLibrary library_;
  std::mutex mutex_;
  Fd fd_;  ///< kept open, so that the file's number is not reused
};

void join_fabric(const OpenOptions& options, const std::string& folder) {
  const std::vector<int> roots = allgather(options.boot, options.node_root ? 1 : 0);
  const auto hosts = std::ranges::count(roots, 1);
  require(hosts <= 1, GSHMEMX_ERROR_NOT_SUPPORTED,
          strprintf("GSHMEM_NIC=soft connects the PEs of one host, but this job has %d hosts: use "
                    "GSHMEM_NIC=ofi",
                    static_cast<int>(hosts)));
  SoftFabric& fabric = SoftFabric::get(folder);
  fabric.stage(options.config.gdr == Switch::kOff);
  if (!options.share_fd) return;  // a single process has a fabric of its own
  const Fd root = options.node_root ? fabric.root_fd() : Fd();
  fabric.join(Fd(options.share_fd(root.get())));
}

/// Logs why mlx5 cannot be used, on the first such PE. It is a warning if the user may have wanted
/// the NIC that exists.
void log_why_not_mlx5(const OpenOptions& options, const mlx5::Usable& mine) {
  const bool surprising = mine.has_device && options.config.gdr != Switch::kOff;
  const LogLevel level = surprising ? LogLevel::kWarn : LogLevel::kInfo;
  GSHMEM_LOG(level, "GSHMEM_NIC=auto: libfabric on all PEs, because PE %d cannot use mlx5: %s",
             options.boot.rank(), mine.why_not.c_str());
}

NicList open_one_ofi(const OpenOptions& options) {
  NicList nics;
  nics.push_back(open_ofi(options));
  return nics;
}

}  // namespace

NicList open_soft(const OpenOptions& options) {
  const std::string folder = doubles_folder();
  join_fabric(options, folder);
  return mlx5::open_in(options, folder);
}

std::optional<ModelTime> soft_model_time() {
  return SoftFabric::get(doubles_folder()).model_time();
}

std::optional<ModelTime> model_time(NicKind kind) {
  if (kind == NicKind::kSoft) return soft_model_time();
  const char* const costs = env_lookup("GSHMEM_TEST_FABRIC_COSTS");
  if (kind != NicKind::kOfi || costs == nullptr || *costs == '\0') return {};
  static const DynamicLibrary library("libfabric.so.1");
  ModelTime time;
  library.function<void(double*, double*)>("fabric_double_model_time")(&time.seconds,
                                                                       &time.cpu_seconds);
  return time;
}

NicList open(const OpenOptions& options) {
  switch (options.config.nic) {
    case NicKind::kNone:
      return {};
    case NicKind::kMlx5:
      return open_mlx5(options);
    case NicKind::kSoft:
      return open_soft(options);
    case NicKind::kOfi:
      return open_one_ofi(options);
    case NicKind::kAuto:
      break;
  }
  // All PEs use one kind, or they could not be connected.
  const mlx5::Usable mine = mlx5::usable(options, {});
  const std::vector<int> able = allgather(options.boot, mine.why_not.empty() ? 1 : 0);
  const auto without = std::ranges::find(able, 0);
  if (without == able.end()) return open_mlx5(options);
  if (without - able.begin() == options.boot.rank()) log_why_not_mlx5(options, mine);
  return open_one_ofi(options);
}

}  // namespace gshmem::nic
