// Decides how the executor's thread waits while there is no work. Nothing wakes it (a GPU cannot),
// so it polls: continuously, with yields, or with sleeps. Used by executor.cpp. Pure except for the
// wait.
#pragma once

#include "host/base/config.h"
#include "transport/ofi/operation.h"

#include <optional>
#include <string>

namespace gshmem::ofi {

/// The values of GSHMEM_OFI_POLL, with `auto` decided.
enum class Polling {
  kSpin,
  /// For when there are fewer cores than threads: it yields, and after 300 us sleeps, at most 100
  /// us at a time.
  kSleep,
};

/// `cores` is the number that this PE's threads may use, divided by the PEs of this host that share
/// them.
[[nodiscard]] Polling choose_polling(PollChoice wish, double cores);
/// The cores of the calling process, from sched_getaffinity(2), as a number for people, and as a
/// hash to compare.
struct Cores {
  int count = 0;
  std::uint64_t hash = 0;  ///< identifies the set of cores
};
[[nodiscard]] Cores own_cores();

/// Returns how long to sleep after a round without work; 0: yield; nothing: poll on. `idle` is the
/// time since the last round with work.
[[nodiscard]] std::optional<long> idle_wait_ns(Polling polling, Clock::duration idle);
/// Waits as idle_wait_ns decides.
void idle_wait(Polling polling, Clock::duration idle);

/// Binds the calling thread to cores near to a PCI function. Returns false if it may use none of
/// them. `sysfs` is "/sys".
bool stay_near(const std::string& sysfs, const std::string& pci);

}  // namespace gshmem::ofi
