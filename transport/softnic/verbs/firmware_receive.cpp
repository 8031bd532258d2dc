// CREATE_RMP and DESTROY_RMP: receive queues that queue pairs share.
#include "transport/softnic/verbs/firmware_state.h"

#include <utility>

namespace gshmem::soft {
namespace {

/// rmpc.state, MLX5_RMPC_STATE_RDY.
constexpr std::uint32_t kReady = 1;
/// wq.wq_type, MLX5_WQ_TYPE_*.
constexpr std::uint32_t kLinkedList = 0, kCyclic = 1;

ReceiveOrder order_of(const std::uint8_t* rmpc, std::uint32_t type) {
  if (type == kLinkedList) return ReceiveOrder::kList;
  return get(rmpc, rmpc::basic_cyclic_rcv_wqe) == 1 ? ReceiveOrder::kRing
                                                    : ReceiveOrder::kLinkedRing;
}

}  // namespace

void create_rmp(FirmwareState& state, Call& call) {
  const std::uint8_t* rmpc = call.in.data() + kRmpcOffset;
  const std::uint8_t* wq = rmpc + kWqInRmpc;
  check_fields(state, call, Structure::kWq, kRmpcOffset + kWqInRmpc);
  demand(get(rmpc, rmpc::state) == kReady, Status::kBadParameter, Check::kReceiveQueue,
         "a receive queue begins ready");
  demand(get(wq, wq::wq_umem_valid) == 1 && get(wq, wq::dbr_umem_valid) == 1, Status::kBadParameter,
         Check::kUmemInvalid, "a receive queue lies in user memory only");
  const std::uint32_t type = get(wq, wq::wq_type);
  demand(type == kLinkedList || type == kCyclic, Status::kBadParameter, Check::kReceiveQueue,
         "wq_type is neither a linked list nor cyclic");
  ReceiveAttributes attributes{.pd = get(wq, wq::pd),
                               .log_entries = get(wq, wq::log_wq_sz),
                               .log_entry_bytes = get(wq, wq::log_wq_stride),
                               .order = order_of(rmpc, type)};
  demand(attributes.log_entries <= state.engine.device().max_log_qp_entries, Status::kExceedsLimit,
         Check::kQueueSize, "log_wq_sz above log_max_srq_sz");

  Uses uses;
  uses.number(state, Resource::kPd, attributes.pd, Check::kPd, "no such protection domain");
  attributes.entries = uses.queue(
      state,
      {.id = get(wq, wq::wq_umem_id),
       .offset = get(wq, wq::wq_umem_offset),
       .bytes = std::uint64_t{1} << (attributes.log_entries + attributes.log_entry_bytes),
       .log_page = get(wq, wq::log_wq_pg_sz)},
      "receive queue");
  attributes.record =
      uses.record(state, get(wq, wq::dbr_umem_id), get(wq, wq::dbr_addr), "doorbell record");
  const std::uint32_t number = state.engine.create_receives(attributes);
  state.receives[number] = std::move(uses);
  state.resources.add(Resource::kSrq, number);
  set(call.out.data(), object::number, number);
}

void destroy_rmp(FirmwareState& state, Call& call) {
  const std::uint32_t number = take_number(state, call, Resource::kSrq, &state.receives);
  state.engine.destroy_receives(number);
  state.receives.erase(number);
}

}  // namespace gshmem::soft
