// Collectives of host threads and streams between members that map each other. It chooses the
// kernel and the number of blocks for a call. All members make the same choice: it depends only on
// the team, the operation and the bytes.
#include "host/runtime/gpu/host_ops.h"

#include <gshmem/device/collective/collective.h>

#include <algorithm>

namespace gshmem {

using device::Algorithm, device::Call, device::CallKind;

namespace {

constexpr std::uint64_t kWarp = 32;

Algorithm choose(const device::TeamCall& of, const Call& call) {
  constexpr device::ManyBlocks kBy;
  switch (call.kind) {
    case CallKind::kAlltoall:
      return device::algorithm_of<CallKind::kAlltoall>(kBy, of);
    case CallKind::kBroadcast:
      return device::algorithm_of<CallKind::kBroadcast>(kBy, of);
    case CallKind::kFcollect:
      return device::algorithm_of<CallKind::kFcollect>(kBy, of);
    case CallKind::kReduce:
      return device::algorithm_of<CallKind::kReduce>(kBy, of, element_bytes(call.type));
    case CallKind::kReducescatter:
      return device::algorithm_of<CallKind::kReducescatter>(kBy, of);
    default:
      return Algorithm::kDirect;
  }
}

/// Returns how many words of 16 bytes one member loads or stores.
std::uint64_t words_of(const Call& call, int n_pes, bool in_one_shot) {
  const std::uint64_t words = (call.bytes + sizeof(device::Word16) - 1) / sizeof(device::Word16);
  const auto n = static_cast<std::uint64_t>(n_pes);
  if (call.kind == CallKind::kAlltoall) return words * n;
  if (call.kind == CallKind::kReduce && !in_one_shot) return (words + n - 1) / n;
  if (call.kind == CallKind::kBroadcast && !in_one_shot) return (words + n - 2) / (n - 1);
  return words;
}

}  // namespace

void CudaHostOps::load_collectives() {
  GSHMEM_CU(&cuda_, cuModuleLoadData, &collectives_, gshmem_grid_kernels_image);
  GSHMEM_CU(&cuda_, cuModuleGetFunction, &move_kernel_, collectives_, kGridMove);
  GSHMEM_CU(&cuda_, cuModuleGetFunction, &sync_kernel_, collectives_, kGridSync);
#define GSHMEM_GRID_LOAD(OP, NAME, TYPE)                                           \
  GSHMEM_CU(&cuda_, cuModuleGetFunction,                                           \
            &reduce_kernels_[static_cast<std::size_t>(device::ReduceOp::OP)]       \
                            [static_cast<std::size_t>(device::ElementType::NAME)], \
            collectives_, GSHMEM_GRID_NAME(OP, NAME));
  GSHMEM_GRID_REDUCTIONS(GSHMEM_GRID_LOAD)
#undef GSHMEM_GRID_LOAD
}

CUfunction CudaHostOps::grid_kernel(const Call& call) const {
  if (call.kind != CallKind::kReduce && call.kind != CallKind::kReducescatter) return move_kernel_;
  return reduce_kernels_[static_cast<std::size_t>(call.reduce_op)]
                        [static_cast<std::size_t>(grid_type(call.reduce_op, call.type))];
}

void CudaHostOps::launch_grid(CUstream stream, CUfunction kernel, GridRequest& request,
                              std::uint64_t blocks, std::uint64_t threads) {
  if (request.answer) *request.answer = 0;
  abi::DeviceState state = state_;
  void* parameters[] = {&state, &request};
  GSHMEM_CU(&cuda_, cuLaunchKernel, kernel, static_cast<unsigned>(blocks), 1, 1,
            static_cast<unsigned>(threads), 1, 1, 0, stream, parameters, nullptr);
}

bool CudaHostOps::launch_collective(CUstream stream, const Call& call, std::uint64_t* answer) {
  const bool is_sync = call.kind == CallKind::kBarrier || call.kind == CallKind::kSync;
  const std::uint32_t index = device::team_index(static_cast<std::uint32_t>(call.team));
  if ((!is_sync && !is_collective(call.kind)) || call.team < 0 || index >= state_.n_teams)
    return false;
  const abi::Team& team = state_.host_teams[index];
  if (__atomic_load_n(&team.handle, __ATOMIC_ACQUIRE) != static_cast<std::uint32_t>(call.team))
    return false;
  if (is_sync) {
    if (team.flat == 0 || state_.nic.queues) return false;
    GridRequest request{{}, team, call.kind, 0, answer};
    device::copy_text(request.call.name, call.name, sizeof(request.call.name));
    launch_grid(stream, sync_kernel_, request, 1,
                (static_cast<std::uint64_t>(team.n_pes) + kWarp - 1) / kWarp * kWarp);
    return true;
  }
  if (index >= abi::kPacketTeams || call.bytes == 0 || team.n_pes > abi::kPacketPes) return false;
  const device::TeamCall of{&state_, call.name, &team, call.dest, call.source, call.bytes};
  const Algorithm how = choose(of, call);
  const bool by_packets = how == Algorithm::kPackets, in_one_shot = how == Algorithm::kGridOneShot;
  if (!by_packets && !in_one_shot && how != Algorithm::kGrid) return false;

  GridRequest request{device::grid_call(state_, team, call), team, call.kind, 0, answer};
  request.call.in_one_shot = in_one_shot ? 1 : 0;
  std::uint64_t threads = kGridThreads, blocks = 1;
  if (by_packets) {
    // A thread handles one packet of each member; units of 16 bytes are not split.
    const std::uint64_t packets = (call.bytes + abi::kPacketData - 1) / abi::kPacketData;
    const auto n = static_cast<std::uint64_t>(team.n_pes);
    const std::uint64_t least = (packets + most_blocks_ - 1) / most_blocks_;
    const std::uint64_t each = std::min(packets, (std::max(kGridThreads / n, least) + 1) / 2 * 2);
    request.packets = static_cast<std::uint32_t>(each);
    blocks = (packets + each - 1) / each;
    threads = std::clamp((each * n + kWarp - 1) / kWarp * kWarp, kWarp, threads);
  } else {
    blocks = std::clamp((words_of(call, team.n_pes, in_one_shot) + threads - 1) / threads,
                        std::uint64_t{1}, std::uint64_t{most_blocks_});
  }
  launch_grid(stream, grid_kernel(call), request, blocks, threads);
  return true;
}

}  // namespace gshmem
