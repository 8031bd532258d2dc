// Which PEs a PE reaches by load/store, and what a configuration rules out before anything is made.
#include "host/runtime/pe.h"
#include "transport/p2p/mapped_set.h"

#include <algorithm>

namespace gshmem {

void Pe::check_path_variables() const {
  if (options_.config.nic != "none") return;
  require(options_.config.p2p, GSHMEMX_ERROR_NOT_SUPPORTED,
          "GSHMEM_P2P=0 and GSHMEM_NIC=none leave no path to any PE; unset GSHMEM_P2P, or choose "
          "a NIC with GSHMEM_NIC");
  if (group_.n_nodes() == 1) return;
  const int other = group_.leaders[1];
  throw Error(GSHMEMX_ERROR_NOT_SUPPORTED,
              strprintf("PE %d is on host %s, PE 0 on host %s, and GSHMEM_NIC=none leaves no path "
                        "between hosts; unset GSHMEM_NIC, or start all PEs on one host",
                        other, group_.host_of(other).c_str(), group_.host_of(0).c_str()));
}

void Pe::publish_paths() {
  state_.heap = window_->heap();
  state_.heap_bytes = window_->bytes();
  state_.stride = window_->stride();
  state_.place = group_.place();
  std::vector<bool> mapped = window_->mapped();
  const int group = options_.config.p2p_group;
  for (std::size_t i = 0; group != 0 && i < mapped.size(); ++i) {
    if (static_cast<int>(i) / group != group_.index / group) mapped[i] = false;
  }
  p2p::MappedSet set = p2p::mapped_set(group_, mapped);
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
  if (options_.config.nic != "none") return;
  for (const int pe : group_.pes) {
    require(is_mapped(pe), GSHMEMX_ERROR_NOT_SUPPORTED,
            why_not_mapped(pe) +
                ", and GSHMEM_NIC=none leaves no other path; unset GSHMEM_NIC, or "
                "choose GPUs that reach each other");
  }
}

bool Pe::is_mapped(int pe) const {
  if (state_.slots) return state_.slots[pe] >= 0;
  return pe >= state_.mapped_first && pe < state_.mapped_first + state_.mapped_count;
}

std::string Pe::why_not_mapped(int pe) const {
  const std::string& host = group_.host_of(pe);
  if (host != group_.hosts[static_cast<std::size_t>(group_.node)]) {
    return strprintf("PE %d is on host %s, PE %d on host %s", pe, host.c_str(), state_.my_pe,
                     group_.host_of(state_.my_pe).c_str());
  }
  const auto found = std::lower_bound(group_.pes.begin(), group_.pes.end(), pe);
  return strprintf("PE %d is not reached by load/store: %s", pe,
                   window_->why_not(static_cast<int>(found - group_.pes.begin())).c_str());
}

}  // namespace gshmem
