#include "transport/p2p/shared_mapping.h"
#include "transport/p2p/window.h"

#include <gshmem/abi/state.h>

#include <sys/sysinfo.h>

namespace gshmem::p2p {
namespace {

class HostWindow final : public PeerWindow {
 public:
  HostWindow(PeerSockets& sockets, std::uint64_t bytes) {
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
    const Fd mine = make_segment("gshmem-heap", bytes_);
    mapping_ = map_shared(sockets.exchange(mine.get()), bytes_);
    base_ = mapping_->base();
  }

 private:
  std::shared_ptr<SharedMapping> mapping_;
};

}  // namespace

std::unique_ptr<PeerWindow> make_host_window(PeerSockets& sockets, std::uint64_t bytes) {
  return std::make_unique<HostWindow>(sockets, bytes);
}

}  // namespace gshmem::p2p
