#include "host/tools/proof/prove.h"

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

/// Load/store between GPUs, also of one NVLink domain, against staging through host memory.
Comparison compare_p2p(const Config& config, Switch fabric, const Jobs& jobs, const Plan& plan) {
  Config on = config, off = with_gdr(config, Switch::kOff);
  on.p2p = true;
  on.fabric = fabric;
  on.nic = NicKind::kNone;
  off.nic = NicKind::kOfi;
  return compare(jobs, plan, on, off);
}

bool has_gdrcopy(const info::Machine& machine) {
  return !machine.cuda.gpus.empty() && machine.config.gdrcopy != Switch::kOff &&
         !machine.library("libgdrapi.so.2", {}).file.empty();
}

}  // namespace

Proof prove(info::Machine machine, const Jobs& jobs, const Plan& plan) {
  const Config config = proof_config(machine.config, jobs.one_process());
  const std::string why = why_not(machine);
  // The doctor looks at the card that the soft NIC's costs stand for.
  if (stands_for_card(machine)) machine.config.nic = NicKind::kAuto;
  Proof proof;
  proof.host = machine.host;
  proof.title = "GPUDirect RDMA on against off";
  proof.repeats = plan.repeats;
  if (!jobs.all(why.empty())) {
    proof.judgement.sentence = "GPUDirect RDMA does not apply: " +
                               (why.empty() ? "the other host lacks a GPU or an RDMA device" : why);
    if (!jobs.all(why_cpu_mode(machine).empty())) return proof;
    proof.title = "load/store (P2P) against staging through host memory";
    proof.gdr = compare_p2p(config, machine.config.fabric, jobs, plan);
    proof.gdr.one_host = jobs.one_host();
    return proof;
  }
  proof.gdr = compare(jobs, plan, with_gdr(config, Switch::kOn), with_gdr(config, Switch::kOff));
  proof.gdr.one_host = jobs.one_host();
  if (jobs.all(has_gdrcopy(machine))) {
    Config on = config, off = config;
    on.gdrcopy = Switch::kOn;
    off.gdrcopy = Switch::kOff;
    proof.gdrcopy = compare_loads(jobs, plan, on, off);
  }
  proof.place = find_place(machine, proof.gdr.on.network, proof.gdr.gpu);
  proof.judgement = judge(proof.gdr, proof.place);
  return proof;
}

}  // namespace gshmem::proof
