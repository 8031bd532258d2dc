// A block on the CPU: host threads that share a barrier. gshmem::launch makes them
// (include/gshmem/launch.hpp); a host thread outside a launch is a block of one. Read through the
// ambient record of the calling thread, which libgshmem owns.
#pragma once

#include <gshmem/abi/state.h>

#include "call_record.h"
#include "machine.h"

#if !defined(__CUDA_ARCH__)
#include <limits.h>
#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>
#endif

namespace gshmem::device {

/// Lanes per warp on the CPU: small, so that a launch stays cheap on a few cores.
inline constexpr int kHostWarpSize = 4;

#if !defined(__CUDA_ARCH__)
/// Barrier of `size` threads: counter and generation. An early thread spins a little, then sleeps:
/// groups have more threads than the machine has cores. A thread that only yields comes back after
/// a time slice of each busy process. Beside three of them on two cores, bodies took 10 s, and 105
/// s with four yields.
class HostBarrier {
 public:
  explicit HostBarrier(int size) : size_(size) {}
  void arrive_and_wait() { (void)arrive_and_any(false); }
  /// Tells all whether `mine` was true on one of them. All have arrived, and so have read the last
  /// answer, before the next one is written.
  bool arrive_and_any(bool mine) {
    if (mine) store_relaxed(&any_, 1u);
    const std::uint32_t generation = load_acquire(&generation_);
    // acq_rel: the last arrival must see the writes of all others before it opens the barrier.
    if (__atomic_add_fetch(&arrived_, 1, __ATOMIC_ACQ_REL) == size_) {
      answer_ = load_relaxed(&any_) != 0;
      store_relaxed(&any_, 0u);
      store_relaxed(&arrived_, 0);
      store_release(&generation_, generation + 1);  // pairs with the acquire below
      if (size_ > 1) futex(FUTEX_WAKE_PRIVATE, INT_MAX);
      return answer_;
    }
    for (unsigned polls = 0; load_acquire(&generation_) == generation; ++polls) {
      if (polls < kSpins) {
        pause(polls);
      } else {
        futex(FUTEX_WAIT_PRIVATE, generation);  // returns at once when it is no longer that
      }
    }
    return answer_;
  }

 private:
  static constexpr unsigned kSpins = 16;  // pause() only yields from here on
  void futex(int operation, std::uint32_t value) {
    syscall(SYS_futex, &generation_, operation, value, nullptr, nullptr, 0);
  }
  int size_;
  int arrived_ = 0;
  std::uint32_t any_ = 0;
  bool answer_ = false;
  std::uint32_t generation_ = 0;
};

#else
class HostBarrier;
#endif

/// Position of a host thread in the block and grid it runs in.
struct HostLane {
  int thread_rank = 0, block_size = 1;
  int block_rank = 0, grid_size = 1;
  HostBarrier* block_barrier = nullptr;
  HostBarrier* warp_barrier = nullptr;
  HostBarrier* warpgroup_barrier = nullptr;
};

struct Region;

/// The library does for calls of host threads what device code cannot.
class HostChecks {
 public:
  /// The log says that `call` does nothing, for `argument` is GSHMEM_TEAM_INVALID.
  virtual void tell_no_team(const char* call, const char* argument) noexcept = 0;

 protected:
  ~HostChecks() = default;
};

/// The state that the C API finds without being told: one per host thread, owned by libgshmem.
struct Ambient {
  const abi::DeviceState* state = nullptr;
  HostOps* ops = nullptr;  ///< null in CPU mode
  const HostLane* lane = nullptr;
  Region* region = nullptr;  ///< of the PE's host threads, or of the block of a lane
  bool bound = false;        ///< set by hand; else the library fills it with the process's only PE
  const char* why_none = nullptr;  ///< without a state: why, where it is not for want of init
  HostChecks* checks = nullptr;    ///< null where there is no library
};

}  // namespace gshmem::device

/// The calling thread's ambient record (host/runtime/process.cpp). Never null.
extern "C" __attribute__((visibility("default"))) gshmem::device::Ambient* gshmemi_ambient(void);
/// A fault under GSHMEM_FAULT=abort on the CPU: reports the record and ends the job. Does not
/// return.
extern "C" __attribute__((visibility("default"))) void gshmemi_host_fault(
    const gshmem::abi::DeviceState* state);
/// Calls `body(call)` on threads of this process that are the lanes of `blocks` blocks, and waits
/// for them; `body(call, index)` on `count` threads that are nothing yet
/// (host/runtime/threads.cpp). All are started, or none and the result is an errno.
extern "C" __attribute__((visibility("default"))) int gshmemi_launch_on_host(
    unsigned blocks, unsigned threads, void (*body)(const void* call), const void* call);
extern "C" __attribute__((visibility("default"))) int gshmemi_run_threads(
    unsigned count, void (*body)(void* call, unsigned index), void* call);

// GSHMEM_ON_HOST_OPS(code): `code` runs with `ops` on host threads of a PE whose heap is on a GPU.
// GSHMEM_BY_HOST_OPS(RESULT, record): these have the record made, and return its answer.
#if defined(__CUDA_ARCH__)
#define GSHMEM_ON_HOST_OPS(...)
#else
#define GSHMEM_ON_HOST_OPS(...)                                                  \
  if (::gshmem::device::HostOps* ops = gshmemi_ambient()->ops; ops != nullptr) { \
    __VA_ARGS__                                                                  \
  }
#endif
#define GSHMEM_BY_HOST_OPS(RESULT, ...) \
  GSHMEM_ON_HOST_OPS(return static_cast<RESULT>(ops->run(__VA_ARGS__));)
