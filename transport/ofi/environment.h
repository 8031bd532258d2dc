// Settings of libfabric's providers before they are asked: variables, and options of an endpoint.
// Kernels of the PE spin for what the executor brings, so that a provider must not call what may
// wait for kernels (most of the CUDA runtime) from a data call or from fi_cq_read. Used by open.cpp
// and fabric.cpp.
#pragma once

#include "transport/ofi/library.h"

#include <rdma/fi_endpoint.h>

#include <cstddef>

namespace gshmem::ofi {

/// Sets the variables of the providers, those that the user has not set; libfabric reads them at
/// its first call in a process. Threads: any.
void prepare_environment(int n_pes, bool gpu_memory);

/// Tells a new endpoint, before it is enabled, that it must not call CUDA. Errors:
/// GSHMEMX_ERROR_NOT_SUPPORTED when it says that it has to.
void forbid_cuda(const Library& library, fid_ep* endpoint);

/// Bytes that a write may carry with its call, so that their memory is free again at once.
[[nodiscard]] std::size_t inject_size(const fi_info& info, fid_ep* endpoint);

/// Why libfabric cannot have found the CUDA runtime on this machine, with the remedy; empty when it
/// can.
[[nodiscard]] std::string missing_cuda_runtime();

}  // namespace gshmem::ofi
