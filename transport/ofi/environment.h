// Settings of libfabric's providers that are made before their first use: environment variables,
// and options of an endpoint. Kernels of the PE spin until the executor delivers data. So a
// provider must not call functions that may wait for kernels (most of the CUDA runtime) from a data
// call or from fi_cq_read. Used by open.cpp and fabric.cpp.
#pragma once

#include "transport/ofi/library.h"

#include <rdma/fi_endpoint.h>

#include <cstddef>

namespace gshmem::ofi {

/// Sets the variables of the providers that the user has not set; libfabric reads them at its first
/// call in a process. Threads: any.
void prepare_environment(int n_pes, bool gpu_memory);

/// Forbids a new endpoint to call CUDA, before it is enabled. Errors: GSHMEMX_ERROR_NOT_SUPPORTED
/// if the endpoint has to call it.
void forbid_cuda(const Library& library, fid_ep* endpoint);

/// Returns how many bytes a write may carry in its call. Their memory may be reused at once.
[[nodiscard]] std::size_t inject_size(const fi_info& info, fid_ep* endpoint);

/// Returns why libfabric cannot find the CUDA runtime on this machine, with the remedy; empty when
/// it can.
[[nodiscard]] std::string missing_cuda_runtime();

}  // namespace gshmem::ofi
