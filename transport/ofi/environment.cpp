#include "transport/ofi/environment.h"

#include "host/base/config.h"
#include "host/base/dynamic_library.h"

#include <mutex>
#include <string>

namespace gshmem::ofi {
namespace {

struct Variable {
  const char* name;
  const char* value;
};

constexpr Variable kAlways[] = {
    // A PE may fork (data loaders do). On kernels before 5.13 the pages that EFA has registered
    // then belong to the child (fi_efa(7)).
    {"FI_EFA_FORK_SAFE", "1"},
    // libmlx5 stores data that fits into a completion by the CPU, also if it is for GPU memory
    // (rdma-core, providers/mlx5, MLX5_SCATTER_TO_CQE).
    {"MLX5_SCATTER_TO_CQE", "0"},
};
constexpr Variable kForGpus[] = {
    {"FI_HMEM", "cuda"},
    {"FI_HMEM_CUDA_USE_GDRCOPY", "1"},
    // Writes of up to 192 bytes have their data in the command. The CPU copies it out of GPU
    // memory, by the CUDA runtime on the default stream if GDRCopy is missing (cxip_rma.c,
    // cxip_rma_is_idc). The first variable is for releases before 2.3.
    {"FI_CXI_DISABLE_NON_INJECT_MSG_IDC", "1"},
    {"FI_CXI_DISABLE_NON_INJECT_RMA_IDC", "1"},
    // Buffers that grow during transfers would be registered with CUDA, which may wait for kernels
    // (cxip_ptelist_buf.c).
    {"FI_CXI_DISABLE_HOST_REGISTER", "1"},
    {"FI_CXI_DISABLE_HMEM_DEV_REGISTER", "1"},
};

// Options of endpoints that headers before 1.18 and 1.20 lack (rdma/fi_endpoint.h).
constexpr int kCudaPermitted = 10, kInjectRmaSize = 18;

/// The number of PEs from which receive buffers per connection take too much memory (2 MiB each in
/// ofi_rxm).
constexpr int kManyPes = 64;

}  // namespace

void prepare_environment(int n_pes, bool gpu_memory) {
  static std::mutex mutex;  // PEs may be threads
  const std::lock_guard<std::mutex> lock(mutex);
  for (const Variable& v : kAlways) env_set_default(v.name, v.value);
  if (gpu_memory)
    for (const Variable& v : kForGpus) env_set_default(v.name, v.value);
  // ofi_rxm sizes its completion queues for this number of peers, 256 by default. With more peers
  // they overflow, and Soft-RoCE cannot have one for 256 (fi_rxm(7)).
  env_set_default("FI_UNIVERSE_SIZE", std::to_string(n_pes));
  if (n_pes >= kManyPes) env_set_default("FI_OFI_RXM_USE_SRX", "1");
}

void forbid_cuda(const Library& library, fid_ep* endpoint) {
  const bool permitted = false;
  const int result =
      fi_setopt(&endpoint->fid, FI_OPT_ENDPOINT, kCudaPermitted, &permitted, sizeof(permitted));
  require(result != -FI_EOPNOTSUPP, GSHMEMX_ERROR_NOT_SUPPORTED, [] {
    return std::string(
        "the provider moves GPU memory by the CUDA runtime only (FI_OPT_CUDA_API_PERMITTED), which "
        "waits for kernels that wait for it: it lacks GDRCopy (libgdrapi.so, module gdrdrv), or "
        "GPUDirect RDMA");
  });
  // With any other error the option is newer than the library.
  GSHMEM_DEBUG("fi_setopt(FI_OPT_CUDA_API_PERMITTED): %s", library.text(result).c_str());
  const int required = FI_HMEM_P2P_REQUIRED;
  const int p2p =
      fi_setopt(&endpoint->fid, FI_OPT_ENDPOINT, FI_OPT_FI_HMEM_P2P, &required, sizeof(required));
  GSHMEM_DEBUG("fi_setopt(FI_OPT_FI_HMEM_P2P): %s", library.text(p2p).c_str());
}

std::size_t inject_size(const fi_info& info, fid_ep* endpoint) {
  std::size_t size = 0, bytes = sizeof(size);
  const int result = fi_getopt(&endpoint->fid, FI_OPT_ENDPOINT, kInjectRmaSize, &size, &bytes);
  if (result == 0) return size;
  // Releases of EFA without the option inject messages only.
  return is_named(info, "efa") ? 0 : info.tx_attr->inject_size;
}

std::string missing_cuda_runtime() {
  // hmem_cuda.c opens the library by this name, which only packages for development have; others
  // have the name with a number.
  const auto opens = [](const std::string& name) {
    try {
      const DynamicLibrary found(name);
      return true;
    } catch (const Error&) {
      return false;
    }
  };
  if (opens("libcudart.so")) return {};
  for (const char* number : {"13", "12", "11.0"}) {
    const std::string name = std::string("libcudart.so.") + number;
    if (opens(name))
      return "libfabric opens the CUDA runtime as libcudart.so, and this process only finds " +
             name + ": make a link of that name in a folder of LD_LIBRARY_PATH";
  }
  return "libfabric opens the CUDA runtime as libcudart.so, which this process does not find: "
         "install it, or add its folder to LD_LIBRARY_PATH";
}

}  // namespace gshmem::ofi
