// The rest of libmlx5.so.1: the memory of verbs objects, and the device.
#include "transport/softnic/verbs/objects.h"
#include "transport/softnic/verbs/symver.h"

#include <cstring>

namespace gshmem::soft {
namespace {

constexpr std::uint32_t kEntryBytes = 64;  // of send queues

void init_pd(const ibv_pd* pd, mlx5dv_pd* out) {
  out->pdn = pd->handle;
  out->comp_mask = 0;
}

void init_cq(ibv_cq* verbs, mlx5dv_cq* out) {
  const auto* cq = whole<SoftCq>(verbs);
  out->buf = cq->memory.entries();
  out->dbrec = cq->memory.record();
  out->cqe_cnt = 1u << cq->log_entries;
  out->cqe_size = cq->entry_bytes;
  out->cq_uar = cq->page;
  out->cqn = verbs->handle;
  out->comp_mask = 0;
}

void init_srq(ibv_srq* verbs, mlx5dv_srq* out) {
  const auto* srq = whole<SoftSrq>(verbs);
  const std::uint64_t wanted = out->comp_mask;
  *out = {};
  out->buf = srq->memory.entries();
  out->dbrec = srq->memory.record();
  out->stride = 1u << srq->log_entry_bytes;
  out->tail = (1u << srq->log_entries) - 1;
  if ((wanted & MLX5DV_SRQ_MASK_SRQN) != 0) {
    out->srqn = verbs->handle;
    out->comp_mask = MLX5DV_SRQ_MASK_SRQN;
  }
}

void init_qp(ibv_qp* verbs, mlx5dv_qp* out) {
  const auto* qp = whole<SoftQp>(verbs);
  *out = {};  // no bit of comp_mask is answered
  out->dbrec = qp->memory.record();
  if (qp->receive_bytes > 0) {
    out->rq.buf = qp->memory.entries();
    out->rq.wqe_cnt = 1u << qp->log_receives;
    out->rq.stride = 1u << qp->log_receive_bytes;
  }
  out->sq.buf = qp->send_entries();
  out->sq.wqe_cnt = 1u << qp->log_entries;
  out->sq.stride = kEntryBytes;
  out->bf.reg = static_cast<char*>(qp->page) + kRegisterOffset;
  out->bf.size = 0;  // doorbells of 8 bytes only
}

void init_ah(ibv_ah* verbs, mlx5dv_ah* out) {
  out->av = &whole<SoftAh>(verbs)->vector;
  out->comp_mask = 0;
}

int init_objects(mlx5dv_obj* obj, std::uint64_t types) {
  constexpr std::uint64_t known =
      MLX5DV_OBJ_PD | MLX5DV_OBJ_CQ | MLX5DV_OBJ_SRQ | MLX5DV_OBJ_QP | MLX5DV_OBJ_AH;
  if ((types & ~known) != 0) return EOPNOTSUPP;
  if ((types & MLX5DV_OBJ_PD) != 0) init_pd(obj->pd.in, obj->pd.out);
  if ((types & MLX5DV_OBJ_CQ) != 0) init_cq(obj->cq.in, obj->cq.out);
  if ((types & MLX5DV_OBJ_SRQ) != 0) init_srq(obj->srq.in, obj->srq.out);
  if ((types & MLX5DV_OBJ_QP) != 0) init_qp(obj->qp.in, obj->qp.out);
  if ((types & MLX5DV_OBJ_AH) != 0) init_ah(obj->ah.in, obj->ah.out);
  return 0;
}

}  // namespace
}  // namespace gshmem::soft

using namespace gshmem::soft;

extern "C" {

int mlx5dv_init_obj_1_2(mlx5dv_obj* obj, std::uint64_t types) { return init_objects(obj, types); }
GSHNIC_DEFAULT_VERSION(mlx5dv_init_obj_1_2, mlx5dv_init_obj, "MLX5_1.2");

// Up to version 1.1, cq_uar was the address of a pointer to the page (rdma-core
// providers/mlx5/mlx5.c, __mlx5dv_init_obj_1_0).
int mlx5dv_init_obj_1_0(mlx5dv_obj* obj, std::uint64_t types) {
  const int code = init_objects(obj, types);
  if (code == 0 && (types & MLX5DV_OBJ_CQ) != 0)
    obj->cq.out->cq_uar = &whole<SoftCq>(obj->cq.in)->page;
  return code;
}
GSHNIC_OLD_VERSION(mlx5dv_init_obj_1_0, mlx5dv_init_obj, "MLX5_1.0");

bool mlx5dv_is_supported(ibv_device* device) { return std::strncmp(device->name, "mlx5", 4) == 0; }

ibv_context* mlx5dv_open_device(ibv_device* device, mlx5dv_context_attr* attributes) {
  constexpr std::uint32_t known = MLX5DV_CONTEXT_FLAGS_DEVX;
  if (attributes->comp_mask != 0 || (attributes->flags & ~known) != 0) {
    errno = EOPNOTSUPP;
    return nullptr;
  }
  return ibv_open_device(device);
}

int mlx5dv_query_device(ibv_context*, mlx5dv_context* out) {
  // Only these members are set: a client that was built with older headers has a shorter structure.
  // comp_mask says that nothing is set beyond them.
  out->version = 0;
  out->flags = MLX5DV_CONTEXT_FLAGS_CQE_V1;
  out->comp_mask = 0;
  return 0;
}

// Creates a queue pair for dynamic connections, or one without special features of mlx5.
ibv_qp* mlx5dv_create_qp(ibv_context* context, ibv_qp_init_attr_ex* wanted,
                         mlx5dv_qp_init_attr* special) {
  if (special != nullptr && (special->comp_mask & MLX5DV_QP_INIT_ATTR_MASK_DC) != 0)
    return context_of(context).create_dc(*wanted, *special);
  if (special != nullptr && special->comp_mask != 0) {
    errno = EOPNOTSUPP;
    return nullptr;
  }
  return context_of(context).verbs.create_qp_ex(context, wanted);
}

// Entries may have 128 bytes: their second half is the entry as in a queue of 64, and the first
// half is not used.
ibv_cq_ex* mlx5dv_create_cq(ibv_context* context, ibv_cq_init_attr_ex* wanted,
                            mlx5dv_cq_init_attr* special) {
  std::uint32_t bytes = kCqeBytes;
  const std::uint64_t mask = special != nullptr ? special->comp_mask : 0;
  if ((mask & MLX5DV_CQ_INIT_ATTR_MASK_CQE_SIZE) != 0) bytes = special->cqe_size;
  const bool flags = (mask & MLX5DV_CQ_INIT_ATTR_MASK_FLAGS) != 0 && special->flags != 0;
  if ((mask & MLX5DV_CQ_INIT_ATTR_MASK_COMPRESSED_CQE) != 0 || flags) {
    errno = EOPNOTSUPP;
    return nullptr;
  }
  if (bytes != kCqeBytes && bytes != kLongCqeBytes) {
    errno = EINVAL;
    return nullptr;
  }
  return context_of(context).create_cq(context, *wanted, bytes);
}

mlx5dv_qp_ex* mlx5dv_qp_ex_from_ibv_qp_ex(ibv_qp_ex* qp) { return &whole<SoftQp>(qp)->mlx5.verbs; }

int mlx5dv_get_data_direct_sysfs_path(ibv_context*, char*, std::size_t) { return ENODEV; }

ibv_mr* mlx5dv_reg_dmabuf_mr(ibv_pd*, std::uint64_t, std::size_t, std::uint64_t, int, int, int) {
  errno = EOPNOTSUPP;
  return nullptr;
}

}  // extern "C"
