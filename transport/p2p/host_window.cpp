#include "host/base/memory_limit.h"
#include "host/base/shared_mapping.h"
#include "transport/p2p/window.h"

#include <gshmem/abi/state.h>

#include <sys/sysinfo.h>

#include <algorithm>

namespace gshmem::p2p {
namespace {

/// Errors: GSHMEMX_ERROR_OUT_OF_MEMORY where the heaps of this host's PEs do not fit. They take
/// memory when they are touched, and then the kernel kills whom it likes.
void require_memory(std::uint64_t heap_bytes, std::uint64_t pes) {
  struct sysinfo info {};
  check_errno(::sysinfo(&info), "sysinfo");
  const std::uint64_t machine = (info.totalram + info.totalswap) * info.mem_unit;
  const std::uint64_t group = cgroup_memory().value_or(machine);
  require(heap_bytes <= std::min(machine, group) / pes, GSHMEMX_ERROR_OUT_OF_MEMORY, [&] {
    return strprintf(
        "symmetric heap of %lu bytes, on this host of %lu PEs, is larger than this %s (%lu bytes); "
        "lower GSHMEM_SYMMETRIC_SIZE",
        heap_bytes, pes, group < machine ? "cgroup's memory.max" : "host's memory",
        std::min(machine, group));
  });
}

class HostWindow final : public PeerWindow {
 public:
  HostWindow(control::LocalPeers& local, std::uint64_t bytes, Peers peers,
             const std::vector<int>& local_groups) {
    constexpr std::uint64_t kStep = abi::kHeapAlignment;
    bytes_ = (bytes + kStep - 1) / kStep * kStep;
    stride_ = static_cast<std::int64_t>(stride_of(bytes_));
    require_memory(bytes_, static_cast<std::uint64_t>(local.size()));
    const bool all = peers == Peers::kAll;
    // One segment has the heaps of all PEs of the host: a descriptor and a mapping per process.
    const std::uint64_t slots = all ? static_cast<std::uint64_t>(local.size()) : 1;
    const std::uint64_t whole = stride_of(bytes_) * (slots - 1) + bytes_;
    const bool makes = !all || local.group().index == 0;
    Fd segment = makes ? make_segment("gshmem-heap", whole) : Fd();
    if (all) segment = local.from_root(segment.get());
    mapping_ = map_shared(segment, whole, alignment());
    heap_ = mapping_->base() + (all ? stride_ * local.group().index : 0);
    pes_ = local.group().pes;
    const auto local_group = [&](int pe) { return local_groups[static_cast<std::size_t>(pe)]; };
    for (const int pe : pes_)
      mapped_.push_back(all && local_group(pe) == local_group(local.group().me()));
    reason_ = all ? "GSHMEM_P2P_GROUP puts it into another group" : "GSHMEM_P2P=0";
  }
  std::string why_not(int pe) const override {
    const auto found = std::lower_bound(pes_.begin(), pes_.end(), pe);
    if (found == pes_.end() || *found != pe) return "it is on another host";
    return mapped_[static_cast<std::size_t>(found - pes_.begin())] ? "" : reason_;
  }

 private:
  std::shared_ptr<SharedMapping> mapping_;
  std::string reason_;
};

}  // namespace

std::unique_ptr<PeerWindow> make_host_window(control::LocalPeers& local, std::uint64_t bytes,
                                             Peers peers, const std::vector<int>& local_groups) {
  return std::make_unique<HostWindow>(local, bytes, peers, local_groups);
}

}  // namespace gshmem::p2p
