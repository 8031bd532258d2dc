// What verbs leaves in the memory of its queues: entries and records, as clients of mlx5dv see
// them.
#include "tests/nic/verbs_link.h"

#include <endian.h>
#include <poll.h>

#include <cstring>
#include <set>
#include <vector>

using namespace verbs_test;

namespace {

using Words = std::vector<std::uint32_t>;

Words words(const void* at, std::size_t count) {
  Words all(count);
  std::memcpy(all.data(), at, 4 * count);
  for (std::uint32_t& each : all) each = be32toh(each);
  return all;
}
/// `in`: where mlx5dv_init_obj has the object and what is shown of it.
template <class Shown, class Object, class In>
Shown shown(Object* object, In mlx5dv_obj::*in, std::uint64_t type) {
  Shown memory{};
  mlx5dv_obj obj{};
  obj.*in = {object, &memory};
  REQUIRE(mlx5dv_init_obj(&obj, type) == 0);
  return memory;
}
mlx5dv_qp memory_of(ibv_qp* qp) { return shown<mlx5dv_qp>(qp, &mlx5dv_obj::qp, MLX5DV_OBJ_QP); }
mlx5dv_srq memory_of(ibv_srq* srq) {
  return shown<mlx5dv_srq>(srq, &mlx5dv_obj::srq, MLX5DV_OBJ_SRQ);
}
mlx5dv_cq memory_of(ibv_cq* cq) { return shown<mlx5dv_cq>(cq, &mlx5dv_obj::cq, MLX5DV_OBJ_CQ); }
std::uint32_t high(std::uint64_t value) { return static_cast<std::uint32_t>(value >> 32); }
std::uint32_t low(std::uint64_t value) { return static_cast<std::uint32_t>(value); }
std::uint16_t next_of(const mlx5dv_srq& srq, std::uint32_t index) {
  mlx5_wqe_srq_next_seg link;
  std::memcpy(&link, static_cast<char*>(srq.buf) + std::size_t{index} * srq.stride, sizeof link);
  return be16toh(link.next_wqe_index);
}

}  // namespace

TEST_CASE("a request stands in the queue's memory, word by word, and nothing behind it") {
  const Link link({.calls = IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD});
  const mlx5dv_qp queue = memory_of(link.a);
  auto* const entries = static_cast<char*>(queue.sq.buf);
  std::memset(entries, 0x77, std::size_t{4} * queue.sq.stride);
  const std::uint32_t key = link.mr->rkey, qpn = link.a->qp_num;
  ibv_sge piece = link.piece(0, 8);
  ibv_send_wr write = link.request(IBV_WR_RDMA_WRITE, 1, 0x100);
  write.imm_data = 0x12345678;  // of a request that has none
  link.post(write, &piece, 1);
  const Words written = {MLX5_OPCODE_RDMA_WRITE,
                         qpn << 8 | 3,
                         MLX5_WQE_CTRL_CQ_UPDATE,
                         0,
                         high(link.address(0x100)),
                         low(link.address(0x100)),
                         key,
                         0,
                         8,
                         key,
                         high(link.address(0)),
                         low(link.address(0)),
                         0x77777777,
                         0x77777777,
                         0x77777777,
                         0x77777777};
  CHECK(words(entries, 16) == written);
  CHECK(be32toh(queue.dbrec[MLX5_SND_DBR]) == 1);
  CHECK(next(link.cq).status == IBV_WC_SUCCESS);

  ibv_qp_ex* qp = ibv_qp_to_qp_ex(link.a);
  REQUIRE(qp != nullptr);
  ibv_wr_start(qp);
  qp->wr_flags = IBV_SEND_SIGNALED;
  ibv_wr_atomic_fetch_add(qp, key, link.address(0x200), 0x500000006);
  ibv_wr_set_sge(qp, key, link.address(0x10), 8);
  REQUIRE(ibv_wr_complete(qp) == 0);
  const Words added = {1 << 8 | MLX5_OPCODE_ATOMIC_FA,
                       qpn << 8 | 4,
                       MLX5_WQE_CTRL_CQ_UPDATE,
                       0,
                       high(link.address(0x200)),
                       low(link.address(0x200)),
                       key,
                       0,
                       5,
                       6,
                       0,
                       0,
                       8,
                       key,
                       high(link.address(0x10)),
                       low(link.address(0x10))};
  CHECK(words(entries + queue.sq.stride, 16) == added);
  CHECK(be32toh(queue.dbrec[MLX5_SND_DBR]) == 2);
  CHECK(next(link.cq).status == IBV_WC_SUCCESS);

  // One of five segments: the last is alone in its entry.
  ibv_sge pieces[] = {link.piece(0, 8), link.piece(0x40, 16), link.piece(0x80, 24)};
  ibv_send_wr longer = link.request(IBV_WR_RDMA_WRITE, 3, 0x300);
  link.post(longer, pieces, 3);
  Words last(16, 0x77777777);
  last[0] = 24, last[1] = key;
  last[2] = high(link.address(0x80)), last[3] = low(link.address(0x80));
  CHECK(words(entries + std::size_t{3} * queue.sq.stride, 16) == last);
  CHECK(next(link.cq).status == IBV_WC_SUCCESS);

  // Inline data of no bytes is no segment; an addition has one operand.
  char* const entry = entries + std::size_t{4} * queue.sq.stride;
  std::memset(entry, 0x77, std::size_t{2} * queue.sq.stride);
  ibv_sge none = link.piece(0, 0);
  ibv_send_wr empty = link.request(IBV_WR_RDMA_WRITE, 4, 0x100);
  empty.send_flags |= IBV_SEND_INLINE;
  link.post(empty, &none, 1);
  CHECK(words(entry, 10)[1] == (qpn << 8 | 2));
  CHECK(words(entry, 10)[8] == 0x77777777);
  CHECK(next(link.cq).status == IBV_WC_SUCCESS);
  ibv_send_wr add = link.request(IBV_WR_ATOMIC_FETCH_AND_ADD, 5);
  add.wr.atomic = {link.address(0x200), 0x700000008, 0x99, key};
  link.post(add, &piece, 1);
  const Words operands = words(entry + queue.sq.stride, 12);
  CHECK(Words(operands.begin() + 8, operands.end()) == Words{7, 8, 0, 0});
  CHECK(next(link.cq).status == IBV_WC_SUCCESS);
}

TEST_CASE("a client of mlx5dv posts to a queue pair of verbs by itself") {
  const Link link;
  const mlx5dv_qp queue = memory_of(link.a);
  const std::uint32_t nop[] = {htobe32(MLX5_OPCODE_NOP), htobe32(link.a->qp_num << 8 | 1),
                               htobe32(MLX5_WQE_CTRL_CQ_UPDATE), 0};
  std::memcpy(queue.sq.buf, nop, sizeof nop);
  __atomic_store_n(queue.dbrec + MLX5_SND_DBR, htobe32(1), __ATOMIC_RELEASE);
  std::uint64_t doorbell = 0;
  std::memcpy(&doorbell, nop, sizeof doorbell);
  __atomic_store_n(static_cast<std::uint64_t*>(queue.bf.reg), doorbell, __ATOMIC_RELEASE);
  const ibv_wc done = next(link.cq);
  CHECK(done.status == IBV_WC_SUCCESS);
  CHECK(done.qp_num == link.a->qp_num);
}

TEST_CASE("buffers stand in the memory of a receive queue, and an end where there is room") {
  const bool shared = GENERATE(false, true);
  const Link link({.receives = 4, .shared = shared});
  char* entry = nullptr;
  __be32* record = nullptr;
  if (shared) {
    const mlx5dv_srq queue = memory_of(link.srq);
    entry = static_cast<char*>(queue.buf) + sizeof(mlx5_wqe_srq_next_seg);
    record = queue.dbrec;
    std::memset(entry, 0x77, queue.stride - sizeof(mlx5_wqe_srq_next_seg));
  } else {
    const mlx5dv_qp queue = memory_of(link.b);
    entry = static_cast<char*>(queue.rq.buf);
    record = queue.dbrec + MLX5_RCV_DBR;
    std::memset(entry, 0x77, queue.rq.stride);
  }
  ibv_sge pieces[] = {link.piece(0x100, 16), link.piece(0x200, 0)};  // the second has no bytes
  ibv_recv_wr wr{}, *bad = nullptr;
  wr.sg_list = pieces;
  wr.num_sge = 2;
  REQUIRE((shared ? ibv_post_srq_recv(link.srq, &wr, &bad) : ibv_post_recv(link.b, &wr, &bad)) ==
          0);
  const Words written = {
      16, link.mr->lkey, high(link.address(0x100)), low(link.address(0x100)), 0, 0x100, 0, 0};
  CHECK(words(entry, 8) == written);
  CHECK(be32toh(*record) == 1);
}

TEST_CASE("the free entries of a shared receive queue are a list from the first to the last") {
  const Link link({.receives = 4, .shared = true});
  const mlx5dv_srq queue = memory_of(link.srq);
  CHECK(queue.head == 0);
  std::set<std::uint32_t> seen{0};
  std::uint32_t at = 0;
  while (at != queue.tail && seen.size() <= queue.tail) seen.insert(at = next_of(queue, at));
  CHECK(at == queue.tail);
  CHECK(seen.size() == queue.tail + 1);
}

TEST_CASE("a queue pair that begins anew has empty records") {
  const Link link({.receives = 4});
  const mlx5dv_qp queue = memory_of(link.a);
  ibv_sge piece = link.piece(0, 8);
  ibv_recv_wr buffer{}, *bad = nullptr;
  REQUIRE(ibv_post_recv(link.a, &buffer, &bad) == 0);
  ibv_send_wr write = link.request(IBV_WR_RDMA_WRITE, 1, 0x100);
  link.post(write, &piece, 1);
  CHECK(next(link.cq).status == IBV_WC_SUCCESS);
  CHECK(words(queue.dbrec, 2) == Words{1, 1});
  ibv_qp_attr reset{};
  reset.qp_state = IBV_QPS_RESET;
  REQUIRE(ibv_modify_qp(link.a, &reset, IBV_QP_STATE) == 0);
  CHECK(words(queue.dbrec, 2) == Words{0, 0});
}

TEST_CASE("the record of a completion queue says which event is wished, and from where on") {
  const Nic nic;
  ibv_comp_channel* channel = ibv_create_comp_channel(nic.context);
  REQUIRE(channel != nullptr);
  {
    const Link link({.channel = channel});
    const mlx5dv_cq queue = memory_of(link.cq);
    ibv_sge piece = link.piece(0, 8);
    for (std::uint32_t lap = 0; lap < 6; ++lap) {
      const bool solicited = lap % 2 != 0;
      REQUIRE(ibv_req_notify_cq(link.cq, solicited ? 1 : 0) == 0);
      CHECK(be32toh(queue.dbrec[1]) == ((lap & 3) << 28 | (solicited ? 1u << 24 : 0) | lap));
      if (solicited) REQUIRE(ibv_req_notify_cq(link.cq, 0) == 0);
      ibv_send_wr write = link.request(IBV_WR_RDMA_WRITE, lap, 0x100);
      link.post(write, &piece, 1);
      pollfd readable{channel->fd, POLLIN, 0};
      REQUIRE(::poll(&readable, 1, 1000 * gshmem::test::kPatience) == 1);
      ibv_cq* cq = nullptr;
      void* cq_context = nullptr;
      REQUIRE(ibv_get_cq_event(channel, &cq, &cq_context) == 0);
      ibv_ack_cq_events(cq, 1);
      CHECK(next(link.cq).wr_id == lap);
      CHECK(be32toh(queue.dbrec[0]) == lap + 1);
    }
    // A wish that no doorbell has told is none.
    queue.dbrec[1] = htobe32(2u << 28 | 6);
    ibv_send_wr write = link.request(IBV_WR_RDMA_WRITE, 6, 0x100);
    link.post(write, &piece, 1);
    CHECK(next(link.cq).wr_id == 6);
    pollfd unwished{channel->fd, POLLIN, 0};
    CHECK(::poll(&unwished, 1, 2) == 0);
    // Completions are no matter of the asynchronous events.
    pollfd asynchronous{link.nic.context->async_fd, POLLIN, 0};
    CHECK(::poll(&asynchronous, 1, 0) == 0);
  }
  CHECK(ibv_destroy_comp_channel(channel) == 0);
}

TEST_CASE("each of several completion queues is told by the channel that they share") {
  const Nic nic;
  ibv_comp_channel* channel = ibv_create_comp_channel(nic.context);
  REQUIRE(channel != nullptr);
  {
    const Link one({.channel = channel}), other({.channel = channel});
    for (const Link* link : {&one, &other}) {
      REQUIRE(ibv_req_notify_cq(link->cq, 0) == 0);
      ibv_sge piece = link->piece(0, 8);
      ibv_send_wr write = link->request(IBV_WR_RDMA_WRITE, 1, 0x100);
      link->post(write, &piece, 1);
      CHECK(next(link->cq).status == IBV_WC_SUCCESS);
    }
    std::set<ibv_cq*> told;
    for (int i = 0; i < 2; ++i) {
      pollfd readable{channel->fd, POLLIN, 0};
      REQUIRE(::poll(&readable, 1, 1000 * gshmem::test::kPatience) == 1);
      if (i == 0) std::this_thread::sleep_for(std::chrono::milliseconds(5));  // for the other one
      ibv_cq* cq = nullptr;
      void* cq_context = nullptr;
      REQUIRE(ibv_get_cq_event(channel, &cq, &cq_context) == 0);
      told.insert(cq);
      ibv_ack_cq_events(cq, 1);
    }
    CHECK(told == std::set<ibv_cq*>{one.cq, other.cq});
  }
  CHECK(ibv_destroy_comp_channel(channel) == 0);
}

TEST_CASE("who polls by the calls of an extended completion queue has it alone until the end") {
  const Link link;
  auto* cq = reinterpret_cast<ibv_cq_ex*>(link.cq);
  ibv_sge piece = link.piece(0, 8);
  ibv_send_wr write = link.request(IBV_WR_RDMA_WRITE, 1, 0x100);
  const auto start = [&] {
    ibv_poll_cq_attr none{};
    int code = ENOENT;
    const auto end =
        std::chrono::steady_clock::now() + std::chrono::seconds(gshmem::test::kPatience);
    while ((code = ibv_start_poll(cq, &none)) == ENOENT && std::chrono::steady_clock::now() < end)
      std::this_thread::yield();
    REQUIRE(code == 0);
  };
  link.post(write, &piece, 1);
  start();
  ibv_end_poll(cq);
  CHECK(words(memory_of(link.cq).dbrec, 1) == Words{1});
  write.wr.rdma.rkey = ~link.mr->rkey;
  link.post(write, &piece, 1);
  start();
  CHECK(cq->status == IBV_WC_REM_ACCESS_ERR);
  CHECK(words(memory_of(link.cq).dbrec, 1) == Words{1});  // what it reads is not given back yet
  bool done = false;
  std::thread other([&] {
    ibv_wc wc{};
    static_cast<void>(ibv_poll_cq(link.cq, 1, &wc));
    __atomic_store_n(&done, true, __ATOMIC_RELEASE);
  });
  std::this_thread::sleep_for(std::chrono::milliseconds(10));
  CHECK_FALSE(__atomic_load_n(&done, __ATOMIC_ACQUIRE));
  ibv_end_poll(cq);
  other.join();
  CHECK(words(memory_of(link.cq).dbrec, 1) == Words{2});
}
