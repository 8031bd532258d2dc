// Replaces the mlx5 transport in a build without <infiniband/mlx5dv.h>: it throws an error.
#include "transport/nic/mlx5/mlx5.h"

namespace gshmem::nic {
namespace mlx5 {
namespace {
constexpr const char* kWhy =
    "this gshmem was built without rdma-core headers (Debian: libibverbs-dev) and has no mlx5 path";
}

NicList open_in(const OpenOptions&, const std::string&) {
  throw Error(GSHMEMX_ERROR_NOT_SUPPORTED, kWhy);
}
Usable usable(const OpenOptions&, const std::string&) { return {.why_not = kWhy}; }

}  // namespace mlx5

NicList open_mlx5(const OpenOptions& options) { return mlx5::open_in(options, {}); }

}  // namespace gshmem::nic
