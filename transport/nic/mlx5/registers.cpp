#include "transport/nic/mlx5/registers.h"

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace gshmem::nic::mlx5 {
namespace {

// MLX5DV_UAR_ALLOC_TYPE_NC_DEDICATED of newer rdma-core (mlx5dv.h); older libraries refuse it.
constexpr std::uint32_t kUarDedicated = 1u << 31;
constexpr std::uintptr_t kUarBytes = 4096;  // MLX5_ADAPTER_PAGE_SIZE of rdma-core
// The register for queue pairs without a doorbell record (DOCA GPUNetIO, doca_verbs_uar.cpp).
constexpr std::uintptr_t kUarNoRecordOffset = 0x600;

constexpr char kAdvice[] =
    "when doorbell pages have run out: other processes of the device hold them, or it is a virtual "
    "function with few, which mlxconfig gives more (VF_LOG_BAR_SIZE; PF_LOG_BAR_SIZE for a "
    "physical "
    "one); in a container, its runtime must pass the device on (its device plugin, or "
    "--privileged)";

}  // namespace

OwnedUar DoorbellRegisters::allocate() {
  struct Way {
    std::uint32_t type;
    const char* name;
  };
  // The last entry is the same register for the whole context.
  constexpr Way kWays[] = {{kUarDedicated, "NC_DEDICATED"},
                           {MLX5DV_UAR_ALLOC_TYPE_BF, "BF"},
                           {MLX5DV_UAR_ALLOC_TYPE_NC, "NC"}};
  std::string tried;
  int error = 0;
  for (const Way& way : kWays) {
    errno = 0;
    if (mlx5dv_devx_uar* uar = device_.api.alloc_uar(device_.context.get(), way.type))
      return own(uar, device_.api.free_uar, "mlx5dv_devx_free_uar");
    error = errno;
    tried += std::string(tried.empty() ? "" : "; ") + way.name + ": " + std::strerror(error);
  }
  fail_verbs("mlx5dv_devx_alloc_uar(" + device_.name + ")", error,
             "tried " + tried + "; " + kAdvice);
}

const mlx5dv_devx_uar& DoorbellRegisters::take() {
  const std::size_t queue = queues_++;
  if (queue == registers_.size() && queue < kMost) {
    try {
      registers_.push_back(allocate());
    } catch (const Error& error) {
      if (registers_.empty()) throw;
      GSHMEM_INFO("queues share %zu doorbell registers: %s", registers_.size(), error.what());
    }
  }
  return *registers_[queue % registers_.size()];
}

std::uint64_t* DoorbellRegisters::doorbell_of(const Device& device, const mlx5dv_devx_uar& bell) {
  auto address = reinterpret_cast<std::uintptr_t>(bell.reg_addr);
  // The address of the UAR that contains the register. base_addr is a page of the host, which may
  // hold several UARs.
  if (device.caps.no_record) address = address / kUarBytes * kUarBytes + kUarNoRecordOffset;
  return reinterpret_cast<std::uint64_t*>(address);
}

const mlx5dv_devx_uar& DoorbellRegisters::by(const std::uint64_t* doorbell) const {
  const auto found = std::ranges::find_if(
      registers_, [&](const OwnedUar& each) { return doorbell_of(device_, *each) == doorbell; });
  require(found != registers_.end(), GSHMEMX_ERROR_INTERNAL, "no doorbell of this device");
  return **found;
}

}  // namespace gshmem::nic::mlx5
