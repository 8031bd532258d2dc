// Compares include/gshmem/abi/mlx5.h with <infiniband/mlx5dv.h>: sizes, offsets and numbers of
// everything that both define. The compiler decides all of it; the test exists so that a run shows
// it.
#include <gshmem/abi/mlx5.h>

#include "../nic/atomic_segments.h"

#include <catch2/catch.hpp>

#include <infiniband/mlx5dv.h>

#include <cstddef>
#include <cstring>

namespace abi = gshmem::abi;

#define SAME_OFFSET(Ours, our_field, Theirs, their_field) \
  static_assert(offsetof(abi::Ours, our_field) == offsetof(Theirs, their_field))
#define SAME_VALUE(ours, theirs) \
  static_assert(static_cast<unsigned>(ours) == static_cast<unsigned>(theirs))

static_assert(sizeof(abi::ControlSegment) == sizeof(mlx5_wqe_ctrl_seg));
SAME_OFFSET(ControlSegment, opmod_index_opcode, mlx5_wqe_ctrl_seg, opmod_idx_opcode);
SAME_OFFSET(ControlSegment, number_ds, mlx5_wqe_ctrl_seg, qpn_ds);
SAME_OFFSET(ControlSegment, signature, mlx5_wqe_ctrl_seg, signature);
SAME_OFFSET(ControlSegment, reserved, mlx5_wqe_ctrl_seg, dci_stream_channel_id);
SAME_OFFSET(ControlSegment, flags, mlx5_wqe_ctrl_seg, fm_ce_se);
SAME_OFFSET(ControlSegment, immediate, mlx5_wqe_ctrl_seg, imm);

static_assert(sizeof(abi::RemoteSegment) == sizeof(mlx5_wqe_raddr_seg));
SAME_OFFSET(RemoteSegment, address, mlx5_wqe_raddr_seg, raddr);
SAME_OFFSET(RemoteSegment, key, mlx5_wqe_raddr_seg, rkey);

static_assert(sizeof(abi::DataSegment) == sizeof(mlx5_wqe_data_seg));
SAME_OFFSET(DataSegment, bytes, mlx5_wqe_data_seg, byte_count);
SAME_OFFSET(DataSegment, key, mlx5_wqe_data_seg, lkey);
SAME_OFFSET(DataSegment, address, mlx5_wqe_data_seg, addr);

static_assert(sizeof(abi::InlineHeader) == sizeof(mlx5_wqe_inl_data_seg));
SAME_VALUE(abi::kInlineMarker, MLX5_INLINE_SEG);

static_assert(sizeof(abi::AtomicSegment) == sizeof(mlx5_wqe_atomic_seg));
SAME_OFFSET(AtomicSegment, swap_or_add, mlx5_wqe_atomic_seg, swap_add);
SAME_OFFSET(AtomicSegment, compare, mlx5_wqe_atomic_seg, compare);

static_assert(sizeof(abi::CompletionEntry) == sizeof(mlx5_cqe64));
static_assert(sizeof(abi::CompletionEntry) == sizeof(mlx5_err_cqe));
SAME_OFFSET(CompletionEntry, vendor_syndrome, mlx5_err_cqe, vendor_err_synd);
SAME_OFFSET(CompletionEntry, syndrome, mlx5_err_cqe, syndrome);
SAME_OFFSET(CompletionEntry, opcode_number, mlx5_err_cqe, s_wqe_opcode_qpn);
SAME_OFFSET(CompletionEntry, opcode_number, mlx5_cqe64, sop_drop_qpn);
SAME_OFFSET(CompletionEntry, wqe_counter, mlx5_cqe64, wqe_counter);
SAME_OFFSET(CompletionEntry, signature, mlx5_cqe64, signature);
SAME_OFFSET(CompletionEntry, op_own, mlx5_cqe64, op_own);
static_assert(abi::kCompletionWordOffset == offsetof(mlx5_cqe64, wqe_counter));

static_assert(offsetof(abi::DoorbellRecord, receive) == 4 * MLX5_RCV_DBR);
static_assert(offsetof(abi::DoorbellRecord, send) == 4 * MLX5_SND_DBR);

SAME_VALUE(abi::kWqebbBytes, MLX5_SEND_WQE_BB);
SAME_VALUE(abi::Opcode::kNop, MLX5_OPCODE_NOP);
SAME_VALUE(abi::Opcode::kRdmaWrite, MLX5_OPCODE_RDMA_WRITE);
SAME_VALUE(abi::Opcode::kRdmaRead, MLX5_OPCODE_RDMA_READ);
SAME_VALUE(abi::Opcode::kAtomicCompareSwap, MLX5_OPCODE_ATOMIC_CS);
SAME_VALUE(abi::Opcode::kAtomicFetchAdd, MLX5_OPCODE_ATOMIC_FA);
SAME_VALUE(abi::Opcode::kMaskedCompareSwap, MLX5_OPCODE_ATOMIC_MASKED_CS);
SAME_VALUE(abi::Opcode::kMaskedFetchAdd, MLX5_OPCODE_ATOMIC_MASKED_FA);

SAME_VALUE(abi::kCqUpdate, MLX5_WQE_CTRL_CQ_UPDATE);
SAME_VALUE(abi::kFence, MLX5_WQE_CTRL_FENCE);

SAME_VALUE(abi::CompletionOpcode::kRequester, MLX5_CQE_REQ);
SAME_VALUE(abi::CompletionOpcode::kRequesterError, MLX5_CQE_REQ_ERR);
SAME_VALUE(abi::CompletionOpcode::kInvalid, MLX5_CQE_INVALID);

SAME_VALUE(abi::Syndrome::kLocalLength, MLX5_CQE_SYNDROME_LOCAL_LENGTH_ERR);
SAME_VALUE(abi::Syndrome::kLocalOperation, MLX5_CQE_SYNDROME_LOCAL_QP_OP_ERR);
SAME_VALUE(abi::Syndrome::kLocalProtection, MLX5_CQE_SYNDROME_LOCAL_PROT_ERR);
SAME_VALUE(abi::Syndrome::kFlush, MLX5_CQE_SYNDROME_WR_FLUSH_ERR);
SAME_VALUE(abi::Syndrome::kMemoryWindow, MLX5_CQE_SYNDROME_MW_BIND_ERR);
SAME_VALUE(abi::Syndrome::kBadResponse, MLX5_CQE_SYNDROME_BAD_RESP_ERR);
SAME_VALUE(abi::Syndrome::kLocalAccess, MLX5_CQE_SYNDROME_LOCAL_ACCESS_ERR);
SAME_VALUE(abi::Syndrome::kRemoteRequest, MLX5_CQE_SYNDROME_REMOTE_INVAL_REQ_ERR);
SAME_VALUE(abi::Syndrome::kRemoteAccess, MLX5_CQE_SYNDROME_REMOTE_ACCESS_ERR);
SAME_VALUE(abi::Syndrome::kRemoteOperation, MLX5_CQE_SYNDROME_REMOTE_OP_ERR);
SAME_VALUE(abi::Syndrome::kRetryExceeded, MLX5_CQE_SYNDROME_TRANSPORT_RETRY_EXC_ERR);
SAME_VALUE(abi::Syndrome::kRnrRetryExceeded, MLX5_CQE_SYNDROME_RNR_RETRY_EXC_ERR);
SAME_VALUE(abi::Syndrome::kAborted, MLX5_CQE_SYNDROME_REMOTE_ABORTED_ERR);

TEST_CASE("control_segment_has_the_bytes_that_mlx5dv_writes") {
  abi::ControlSegment ours;
  ours.opmod_index_opcode = abi::Be32(0x08u << 24 | 0x1234u << 8 | 0x14u);
  ours.number_ds = abi::Be32(0xabcdefu << 8 | 4u);
  ours.flags = abi::kCqUpdate;
  mlx5_wqe_ctrl_seg theirs{};
  mlx5dv_set_ctrl_seg(&theirs, 0x1234, MLX5_OPCODE_ATOMIC_MASKED_CS, 0x08, 0xabcdef,
                      MLX5_WQE_CTRL_CQ_UPDATE, 4, 0, 0);
  CHECK(std::memcmp(&ours, &theirs, sizeof(ours)) == 0);
}

TEST_CASE("data_segment_has_the_bytes_that_mlx5dv_writes") {
  abi::DataSegment ours;
  ours.bytes = abi::Be32(0x01020304);
  ours.key = abi::Be32(0x55667788);
  ours.address = abi::Be64(0x1122334455667788);
  mlx5_wqe_data_seg theirs{};
  mlx5dv_set_data_seg(&theirs, 0x01020304, 0x55667788, 0x1122334455667788);
  CHECK(std::memcmp(&ours, &theirs, sizeof(ours)) == 0);
}
