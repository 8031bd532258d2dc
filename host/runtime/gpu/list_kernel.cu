// The kernel that moves the pieces of a list. To a mapped PE all warps of all blocks have equal
// shares of the bytes; over a network one block posts. Compiled to a fatbin that the library
// contains (host/CMakeLists.txt), and loaded with the driver API.
#include "host/runtime/gpu/list_kernel.h"

#include <gshmem/device/ops/pieces.h>

extern "C" __global__ void __launch_bounds__(gshmem::kListThreads)
    gshmem_list(const __grid_constant__ gshmem::abi::DeviceState state,
                const __grid_constant__ gshmem::ListRequest request) {
  using namespace gshmem::device;
  const Call& call = request.service.call;
  const Piece* const pieces = request.list ? request.list : request.pieces;
  const ListCall list{&state,          request.service.name,
                      pieces,          request.count,
                      call.pe,         call.kind == CallKind::kPutv,
                      call.waits != 0, call.signal != nullptr,
                      call.op,         call.signal,
                      call.operand};
  if (!is_mapped(state, call.pe)) {
    (void)move_list(Block{}, list);
    return;
  }
  const std::uint64_t warps = gridDim.x * (gshmem::kListThreads / 32);
  const std::uint64_t mine = blockIdx.x * (gshmem::kListThreads / 32) + threadIdx.x / 32;
  if (list.is_put) {
    copy_share<Source::kLocal>(Warp{}, list, mine, warps);
  } else {
    copy_share<Source::kPeer>(Warp{}, list, mine, warps);
  }
}
