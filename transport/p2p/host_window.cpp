#include "transport/p2p/shared_mapping.h"
#include "transport/p2p/window.h"

#include <gshmem/abi/state.h>

#include <sys/sysinfo.h>

namespace gshmem::p2p {
namespace {

class HostWindow final : public PeerWindow {
 public:
  HostWindow(PeerSockets& sockets, std::uint64_t bytes, Peers peers) {
    constexpr std::uint64_t kStep = abi::kHeapAlignment;
    bytes_ = (bytes + kStep - 1) / kStep * kStep;
    stride_ = static_cast<std::int64_t>(bytes_);
    struct sysinfo info {};
    check_errno(::sysinfo(&info), "sysinfo");
    const std::uint64_t memory = (info.totalram + info.totalswap) * info.mem_unit;
    require(bytes_ <= memory, GSHMEMX_ERROR_OUT_OF_MEMORY,
            strprintf("symmetric heap of %lu bytes is larger than this host's memory (%lu bytes); "
                      "lower GSHMEM_SYMMETRIC_SIZE",
                      bytes_, memory));
    const bool all = peers == Peers::kOfHost;
    std::vector<Fd> segments;
    segments.push_back(make_segment("gshmem-heap", bytes_));
    if (all) segments = sockets.exchange(segments[0].get());
    mapping_ = map_shared(segments, bytes_);
    heap_ = mapping_->base() + (all ? stride_ * sockets.group().index : 0);
    mapped_.assign(static_cast<std::size_t>(sockets.size()), all);
  }

 private:
  std::shared_ptr<SharedMapping> mapping_;
};

}  // namespace

std::unique_ptr<PeerWindow> make_host_window(PeerSockets& sockets, std::uint64_t bytes,
                                             Peers peers) {
  return std::make_unique<HostWindow>(sockets, bytes, peers);
}

}  // namespace gshmem::p2p
