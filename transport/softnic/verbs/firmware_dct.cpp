// CREATE_DCT, DESTROY_DCT, QUERY_DCT: DC targets. The kernel drains one before it destroys it
// (Linux drivers/infiniband/hw/mlx5/qpc.c, mlx5_core_destroy_dct), so that clients need not.
#include "transport/softnic/verbs/firmware_state.h"

#include <algorithm>
#include <utility>

namespace gshmem::soft {
namespace {

constexpr std::uint32_t kActive = 0;  ///< dctc.state, MLX5_DCTC_STATE_ACTIVE

/// Returns the target that a command names.
DevxDct& find_dct(FirmwareState& state, const Call& call) {
  const auto found = state.dcts.find(named_object(call));
  demand(found != state.dcts.end(), Status::kBadResource, Check::kNumber, "no such DC target");
  return found->second;
}

}  // namespace

void create_dct(FirmwareState& state, Call& call) {
  const std::uint8_t* dctc = call.in.data() + kDctcOffset;
  check_fields(state, call, Structure::kDctc, kDctcOffset);
  const DeviceAttributes device = state.engine.device();
  demand(get(dctc, dctc::port) == 1, Status::kBadParameter, Check::kPath, "there is one port");
  demand(get(dctc, dctc::pkey_index) == 0, Status::kBadIndex, Check::kPath,
         "there is one partition key");
  demand(get(dctc, dctc::my_addr_index) < device.gids.size(), Status::kBadIndex, Check::kPath,
         "my_addr_index: no such GID");
  const std::uint32_t mtu = get(dctc, dctc::mtu);  // 1 is 256 bytes (enum ibv_mtu)
  demand(mtu > 0 && (128u << mtu) <= device.profile.mtu, Status::kBadParameter, Check::kMtu,
         "mtu is none, or above the port's");
  DevxDct dct;
  const TargetAttributes attributes{
      .pd = get(dctc, dctc::pd),
      .receives = get(dctc, dctc::srqn),
      .cq = get(dctc, dctc::cqn),
      .user_index = get(dctc, dctc::user_index),
      .access_key = get(dctc, dctc::dc_access_key),
      .access = checked_access(get(dctc, dctc::rwe) == 1, get(dctc, dctc::rre) == 1,
                               get(dctc, dctc::rae) == 1, get(dctc, dctc::atomic_mode)),
      .mtu = 128u << mtu,
      .min_rnr_timer = get(dctc, dctc::min_rnr_nak),
      .gid_index = static_cast<std::uint8_t>(get(dctc, dctc::my_addr_index)),
      .hop_limit = static_cast<std::uint8_t>(get(dctc, dctc::hop_limit))};
  dct.uses.number(state, Resource::kPd, attributes.pd, Check::kPd, "no such protection domain");
  dct.uses.number(state, Resource::kSrq, attributes.receives, Check::kReceiveQueue,
                  "no such shared receive queue");
  dct.uses.number(state, Resource::kCq, attributes.cq, Check::kCompletionQueue, "cqn: no such CQ");
  std::copy_n(dctc, kDctcBytes, dct.context.begin());
  const std::uint32_t number = state.engine.create_target(attributes);
  state.dcts[number] = std::move(dct);
  state.resources.add(Resource::kDct, number);
  set(call.out.data(), object::number, number);
}

void destroy_dct(FirmwareState& state, Call& call) {
  static_cast<void>(find_dct(state, call));
  const std::uint32_t number = named_object(call);
  state.engine.destroy_target(number);
  static_cast<void>(state.resources.remove(Resource::kDct, number));
  state.dcts.erase(number);
}

void query_dct(FirmwareState& state, Call& call) {
  const DevxDct& dct = find_dct(state, call);
  std::uint8_t* dctc = call.out.data() + kDctcOffset;
  std::ranges::copy(dct.context, dctc);
  set(dctc, dctc::state, kActive);
  set(dctc, dctc::dc_access_key_violation_count, state.engine.key_violations(named_object(call)));
}

}  // namespace gshmem::soft
