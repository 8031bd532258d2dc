// Checks ACS in the bridges between devices that exchange data, and ordering at the NIC.
#include "host/base/error.h"
#include "host/tools/doctor/checks.h"
#include "host/tools/doctor/config_space.h"
#include "host/tools/doctor/topology.h"
#include "host/base/files.h"

#include <set>

namespace gshmem::info {
namespace {

constexpr char kAsRoot[] = "sudo gshmem-info --doctor";

std::string config_of(const Machine& machine, const std::string& address) {
  return whole_file(pci_folder(machine, address) / "config", 4096);
}

/// Returns the bridges between GPUs and NICs, and between GPUs, in which ACS could redirect
/// packets.
std::set<std::string> bridges_on_the_way(const Machine& machine) {
  std::set<std::string> bridges;
  const std::vector<PciDevice> gpu_list = gpus(machine);
  std::vector<PciDevice> partners = nics(machine);
  partners.insert(partners.end(), gpu_list.begin(), gpu_list.end());
  for (const PciDevice& gpu : gpu_list) {
    for (const PciDevice& partner : partners) {
      for (const std::string& bridge : bridges_between(gpu, partner)) bridges.insert(bridge);
    }
  }
  return bridges;
}

struct AcsSurvey {
  std::vector<std::string> redirecting, translated_only, unreadable;
  std::size_t clear = 0;
};

AcsSurvey survey(const Machine& machine, const std::set<std::string>& bridges) {
  AcsSurvey result;
  for (const std::string& bridge : bridges) {
    const std::string config = config_of(machine, bridge);
    if (config.size() <= kExtendedStart) {
      result.unreadable.push_back(bridge);
      continue;
    }
    const std::uint16_t control = acs_control(config).value_or(0);
    // Source validation alone redirects nothing.
    if ((control & (kAcsRequestRedirect | kAcsCompletionRedirect | kAcsEgressControl)) == 0) {
      ++result.clear;
      continue;
    }
    const std::string named = strprintf("%s (ACSCtl 0x%04x)", bridge.c_str(), unsigned{control});
    const bool direct = (control & kAcsDirectTranslated) != 0;
    (direct ? result.translated_only : result.redirecting).push_back(named);
  }
  return result;
}

std::string addresses_of(const std::vector<std::string>& bridges) {
  std::vector<std::string> addresses;
  for (const std::string& bridge : bridges) addresses.push_back(bridge.substr(0, bridge.find(' ')));
  return joined(addresses, ";");
}

std::string setpci_for(const std::vector<std::string>& bridges) {
  std::vector<std::string> commands;
  for (const std::string& bridge : bridges) {
    commands.push_back("sudo setpci -s " + bridge.substr(0, bridge.find(' ')) +
                       " ECAP_ACS+6.w=0000");
  }
  return joined(commands, " && ");
}

}  // namespace

Findings check_acs(const Machine& machine) {
  if (gpus(machine).empty()) return {skipped("there is no NVIDIA GPU")};
  const std::set<std::string> bridges = bridges_on_the_way(machine);
  if (bridges.empty()) {
    return {
        skipped("no GPU shares a PCI bridge with a NIC or another GPU: packets between them go "
                "through the host bridge anyway")};
  }
  const AcsSurvey seen = survey(machine, bridges);
  Findings findings;
  if (!seen.redirecting.empty()) {
    // NCCL User Guide, Troubleshooting, "PCI Access Control Services (ACS)".
    findings.push_back(problem(
        {.symptom = "traffic between GPU and NIC goes through the root complex: low "
                    "bandwidth, or hangs",
         .cause = "ACS P2P redirect is on in " + joined(seen.redirecting),
         .fix = setpci_for(seen.redirecting) +
                "   (until the next boot; for good: ACS off in firmware setup, or on the kernel's "
                "command line pci=disable_acs_redir=" +
                addresses_of(seen.redirecting) + ")"}));
  }
  if (!seen.translated_only.empty()) {
    findings.push_back(
        hint({.symptom = "only packets with translated addresses go straight between GPU and NIC",
              .cause = "ACS redirect with Direct Translated P2P in " + joined(seen.translated_only),
              .fix = "enable address translation in the NIC: sudo mlxconfig -d <device> set "
                     "ATS_ENABLED=true, then reboot; or on bare metal " +
                     setpci_for(seen.translated_only)}));
  }
  if (!seen.unreadable.empty()) {
    findings.push_back(skipped(
        "the extended configuration space of " + joined(seen.unreadable) +
        " is not readable: without CAP_SYS_ADMIN sysfs shows 64 bytes, without MMCONFIG (virtual "
        "machines) 256; run: " +
        kAsRoot));
  }
  if (findings.empty()) {
    findings.push_back(
        ok(strprintf("no ACS redirect in the %zu bridge(s) between GPUs and NICs", seen.clear)));
  }
  return findings;
}

Findings check_relaxed_ordering(const Machine& machine) {
  Findings findings;
  for (const PciDevice& nic : nics(machine)) {
    if (nic.path.empty()) continue;
    const std::string config = config_of(machine, nic.address);
    if (config.size() <= kHeaderBytes) {
      findings.push_back(skipped(nic.name +
                                 ": Device Control is after the 64 bytes that sysfs "
                                 "shows without CAP_SYS_ADMIN; run: " +
                                 kAsRoot));
      continue;
    }
    const std::optional<std::uint16_t> control = device_control(config);
    if (!control) {
      findings.push_back(skipped(nic.name + " has no PCI Express capability"));
      continue;
    }
    const int read_request = max_read_request_bytes(*control);
    if ((*control & kEnableRelaxedOrdering) != 0) {
      findings.push_back(ok(strprintf("%s: relaxed ordering allowed, MaxReadReq %d bytes",
                                      nic.name.c_str(), read_request)));
      continue;
    }
    findings.push_back(hint(
        {.symptom = nic.name + ": large puts stay below line rate, most on AMD and Grace hosts",
         .cause =
             strprintf("Enable Relaxed Ordering is off in Device Control (0x%04x): every write "
                       "waits for those before it",
                       unsigned{*control}),
         .fix = "sudo setpci -s " + nic.address +
                " CAP_EXP+8.w=0010:0010   (until the next boot; for good: PCIe Relaxed Ordering "
                "in firmware setup)"}));
  }
  if (findings.empty()) findings.push_back(skipped("there is no RDMA device on PCI"));
  return findings;
}

}  // namespace gshmem::info
