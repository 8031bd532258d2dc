// How the executor's thread waits while there is nothing to do: nothing wakes it (a GPU cannot), so
// that it polls, at once, with yields, or with sleeps. Used by executor.cpp. Pure but for the wait.
#pragma once

#include "host/base/config.h"
#include "transport/ofi/operation.h"

#include <optional>
#include <string>

namespace gshmem::ofi {

/// GSHMEM_OFI_POLL, with `auto` decided.
enum class Polling {
  kSpin,
  /// For less cores than threads: it yields, and sleeps after 300 us, 100 us at most.
  kSleep,
};

/// `cores`: those that this PE's threads may use, divided by the PEs of this host that share them.
[[nodiscard]] Polling choose_polling(PollChoice wish, double cores);
/// Cores of the calling process, from sched_getaffinity(2); in words for people and to be
/// compared.
struct Cores {
  int count = 0;
  std::uint64_t hash = 0;  ///< of which ones they are
};
[[nodiscard]] Cores own_cores();

/// How long to sleep after a round that found nothing; 0: give the core away; none: go on. `idle`:
/// since one that found something.
[[nodiscard]] std::optional<long> rest_ns(Polling polling, Clock::duration idle);
/// Does that.
void rest(Polling polling, Clock::duration idle);

/// Keeps the calling thread on cores near to a PCI function, if it may use any of them; false
/// otherwise. `sysfs` is "/sys".
bool stay_near(const std::string& sysfs, const std::string& pci);

}  // namespace gshmem::ofi
