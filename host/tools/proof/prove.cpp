#include "host/tools/proof/prove.h"

#include "host/base/error.h"
#include "host/tools/doctor/topology.h"
#include "host/tools/proof/place.h"
#include "host/tools/proof/judge.h"

namespace gshmem::proof {
namespace {

Config with_gdr(Config config, Switch gdr) {
  config.gdr = gdr;
  // mlx5 alone does not stage, but libfabric over the same card does.
  if (gdr == Switch::kOff && config.nic == NicKind::kMlx5) config.nic = NicKind::kAuto;
  return config;
}

/// Over NVLink one thread writes 0.6 GB/s, and 8192 of them 95 % of the peak. A block of the
/// service kernel has 512 (docs/figures/2026-11-h200.md).
constexpr int kBlocks = 16;

/// Compares all pairs, if there are several. Each PE has a GPU and the NICs nearest to it.
std::optional<Comparison> compare_all(const info::Machine& machine, const Jobs& jobs, Plan plan,
                                      const Config& on, const Config& off) {
  const int pes = jobs.pes_of_all(info::gpus(machine).size());
  if (pes < 4) return {};
  plan.gpu = -1;
  Comparison pairs = compare_pairs(jobs, plan, pes, on, off);
  pairs.one_host = jobs.one_host();
  return pairs;
}

/// Compares load/store between GPUs, also of one NVLink domain, with staging through host memory:
/// by libfabric, or by the soft NIC if the user has chosen it.
void compare_p2p(const info::Machine& machine, const Config& config, const Jobs& jobs, Plan plan,
                 Proof& proof) {
  Config on = config, off = with_gdr(config, Switch::kOff);
  on.p2p = true;
  on.fabric = machine.config.fabric;
  on.nic = NicKind::kNone;
  if (off.nic != NicKind::kSoft) off.nic = NicKind::kOfi;
  plan.blocks = kBlocks;
  proof.gdr = compare(jobs, plan, on, off);
  proof.gdr.one_host = jobs.one_host();
  proof.all_pairs = compare_all(machine, jobs, plan, on, off);
}

/// Returns the names of the GPUs of the PEs that this process sees. Returns none if the PEs share
/// one.
std::vector<std::string> gpus_of_pes(const info::Machine& machine, const Jobs& jobs) {
  const std::vector<info::PciDevice> all = info::gpus(machine);
  if (jobs.one_process()) {
    if (all.size() < 2) return {};
    return {all[0].name, all[1].name};
  }
  const info::PciDevice& mine = all[jobs.local_rank() % all.size()];
  if (jobs.alike(mine.address) && jobs.one_host()) return {};
  return {mine.name};
}

/// The network by which the side "on" reaches the other PE.
struct Choice {
  Config config;
  std::string instead_of_mlx5{};  ///< why libfabric is measured where there is a card for mlx5
};

/// If all processes have a card for mlx5, it is measured, or libfabric if mlx5 alone does not
/// start.
Choice choose_network(const info::Machine& machine, const Config& config, const Jobs& jobs,
                      const Plan& plan) {
  Choice choice{with_gdr(config, Switch::kOn)};
  const bool has_card = config.nic == NicKind::kMlx5 ||
                        (config.nic == NicKind::kAuto && !info::mlx5_devices(machine).empty());
  if (!jobs.all(has_card)) return choice;
  choice.config.nic = NicKind::kMlx5;
  const Leg mlx5 = start_once(jobs, plan, choice.config);
  if (jobs.all(mlx5.error.empty())) {
    // The PEs of one process would take one of several equal ports each.
    const auto port = named_port(machine, mlx5.network);
    if (jobs.one_process() && port)
      choice.config.nic_devices = strprintf("=%s:%d", port->device.c_str(), port->port);
    return choice;
  }
  if (!jobs.all(config.nic == NicKind::kAuto)) return choice;
  Config other = choice.config;
  other.nic = NicKind::kOfi;
  if (jobs.all(start_once(jobs, plan, other).error.empty()))
    choice = {.config = std::move(other), .instead_of_mlx5 = mlx5.error};
  return choice;
}

bool has_gdrcopy(const info::Machine& machine) {
  return !machine.cuda.gpus.empty() && machine.config.gdrcopy != Switch::kOff &&
         !machine.library("libgdrapi.so.2", {}).file.empty();
}

/// Compares GDRCopy with the copy engine. With GDRCopy, waits of host threads load words, and
/// staging loads and stores the words of puts.
Comparison compare_gdrcopy(const Jobs& jobs, const Plan& plan, const Config& config,
                           const Config& staged) {
  const auto compared = [&](Quantity quantity, Config on) {
    Config off = on;
    on.gdrcopy = Switch::kOn;
    off.gdrcopy = Switch::kOff;
    return compare_words(jobs, plan, quantity, on, off);
  };
  Comparison all = compared(Quantity::kLoad, config);
  const Comparison stores = compared(Quantity::kStore, staged);
  all.one_host = jobs.one_host();
  all.series.insert(all.series.end(), stores.series.begin(), stores.series.end());
  for (const auto leg : {&Comparison::on, &Comparison::off})
    if ((all.*leg).error.empty() && !(stores.*leg).error.empty())
      (all.*leg).error = "a staged put: " + (stores.*leg).error;
  return all;
}

}  // namespace

info::Machine with_card_libraries(info::Machine machine) {
  if (!stands_for_card(machine)) return machine;
  machine.library = [real = machine.library](const std::string& soname,
                                             const std::vector<std::string>& symbols) {
    if (!soname.starts_with("libibverbs.") && !soname.starts_with("libmlx5."))
      return real(soname, symbols);
    return info::Library{.file = soname, .why_not = "", .missing = {}};
  };
  return machine;
}

Proof prove(info::Machine machine, const Jobs& jobs, Plan plan) {
  const Config config = proof_config(machine.config, jobs.one_host());
  const std::string why = why_not(machine);
  // The doctor checks the card that a model of costs represents.
  if (stands_for_card(machine)) machine.config.nic = NicKind::kAuto;
  Proof proof;
  proof.host = machine.host;
  proof.title = "GPUDirect RDMA on against off";
  proof.repeats = plan.repeats;
  if (!jobs.all(why.empty())) {
    proof.judgement.sentence = "GPUDirect RDMA does not apply: " +
                               (why.empty() ? "the other host lacks a GPU or an RDMA device" : why);
    if (!jobs.all(why_cpu_mode(machine).empty())) return proof;
    const std::vector<std::string> gpus = gpus_of_pes(machine, jobs);
    if (gpus.empty()) {
      proof.judgement.sentence += "; one GPU alone has no other one to compare load/store with";
      return proof;
    }
    for (std::size_t pe = 0; pe < gpus.size(); ++pe)
      proof.place.facts.emplace_back(strprintf("GPU of PE %zu", pe), gpus[pe]);
    proof.title = "load/store (P2P) against staging through host memory";
    compare_p2p(machine, config, jobs, plan, proof);
    if (const std::string text = load_store_text(proof.gdr); !text.empty())
      proof.judgement.sentence += ". Instead, " + text;
    return proof;
  }
  // The page names the GPU and the port of PE 0, so both PEs have them if they may.
  if (jobs.one_process()) plan.gpu = 0;
  const Choice choice = choose_network(machine, config, jobs, plan);
  const info::Findings lost_before = info::check_flow_control(machine);
  const Config off = with_gdr(config, Switch::kOff);
  proof.gdr = compare(jobs, plan, choice.config, off);
  proof.gdr.one_host = jobs.one_host();
  Config each_near = choice.config;
  each_near.nic_devices = config.nic_devices;
  proof.all_pairs = compare_all(machine, jobs, plan, each_near, off);
  if (jobs.all(has_gdrcopy(machine))) {
    proof.gdrcopy = compare_gdrcopy(jobs, plan, config, off);
  }
  // The doctor reports nothing about features that are off.
  const bool is_off = machine.config.gdr == Switch::kOff;
  machine.config.gdr = Switch::kOn;
  // The GPU's window on PCI must be large enough for the heaps of these jobs.
  machine.config.symmetric_size = heap_bytes(plan);
  machine.config.max_pes_per_gpu = jobs.one_process() ? 2 : 1;
  proof.place = find_place(machine, proof.gdr.on.network, proof.gdr.gpu, lost_before);
  if (is_off)
    proof.place.facts.emplace_back("setting", "GSHMEM_GDR=off is set: programs here stage");
  if (!choice.instead_of_mlx5.empty())
    proof.place.facts.emplace_back(
        "mlx5", "does not start, so libfabric is measured: " + choice.instead_of_mlx5);
  proof.judgement = judge(proof.gdr, proof.place);
  return proof;
}

}  // namespace gshmem::proof
