// A block on the CPU: host threads that share a barrier. gshmem::launch creates them
// (include/gshmem/launch.hpp). A host thread outside of a launch is a block of one thread. Code
// finds the block through the ambient record of the calling thread, which libgshmem owns.
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

/// Lanes per warp on the CPU. The number is small, so that a launch is cheap on a few cores.
inline constexpr int kHostWarpSize = 4;

#if !defined(__CUDA_ARCH__)
/// A barrier of `size` threads, with a counter and a generation. A thread that arrives early spins
/// briefly, then sleeps: groups have more threads than the machine has cores. A thread that only
/// yields runs again after a time slice of each busy process. With three such processes on two
/// cores, test bodies took 10 s, and 105 s with four yields.
class HostBarrier {
 public:
  explicit HostBarrier(int size) : size_(size) {}
  void arrive_and_wait() { (void)arrive_and_any(false); }
  /// Returns on all threads whether `mine` was true on one of them. A new result is written only
  /// after all threads have arrived, and so have read the previous one.
  bool arrive_and_any(bool mine) {
    if (mine) store_relaxed(&any_, 1u);
    const std::uint32_t generation = load_acquire(&generation_);
    // acq_rel: the last thread to arrive must see the writes of all others before it opens the
    // barrier.
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
        futex(FUTEX_WAIT_PRIVATE, generation);  // returns at once when the generation has changed
      }
    }
    return answer_;
  }

 private:
  static constexpr unsigned kSpins = 16;  // beyond this number pause() yields
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

/// Functions of the library that device code cannot perform itself, for calls of host threads.
class HostChecks {
 public:
  /// Logs that `call` does nothing, because `argument` is GSHMEM_TEAM_INVALID.
  virtual void report_no_team(const char* call, const char* argument) noexcept = 0;
  /// Returns true if the `bytes` bytes from `p`, in the heap of `state`, belong to one allocation.
  /// Otherwise a fault is recorded.
  virtual bool is_one_allocation(const abi::DeviceState& state, const char* call,
                                 const char* argument, const void* p,
                                 std::size_t bytes) noexcept = 0;
  /// Are allocations checked (GSHMEM_CHECK)? If not, is_one_allocation() is always true.
  virtual bool looks_at_allocations() const noexcept = 0;

 protected:
  ~HostChecks() = default;
};

/// The state that the C API finds without a parameter: one per host thread, owned by libgshmem.
struct Ambient {
  const abi::DeviceState* state = nullptr;
  HostOps* ops = nullptr;  ///< null in CPU mode
  const HostLane* lane = nullptr;
  Region* region = nullptr;  ///< the region of the PE's host threads, or of the block of a lane
  bool bound = false;        ///< the thread chose its PE; otherwise it has the process's only PE
  const char* why_none = nullptr;  ///< why there is no state; null after a missing init
  HostChecks* checks = nullptr;    ///< null without the library
};

}  // namespace gshmem::device

/// Returns the calling thread's ambient record (host/runtime/process.cpp). Never null.
extern "C" __attribute__((visibility("default"))) gshmem::device::Ambient* gshmemi_ambient(void);
/// Reports the record of a fault with GSHMEM_FAULT=abort on the CPU, and ends the job. Does not
/// return.
extern "C" __attribute__((visibility("default"))) void gshmemi_host_fault(
    const gshmem::abi::DeviceState* state);
/// Calls `body(call)` on threads of this process that become the lanes of `blocks` blocks, and
/// waits for them; or calls `body(call, index)` on `count` threads without a role
/// (host/runtime/threads.cpp). Either all threads are started, or none and the result is an errno.
extern "C" __attribute__((visibility("default"))) int gshmemi_launch_on_host(
    unsigned blocks, unsigned threads, void (*body)(const void* call), const void* call);
extern "C" __attribute__((visibility("default"))) int gshmemi_run_threads(
    unsigned count, void (*body)(void* call, unsigned index), void* call);

// GSHMEM_ON_HOST_OPS(code) runs `code` with `ops` on host threads of a PE whose heap is on a GPU.
// GSHMEM_BY_HOST_OPS(RESULT, record) has such threads execute the record, and returns its result.
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
