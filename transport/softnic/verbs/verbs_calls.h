// Functions of libibverbs.so.1 that contexts point to, and the objects they work on.
#pragma once

#include "transport/softnic/verbs/objects.h"

#include <bit>
#include <vector>

// verbs.h wraps these in inline functions; here they are defined.
#undef ibv_query_port
#undef ibv_reg_mr
#undef ibv_reg_mr_iova

namespace gshmem::soft {

inline std::uint32_t log2_ceil(std::uint32_t n) {
  return n <= 1 ? 0 : static_cast<std::uint32_t>(std::bit_width(n - 1));
}

int query_port(ibv_context* context, std::uint8_t port, ibv_port_attr* out, std::size_t bytes);
int query_device_ex(ibv_context* context, const ibv_query_device_ex_input* input,
                    ibv_device_attr_ex* out, std::size_t bytes);
ibv_pd* alloc_parent_domain(ibv_context* context, ibv_parent_domain_init_attr* attributes);
int get_srq_number(ibv_srq* srq, std::uint32_t* number);
ibv_cq_ex* create_cq(ibv_context* context, const ibv_cq_init_attr_ex& wanted,
                     std::uint32_t entry_bytes);
ibv_qp* create_qp_ex(ibv_context* context, ibv_qp_init_attr_ex* attributes);
/// Creates a queue pair. Stores the actual sizes in `init`.
SoftQp* create_queue_pair(ibv_pd* pd, ibv_qp_init_attr& init, Service service);
/// Keeps the objects that `init` names as long as the result. Errors: EINVAL if one does not exist
/// any more.
std::vector<Resources::Use> use_all(const ibv_pd& pd, const ibv_qp_init_attr& init);
/// Fills in the part of the queue pair that a client sees.
void publish_qp(ibv_qp& verbs, ibv_pd* pd, const ibv_qp_init_attr& init);
/// Errors: EINVAL.
void check_values(const ibv_qp_attr& attr, int mask);
void take_values(ibv_qp_attr& kept, const ibv_qp_attr& given, int mask);
[[nodiscard]] QpInit access_of(unsigned flags);
/// Creates a queue pair of mlx5dv_create_qp for dynamic connections (verbs_dc.cpp).
ibv_qp* create_dc(ibv_qp_init_attr_ex& wanted, const mlx5dv_qp_init_attr& special);
void modify_target(SoftQp& qp, const ibv_qp_attr& attr, int mask);
void destroy_target(SoftQp& qp);
/// Does the queue pair take requests of a kind that needs state `least`?
[[nodiscard]] bool may_post(const ibv_qp& qp, QpState least);
int post_send(ibv_qp* qp, ibv_send_wr* request, ibv_send_wr** bad);
int poll_cq(ibv_cq* cq, int entries, ibv_wc* completions);
int request_notification(ibv_cq* cq, int solicited_only);
/// The calls of ibv_qp_ex (kSendCalls) and of ibv_cq_ex.
inline constexpr std::uint64_t kSendCalls =
    IBV_QP_EX_WITH_RDMA_WRITE | IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM | IBV_QP_EX_WITH_SEND |
    IBV_QP_EX_WITH_SEND_WITH_IMM | IBV_QP_EX_WITH_RDMA_READ | IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP |
    IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD;
void fill_send_calls(ibv_qp_ex& qp);
void fill_poll_calls(ibv_cq_ex& cq);
/// Drops the completions of a queue pair that is destroyed or reset.
void forget_completions(ibv_cq* cq, std::uint32_t number);

/// Initializes the state of verbs objects by which their clients wait.
template <class Verbs>
void init_waiting(Verbs& object) {
  pthread_mutex_init(&object.mutex, nullptr);
  pthread_cond_init(&object.cond, nullptr);
}
template <class Verbs>
void destroy_waiting(Verbs& object) {
  pthread_cond_destroy(&object.cond);
  pthread_mutex_destroy(&object.mutex);
}

/// Size of a work request's piece, in bytes; buffers of a queue.
inline constexpr std::uint32_t kPieceBytes = 16, kMaxReceives = 1 << 15;

/// The number of the only port, which has one partition key.
inline constexpr std::uint8_t kPort = 1;

}  // namespace gshmem::soft
