#include "transport/ofi/idle_wait.h"

#include "host/base/files.h"
#include "transport/nic/pci_distance.h"

#include <sched.h>
#include <time.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <thread>

namespace gshmem::ofi {
namespace {

using std::chrono::microseconds;

// A yield gives the core to the thread that waits for the last operation, or to the other side of
// the connection. With 20 us of spinning first, the round trip of a signal took 85 us instead of 50
// (tcp, two PEs on two cores). On a free core a yield takes less than a microsecond.
constexpr microseconds kYield{300};
// A sleep lasts a sixteenth of the time without work, so it delays the next work only a little.
// With sleeps of 20 us for the first 20 ms, three PEs on two busy cores spent most of their time in
// rounds without work.
constexpr int kIdlePerSleep = 16;
constexpr long kShortestNs = 20'000, kLongestNs = 100'000;

/// The number of cores from which spinning is useful: one for the executor, one for the PE, and one
/// for everything else.
constexpr double kCoresToSpin = 3;

}  // namespace

Polling choose_polling(PollChoice wish, double cores) {
  if (wish == PollChoice::kSpin) return Polling::kSpin;
  if (wish == PollChoice::kSleep) return Polling::kSleep;
  return cores >= kCoresToSpin ? Polling::kSpin : Polling::kSleep;
}

Cores own_cores() {
  Cores cores;
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof(set), &set) != 0) return cores;
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (!CPU_ISSET(cpu, &set)) continue;
    ++cores.count;
    // This is FNV-1a.
    cores.hash = (cores.hash ^ static_cast<std::uint64_t>(cpu + 1)) * 0x100000001b3;
  }
  return cores;
}

std::optional<long> idle_wait_ns(Polling polling, Clock::duration idle) {
  if (polling == Polling::kSpin) return std::nullopt;
  if (idle < kYield) return 0;
  const long share =
      std::chrono::duration_cast<std::chrono::nanoseconds>(idle).count() / kIdlePerSleep;
  return std::clamp(share, kShortestNs, kLongestNs);
}

void idle_wait(Polling polling, Clock::duration idle) {
  const std::optional<long> ns = idle_wait_ns(polling, idle);
  if (!ns) return;
  const timespec time{0, *ns};
  *ns == 0 ? std::this_thread::yield() : static_cast<void>(nanosleep(&time, nullptr));
}

bool stay_near(const std::string& sysfs, const std::string& pci) {
  cpu_set_t may, near;
  CPU_ZERO(&near);
  if (pci.empty() || sched_getaffinity(0, sizeof(may), &may) != 0) return false;
  const std::string device = sysfs + "/bus/pci/devices/" + nic::sysfs_pci_address(pci);
  for (const int cpu : cpu_list(first_line(device + "/local_cpulist")))
    if (CPU_ISSET(cpu, &may)) CPU_SET(cpu, &near);  // false for a number beyond the set
  return sched_setaffinity(0, sizeof(near), &near) == 0;
}

}  // namespace gshmem::ofi
