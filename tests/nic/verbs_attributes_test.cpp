// Queue pairs of verbs and the objects around them: what their clients give is what they tell, what
// a transition requires must be there, and only those rights are given that were asked for.
#include "tests/nic/verbs_link.h"

#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>

using namespace verbs_test;

// Exported for rdma-core's own tools and providers, in no header.
extern "C" const char* ibv_get_sysfs_path(void);
extern "C" int ibv_read_sysfs_file(const char* folder, const char* name, char* text,
                                   std::size_t bytes);
extern "C" int ibv_dontfork_range(void*, std::size_t);
extern "C" int ibv_dofork_range(void*, std::size_t);

namespace {

/// A queue pair that is its own peer.
struct Alone {
  Alone() {
    ibv_qp_init_attr init{};
    init.qp_context = this;
    init.send_cq = cq;
    init.recv_cq = receive_cq;
    init.cap = {4, 5, 1, 2, 0};
    init.qp_type = IBV_QPT_RC;
    qp = ibv_create_qp(nic.pd, &init);
    REQUIRE(qp != nullptr);
  }
  Alone(const Alone&) = delete;
  ~Alone() {
    CHECK(ibv_destroy_qp(qp) == 0);
    CHECK(ibv_destroy_cq(cq) == 0);
    CHECK(ibv_destroy_cq(receive_cq) == 0);
  }
  [[nodiscard]] ibv_qp_attr good(ibv_qp_state state) const { return attributes(nic, qp, state); }
  int modify(ibv_qp_attr attr, int mask) const { return ibv_modify_qp(qp, &attr, mask); }
  int modify(ibv_qp_state state) const {
    return modify(good(state), state == IBV_QPS_INIT  ? kInitMask
                               : state == IBV_QPS_RTR ? kRtrMask
                               : state == IBV_QPS_RTS ? kRtsMask
                                                      : int{IBV_QP_STATE});
  }
  /// All attributes that a transition may take, as text.
  [[nodiscard]] std::string told() const {
    ibv_qp_attr now;
    std::memset(&now, 0x77, sizeof now);
    ibv_qp_init_attr init{};
    REQUIRE(ibv_query_qp(qp, &now, 0, &init) == 0);
    CHECK(now.cur_qp_state == now.qp_state);
    const unsigned all[] = {
        now.qp_state,     now.qp_access_flags,    now.pkey_index,    now.port_num,
        now.ah_attr.dlid, now.ah_attr.sl,         now.path_mtu,      now.dest_qp_num,
        now.rq_psn,       now.max_dest_rd_atomic, now.min_rnr_timer, now.timeout,
        now.retry_cnt,    now.rnr_retry,          now.sq_psn,        now.max_rd_atomic};
    std::string text;
    for (const unsigned each : all) text += std::to_string(each) + " ";
    return text;
  }

  Nic nic;
  ibv_cq* cq = ibv_create_cq(nic.context, 7, this, nullptr, 0);
  ibv_cq* receive_cq = ibv_create_cq(nic.context, 7, nullptr, nullptr, 0);
  ibv_qp* qp = nullptr;
};

/// As of a client that fills in what it names and nothing else.
ibv_qp_attr unset(ibv_qp_state state) {
  ibv_qp_attr attr;
  std::memset(&attr, 0x33, sizeof attr);
  attr.qp_state = state;
  return attr;
}

}  // namespace

TEST_CASE("attributes of a queue pair are told as they were given, and no others are taken") {
  const Alone alone;
  CHECK(alone.told() == "0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 ");
  ibv_qp_attr attr = unset(IBV_QPS_INIT);
  attr.pkey_index = 0;
  attr.port_num = 1;
  attr.qp_access_flags = IBV_ACCESS_REMOTE_READ;
  CHECK(alone.modify(attr, kInitMask) == 0);
  CHECK(alone.told() == "1 4 0 1 0 0 0 0 0 0 0 0 0 0 0 0 ");

  attr = unset(IBV_QPS_RTR);
  attr.ah_attr = alone.good(IBV_QPS_RTR).ah_attr;
  attr.ah_attr.sl = 5;
  attr.path_mtu = IBV_MTU_1024;
  attr.dest_qp_num = alone.qp->qp_num;
  attr.rq_psn = 4711;
  attr.max_dest_rd_atomic = 3;
  attr.min_rnr_timer = 9;
  CHECK(alone.modify(attr, kRtrMask) == 0);
  const std::string peer =
      std::to_string(attr.ah_attr.dlid) + " 5 3 " + std::to_string(alone.qp->qp_num) + " 4711 3 ";
  CHECK(alone.told() == "2 4 0 1 " + peer + "9 0 0 0 0 0 ");

  attr = unset(IBV_QPS_RTS);
  attr.timeout = 15;
  attr.retry_cnt = 6;
  attr.rnr_retry = 2;
  attr.sq_psn = 815;
  attr.max_rd_atomic = 16;
  attr.min_rnr_timer = 11;
  CHECK(alone.modify(attr, kRtsMask | IBV_QP_MIN_RNR_TIMER) == 0);
  CHECK(alone.told() == "3 4 0 1 " + peer + "11 15 6 2 815 16 ");
  CHECK(alone.modify(unset(IBV_QPS_ERR), IBV_QP_STATE) == 0);
  CHECK(alone.told() == "6 4 0 1 " + peer + "11 15 6 2 815 16 ");
  CHECK(alone.qp->state == IBV_QPS_ERR);
}

TEST_CASE("a transition takes what it requires, and what it may have") {
  const Alone alone;
  struct Step {
    ibv_qp_state to;
    int required, optional;
  };
  for (const Step& step : {Step{IBV_QPS_INIT, kInitMask, 0},
                           Step{IBV_QPS_RTR, kRtrMask, IBV_QP_ACCESS_FLAGS | IBV_QP_PKEY_INDEX},
                           Step{IBV_QPS_RTS, kRtsMask,
                                IBV_QP_CUR_STATE | IBV_QP_MIN_RNR_TIMER | IBV_QP_PATH_MIG_STATE}}) {
    const ibv_qp_attr attr = alone.good(step.to);
    CHECK(alone.modify(attr, step.required & ~IBV_QP_STATE) == EOPNOTSUPP);
    for (int bit = IBV_QP_STATE << 1; bit <= IBV_QP_RATE_LIMIT; bit <<= 1) {
      INFO("to " << step.to << ", bit " << bit);
      if ((step.required & bit) != 0)
        CHECK(alone.modify(attr, step.required & ~bit) == EINVAL);
      else if ((step.optional & bit) == 0)
        CHECK(alone.modify(attr, step.required | bit) == EINVAL);
    }
    for (const ibv_qp_state other : {IBV_QPS_INIT, IBV_QPS_RTR, IBV_QPS_RTS, IBV_QPS_SQD})
      if (other != step.to) CHECK(alone.modify(other) == EINVAL);
    CHECK(alone.modify(attr, step.required | step.optional) == 0);
    CHECK(alone.qp->state == step.to);
  }
  for (const ibv_qp_state state : {IBV_QPS_ERR, IBV_QPS_RESET}) {
    CHECK(alone.modify(alone.good(state), IBV_QP_STATE | IBV_QP_PORT) == EINVAL);
    CHECK(alone.modify(state) == 0);
  }
  CHECK(alone.modify(IBV_QPS_INIT) == 0);
}

TEST_CASE("values that a port or a card does not have are refused") {
  const Alone alone;
  const auto refused = [&](ibv_qp_state state, int mask, auto change) {
    ibv_qp_attr attr = alone.good(state);
    change(attr);
    return alone.modify(attr, mask) == EINVAL;
  };
  CHECK(refused(IBV_QPS_INIT, kInitMask, [](ibv_qp_attr& a) { a.pkey_index = 1; }));
  CHECK(refused(IBV_QPS_INIT, kInitMask, [](ibv_qp_attr& a) { a.port_num = 0; }));
  CHECK(refused(IBV_QPS_INIT, kInitMask, [](ibv_qp_attr& a) { a.port_num = 2; }));
  CHECK(alone.modify(IBV_QPS_INIT) == 0);
  for (const int mtu : {0, 6, 7})
    CHECK(refused(IBV_QPS_RTR, kRtrMask,
                  [&](ibv_qp_attr& a) { a.path_mtu = static_cast<ibv_mtu>(mtu); }));
  CHECK(refused(IBV_QPS_RTR, kRtrMask, [](ibv_qp_attr& a) { a.max_dest_rd_atomic = 17; }));
  CHECK(refused(IBV_QPS_RTR, kRtrMask, [](ibv_qp_attr& a) { a.ah_attr.dlid = 0; }));
  CHECK(
      refused(IBV_QPS_RTR, kRtrMask | IBV_QP_PKEY_INDEX, [](ibv_qp_attr& a) { a.pkey_index = 1; }));
  ibv_qp_attr least = alone.good(IBV_QPS_RTR);
  least.path_mtu = IBV_MTU_256;
  least.max_dest_rd_atomic = 0;
  CHECK(alone.modify(least, kRtrMask) == 0);
  CHECK(refused(IBV_QPS_RTS, kRtsMask, [](ibv_qp_attr& a) { a.max_rd_atomic = 17; }));
  CHECK(alone.modify(IBV_QPS_RTS) == 0);
}

TEST_CASE("a queue pair gives the rights that it was asked for, and no others") {
  struct Right {
    unsigned flag;
    ibv_wr_opcode opcode;
  };
  const Right rights[] = {{IBV_ACCESS_REMOTE_WRITE, IBV_WR_RDMA_WRITE},
                          {IBV_ACCESS_REMOTE_READ, IBV_WR_RDMA_READ},
                          {IBV_ACCESS_REMOTE_ATOMIC, IBV_WR_ATOMIC_FETCH_AND_ADD}};
  const bool late = GENERATE(false, true);  // by INIT, or by RTR over what INIT has said
  for (const Right& given : rights) {
    const Link link;
    for (const Right& used : rights) {
      INFO("given " << given.flag << ", used " << used.flag << (late ? ", late" : ""));
      for (ibv_qp* qp : {link.a, link.b}) {
        ibv_qp_attr reset{};
        reset.qp_state = IBV_QPS_RESET;
        REQUIRE(ibv_modify_qp(qp, &reset, IBV_QP_STATE) == 0);
        ibv_qp* const peer = qp == link.a ? link.b : link.a;
        ibv_qp_attr init = attributes(link.nic, peer, IBV_QPS_INIT);
        ibv_qp_attr rtr = attributes(link.nic, peer, IBV_QPS_RTR);
        ibv_qp_attr rts = attributes(link.nic, peer, IBV_QPS_RTS);
        rtr.qp_access_flags = late ? given.flag : unsigned{kAll} & ~given.flag;
        init.qp_access_flags = late ? unsigned{kAll} & ~given.flag : given.flag;
        // Of more than 24 bits the rest is left off.
        rtr.rq_psn = 0x55000003;
        rts.sq_psn = 0xaa000003;
        REQUIRE(ibv_modify_qp(qp, &init, kInitMask) == 0);
        REQUIRE(ibv_modify_qp(qp, &rtr, kRtrMask | (late ? int{IBV_QP_ACCESS_FLAGS} : 0)) == 0);
        REQUIRE(ibv_modify_qp(qp, &rts, kRtsMask) == 0);
      }
      ibv_sge piece = link.piece(0, 8);
      ibv_send_wr wr = link.request(used.opcode, 1, 64);
      if (used.opcode == IBV_WR_ATOMIC_FETCH_AND_ADD)
        wr.wr.atomic = {link.address(64), 1, 0, link.mr->rkey};
      link.post(wr, &piece, 1);
      const ibv_wc_status status = next(link.cq).status;
      CHECK((status == IBV_WC_SUCCESS) == (used.flag == given.flag));
    }
  }
}

TEST_CASE("objects show what they were made of") {
  const Alone alone;
  const ibv_qp& qp = *alone.qp;
  CHECK(qp.context == alone.nic.context);
  CHECK(qp.qp_context == &alone);
  CHECK(qp.pd == alone.nic.pd);
  CHECK(qp.send_cq == alone.cq);
  CHECK(qp.recv_cq == alone.receive_cq);
  CHECK(qp.srq == nullptr);
  CHECK(qp.handle == qp.qp_num);
  CHECK(qp.state == IBV_QPS_RESET);
  CHECK(qp.qp_type == IBV_QPT_RC);
  CHECK(alone.cq->context == alone.nic.context);
  CHECK(alone.cq->channel == nullptr);
  CHECK(alone.cq->cq_context == &alone);
  CHECK(alone.nic.pd->context == alone.nic.context);

  int any = 0;
  ibv_srq_init_attr wanted{};
  wanted.srq_context = &any;
  wanted.attr = {4, 1, 0};
  ibv_srq* srq = ibv_create_srq(alone.nic.pd, &wanted);
  REQUIRE(srq != nullptr);
  CHECK(srq->context == alone.nic.context);
  CHECK(srq->srq_context == &any);
  CHECK(srq->pd == alone.nic.pd);
  ibv_qp_init_attr init{};
  init.send_cq = init.recv_cq = alone.cq;
  init.srq = srq;
  init.cap = {1, 0, 1, 0, 0};
  init.qp_type = IBV_QPT_RC;
  ibv_qp* shares = ibv_create_qp(alone.nic.pd, &init);
  REQUIRE(shares != nullptr);
  CHECK(shares->srq == srq);
  CHECK(ibv_destroy_srq(srq) == EBUSY);

  mlx5dv_qp own{}, none{};
  mlx5dv_srq unasked{};
  unasked.srqn = 77;
  mlx5dv_obj obj{};
  obj.qp = {alone.qp, &own};
  obj.srq = {srq, &unasked};
  REQUIRE(mlx5dv_init_obj(&obj, MLX5DV_OBJ_QP | MLX5DV_OBJ_SRQ) == 0);
  CHECK(own.rq.wqe_cnt == 8);  // 5, of two pieces
  CHECK(own.rq.stride == 32);
  CHECK(static_cast<char*>(own.sq.buf) == static_cast<char*>(own.rq.buf) + 8 * 32);
  CHECK(own.bf.size == 0);
  CHECK((unasked.srqn == 0 && unasked.comp_mask == 0));
  CHECK(*unasked.dbrec == 0);  // nothing is posted
  none.comp_mask = 1;
  none.rq.wqe_cnt = 7;
  obj.qp = {shares, &none};
  REQUIRE(mlx5dv_init_obj(&obj, MLX5DV_OBJ_QP) == 0);
  CHECK((none.rq.buf == nullptr && none.rq.wqe_cnt == 0));
  CHECK(none.comp_mask == 0);
  CHECK(ibv_destroy_qp(shares) == 0);
  CHECK(ibv_destroy_srq(srq) == 0);

  const Pages memory = pages(4096);
  auto* inside = static_cast<char*>(memory.get()) + 64;
  ibv_mr* mr = ibv_reg_mr(alone.nic.pd, inside, 100, kLocalWrite);
  REQUIRE(mr != nullptr);
  CHECK(mr->context == alone.nic.context);
  CHECK(mr->pd == alone.nic.pd);
  CHECK(mr->addr == inside);
  CHECK(mr->length == 100);
  CHECK((mr->lkey == mr->rkey && mr->handle == mr->lkey));
  CHECK(ibv_dereg_mr(mr) == 0);
}

TEST_CASE("a completion queue is refused for what it cannot do") {
  const Nic nic;
  const auto refused = [&](auto change) {
    ibv_cq_init_attr_ex wanted{};
    wanted.cqe = 3;
    change(wanted);
    errno = 0;
    ibv_cq_ex* cq = ibv_create_cq_ex(nic.context, &wanted);
    if (cq != nullptr) CHECK(ibv_destroy_cq(ibv_cq_ex_to_cq(cq)) == 0);
    return cq != nullptr ? 0 : errno;
  };
  using Wanted = ibv_cq_init_attr_ex;
  CHECK(refused([](Wanted&) {}) == 0);
  CHECK(refused([](Wanted& w) { w.wc_flags = IBV_WC_STANDARD_FLAGS; }) == 0);
  CHECK(refused([](Wanted& w) { w.wc_flags = IBV_WC_EX_WITH_FLOW_TAG; }) == EOPNOTSUPP);
  CHECK(refused([](Wanted& w) { w.comp_mask = IBV_CQ_INIT_ATTR_MASK_PD; }) == 0);
  CHECK(refused([](Wanted& w) { w.comp_mask = 1u << 2; }) == EOPNOTSUPP);
  for (const unsigned flag : {unsigned{IBV_CREATE_CQ_ATTR_SINGLE_THREADED},
                              unsigned{IBV_CREATE_CQ_ATTR_IGNORE_OVERRUN}, 1u << 2}) {
    const int code = refused([&](Wanted& w) {
      w.comp_mask = IBV_CQ_INIT_ATTR_MASK_FLAGS;
      w.flags = flag;
    });
    CHECK(code == (flag == 1u << 2 ? EOPNOTSUPP : 0));
  }
  CHECK(refused([](Wanted& w) { w.comp_vector = 7; }) == 0);
  CHECK(refused([](Wanted& w) { w.comp_vector = 8; }) == EINVAL);
}

TEST_CASE("what an extended queue pair is made of has to be said") {
  const Alone alone;
  const auto refused = [&](std::uint32_t mask, std::uint64_t calls) {
    ibv_qp_init_attr_ex wanted{};
    wanted.send_cq = wanted.recv_cq = alone.cq;
    wanted.cap = {1, 0, 1, 0, 0};
    wanted.qp_type = IBV_QPT_RC;
    wanted.pd = alone.nic.pd;
    wanted.comp_mask = mask;
    wanted.send_ops_flags = calls;
    errno = 0;
    ibv_qp* qp = ibv_create_qp_ex(alone.nic.context, &wanted);
    if (qp != nullptr) CHECK(ibv_destroy_qp(qp) == 0);
    return qp != nullptr ? 0 : errno;
  };
  constexpr std::uint32_t kPd = IBV_QP_INIT_ATTR_PD, kCalls = IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
  CHECK(refused(0, 0) == EINVAL);
  CHECK(refused(kCalls, IBV_QP_EX_WITH_RDMA_WRITE) == EINVAL);
  CHECK(refused(kPd | IBV_QP_INIT_ATTR_CREATE_FLAGS, 0) == EOPNOTSUPP);
  CHECK(refused(kPd, IBV_QP_EX_WITH_TSO) == 0);  // not asked for
  CHECK(refused(kPd | kCalls, IBV_QP_EX_WITH_TSO) == EOPNOTSUPP);
  CHECK(refused(kPd | kCalls, IBV_QP_EX_WITH_RDMA_WRITE) == 0);
  const auto made_without = [&](bool send, bool receive) {
    ibv_qp_init_attr wanted{};
    wanted.send_cq = send ? alone.cq : nullptr;
    wanted.recv_cq = receive ? alone.cq : nullptr;
    wanted.qp_type = IBV_QPT_RC;
    errno = 0;
    return ibv_create_qp(alone.nic.pd, &wanted) != nullptr ? 0 : errno;
  };
  CHECK(made_without(false, true) == EINVAL);
  CHECK(made_without(true, false) == EINVAL);
}

TEST_CASE("shared receive queues have as much as they ask for, up to the device's limits") {
  const Nic nic;
  const auto made = [&](std::uint32_t receives, std::uint32_t pieces) {
    ibv_srq_init_attr wanted{};
    wanted.attr = {receives, pieces, 0};
    errno = 0;
    ibv_srq* srq = ibv_create_srq(nic.pd, &wanted);
    if (srq == nullptr) return "errno " + std::to_string(errno);
    ibv_srq_attr told{};
    CHECK(ibv_query_srq(srq, &told) == 0);
    CHECK((told.max_wr == wanted.attr.max_wr && told.max_sge == wanted.attr.max_sge));
    CHECK(ibv_destroy_srq(srq) == 0);
    return std::to_string(told.max_wr) + " " + std::to_string(told.max_sge);
  };
  const std::string bad = "errno " + std::to_string(EINVAL);
  CHECK(made(1, 0) == "1 1");
  CHECK(made(2, 1) == "3 1");
  CHECK(made(3, 2) == "3 3");
  CHECK(made(4, 3) == "7 3");
  CHECK(made(32767, 1) == "32767 1");
  CHECK(made(1, 30) == "1 31");
  CHECK(made(0, 1) == bad);
  CHECK(made(32768, 1) == bad);
  CHECK(made(1, 31) == bad);
}

TEST_CASE("entries of a completion queue have 64 or 128 bytes") {
  const Nic nic;
  const auto made = [&](std::uint64_t mask, std::uint16_t bytes) {
    ibv_cq_init_attr_ex wanted{};
    wanted.cqe = 3;
    mlx5dv_cq_init_attr special{};
    special.comp_mask = mask;
    special.cqe_size = bytes;
    errno = 0;
    ibv_cq_ex* cq = mlx5dv_create_cq(nic.context, &wanted, &special);
    if (cq == nullptr) return -errno;
    mlx5dv_cq shown{};
    mlx5dv_obj obj{};
    obj.cq = {ibv_cq_ex_to_cq(cq), &shown};
    CHECK(mlx5dv_init_obj(&obj, MLX5DV_OBJ_CQ) == 0);
    CHECK(ibv_destroy_cq(ibv_cq_ex_to_cq(cq)) == 0);
    return static_cast<int>(shown.cqe_size);
  };
  constexpr std::uint64_t kSize = MLX5DV_CQ_INIT_ATTR_MASK_CQE_SIZE;
  CHECK(made(0, 128) == 64);  // not asked for
  CHECK(made(kSize, 64) == 64);
  CHECK(made(kSize, 128) == 128);
  CHECK(made(kSize, 32) == -EINVAL);
  CHECK(made(kSize, 256) == -EINVAL);
  CHECK(made(MLX5DV_CQ_INIT_ATTR_MASK_COMPRESSED_CQE, 64) == -EOPNOTSUPP);
}

TEST_CASE("what there is nothing to do for is done, what there is not is refused") {
  const Alone alone;
  CHECK(ibv_fork_init() == 0);
  CHECK(ibv_dontfork_range(nullptr, 0) == 0);
  CHECK(ibv_dofork_range(nullptr, 0) == 0);
  CHECK(ibv_is_fork_initialized() == IBV_FORK_UNNEEDED);
  CHECK(ibv_query_qp_data_in_order(alone.qp, IBV_WR_RDMA_WRITE, 0) == 0);
  ibv_ece ece{};
  CHECK(ibv_query_ece(alone.qp, &ece) == EOPNOTSUPP);
  CHECK(ibv_set_ece(alone.qp, &ece) == EOPNOTSUPP);
  CHECK(ibv_resize_cq(alone.cq, 3) == ENOSYS);
  CHECK(ibv_rereg_mr(nullptr, 0, nullptr, nullptr, 0, 0) == IBV_REREG_MR_ERR_INPUT);
  ibv_mw window{};
  window.context = alone.nic.context;
  window.type = IBV_MW_TYPE_1;
  ibv_mw_bind bind{};
  CHECK(ibv_bind_mw(alone.qp, &window, &bind) == EOPNOTSUPP);
  CHECK(ibv_dealloc_mw(&window) == EOPNOTSUPP);
  ibv_xrcd domain{};
  domain.context = alone.nic.context;
  CHECK(ibv_close_xrcd(&domain) == EOPNOTSUPP);
  ibv_device nobody{};
  CHECK(ibv_get_device_index(&nobody) == -1);
  errno = 0;
  CHECK(ibv_open_device(&nobody) == nullptr);
  CHECK(errno == ENODEV);
  CHECK(ibv_get_device_guid(&nobody) == 0);
  CHECK(errno == EINVAL);
  mlx5dv_context_attr wanted{};
  wanted.flags = 1u << 31;
  errno = 0;
  CHECK(mlx5dv_open_device(alone.nic.context->device, &wanted) == nullptr);
  CHECK(errno == EOPNOTSUPP);
  ibv_qp_init_attr_ex plain{};
  plain.send_cq = plain.recv_cq = alone.cq;
  plain.qp_type = IBV_QPT_RC;
  plain.pd = alone.nic.pd;
  plain.comp_mask = IBV_QP_INIT_ATTR_PD;
  mlx5dv_qp_init_attr nothing{};
  for (mlx5dv_qp_init_attr* const special :
       {&nothing, static_cast<mlx5dv_qp_init_attr*>(nullptr)}) {
    ibv_qp* qp = mlx5dv_create_qp(alone.nic.context, &plain, special);
    REQUIRE(qp != nullptr);
    CHECK(ibv_qp_to_qp_ex(qp) == nullptr);  // not asked for
    CHECK(ibv_destroy_qp(qp) == 0);
  }
}

TEST_CASE("a file of sysfs is read as far as there is room, without the end of its line") {
  CHECK(std::string(ibv_get_sysfs_path()) == "/sys");
  char folder[] = "/tmp/gshnic_sysfs_XXXXXX";
  REQUIRE(mkdtemp(folder) != nullptr);
  const std::string path = std::string(folder) + "/value";
  const auto read = [&](const std::string& text, std::size_t room) {
    std::ofstream(path) << text;
    char into[8] = "#######";
    const int length = ibv_read_sysfs_file(folder, "value", into, room);
    return std::to_string(length) + " " + std::string(into, into + 7);
  };
  CHECK(read("abc\n", 7) == "3 abc" + std::string(1, '\0') + "###");
  CHECK(read("a", 7) == "1 a" + std::string(1, '\0') + "#####");
  CHECK(read("abc", 7) == "3 abc" + std::string(1, '\0') + "###");
  CHECK(read("abc", 3) == "3 abc####");
  CHECK(read("abcdef", 3) == "3 abc####");
  CHECK(read("abc\n", 4) == "3 abc" + std::string(1, '\0') + "###");
  CHECK(read("", 7) == "-1 #######");
  char none[4];
  CHECK(ibv_read_sysfs_file(folder, "nothing", none, sizeof none) == -1);
  std::filesystem::remove_all(folder);
}
