// Calls of libibverbs.so.1, linked by their names as any program links them.
#include "tests/nic/verbs_api_rig.h"

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

TEST_CASE("one GID and one partition key") {
  const Nic nic;
  ibv_gid gid{};
  CHECK(ibv_query_gid(nic.context, 1, 0, &gid) == 0);
  CHECK(gid.global.interface_id != 0);
  CHECK(ibv_query_gid(nic.context, 1, 1, &gid) != 0);
  ibv_gid_entry entry;
  REQUIRE(ibv_query_gid_ex(nic.context, 1, 0, &entry, 0) == 0);
  CHECK(std::memcmp(&entry.gid, &gid, sizeof(gid)) == 0);
  CHECK(entry.gid_type == IBV_GID_TYPE_IB);
  CHECK(ibv_query_gid_ex(nic.context, 1, 1, &entry, 0) == EINVAL);
  int type = -1;
  CHECK(ibv_query_gid_type(nic.context, 1, 0, &type) == 0);
  CHECK(type == 0);
  for (const auto& [port, index] : {std::pair{1, 1u}, std::pair{2, 0u}}) {
    errno = 0;
    CHECK(ibv_query_gid_type(nic.context, static_cast<std::uint8_t>(port), index, &type) == -1);
    CHECK(errno == EINVAL);
  }
  ibv_gid_entry table[4];
  CHECK(ibv_query_gid_table(nic.context, table, 4, 0) == 1);
  __be16 pkey = 0;
  CHECK(ibv_query_pkey(nic.context, 1, 0, &pkey) == 0);
  CHECK(pkey == 0xffff);
  CHECK(ibv_query_pkey(nic.context, 1, 1, &pkey) == -1);
  CHECK(ibv_get_pkey_index(nic.context, 1, pkey) == 0);
}

TEST_CASE("registration takes what the kernel takes") {
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
  CHECK(errno == EINVAL);  // another place in the page

  ibv_mr* plain = ibv_reg_mr(nic.pd, inside, 64, kLocalWrite | IBV_ACCESS_REMOTE_WRITE);
  ibv_mr* zero = ibv_reg_mr_iova2(nic.pd, memory.get(), 1 << 16, 0,
                                  kAll | IBV_ACCESS_RELAXED_ORDERING | 1u << 29);
  ibv_mr* read_only = ibv_reg_mr(nic.pd, memory.get(), 64, 0);
  REQUIRE((plain != nullptr && zero != nullptr && read_only != nullptr));
  CHECK(plain->addr == inside);
  CHECK(plain->lkey != zero->lkey);
  CHECK(ibv_dealloc_pd(nic.pd) == EBUSY);
  CHECK(ibv_dereg_mr(plain) == 0);
  CHECK(ibv_dereg_mr(zero) == 0);
  CHECK(ibv_dereg_mr(read_only) == 0);
  errno = 0;
  CHECK(ibv_reg_dmabuf_mr(nic.pd, 0, 4096, 0, -1, 0) == nullptr);
  CHECK(errno == EOPNOTSUPP);
}

TEST_CASE("a parent domain stands for its protection domain") {
  const Nic nic;
  ibv_parent_domain_init_attr attributes{};
  attributes.pd = nic.pd;
  ibv_pd* parent = ibv_alloc_parent_domain(nic.context, &attributes);
  REQUIRE(parent != nullptr);
  mlx5dv_pd own{}, stands_for{};
  mlx5dv_obj obj{};
  obj.pd = {nic.pd, &own};
  CHECK(mlx5dv_init_obj(&obj, MLX5DV_OBJ_PD) == 0);
  obj.pd = {parent, &stands_for};
  CHECK(mlx5dv_init_obj(&obj, MLX5DV_OBJ_PD) == 0);
  CHECK(own.pdn == stands_for.pdn);
  CHECK(ibv_dealloc_pd(nic.pd) == EBUSY);
  CHECK(ibv_dealloc_pd(parent) == 0);
}

namespace {

struct Pair {
  explicit Pair(const Nic& nic) {
    cq = ibv_create_cq(nic.context, 63, this, nullptr, 0);
    REQUIRE(cq != nullptr);
    ibv_qp_init_attr init{};
    init.send_cq = cq;
    init.recv_cq = cq;
    init.cap = {16, 0, 1, 0, 0};
    init.qp_type = IBV_QPT_RC;
    qp = ibv_create_qp(nic.pd, &init);
    REQUIRE(qp != nullptr);
  }
  Pair(const Pair&) = delete;
  ~Pair() {
    CHECK(ibv_destroy_qp(qp) == 0);
    CHECK(ibv_destroy_cq(cq) == 0);
  }
  ibv_cq* cq;
  ibv_qp* qp;
};

}  // namespace

TEST_CASE("a queue pair of verbs goes through its states, and tells") {
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

TEST_CASE("what verbs does not do, it says") {
  const Nic nic;
  const Pair pair(nic);
  ibv_send_wr send{};
  send.opcode = IBV_WR_BIND_MW;
  ibv_send_wr* bad_send = nullptr;
  CHECK(ibv_post_send(pair.qp, &send, &bad_send) == EOPNOTSUPP);
  CHECK(bad_send == &send);
  ibv_recv_wr receive{};
  ibv_recv_wr* bad_receive = nullptr;
  CHECK(ibv_post_recv(pair.qp, &receive, &bad_receive) == EINVAL);  // it has no receive queue
  CHECK(bad_receive == &receive);
  CHECK(ibv_destroy_cq(pair.cq) == EBUSY);  // the queue pair completes into it
  ibv_qp_init_attr ud{};
  ud.send_cq = pair.cq;
  ud.recv_cq = pair.cq;
  ud.qp_type = IBV_QPT_UD;
  errno = 0;
  CHECK(ibv_create_qp(nic.pd, &ud) == nullptr);
  CHECK(errno == EOPNOTSUPP);
  ibv_device_attr limits;
  REQUIRE(ibv_query_device(nic.context, &limits) == 0);
  ibv_qp_init_attr deep = ud;
  deep.qp_type = IBV_QPT_RC;
  deep.cap.max_send_wr = static_cast<std::uint32_t>(limits.max_qp_wr) + 1;
  deep.cap.max_send_sge = 1;
  CHECK(ibv_create_qp(nic.pd, &deep) == nullptr);
  CHECK(errno == EINVAL);
  ibv_alloc_dm_attr memory{};
  CHECK(ibv_alloc_dm(nic.context, &memory) == nullptr);
}

TEST_CASE("mlx5dv shows the memory behind objects of verbs") {
  const Nic nic;
  const Pair pair(nic);
  ibv_srq_init_attr wanted{};
  wanted.attr = {100, 1, 0};
  ibv_srq* srq = ibv_create_srq(nic.pd, &wanted);
  REQUIRE(srq != nullptr);
  ibv_ah_attr address{};
  address.port_num = 1;
  address.dlid = 0x1234;
  ibv_ah* ah = ibv_create_ah(nic.pd, &address);
  REQUIRE(ah != nullptr);
  mlx5dv_qp qp{};
  mlx5dv_cq cq{};
  mlx5dv_srq srq_out{};
  srq_out.comp_mask = MLX5DV_SRQ_MASK_SRQN;
  mlx5dv_ah ah_out{};
  mlx5dv_obj obj{};
  obj.qp = {pair.qp, &qp};
  obj.cq = {pair.cq, &cq};
  obj.srq = {srq, &srq_out};
  obj.ah = {ah, &ah_out};
  REQUIRE(mlx5dv_init_obj(&obj, MLX5DV_OBJ_QP | MLX5DV_OBJ_CQ | MLX5DV_OBJ_SRQ | MLX5DV_OBJ_AH) ==
          0);
  CHECK(qp.sq.wqe_cnt == 16);
  CHECK(qp.sq.stride == 64);
  CHECK((reinterpret_cast<std::uintptr_t>(qp.bf.reg) & 0xfff) == 0x800);
  CHECK(cq.cqe_cnt == 64);
  CHECK(cq.cqe_size == 64);
  CHECK(cq.cqn != 0);
  CHECK(static_cast<mlx5_cqe64*>(cq.buf)->op_own >> 4 == MLX5_CQE_INVALID);
  std::uint32_t number = 0;
  CHECK(ibv_get_srq_num(srq, &number) == 0);
  CHECK(srq_out.srqn == number);
  CHECK(srq_out.stride == 32);  // a link to the next entry, and one piece
  CHECK(srq_out.tail == 127);
  for (const void* memory : {static_cast<void*>(srq_out.buf), static_cast<void*>(srq_out.dbrec),
                             static_cast<void*>(qp.dbrec), static_cast<void*>(cq.dbrec)}) {
    CHECK(memory != nullptr);
  }
  CHECK(ah_out.av->rlid == __builtin_bswap16(0x1234));
  CHECK(mlx5dv_init_obj(&obj, MLX5DV_OBJ_DM) == EOPNOTSUPP);
  CHECK(ibv_destroy_ah(ah) == 0);
  CHECK(ibv_destroy_srq(srq) == 0);
}

TEST_CASE("flags of a completion queue that mlx5dv has and this has not are refused") {
  const Nic nic;
  ibv_cq_init_attr_ex wanted{};
  wanted.cqe = 4;
  mlx5dv_cq_init_attr special{};
  special.comp_mask = MLX5DV_CQ_INIT_ATTR_MASK_FLAGS;
  ibv_cq_ex* cq = mlx5dv_create_cq(nic.context, &wanted, &special);
  REQUIRE(cq != nullptr);
  CHECK(ibv_destroy_cq(ibv_cq_ex_to_cq(cq)) == 0);
  special.flags = MLX5DV_CQ_INIT_ATTR_FLAGS_CQE_PAD;
  errno = 0;
  CHECK(mlx5dv_create_cq(nic.context, &wanted, &special) == nullptr);
  CHECK(errno == EOPNOTSUPP);
}

TEST_CASE("numbers have names") {
  CHECK(std::string(ibv_wc_status_str(IBV_WC_SUCCESS)) == "success");
  CHECK(std::string(ibv_port_state_str(IBV_PORT_ACTIVE)) == "active");
  CHECK(std::string(ibv_event_type_str(IBV_EVENT_PORT_ERR)) == "port error");
  CHECK(std::string(ibv_node_type_str(IBV_NODE_CA)) == "InfiniBand channel adapter");
  CHECK(std::string(ibv_wc_status_str(static_cast<ibv_wc_status>(31))) == "unknown");
}
