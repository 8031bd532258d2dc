// The service kernel: one atomic on behalf of a host thread. Compiled to a fatbin that the library
// carries (host/CMakeLists.txt), loaded with the driver API.
#include "host/gpu/service.h"

#include <gshmem/device/machine.h>

namespace gshmem {
namespace {

using device::AmoOp;

template <class T>
__device__ T perform(const ServiceAmo& request) {
  T* target = static_cast<T*>(request.target);
  const T operand = static_cast<T>(request.operand);
  switch (request.op) {
    case AmoOp::kFetch:
      return device::load_relaxed(target);
    case AmoOp::kSet:
    case AmoOp::kSwap:
      return device::atomic_exchange(target, operand);
    case AmoOp::kCompareSwap:
      return device::atomic_compare_swap(target, static_cast<T>(request.cond), operand);
    case AmoOp::kAdd:
      return device::atomic_fetch_add(target, operand);
    case AmoOp::kAnd:
      return device::atomic_fetch_and(target, operand);
    case AmoOp::kOr:
      return device::atomic_fetch_or(target, operand);
    case AmoOp::kXor:
      return device::atomic_fetch_xor(target, operand);
  }
  return 0;
}

}  // namespace
}  // namespace gshmem

extern "C" __global__ void gshmem_service_amo(gshmem::ServiceAmo request) {
  *request.result = request.width == 4 ? gshmem::perform<std::uint32_t>(request)
                                       : gshmem::perform<std::uint64_t>(request);
}
