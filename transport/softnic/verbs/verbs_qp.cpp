// Queue pairs that verbs creates: connections, datagrams and DC initiators. They change their state
// with the attributes that InfiniBand requires for each transition.
#include "transport/softnic/verbs/addresses.h"
#include "transport/softnic/verbs/verbs_calls.h"

#include <algorithm>
#include <vector>

namespace gshmem::soft {
namespace {

constexpr std::uint32_t kEntryBytes = 64, kMaxInline = 512;
constexpr std::uint32_t kInlineHeader = 4;
/// Errors: EOPNOTSUPP.
Service service_of(ibv_qp_type type) {
  if (type == IBV_QPT_UC) return Service::kUnreliable;
  if (type == IBV_QPT_UD) return Service::kDatagram;
  require_call(type == IBV_QPT_RC, EOPNOTSUPP);
  return Service::kReliable;
}

/// Returns the bytes of the segments before the elements or inline data: control, then an address
/// vector, or remote address and atomic, or all of these.
std::uint32_t fixed_bytes(Service service) {
  constexpr std::uint32_t kControl = 16, kVector = 48, kRemoteAndAtomic = 32;
  if (service == Service::kDatagram) return kControl + kVector;
  return kControl + kRemoteAndAtomic + (service == Service::kInitiator ? kVector : 0);
}
constexpr std::uint32_t kPsnMask = 0xffffff;

/// The attributes that are required and those that are allowed: Linux
/// drivers/infiniband/core/verbs.c, qp_state_table for connections and datagrams (InfiniBand,
/// section 11.2.4.2).
struct Transition {
  Service service;
  ibv_qp_state from, to;
  int required, optional = 0;
};
constexpr Transition kTransitions[] = {
    {Service::kReliable, IBV_QPS_RESET, IBV_QPS_INIT,
     IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS},
    {Service::kReliable, IBV_QPS_INIT, IBV_QPS_RTR,
     IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC |
         IBV_QP_MIN_RNR_TIMER,
     IBV_QP_ACCESS_FLAGS | IBV_QP_PKEY_INDEX},
    {Service::kReliable, IBV_QPS_RTR, IBV_QPS_RTS,
     IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC,
     IBV_QP_CUR_STATE | IBV_QP_MIN_RNR_TIMER | IBV_QP_PATH_MIG_STATE},
    {Service::kUnreliable, IBV_QPS_RESET, IBV_QPS_INIT,
     IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS},
    {Service::kUnreliable, IBV_QPS_INIT, IBV_QPS_RTR,
     IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN,
     IBV_QP_ACCESS_FLAGS | IBV_QP_PKEY_INDEX},
    {Service::kUnreliable, IBV_QPS_RTR, IBV_QPS_RTS, IBV_QP_SQ_PSN,
     IBV_QP_CUR_STATE | IBV_QP_ACCESS_FLAGS | IBV_QP_PATH_MIG_STATE},
    {Service::kDatagram, IBV_QPS_RESET, IBV_QPS_INIT,
     IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY},
    {Service::kDatagram, IBV_QPS_INIT, IBV_QPS_RTR, 0, IBV_QP_PKEY_INDEX | IBV_QP_QKEY},
    {Service::kDatagram, IBV_QPS_RTR, IBV_QPS_RTS, IBV_QP_SQ_PSN, IBV_QP_CUR_STATE | IBV_QP_QKEY},
    {Service::kDatagram, IBV_QPS_RTS, IBV_QPS_RTS, 0, IBV_QP_CUR_STATE | IBV_QP_QKEY},
    // drivers/infiniband/hw/mlx5/qp.c has a table of its own for these.
    {Service::kInitiator, IBV_QPS_RESET, IBV_QPS_INIT, IBV_QP_PKEY_INDEX | IBV_QP_PORT},
    {Service::kInitiator, IBV_QPS_INIT, IBV_QPS_RTR, IBV_QP_PATH_MTU,
     IBV_QP_PKEY_INDEX | IBV_QP_AV},
    {Service::kInitiator, IBV_QPS_RTR, IBV_QPS_RTS,
     IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC,
     IBV_QP_MIN_RNR_TIMER},
};

/// Returns how many entries of 64 bytes one work request can take: control and remote segments,
/// then elements or inline data (rdma-core providers/mlx5/verbs.c, mlx5_calc_send_wqe).
std::uint32_t entries_per_request(const ibv_qp_cap& cap, std::uint32_t fixed) {
  const std::uint32_t elements = cap.max_send_sge * 16;
  const std::uint32_t inlined = (cap.max_inline_data + kInlineHeader + 15) / 16 * 16;
  return (fixed + std::max(elements, inlined) + kEntryBytes - 1) / kEntryBytes;
}

/// Returns how much inline data such a request can have. It may be more than was requested
/// (rdma-core, mlx5_create_qp).
std::uint32_t inline_room(std::uint32_t entries, std::uint32_t fixed) {
  return std::min(entries * kEntryBytes - fixed - kInlineHeader, kMaxInline);
}

void to_rtr(Engine& engine, std::uint32_t number, const ibv_qp_attr& attr, int mask) {
  QpRtr rtr{.remote_qpn = attr.dest_qp_num,
            .mtu = 128u << attr.path_mtu,
            .log_message_max = kLogMessageMax,
            .log_responder_reads = log2_ceil(attr.max_dest_rd_atomic),
            .receive_psn = attr.rq_psn & kPsnMask,
            .min_rnr_timer = attr.min_rnr_timer};
  const DeviceAttributes device = engine.device();
  // An initiator has a path in each entry.
  if ((mask & IBV_QP_DEST_QPN) == 0) return engine.modify_to_rtr(number, {.mtu = rtr.mtu});
  require_call(device.mac != 0 || attr.ah_attr.dlid != 0, EINVAL);
  rtr.route = route_to(device, attr.ah_attr);
  // The kernel has the hop limit of its own route (addr.c, rdma_addr_find_l2_eth_by_grh).
  constexpr std::uint8_t kDefaultHopLimit = 64;
  if (device.mac != 0) rtr.route.hop_limit = kDefaultHopLimit;
  if ((mask & IBV_QP_ACCESS_FLAGS) != 0) rtr.access = access_of(attr.qp_access_flags);
  engine.modify_to_rtr(number, rtr);
}

void to_rts(Engine& engine, std::uint32_t number, const ibv_qp_attr& attr, int mask) {
  QpRts rts{.retries = attr.retry_cnt,
            .rnr_retries = attr.rnr_retry,
            .ack_timeout = attr.timeout,
            .log_initiator_reads = log2_ceil(attr.max_rd_atomic),
            .send_psn = attr.sq_psn & kPsnMask};
  if ((mask & IBV_QP_MIN_RNR_TIMER) != 0) rts.min_rnr_timer = attr.min_rnr_timer;
  engine.modify_to_rts(number, rts);
}

/// Changes the state of a queue pair for datagrams, which has no peer.
void move_datagrams(Engine& engine, std::uint32_t number, const ibv_qp_attr& attr, int mask) {
  if (attr.qp_state == IBV_QPS_INIT) engine.modify_to_init(number, {});
  if ((mask & IBV_QP_QKEY) != 0) engine.set_key(number, attr.qkey);
  if (attr.qp_state == IBV_QPS_RTR)
    engine.modify_to_rtr(number, {.mtu = engine.device().profile.mtu});
  if (attr.qp_state == IBV_QPS_RTS)
    engine.modify_to_rts(number, {.send_psn = attr.sq_psn & kPsnMask});
}

void move(Engine& engine, std::uint32_t number, const ibv_qp_attr& attr, int mask) {
  switch (attr.qp_state) {
    case IBV_QPS_INIT:
      return engine.modify_to_init(number, access_of(attr.qp_access_flags));
    case IBV_QPS_RTR:
      return to_rtr(engine, number, attr, mask);
    case IBV_QPS_RTS:
      return to_rts(engine, number, attr, mask);
    case IBV_QPS_ERR:
      return engine.modify_to_error(number);
    case IBV_QPS_RESET:
      return engine.modify_to_reset(number);
    default:
      throw CallError{EOPNOTSUPP};
  }
}

ibv_qp_state state_now(const ibv_qp* qp) {
  switch (engine_of(qp->context).state(qp->qp_num)) {
    case QpState::kReset:
      return IBV_QPS_RESET;
    case QpState::kInit:
      return IBV_QPS_INIT;
    case QpState::kRtr:
      return IBV_QPS_RTR;
    case QpState::kRts:
      return IBV_QPS_RTS;
    case QpState::kError:
      break;
  }
  return IBV_QPS_ERR;
}

/// Clears a queue pair after reset: earlier requests and completions are dropped.
void start_anew(SoftQp& qp) {
  forget_completions(qp.init.send_cq, qp.verbs.qp_base.qp_num);
  forget_completions(qp.init.recv_cq, qp.verbs.qp_base.qp_num);
  qp.send.reset();
  qp.receives.reset();
  for (const int counter : {MLX5_SND_DBR, MLX5_RCV_DBR})
    __atomic_store_n(qp.memory.record() + counter, 0, __ATOMIC_RELEASE);
}

void check_transition(Service service, ibv_qp_state from, ibv_qp_state to, int mask) {
  if (to == IBV_QPS_ERR || to == IBV_QPS_RESET) return require_call(mask == IBV_QP_STATE, EINVAL);
  for (const Transition& t : kTransitions) {
    if (t.service != service || t.from != from || t.to != to) continue;
    require_call((mask & t.required) == t.required, EINVAL);
    return require_call((mask & ~(t.required | t.optional | IBV_QP_STATE)) == 0, EINVAL);
  }
  throw CallError{EINVAL};
}

void open_queues(SoftQp& qp, ibv_pd* pd) {
  const ibv_qp_init_attr& init = qp.init;
  ibv_qp& verbs = qp.verbs.qp_base;
  if (qp.receive_bytes > 0) {
    qp.receives.open({.entries = static_cast<std::uint8_t*>(qp.memory.entries()),
                      .log_entries = qp.log_receives,
                      .log_entry_bytes = qp.log_receive_bytes,
                      .record = qp.memory.record(),
                      .most_pieces = init.cap.max_recv_sge,
                      .most_posted = init.cap.max_recv_wr});
  }
  qp.send.open(
      {.entries = qp.send_entries(),
       .log_entries = qp.log_entries,
       .record = qp.memory.record(),
       .doorbell = static_cast<char*>(qp.page) + kRegisterOffset,
       .number = verbs.qp_num,
       .most_requests = init.cap.max_send_wr,
       .most_pieces = init.cap.max_send_sge,
       .most_inline = init.cap.max_inline_data,
       .signal_all = init.sq_sig_all != 0,
       .addressed = qp.service == Service::kDatagram || qp.service == Service::kInitiator});
  ContextState& state = state_of(pd->context);
  state.firmware.adopt_qp(verbs.qp_num);
  const std::lock_guard lock(state.mutex);
  state.qps[verbs.qp_num] = &qp;
}

struct ReceiveShape {
  std::uint32_t log_entries = 0, log_entry_bytes = 0;
  std::size_t bytes = 0;  ///< 0: there is none
};
/// Returns the shape of the receive queue of a queue pair; empty without one.
ReceiveShape receive_shape(const ibv_qp_init_attr& init) {
  if (init.srq != nullptr || init.cap.max_recv_wr == 0) return {};
  require_call(init.cap.max_recv_wr <= kMaxReceives && init.cap.max_recv_sge <= kMaxPieces, EINVAL);
  ReceiveShape shape{log2_ceil(init.cap.max_recv_wr),
                     log2_ceil(kPieceBytes * std::max(1u, init.cap.max_recv_sge))};
  shape.bytes = std::max(std::size_t{1} << (shape.log_entries + shape.log_entry_bytes),
                         std::size_t{kEntryBytes});
  return shape;
}

ReceiveAttributes attributes_of(const SoftQp& qp) {
  if (qp.receive_bytes == 0) return {};
  return {.entries = qp.memory.entries(),
          .log_entries = qp.log_receives,
          .log_entry_bytes = qp.log_receive_bytes,
          .record = qp.memory.record()};
}

}  // namespace

void take_values(ibv_qp_attr& kept, const ibv_qp_attr& given, int mask) {
  if ((mask & IBV_QP_ACCESS_FLAGS) != 0) kept.qp_access_flags = given.qp_access_flags;
  if ((mask & IBV_QP_PKEY_INDEX) != 0) kept.pkey_index = given.pkey_index;
  if ((mask & IBV_QP_PORT) != 0) kept.port_num = given.port_num;
  if ((mask & IBV_QP_AV) != 0) kept.ah_attr = given.ah_attr;
  if ((mask & IBV_QP_PATH_MTU) != 0) kept.path_mtu = given.path_mtu;
  if ((mask & IBV_QP_DEST_QPN) != 0) kept.dest_qp_num = given.dest_qp_num;
  if ((mask & IBV_QP_RQ_PSN) != 0) kept.rq_psn = given.rq_psn;
  if ((mask & IBV_QP_SQ_PSN) != 0) kept.sq_psn = given.sq_psn;
  if ((mask & IBV_QP_MAX_DEST_RD_ATOMIC) != 0) kept.max_dest_rd_atomic = given.max_dest_rd_atomic;
  if ((mask & IBV_QP_MAX_QP_RD_ATOMIC) != 0) kept.max_rd_atomic = given.max_rd_atomic;
  if ((mask & IBV_QP_MIN_RNR_TIMER) != 0) kept.min_rnr_timer = given.min_rnr_timer;
  if ((mask & IBV_QP_TIMEOUT) != 0) kept.timeout = given.timeout;
  if ((mask & IBV_QP_RETRY_CNT) != 0) kept.retry_cnt = given.retry_cnt;
  if ((mask & IBV_QP_RNR_RETRY) != 0) kept.rnr_retry = given.rnr_retry;
  if ((mask & IBV_QP_QKEY) != 0) kept.qkey = given.qkey;
}

QpInit access_of(unsigned flags) {
  return {.remote_write = (flags & IBV_ACCESS_REMOTE_WRITE) != 0,
          .remote_read = (flags & IBV_ACCESS_REMOTE_READ) != 0,
          .remote_atomic = (flags & IBV_ACCESS_REMOTE_ATOMIC) != 0};
}

void check_values(const ibv_qp_attr& attr, int mask) {
  constexpr std::uint32_t max_reads = 1u << kLogOutstanding;
  if ((mask & IBV_QP_PKEY_INDEX) != 0) require_call(attr.pkey_index == 0, EINVAL);
  if ((mask & IBV_QP_PORT) != 0) require_call(attr.port_num == kPort, EINVAL);
  if ((mask & IBV_QP_PATH_MTU) != 0)
    require_call(attr.path_mtu >= IBV_MTU_256 && attr.path_mtu <= IBV_MTU_4096, EINVAL);
  if ((mask & IBV_QP_MAX_QP_RD_ATOMIC) != 0) require_call(attr.max_rd_atomic <= max_reads, EINVAL);
  if ((mask & IBV_QP_MAX_DEST_RD_ATOMIC) != 0)
    require_call(attr.max_dest_rd_atomic <= max_reads, EINVAL);
}

std::vector<Resources::Use> use_all(const ibv_pd& pd, const ibv_qp_init_attr& init) {
  std::vector<Resources::Use> uses{use(pd.context, Resource::kPd, pd.handle)};
  for (const ibv_cq* cq : {init.send_cq, init.recv_cq})
    if (cq != nullptr) uses.push_back(use(pd.context, Resource::kCq, cq->handle));
  if (init.srq != nullptr) uses.push_back(use(pd.context, Resource::kSrq, init.srq->handle));
  return uses;
}

void publish_qp(ibv_qp& verbs, ibv_pd* pd, const ibv_qp_init_attr& init) {
  verbs.context = pd->context;
  verbs.qp_context = init.qp_context;
  verbs.pd = pd;
  verbs.send_cq = init.send_cq;
  verbs.recv_cq = init.recv_cq;
  verbs.srq = init.srq;
  verbs.qp_num = verbs.handle;
  verbs.state = IBV_QPS_RESET;
  verbs.qp_type = init.qp_type;
  init_waiting(verbs);
}

SoftQp* create_queue_pair(ibv_pd* pd, ibv_qp_init_attr& init, Service service) {
  ContextState& state = state_of(pd->context);
  Engine& engine = state.engine;
  require_call(init.send_cq != nullptr && init.recv_cq != nullptr, EINVAL);
  require_call(init.cap.max_send_sge <= kMaxPieces && init.cap.max_inline_data <= kMaxInline,
               EINVAL);
  const std::uint32_t max = 1u << engine.device().max_log_qp_entries;
  const std::uint32_t fixed = fixed_bytes(service);
  const std::uint32_t each = entries_per_request(init.cap, fixed);
  require_call(init.cap.max_send_wr <= max / each, EINVAL);
  const std::uint32_t log = log2_ceil(std::max(1u, init.cap.max_send_wr * each));
  const ReceiveShape receives = receive_shape(init);
  auto qp = std::make_unique<SoftQp>(receives.bytes + (std::size_t{kEntryBytes} << log));
  qp->service = service;
  qp->log_entries = log;
  qp->log_receives = receives.log_entries;
  qp->log_receive_bytes = receives.log_entry_bytes;
  qp->receive_bytes = receives.bytes;
  qp->uses = use_all(*pd, init);

  const bool receiver = service != Service::kInitiator;  // that one may name a queue, too
  const std::uint32_t shared = receiver && init.srq != nullptr ? init.srq->handle : 0;
  qp->uar = engine.create_uar(&qp->page);
  state.resources.add(Resource::kUar, qp->uar);
  const std::uint32_t number = qp->verbs.qp_base.handle =
      engine.create_qp({.service = service,
                        .pd = pd->handle,
                        .send_queue = qp->send_entries(),
                        .log_send_entries = log,
                        .record = qp->memory.record(),
                        .send_cq = init.send_cq->handle,
                        .receive_cq = init.recv_cq->handle,
                        .uar = qp->uar,
                        .user_index = 0,
                        .receives = attributes_of(*qp),
                        .shared_receives = shared});
  state.resources.add(Resource::kQp, number);
  // The actual sizes, which may be more than was asked for.
  init.cap.max_send_wr = (1u << log) / each;
  init.cap.max_inline_data = inline_room(each, fixed);
  init.cap.max_recv_wr = receives.bytes > 0 ? 1u << receives.log_entries : 0;
  init.cap.max_recv_sge = receives.bytes > 0 ? (1u << receives.log_entry_bytes) / kPieceBytes : 0;
  qp->init = init;
  qp->attributes.path_mtu = IBV_MTU_256;  // as QUERY_QP has it
  publish_qp(qp->verbs.qp_base, pd, init);
  open_queues(*qp, pd);
  return qp.release();
}

ibv_qp* create_qp_ex(ibv_context*, ibv_qp_init_attr_ex* wanted) {
  return pointer_call([&] {
    constexpr std::uint32_t known = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
    require_call((wanted->comp_mask & ~known) == 0, EOPNOTSUPP);
    require_call((wanted->comp_mask & IBV_QP_INIT_ATTR_PD) != 0, EINVAL);
    const bool extended = (wanted->comp_mask & IBV_QP_INIT_ATTR_SEND_OPS_FLAGS) != 0;
    require_call(!extended || (wanted->send_ops_flags & ~kSendCalls) == 0, EOPNOTSUPP);
    // The extended structure begins with the plain one (verbs.h, ibv_create_qp_ex).
    SoftQp* qp = create_queue_pair(wanted->pd, *reinterpret_cast<ibv_qp_init_attr*>(wanted),
                                   service_of(wanted->qp_type));
    if (extended) fill_send_calls(qp->verbs);
    return &qp->verbs.qp_base;
  });
}

}  // namespace gshmem::soft

using namespace gshmem::soft;

extern "C" {

ibv_qp* ibv_create_qp(ibv_pd* pd, ibv_qp_init_attr* init) {
  return pointer_call(
      [&] { return &create_queue_pair(pd, *init, service_of(init->qp_type))->verbs.qp_base; });
}

int ibv_modify_qp(ibv_qp* qp, ibv_qp_attr* attr, int mask) {
  return errno_call([&] {
    auto* soft = whole<SoftQp>(qp);
    if (soft->is_target) return modify_target(*soft, *attr, mask);
    require_call((mask & IBV_QP_STATE) != 0, EOPNOTSUPP);
    check_transition(soft->service, state_now(qp), attr->qp_state, mask);
    check_values(*attr, mask);
    const bool up = attr->qp_state != IBV_QPS_ERR && attr->qp_state != IBV_QPS_RESET;
    const auto move_it = qp->qp_type == IBV_QPT_UD && up ? move_datagrams : move;
    move_it(engine_of(qp->context), qp->qp_num, *attr, mask);
    take_values(soft->attributes, *attr, mask);
    qp->state = attr->qp_state;
    if (attr->qp_state == IBV_QPS_RESET) start_anew(*soft);
  });
}

int ibv_query_qp(ibv_qp* qp, ibv_qp_attr* attr, int, ibv_qp_init_attr* init) {
  return errno_call([&] {
    const auto* soft = whole<SoftQp>(qp);
    require_call(!soft->is_target || qp->state == IBV_QPS_RTR, EINVAL);
    if (!soft->is_target) qp->state = state_now(qp);
    *attr = soft->attributes;
    attr->qp_state = qp->state;
    attr->cur_qp_state = qp->state;
    attr->cap = soft->init.cap;
    *init = soft->init;
  });
}

int ibv_destroy_qp(ibv_qp* qp) {
  return errno_call([&] {
    auto* soft = whole<SoftQp>(qp);
    if (soft->is_target) return destroy_target(*soft);
    Resources& resources = state_of(qp->context).resources;
    require_call(resources.remove(Resource::kQp, qp->handle) == Resources::Removal::kRemoved,
                 EINVAL);
    ContextState& state = state_of(qp->context);
    Engine& engine = state.engine;
    state.firmware.forget_qp(qp->qp_num);
    engine.destroy_qp(qp->handle);
    {
      const std::lock_guard lock(state.mutex);
      state.qps.erase(qp->qp_num);
    }
    static_cast<void>(resources.remove(Resource::kUar, soft->uar));
    engine.destroy_uar(soft->uar);
    destroy_waiting(*qp);
    delete soft;
  });
}

int ibv_query_qp_data_in_order(ibv_qp*, ibv_wr_opcode, std::uint32_t) { return 0; }

int ibv_query_ece(ibv_qp*, ibv_ece*) { return EOPNOTSUPP; }
int ibv_set_ece(ibv_qp*, ibv_ece*) { return EOPNOTSUPP; }

}  // extern "C"
