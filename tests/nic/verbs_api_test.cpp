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
  errno = ENOTTY;
  CHECK(ibv_query_gid(nic.context, 1, 0, &gid) == 0);
  CHECK(errno == ENOTTY);  // of no failure
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
  for (const bool has_pd : {false, true}) {  // without a domain, and with a thread domain
    ibv_td thread{nic.context};
    ibv_parent_domain_init_attr wrong{};
    wrong.pd = has_pd ? nic.pd : nullptr;
    wrong.td = has_pd ? &thread : nullptr;
    errno = 0;
    CHECK(ibv_alloc_parent_domain(nic.context, &wrong) == nullptr);
    CHECK(errno == EINVAL);
  }
  ibv_parent_domain_init_attr more = attributes;
  more.comp_mask = IBV_PARENT_DOMAIN_INIT_ATTR_ALLOCATORS;
  errno = 0;
  CHECK(ibv_alloc_parent_domain(nic.context, &more) == nullptr);
  CHECK(errno == EOPNOTSUPP);
  CHECK(ibv_dealloc_pd(nic.pd) == EBUSY);
  CHECK(ibv_dealloc_pd(parent) == 0);
}

TEST_CASE("a protection domain stays while a shared queue or an address handle is of it") {
  Nic nic;
  ibv_ah_attr address{};
  address.port_num = 1;
  address.dlid = 7;
  ibv_ah* ah = ibv_create_ah(nic.pd, &address);
  REQUIRE(ah != nullptr);
  CHECK(ibv_dealloc_pd(nic.pd) == EBUSY);
  CHECK(ibv_destroy_ah(ah) == 0);
  ibv_srq_init_attr wanted{};
  wanted.attr = {1, 1, 0};
  ibv_srq* srq = ibv_create_srq(nic.pd, &wanted);
  REQUIRE(srq != nullptr);
  CHECK(ibv_dealloc_pd(nic.pd) == EBUSY);
  CHECK(ibv_destroy_srq(srq) == 0);
  CHECK(ibv_dealloc_pd(std::exchange(nic.pd, nullptr)) == 0);
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
  address.static_rate = 5;
  address.sl = 3;
  address.src_path_bits = 0xfe;
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
  mlx5dv_pd pd{};
  pd.comp_mask = 1;
  obj.pd = {nic.pd, &pd};
  cq.comp_mask = ah_out.comp_mask = 1;
  REQUIRE(mlx5dv_init_obj(&obj, MLX5DV_OBJ_PD) == 0);
  CHECK(pd.pdn == nic.pd->handle);
  CHECK(pd.comp_mask == 0);  // nothing that is optional is answered
  REQUIRE(mlx5dv_init_obj(&obj, MLX5DV_OBJ_QP | MLX5DV_OBJ_CQ | MLX5DV_OBJ_SRQ | MLX5DV_OBJ_AH) ==
          0);
  CHECK((cq.comp_mask == 0 && ah_out.comp_mask == 0));
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
  CHECK(srq_out.comp_mask == MLX5DV_SRQ_MASK_SRQN);
  CHECK(srq_out.stride == 32);  // a link to the next entry, and one piece
  CHECK(srq_out.tail == 127);
  for (const void* memory : {static_cast<void*>(srq_out.buf), static_cast<void*>(srq_out.dbrec),
                             static_cast<void*>(qp.dbrec), static_cast<void*>(cq.dbrec)}) {
    CHECK(memory != nullptr);
  }
  CHECK(ah_out.av->rlid == __builtin_bswap16(0x1234));
  CHECK(int{ah_out.av->stat_rate_sl} == 0x53);
  CHECK(int{ah_out.av->fl_mlid} == 0x7e);
  const std::uint8_t no_mac[6] = {};
  CHECK(std::memcmp(ah_out.av->rmac, no_mac, sizeof no_mac) == 0);
  CHECK((ah->context == nic.context && ah->pd == nic.pd && ah->handle == 0));
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
  special.comp_mask = 0;  // not named, nothing is wanted
  for (mlx5dv_cq_init_attr* const none : {&special, static_cast<mlx5dv_cq_init_attr*>(nullptr)}) {
    cq = mlx5dv_create_cq(nic.context, &wanted, none);
    REQUIRE(cq != nullptr);
    CHECK(ibv_destroy_cq(ibv_cq_ex_to_cq(cq)) == 0);
  }
  special.comp_mask = MLX5DV_CQ_INIT_ATTR_MASK_FLAGS;
  errno = 0;
  CHECK(mlx5dv_create_cq(nic.context, &wanted, &special) == nullptr);
  CHECK(errno == EOPNOTSUPP);
}

TEST_CASE("all attributes of the device and of its port") {
  const Nic nic;
  ibv_device_attr device, expected{};
  std::memset(&device, 0xee, sizeof device);
  REQUIRE(ibv_query_device(nic.context, &device) == 0);
  std::strcpy(expected.fw_ver, "0.0.0-soft");
  expected.node_guid = expected.sys_image_guid = ibv_get_device_guid(nic.context->device);
  expected.max_mr_size = ~0ull;
  expected.page_size_cap = ~0xfffull;
  expected.vendor_id = 0x2c9;
  expected.vendor_part_id = 4129;
  expected.max_qp = expected.max_cq = expected.max_ah = 262144;
  expected.max_qp_wr = 32768;
  expected.max_sge = expected.max_sge_rd = expected.max_srq_sge = 30;
  expected.max_cqe = 4194303;
  expected.max_mr = 16777216;
  expected.max_pd = 1048576;
  expected.max_qp_rd_atom = expected.max_qp_init_rd_atom = 16;
  expected.max_res_rd_atom = 4194304;
  expected.atomic_cap = IBV_ATOMIC_HCA;
  expected.max_srq = 65536;
  expected.max_srq_wr = 32767;
  expected.max_pkeys = 1;
  expected.local_ca_ack_delay = 16;
  expected.phys_port_cnt = 1;
  // Without what is after the last field.
  CHECK(std::memcmp(&device, &expected, offsetof(ibv_device_attr, phys_port_cnt) + 1) == 0);

  ibv_device_attr_ex extended, no_more{};
  std::memset(&extended, 0xee, sizeof extended);
  REQUIRE(ibv_query_device_ex(nic.context, nullptr, &extended) == 0);
  no_more.orig_attr = device;
  no_more.phys_port_cnt_ex = 1;
  CHECK(std::memcmp(&extended, &no_more, sizeof extended) == 0);
  ibv_query_device_ex_input input{};
  CHECK(ibv_query_device_ex(nic.context, &input, &extended) == 0);
  input.comp_mask = 1;
  CHECK(ibv_query_device_ex(nic.context, &input, &extended) == EINVAL);
  // As a client of other headers calls it, whose structure is shorter or longer.
  const verbs_context* calls = verbs_get_ctx_op(nic.context, query_device_ex);
  REQUIRE(calls != nullptr);
  CHECK(calls->query_device_ex(nic.context, &input, &extended, sizeof extended) == EINVAL);
  CHECK(calls->query_device_ex(nic.context, nullptr, &extended, sizeof device - 1) == EINVAL);
  std::memset(&extended, 0xee, sizeof extended);
  CHECK(calls->query_device_ex(nic.context, nullptr, &extended, sizeof device) == 0);
  CHECK(std::memcmp(&extended, &device, sizeof device) == 0);
  std::uint8_t longer[sizeof extended + 64], zero[64] = {};
  std::memset(longer, 0xee, sizeof longer);
  CHECK(calls->query_device_ex(nic.context, nullptr, reinterpret_cast<ibv_device_attr_ex*>(longer),
                               sizeof longer) == 0);
  CHECK(std::memcmp(longer, &no_more, sizeof extended) == 0);
  CHECK(std::memcmp(longer + sizeof extended, zero, sizeof zero) == 0);

  ibv_port_attr port, port_expected{};
  std::memset(&port, 0xee, sizeof port);
  REQUIRE(ibv_query_port(nic.context, 1, &port) == 0);
  port_expected.state = IBV_PORT_ACTIVE;
  port_expected.max_mtu = port_expected.active_mtu = IBV_MTU_4096;
  port_expected.gid_tbl_len = 1;
  port_expected.max_msg_sz = 1u << 30;
  port_expected.pkey_tbl_len = 1;
  port_expected.lid = port_expected.sm_lid = port.lid;
  port_expected.max_vl_num = 1;
  port_expected.subnet_timeout = 18;
  port_expected.active_width = 2;    // 4x
  port_expected.active_speed = 128;  // NDR
  port_expected.phys_state = 5;      // link up
  port_expected.link_layer = IBV_LINK_LAYER_INFINIBAND;
  CHECK(std::memcmp(&port, &port_expected, sizeof port) == 0);
  std::memset(longer, 0xee, sizeof longer);
  CHECK(verbs_get_ctx_op(nic.context, query_port)
            ->query_port(nic.context, 1, reinterpret_cast<ibv_port_attr*>(longer),
                         sizeof port + sizeof zero) == 0);
  CHECK(std::memcmp(longer, &port_expected, sizeof port) == 0);
  CHECK(std::memcmp(longer + sizeof port, zero, sizeof zero) == 0);

  const ibv_device& named = *nic.context->device;
  CHECK(named.node_type == IBV_NODE_CA);
  CHECK(std::string(named.dev_name) == "uverbs0");
  CHECK(std::string(named.dev_path) == "/sys/class/infiniband_verbs/uverbs0");
  CHECK(std::string(named.ibdev_path) == "/sys/class/infiniband/mlx5_0");
  CHECK(ibv_get_device_index(nic.context->device) == 0);
  CHECK(nic.context->num_comp_vectors == 8);
  CHECK(nic.context->cmd_fd == -1);
}

TEST_CASE("what is asked of a port or an entry that is not there is an error") {
  const Nic nic;
  ibv_gid gid{};
  __be16 pkey = 0;
  ibv_gid_entry entry;
  for (const int index : {-1, 1}) {
    errno = 0;
    CHECK(ibv_query_gid(nic.context, 1, index, &gid) == -1);
    CHECK(errno == EINVAL);
    errno = 0;
    CHECK(ibv_query_pkey(nic.context, 1, index, &pkey) == -1);
    CHECK(errno == EINVAL);
  }
  CHECK(ibv_query_gid(nic.context, 2, 0, &gid) == -1);
  CHECK(ibv_query_pkey(nic.context, 2, 0, &pkey) == -1);
  CHECK(ibv_query_gid_ex(nic.context, 2, 0, &entry, 0) == EINVAL);
  CHECK(ibv_query_gid_ex(nic.context, 1, 0, &entry, 1) == EINVAL);
  CHECK(ibv_query_gid_ex(nic.context, 1, 0, &entry, 0) == 0);
  CHECK((entry.gid_index == 0 && entry.port_num == 1 && entry.ndev_ifindex == 0));
  // As a client of other headers calls it, whose structure is shorter or longer.
  CHECK(_ibv_query_gid_ex(nic.context, 1, 0, &entry, 0, sizeof entry - 1) == EINVAL);
  ibv_gid_entry longer[2], zero{};
  std::memset(longer, 0xee, sizeof longer);
  CHECK(_ibv_query_gid_ex(nic.context, 1, 0, longer, 0, sizeof longer) == 0);
  CHECK(std::memcmp(&longer[0], &entry, sizeof entry) == 0);
  CHECK(std::memcmp(&longer[1], &zero, sizeof zero) == 0);
  CHECK(ibv_query_gid_table(nic.context, &entry, 1, 0) == 1);
  CHECK(ibv_query_gid_table(nic.context, &entry, 0, 0) == -EINVAL);
  CHECK(ibv_query_gid_table(nic.context, &entry, 1, 1) == -EINVAL);
  CHECK(ibv_get_pkey_index(nic.context, 1, 0xffff) == 0);
  errno = 0;
  CHECK(ibv_get_pkey_index(nic.context, 1, 0x7fff) == -1);
  CHECK(errno == EINVAL);
  CHECK(ibv_get_pkey_index(nic.context, 2, 0xffff) == -1);
}

TEST_CASE("queue pairs have as much as they ask for, up to the device's limits") {
  const Nic nic;
  const Pair pair(nic);
  const auto made = [&](const ibv_qp_cap& cap) {
    ibv_qp_init_attr wanted{};
    wanted.send_cq = wanted.recv_cq = pair.cq;
    wanted.cap = cap;
    wanted.qp_type = IBV_QPT_RC;
    errno = 0;
    ibv_qp* const qp = ibv_create_qp(nic.pd, &wanted);
    if (qp == nullptr) return "errno " + std::to_string(errno);
    ibv_qp_attr now{};
    ibv_qp_init_attr init{};
    CHECK(ibv_query_qp(qp, &now, 0, &init) == 0);
    CHECK(std::memcmp(&now.cap, &wanted.cap, sizeof now.cap) == 0);
    CHECK(std::memcmp(&init.cap, &wanted.cap, sizeof now.cap) == 0);
    CHECK(now.path_mig_state == IBV_MIG_MIGRATED);
    CHECK(now.cur_qp_state == IBV_QPS_RESET);
    CHECK(ibv_destroy_qp(qp) == 0);
    return std::to_string(wanted.cap.max_send_wr) + " " + std::to_string(wanted.cap.max_recv_wr) +
           " " + std::to_string(wanted.cap.max_send_sge) + " " +
           std::to_string(wanted.cap.max_recv_sge) + " " +
           std::to_string(wanted.cap.max_inline_data);
  };
  const std::string bad = "errno " + std::to_string(EINVAL);
  // One entry of 64 bytes has room for one element or 12 bytes inline.
  CHECK(made({0, 0, 1, 0, 0}) == "1 0 1 0 0");
  CHECK(made({5, 0, 1, 0, 12}) == "8 0 1 0 12");
  CHECK(made({5, 0, 1, 0, 13}) == "8 0 1 0 13");
  CHECK(made({32768, 0, 1, 0, 12}) == "32768 0 1 0 12");
  CHECK(made({32768, 0, 1, 0, 13}) == bad);
  CHECK(made({16384, 0, 2, 0, 0}) == "16384 0 2 0 0");
  CHECK(made({16385, 0, 2, 0, 0}) == bad);
  CHECK(made({1u << 31, 0, 2, 0, 0}) == bad);  // twice as many are none in 32 bits
  CHECK(made({1, 0, 30, 0, 512}) == "1 0 30 0 512");
  CHECK(made({1, 0, 31, 0, 0}) == bad);
  CHECK(made({1, 0, 1, 0, 513}) == bad);
  CHECK(made({1, 5, 1, 3, 0}) == "1 8 1 4 0");
  CHECK(made({1, 1, 1, 0, 0}) == "1 1 1 1 0");
  CHECK(made({1, 32768, 1, 1, 0}) == "1 32768 1 1 0");
  CHECK(made({1, 32769, 1, 1, 0}) == bad);
  CHECK(made({1, 1, 1, 30, 0}) == "1 1 1 32 0");
  CHECK(made({1, 1, 1, 31, 0}) == bad);
}

TEST_CASE("completion queues have as much as they ask for, up to the device's limits") {
  const Nic nic;
  const auto entries = [&](int cqe, int vector) {
    errno = 0;
    ibv_cq* const cq = ibv_create_cq(nic.context, cqe, &errno, nullptr, vector);
    if (cq == nullptr) return -errno;
    const int made = cq->cqe;
    CHECK(cq->cq_context == &errno);
    CHECK(ibv_destroy_cq(cq) == 0);
    return made;
  };
  CHECK(entries(1, 0) == 1);
  CHECK(entries(2, 7) == 3);
  CHECK(entries(3, 7) == 3);
  CHECK(entries(4, 7) == 7);
  CHECK(entries(1, 8) == -EINVAL);
  CHECK(entries(0, 0) == -EINVAL);
  CHECK(entries(4194304, 0) == -EINVAL);
}

TEST_CASE("numbers have names") {
  const auto names = [](auto name, auto first, int last) {
    std::string all;
    for (int i = first; i <= last; ++i)
      all += std::string(name(static_cast<decltype(first)>(i))) + "\n";
    return all;
  };
  CHECK(names(ibv_node_type_str, IBV_NODE_UNKNOWN, 7) ==
        "unknown\nunknown\nInfiniBand channel adapter\nInfiniBand switch\nInfiniBand router\n"
        "iWARP NIC\nusNIC\nusNIC UDP\nunspecified\n");
  CHECK(names(ibv_port_state_str, IBV_PORT_NOP, 6) ==
        "no state change (NOP)\ndown\ninit\narmed\nactive\nactive defer\nunknown\n");
  CHECK(names(ibv_event_type_str, IBV_EVENT_CQ_ERR, 20) ==
        "CQ error\nqueue pair failed\ninvalid request at a queue pair\n"
        "access violation at a queue pair\ncommunication established\nsend queue drained\n"
        "path migrated\npath migration request error\ndevice failed\nport active\nport error\n"
        "LID change\nP_Key change\nSM change\nSRQ failed\nSRQ limit reached\n"
        "last WQE reached\nclient reregistration\nGID table change\nwork queue failed\n"
        "unknown\n");
  CHECK(names(ibv_wc_status_str, IBV_WC_SUCCESS, 24) ==
        "success\nlocal length error\nlocal QP operation error\n"
        "local EE context operation error\nlocal protection error\nwork request flushed\n"
        "memory window bind error\nbad response error\nlocal access error\n"
        "remote invalid request error\nremote access error\nremote operation error\n"
        "transport retry counter exceeded\nRNR retry counter exceeded\n"
        "local RDD violation error\nremote invalid RD request\naborted error\n"
        "invalid EE context number\ninvalid EE context state\nfatal error\n"
        "response timeout error\ngeneral error\ntag matching error\n"
        "tag matching rendezvous incomplete\nunknown\n");
}
