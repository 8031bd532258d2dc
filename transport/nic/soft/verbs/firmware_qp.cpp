// CREATE_QP, DESTROY_QP, QUERY_QP.
#include "transport/nic/soft/verbs/holds.h"

#include <algorithm>

namespace gshmem::soft {
namespace {

constexpr std::uint64_t kEntryBytes = 64, kQpRecordBytes = 8;
constexpr std::uint32_t kReliableConnection = 0;  ///< qpc.st, MLX5_QPC_ST_RC
/// qpc.send_dbr_mode: a doorbell record, or a register of its own for software that has none
/// (DOCA doca_verbs_qp.h, DOCA_VERBS_QP_SEND_DBR_MODE_*).
constexpr std::uint32_t kRecord = 0, kNoRecord = 1;
/// qpc.rq_type, MLX5_QPC_RQ_TYPE_*
constexpr std::uint32_t kOwnReceiveQueue = 0, kSharedReceiveQueue = 1, kNoReceiveQueue = 3;
/// qpc.log_rq_stride counts in these.
constexpr std::uint32_t kLogReceiveUnit = 4;

/// Of its own receive queue, before the send queue in one piece of user memory.
std::uint64_t receive_bytes(const std::uint8_t* qpc) {
  if (get(qpc, qpc::rq_type) != kOwnReceiveQueue) return 0;
  const std::uint64_t bytes = std::uint64_t{1} << (get(qpc, qpc::log_rq_size) +
                                                   get(qpc, qpc::log_rq_stride) + kLogReceiveUnit);
  return std::max(bytes, kEntryBytes);
}

void check_kind(FirmwareState& state, const Call& call) {
  const std::uint8_t* input = call.in.data();
  const std::uint8_t* qpc = input + kQpcOffset;
  check_fields(state, call, Structure::kQpc, kQpcOffset);
  demand(get(qpc, qpc::st) == kReliableConnection, Status::kBadParameter, Check::kService,
         "reliable connections only (qpc.st 0)");
  demand(get(qpc, qpc::pm_state) % 3 == 0, Status::kBadParameter, Check::kMigration,
         "pm_state is neither armed nor migrated");
  demand(get(input, create_qp_in::wq_umem_valid) == 1 && get(qpc, qpc::dbr_umem_valid) == 1,
         Status::kBadParameter, Check::kUmemInvalid, "a queue pair lies in user memory only");
  demand(get(qpc, qpc::log_sq_size) <= state.engine.device().max_log_qp_entries,
         Status::kExceedsLimit, Check::kQueueSize, "log_sq_size above log_max_qp_sz");
  const std::uint32_t record_mode = get(qpc, qpc::send_dbr_mode);
  demand(record_mode == kRecord ||
             (record_mode == kNoRecord && state.engine.device().profile.no_record),
         Status::kBadParameter, Check::kCapability,
         "send_dbr_mode is none of those that the capabilities name");
  demand(get(input, qp_in::opt_param_mask) == 0, Status::kBadParameter, Check::kOptionalMask,
         "opt_param_mask has no meaning when a queue pair is created");
}

void hold_receive_side(const std::uint8_t* qpc, Holds& holds, DevxQp& qp) {
  const std::uint32_t type = get(qpc, qpc::rq_type);
  demand(type == kOwnReceiveQueue || type == kSharedReceiveQueue || type == kNoReceiveQueue,
         Status::kBadParameter, Check::kReceiveQueue,
         "rq_type is neither a receive queue, nor a shared one, nor none");
  qp.receive_cq = get(qpc, qpc::cqn_rcv);
  if (type == kSharedReceiveQueue) {
    qp.srq = get(qpc, qpc::srqn);
    holds.number(Resource::kSrq, qp.srq, Check::kReceiveQueue, "no such shared receive queue");
  }
  // Without a receive queue no completion ever goes to cqn_rcv, and clients leave it 0.
  if (type != kNoReceiveQueue || qp.receive_cq != 0)
    holds.number(Resource::kCq, qp.receive_cq, Check::kCompletionQueue, "cqn_rcv: no such CQ");
}

}  // namespace

void create_qp(FirmwareState& state, Call& call) {
  check_kind(state, call);
  const std::uint8_t* input = call.in.data();
  const std::uint8_t* qpc = input + kQpcOffset;

  Holds holds(state);
  DevxQp qp;
  qp.pd = get(qpc, qpc::pd);
  qp.uar = get(qpc, qpc::uar_page);
  qp.send_cq = get(qpc, qpc::cqn_snd);
  qp.queue_umem = get(input, create_qp_in::wq_umem_id);
  qp.record_umem = get(qpc, qpc::dbr_umem_id);
  holds.number(Resource::kPd, qp.pd, Check::kPd, "no such protection domain");
  holds.number(Resource::kUar, qp.uar, Check::kUar, "uar_page is none of this client's");
  holds.number(Resource::kCq, qp.send_cq, Check::kCompletionQueue, "cqn_snd: no such CQ");
  hold_receive_side(qpc, holds, qp);

  const std::uint64_t inside_page = std::uint64_t{get(qpc, qpc::page_offset)} * kEntryBytes;
  QpAttributes attributes{.pd = qp.pd,
                          .log_send_entries = get(qpc, qpc::log_sq_size),
                          .send_cq = qp.send_cq,
                          .receive_cq = qp.receive_cq != 0 ? qp.receive_cq : qp.send_cq,
                          .uar = qp.uar,
                          .user_index = get(qpc, qpc::user_index)};
  attributes.no_record = get(qpc, qpc::send_dbr_mode) == kNoRecord;
  const std::uint64_t receives = receive_bytes(qpc);
  auto* queues =
      static_cast<std::uint8_t*>(holds.umem(
          {.id = qp.queue_umem,
           .offset = get(input, create_qp_in::wq_umem_offset),
           .bytes = inside_page + receives + (kEntryBytes << attributes.log_send_entries),
           .alignment = page_bytes(get(qpc, qpc::log_page_size))},
          "queues")) +
      inside_page;
  attributes.send_queue = queues + receives;
  attributes.record = holds.umem({.id = qp.record_umem,
                                  .offset = get(qpc, qpc::dbr_addr),
                                  .bytes = kQpRecordBytes,
                                  .alignment = kQpRecordBytes,
                                  .use = UmemUse::kRecord},
                                 "doorbell record");
  attributes.shared_receives = qp.srq;
  if (receives > 0) {
    attributes.receives = {.entries = queues,
                           .log_entries = get(qpc, qpc::log_rq_size),
                           .log_entry_bytes = get(qpc, qpc::log_rq_stride) + kLogReceiveUnit,
                           .record = attributes.record};
  }
  std::copy_n(qpc, kQpcBytes, qp.context.begin());

  const std::uint32_t number = state.engine.create_qp(attributes);
  state.qps[number] = qp;
  state.resources.add(Resource::kQp, number);
  holds.keep();
  set(call.out.data(), object::number, number);
}

void destroy_qp(FirmwareState& state, Call& call) {
  const std::uint32_t number = named_object(call);
  const auto found = state.qps.find(number);
  demand(found != state.qps.end() && !found->second.adopted, Status::kBadResource, Check::kNumber,
         "no such queue pair");
  state.engine.destroy_qp(number);
  static_cast<void>(state.resources.remove(Resource::kQp, number));
  const DevxQp& qp = found->second;
  state.resources.release(Resource::kPd, qp.pd);
  state.resources.release(Resource::kUar, qp.uar);
  state.resources.release(Resource::kCq, qp.send_cq);
  if (qp.receive_cq != 0) state.resources.release(Resource::kCq, qp.receive_cq);
  if (qp.srq != 0) state.resources.release(Resource::kSrq, qp.srq);
  --state.umems.at(qp.queue_umem).users;
  --state.umems.at(qp.record_umem).users;
  state.qps.erase(found);
}

void query_qp(FirmwareState& state, Call& call) {
  const std::uint32_t number = named_object(call);
  const auto found = state.qps.find(number);
  demand(found != state.qps.end(), Status::kBadResource, Check::kNumber, "no such queue pair");
  std::uint8_t* qpc = call.out.data() + kQpcOffset;
  std::copy(found->second.context.begin(), found->second.context.end(), qpc);
  // The engine knows: an error on the wire moves a queue pair, too.
  set(qpc, qpc::state, static_cast<std::uint32_t>(state.engine.state(number)));
}

}  // namespace gshmem::soft
