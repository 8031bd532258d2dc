// The service kernel: one operation on behalf of a host thread, by the same device code that
// kernels use. Compiled to a fatbin that the library carries (host/CMakeLists.txt), loaded with the
// driver API.
#include "host/gpu/service.h"

#include <gshmem/device/amo.h>
#include <gshmem/device/order.h>
#include <gshmem/device/rma.h>

namespace gshmem {
namespace {

using device::AmoOp;

template <class T>
__device__ T perform(const device::State& state, const ServiceRequest& request) {
  T* target = static_cast<T*>(request.remote);
  const T operand = static_cast<T>(request.operand);
  const int pe = request.pe;
  switch (request.op) {
    case AmoOp::kFetch:
      return device::amo_fetch(state, target, pe);
    case AmoOp::kSet:
    case AmoOp::kSwap:
      return device::amo_swap(state, target, operand, pe);
    case AmoOp::kCompareSwap:
      return device::amo_compare_swap(state, target, static_cast<T>(request.cond), operand, pe);
    case AmoOp::kAdd:
      return device::amo_fetch_add(state, target, operand, pe);
    case AmoOp::kAnd:
      return device::amo_fetch_and(state, target, operand, pe);
    case AmoOp::kOr:
      return device::amo_fetch_or(state, target, operand, pe);
    case AmoOp::kXor:
      return device::amo_fetch_xor(state, target, operand, pe);
  }
  return 0;
}

}  // namespace
}  // namespace gshmem

extern "C" __global__ void gshmem_service(const __grid_constant__ gshmem::abi::DeviceState state,
                                          const gshmem::ServiceRequest request) {
  using namespace gshmem;
  switch (request.kind) {
    case ServiceRequest::Kind::kAmo:
      *request.result = request.width == 4 ? perform<std::uint32_t>(state, request)
                                           : perform<std::uint64_t>(state, request);
      break;
    case ServiceRequest::Kind::kPut:
      device::nic::put(device::Thread{}, state, request.remote, request.local, request.bytes,
                       request.pe, device::nic::Reuse::kOnReturn);
      break;
    case ServiceRequest::Kind::kGet:
      device::nic::get(device::Thread{}, state, request.local, request.remote, request.bytes,
                       request.pe, device::nic::Arrival::kOnReturn);
      break;
    case ServiceRequest::Kind::kQuiet:
      device::quiet(device::Thread{}, state);
      break;
    case ServiceRequest::Kind::kQuietStatus:
      // The host reads the record.
      device::quiet_status(device::Thread{}, state, "gshmemx_quiet_status");
      break;
  }
}
