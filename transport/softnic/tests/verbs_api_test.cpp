// Tests calls of libibverbs.so.1, linked by name as programs do.
#include "transport/softnic/tests/verbs_api_rig.h"

#include <array>
#include <cstring>
#include <string>

using namespace verbs_test;

/// Exported for rdma-core's own tools, in no header.
extern "C" int ibv_query_gid_type(ibv_context* context, std::uint8_t port, unsigned index,
                                  int* type);

TEST_CASE("the device is an mlx5 with one InfiniBand port") {
  const Nic nic;
  CHECK(std::string(ibv_get_device_name(nic.context->device)) == "mlx5_0");
  CHECK(nic.context->device->transport_type == IBV_TRANSPORT_IB);
  CHECK(ibv_get_device_guid(nic.context->device) != 0);
  ibv_device_attr device;
  REQUIRE(ibv_query_device(nic.context, &device) == 0);
  CHECK(device.vendor_part_id == 4129);
  CHECK(device.phys_port_cnt == 1);
  CHECK(device.max_qp_rd_atom == 16);
  CHECK(device.node_guid == ibv_get_device_guid(nic.context->device));
  ibv_port_attr port;
  REQUIRE(ibv_query_port(nic.context, 1, &port) == 0);  // through the extended context
  CHECK(port.state == IBV_PORT_ACTIVE);
  CHECK(port.link_layer == IBV_LINK_LAYER_INFINIBAND);
  CHECK(port.active_mtu == IBV_MTU_4096);
  CHECK(port.gid_tbl_len == 1);
  CHECK(port.lid != 0);
  CHECK(ibv_query_port(nic.context, 0, &port) == EINVAL);
  CHECK(ibv_query_port(nic.context, 2, &port) == EINVAL);
  ibv_device_attr_ex extended;
  REQUIRE(ibv_query_device_ex(nic.context, nullptr, &extended) == 0);
  CHECK(extended.orig_attr.vendor_part_id == 4129);
}

TEST_CASE("registration accepts what the kernel accepts") {
  const Nic nic;
  const Pages memory = pages(1 << 16);
  const auto refused = [&](int access) {
    errno = 0;
    return ibv_reg_mr(nic.pd, memory.get(), 4096, access) == nullptr ? errno : 0;
  };
  CHECK(refused(IBV_ACCESS_REMOTE_WRITE) == EINVAL);
  CHECK(refused(IBV_ACCESS_REMOTE_ATOMIC) == EINVAL);
  CHECK(refused(kLocalWrite | IBV_ACCESS_ON_DEMAND) == EOPNOTSUPP);
  CHECK(refused(kLocalWrite | IBV_ACCESS_ZERO_BASED) == EOPNOTSUPP);
  CHECK(refused(kLocalWrite | 1 << 9) == EINVAL);
  CHECK(ibv_reg_mr(nic.pd, memory.get(), 0, kLocalWrite) == nullptr);
  auto* inside = static_cast<char*>(memory.get()) + 64;
  errno = 0;
  CHECK(ibv_reg_mr_iova(nic.pd, inside, 64, 0, kLocalWrite) == nullptr);
  CHECK(errno == EINVAL);  // another offset in the page

  ibv_mr* plain = ibv_reg_mr(nic.pd, inside, 64, kLocalWrite | IBV_ACCESS_REMOTE_WRITE);
  ibv_mr* zero = ibv_reg_mr_iova2(nic.pd, memory.get(), 1 << 16, 0,
                                  kAll | IBV_ACCESS_RELAXED_ORDERING | 1u << 29);
  ibv_mr* read_only = ibv_reg_mr(nic.pd, memory.get(), 64, 0);
  ibv_mr* byte =
      ibv_reg_mr(nic.pd, inside, 1, kLocalWrite | IBV_ACCESS_MW_BIND | IBV_ACCESS_HUGETLB);
  REQUIRE((plain != nullptr && zero != nullptr && read_only != nullptr && byte != nullptr));
  CHECK(plain->addr == inside);
  CHECK(plain->lkey != zero->lkey);
  CHECK(ibv_dealloc_pd(nic.pd) == EBUSY);
  CHECK(ibv_dereg_mr(plain) == 0);
  CHECK(ibv_dereg_mr(zero) == 0);
  CHECK(ibv_dereg_mr(read_only) == 0);
  CHECK(ibv_dereg_mr(byte) == 0);
  errno = 0;
  CHECK(ibv_reg_dmabuf_mr(nic.pd, 0, 4096, 0, -1, 0) == nullptr);
  CHECK(errno == EOPNOTSUPP);
}

namespace {

struct Pair {
  explicit Pair(const Nic& nic, std::uint32_t inlined = 0) {
    cq = ibv_create_cq(nic.context, 63, this, nullptr, 0);
    REQUIRE(cq != nullptr);
    init.send_cq = cq;
    init.recv_cq = cq;
    init.cap = {16, 0, 1, 0, inlined};
    init.qp_type = IBV_QPT_RC;
    qp = ibv_create_qp(nic.pd, &init);
    REQUIRE(qp != nullptr);
  }
  Pair(const Pair&) = delete;
  ~Pair() {
    CHECK(ibv_destroy_qp(qp) == 0);
    CHECK(ibv_destroy_cq(cq) == 0);
  }
  ibv_qp_init_attr init{};
  ibv_cq* cq;
  ibv_qp* qp;
};

}  // namespace

TEST_CASE("inline data has the room that a request's entries leave") {
  const Nic nic;
  Pair pair(nic, 64);
  ibv_qp_attr attr{};
  ibv_qp_init_attr made{};
  REQUIRE(ibv_query_qp(pair.qp, &attr, 0, &made) == 0);
  CHECK(attr.path_mtu == IBV_MTU_256);
  const std::uint32_t room = pair.init.cap.max_inline_data;
  CHECK(room == made.cap.max_inline_data);
  CHECK(room == 2 * 64 - 48 - 4);
  connect(nic, pair.qp, pair.qp);
  std::array<char, 128> data{};
  ibv_sge piece{reinterpret_cast<std::uintptr_t>(data.data()), room + 1, 0};
  ibv_send_wr request{};
  request.sg_list = &piece;
  request.num_sge = 1;
  request.opcode = IBV_WR_RDMA_WRITE;
  request.send_flags = IBV_SEND_INLINE;
  ibv_send_wr* bad = nullptr;
  CHECK(ibv_post_send(pair.qp, &request, &bad) == ENOMEM);
  CHECK(bad == &request);
  piece.length = 0;
  CHECK(ibv_post_send(pair.qp, &request, &bad) == 0);
}

TEST_CASE("a queue pair of verbs goes through its states and reports them") {
  const Nic nic;
  const Pair pair(nic);
  ibv_qp_attr init = attributes(nic, pair.qp, IBV_QPS_INIT);
  ibv_qp_attr rtr = attributes(nic, pair.qp, IBV_QPS_RTR);
  ibv_qp_attr rts = attributes(nic, pair.qp, IBV_QPS_RTS);
  CHECK(ibv_modify_qp(pair.qp, &rtr, kRtrMask) == EINVAL);  // out of order
  CHECK(ibv_modify_qp(pair.qp, &init, kInitMask & ~IBV_QP_PORT) == EINVAL);
  CHECK(ibv_modify_qp(pair.qp, &init, kInitMask) == 0);
  rtr.path_mtu = static_cast<ibv_mtu>(6);
  CHECK(ibv_modify_qp(pair.qp, &rtr, kRtrMask) == EINVAL);
  rtr.path_mtu = IBV_MTU_1024;
  CHECK(ibv_modify_qp(pair.qp, &rtr, kRtrMask) == 0);
  rts.max_rd_atomic = 17;
  CHECK(ibv_modify_qp(pair.qp, &rts, kRtsMask) == EINVAL);
  rts.max_rd_atomic = 16;
  CHECK(ibv_modify_qp(pair.qp, &rts, kRtsMask) == 0);
  ibv_qp_attr now{};
  ibv_qp_init_attr made{};
  REQUIRE(ibv_query_qp(pair.qp, &now, 0, &made) == 0);
  CHECK(now.qp_state == IBV_QPS_RTS);
  CHECK(now.path_mtu == IBV_MTU_1024);
  CHECK(now.dest_qp_num == pair.qp->qp_num);
  CHECK(now.timeout == rts.timeout);
  CHECK(now.retry_cnt == rts.retry_cnt);
  CHECK(now.rnr_retry == rts.rnr_retry);
  CHECK(now.min_rnr_timer == rtr.min_rnr_timer);
  CHECK(made.send_cq == pair.cq);
  ibv_qp_attr error{};
  error.qp_state = IBV_QPS_ERR;
  CHECK(ibv_modify_qp(pair.qp, &error, IBV_QP_STATE) == 0);
  REQUIRE(ibv_query_qp(pair.qp, &now, 0, &made) == 0);
  CHECK(now.qp_state == IBV_QPS_ERR);
}
