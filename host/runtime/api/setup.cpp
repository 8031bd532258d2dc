#include <gshmem/gshmem.h>

#include "host/runtime/api/edge.h"
#include "host/runtime/threads.h"
#include "host/base/at_fork.h"
#include "host/base/thread.h"

#include <algorithm>
#include <cstring>
#include <deque>
#include <optional>

using namespace gshmem;

/// N bootstraps per round of init; a rank that calls init again starts the next round.
struct gshmemx_thread_world {
  explicit gshmemx_thread_world(int n) : n_pes(n), rounds_of(static_cast<std::size_t>(n)) {}

  std::unique_ptr<bootstrap::Bootstrap> take(int rank, double timeout) {
    const std::lock_guard lock(mutex);
    const std::size_t round = rounds_of[static_cast<std::size_t>(rank)]++ - taken;
    while (rounds.size() <= round) rounds.push_back(bootstrap::create_threads(n_pes, timeout));
    auto mine = std::move(rounds[round][static_cast<std::size_t>(rank)]);
    const auto least = *std::ranges::min_element(rounds_of);
    for (; taken < least; ++taken) rounds.pop_front();
    return mine;
  }

  int n_pes;
  std::uint32_t forks = fork_count();  ///< fork_count() of the process that created it
  std::mutex mutex;
  std::vector<std::size_t> rounds_of;  ///< number of rounds, by rank
  std::size_t taken = 0;               ///< number of rounds that all ranks have entered
  std::deque<std::vector<std::unique_ptr<bootstrap::Bootstrap>>> rounds;
};

namespace {

/// Returns the choice of GSHMEM_FAULT, even if other variables are invalid. If GSHMEM_FAULT itself
/// is invalid, the default applies: the process ends.
bool init_may_return() {
  std::optional<Error> bad;
  return Config::from_env(&bad).fault == abi::FaultPolicy::kReport;
}

/// Opens the file for messages. Like NVSHMEM, it continues without the file if a program that has
/// set it by NVSHMEM's variable names one that cannot be opened.
void configure_log(const Config& config) {
  try {
    log_configure(config.log_level, config.log_file);
  } catch (const Error& error) {
    const std::string set_by = config_set_by("GSHMEM_LOG_FILE");
    if (set_by == "GSHMEM_LOG_FILE") throw;
    log_configure(config.log_level, "");
    GSHMEM_WARN("%s; messages go to stderr", error.what());
  }
}

/// For `bad` see Config::from_env.
Config read_config(std::optional<Error>* bad = nullptr) {
  Config config = Config::from_env(bad);
  configure_log(config);
  return config;
}

/// Errors: GSHMEMX_ERROR_INVALID_VALUE if `rank` is not a rank of `world`; the text calls it
/// `argument`.
void require_rank(const char* call, const char* argument, int rank,
                  const gshmemx_thread_world& world) {
  require(rank >= 0 && rank < world.n_pes, GSHMEMX_ERROR_INVALID_VALUE,
          strprintf("%s: %s = %d is not in [0, %d)", call, argument, rank, world.n_pes));
}

std::unique_ptr<bootstrap::Bootstrap> make_bootstrap(unsigned flags,
                                                     const gshmemx_init_attr_t* attr,
                                                     const Config& config) {
  if (flags == GSHMEMX_INIT_DEFAULT) return bootstrap::create(config);
  require_not_null("gshmemx_init_attr", "attr", attr);
  const gshmemx_init_args_t& args = attr->args;
  switch (flags) {
    case GSHMEMX_INIT_WITH_MPI_COMM:
      require(attr->mpi_comm != nullptr, GSHMEMX_ERROR_INVALID_VALUE,
              "gshmemx_init_attr: attr->mpi_comm is null with GSHMEMX_INIT_WITH_MPI_COMM");
      return bootstrap::create_mpi(attr->mpi_comm, config);
    case GSHMEMX_INIT_WITH_UNIQUEID:
      require(args.uid_args.id != nullptr, GSHMEMX_ERROR_INVALID_VALUE,
              "gshmemx_init_attr: no unique id in attr; call gshmemx_set_attr_uniqueid_args");
      return bootstrap::create_uid(*args.uid_args.id, args.uid_args.myrank, args.uid_args.nranks,
                                   config);
    case GSHMEMX_INIT_THREAD_PES:
      require(args.thread_world != nullptr, GSHMEMX_ERROR_INVALID_VALUE,
              "gshmemx_init_attr: no thread world in attr; call gshmemx_set_attr_thread_args");
      require_rank("gshmemx_init_attr", "attr->args.thread_rank", args.thread_rank,
                   *args.thread_world);
      return args.thread_world->take(args.thread_rank, config.bootstrap_timeout);
    default:
      throw Error(
          GSHMEMX_ERROR_INVALID_VALUE,
          strprintf("gshmemx_init_attr: argument flags = %u is not one of gshmemx_init_flags",
                    flags));
  }
}

/// Errors: GSHMEMX_ERROR_NOT_SUPPORTED in the child of a fork, for features that a fork breaks.
void require_works_in_child(unsigned flags, const Config& config) {
  const ForkedFrom from = process_forked_from();
  if (from.pe < 0) return;
  const auto refuse = [&](const char* what) {
    throw Error(GSHMEMX_ERROR_NOT_SUPPORTED,
                strprintf("init in a process that was forked from PE %d: %s", from.pe, what));
  };
  if (flags == GSHMEMX_INIT_WITH_MPI_COMM) refuse("MPI works in the process that initialized it");
  if (from.on_gpu && config.device != DeviceChoice::kCpu) {
    refuse(
        "CUDA does not survive a fork; start the process with exec or spawn, or set "
        "GSHMEM_DEVICE=cpu");
  }
}

bool founds_another(unsigned flags) {
  return flags == GSHMEMX_INIT_THREAD_PES || flags == GSHMEMX_INIT_WITH_UNIQUEID;
}

/// Does this init only count one more user of a PE? It does if the thread belongs to a PE. A thread
/// that can create another PE of this process must be bound to one.
bool shares_its_pe(unsigned flags) { return !founds_another(flags) || gshmemi_ambient()->bound; }

/// Init on a thread that has a PE must match that PE. Errors: GSHMEMX_ERROR_INVALID_VALUE, which
/// names both.
void require_same_job(const Pe& pe, unsigned flags, const gshmemx_init_attr_t* attr) {
  if (!attr) return;
  const gshmemx_init_args_t& args = attr->args;
  const bootstrap::Place mine{pe.state().my_pe, pe.state().n_pes};
  bootstrap::Place asked = mine;
  if (flags == GSHMEMX_INIT_WITH_UNIQUEID && args.uid_args.id)
    asked = {args.uid_args.myrank, args.uid_args.nranks};
  if (flags == GSHMEMX_INIT_WITH_MPI_COMM && attr->mpi_comm)
    asked = bootstrap::place_in_mpi(attr->mpi_comm);
  if (flags == GSHMEMX_INIT_THREAD_PES && args.thread_world)
    asked = {args.thread_rank, args.thread_world->n_pes};
  const auto refuse_unless = [](bool same, const std::string& has, const std::string& wants) {
    require(same, GSHMEMX_ERROR_INVALID_VALUE, [&] {
      return strprintf(
          "gshmemx_init_attr: this PE %s, and a second init asks for %s; call "
          "gshmem_finalize first",
          has.c_str(), wants.c_str());
    });
  };
  refuse_unless(asked.rank == mine.rank && asked.size == mine.size,
                strprintf("is PE %d of %d", mine.rank, mine.size),
                strprintf("rank %d of %d", asked.rank, asked.size));
  if (attr->version != GSHMEMX_INIT_ATTR_VERSION) return;
  const int gpu = pe.gpu() ? pe.gpu()->device() : args.cuda_device_id;
  refuse_unless(args.cuda_device_id < 0 || args.cuda_device_id == gpu, strprintf("has GPU %d", gpu),
                strprintf("GPU %d", args.cuda_device_id));
  const std::uint64_t heap = pe.config().symmetric_size;
  refuse_unless(args.symmetric_size == 0 || args.symmetric_size == heap,
                strprintf("has a heap of %lu bytes", heap),
                strprintf("one of %lu", args.symmetric_size));
}

void init(unsigned flags, const gshmemx_init_attr_t* attr) {
  // Threads that found one PE each must synchronize in init.
  std::unique_lock<std::mutex> founding;
  if (!founds_another(flags)) founding = process_founding();
  if (const Pe* pe = current_pe(); pe && shares_its_pe(flags)) {
    require_same_job(*pe, flags, attr);
    if (process_init_again()) return;
  }
  try {
    PeOptions options;
    options.config = read_config(&options.bad_config);
    require_works_in_child(flags, options.config);
    if (attr && attr->version == GSHMEMX_INIT_ATTR_VERSION) {
      options.cuda_device_id = attr->args.cuda_device_id;
      if (attr->args.symmetric_size != 0) options.config.symmetric_size = attr->args.symmetric_size;
    } else if (attr) {
      // Programs written for NVSHMEM often set only the communicator or unique id.
      require(flags != GSHMEMX_INIT_THREAD_PES, GSHMEMX_ERROR_INVALID_VALUE,
              strprintf("gshmemx_init_attr: attr->version = %d, this library knows %d; start from "
                        "GSHMEMX_INIT_ATTR_INITIALIZER",
                        attr->version, GSHMEMX_INIT_ATTR_VERSION));
      GSHMEM_INFO("gshmemx_init_attr: attr is not initialized, using only what flags = %u names",
                  flags);
    }
    options.warns_of_variables = true;
    options.publish_state = process_publish_state;
    options.has_kernels = process_has_kernels();
    options.by_nvshmem = process_is_by_nvshmem();
    options.notes_calls = process_notes_calls();
    // A bad value is reported to all PEs. It may be the reason why a bootstrap cannot be created.
    std::unique_ptr<bootstrap::Bootstrap> boot;
    try {
      boot = make_bootstrap(flags, attr, options.config);
    } catch (const Error&) {
      config_warn();  // the warnings may name the reason
      if (options.bad_config) throw Error(*options.bad_config);
      throw;
    }
    // Threads are notified at once of a thread that leaves, so none waits for the others.
    if (options.bad_config && flags == GSHMEMX_INIT_THREAD_PES) {
      config_warn();
      throw Error(*options.bad_config);
    }
    auto pe = std::make_unique<Pe>(std::move(boot), std::move(options));
    process_add(std::move(pe),
                flags == GSHMEMX_INIT_THREAD_PES ? Ownership::kThread : Ownership::kProcess);
  } catch (const Error& error) {
    set_init_error(error);
    throw;
  }
}

/// Writes the state of the calling thread's PE, or none, for the kernels of a module or library.
template <class Code>
int write_state(const char* call, const char* argument, Code* code,
                void (Gpu::*write)(const char*, Code*, const abi::DeviceState&), bool init) {
  return guard_status([&] {
    require_not_null(call, argument, code);
    Pe& pe = require_pe(call);
    require(pe.gpu() != nullptr, GSHMEMX_ERROR_NOT_SUPPORTED,
            std::string(call) + ": the PE runs in CPU mode");
    (pe.gpu()->*write)(call, code, init ? pe.state() : abi::DeviceState{});
  });
}

}  // namespace

extern "C" {

void gshmem_init(void) {
  if (guard_status([] { init(GSHMEMX_INIT_DEFAULT, nullptr); }) == GSHMEMX_SUCCESS) return;
  if (init_may_return()) return;
  end_process(1);
}

int gshmem_init_thread(int requested, int* provided) {
  return guard_status([&] {
    require(requested >= GSHMEM_THREAD_SINGLE && requested <= GSHMEM_THREAD_MULTIPLE,
            GSHMEMX_ERROR_INVALID_VALUE,
            strprintf("gshmem_init_thread: argument requested = %d is not a GSHMEM_THREAD constant",
                      requested));
    init(GSHMEMX_INIT_DEFAULT, nullptr);
    if (provided) *provided = GSHMEM_THREAD_MULTIPLE;
  });
}

void gshmem_query_thread(int* provided) {
  if (provided) *provided = GSHMEM_THREAD_MULTIPLE;
}

void gshmem_query_initialized(int* initialized) {
  if (initialized) *initialized = current_pe() != nullptr ? 1 : 0;
}

void gshmem_pcontrol(int /*level*/, ...) {}

void gshmem_finalize(void) {
  if (process_departed()) return;
  if (!current_pe()) return report_no_pe("gshmem_finalize");
  end_launch_threads();
  (void)guard_status([] { const std::unique_ptr<Pe> last = process_take_current(); });
}

void gshmem_global_exit(int status) {
  if (Pe* pe = current_pe()) pe->faults().global_exit(status);
  end_process(status);
}

void gshmem_info_get_version(int* major, int* minor) {
  if (major) *major = GSHMEM_MAJOR_VERSION;
  if (minor) *minor = GSHMEM_MINOR_VERSION;
}

void gshmem_info_get_name(char* name) {
  if (name) std::strcpy(name, GSHMEM_VENDOR_STRING);
}

int gshmemx_init_attr(unsigned int flags, gshmemx_init_attr_t* attr) {
  return guard_status([&] { init(flags, attr); });
}

int gshmemx_init_status(void) {
  const Pe* pe = current_pe();
  if (!pe) return GSHMEMX_INIT_STATUS_NOT_INITIALIZED;
  if (pe->paths().pes_on_gpu() <= 1) return GSHMEMX_INIT_STATUS_IS_INITIALIZED;
  return pe->paths().shares_by_mps() ? GSHMEMX_INIT_STATUS_FULL_MPG
                                     : GSHMEMX_INIT_STATUS_LIMITED_MPG;
}

int gshmemx_get_uniqueid(gshmemx_uniqueid_t* uniqueid) {
  return guard_status([&] {
    require_not_null("gshmemx_get_uniqueid", "uniqueid", uniqueid);
    try {
      bootstrap::make_uniqueid(uniqueid, read_config());
    } catch (const Error&) {
      config_warn();  // the warnings may name the reason
      throw;
    }
  });
}

int gshmemx_set_attr_uniqueid_args(int myrank, int nranks, const gshmemx_uniqueid_t* uniqueid,
                                   gshmemx_init_attr_t* attr) {
  return guard_status([&] {
    constexpr const char* kCall = "gshmemx_set_attr_uniqueid_args";
    require_not_null(kCall, "uniqueid", uniqueid);
    require_not_null(kCall, "attr", attr);
    require(nranks >= 1 && nranks <= abi::kMaxPes, GSHMEMX_ERROR_INVALID_VALUE,
            strprintf("%s: argument nranks = %d is not in [1, %d]", kCall, nranks, abi::kMaxPes));
    require(
        myrank >= 0 && myrank < nranks, GSHMEMX_ERROR_INVALID_VALUE,
        strprintf("%s: argument myrank = %d is not in [0, nranks = %d)", kCall, myrank, nranks));
    attr->args.uid_args = {GSHMEMX_UNIQUEID_VERSION, const_cast<gshmemx_uniqueid_t*>(uniqueid),
                           myrank, nranks};
  });
}

int gshmemx_set_attr_mpi_comm_args(void* mpi_comm, gshmemx_init_attr_t* attr) {
  return guard_status([&] {
    require_not_null("gshmemx_set_attr_mpi_comm_args", "mpi_comm", mpi_comm);
    require_not_null("gshmemx_set_attr_mpi_comm_args", "attr", attr);
    attr->mpi_comm = mpi_comm;
  });
}

int gshmemx_set_attr_thread_args(gshmemx_thread_world_t* world, int rank,
                                 gshmemx_init_attr_t* attr) {
  return guard_status([&] {
    require_not_null("gshmemx_set_attr_thread_args", "world", world);
    require_not_null("gshmemx_set_attr_thread_args", "attr", attr);
    require_rank("gshmemx_set_attr_thread_args", "argument rank", rank, *world);
    attr->args.thread_world = world;
    attr->args.thread_rank = rank;
  });
}

gshmemx_thread_world_t* gshmemx_thread_world_create(int n_pes) {
  gshmemx_thread_world_t* world = nullptr;
  (void)guard_status([&] {
    require(n_pes >= 1 && n_pes <= abi::kMaxPes, GSHMEMX_ERROR_INVALID_VALUE,
            strprintf("gshmemx_thread_world_create: argument n_pes = %d is not in [1, %d]", n_pes,
                      abi::kMaxPes));
    world = new gshmemx_thread_world(n_pes);
  });
  return world;
}

void gshmemx_thread_world_destroy(gshmemx_thread_world_t* world) {
  // In a forked child the members of the world may be locked by threads that do not exist there.
  if (world && world->forks == fork_count()) delete world;
}

void* gshmemx_pe_handle(void) { return current_pe(); }

int gshmemx_bind_thread(void* pe_handle) {
  return guard_status([&] {
    require(process_bind_thread(pe_handle), GSHMEMX_ERROR_INVALID_VALUE,
            strprintf("gshmemx_bind_thread: argument pe_handle = %p is no PE of this process",
                      pe_handle));
    try {
      if (Gpu* gpu = pe_handle ? static_cast<Pe*>(pe_handle)->gpu() : nullptr) gpu->make_current();
    } catch (...) {
      (void)process_bind_thread(nullptr);
      throw;
    }
  });
}

int gshmemx_cumodule_init(struct CUmod_st* module) {
  return write_state("gshmemx_cumodule_init", "module", module, &Gpu::write_module_state, true);
}
int gshmemx_cumodule_finalize(struct CUmod_st* module) {
  return write_state("gshmemx_cumodule_finalize", "module", module, &Gpu::write_module_state,
                     false);
}
int gshmemx_culibrary_init(struct CUlib_st* library) {
  return write_state("gshmemx_culibrary_init", "library", library, &Gpu::write_library_state, true);
}
int gshmemx_culibrary_finalize(struct CUlib_st* library) {
  return write_state("gshmemx_culibrary_finalize", "library", library, &Gpu::write_library_state,
                     false);
}

// For tests, and for include/gshmem/gpu_scope.h.
GSHMEM_EXPORT int gshmemi_agree_status(const char* call, int mine, const char* why) {
  int agreed = mine;
  const int status = guard_status([&] {
    Pe& pe = require_pe(call);
    if (mine != GSHMEMX_SUCCESS) GSHMEM_ERROR("%s: %s", call, why);
    agreed = pe.agree_status(call, mine);
  });
  return status != GSHMEMX_SUCCESS ? status : agreed;
}

GSHMEM_EXPORT int gshmemi_enter_gpu(void) {
  Pe* pe = current_pe();
  if (!pe || !pe->gpu()) return 0;
  return guard_status([&] { pe->gpu()->push_current(); }) == GSHMEMX_SUCCESS ? 1 : 0;
}

GSHMEM_EXPORT void gshmemi_leave_gpu(void) {
  if (Pe* pe = current_pe(); pe && pe->gpu()) pe->gpu()->pop_current();
}

int gshmemx_last_fault(gshmemx_fault_t* info) {
  gshmemx_fault_t fault{};
  fault.pe = -1;
  Pe* pe = current_pe();
  if (pe) {
    (void)pe->faults().last(&fault);  // if it returns false, the value stays GSHMEMX_SUCCESS
  } else {
    get_init_error(&fault);
  }
  if (info) *info = fault;
  return fault.code;
}

const char* gshmemx_status_string(int status) { return status_text(status); }

void gshmemx_vendor_get_version_info(int* major, int* minor, int* patch) {
  if (major) *major = GSHMEM_VENDOR_MAJOR_VERSION;
  if (minor) *minor = GSHMEM_VENDOR_MINOR_VERSION;
  if (patch) *patch = GSHMEM_VENDOR_PATCH_VERSION;
}

}  // extern "C"
