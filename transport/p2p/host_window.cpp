#include "host/base/memory_limit.h"
#include "host/base/shared_mapping.h"
#include "transport/p2p/window.h"

#include <gshmem/abi/state.h>

#include <unistd.h>

#include <algorithm>
#include <map>
#include <utility>

namespace gshmem::p2p {
namespace {

/// Errors: GSHMEMX_ERROR_OUT_OF_MEMORY if the heaps of this host's PEs do not fit into its memory.
/// Without this check, memory would run out only when heaps are written, and the kernel would kill
/// a process.
void require_memory(std::uint64_t heap_bytes, std::uint64_t pes, const char* advice) {
  const MemoryBound bound = memory_bound();
  require(bound.has_room(heap_bytes, pes), GSHMEMX_ERROR_OUT_OF_MEMORY, [&] {
    const std::string heaps = pes == 1 ? "a symmetric heap of " + size_text(heap_bytes) + " is"
                                       : strprintf("%lu symmetric heaps of %s on this host are",
                                                   pes, size_text(heap_bytes).c_str());
    return strprintf("%s larger than this %s, %s%s", heaps.c_str(), bound.name,
                     size_text(bound.bytes).c_str(), advice);
  });
}

class HostWindow final : public PeerWindow {
 public:
  HostWindow(control::LocalPeers& local, WindowBytes bytes, Peers peers,
             const std::vector<int>& local_groups)
      : local_(local), all_(peers == Peers::kAll) {
    constexpr std::uint64_t kStep = abi::kHeapAlignment;
    bytes_ = (bytes.heap + kStep - 1) / kStep * kStep;
    lent_granularity_ = static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
    lent_bytes_ = (bytes.lent + kStep - 1) / kStep * kStep;
    set_stride();
    require_memory(bytes_, static_cast<std::uint64_t>(local.size()),
                   "; lower GSHMEM_SYMMETRIC_SIZE");
    // One segment has the heaps of all PEs of the host, so a process needs one descriptor.
    const std::uint64_t slots = all_ ? static_cast<std::uint64_t>(local.size()) : 1;
    whole_bytes_ = static_cast<std::uint64_t>(stride_) * slots;
    const bool makes = !all_ || local.group().index == 0;
    Fd segment = makes ? make_segment("gshmem-heap", bytes_ * slots) : Fd();
    if (all_) segment = local.from_root(segment.get());
    mapping_ =
        map_shared(segment, {bytes_, static_cast<std::uint64_t>(stride_), slots}, alignment());
    pes_ = local.group().pes;
    base_ = mapping_->base();
    heap_ = base_ + (all_ ? stride_ * local.group().index : 0);
    const auto local_group = [&](int pe) { return local_groups[static_cast<std::size_t>(pe)]; };
    for (const int pe : pes_)
      mapped_.push_back(all_ && local_group(pe) == local_group(local.group().me()));
    reason_ = all_ ? "GSHMEM_P2P_GROUP puts it into another group" : "GSHMEM_P2P=0";
  }
  std::string why_not(int pe) const override {
    const auto found = std::ranges::find(pes_, pe);
    if (found == pes_.end()) return "it is on another host";
    return mapped_[static_cast<std::size_t>(found - pes_.begin())] ? "" : reason_;
  }

  LentMemory lend(const void* p, std::size_t bytes) const override {
    require(reinterpret_cast<std::uintptr_t>(p) % lent_granularity_ == 0 &&
                bytes % lent_granularity_ == 0,
            GSHMEMX_ERROR_INVALID_VALUE,
            strprintf("(size = %zu) is not in whole pages of %lu bytes", bytes, lent_granularity_));
    return lend_host_memory(p, bytes);
  }
  LentMemory make_more(std::uint64_t bytes, std::uint64_t held) const override {
    require_memory(held + bytes, static_cast<std::uint64_t>(local_.size()), "");
    LentMemory more;
    more.pieces.push_back({make_segment("gshmem-heap", bytes), 0, bytes});
    return more;
  }
  void map_lent(std::uint64_t offset, const LentMemory& mine) override {
    // PEs of one process share one mapping, in which each maps its own memory.
    if (!all_ || local_.is_one_process()) return place(heap_ + offset, offset, mine);
    const std::vector<LentMemory> all = exchange_lent(local_, mine);
    for (std::size_t i = 0; i < all.size(); ++i) {
      if (mapped_[i])
        place(base_ + stride_ * static_cast<std::int64_t>(i) + offset, offset, all[i]);
    }
  }
  void unmap_lent(std::uint64_t offset) noexcept override {
    for (const std::uint64_t at : std::exchange(lent_[offset], {})) mapping_->clear(at);
  }

 private:
  void place(const char* address, std::uint64_t offset, const LentMemory& memory) {
    auto at = static_cast<std::uint64_t>(address - base_);
    for (const LentMemory::Piece& piece : memory.pieces) {
      mapping_->place(at, piece.bytes, piece.fd, piece.offset);
      lent_[offset].push_back(at);
      at += piece.bytes;
    }
  }

  control::LocalPeers& local_;
  const bool all_;
  std::map<std::uint64_t, std::vector<std::uint64_t>> lent_;  ///< positions, by offset
  std::shared_ptr<SharedMapping> mapping_;
  std::string reason_;
};

}  // namespace

std::unique_ptr<PeerWindow> make_host_window(control::LocalPeers& local, WindowBytes bytes,
                                             Peers peers, const std::vector<int>& local_groups) {
  return std::make_unique<HostWindow>(local, bytes, peers, local_groups);
}

}  // namespace gshmem::p2p
