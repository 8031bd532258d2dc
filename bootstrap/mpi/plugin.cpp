// libgshmem_bootstrap_mpi.so: collectives over a duplicate of the application's communicator.
//
// Non-blocking collectives with MPI_Test give every call a deadline. A collective that did not
// finish cannot be cancelled, so its buffers belong to the job and outlive the call. Only the
// thread that calls init calls MPI, so any level of thread support is enough.
#include "bootstrap/mpi/plugin.h"

#include <gshmem/status.h>

#include <mpi.h>

#include <algorithm>
#include <chrono>
#include <cstdarg>
#include <cstdio>
#include <cstring>
#include <exception>
#include <memory>
#include <thread>
#include <vector>

namespace {

using Clock = std::chrono::steady_clock;

/// The result of a failed call; thrown inside this file only.
struct Failed {
  int status;
  gshmem_mpi_text why;
};

[[noreturn, gnu::format(printf, 2, 3)]] void fail(int status, const char* format, ...) {
  Failed failed{status, {}};
  va_list args;
  va_start(args, format);
  std::vsnprintf(failed.why.text, sizeof failed.why.text, format, args);
  va_end(args);
  throw failed;
}

void check(int code, const char* call) {
  if (code == MPI_SUCCESS) return;
  char text[MPI_MAX_ERROR_STRING] = "";
  int length = 0;
  MPI_Error_string(code, text, &length);
  fail(GSHMEMX_ERROR_BOOTSTRAP, "%s: %s", call, text);
}

class Job {
 public:
  Job() = default;
  Job(const Job&) = delete;
  Job& operator=(const Job&) = delete;
  ~Job() {
    int finalized = 0;
    MPI_Finalized(&finalized);
    if (broken_) {
      (void)memory_.release();
    } else if (finalized == 0 && memory_->comm != MPI_COMM_NULL) {
      MPI_Comm_free(&memory_->comm);
    }
  }

  void open(MPI_Comm comm, double seconds) {
    MPI_Request request = MPI_REQUEST_NULL;
    check(MPI_Comm_idup(comm, &memory_->comm, &request), "MPI_Comm_idup");
    wait(&request, "init", seconds);
    check(MPI_Comm_set_errhandler(memory_->comm, MPI_ERRORS_RETURN), "MPI_Comm_set_errhandler");
    check(MPI_Comm_rank(memory_->comm, &rank_), "MPI_Comm_rank");
    check(MPI_Comm_size(memory_->comm, &size_), "MPI_Comm_size");
  }
  [[nodiscard]] int rank() const { return rank_; }
  [[nodiscard]] int size() const { return size_; }

  /// `bytes` must fit an int.
  void allgather(const std::byte* send, std::byte* recv, std::size_t bytes, double seconds) {
    require_not_finalized();
    memory_->send.assign(send, send + bytes);
    memory_->recv.resize(bytes * static_cast<std::size_t>(size_));
    MPI_Request request = MPI_REQUEST_NULL;
    const int count = static_cast<int>(bytes);
    check(MPI_Iallgather(memory_->send.data(), count, MPI_BYTE, memory_->recv.data(), count,
                         MPI_BYTE, memory_->comm, &request),
          "MPI_Iallgather");
    wait(&request, "allgather", seconds);
    std::ranges::copy(memory_->recv, recv);
  }

  void barrier(double seconds) {
    require_not_finalized();
    MPI_Request request = MPI_REQUEST_NULL;
    check(MPI_Ibarrier(memory_->comm, &request), "MPI_Ibarrier");
    wait(&request, "barrier", seconds);
  }

 private:
  /// The memory that MPI reads and writes. After a failed call MPI may access it for ever. Then it
  /// is leaked, and the communicator with it, since freeing a communicator is collective.
  struct Memory {
    MPI_Comm comm = MPI_COMM_NULL;
    std::vector<std::byte> send, recv;
  };

  static void require_not_finalized() {
    int finalized = 0;
    MPI_Finalized(&finalized);
    if (finalized != 0) fail(GSHMEMX_ERROR_BOOTSTRAP, "MPI has been finalized");
  }

  void wait(MPI_Request* request, const char* operation, double seconds) {
    const auto start = Clock::now();
    for (;;) {
      int done = 0;
      const int code = MPI_Test(request, &done, MPI_STATUS_IGNORE);
      if (code != MPI_SUCCESS) broken_ = true;
      check(code, operation);
      if (done != 0) return;
      const std::chrono::duration<double> waited = Clock::now() - start;
      if (seconds > 0 && waited.count() > seconds) {
        broken_ = true;
        fail(GSHMEMX_ERROR_TIMEOUT,
             "bootstrap %s timed out after %g s (GSHMEM_BOOTSTRAP_TIMEOUT): another rank did not "
             "take part",
             operation, seconds);
      }
      std::this_thread::sleep_for(std::chrono::microseconds(50));  // lets the other ranks run
    }
  }

  int rank_ = 0, size_ = 0;
  bool broken_ = false;
  std::unique_ptr<Memory> memory_ = std::make_unique<Memory>();
};

/// Maps an exception of `body` to a status and a text.
template <class Body>
int guard(gshmem_mpi_text* why, Body body) {
  try {
    body();
    return GSHMEMX_SUCCESS;
  } catch (const Failed& failed) {
    *why = failed.why;
    return failed.status;
  } catch (const std::exception& error) {
    std::snprintf(why->text, sizeof why->text, "%s", error.what());
    return GSHMEMX_ERROR_INTERNAL;
  }
}

void require_mpi_running() {
  int initialized = 0, finalized = 0;
  MPI_Initialized(&initialized);
  MPI_Finalized(&finalized);
  if (initialized != 0 && finalized == 0) return;
  char version[MPI_MAX_LIBRARY_VERSION_STRING] = "";
  int length = 0;
  MPI_Get_library_version(version, &length);
  version[std::strcspn(version, "\n")] = 0;
  fail(GSHMEMX_ERROR_BOOTSTRAP,
       "MPI %s in the library that the plugin was built for (%s); call MPI_Init first, of the same "
       "MPI",
       finalized != 0 ? "has been finalized" : "is not initialized", version);
}

MPI_Comm communicator(const void* comm) {
  require_mpi_running();
  MPI_Comm theirs;
  std::memcpy(&theirs, comm, sizeof theirs);
  if (theirs == MPI_COMM_NULL) fail(GSHMEMX_ERROR_INVALID_VALUE, "the communicator is null");
  return theirs;
}

int plugin_place(const void* comm, int* rank, int* size, gshmem_mpi_text* why) {
  return guard(why, [&] {
    const MPI_Comm theirs = communicator(comm);
    check(MPI_Comm_rank(theirs, rank), "MPI_Comm_rank");
    check(MPI_Comm_size(theirs, size), "MPI_Comm_size");
  });
}

int plugin_open(const void* comm, double seconds, void** job, int* rank, int* size,
                gshmem_mpi_text* why) {
  return guard(why, [&] {
    auto made = std::make_unique<Job>();
    made->open(communicator(comm), seconds);
    *rank = made->rank();
    *size = made->size();
    *job = made.release();
  });
}

int plugin_allgather(void* job, const void* send, void* recv, size_t bytes, double seconds,
                     gshmem_mpi_text* why) {
  return guard(why, [&] {
    static_cast<Job*>(job)->allgather(static_cast<const std::byte*>(send),
                                      static_cast<std::byte*>(recv), bytes, seconds);
  });
}

int plugin_barrier(void* job, double seconds, gshmem_mpi_text* why) {
  return guard(why, [&] { static_cast<Job*>(job)->barrier(seconds); });
}

void plugin_close(void* job) { delete static_cast<Job*>(job); }

constexpr gshmem_mpi_plugin kPlugin{GSHMEM_MPI_PLUGIN_VERSION, plugin_open,    plugin_place,
                                    plugin_allgather,          plugin_barrier, plugin_close};

}  // namespace

extern "C" [[gnu::visibility("default")]] const gshmem_mpi_plugin* gshmem_bootstrap_mpi_plugin() {
  return &kPlugin;
}
