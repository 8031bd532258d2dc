// Posting to queue pairs that verbs has created: ibv_post_send, and the calls of ibv_qp_ex.
#include "transport/softnic/verbs/verbs_calls.h"

#include <endian.h>

#include <array>
#include <cerrno>
#include <mutex>

namespace gshmem::soft {
namespace {

SendQueue& queue_of(ibv_qp_ex* qp) { return reinterpret_cast<SoftQp*>(qp)->send; }

struct Opcode {
  ibv_wr_opcode verbs;
  std::uint8_t mlx5;
  bool inlined;  ///< may be inline
};
constexpr Opcode kOpcodes[] = {
    {IBV_WR_RDMA_WRITE, MLX5_OPCODE_RDMA_WRITE, true},
    {IBV_WR_RDMA_WRITE_WITH_IMM, MLX5_OPCODE_RDMA_WRITE_IMM, true},
    {IBV_WR_SEND, MLX5_OPCODE_SEND, true},
    {IBV_WR_SEND_WITH_IMM, MLX5_OPCODE_SEND_IMM, true},
    {IBV_WR_RDMA_READ, MLX5_OPCODE_RDMA_READ, false},
    {IBV_WR_ATOMIC_CMP_AND_SWP, MLX5_OPCODE_ATOMIC_CS, false},
    {IBV_WR_ATOMIC_FETCH_AND_ADD, MLX5_OPCODE_ATOMIC_FA, false},
};

const Opcode* find_opcode(ibv_wr_opcode verbs) {
  for (const Opcode& one : kOpcodes)
    if (one.verbs == verbs) return &one;
  return nullptr;
}

bool has_immediate(ibv_wr_opcode opcode) {
  return opcode == IBV_WR_SEND_WITH_IMM || opcode == IBV_WR_RDMA_WRITE_WITH_IMM;
}

void add_inlined(SendQueue& queue, const ibv_send_wr& request) {
  std::array<ibv_data_buf, kMaxPieces> buffers;
  const auto count = static_cast<std::size_t>(request.num_sge);
  for (std::size_t i = 0; i < count; ++i) {
    const ibv_sge& piece = request.sg_list[i];
    buffers[i] = {reinterpret_cast<void*>(static_cast<std::uintptr_t>(piece.addr)), piece.length};
  }
  queue.inlined(buffers.data(), count);
}

/// Errors: EOPNOTSUPP and EINVAL; else those of the queue.
int append(SendQueue& queue, const ibv_send_wr& request) {
  const Opcode* opcode = find_opcode(request.opcode);
  if (opcode == nullptr) return EOPNOTSUPP;
  const bool inlined = (request.send_flags & IBV_SEND_INLINE) != 0;
  const auto pieces = static_cast<unsigned>(request.num_sge);  // below 0: too many
  if (pieces > kMaxPieces || (inlined && !opcode->inlined)) return EINVAL;
  queue.header(opcode->mlx5, request.wr_id, request.send_flags,
               has_immediate(request.opcode) ? request.imm_data : 0);
  const auto& atomic = request.wr.atomic;
  switch (request.opcode) {
    case IBV_WR_SEND:
    case IBV_WR_SEND_WITH_IMM:
      if (queue.addressed()) {
        const auto& ud = request.wr.ud;
        queue.to(whole<SoftAh>(ud.ah)->vector, ud.remote_qpn, ud.remote_qkey);
      }
      break;
    case IBV_WR_ATOMIC_CMP_AND_SWP:
      queue.remote(atomic.remote_addr, atomic.rkey);
      queue.atomic(atomic.swap, atomic.compare_add);
      break;
    case IBV_WR_ATOMIC_FETCH_AND_ADD:
      queue.remote(atomic.remote_addr, atomic.rkey);
      queue.atomic(atomic.compare_add, 0);
      break;
    default:
      queue.remote(request.wr.rdma.remote_addr, request.wr.rdma.rkey);
      break;
  }
  if (inlined) {
    add_inlined(queue, request);
  } else {
    queue.pieces(request.sg_list, pieces);
  }
  return queue.error();
}

// The calls of ibv_qp_ex: a header, then data, between wr_start and wr_complete or wr_abort.

template <std::uint8_t opcode>
void transfer(ibv_qp_ex* qp, std::uint32_t key, std::uint64_t address) {
  queue_of(qp).header(opcode, qp->wr_id, qp->wr_flags);
  queue_of(qp).remote(address, key);
}

void write_immediate(ibv_qp_ex* qp, std::uint32_t key, std::uint64_t address, __be32 immediate) {
  queue_of(qp).header(MLX5_OPCODE_RDMA_WRITE_IMM, qp->wr_id, qp->wr_flags, immediate);
  queue_of(qp).remote(address, key);
}

void compare_swap(ibv_qp_ex* qp, std::uint32_t key, std::uint64_t address, std::uint64_t compare,
                  std::uint64_t swap) {
  transfer<MLX5_OPCODE_ATOMIC_CS>(qp, key, address);
  queue_of(qp).atomic(swap, compare);
}

void fetch_add(ibv_qp_ex* qp, std::uint32_t key, std::uint64_t address, std::uint64_t add) {
  transfer<MLX5_OPCODE_ATOMIC_FA>(qp, key, address);
  queue_of(qp).atomic(add, 0);
}

void send(ibv_qp_ex* qp) { queue_of(qp).header(MLX5_OPCODE_SEND, qp->wr_id, qp->wr_flags); }

void send_immediate(ibv_qp_ex* qp, __be32 immediate) {
  queue_of(qp).header(MLX5_OPCODE_SEND_IMM, qp->wr_id, qp->wr_flags, immediate);
}

void set_address(ibv_qp_ex* qp, ibv_ah* ah, std::uint32_t number, std::uint32_t key) {
  queue_of(qp).to(whole<SoftAh>(ah)->vector, number, key);
}

void set_piece(ibv_qp_ex* qp, std::uint32_t key, std::uint64_t address, std::uint32_t bytes) {
  const ibv_sge piece{address, bytes, key};
  queue_of(qp).pieces(&piece, 1);
}

void set_pieces(ibv_qp_ex* qp, std::size_t count, const ibv_sge* pieces) {
  queue_of(qp).pieces(pieces, count);
}

void set_inline(ibv_qp_ex* qp, void* address, std::size_t bytes) {
  const ibv_data_buf buffer{address, bytes};
  queue_of(qp).inlined(&buffer, 1);
}

void set_inline_list(ibv_qp_ex* qp, std::size_t count, const ibv_data_buf* buffers) {
  queue_of(qp).inlined(buffers, count);
}

}  // namespace

bool may_post(const ibv_qp& qp, QpState least) {
  if (reinterpret_cast<const SoftQp&>(qp).is_target) return false;
  if (qp.state >= static_cast<ibv_qp_state>(least)) return true;
  return engine_of(qp.context).state(qp.qp_num) >= least;  // commands move it, too
}

int post_send(ibv_qp* qp, ibv_send_wr* request, ibv_send_wr** bad) {
  // An initiator has only the calls of ibv_qp_ex.
  const bool initiator = whole<SoftQp>(qp)->service == Service::kInitiator;
  if (initiator || !may_post(*qp, QpState::kRts)) {
    *bad = request;
    return initiator ? EOPNOTSUPP : EINVAL;
  }
  SendQueue& queue = whole<SoftQp>(qp)->send;
  const std::lock_guard guard(queue);
  int code = 0;
  for (; request != nullptr; request = request->next) {
    code = append(queue, *request);
    if (code == 0) continue;
    *bad = request;
    break;
  }
  queue.ring();
  return code;
}

void fill_send_calls(ibv_qp_ex& qp) {
  qp.wr_rdma_write = transfer<MLX5_OPCODE_RDMA_WRITE>;
  qp.wr_rdma_write_imm = write_immediate;
  qp.wr_rdma_read = transfer<MLX5_OPCODE_RDMA_READ>;
  qp.wr_atomic_cmp_swp = compare_swap;
  qp.wr_atomic_fetch_add = fetch_add;
  qp.wr_send = send;
  qp.wr_send_imm = send_immediate;
  qp.wr_set_ud_addr = set_address;
  qp.wr_set_sge = set_piece;
  qp.wr_set_sge_list = set_pieces;
  qp.wr_set_inline_data = set_inline;
  qp.wr_set_inline_data_list = set_inline_list;
  qp.wr_start = [](ibv_qp_ex* one) {
    queue_of(one).lock();
    if (!may_post(one->qp_base, QpState::kRts)) queue_of(one).fail(EINVAL);
  };
  qp.wr_complete = [](ibv_qp_ex* one) {
    const int code = queue_of(one).ring_all_or_none();
    queue_of(one).unlock();
    return code;
  };
  qp.wr_abort = [](ibv_qp_ex* one) {
    queue_of(one).abandon();
    queue_of(one).unlock();
  };
}

}  // namespace gshmem::soft

using namespace gshmem::soft;

extern "C" {

ibv_qp_ex* ibv_qp_to_qp_ex(ibv_qp* qp) {
  SoftQp* soft = whole<SoftQp>(qp);
  if (soft->verbs.wr_start != nullptr) return &soft->verbs;
  errno = EOPNOTSUPP;
  return nullptr;
}

}  // extern "C"
