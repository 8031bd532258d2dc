// Which PEs a PE reaches by load/store, what a configuration rules out before anything is made, and
// what is known of a path that failed.
#include "host/runtime/fault.h"
#include "host/runtime/pe.h"
#include "transport/p2p/mapped_set.h"

#include <algorithm>

namespace gshmem {

void Pe::check_path_variables() const {
  require(!gpu_ || options_.config.p2p || options_.config.fabric != Switch::kOn,
          GSHMEMX_ERROR_NOT_SUPPORTED,
          "GSHMEM_P2P=0 maps no heap, which GSHMEM_FABRIC=on asks for; unset one of them");
  if (options_.config.nic != NicKind::kNone) return;
  require(options_.config.p2p, GSHMEMX_ERROR_NOT_SUPPORTED,
          "GSHMEM_P2P=0 and GSHMEM_NIC=none leave no path to any PE; unset GSHMEM_P2P, or choose "
          "a NIC with GSHMEM_NIC");
  // Whether fabric handles lead to all other hosts is known when the heaps are mapped.
  if (group().n_nodes() == 1 || (gpu_ && options_.config.fabric != Switch::kOff)) return;
  const int other = group().leaders[1];
  throw Error(GSHMEMX_ERROR_NOT_SUPPORTED,
              strprintf("PE %d is on host %s, PE 0 on host %s, and GSHMEM_NIC=none leaves no path "
                        "between hosts; unset GSHMEM_NIC, or start all PEs on one host",
                        other, group().host_of(other).c_str(), group().host_of(0).c_str()));
}

p2p::FabricUse Pe::fabric_use(const std::vector<int>& local_groups) const {
  const Switch fabric = options_.config.fabric;
  if (!options_.config.p2p || fabric == Switch::kOff) return p2p::FabricUse::kOff;
  if (fabric == Switch::kOn) return p2p::FabricUse::kOn;
  // Descriptors do for all PEs of one local group.
  return p2p::largest(local_groups) == local_groups.size() ? p2p::FabricUse::kOff
                                                           : p2p::FabricUse::kAuto;
}

void Pe::make_window() {
  const std::uint64_t bytes =
      abi::kInternalBytes + options_.symmetric_size + Teams::bytes_at_end(options_.config.teams);
  const p2p::Peers peers = options_.config.p2p ? p2p::Peers::kAll : p2p::Peers::kNone;
  std::vector<int> local_groups = control::local_groups(group(), options_.config.p2p_group);
  if (!gpu_) {
    window_ = p2p::make_host_window(plane_->local(), bytes, peers, local_groups);
    return;
  }
  const p2p::FabricUse use = fabric_use(local_groups);
  nvml::GpuFabric place;
  if (use != p2p::FabricUse::kOff) place = nvml::gpu_fabric(gpu_->pci());
  window_ = p2p::make_cuda_window({.local = plane_->local(),
                                   .boot = ranks(),
                                   .device = gpu_->device(),
                                   .bytes = bytes,
                                   .peers = peers,
                                   .local_groups = std::move(local_groups),
                                   .fabric = use,
                                   .place = std::move(place)});
}

void Pe::publish_paths() {
  state_.heap = window_->heap();
  state_.heap_bytes = window_->bytes() - Teams::bytes_at_end(options_.config.teams);
  state_.stride = window_->stride();
  p2p::MappedSet set =
      p2p::mapped_set(window_->pes(), window_->mapped(), state_.my_pe, state_.n_pes);
  state_.mapped_first = set.slots.empty() ? set.first : abi::kMappedByTable;
  state_.mapped_count = set.count;
  state_.my_slot = set.my_slot;
  slots_ = std::move(set.slots);
  state_.slots = slots_.empty() ? nullptr : slots_.data();
  if (gpu_ && state_.slots) {
    auto* shared = static_cast<std::int32_t*>(gpu_->host_memory(slots_.size() * sizeof(slots_[0])));
    std::copy(slots_.begin(), slots_.end(), shared);
    state_.slots = shared;
  }
  if (options_.config.nic != NicKind::kNone) return;
  for (int pe = 0; pe < state_.n_pes; ++pe) {
    require(is_mapped(pe), GSHMEMX_ERROR_NOT_SUPPORTED, [&] {
      return "GSHMEM_NIC=none leaves no path but load/store; unset it, or choose GPUs that reach "
             "each other: " +
             why_not_mapped(pe);
    });
  }
}

bool Pe::is_mapped(int pe) const {
  if (state_.slots) return state_.slots[pe] >= 0;
  return pe >= state_.mapped_first && pe < state_.mapped_first + state_.mapped_count;
}

std::string Pe::why_not_mapped(int pe) const {
  return strprintf("PE %d (%s) is not reached by load/store: %s", pe, group().host_of(pe).c_str(),
                   window_->why_not(pe).c_str());
}

std::string Pe::fault_text(const abi::FaultRecord& record) const {
  const std::string text = fault_message(record);
  if (record.code != GSHMEMX_ERROR_NIC && record.code != GSHMEMX_ERROR_TIMEOUT) return text;
  const std::lock_guard lock(nics_mutex_);
  const std::string why = nics_.empty() ? "" : nics_.explain(record.queue, record.pe, record.code);
  return why.empty() ? text : text + "; " + why;
}

}  // namespace gshmem
