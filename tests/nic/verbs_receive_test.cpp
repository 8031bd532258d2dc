// Messages that end in a buffer which the receiver has posted: sends, and writes with immediate
// data.
#include "tests/nic/verbs_link.h"

#include <endian.h>
#include <fcntl.h>
#include <poll.h>

#include <algorithm>
#include <cstring>
#include <numeric>
#include <vector>

using namespace verbs_test;

namespace {

constexpr std::size_t kFrom = 0, kInto = 0x8000;

/// Posts a buffer of `count` pieces to the receiver.
int receive(const Link& link, std::uint64_t id, ibv_sge* pieces, int count) {
  ibv_recv_wr wr{};
  wr.wr_id = id;
  wr.sg_list = pieces;
  wr.num_sge = count;
  ibv_recv_wr untouched{};
  ibv_recv_wr* bad = &untouched;
  const int code = link.srq != nullptr ? ibv_post_srq_recv(link.srq, &wr, &bad)
                                       : ibv_post_recv(link.b, &wr, &bad);
  CHECK(bad == (code != 0 ? &wr : &untouched));
  return code;
}
void receive_at(const Link& link, std::uint64_t id, std::size_t bytes) {
  ibv_sge piece = link.piece(kInto, bytes);
  REQUIRE(receive(link, id, &piece, 1) == 0);
}
void send(const Link& link, std::uint64_t id, std::size_t bytes) {
  ibv_sge piece = link.piece(kFrom, bytes);
  ibv_send_wr wr = link.request(IBV_WR_SEND, id);
  link.post(wr, &piece, 1);
}
void fill(const Link& link, std::size_t bytes, std::uint8_t first) {
  std::iota(link.at(kFrom), link.at(kFrom + bytes), first);
}
ibv_qp_state state_of(ibv_qp* qp) {
  ibv_qp_attr now{};
  ibv_qp_init_attr made{};
  REQUIRE(ibv_query_qp(qp, &now, IBV_QP_STATE, &made) == 0);
  return now.qp_state;
}

}  // namespace

TEST_CASE("a send fills the buffers in their order, over pieces and packets", "[receive]") {
  const Link link({.receives = 4, .shared = GENERATE(false, true), .mtu = IBV_MTU_256});
  for (std::uint8_t lap = 0; lap < 3; ++lap) {
    const std::size_t bytes = 5000u + lap;
    fill(link, bytes, lap);
    std::memset(link.at(kInto), 0, 0x8000);
    ibv_sge parts[] = {link.piece(kInto, 300), link.piece(kInto + 0x1001, 1),
                       link.piece(kInto + 0x2000, 6000)};
    for (std::uint64_t id = 0; id < 4; ++id) {
      ibv_sge small = link.piece(kInto + 0x6000 + 64 * id, 64);
      REQUIRE(receive(link, 10u * lap + id, id == 1 ? parts : &small, id == 1 ? 3 : 1) == 0);
    }
    send(link, 1, 64);
    send(link, 2, bytes);
    send(link, 3, 1);
    ibv_send_wr wr = link.request(IBV_WR_SEND_WITH_IMM, 4);
    wr.imm_data = htobe32(0xcafe0000u + lap);
    link.post(wr, nullptr, 0);
    for (std::uint64_t id = 1; id <= 4; ++id) {
      const ibv_wc sent = next(link.cq);
      CHECK(sent.wr_id == id);
      CHECK(sent.status == IBV_WC_SUCCESS);
      CHECK(sent.opcode == IBV_WC_SEND);
    }
    const std::uint32_t lengths[] = {64, static_cast<std::uint32_t>(bytes), 1, 0};
    for (std::uint64_t id = 0; id < 4; ++id) {
      const ibv_wc got = next(link.receive_cq);
      CHECK(got.status == IBV_WC_SUCCESS);
      CHECK(got.opcode == IBV_WC_RECV);
      CHECK(got.wr_id == 10u * lap + id);
      CHECK(got.byte_len == lengths[id]);
      CHECK(got.qp_num == link.b->qp_num);
      CHECK(got.src_qp == link.a->qp_num);
      CHECK(got.wc_flags == (id == 3 ? unsigned{IBV_WC_WITH_IMM} : 0u));
      if (id == 3) CHECK(be32toh(got.imm_data) == 0xcafe0000u + lap);
    }
    CHECK(std::memcmp(link.at(kInto), link.at(kFrom), 300) == 0);
    CHECK(*link.at(kInto + 0x1001) == *link.at(kFrom + 300));
    CHECK(std::memcmp(link.at(kInto + 0x2000), link.at(kFrom + 301), bytes - 301) == 0);
    CHECK(*link.at(kInto + 0x2000 + bytes - 301) == 0);
    // Nothing before the pieces, where a packet goes on in the next one.
    CHECK(*link.at(kInto + 0x1000) == 0);
    CHECK(*link.at(kInto + 0x1fff) == 0);
  }
}

TEST_CASE("a write with immediate data takes a buffer and leaves it empty", "[receive]") {
  const Link link({.receives = 2, .mtu = IBV_MTU_512});
  for (const std::size_t bytes : {std::size_t{3000}, std::size_t{0}}) {
    fill(link, 3000, 5);
    std::memset(link.at(kInto), 0, 0x8000);
    receive_at(link, 40 + bytes, 8);
    ibv_sge piece = link.piece(kFrom, bytes);
    ibv_send_wr wr = link.request(IBV_WR_RDMA_WRITE_WITH_IMM, 9, kInto + 0x1000);
    wr.imm_data = htobe32(77);
    if (bytes == 0) wr.wr.rdma = {0, 0};  // UCX's rc_verbs: without bytes no key is looked at
    link.post(wr, &piece, 1);
    const ibv_wc got = next(link.receive_cq);
    CHECK(got.status == IBV_WC_SUCCESS);
    CHECK(got.opcode == IBV_WC_RECV_RDMA_WITH_IMM);
    CHECK(got.wr_id == 40 + bytes);
    CHECK(got.byte_len == bytes);
    CHECK(be32toh(got.imm_data) == 77);
    CHECK(std::memcmp(link.at(kInto + 0x1000), link.at(kFrom), bytes) == 0);
    CHECK(*link.at(kInto) == 0);
    const ibv_wc sent = next(link.cq);
    CHECK(sent.opcode == IBV_WC_RDMA_WRITE);
    CHECK(sent.wr_id == 9);
  }
}

TEST_CASE("messages by the calls of extended queue pairs and completion queues", "[receive]") {
  const Link link({.calls = IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_SEND_WITH_IMM |
                            IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM,
                   .receives = 4});
  fill(link, 64, 9);
  for (std::uint64_t id = 1; id <= 3; ++id) {
    ibv_sge piece = link.piece(kInto + 0x100 * id, 64);
    REQUIRE(receive(link, id, &piece, 1) == 0);
  }
  ibv_qp_ex* qp = ibv_qp_to_qp_ex(link.a);
  REQUIRE(qp != nullptr);
  ibv_wr_start(qp);
  qp->wr_flags = IBV_SEND_SIGNALED;
  qp->wr_id = 11;
  ibv_wr_send(qp);
  ibv_wr_set_sge(qp, link.mr->lkey, link.address(kFrom), 64);
  qp->wr_id = 12;
  ibv_wr_send_imm(qp, htobe32(0x1234));
  ibv_wr_set_inline_data(qp, link.at(kFrom + 1), 20);
  qp->wr_id = 13;
  ibv_wr_rdma_write_imm(qp, link.mr->rkey, link.address(kInto + 0x1000), htobe32(0x5678));
  ibv_wr_set_sge(qp, link.mr->lkey, link.address(kFrom + 2), 30);
  REQUIRE(ibv_wr_complete(qp) == 0);
  for (std::uint64_t id = 11; id <= 13; ++id) {
    const ibv_wc sent = next(link.cq);
    CHECK(sent.status == IBV_WC_SUCCESS);
    CHECK(sent.wr_id == id);
    CHECK(sent.opcode == (id == 13 ? IBV_WC_RDMA_WRITE : IBV_WC_SEND));
  }
  // What is acknowledged has completed at the receiver.
  auto* cq = reinterpret_cast<ibv_cq_ex*>(link.receive_cq);
  ibv_poll_cq_attr wanted{};
  wanted.comp_mask = 1;
  CHECK(ibv_start_poll(cq, &wanted) == EINVAL);
  wanted.comp_mask = 0;
  REQUIRE(ibv_start_poll(cq, &wanted) == 0);
  const std::uint32_t lengths[] = {64, 20, 30}, immediates[] = {0, 0x1234, 0x5678};
  for (std::uint32_t i = 0; i < 3; ++i) {
    if (i > 0) REQUIRE(ibv_next_poll(cq) == 0);
    CHECK(cq->wr_id == i + 1);
    CHECK(cq->status == IBV_WC_SUCCESS);
    CHECK(ibv_wc_read_opcode(cq) == (i == 2 ? IBV_WC_RECV_RDMA_WITH_IMM : IBV_WC_RECV));
    CHECK(ibv_wc_read_byte_len(cq) == lengths[i]);
    CHECK(be32toh(ibv_wc_read_imm_data(cq)) == immediates[i]);
    CHECK(ibv_wc_read_wc_flags(cq) == (i > 0 ? unsigned{IBV_WC_WITH_IMM} : 0u));
    CHECK(ibv_wc_read_qp_num(cq) == link.b->qp_num);
    CHECK(ibv_wc_read_src_qp(cq) == link.a->qp_num);
    CHECK(ibv_wc_read_vendor_err(cq) == 0);
    CHECK(ibv_wc_read_slid(cq) == 0);
    CHECK(int{ibv_wc_read_sl(cq)} == 0);
    CHECK(int{ibv_wc_read_dlid_path_bits(cq)} == 0);
  }
  CHECK(ibv_next_poll(cq) == ENOENT);
  ibv_end_poll(cq);
  CHECK(std::memcmp(link.at(kInto + 0x100), link.at(kFrom), 64) == 0);
  CHECK(std::memcmp(link.at(kInto + 0x200), link.at(kFrom + 1), 20) == 0);
  CHECK(std::memcmp(link.at(kInto + 0x1000), link.at(kFrom + 2), 30) == 0);
  CHECK(*link.at(kInto + 0x300) == 0);
}

TEST_CASE("a sender waits for a buffer as long as its retries allow", "[receive]") {
  SECTION("without end") {
    const Link link({.receives = 2, .mtu = IBV_MTU_256});
    fill(link, 1000, 1);
    send(link, 1, 1000);
    ibv_sge piece = link.piece(kFrom, 500);
    ibv_send_wr write = link.request(IBV_WR_RDMA_WRITE_WITH_IMM, 2, kInto + 0x1000);
    link.post(write, &piece, 1);
    std::this_thread::sleep_for(std::chrono::milliseconds(5));  // several RNR NAKs
    ibv_wc none{};
    CHECK(ibv_poll_cq(link.cq, 1, &none) == 0);
    CHECK(*link.at(kInto + 0x1000) == 0);  // nor was the write after it executed
    receive_at(link, 7, 1000);
    CHECK(next(link.cq).status == IBV_WC_SUCCESS);
    CHECK(next(link.receive_cq).wr_id == 7);
    receive_at(link, 8, 0);
    CHECK(next(link.cq).wr_id == 2);
    CHECK(next(link.receive_cq).wr_id == 8);
    CHECK(std::memcmp(link.at(kInto), link.at(kFrom), 1000) == 0);
    CHECK(std::memcmp(link.at(kInto + 0x1000), link.at(kFrom), 500) == 0);
  }
  SECTION("to an end") {
    const Link link({.receives = 2, .rnr_retry = 1});
    send(link, 1, 8);
    const ibv_wc failed = next(link.cq);
    CHECK(failed.status == IBV_WC_RNR_RETRY_EXC_ERR);
    CHECK(failed.wr_id == 1);
    CHECK(state_of(link.a) == IBV_QPS_ERR);
    CHECK(state_of(link.b) == IBV_QPS_RTS);  // nothing has happened to it
  }
}

TEST_CASE("a receiver asks for the pause of its last transition that names one", "[receive]") {
  const bool named = GENERATE(false, true);  // by the transition to RTS
  constexpr std::uint8_t kShort = 1, kLong = 20;
  const Link link({.receives = 2, .rnr_retry = 1});
  ibv_qp_attr reset{};
  reset.qp_state = IBV_QPS_RESET;
  REQUIRE(ibv_modify_qp(link.b, &reset, IBV_QP_STATE) == 0);
  ibv_qp_attr init = attributes(link.nic, link.a, IBV_QPS_INIT);
  ibv_qp_attr rtr = attributes(link.nic, link.a, IBV_QPS_RTR);
  ibv_qp_attr rts = attributes(link.nic, link.a, IBV_QPS_RTS);
  rtr.rq_psn = 0xfffffe;
  rtr.min_rnr_timer = named ? kShort : kLong;
  rts.min_rnr_timer = named ? kLong : kShort;
  REQUIRE(ibv_modify_qp(link.b, &init, kInitMask) == 0);
  REQUIRE(ibv_modify_qp(link.b, &rtr, kRtrMask) == 0);
  REQUIRE(ibv_modify_qp(link.b, &rts, kRtsMask | (named ? int{IBV_QP_MIN_RNR_TIMER} : 0)) == 0);
  const auto begin = std::chrono::steady_clock::now();
  send(link, 1, 8);
  CHECK(next(link.cq).status == IBV_WC_RNR_RETRY_EXC_ERR);
  CHECK(std::chrono::steady_clock::now() - begin >= std::chrono::milliseconds(10));  // 10.24
}

TEST_CASE("a buffer that does not fit fails on both sides, and those after it are flushed",
          "[receive]") {
  const bool short_one = GENERATE(true, false);
  const Link link({.receives = 3, .mtu = IBV_MTU_256});
  ibv_sge piece = link.piece(kInto, short_one ? 999 : 1000);
  if (!short_one) piece.lkey = ~piece.lkey;
  REQUIRE(receive(link, 1, &piece, 1) == 0);
  receive_at(link, 2, 64);
  send(link, 5, 1000);
  const ibv_wc sent = next(link.cq);
  CHECK(sent.wr_id == 5);
  CHECK(sent.status == (short_one ? IBV_WC_REM_INV_REQ_ERR : IBV_WC_REM_OP_ERR));
  const ibv_wc got = next(link.receive_cq);
  CHECK(got.wr_id == 1);
  CHECK(got.status == (short_one ? IBV_WC_LOC_LEN_ERR : IBV_WC_LOC_PROT_ERR));
  CHECK(got.vendor_err == 0);
  const ibv_wc flushed = next(link.receive_cq);
  CHECK(flushed.wr_id == 2);
  CHECK(flushed.status == IBV_WC_WR_FLUSH_ERR);
  CHECK(flushed.vendor_err == 0xf9);
  CHECK(state_of(link.b) == IBV_QPS_ERR);
  receive_at(link, 3, 64);  // posted in error: flushed, too
  const ibv_wc late = next(link.receive_cq);
  CHECK(late.wr_id == 3);
  CHECK(late.status == IBV_WC_WR_FLUSH_ERR);
}

TEST_CASE("a send without bytes needs no memory to go to", "[receive]") {
  const Link link({.receives = 1});
  ibv_sge piece = link.piece(kInto, 1000);
  piece.lkey = ~piece.lkey;
  REQUIRE(receive(link, 1, &piece, 1) == 0);
  ibv_send_wr wr = link.request(IBV_WR_SEND, 2);
  link.post(wr, nullptr, 0);
  CHECK(next(link.cq).status == IBV_WC_SUCCESS);
  const ibv_wc got = next(link.receive_cq);
  CHECK(got.status == IBV_WC_SUCCESS);
  CHECK(got.byte_len == 0);
}

TEST_CASE("without a receive queue a send is an invalid request", "[receive]") {
  const Link link;
  send(link, 1, 8);
  CHECK(next(link.cq).status == IBV_WC_REM_INV_REQ_ERR);
}

TEST_CASE("a receive queue takes as many buffers as it has, pieces as it has", "[receive]") {
  const Link link({.receives = 4, .shared = GENERATE(false, true)});
  ibv_qp_attr attr{};
  ibv_qp_init_attr made{};
  REQUIRE(ibv_query_qp(link.b, &attr, IBV_QP_CAP, &made) == 0);
  ibv_srq_attr shared{};
  if (link.srq != nullptr) REQUIRE(ibv_query_srq(link.srq, &shared) == 0);
  const std::uint32_t most = link.srq != nullptr ? shared.max_wr : made.cap.max_recv_wr;
  const std::uint32_t pieces = link.srq != nullptr ? shared.max_sge : made.cap.max_recv_sge;
  CHECK(most >= 4);
  CHECK(pieces >= 3);
  std::vector<ibv_sge> many(pieces + 1, link.piece(kInto, 1));
  for (std::uint32_t i = 0; i < most; ++i)
    REQUIRE(receive(link, i, many.data(), static_cast<int>(pieces)) == 0);
  CHECK(receive(link, 99, many.data(), 1) == ENOMEM);
  send(link, 1, 1);
  CHECK(next(link.receive_cq).wr_id == 0);
  CHECK(receive(link, 100, many.data(), static_cast<int>(pieces) + 1) == EINVAL);
  CHECK(receive(link, 100, many.data(), 1) == 0);
}

TEST_CASE("buffers of a shared queue outlive a queue pair, whose client is told", "[receive]") {
  const Link link({.receives = 4, .shared = true});
  receive_at(link, 1, 64);
  receive_at(link, 2, 64);
  send(link, 1, 65);  // too long: the first buffer fails
  CHECK(next(link.cq).status == IBV_WC_REM_INV_REQ_ERR);
  CHECK(next(link.receive_cq).wr_id == 1);
  int told = 0;
  pollfd events{link.nic.context->async_fd, POLLIN, 0};
  // Once, which is all that comes.
  while (::poll(&events, 1, told == 0 ? 1000 * gshmem::test::kPatience : 5) == 1 && told < 100) {
    ibv_async_event event{};
    REQUIRE(ibv_get_async_event(link.nic.context, &event) == 0);
    told += event.event_type == IBV_EVENT_QP_LAST_WQE_REACHED && event.element.qp == link.b;
    ibv_ack_async_event(&event);
  }
  CHECK(told == 1);
  ibv_qp_attr reset{};
  reset.qp_state = IBV_QPS_RESET;
  for (ibv_qp* qp : {link.a, link.b}) REQUIRE(ibv_modify_qp(qp, &reset, IBV_QP_STATE) == 0);
  link.connect_both();
  send(link, 2, 64);
  const ibv_wc got = next(link.receive_cq);
  CHECK(got.status == IBV_WC_SUCCESS);
  CHECK(got.wr_id == 2);
}

TEST_CASE("a shared buffer that is free again is used, not one that is still to be polled",
          "[receive]") {
  const Link link({.receives = 4, .shared = true, .one_cq_of_a = true});
  ibv_srq_attr shared{};
  REQUIRE(ibv_query_srq(link.srq, &shared) == 0);
  const std::uint64_t most = shared.max_wr;
  for (std::uint64_t id = 0; id < most; ++id) receive_at(link, id, 64);
  send(link, 100, 8);
  CHECK(next(link.cq).wr_id == 100);  // has filled the first buffer, of which nobody knows yet
  ibv_sge piece = link.piece(kFrom, 8);
  std::vector<std::uint64_t> told;
  for (const std::uint64_t id : {101u, 102u}) {
    ibv_send_wr back = link.request(IBV_WR_SEND, id);
    Link::post_by(link.b, back, &piece, 1);
    told.push_back(next(link.cq).wr_id);
    told.push_back(next(link.cq).wr_id);
  }
  std::sort(told.begin(), told.end());
  CHECK(told == std::vector<std::uint64_t>{1, 2, 101, 102});  // the second and the third buffer
  receive_at(link, 50, 64);
  receive_at(link, 51, 64);
  CHECK(next(link.receive_cq).wr_id == 0);
  std::vector<std::uint64_t> got, due{50, 51};
  for (std::uint64_t id = most; --id > 2;) due.insert(due.begin(), id);
  for (std::uint64_t id = 60; id < 60 + 2 * most; ++id) due.push_back(id);  // two laps more
  for (std::size_t i = 0; i < due.size(); ++i) {
    send(link, i, 8);
    CHECK(next(link.cq).wr_id == i);
    got.push_back(next(link.receive_cq).wr_id);
    if (i < 2 * most) receive_at(link, 60 + i, 64);
  }
  CHECK(got == due);
}

TEST_CASE("a queue pair that begins anew has received nothing", "[receive]") {
  const Link link({.receives = 4});
  receive_at(link, 1, 64);
  send(link, 7, 8);
  CHECK(next(link.cq).wr_id == 7);  // its answer comes after the completion at the far end
  ibv_qp_attr reset{};
  reset.qp_state = IBV_QPS_RESET;
  REQUIRE(ibv_modify_qp(link.b, &reset, IBV_QP_STATE) == 0);
  ibv_wc none{};
  CHECK(ibv_poll_cq(link.receive_cq, 1, &none) == 0);
}

TEST_CASE("a queue pair that begins anew has no buffers of before", "[receive]") {
  const Link link({.receives = 4});
  receive_at(link, 1, 64);
  receive_at(link, 2, 64);
  ibv_qp_attr reset{};
  reset.qp_state = IBV_QPS_RESET;
  for (ibv_qp* qp : {link.a, link.b}) REQUIRE(ibv_modify_qp(qp, &reset, IBV_QP_STATE) == 0);
  link.connect_both();
  receive_at(link, 3, 64);
  send(link, 1, 64);
  const ibv_wc got = next(link.receive_cq);
  CHECK(got.status == IBV_WC_SUCCESS);
  CHECK(got.wr_id == 3);
}

TEST_CASE("who waits for solicited messages is not woken by others", "[receive]") {
  const Nic nic;
  ibv_comp_channel* channel = ibv_create_comp_channel(nic.context);
  REQUIRE(channel != nullptr);
  {
    const Link link({.channel = channel, .receives = 4});
    const auto readable = [&](int milliseconds) {
      pollfd one{channel->fd, POLLIN, 0};
      return ::poll(&one, 1, milliseconds) == 1;
    };
    receive_at(link, 1, 8);
    receive_at(link, 2, 8);
    REQUIRE(ibv_req_notify_cq(link.receive_cq, 1) == 0);
    send(link, 1, 8);
    CHECK(next(link.cq).status == IBV_WC_SUCCESS);
    CHECK_FALSE(readable(0));
    ibv_sge piece = link.piece(kFrom, 8);
    ibv_send_wr wr = link.request(IBV_WR_SEND, 2);
    wr.send_flags |= IBV_SEND_SOLICITED;
    link.post(wr, &piece, 1);
    REQUIRE(readable(1000 * gshmem::test::kPatience));
    ibv_cq* cq = nullptr;
    void* cq_context = nullptr;
    REQUIRE(ibv_get_cq_event(channel, &cq, &cq_context) == 0);
    CHECK(cq == link.receive_cq);
    ibv_ack_cq_events(cq, 1);
    for (int i = 0; i < 2; ++i) CHECK(next(link.receive_cq).status == IBV_WC_SUCCESS);
    // Nor by a solicited one that has been polled before the wish.
    for (const bool solicited : {true, false, false}) {
      receive_at(link, 3, 8);
      ibv_send_wr more = link.request(IBV_WR_SEND, 3);
      if (solicited) more.send_flags |= IBV_SEND_SOLICITED;
      link.post(more, &piece, 1);
      CHECK(next(link.receive_cq).wr_id == 3);
    }
    REQUIRE(ibv_req_notify_cq(link.receive_cq, 1) == 0);
    receive_at(link, 4, 8);
    send(link, 4, 8);
    CHECK(next(link.receive_cq).wr_id == 4);
    CHECK_FALSE(readable(2));
  }
  CHECK(ibv_destroy_comp_channel(channel) == 0);
}
