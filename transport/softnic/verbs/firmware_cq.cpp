// CREATE_CQ and DESTROY_CQ.
#include "transport/softnic/verbs/firmware_state.h"

#include <utility>

namespace gshmem::soft {
namespace {

/// page_offset of cqc counts in these.
constexpr std::uint64_t kOffsetBytes = 64;

/// cqc.cqe_sz: 0 is 64 bytes, 1 is 128 (Linux include/linux/mlx5/cq.h, CQE_STRIDE_*). 2 is 64 in
/// places of 128.
std::uint32_t entry_bytes(std::uint32_t size) {
  demand(size <= 1, Status::kBadParameter, Check::kQueueSize, "cqe_sz is neither 64 nor 128 bytes");
  return 64u << size;
}

}  // namespace

void create_cq(FirmwareState& state, Call& call) {
  const std::uint8_t* input = call.in.data();
  const std::uint8_t* cqc = input + kCqcOffset;
  check_fields(state, call, Structure::kCqc, kCqcOffset);
  demand(get(input, create_cq_in::cq_umem_valid) == 1 && get(cqc, cqc::dbr_umem_valid) == 1,
         Status::kBadParameter, Check::kUmemInvalid, "a CQ lies in user memory only");
  const std::uint32_t log_entries = get(cqc, cqc::log_cq_size);
  demand(log_entries <= state.engine.device().max_log_cq_entries, Status::kExceedsLimit,
         Check::kQueueSize, "log_cq_size above log_max_cq_sz");
  const std::uint32_t queue = get(cqc, cqc::c_eqn);
  demand(queue >= kFirstEventQueue && queue < kFirstEventQueue + kEventQueues, Status::kBadResource,
         Check::kEventQueue, "c_eqn is not one of query_eqn");

  Uses uses;
  CqAttributes attributes{.log_entries = log_entries,
                          .collapsed = get(cqc, cqc::cc) == 1,
                          .ignore_overrun = get(cqc, cqc::oi) == 1,
                          .uar = get(cqc, cqc::uar_page)};
  attributes.entry_bytes = entry_bytes(get(cqc, cqc::cqe_sz));
  uses.number(state, Resource::kUar, attributes.uar, Check::kUar,
              "uar_page is none of this client's");
  attributes.buffer =
      uses.queue(state,
                 {.id = get(input, create_cq_in::cq_umem_id),
                  .offset = get(input, create_cq_in::cq_umem_offset),
                  .inside = std::uint64_t{get(cqc, cqc::page_offset)} * kOffsetBytes,
                  .bytes = std::uint64_t{attributes.entry_bytes} << log_entries,
                  .log_page = get(cqc, cqc::log_page_size)},
                 "CQ buffer");
  attributes.record =
      uses.record(state, get(cqc, cqc::dbr_umem_id), get(cqc, cqc::dbr_addr), "CQ doorbell record");

  const std::uint32_t number = state.engine.create_cq(attributes);
  state.cqs[number] = std::move(uses);
  state.resources.add(Resource::kCq, number);
  set(call.out.data(), object::number, number);
}

void destroy_cq(FirmwareState& state, Call& call) {
  const std::uint32_t number = take_number(state, call, Resource::kCq, &state.cqs);
  state.engine.destroy_cq(number);
  state.cqs.erase(number);
}

}  // namespace gshmem::soft
