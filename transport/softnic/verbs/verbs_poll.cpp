// Completions of queue pairs that verbs has created, as their clients poll them. It converts the
// entries of the engine to ibv_wc.
#include "transport/softnic/verbs/verbs_calls.h"

#include <endian.h>
#include <sched.h>

#include <cstring>

namespace gshmem::soft {
namespace {

/// ibv_wc_status of a syndrome (rdma-core's documentation of ibv_wc_status, and mlx5dv.h).
struct StatusRow {
  std::uint8_t syndrome;
  ibv_wc_status status;
};
constexpr StatusRow kStatuses[] = {
    {MLX5_CQE_SYNDROME_LOCAL_LENGTH_ERR, IBV_WC_LOC_LEN_ERR},
    {MLX5_CQE_SYNDROME_LOCAL_QP_OP_ERR, IBV_WC_LOC_QP_OP_ERR},
    {MLX5_CQE_SYNDROME_LOCAL_PROT_ERR, IBV_WC_LOC_PROT_ERR},
    {MLX5_CQE_SYNDROME_WR_FLUSH_ERR, IBV_WC_WR_FLUSH_ERR},
    {MLX5_CQE_SYNDROME_MW_BIND_ERR, IBV_WC_MW_BIND_ERR},
    {MLX5_CQE_SYNDROME_BAD_RESP_ERR, IBV_WC_BAD_RESP_ERR},
    {MLX5_CQE_SYNDROME_LOCAL_ACCESS_ERR, IBV_WC_LOC_ACCESS_ERR},
    {MLX5_CQE_SYNDROME_REMOTE_INVAL_REQ_ERR, IBV_WC_REM_INV_REQ_ERR},
    {MLX5_CQE_SYNDROME_REMOTE_ACCESS_ERR, IBV_WC_REM_ACCESS_ERR},
    {MLX5_CQE_SYNDROME_REMOTE_OP_ERR, IBV_WC_REM_OP_ERR},
    {MLX5_CQE_SYNDROME_TRANSPORT_RETRY_EXC_ERR, IBV_WC_RETRY_EXC_ERR},
    {MLX5_CQE_SYNDROME_RNR_RETRY_EXC_ERR, IBV_WC_RNR_RETRY_EXC_ERR},
    {MLX5_CQE_SYNDROME_REMOTE_ABORTED_ERR, IBV_WC_REM_ABORT_ERR},
};

ibv_wc_status status_of(std::uint8_t syndrome) {
  for (const StatusRow& row : kStatuses)
    if (row.syndrome == syndrome) return row.status;
  return IBV_WC_GENERAL_ERR;
}

/// Fills `out` for a request that has succeeded.
void tell_request(const mlx5_cqe64& entry, ibv_wc& out) {
  out.byte_len = be32toh(entry.byte_cnt);
  switch (be32toh(entry.sop_drop_qpn) >> 24) {
    case MLX5_OPCODE_RDMA_WRITE:
    case MLX5_OPCODE_RDMA_WRITE_IMM:
      out.opcode = IBV_WC_RDMA_WRITE;
      break;
    case MLX5_OPCODE_RDMA_READ:
      out.opcode = IBV_WC_RDMA_READ;
      break;
    case MLX5_OPCODE_ATOMIC_CS:
      out.opcode = IBV_WC_COMP_SWAP;
      break;
    case MLX5_OPCODE_ATOMIC_FA:
      out.opcode = IBV_WC_FETCH_ADD;
      break;
    default:
      out.opcode = IBV_WC_SEND;
      break;
  }
}

/// Fills `out` for a receive that has succeeded.
void tell_receive(const mlx5_cqe64& entry, unsigned opcode, ibv_wc& out) {
  out.byte_len = be32toh(entry.byte_cnt);
  out.opcode = opcode == MLX5_CQE_RESP_WR_IMM ? IBV_WC_RECV_RDMA_WITH_IMM : IBV_WC_RECV;
  const std::uint32_t source = be32toh(entry.flags_rqpn);
  out.src_qp = source & 0xffffff;
  out.slid = be16toh(entry.slid);
  out.sl = source >> 24 & 0xf;
  if ((source >> 28 & 3) != 0) out.wc_flags |= IBV_WC_GRH;
  if (opcode == MLX5_CQE_RESP_SEND) return;
  out.wc_flags |= IBV_WC_WITH_IMM;
  out.imm_data = entry.imm_inval_pkey;
}

/// Returns the id of the request, and removes it from the queue to which the entry belongs.
std::uint64_t take_id(SoftQp& qp, const mlx5_cqe64& entry, unsigned opcode) {
  const std::uint16_t index = be16toh(entry.wqe_counter);
  if (opcode == MLX5_CQE_REQ || opcode == MLX5_CQE_REQ_ERR) return qp.send.complete(index);
  if (qp.init.srq == nullptr) return qp.receives.complete(index);
  return whole<SoftSrq>(qp.init.srq)->receives.complete(index);
}

void tell_error(const mlx5_cqe64& entry, ibv_wc& out) {
  const auto& error = reinterpret_cast<const mlx5_err_cqe&>(entry);
  out.status = status_of(error.syndrome);
  out.vendor_err = error.vendor_err_synd;
}

/// Returns the next entry, or nullptr when it has not been written yet.
const mlx5_cqe64* next_entry(SoftCq& cq) {
  const std::uint32_t slot = cq.consumer & ((1u << cq.log_entries) - 1);
  auto* end = static_cast<char*>(cq.memory.entries()) + std::size_t{slot + 1} * cq.entry_bytes;
  auto* entry = reinterpret_cast<mlx5_cqe64*>(end - sizeof(mlx5_cqe64));
  // Pairs with the engine's release of an entry's last word, which has the owner.
  const std::uint32_t last =
      __atomic_load_n(reinterpret_cast<std::uint32_t*>(end) - 1, __ATOMIC_ACQUIRE);
  const unsigned op_own = be32toh(last) & 0xff;
  const bool lap = (cq.consumer >> cq.log_entries & 1) != 0;
  if (op_own >> 4 == MLX5_CQE_INVALID || (op_own & MLX5_CQE_OWNER_MASK) != unsigned{lap})
    return nullptr;
  ++cq.consumer;
  return entry;
}

/// Returns false if there is none. Entries of queue pairs that are gone are skipped.
bool next_completion(SoftCq& cq, ibv_wc& out) {
  ContextState& state = state_of(cq.verbs.context);
  while (const mlx5_cqe64* entry = next_entry(cq)) {
    const std::uint32_t number = be32toh(entry->sop_drop_qpn) & 0xffffff;
    const std::lock_guard lock(state.mutex);
    const auto found = state.qps.find(number);
    if (found == state.qps.end()) continue;
    out = {};
    out.qp_num = number;
    const unsigned opcode = entry->op_own >> 4;
    const bool failed = opcode == MLX5_CQE_REQ_ERR || opcode == MLX5_CQE_RESP_ERR;
    if (failed)
      tell_error(*entry, out);
    else if (opcode == MLX5_CQE_REQ)
      tell_request(*entry, out);
    else
      tell_receive(*entry, opcode, out);
    out.wr_id = take_id(*found->second, *entry, opcode);
    return true;
  }
  return false;
}

/// Stores the consumer index, so that the engine may overwrite polled entries.
void store_consumer(const SoftCq& cq) {
  // Pairs with the engine's acquire.
  __atomic_store_n(cq.memory.record(), htobe32(cq.consumer & 0xffffff), __ATOMIC_RELEASE);
}

SoftCq& of(ibv_cq_ex* cq) { return *reinterpret_cast<SoftCq*>(cq); }

int poll_next(ibv_cq_ex* verbs) {
  SoftCq& cq = of(verbs);
  if (!next_completion(cq, cq.current)) return ENOENT;
  verbs->wr_id = cq.current.wr_id;
  verbs->status = cq.current.status;
  return 0;
}

void end_poll(ibv_cq_ex* verbs) {
  store_consumer(of(verbs));
  of(verbs).mutex.unlock();
}

/// Starts to poll. Without a completion it calls end_poll itself, and the client must not.
int start_poll(ibv_cq_ex* verbs, ibv_poll_cq_attr* attributes) {
  if (attributes->comp_mask != 0) return EINVAL;
  of(verbs).mutex.lock();
  const int code = poll_next(verbs);
  if (code != 0) end_poll(verbs);
  return code;
}

}  // namespace

int poll_cq(ibv_cq* verbs, int entries, ibv_wc* completions) {
  auto* cq = whole<SoftCq>(verbs);
  const std::lock_guard lock(cq->mutex);
  int count = 0;
  while (count < entries && next_completion(*cq, completions[count])) ++count;
  store_consumer(*cq);
  // This NIC is a thread. If there are few cores, a client that spins here would keep its core from
  // it.
  if (count == 0) ::sched_yield();
  return count;
}

// mlx5dv.h, MLX5_CQ_DB_REQ_NOT: bits 29:28 count events, 24 is "solicited ones only", 23:0 is the
// consumer index; first in the record, then with the queue's number in the register.
int request_notification(ibv_cq* verbs, int solicited_only) {
  auto* cq = whole<SoftCq>(verbs);
  const std::lock_guard lock(cq->mutex);
  const std::uint32_t solicited = solicited_only != 0 ? std::uint32_t{MLX5_CQ_DB_REQ_NOT_SOL} : 0;
  const std::uint32_t command = (cq->sequence & 3) << 28 | solicited | (cq->consumer & 0xffffff);
  // Each pairs with the engine's acquire.
  __atomic_store_n(cq->memory.record() + 1, htobe32(command), __ATOMIC_RELEASE);
  auto* doorbell =
      reinterpret_cast<std::uint64_t*>(static_cast<char*>(cq->page) + MLX5_CQ_DOORBELL);
  __atomic_store_n(doorbell, htobe64(std::uint64_t{command} << 32 | verbs->handle),
                   __ATOMIC_RELEASE);
  return 0;
}

void forget_completions(ibv_cq* verbs, std::uint32_t number) {
  auto* cq = whole<SoftCq>(verbs);
  const std::lock_guard lock(cq->mutex);
  const std::uint32_t consumer = cq->consumer;
  while (const mlx5_cqe64* entry = next_entry(*cq)) {
    auto& owner = const_cast<mlx5_cqe64*>(entry)->sop_drop_qpn;
    if ((be32toh(owner) & 0xffffff) == number) owner = 0;
  }
  cq->consumer = consumer;
}

void fill_poll_calls(ibv_cq_ex& cq) {
  cq.start_poll = start_poll;
  cq.next_poll = poll_next;
  cq.end_poll = end_poll;
  cq.read_opcode = [](ibv_cq_ex* one) { return of(one).current.opcode; };
  cq.read_vendor_err = [](ibv_cq_ex* one) { return of(one).current.vendor_err; };
  cq.read_byte_len = [](ibv_cq_ex* one) { return of(one).current.byte_len; };
  cq.read_imm_data = [](ibv_cq_ex* one) { return of(one).current.imm_data; };
  cq.read_qp_num = [](ibv_cq_ex* one) { return of(one).current.qp_num; };
  cq.read_src_qp = [](ibv_cq_ex* one) { return of(one).current.src_qp; };
  cq.read_wc_flags = [](ibv_cq_ex* one) { return of(one).current.wc_flags; };
  cq.read_slid = [](ibv_cq_ex* one) -> std::uint32_t { return of(one).current.slid; };
  cq.read_sl = [](ibv_cq_ex* one) { return of(one).current.sl; };
  cq.read_dlid_path_bits = [](ibv_cq_ex* one) { return of(one).current.dlid_path_bits; };
}

}  // namespace gshmem::soft
