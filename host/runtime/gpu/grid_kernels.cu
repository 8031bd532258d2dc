// The kernels of collectives that host threads and streams make between members that map each
// other. Collectives of few bytes use packets, by one block; larger ones use many blocks
// (device/collective/grid.h). Compiled to a fatbin that the library contains (host/CMakeLists.txt).
#include "host/runtime/gpu/grid_kernels.h"

#include <gshmem/device/collective/packets.h>

namespace gshmem {
namespace {

using device::Block, device::CallKind, device::Give, device::GridPosition, device::PacketSlice,
    device::ReduceOp;

/// Returns the team of the call: it is in the parameters, unless its members have a list.
__device__ const abi::Team* team_of(const abi::DeviceState& state, const GridRequest& request) {
  return request.team.members ? state.teams + device::team_index(request.team.handle)
                              : &request.team;
}

__device__ void answer(const GridRequest& request, int status) {
  if (status != 0 && request.answer && threadIdx.x == 0)
    *request.answer = static_cast<std::uint64_t>(status);
}

/// Executes the call by packets, with `send(call, packets)` and `receive`, or by `many(position)`.
template <class Send, class Receive, class Many>
__device__ void make(const abi::DeviceState& state, const GridRequest& request, bool own_part,
                     const Send& send, const Receive& receive, const Many& many) {
  int status = 0;
  if (request.packets != 0) {
    const device::GridCall& call = request.call;
    device::TeamCall of{&state,    call.name,   team_of(state, request),
                        call.dest, call.source, call.bytes};
    if (own_part) of = device::at_own_part(of);
    status = device::by_packet_slices(
        Block{}, of, blockIdx.x, gridDim.x, request.packets, &call.slot->ticket,
        [&](PacketSlice packets) { send(of, packets); }, receive);
  } else {
    status = many(GridPosition{blockIdx.x, gridDim.x});
  }
  answer(request, status);
}

template <ReduceOp kOp, class T>
__device__ void reduce(const abi::DeviceState& state, const GridRequest& request) {
  using Reducer = device::TypedReducer<kOp, T>;
  using Combine = device::CombinePackets<device::PacketUnit<device::Word<T>>, Reducer>;
  const bool is_scattered = request.kind == CallKind::kReducescatter;
  make(
      state, request, is_scattered,
      [&](const device::TeamCall& call, PacketSlice packets) {
        if (is_scattered) return device::send_packets<Give::kParts>(Block{}, call, packets);
        device::send_packets<Give::kWhole>(Block{}, call, packets);
      },
      Combine{},
      [&](GridPosition position) {
        return device::reduce_by_grid<T>(Block{}, state, request.call, position, is_scattered,
                                         Reducer{});
      });
}

}  // namespace
}  // namespace gshmem

#define GSHMEM_GRID_BOUNDS __launch_bounds__(gshmem::kGridThreads, gshmem::kGridBlocksPerSm)
#define GSHMEM_GRID_DEFINE(OP, NAME, TYPE)                                    \
  extern "C" __global__ void GSHMEM_GRID_BOUNDS GSHMEM_GRID_KERNEL(OP, NAME)( \
      const __grid_constant__ gshmem::abi::DeviceState state,                 \
      const __grid_constant__ gshmem::GridRequest request) {                  \
    gshmem::reduce<gshmem::device::ReduceOp::OP, TYPE>(state, request);       \
  }
GSHMEM_GRID_REDUCTIONS(GSHMEM_GRID_DEFINE)

extern "C" __global__ void GSHMEM_GRID_BOUNDS
gshmem_grid_move(const __grid_constant__ gshmem::abi::DeviceState state,
                 const __grid_constant__ gshmem::GridRequest request) {
  using namespace gshmem;
  using namespace gshmem::device;
  const int root = request.call.root;
  const bool in_parts = request.kind == CallKind::kAlltoall;
  make(
      state, request, in_parts,
      [&](const TeamCall& call, PacketSlice packets) {
        if (in_parts) return send_packets<Give::kParts>(Block{}, call, packets);
        if (request.kind == CallKind::kBroadcast && request.call.my_pe != root)
          return send_presence(Block{}, call, packets);
        send_packets<Give::kWhole>(Block{}, call, packets);
      },
      [&](Block block, const TeamCall& call, PacketSlice packets) {
        return request.kind == CallKind::kBroadcast ? BroadcastPackets{root}(block, call, packets)
                                                    : MovePackets{}(block, call, packets);
      },
      [&](GridPosition position) {
        return move_by_grid(Block{}, state, request.kind, request.call, position);
      });
}

/// A sync of a flat team, or a barrier if nothing uses the network.
extern "C" __global__ void __launch_bounds__(gshmem::abi::kFlatPes)
    gshmem_grid_sync(const __grid_constant__ gshmem::abi::DeviceState state,
                     const __grid_constant__ gshmem::GridRequest request) {
  using namespace gshmem;
  const device::Members members{state, *team_of(state, request)};
  const bool arrived = device::sync_team(device::Block{}, members, request.call.name);
  answer(request, device::Block{}.any(!arrived) ? device::fault_code(state) : 0);
}
