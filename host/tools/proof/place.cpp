#include "host/tools/proof/place.h"

#include "host/base/error.h"
#include "host/base/files.h"
#include "host/tools/doctor/doctor.h"
#include "host/tools/doctor/ports.h"
#include "host/tools/doctor/topology.h"
#include "host/tools/proof/judge.h"

#include <algorithm>
#include <cctype>
#include <sstream>

namespace gshmem::proof {
namespace {

using namespace info;

/// Is `word` in the text, and not a part of a longer word?
bool names(const std::string& text, const std::string& word) {
  const auto in_word = [&](std::size_t at) {
    return at < text.size() && (std::isalnum(static_cast<unsigned char>(text[at])) != 0 ||
                                text[at] == '_' || text[at] == ':');
  };
  for (std::size_t at = text.find(word); at != std::string::npos; at = text.find(word, at + 1)) {
    const std::size_t end = at + word.size();
    // "mlx5_0:1" names a port of mlx5_0.
    const bool ends = !in_word(end) || (text[end] == ':' && !word.empty() && word.back() != ':');
    if (ends && (at == 0 || !in_word(at - 1))) return true;
  }
  return false;
}

std::string device_name(const PciDevice& nic) { return nic.name.substr(0, nic.name.find(' ')); }

/// Returns the names by which findings call a device: "mlx5_0" or "GPU 0", and its address.
std::vector<std::string> names_of(const PciDevice& device) {
  std::vector<std::string> all{device.name.substr(0, device.name.find(" ("))};
  if (!device.address.empty()) all.push_back(device.address);
  return all;
}

bool names_any(const std::string& text, const PciDevice& device) {
  return std::ranges::any_of(names_of(device), [&](const auto& name) { return names(text, name); });
}

/// Finds the NIC that the text names, or else the nearest to the GPU, one with an active port
/// first.
const PciDevice* find_nic(const Machine& machine, const std::vector<PciDevice>& all,
                          const PciDevice* gpu, const std::string& network) {
  for (const PciDevice& nic : all)
    if (names(network, device_name(nic))) return &nic;
  const PciDevice* best = nullptr;
  int least = 0;
  for (const PciDevice& nic : all) {
    const bool active = std::ranges::any_of(rdma_ports(machine), [&](const NicPort& port) {
      return port.device == device_name(nic) && is_active(port);
    });
    const int far = gpu == nullptr ? 0 : static_cast<int>(distance_between(*gpu, nic));
    const int rank = far + (active ? 0 : 100);
    if (best == nullptr || rank < least) best = &nic, least = rank;
  }
  return best;
}

/// Returns 10^9 bytes per second of a device's link at its best; 0 = unknown. PCI Express Base
/// Specification: 8b/10b up to 5 GT/s, 128b/130b up to 32, and FLITs of 256 bytes with 242 of
/// payload from 64 on.
double pcie_gb_s(const Machine& machine, const PciDevice& device) {
  double speed = 0;
  std::istringstream(first_line(pci_folder(machine, device.address) / "max_link_speed")) >> speed;
  const int width = pci_number(machine, device.address, "max_link_width");
  if (speed <= 0 || width <= 0 || width >= 255) return 0;
  const double code = speed <= 5 ? 0.8 : speed < 64 ? 128.0 / 130 : 242.0 / 256;
  return speed * width / 8 * code;
}

struct Link {
  double gb_s = 0;
  std::string name;
  void offer(double other, const std::string& of) {
    if (other > 0 && (gb_s == 0 || other < gb_s)) gb_s = other, name = of;
  }
};

Findings run_check(const Machine& machine, const std::string& name) {
  for (const Check& check : all_checks())
    if (name == check.name) return check.run(machine);
  return {};
}

std::string text_of(const Findings& findings) {
  std::vector<std::string> texts;
  for (const Finding& finding : findings)
    texts.push_back(finding.is_trouble() ? finding.text + " (" + finding.cause + ")"
                                         : finding.text);
  return joined(texts, "; ");
}

/// The GPU and the NIC that were used, and the findings of the doctor about them.
class Chosen {
 public:
  Chosen(const Machine& machine, const std::string& network, int gpu)
      : machine_(machine), network_(network), gpus_(gpus(machine)), nics_(nics(machine)) {
    if (!gpus_.empty())
      gpu_ =
          &gpus_[static_cast<std::size_t>(gpu) < gpus_.size() ? static_cast<std::size_t>(gpu) : 0];
    nic_ = find_nic(machine, nics_, gpu_, network);
  }
  [[nodiscard]] const PciDevice* gpu() const { return gpu_; }
  [[nodiscard]] const PciDevice* nic() const { return nic_; }

  /// Returns the findings about these devices, and those about no device.
  [[nodiscard]] Findings findings_of(const std::string& check) const {
    const bool both = gpu_ != nullptr && nic_ != nullptr;
    if (check == "gpu_nic_distance") {
      const bool placed = both && !gpu_->path.empty() && !nic_->path.empty();
      return placed ? Findings{distance_finding(machine_, *gpu_, {*nic_})} : Findings{};
    }
    if (check == "numa") {
      // An unknown node says nothing about the CPUs of this process.
      auto far = both ? far_from_all(machine_, {*gpu_, *nic_}, "the GPU and the NIC in use")
                      : std::optional<Finding>();
      return far ? Findings{*std::move(far)} : Findings{};
    }
    Findings findings = run_check(machine_, check);
    std::erase_if(findings, [&](const Finding& finding) {
      return !concerns(finding) || (check == "acs" && !names_bridge(finding));
    });
    return findings;
  }
  [[nodiscard]] std::optional<NicPort> port() const {
    if (nic_ == nullptr) return {};
    if (auto named = named_port(machine_, network_)) return named;
    for (const NicPort& port : rdma_ports(machine_))
      if (port.device == device_name(*nic_)) return port;
    return {};
  }

 private:
  /// Does the finding concern these devices? If it names GPUs, this GPU must be among them, and
  /// likewise for NICs.
  [[nodiscard]] bool concerns(const Finding& finding) const {
    const std::string text = finding.text + " " + finding.cause;
    for (const auto& [all, mine] : {std::pair{&gpus_, gpu_}, std::pair{&nics_, nic_}}) {
      const bool any = std::ranges::any_of(
          *all, [&](const PciDevice& device) { return names_any(text, device); });
      if (any && (mine == nullptr || !names_any(text, *mine))) return false;
    }
    return true;
  }
  /// Does the finding name a bridge that traffic between the GPU and the NIC passes?
  [[nodiscard]] bool names_bridge(const Finding& finding) const {
    if (gpu_ == nullptr || nic_ == nullptr) return false;
    return std::ranges::any_of(bridges_between(*gpu_, *nic_), [&](const std::string& bridge) {
      return names(finding.cause, bridge);
    });
  }

  const Machine& machine_;
  const std::string& network_;
  std::vector<PciDevice> gpus_, nics_;
  const PciDevice *gpu_ = nullptr, *nic_ = nullptr;
};

std::string root_complex(const Chosen& chosen) {
  if (chosen.gpu() == nullptr || chosen.nic() == nullptr) return "unknown";
  const Distance far = distance_between(*chosen.gpu(), *chosen.nic());
  const std::string name = distance_name(far);
  if (chosen.gpu()->path.empty() || chosen.nic()->path.empty()) return name;
  return (far <= Distance::kPhb ? "the same, " : "different, ") + name + " (GPU " +
         chosen.gpu()->host_bridge + ", NIC " + chosen.nic()->host_bridge + ")";
}

std::string gid_of(const Machine& machine, const NicPort& port) {
  const std::vector<nic::GidEntry> table = gids(machine, port);
  const nic::GidEntry* const gid = chosen_gid(machine, port, table);
  if (gid == nullptr) return "none";
  constexpr const char* kKinds[] = {"RoCE v2", "of an unknown type", "RoCE v1", "InfiniBand"};
  const bool is_roce = is_ethernet(port);
  return strprintf("index %d, %s, %s", gid->index,
                   is_roce ? kKinds[static_cast<std::size_t>(gid->kind)] : "InfiniBand",
                   is_roce ? nic::gid_address(gid->gid).c_str() : nic::gid_text(gid->gid).c_str());
}

/// Returns the evidence that a host thread rings: the job reports it, whatever the settings of the
/// driver are.
std::optional<Evidence> agent(const std::string& network) {
  if (network.find("doorbell by agent") == std::string::npos) return {};
  return Evidence{"doorbell", hint({.symptom = "a host thread forwards each doorbell",
                                    .cause = network,
                                    .fix = "unset GSHMEM_DOORBELL; if it stays so, "
                                           "gshmem-info --doctor | grep -A2 doorbell"})};
}

}  // namespace

bool stands_for_card(const Machine& machine) {
  const NicKind nic = machine.config.nic;
  const char* const costs = nic == NicKind::kSoft  ? "GSHNIC_COSTS"
                            : nic == NicKind::kOfi ? "GSHMEM_TEST_FABRIC_COSTS"
                                                   : nullptr;
  return costs != nullptr && !machine.env_or_empty(costs).empty();
}

std::string why_cpu_mode(const Machine& machine) {
  if (machine.config.device == DeviceChoice::kCpu) return "GSHMEM_DEVICE=cpu";
  return machine.cuda.gpus.empty() ? machine.cuda.why_none : "";
}

std::optional<NicPort> named_port(const Machine& machine, const std::string& network) {
  for (const NicPort& port : rdma_ports(machine)) {
    const std::string by_library = strprintf("%s:%d", port.device.c_str(), port.port);
    if (names(network, port_name(port)) || names(network, by_library)) return port;
  }
  return {};
}

std::string why_not(const Machine& machine) {
  const bool modelled = stands_for_card(machine);
  if (machine.config.nic == NicKind::kNone) return "GSHMEM_NIC=none: there is load/store only";
  if (machine.config.nic == NicKind::kSoft && !modelled)
    return "the soft NIC (GSHMEM_NIC=soft) is no card";
  if (gpus(machine).empty()) return "there is no NVIDIA GPU";
  if (const std::string why = why_cpu_mode(machine); !why.empty() && !modelled)
    return "CPU mode: " + why;
  if (has_rdma_device(machine)) return "";
  const bool card = std::ranges::any_of(check_rdma_modules(machine), &Finding::is_trouble);
  return card ? "" : "there is no RDMA device: PEs reach each other by load/store only";
}

Place find_place(const Machine& machine, const std::string& network, int gpu,
                 const Findings& before) {
  const Chosen chosen(machine, network, gpu);
  Place place;
  Link link;
  const auto fact = [&](const char* name, std::string text) {
    place.facts.emplace_back(name, std::move(text));
  };
  fact("GPU", chosen.gpu() != nullptr ? chosen.gpu()->name : "none");
  const std::optional<NicPort> port = chosen.port();
  fact("NIC", chosen.nic() == nullptr ? "none"
              : port                  ? chosen.nic()->name + strprintf(" port %d", port->port)
                                      : chosen.nic()->name);
  fact("root complex", root_complex(chosen));
  if (port) {
    fact("port", joined({port->link_layer, port->state, port->rate}));
    fact("GID", gid_of(machine, *port));
    double gbits = 0;
    std::istringstream(port->rate) >> gbits;
    link.offer(gbits / 8, "the port's rate");
  }
  if (chosen.nic() != nullptr)
    link.offer(pcie_gb_s(machine, *chosen.nic()), "the NIC's PCIe at its best");
  if (chosen.gpu() != nullptr)
    link.offer(pcie_gb_s(machine, *chosen.gpu()), "the GPU's PCIe at its best");
  place.link_gb_s = link.gb_s;
  place.link = link.name;
  fact("dma-buf", text_of(check_dmabuf(machine)));
  fact("nvidia-peermem", text_of(check_peermem(machine)));
  fact("GDRCopy", text_of(check_gdrcopy(machine)));
  if (auto by_agent = agent(network)) place.evidence.push_back(std::move(*by_agent));
  for (const std::string& name : checks_of_troubles()) {
    for (Finding& finding : chosen.findings_of(name)) {
      const bool is_new = std::ranges::find(before, finding.text, &Finding::text) == before.end();
      if (finding.is_trouble() && is_new) place.evidence.push_back({name, std::move(finding)});
    }
  }
  return place;
}

}  // namespace gshmem::proof
