// The service kernel. It executes one call record by the same device code that kernels use. It has
// one block: with one thread for a host thread that waits, with more threads in a stream of the
// application. A timed call may have several blocks; its answer is that of the last block that
// ends. Compiled to a fatbin that the library contains (host/CMakeLists.txt), and loaded with the
// driver API.
#include "host/runtime/gpu/service.h"

#include "host/runtime/execute.h"

extern "C" __global__ void __launch_bounds__(gshmem::kServiceThreads)
    gshmem_service(const __grid_constant__ gshmem::abi::DeviceState state,
                   const __grid_constant__ gshmem::ServiceRequest request) {
  using namespace gshmem;
  const std::uint64_t answer = device::execute(device::Block{}, state, request.name, request.call);
  if (request.answer && threadIdx.x == 0) *request.answer = answer;
}
