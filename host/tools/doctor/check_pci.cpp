// Checks the path between GPU and NIC: distance, IOMMU, links, NUMA nodes.
#include "host/base/error.h"
#include "host/tools/doctor/checks.h"
#include "host/tools/doctor/ports.h"
#include "host/tools/doctor/topology.h"
#include "host/base/files.h"

#include <algorithm>
#include <set>
#include <sstream>

namespace gshmem::info {
namespace {

namespace fs = std::filesystem;

std::vector<PciDevice> with_path(std::vector<PciDevice> devices) {
  std::erase_if(devices, [](const PciDevice& device) { return device.path.empty(); });
  return devices;
}

std::vector<PciDevice> gpus_and_nics(const Machine& machine) {
  std::vector<PciDevice> devices = with_path(gpus(machine));
  for (PciDevice& nic : with_path(nics(machine))) devices.push_back(std::move(nic));
  return devices;
}

/// Returns the NICs on PCI with an active port; all of them when none has one, which check_ports
/// reports.
std::vector<PciDevice> usable_nics(const Machine& machine) {
  std::set<std::string> active;
  for (const NicPort& port : rdma_ports(machine)) {
    if (is_active(port)) active.insert(port.device);
  }
  std::vector<PciDevice> cards = with_path(nics(machine));
  if (active.empty()) return cards;
  std::erase_if(cards, [&](const PciDevice& card) {
    return !active.contains(card.name.substr(0, card.name.find(' ')));
  });
  return cards;
}

/// Returns for example "GPU 0 node 0, mlx5_0 node 1".
std::string placed_text(const Machine& machine, const std::vector<PciDevice>& devices) {
  std::vector<std::string> placed;
  for (const PciDevice& device : devices)
    placed.push_back(strprintf("%s node %d", device.name.c_str(),
                               pci_number(machine, device.address, "numa_node")));
  return joined(placed);
}

/// Returns the type of a device's IOMMU group; empty = it is in no group, or the kernel does not
/// show it.
std::string iommu_type(const Machine& machine, const PciDevice& device) {
  return first_line(pci_folder(machine, device.address) / "iommu_group" / "type");
}

std::string iommu_arguments(const Machine& machine) {
  std::istringstream words(first_line(machine.at("/proc/cmdline")));
  std::vector<std::string> found;
  for (std::string word; words >> word;) {
    if (word.find("iommu") != std::string::npos) found.push_back(word);
  }
  return found.empty() ? "no iommu argument" : joined(found, " ");
}

/// Returns the number in a text such as "16.0 GT/s PCIe".
double gigatransfers(const std::string& text) {
  double value = 0;
  std::istringstream(text) >> value;
  return value;
}

Finding link_of(const Machine& machine, const PciDevice& device, bool is_gpu) {
  const fs::path folder = pci_folder(machine, device.address);
  const std::string speed = first_line(folder / "current_link_speed");
  const std::string best = first_line(folder / "max_link_speed");
  const int width = pci_number(machine, device.address, "current_link_width");
  const int widest = pci_number(machine, device.address, "max_link_width");
  // Virtual functions and functions in virtual machines have no link of their own.
  if (gigatransfers(speed) <= 0 || width <= 0 || widest <= 0 || widest == 255) {
    return skipped(device.name + ": sysfs shows no PCIe link");
  }
  const std::string now = strprintf("%s: x%d at %s", device.name.c_str(), width, speed.c_str());
  std::string slot = "the root port does not say more";
  if (device.path.size() > 1) {
    const std::string& above = device.path[device.path.size() - 2];
    const int lanes = pci_number(machine, above, "max_link_width");
    const std::string fastest = first_line(pci_folder(machine, above) / "max_link_speed");
    slot = "the port above, " + above + ", " +
           (lanes > 0 ? strprintf("can do x%d at %s", lanes, fastest.c_str())
                      : "does not say what it can do");
  }
  const std::string fix =
      "reseat the card, or another slot; then sudo lspci -vvs " + device.address + " | grep Lnk";
  if (width < widest) {
    return problem({.symptom = strprintf("%s instead of x%d: bandwidth is %d/%d", now.c_str(),
                                         widest, width, widest),
                    .cause = "the link has trained with fewer lanes; " + slot,
                    .fix = fix});
  }
  if (gigatransfers(speed) >= gigatransfers(best)) return ok(now);
  const std::string symptom = now + " instead of " + best;
  if (is_gpu) {
    return hint({.symptom = symptom,
                 .cause = "GPUs lower the link while idle, so that this may mean nothing; " + slot,
                 .fix = "look again under load: nvidia-smi -q -d PERFORMANCE; nvidia-smi "
                        "--query-gpu=pcie.link.gen.current,pcie.link.gen.max --format=csv"});
  }
  return problem({.symptom = symptom, .cause = "the link has trained slower; " + slot, .fix = fix});
}

std::string allowed_cpus(const Machine& machine) {
  return value_in(machine.at("/proc/self/status"), "Cpus_allowed_list:");
}

std::size_t numa_nodes(const Machine& machine) {
  const std::vector<std::string> names = names_in(machine.at("/sys/devices/system/node"));
  return static_cast<std::size_t>(std::ranges::count_if(names, [](const std::string& name) {
    return name.starts_with("node") && leading_number(name.substr(4));
  }));
}

}  // namespace

Finding distance_finding(const Machine& machine, const PciDevice& gpu,
                         const std::vector<PciDevice>& cards) {
  Distance least = Distance::kSys;
  for (const PciDevice& nic : cards) {
    least = std::min(least, distance_between(gpu, nic));
  }
  std::vector<std::string> near;
  for (const PciDevice& nic : cards) {
    if (distance_between(gpu, nic) == least) near.push_back(nic.name);
  }
  const std::string text = gpu.name + " to " + joined(near) + ": " + distance_name(least);
  if (least <= Distance::kPxb) return ok(text);
  if (least != Distance::kSys) {
    return hint({.symptom = text + ": PCI peer traffic is limited by the CPU's host bridge",
                 .cause = "GPU and NIC share no PCI switch (" + gpu.host_bridge + ")",
                 .fix = "move the NIC below the GPU's switch; without one there is nothing to gain "
                        "(virtual machines show PHB for all)"});
  }
  return problem(
      {.symptom = text + ": every message crosses the link between the CPU sockets",
       .cause = strprintf("GPU and NIC are below different root complexes (GPU %s, NUMA node %d)",
                          gpu.host_bridge.c_str(), pci_number(machine, gpu.address, "numa_node")),
       .fix = "use GPUs near a NIC (CUDA_VISIBLE_DEVICES), or put a NIC on this GPU's socket; see "
              "nvidia-smi topo -m"});
}

std::optional<Finding> far_from_all(const Machine& machine, const std::vector<PciDevice>& devices,
                                    const char* which) {
  const std::string allowed = allowed_cpus(machine);
  const std::set<int> mine = cpu_list(allowed);
  if (mine.empty() || numa_nodes(machine) < 2) return {};
  for (const PciDevice& device : devices) {
    for (const int cpu :
         cpu_list(first_line(pci_folder(machine, device.address) / "local_cpulist"))) {
      if (mine.contains(cpu)) return {};
    }
  }
  return hint({.symptom = std::string("this process runs far from ") + which,
               .cause = "it may use CPUs " + allowed + " only; " + placed_text(machine, devices),
               .fix = "mpirun --map-by numa --bind-to numa   or   srun --gpu-bind=closest   or   "
                      "numactl --cpunodebind=<node>"});
}

Findings check_gpu_nic_distance(const Machine& machine) {
  const std::vector<PciDevice> all = gpus(machine);
  if (all.empty()) return {skipped("there is no NVIDIA GPU")};
  const std::vector<PciDevice> cards = usable_nics(machine);
  if (cards.empty()) return {skipped("there is no RDMA device on PCI")};
  Findings findings;
  for (const PciDevice& gpu : all) {
    findings.push_back(gpu.path.empty()
                           ? skipped(gpu.name + " is not in /sys/bus/pci/devices: start the "
                                                "container with the host's /sys")
                           : distance_finding(machine, gpu, cards));
  }
  return findings;
}

Findings check_iommu(const Machine& machine) {
  if (names_in(machine.at("/sys/class/iommu")).empty()) {
    return {ok("no IOMMU is active (" + iommu_arguments(machine) + ")")};
  }
  const std::vector<PciDevice> devices = gpus_and_nics(machine);
  if (devices.empty()) return {skipped("an IOMMU is active, but there is no GPU and no NIC")};
  std::vector<std::string> translated;
  for (const PciDevice& device : devices) {
    // Documentation/ABI/testing/sysfs-kernel-iommu_groups: DMA and DMA-FQ translate.
    const std::string type = iommu_type(machine, device);
    if (type.starts_with("DMA")) translated.push_back(device.name + " [" + type + "]");
  }
  const std::string arguments = iommu_arguments(machine);
  if (translated.empty()) {
    return {ok("IOMMU active, but GPUs and NICs are not translated (" + arguments + ")")};
  }
  if (machine.architecture != "x86_64") {
    return {
        ok("IOMMU translates " + joined(translated) + ", as is usual on " + machine.architecture)};
  }
  // GPUDirect RDMA documentation, "Supported Systems": it does not work with an IOMMU that
  // translates other than 1:1.
  return {
      problem({.symptom = "GPUDirect RDMA and PCIe peer access fail, give wrong data or are slow",
               .cause = "the IOMMU translates " + joined(translated) + " (" + arguments + ")",
               .fix = "add iommu=pt to GRUB_CMDLINE_LINUX in /etc/default/grub, sudo "
                      "update-grub   (grub2-mkconfig -o /boot/grub2/grub.cfg on Red Hat), "
                      "reboot"})};
}

Findings check_pci_link(const Machine& machine) {
  Findings findings;
  for (const PciDevice& gpu : with_path(gpus(machine))) {
    findings.push_back(link_of(machine, gpu, true));
  }
  for (const PciDevice& nic : with_path(nics(machine))) {
    findings.push_back(link_of(machine, nic, false));
  }
  if (findings.empty()) findings.push_back(skipped("no GPU and no RDMA device on PCI"));
  return findings;
}

Findings check_numa(const Machine& machine) {
  const std::vector<PciDevice> devices = gpus_and_nics(machine);
  if (devices.empty()) return {skipped("no GPU and no RDMA device on PCI")};
  const std::size_t nodes = numa_nodes(machine);
  if (nodes < 2) return {ok("one NUMA node")};
  Findings findings;
  for (const PciDevice& device : devices) {
    if (pci_number(machine, device.address, "numa_node") >= 0) continue;
    findings.push_back(
        hint({.symptom = device.name + ": no CPU is known to be near, so nothing binds to it",
              .cause = strprintf("numa_node is -1 on a machine of %zu nodes: the firmware does "
                                 "not say",
                                 nodes),
              .fix = "firmware update; or echo <node> | sudo tee /sys/bus/pci/devices/" +
                     device.address + "/numa_node"}));
  }
  if (auto far = far_from_all(machine, devices, "every GPU and NIC"))
    findings.push_back(*std::move(far));
  if (findings.empty()) findings.push_back(ok(placed_text(machine, devices)));
  return findings;
}

}  // namespace gshmem::info
