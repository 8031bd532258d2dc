// Two queue pairs of one device that are connected to each other, for tests that post and poll by
// libibverbs.
#pragma once

#include "transport/softnic/tests/verbs_api_rig.h"
#include "tests/patience.h"

#include <chrono>
#include <cstring>
#include <thread>

namespace verbs_test {

/// Waits for a completion, with an end.
inline ibv_wc next(ibv_cq* cq) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(gshmem::test::kPatience);
  ibv_wc one{};
  int count = 0;
  while ((count = ibv_poll_cq(cq, 1, &one)) == 0 && std::chrono::steady_clock::now() < end)
    std::this_thread::yield();
  REQUIRE(count == 1);
  return one;
}

struct LinkOptions {
  std::uint64_t calls = 0;  ///< those of ibv_qp_ex that the queue pairs shall have
  ibv_comp_channel* channel = nullptr;
  bool long_cqe = false;
  std::uint32_t receives = 0;  ///< of each queue pair
  bool shared = false;         ///< one queue of as many for both
  bool one_cq_of_a = false;    ///< what `a` receives completes where sends do
  ibv_mtu mtu = IBV_MTU_4096;
  std::uint8_t rnr_retry = 7;
};

/// The queue pairs, their completion queues and memory on either side.
struct Link {
  static constexpr std::size_t kBytes = 1 << 16;
  static constexpr std::uint32_t kDepth = 8;

  explicit Link(const LinkOptions& wanted = {})
      : options(wanted),
        cq(make_cq()),
        receive_cq(make_cq()),
        srq(make_srq()),
        a(make_qp(options.one_cq_of_a ? cq : receive_cq)),
        b(make_qp(receive_cq)) {
    connect_both();
  }
  Link(const Link&) = delete;
  ~Link() {
    CHECK(ibv_destroy_qp(a) == 0);
    CHECK(ibv_destroy_qp(b) == 0);
    CHECK((srq == nullptr || ibv_destroy_srq(srq) == 0));
    CHECK(ibv_destroy_cq(cq) == 0);
    CHECK(ibv_destroy_cq(receive_cq) == 0);
    CHECK(ibv_dereg_mr(mr) == 0);
  }
  void connect_both() const {
    for (const auto& [qp, peer] : {std::pair{a, b}, std::pair{b, a}}) {
      ibv_qp_attr init = attributes(nic, peer, IBV_QPS_INIT);
      ibv_qp_attr rtr = attributes(nic, peer, IBV_QPS_RTR);
      ibv_qp_attr rts = attributes(nic, peer, IBV_QPS_RTS);
      rtr.path_mtu = options.mtu;
      rtr.rq_psn = peer == a ? 0xfffffe : 7;  // wraps around
      rts.sq_psn = qp == a ? 0xfffffe : 7;
      rts.rnr_retry = options.rnr_retry;
      REQUIRE(ibv_modify_qp(qp, &init, kInitMask) == 0);
      REQUIRE(ibv_modify_qp(qp, &rtr, kRtrMask) == 0);
      REQUIRE(ibv_modify_qp(qp, &rts, kRtsMask) == 0);
    }
  }

  [[nodiscard]] std::uint8_t* at(std::size_t offset) const {
    return static_cast<std::uint8_t*>(memory.get()) + offset;
  }
  [[nodiscard]] ibv_sge piece(std::size_t offset, std::size_t bytes) const {
    return {reinterpret_cast<std::uintptr_t>(at(offset)), static_cast<std::uint32_t>(bytes),
            mr->lkey};
  }
  [[nodiscard]] std::uint64_t address(std::size_t offset) const {
    return reinterpret_cast<std::uintptr_t>(at(offset));
  }
  [[nodiscard]] ibv_send_wr request(ibv_wr_opcode opcode, std::uint64_t id,
                                    std::size_t to = 0) const {
    ibv_send_wr wr{};
    wr.wr_id = id;
    wr.opcode = opcode;
    wr.send_flags = IBV_SEND_SIGNALED;
    wr.wr.rdma = {address(to), mr->rkey};
    return wr;
  }
  /// By `a`.
  void post(ibv_send_wr& wr, ibv_sge* pieces, int count) const { post_by(a, wr, pieces, count); }
  static void post_by(ibv_qp* qp, ibv_send_wr& wr, ibv_sge* pieces, int count) {
    wr.sg_list = pieces;
    wr.num_sge = count;
    ibv_send_wr* bad = nullptr;
    REQUIRE(ibv_post_send(qp, &wr, &bad) == 0);
  }

  LinkOptions options;
  Nic nic;
  Pages memory = pages(kBytes);
  ibv_mr* mr = ibv_reg_mr(nic.pd, memory.get(), kBytes, kAll);
  ibv_cq *cq, *receive_cq;
  ibv_srq* srq;
  ibv_qp *a, *b;

 private:
  ibv_cq* make_cq() {
    REQUIRE(mr != nullptr);
    std::memset(memory.get(), 0, kBytes);
    ibv_cq_init_attr_ex wanted{};
    wanted.cqe = 63;
    wanted.cq_context = this;
    wanted.channel = options.channel;
    wanted.wc_flags = IBV_WC_STANDARD_FLAGS;
    mlx5dv_cq_init_attr special{};
    special.comp_mask = MLX5DV_CQ_INIT_ATTR_MASK_CQE_SIZE;
    special.cqe_size = options.long_cqe ? 128 : 64;
    ibv_cq_ex* made = mlx5dv_create_cq(nic.context, &wanted, &special);
    REQUIRE(made != nullptr);
    return ibv_cq_ex_to_cq(made);
  }
  ibv_srq* make_srq() const {
    if (!options.shared) return nullptr;
    ibv_srq_init_attr wanted{};
    wanted.attr = {options.receives, 3, 0};
    ibv_srq* made = ibv_create_srq(nic.pd, &wanted);
    REQUIRE(made != nullptr);
    return made;
  }
  ibv_qp* make_qp(ibv_cq* receives) const {
    ibv_qp_init_attr_ex wanted{};
    wanted.send_cq = cq;
    wanted.recv_cq = receives;
    wanted.srq = srq;
    wanted.cap = {kDepth, srq != nullptr ? 0 : options.receives, 4, 3, 200};
    wanted.qp_type = IBV_QPT_RC;
    wanted.pd = nic.pd;
    wanted.comp_mask = IBV_QP_INIT_ATTR_PD;
    if (options.calls != 0) {
      wanted.comp_mask |= IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
      wanted.send_ops_flags = options.calls;
    }
    ibv_qp* made = ibv_create_qp_ex(nic.context, &wanted);
    REQUIRE(made != nullptr);
    return made;
  }
};

}  // namespace verbs_test
