// Dynamic connections of mlx5dv_create_qp: initiators, which are queue pairs, and targets, which
// the card creates in the state RTR (Linux drivers/infiniband/hw/mlx5/qp.c, mlx5_ib_modify_dct).
#include "transport/softnic/verbs/addresses.h"
#include "transport/softnic/verbs/verbs_calls.h"

namespace gshmem::soft {
namespace {

void set_target(mlx5dv_qp_ex* mlx5, ibv_ah* ah, std::uint32_t number, std::uint64_t key) {
  whole<InitiatorCalls>(mlx5)->qp->send.to_target(whole<SoftAh>(ah)->vector, number, key);
}

/// Sets the target, and ignores the stream: streams are not supported.
void set_target_stream(mlx5dv_qp_ex* mlx5, ibv_ah* ah, std::uint32_t number, std::uint64_t key,
                       std::uint16_t) {
  set_target(mlx5, ah, number, key);
}

SoftQp* create_initiator(ibv_qp_init_attr_ex& wanted, const mlx5dv_qp_init_attr& special) {
  const bool extended = (wanted.comp_mask & IBV_QP_INIT_ATTR_SEND_OPS_FLAGS) != 0;
  require_call(!extended || (wanted.send_ops_flags & ~kSendCalls) == 0, EOPNOTSUPP);
  require_call(wanted.cap.max_recv_wr == 0 && wanted.cap.max_recv_sge == 0, EINVAL);
  if ((special.comp_mask & MLX5DV_QP_INIT_ATTR_MASK_DCI_STREAMS) != 0) {
    const mlx5dv_dci_streams& streams = special.dc_init_attr.dci_streams;  // there are none
    require_call(streams.log_num_concurent == 0 && streams.log_num_errored == 0, EINVAL);
  }
  SoftQp* qp = create_queue_pair(wanted.pd, *reinterpret_cast<ibv_qp_init_attr*>(&wanted),
                                 Service::kInitiator);
  if (extended) {
    fill_send_calls(qp->verbs);
    qp->verbs.wr_set_ud_addr = nullptr;
    qp->mlx5.qp = qp;
    qp->mlx5.verbs.wr_set_dc_addr = set_target;
    qp->mlx5.verbs.wr_set_dc_addr_stream = set_target_stream;
  }
  return qp;
}

SoftQp* create_target(ibv_qp_init_attr_ex& wanted, const mlx5dv_qp_init_attr& special) {
  require_call(wanted.comp_mask == IBV_QP_INIT_ATTR_PD, EINVAL);
  require_call((special.comp_mask & MLX5DV_QP_INIT_ATTR_MASK_DCI_STREAMS) == 0, EINVAL);
  require_call(wanted.srq != nullptr && wanted.recv_cq != nullptr, EINVAL);
  auto qp = std::make_unique<SoftQp>(0);
  qp->init = reinterpret_cast<ibv_qp_init_attr&>(wanted);
  qp->init.cap = {};
  qp->is_target = true;
  qp->access_key = special.dc_init_attr.dct_access_key;
  qp->uses = use_all(*wanted.pd, qp->init);
  publish_qp(qp->verbs.qp_base, wanted.pd, qp->init);
  return qp.release();
}

/// Lets the card create the target.
void make_ready(SoftQp& qp, const ibv_qp_attr& attr) {
  ibv_qp& verbs = qp.verbs.qp_base;
  ContextState& state = state_of(verbs.context);
  verbs.handle = verbs.qp_num =
      state.engine.create_target({.pd = verbs.pd->handle,
                                  .receives = verbs.srq->handle,
                                  .cq = verbs.recv_cq->handle,
                                  .access_key = qp.access_key,
                                  .access = access_of(qp.attributes.qp_access_flags),
                                  .mtu = 128u << attr.path_mtu,
                                  .min_rnr_timer = attr.min_rnr_timer,
                                  .gid_index = attr.ah_attr.grh.sgid_index,
                                  .hop_limit = attr.ah_attr.grh.hop_limit});
  state.resources.add(Resource::kDct, verbs.handle);
  const std::lock_guard lock(state.mutex);
  state.qps[verbs.qp_num] = &qp;
}

}  // namespace

ibv_qp* create_dc(ibv_qp_init_attr_ex& wanted, const mlx5dv_qp_init_attr& special) {
  return pointer_call([&] {
    constexpr std::uint64_t kFlags = MLX5DV_QP_INIT_ATTR_MASK_QP_CREATE_FLAGS;
    constexpr std::uint64_t known =
        MLX5DV_QP_INIT_ATTR_MASK_DC | kFlags | MLX5DV_QP_INIT_ATTR_MASK_DCI_STREAMS;
    // Data never comes in completions here.
    constexpr std::uint32_t kScatter =
        MLX5DV_QP_CREATE_DISABLE_SCATTER_TO_CQE | MLX5DV_QP_CREATE_ALLOW_SCATTER_TO_CQE;
    require_call(wanted.qp_type == IBV_QPT_DRIVER && (wanted.comp_mask & IBV_QP_INIT_ATTR_PD) != 0,
                 EINVAL);
    require_call((special.comp_mask & ~known) == 0, EOPNOTSUPP);
    require_call((special.comp_mask & kFlags) == 0 || (special.create_flags & ~kScatter) == 0,
                 EOPNOTSUPP);
    const mlx5dv_dc_type type = special.dc_init_attr.dc_type;
    require_call(type == MLX5DV_DCTYPE_DCI || type == MLX5DV_DCTYPE_DCT, EINVAL);
    const auto create = type == MLX5DV_DCTYPE_DCI ? create_initiator : create_target;
    return &create(wanted, special)->verbs.qp_base;
  });
}

void modify_target(SoftQp& qp, const ibv_qp_attr& attr, int mask) {
  constexpr int to_init = IBV_QP_STATE | IBV_QP_ACCESS_FLAGS | IBV_QP_PKEY_INDEX | IBV_QP_PORT;
  constexpr int to_rtr = IBV_QP_STATE | IBV_QP_MIN_RNR_TIMER | IBV_QP_AV | IBV_QP_PATH_MTU;
  ibv_qp& verbs = qp.verbs.qp_base;
  const bool first = verbs.state == IBV_QPS_RESET && mask == to_init;
  const bool second = verbs.state == IBV_QPS_INIT && mask == to_rtr;
  require_call((first && attr.qp_state == IBV_QPS_INIT) || (second && attr.qp_state == IBV_QPS_RTR),
               EINVAL);
  check_values(attr, mask);
  if (second) make_ready(qp, attr);
  take_values(qp.attributes, attr, mask);
  verbs.state = attr.qp_state;
}

void destroy_target(SoftQp& qp) {
  ibv_qp& verbs = qp.verbs.qp_base;
  ContextState& state = state_of(verbs.context);
  if (verbs.state == IBV_QPS_RTR) {
    require_call(
        state.resources.remove(Resource::kDct, verbs.handle) == Resources::Removal::kRemoved,
        EINVAL);
    state.engine.destroy_target(verbs.handle);
    const std::lock_guard lock(state.mutex);
    state.qps.erase(verbs.qp_num);
  }
  destroy_waiting(verbs);
  delete &qp;
}

}  // namespace gshmem::soft
