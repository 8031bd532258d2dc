// The service kernel: it executes one call record by the same device code that kernels use. It has
// one block: of one thread for a host thread that waits, of more in a stream of the application. A
// timed call may have several; the answer is that of the block which ends last.
// Compiled to a fatbin that the library contains (host/CMakeLists.txt), and loaded with the driver
// API.
#include "host/runtime/gpu/service.h"

#include "host/runtime/execute.h"

extern "C" __global__ void __launch_bounds__(gshmem::kServiceThreads)
    gshmem_service(const __grid_constant__ gshmem::abi::DeviceState state,
                   const __grid_constant__ gshmem::ServiceRequest request) {
  using namespace gshmem;
  const std::uint64_t answer = device::execute(device::Block{}, state, request.name, request.call);
  if (request.answer && threadIdx.x == 0) *request.answer = answer;
}
