// CREATE_QP, DESTROY_QP, QUERY_QP.
#include "transport/softnic/verbs/firmware_state.h"

#include <algorithm>
#include <utility>

namespace gshmem::soft {
namespace {

constexpr std::uint64_t kEntryBytes = 64;
/// qpc.send_dbr_mode: a doorbell record, or a register of its own for software that has none
/// (DOCA doca_verbs_qp.h, DOCA_VERBS_QP_SEND_DBR_MODE_*).
constexpr std::uint32_t kRecord = 0, kNoRecord = 1;
/// qpc.rq_type, MLX5_QPC_RQ_TYPE_*
constexpr std::uint32_t kOwnReceiveQueue = 0, kSharedReceiveQueue = 1, kNoReceiveQueue = 3;
/// qpc.log_rq_stride counts in these.
constexpr std::uint32_t kLogReceiveUnit = 4;

/// Returns the bytes of the receive queue, which is before the send queue in the same user memory.
std::uint64_t receive_bytes(const std::uint8_t* qpc) {
  if (get(qpc, qpc::rq_type) != kOwnReceiveQueue) return 0;
  const std::uint64_t bytes = std::uint64_t{1} << (get(qpc, qpc::log_rq_size) +
                                                   get(qpc, qpc::log_rq_stride) + kLogReceiveUnit);
  return std::max(bytes, kEntryBytes);
}

/// qpc.st
Service service_of(const std::uint8_t* qpc) { return static_cast<Service>(get(qpc, qpc::st)); }

void check_kind(FirmwareState& state, const Call& call) {
  const std::uint8_t* input = call.in.data();
  const std::uint8_t* qpc = input + kQpcOffset;
  check_fields(state, call, Structure::kQpc, kQpcOffset);
  const Service service = service_of(qpc);
  demand(service == Service::kReliable || service == Service::kInitiator, Status::kBadParameter,
         Check::kService, "reliable connections and DC initiators only (qpc.st 0 and 5)");
  demand(service == Service::kInitiator || get(qpc, qpc::dc_access_key) == 0, Status::kBadParameter,
         Check::kAccessKey, "dc_access_key of a connection");
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
  demand(get(qpc, qpc::ts_format) <= (has_real_time(state.engine.device()) ? 2 : 1),
         Status::kBadParameter, Check::kCapability,
         "ts_format is none of those that the capabilities name");
  demand(get(input, qp_in::opt_param_mask) == 0, Status::kBadParameter, Check::kOptionalMask,
         "opt_param_mask has no meaning when a queue pair is created");
}

void use_receive_side(const FirmwareState& state, const std::uint8_t* qpc, Uses& uses,
                      QpAttributes& attributes) {
  const std::uint32_t type = get(qpc, qpc::rq_type), cq = get(qpc, qpc::cqn_rcv);
  demand(type == kOwnReceiveQueue || type == kSharedReceiveQueue || type == kNoReceiveQueue,
         Status::kBadParameter, Check::kReceiveQueue,
         "rq_type is neither a receive queue, nor a shared one, nor none");
  if (type == kSharedReceiveQueue) {
    attributes.shared_receives = get(qpc, qpc::srqn);
    uses.number(state, Resource::kSrq, attributes.shared_receives, Check::kReceiveQueue,
                "no such shared receive queue");
  }
  // Without a receive queue no completion ever goes to cqn_rcv, and clients leave it 0.
  if (type != kNoReceiveQueue || cq != 0)
    uses.number(state, Resource::kCq, cq, Check::kCompletionQueue, "cqn_rcv: no such CQ");
  attributes.receive_cq = cq != 0 ? cq : attributes.send_cq;
}

}  // namespace

void create_qp(FirmwareState& state, Call& call) {
  check_kind(state, call);
  const std::uint8_t* input = call.in.data();
  const std::uint8_t* qpc = input + kQpcOffset;

  DevxQp qp;
  Uses& uses = qp.uses;
  QpAttributes attributes{.service = service_of(qpc),
                          .pd = get(qpc, qpc::pd),
                          .log_send_entries = get(qpc, qpc::log_sq_size),
                          .send_cq = get(qpc, qpc::cqn_snd),
                          .uar = get(qpc, qpc::uar_page),
                          .user_index = get(qpc, qpc::user_index)};
  attributes.no_record = get(qpc, qpc::send_dbr_mode) == kNoRecord;
  attributes.waits_for_others = get(qpc, qpc::cd_master) != 0;
  uses.number(state, Resource::kPd, attributes.pd, Check::kPd, "no such protection domain");
  uses.number(state, Resource::kUar, attributes.uar, Check::kUar,
              "uar_page is none of this client's");
  uses.number(state, Resource::kCq, attributes.send_cq, Check::kCompletionQueue,
              "cqn_snd: no such CQ");
  use_receive_side(state, qpc, uses, attributes);
  const bool initiator = attributes.service == Service::kInitiator;
  if (initiator) attributes.shared_receives = 0;  // it may name one, but does not receive

  const std::uint64_t receives = receive_bytes(qpc);
  std::uint8_t* const queues =
      uses.queue(state,
                 {.id = get(input, create_qp_in::wq_umem_id),
                  .offset = get(input, create_qp_in::wq_umem_offset),
                  .inside = std::uint64_t{get(qpc, qpc::page_offset)} * kEntryBytes,
                  .bytes = receives + (kEntryBytes << attributes.log_send_entries),
                  .log_page = get(qpc, qpc::log_page_size)},
                 "queues");
  attributes.send_queue = queues + receives;
  attributes.record =
      uses.record(state, get(qpc, qpc::dbr_umem_id), get(qpc, qpc::dbr_addr), "doorbell record");
  if (receives > 0 && !initiator) {
    attributes.receives = {.entries = queues,
                           .log_entries = get(qpc, qpc::log_rq_size),
                           .log_entry_bytes = get(qpc, qpc::log_rq_stride) + kLogReceiveUnit,
                           .record = attributes.record};
  }
  std::copy_n(qpc, kQpcBytes, qp.context.begin());
  // DOCA GPUNetIO queries each new queue pair, and refuses an MTU of 0.
  constexpr std::uint32_t kMtu256 = 1;
  if (get(qpc, qpc::mtu) == 0) set(qp.context.data(), qpc::mtu, kMtu256);

  const std::uint32_t number = state.engine.create_qp(attributes);
  state.qps[number] = std::move(qp);
  state.resources.add(Resource::kQp, number);
  set(call.out.data(), object::number, number);
}

void destroy_qp(FirmwareState& state, Call& call) {
  const std::uint32_t number = named_object(call);
  const auto found = state.qps.find(number);
  demand(found != state.qps.end() && !found->second.adopted, Status::kBadResource, Check::kNumber,
         "no such queue pair");
  state.engine.destroy_qp(number);
  static_cast<void>(state.resources.remove(Resource::kQp, number));
  state.qps.erase(found);
}

void query_qp(FirmwareState& state, Call& call) {
  const std::uint32_t number = named_object(call);
  const auto found = state.qps.find(number);
  demand(found != state.qps.end(), Status::kBadResource, Check::kNumber, "no such queue pair");
  std::uint8_t* qpc = call.out.data() + kQpcOffset;
  std::ranges::copy(found->second.context, qpc);
  // The engine has the current state: an error on the wire changes it, too.
  set(qpc, qpc::state, static_cast<std::uint32_t>(state.engine.state(number)));
}

}  // namespace gshmem::soft
