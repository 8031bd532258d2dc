// Checks what saves power at the cost of latency: sleeping devices, PCIe links, CPU clocks.
#include "host/tools/doctor/checks.h"
#include "host/tools/doctor/topology.h"
#include "host/base/files.h"

namespace gshmem::info {
namespace {

namespace fs = std::filesystem;

constexpr char kPolicy[] = "/sys/module/pcie_aspm/parameters/policy";
constexpr char kClock[] = "/sys/devices/system/cpu/cpu0/cpufreq";

/// Returns the word in brackets, for example in "default performance [powersave] powersupersave".
std::string chosen_word(const std::string& words) {
  const std::size_t begin = words.find('['), end = words.find(']');
  return begin == std::string::npos || end < begin ? "" : words.substr(begin + 1, end - begin - 1);
}

void look_at_device(const Machine& machine, const PciDevice& device, Findings& findings) {
  const std::string state = first_line(pci_folder(machine, device.address) / "power_state");
  if (state.empty() || state == "D0" || state == "unknown") return;
  findings.push_back(
      hint({.symptom = device.name + " is in power state " + state + ": its first accesses wait",
            .cause = "the kernel suspends the device when it is idle (power/control is " +
                     first_line(pci_folder(machine, device.address) / "power" / "control") + ")",
            .fix = "echo on | sudo tee /sys/bus/pci/devices/" + device.address +
                   "/power/control; for GPUs also sudo nvidia-smi -pm 1"}));
}

void look_at_links(const Machine& machine, Findings& findings) {
  const std::string policy = chosen_word(first_line(machine.at(kPolicy)));
  if (!policy.starts_with("power")) return;
  findings.push_back(hint({.symptom = "PCIe links sleep between messages: each one wakes them",
                           .cause = "the policy of ASPM is " + policy,
                           .fix = std::string("echo performance | sudo tee ") + kPolicy}));
}

/// Checks the clocks of CPUs. For drivers that set clocks by a preference, "powersave" is the usual
/// governor (docs.kernel.org, "CPU Performance Scaling").
void look_at_clocks(const Machine& machine, Findings& findings) {
  const fs::path folder = machine.at(kClock);
  const std::string governor = first_line(folder / "scaling_governor");
  const std::string preference = first_line(folder / "energy_performance_preference");
  const bool slow = preference.empty() ? governor == "powersave"
                                       : preference == "power" || preference == "balance_power";
  if (!slow) return;
  findings.push_back(
      hint({.symptom = "CPUs run at low clocks: host threads that post or stage are slow",
            .cause = preference.empty() ? "the frequency governor is " + governor
                                        : "the energy preference is " + preference,
            .fix = "sudo cpupower frequency-set -g performance"}));
}

}  // namespace

Findings check_power(const Machine& machine) {
  Findings findings;
  for (const std::vector<PciDevice>& devices : {gpus(machine), nics(machine)}) {
    for (const PciDevice& device : devices)
      if (!device.path.empty()) look_at_device(machine, device, findings);
  }
  look_at_links(machine, findings);
  look_at_clocks(machine, findings);
  if (findings.empty()) {
    const bool any = !first_line(machine.at(kPolicy)).empty() ||
                     !first_line(machine.at(kClock) / "scaling_governor").empty();
    findings.push_back(any ? ok("neither PCIe links nor CPU clocks save power")
                           : skipped("the kernel shows neither ASPM nor CPU clocks"));
  }
  return findings;
}

}  // namespace gshmem::info
