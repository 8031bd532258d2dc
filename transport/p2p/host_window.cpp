#include "transport/p2p/window.h"

#include <gshmem/abi/state.h>

#include <sys/mman.h>
#include <sys/sysinfo.h>

namespace gshmem::p2p {
namespace {

constexpr std::uint64_t kAlignment = abi::kHeapAlignment;

class HostWindow final : public PeerWindow {
 public:
  HostWindow(PeerSockets& sockets, std::uint64_t bytes) {
    bytes_ = (bytes + kAlignment - 1) / kAlignment * kAlignment;
    struct sysinfo info {};
    check_errno(::sysinfo(&info), "sysinfo");
    const std::uint64_t memory = (info.totalram + info.totalswap) * info.mem_unit;
    require(bytes_ <= memory, GSHMEMX_ERROR_OUT_OF_MEMORY,
            strprintf("symmetric heap of %lu bytes is larger than this host's memory (%lu bytes); "
                      "lower GSHMEM_SYMMETRIC_SIZE",
                      bytes_, memory));
    const Fd mine = make_segment("gshmem-heap", bytes_);
    const std::vector<Fd> segments = sockets.exchange(mine.get());

    stride_ = static_cast<std::int64_t>(bytes_);
    reserved_ = bytes_ * segments.size() + kAlignment;
    range_ =
        ::mmap(nullptr, reserved_, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    require(range_ != MAP_FAILED, GSHMEMX_ERROR_OUT_OF_MEMORY,
            strprintf("cannot reserve %lu bytes of addresses for the heaps of %zu PEs", reserved_,
                      segments.size()));
    const std::uintptr_t first = reinterpret_cast<std::uintptr_t>(range_) + kAlignment - 1;
    base_ = reinterpret_cast<char*>(first / kAlignment * kAlignment);
    for (std::size_t pe = 0; pe < segments.size(); ++pe) {
      void* at = ::mmap(base_ + bytes_ * pe, bytes_, PROT_READ | PROT_WRITE,
                        MAP_SHARED | MAP_FIXED | MAP_NORESERVE, segments[pe].get(), 0);
      if (at == MAP_FAILED) {
        ::munmap(range_, reserved_);
        throw Error(GSHMEMX_ERROR_SYSTEM, strprintf("cannot map the heap of PE %zu", pe));
      }
    }
  }
  ~HostWindow() override { ::munmap(range_, reserved_); }

 private:
  void* range_ = nullptr;
  std::uint64_t reserved_ = 0;
};

}  // namespace

Fd make_segment(const char* name, std::uint64_t bytes) {
  Fd fd(static_cast<int>(check_errno(::memfd_create(name, MFD_CLOEXEC), "memfd_create")));
  check_errno(::ftruncate(fd.get(), static_cast<off_t>(bytes)), "ftruncate");
  return fd;
}

std::unique_ptr<PeerWindow> make_host_window(PeerSockets& sockets, std::uint64_t bytes) {
  return std::make_unique<HostWindow>(sockets, bytes);
}

}  // namespace gshmem::p2p
