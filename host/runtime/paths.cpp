#include "host/runtime/paths.h"

#include "host/runtime/teams.h"
#include "transport/p2p/mapped_set.h"

#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <set>
#include <string_view>

namespace gshmem {

Paths::Paths(const Config& config, control::Plane& plane, Gpu* gpu, abi::DeviceState& state)
    : config_(config), plane_(plane), gpu_(gpu), state_(state) {
  require(!gpu_ || config_.p2p || config_.fabric != Switch::kOn, GSHMEMX_ERROR_NOT_SUPPORTED,
          "GSHMEM_P2P=0 maps no heap, which GSHMEM_FABRIC=on asks for; unset one of them");
  if (config_.nic != NicKind::kNone) return;
  require(config_.p2p, GSHMEMX_ERROR_NOT_SUPPORTED,
          "GSHMEM_P2P=0 and GSHMEM_NIC=none leave no path to any PE; unset GSHMEM_P2P, or choose "
          "a NIC with GSHMEM_NIC");
  // Whether fabric handles reach all other hosts is known when the heaps are mapped.
  if (group().n_nodes() == 1 || (gpu_ && config_.fabric != Switch::kOff)) return;
  const int other = group().leaders[1];
  throw Error(GSHMEMX_ERROR_NOT_SUPPORTED,
              strprintf("PE %d is on host %s, PE 0 on host %s, and GSHMEM_NIC=none leaves no path "
                        "between hosts; unset GSHMEM_NIC, or start all PEs on one host",
                        other, group().host_of(other).c_str(), group().host_of(0).c_str()));
}

void Paths::open(std::uint64_t symmetric_bytes, std::uint64_t host_room,
                 std::uint64_t noted_bytes) {
  host_room_ = host_room;
  if (gpu_) agree_on_sharing();
  const std::uint64_t at_end = Teams::bytes_at_end(config_.teams) + noted_bytes;
  make_window(abi::kInternalBytes + symmetric_bytes + at_end);
  publish(at_end);
}

/// Agrees on how PEs share GPUs. With MPS, kernels of different processes run concurrently, and no
/// limit is needed.
void Paths::agree_on_sharing() {
  GpuUse use_here{
      gpu_->uuid(),           "", gpu_->under_mps() ? 1 : 0, ::getpid(), gpu_->memory_bytes(),
      gpu_->multiprocessors()};
  std::strncpy(use_here.pci, gpu_->pci().c_str(), sizeof(use_here.pci) - 1);
  gpu_uses_ = allgather(plane_.collectives(), use_here);
  const GpuUse& mine = gpu_uses_[static_cast<std::size_t>(state_.my_pe)];
  std::set<pid_t> processes;
  pes_on_gpu_ = 0;
  by_mps_ = true;
  for (const GpuUse& use : gpu_uses_) {
    if (use.gpu != mine.gpu) continue;
    ++pes_on_gpu_;
    by_mps_ = processes.insert(use.process).second && use.mps != 0 && by_mps_;
  }
  require(by_mps_ || pes_on_gpu_ <= config_.max_pes_per_gpu, GSHMEMX_ERROR_GPU_NOT_SELECTED,
          strprintf("%d PEs share GPU %d (%s); start fewer PEs, choose other GPUs, start MPS "
                    "(nvidia-cuda-mps-control -d) and a process per PE, or allow it with "
                    "GSHMEM_MAX_PES_PER_GPU=%d",
                    pes_on_gpu_, gpu_->device(), gpu_->name(), pes_on_gpu_));
}

unsigned Paths::blocks_that_fit(unsigned per_sm, unsigned calls) const {
  auto most = static_cast<unsigned>(-1);
  for (const GpuUse& use : gpu_uses_) {
    const auto sharing = static_cast<unsigned>(std::ranges::count_if(
        gpu_uses_, [&](const GpuUse& other) { return other.gpu == use.gpu; }));
    most = std::min(most, static_cast<unsigned>(use.multiprocessors) * per_sm / (calls * sharing));
  }
  return std::max(most, 1u);
}

/// Decides how far fabric handles are tried in this job. The result is the same on all PEs, which
/// have agreed on the variables.
p2p::FabricUse Paths::fabric_use(const std::vector<int>& local_groups) const {
  const Switch fabric = config_.fabric;
  if (!config_.p2p || fabric == Switch::kOff) return p2p::FabricUse::kOff;
  if (fabric == Switch::kOn) return p2p::FabricUse::kOn;
  // Descriptors suffice for all PEs of one local group.
  return p2p::largest(local_groups) == local_groups.size() ? p2p::FabricUse::kOff
                                                           : p2p::FabricUse::kAuto;
}

/// Returns the size of the addresses after each heap, for growth and for registered memory, if a
/// window has at most `slots` heaps. It is the same on all PEs. Both kinds of memory together do
/// not exceed that of a GPU.
std::uint64_t Paths::bytes_to_lend(std::uint64_t heap_bytes, std::size_t slots) const {
  std::uint64_t largest_gpu = 0;
  for (const GpuUse& use : gpu_uses_) largest_gpu = std::max(largest_gpu, use.memory_bytes);
  std::uint64_t growth = gpu_ ? largest_gpu : host_room_;
  if (config_.symmetric_limit != 0) growth = std::min(growth, config_.symmetric_limit);
  growth = config_.symmetric_growth ? growth - std::min(growth, config_.symmetric_size) : 0;
  // A process has 128 TiB; the driver (580) provides a range of 64 TiB, and none of 128.
  constexpr std::uint64_t kMost = std::uint64_t{1} << 45;
  const std::uint64_t most = kMost / slots;
  const std::uint64_t room = most - std::min(most, std::bit_ceil(heap_bytes));
  if (config_.registered_size != 0)
    return config_.registered_size +
           std::min(growth, room - std::min(room, config_.registered_size));
  return std::min(gpu_ ? largest_gpu : heap_bytes + growth, room);
}

void Paths::make_window(std::uint64_t bytes) {
  const p2p::Peers peers = config_.p2p ? p2p::Peers::kAll : p2p::Peers::kNone;
  std::vector<int> local_groups = control::local_groups(group(), config_.p2p_group);
  if (!gpu_) {
    const std::uint64_t lent = bytes_to_lend(bytes, p2p::largest(group().node_of));
    window_ = p2p::make_host_window(plane_.local(), {bytes, lent}, peers, local_groups);
    return;
  }
  const p2p::FabricUse use = fabric_use(local_groups);
  const bool one_host = use == p2p::FabricUse::kOff;
  const std::size_t slots = one_host ? p2p::largest(local_groups) : local_groups.size();
  nvml::GpuFabric place;
  if (use != p2p::FabricUse::kOff) place = nvml::gpu_fabric(gpu_->pci());
  window_ = p2p::make_cuda_window({.local = plane_.local(),
                                   .boot = plane_.collectives(),
                                   .device = gpu_->device(),
                                   .bytes = {bytes, bytes_to_lend(bytes, slots)},
                                   .peers = peers,
                                   .local_groups = std::move(local_groups),
                                   .fabric = use,
                                   .place = std::move(place)});
}

void Paths::publish(std::uint64_t bytes_at_end) {
  state_.heap = window_->heap();
  state_.heap_bytes = window_->bytes() - bytes_at_end;
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
  if (config_.nic != NicKind::kNone) return;
  for (int pe = 0; pe < state_.n_pes; ++pe) {
    require(is_mapped(pe), GSHMEMX_ERROR_NOT_SUPPORTED, [&] {
      return "GSHMEM_NIC=none leaves no path but load/store; unset it, or choose GPUs that reach "
             "each other: " +
             why_not(pe);
    });
  }
}

std::string Paths::why_not(int pe) const {
  return strprintf("PE %d (%s) cannot be accessed by load/store: %s", pe,
                   group().host_of(pe).c_str(), window_->why_not(pe).c_str());
}

Paths::LinkAtomics Paths::link_atomics() const {
  // For tests, which have no such GPUs: all GPUs count as such, and the PEs of CPU mode, too.
  const char* const pretend = env_lookup("GSHMEM_TEST_NO_NATIVE_ATOMICS");
  LinkAtomics least = LinkAtomics::kNative;
  for (int pe = 0; pe < state_.n_pes; ++pe) {
    if (pe == state_.my_pe || !is_mapped(pe)) continue;
    if (pretend != nullptr)
      return std::string_view(pretend) == "unknown" ? LinkAtomics::kUnknown : LinkAtomics::kNone;
    const auto at = static_cast<std::size_t>(pe);
    // NVLink between hosts supports them.
    if (!gpu_ || group().node_of[at] != group().node) continue;
    const GpuUse& peer = gpu_uses_[at];
    const std::optional<bool> native = gpu_->has_native_atomics_on(peer.gpu, peer.pci);
    if (!native) least = LinkAtomics::kUnknown;
    if (native == false) return LinkAtomics::kNone;
  }
  return least;
}

}  // namespace gshmem
