// Dynamic connections by the calls of libmlx5, and by commands as libraries for GPUs give them.
#include "transport/softnic/tests/verbs_devx.h"

#include <endian.h>

#include <algorithm>
#include <cstring>

using namespace verbs_test;

namespace {

constexpr std::uint64_t kAccessKey = 0xbadc0de12345678;
constexpr int kTargetInit = IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS;
constexpr int kTargetRtr = IBV_QP_STATE | IBV_QP_MIN_RNR_TIMER | IBV_QP_AV | IBV_QP_PATH_MTU;

/// A target, and memory that it gives access to.
struct Target {
  Nic nic;
  Pages memory = pages(8192);
  ibv_mr* region = ibv_reg_mr(nic.pd, memory.get(), 8192, kAll);
  ibv_cq* cq = ibv_create_cq(nic.context, 63, nullptr, nullptr, 0);
  ibv_srq* srq = nullptr;
  ibv_qp* qp = nullptr;
  ibv_ah* ah = nullptr;

  Target() {
    std::memset(memory.get(), 0, 8192);
    ibv_srq_init_attr receives{};
    receives.attr = {16, 1, 0};
    srq = ibv_create_srq(nic.pd, &receives);
    REQUIRE((region != nullptr && cq != nullptr && srq != nullptr));
    qp = create(MLX5DV_DCTYPE_DCT, 0);
    REQUIRE(qp != nullptr);
    ibv_qp_attr attr = attributes(nic, qp, IBV_QPS_INIT);
    ah = ibv_create_ah(nic.pd, &attr.ah_attr);
    REQUIRE(ah != nullptr);
  }
  Target(const Target&) = delete;
  ~Target() {
    CHECK(ibv_destroy_ah(ah) == 0);
    CHECK(ibv_destroy_qp(qp) == 0);
    CHECK(ibv_destroy_srq(srq) == 0);
    CHECK(ibv_destroy_cq(cq) == 0);
    CHECK(ibv_dereg_mr(region) == 0);
  }

  [[nodiscard]] ibv_qp* create(mlx5dv_dc_type type, std::uint64_t operations) const {
    ibv_qp_init_attr_ex init{};
    init.qp_type = IBV_QPT_DRIVER;
    init.send_cq = init.recv_cq = cq;
    init.srq = srq;
    init.pd = nic.pd;
    init.comp_mask = IBV_QP_INIT_ATTR_PD;
    if (operations != 0) init.comp_mask |= IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
    init.send_ops_flags = operations;
    if (type == MLX5DV_DCTYPE_DCI) init.cap = {16, 0, 1, 0, 64};
    mlx5dv_qp_init_attr special{};
    special.comp_mask = MLX5DV_QP_INIT_ATTR_MASK_DC;
    special.dc_init_attr.dc_type = type;
    if (type == MLX5DV_DCTYPE_DCT) special.dc_init_attr.dct_access_key = kAccessKey;
    return mlx5dv_create_qp(nic.context, &init, &special);
  }
  void make_ready() const {
    for (const auto& [state, mask] :
         {std::pair{IBV_QPS_INIT, kTargetInit}, std::pair{IBV_QPS_RTR, kTargetRtr}}) {
      ibv_qp_attr attr = attributes(nic, qp, state);
      REQUIRE(ibv_modify_qp(qp, &attr, mask) == 0);
    }
  }
  [[nodiscard]] std::uint8_t* at(std::size_t offset) const {
    return static_cast<std::uint8_t*>(memory.get()) + offset;
  }
  [[nodiscard]] std::uint64_t address(std::size_t offset) const {
    return reinterpret_cast<std::uintptr_t>(at(offset));
  }
  [[nodiscard]] ibv_wc wait() const {
    ibv_wc wc{};
    while (ibv_poll_cq(cq, 1, &wc) == 0) continue;
    return wc;
  }
};

/// An initiator of the same device.
struct Initiator {
  explicit Initiator(const Target& of)
      : target(of), qp(of.create(MLX5DV_DCTYPE_DCI, IBV_QP_EX_WITH_RDMA_WRITE)) {
    REQUIRE(qp != nullptr);
    start();
  }
  Initiator(const Initiator&) = delete;
  ~Initiator() { CHECK(ibv_destroy_qp(qp) == 0); }
  void start(std::uint8_t timeout = 14) const {
    for (const auto& [state, mask] :
         {std::pair{IBV_QPS_INIT, int{IBV_QP_STATE} | IBV_QP_PKEY_INDEX | IBV_QP_PORT},
          std::pair{IBV_QPS_RTR, int{IBV_QP_STATE} | IBV_QP_PATH_MTU},
          std::pair{IBV_QPS_RTS, kRtsMask}}) {
      ibv_qp_attr attr = attributes(target.nic, qp, state);
      attr.timeout = timeout;
      attr.retry_cnt = timeout == 1 ? 1 : 7;
      REQUIRE(ibv_modify_qp(qp, &attr, mask) == 0);
    }
  }
  /// Writes 8 bytes from `offset` to 4096 after it; how that ends.
  ibv_wc_status write(std::size_t offset, std::uint64_t key, bool data_first) const {
    ibv_qp_ex* ex = ibv_qp_to_qp_ex(qp);
    ibv_wr_start(ex);
    ex->wr_id = 9;
    ex->wr_flags = IBV_SEND_SIGNALED;
    ibv_wr_rdma_write(ex, target.region->rkey, target.address(4096 + offset));
    const auto aim = [&] {
      mlx5dv_wr_set_dc_addr(mlx5dv_qp_ex_from_ibv_qp_ex(ex), target.ah, target.qp->qp_num, key);
    };
    if (!data_first) aim();
    ibv_wr_set_sge(ex, target.region->lkey, target.address(offset), 8);
    if (data_first) aim();
    REQUIRE(ibv_wr_complete(ex) == 0);
    return target.wait().status;
  }
  const Target& target;
  ibv_qp* qp;
};

}  // namespace

TEST_CASE("a DC target is there from RTR on, and takes what has its key") {
  Target target;
  ibv_qp_attr attr = attributes(target.nic, target.qp, IBV_QPS_INIT);
  ibv_qp_init_attr init{};
  CHECK(ibv_modify_qp(target.qp, &attr, kTargetInit | IBV_QP_QKEY) == EINVAL);
  attr.qp_state = IBV_QPS_RTR;
  CHECK(ibv_modify_qp(target.qp, &attr, kTargetRtr) == EINVAL);
  CHECK(ibv_query_qp(target.qp, &attr, IBV_QP_STATE, &init) == EINVAL);
  target.make_ready();
  CHECK(ibv_query_qp(target.qp, &attr, IBV_QP_STATE, &init) == 0);
  CHECK(attr.qp_state == IBV_QPS_RTR);
  CHECK(target.qp->qp_num != 0);
  CHECK(ibv_destroy_srq(target.srq) == EBUSY);

  const Initiator initiator(target);
  for (const bool data_first : {false, true}) {
    const std::size_t offset = data_first ? 8 : 0;
    std::memset(target.at(offset), data_first ? 0x5a : 0xa5, 8);
    CHECK(initiator.write(offset, kAccessKey, data_first) == IBV_WC_SUCCESS);
    CHECK(std::memcmp(target.at(offset), target.at(4096 + offset), 8) == 0);
  }
  ibv_send_wr request{}, *bad = nullptr;
  CHECK(ibv_post_send(initiator.qp, &request, &bad) == EOPNOTSUPP);
  CHECK(ibv_post_send(target.qp, &request, &bad) == EINVAL);

  ibv_qp_attr reset{};
  reset.qp_state = IBV_QPS_RESET;
  CHECK(ibv_modify_qp(initiator.qp, &reset, IBV_QP_STATE) == 0);
  initiator.start(1);
  CHECK(initiator.write(16, kAccessKey + 1, false) == IBV_WC_RETRY_EXC_ERR);
  CHECK(int{*target.at(4096 + 16)} == 0);
}

TEST_CASE("queue pairs for dynamic connections are refused as by libmlx5") {
  const Target target;
  ibv_qp_init_attr_ex init{};
  init.qp_type = IBV_QPT_DRIVER;
  init.send_cq = init.recv_cq = target.cq;
  init.srq = target.srq;
  init.pd = target.nic.pd;
  init.comp_mask = IBV_QP_INIT_ATTR_PD;
  init.cap = {16, 0, 1, 0, 0};
  mlx5dv_qp_init_attr special{};
  special.comp_mask = MLX5DV_QP_INIT_ATTR_MASK_DC;
  special.dc_init_attr.dc_type = MLX5DV_DCTYPE_DCI;
  SECTION("another type") { init.qp_type = IBV_QPT_RC; }
  SECTION("neither initiator nor target") {
    special.dc_init_attr.dc_type = static_cast<mlx5dv_dc_type>(3);
  }
  SECTION("an initiator that receives") { init.cap.max_recv_wr = 1; }
  SECTION("a target that sends") {
    special.dc_init_attr.dc_type = MLX5DV_DCTYPE_DCT;
    init.comp_mask |= IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
  }
  SECTION("a target without a shared queue") {
    special.dc_init_attr.dc_type = MLX5DV_DCTYPE_DCT;
    init.srq = nullptr;
  }
  SECTION("streams") {
    special.comp_mask |= MLX5DV_QP_INIT_ATTR_MASK_DCI_STREAMS;
    special.dc_init_attr.dci_streams = {1, 0};
  }
  errno = 0;
  CHECK(mlx5dv_create_qp(target.nic.context, &init, &special) == nullptr);
  CHECK(errno == EINVAL);
}

TEST_CASE("an initiator of DevX reaches a target of verbs by an address vector of its handle") {
  const Target target;
  target.make_ready();
  DevxQueuePair own(target.nic.context, 5);
  own.modify({rst2init(own.qpn), init2rtr(own.qpn, 0, 0), rtr2rts(own.qpn)});
  mlx5dv_ah out{};
  mlx5dv_obj obj{};
  obj.ah = {target.ah, &out};
  REQUIRE(mlx5dv_init_obj(&obj, MLX5DV_OBJ_AH) == 0);
  mlx5_wqe_av vector = *out.av;
  vector.key.dc_key = htobe64(kAccessKey);
  vector.dqp_dct |= htobe32(target.qp->qp_num);
  // Inline data: the initiator's own domain has no memory.
  Bytes wqe(128);
  word(wqe, 0, MLX5_OPCODE_RDMA_WRITE);
  word(wqe, 4, own.qpn << 8 | 6);
  word(wqe, 8, MLX5_WQE_CTRL_CQ_UPDATE);
  std::memcpy(wqe.data() + 16, &vector, sizeof vector);
  word64(wqe, 64, target.address(4096));
  word(wqe, 72, target.region->rkey);
  word(wqe, 80, MLX5_INLINE_SEG | 8);
  word64(wqe, 84, 0x1122334455667788);
  auto* memory = static_cast<std::uint8_t*>(own.memory.get());
  std::copy(wqe.begin(), wqe.end(), memory + 8192);
  std::uint64_t bell = 0;
  std::memcpy(&bell, wqe.data(), 8);
  __atomic_store_n(reinterpret_cast<std::uint32_t*>(memory) + MLX5_SND_DBR, htobe32(2),
                   __ATOMIC_RELEASE);
  __atomic_store_n(static_cast<std::uint64_t*>(own.uar->reg_addr), bell, __ATOMIC_RELEASE);
  const auto* word_seen = reinterpret_cast<const std::uint64_t*>(target.at(4096));
  while (__atomic_load_n(word_seen, __ATOMIC_ACQUIRE) == 0) continue;
  CHECK(be64toh(*word_seen) == 0x1122334455667788);
  own.destroy();
}
