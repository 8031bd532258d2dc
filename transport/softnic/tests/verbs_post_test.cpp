// Posting and polling by libibverbs: what programs that know nothing of queue entries do.
#include "transport/softnic/tests/verbs_link.h"

#include <fcntl.h>
#include <poll.h>

#include <cstring>
#include <numeric>
#include <thread>
#include <vector>

using namespace verbs_test;

TEST_CASE("writes and reads of several pieces arrive, and are told with their ids") {
  const Link link({.long_cqe = GENERATE(false, true)});
  std::iota(link.at(0), link.at(5000), std::uint8_t{3});
  ibv_sge out[3] = {link.piece(100, 1000), link.piece(0, 0), link.piece(2001, 2999)};
  ibv_send_wr write = link.request(IBV_WR_RDMA_WRITE, 7001, 0x4001);
  link.post(write, out, 3);
  const ibv_wc written = next(link.cq);
  CHECK(written.status == IBV_WC_SUCCESS);
  CHECK(written.opcode == IBV_WC_RDMA_WRITE);
  CHECK(written.wr_id == 7001);
  CHECK(written.qp_num == link.a->qp_num);
  CHECK(std::memcmp(link.at(0x4001), link.at(100), 1000) == 0);
  CHECK(std::memcmp(link.at(0x4001 + 1000), link.at(2001), 2999) == 0);
  CHECK(*link.at(0x4001 + 3999) == 0);

  ibv_sge in[2] = {link.piece(0x8000, 1), link.piece(0x9000, 3998)};
  ibv_send_wr read = link.request(IBV_WR_RDMA_READ, 7002, 0x4001);
  link.post(read, in, 2);
  const ibv_wc got = next(link.cq);
  CHECK(got.status == IBV_WC_SUCCESS);
  CHECK(got.opcode == IBV_WC_RDMA_READ);
  CHECK(got.wr_id == 7002);
  CHECK(got.byte_len == 3999);
  CHECK(*link.at(0x8000) == *link.at(0x4001));
  CHECK(std::memcmp(link.at(0x9000), link.at(0x4002), 3998) == 0);
}

TEST_CASE("atomics change the word and return what it was") {
  const Link link;
  const std::uint64_t before = 0x1122334455667788;
  std::memcpy(link.at(64), &before, 8);
  const auto word = [&](std::size_t offset) {
    std::uint64_t value = 0;
    std::memcpy(&value, link.at(offset), 8);
    return value;
  };
  ibv_sge result = link.piece(0, 8);
  ibv_send_wr add = link.request(IBV_WR_ATOMIC_FETCH_AND_ADD, 1, 64);
  add.wr.atomic = {link.address(64), 5, 0, link.mr->rkey};
  link.post(add, &result, 1);
  CHECK(next(link.cq).opcode == IBV_WC_FETCH_ADD);
  CHECK(word(0) == before);
  CHECK(word(64) == before + 5);
  ibv_send_wr swap = link.request(IBV_WR_ATOMIC_CMP_AND_SWP, 2, 64);
  swap.wr.atomic = {link.address(64), before + 5, 42, link.mr->rkey};
  link.post(swap, &result, 1);
  CHECK(next(link.cq).opcode == IBV_WC_COMP_SWAP);
  CHECK(word(64) == 42);
  link.post(swap, &result, 1);  // no longer equal
  CHECK(next(link.cq).status == IBV_WC_SUCCESS);
  CHECK(word(0) == 42);
  CHECK(word(64) == 42);
}

TEST_CASE("inline data is taken when it is posted, up to what the queue pair has room for") {
  const Link link;
  std::uint8_t text[201];
  std::iota(text, text + sizeof text, std::uint8_t{1});
  const auto post = [&](std::size_t bytes) {
    ibv_sge piece{reinterpret_cast<std::uintptr_t>(text), static_cast<std::uint32_t>(bytes), 0};
    ibv_send_wr write = link.request(IBV_WR_RDMA_WRITE, bytes, 0x1000);
    write.send_flags |= IBV_SEND_INLINE;
    write.sg_list = &piece;
    write.num_sge = 1;
    ibv_send_wr* bad = nullptr;
    const int code = ibv_post_send(link.a, &write, &bad);
    CHECK((code != 0) == (bad == &write));
    return code;
  };
  for (const std::size_t bytes : {1u, 11u, 12u, 13u, 60u, 200u}) {
    REQUIRE(post(bytes) == 0);
    CHECK(next(link.cq).wr_id == bytes);
    CHECK(std::memcmp(link.at(0x1000), text, bytes) == 0);
    CHECK(*link.at(0x1000 + bytes) == 0);
    std::memset(link.at(0x1000), 0, sizeof text);
  }
  CHECK(post(201) == EINVAL);
}

TEST_CASE("a full queue refuses, a completion gives all entries before it back") {
  const Link link;
  ibv_qp_attr attr{};
  ibv_qp_init_attr made{};
  REQUIRE(ibv_query_qp(link.a, &attr, IBV_QP_CAP, &made) == 0);
  const std::uint32_t depth = made.cap.max_send_wr;
  CHECK(depth >= Link::kDepth);
  ibv_sge piece = link.piece(0, 8);
  for (int lap = 0; lap < 5; ++lap) {
    std::vector<ibv_send_wr> chain(depth + 1);
    for (std::uint32_t i = 0; i <= depth; ++i) {
      chain[i] = link.request(IBV_WR_RDMA_WRITE, 100 * static_cast<unsigned>(lap) + i, 0x100);
      chain[i].send_flags = i + 1 == depth ? unsigned{IBV_SEND_SIGNALED} : 0u;
      chain[i].next = i < depth ? &chain[i + 1] : nullptr;
      chain[i].sg_list = &piece;
      chain[i].num_sge = 1;
    }
    ibv_send_wr* bad = nullptr;
    CHECK(ibv_post_send(link.a, chain.data(), &bad) == ENOMEM);
    CHECK(bad == &chain[depth]);
    const ibv_wc last = next(link.cq);
    CHECK(last.status == IBV_WC_SUCCESS);
    CHECK(last.wr_id == 100 * static_cast<unsigned>(lap) + depth - 1);
  }
  ibv_wc none{};
  CHECK(ibv_poll_cq(link.cq, 1, &none) == 0);
}

TEST_CASE("a failed request is told with its status, those after it as flushed") {
  const Link link;
  ibv_sge piece = link.piece(0, 8);
  ibv_send_wr chain[3];
  for (unsigned i = 0; i < 3; ++i) {
    chain[i] = link.request(IBV_WR_RDMA_WRITE, 50 + i, 0x100);
    chain[i].send_flags = 0;  // an error is told all the same
    chain[i].sg_list = &piece;
    chain[i].num_sge = 1;
    chain[i].next = i < 2 ? &chain[i + 1] : nullptr;
  }
  chain[1].wr.rdma.rkey = ~link.mr->rkey;
  ibv_send_wr* bad = nullptr;
  REQUIRE(ibv_post_send(link.a, chain, &bad) == 0);
  const ibv_wc failed = next(link.cq);
  CHECK(failed.status == IBV_WC_REM_ACCESS_ERR);
  CHECK(failed.wr_id == 51);
  const ibv_wc flushed = next(link.cq);
  CHECK(flushed.status == IBV_WC_WR_FLUSH_ERR);
  CHECK(flushed.wr_id == 52);
  CHECK(flushed.vendor_err == 0xf9);
  ibv_qp_attr now{};
  ibv_qp_init_attr made{};
  REQUIRE(ibv_query_qp(link.a, &now, IBV_QP_STATE, &made) == 0);
  CHECK(now.qp_state == IBV_QPS_ERR);

  // It starts anew: no completion of before is left, and the first entry is the first again.
  REQUIRE(ibv_post_send(link.a, &chain[2], &bad) == 0);  // flushed, and never polled
  ibv_qp_attr reset{};
  reset.qp_state = IBV_QPS_RESET;
  for (ibv_qp* qp : {link.a, link.b}) REQUIRE(ibv_modify_qp(qp, &reset, IBV_QP_STATE) == 0);
  link.connect_both();
  ibv_send_wr refused{};
  refused.opcode = IBV_WR_BIND_MW;
  CHECK(ibv_post_send(link.a, &refused, &bad) == EOPNOTSUPP);
  std::this_thread::sleep_for(std::chrono::milliseconds(20));  // nothing rings for what was before
  REQUIRE(ibv_query_qp(link.a, &now, IBV_QP_STATE, &made) == 0);
  CHECK(now.qp_state == IBV_QPS_RTS);
  ibv_send_wr write = link.request(IBV_WR_RDMA_WRITE, 60, 0x100);
  link.post(write, &piece, 1);
  const ibv_wc good = next(link.cq);
  CHECK(good.status == IBV_WC_SUCCESS);
  CHECK(good.wr_id == 60);
}

TEST_CASE("requests built by the calls of an extended queue pair") {
  constexpr std::uint64_t kCalls = IBV_QP_EX_WITH_RDMA_WRITE | IBV_QP_EX_WITH_RDMA_READ |
                                   IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP |
                                   IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD;
  const Link link({.calls = kCalls});
  ibv_qp_ex* qp = ibv_qp_to_qp_ex(link.a);
  REQUIRE(qp != nullptr);
  const std::uint32_t key = link.mr->rkey;
  std::memset(link.at(0), 0x5a, 64);
  const std::uint64_t nine = 9;
  ibv_wr_start(qp);
  qp->wr_flags = 0;
  qp->wr_id = 1;
  ibv_wr_rdma_write(qp, key, link.address(0x1000));
  ibv_wr_set_sge(qp, link.mr->lkey, link.address(0), 64);
  qp->wr_id = 2;
  ibv_wr_rdma_write(qp, key, link.address(0x2000));
  const ibv_data_buf buffers[] = {{link.at(0), 5}, {const_cast<std::uint64_t*>(&nine), 8}};
  ibv_wr_set_inline_data_list(qp, 2, buffers);
  qp->wr_id = 3;
  ibv_wr_atomic_fetch_add(qp, key, link.address(0x3000), 77);
  ibv_wr_set_sge(qp, link.mr->lkey, link.address(0x100), 8);
  qp->wr_id = 4;
  ibv_wr_atomic_cmp_swp(qp, key, link.address(0x3000), 77, 78);
  ibv_wr_set_sge(qp, link.mr->lkey, link.address(0x108), 8);
  qp->wr_id = 5;
  qp->wr_flags = IBV_SEND_SIGNALED | IBV_SEND_FENCE;
  ibv_wr_rdma_read(qp, key, link.address(0x1000));
  ibv_sge parts[] = {link.piece(0x200, 32), link.piece(0x300, 32)};
  ibv_wr_set_sge_list(qp, 2, parts);
  REQUIRE(ibv_wr_complete(qp) == 0);
  const ibv_wc last = next(link.cq);
  CHECK(last.status == IBV_WC_SUCCESS);
  CHECK(last.wr_id == 5);
  CHECK(std::memcmp(link.at(0x1000), link.at(0), 64) == 0);
  CHECK(std::memcmp(link.at(0x200), link.at(0), 32) == 0);
  CHECK(std::memcmp(link.at(0x300), link.at(0), 32) == 0);
  CHECK(std::memcmp(link.at(0x2005), &nine, 8) == 0);
  const std::uint64_t old[] = {0, 77};
  CHECK(std::memcmp(link.at(0x100), old, 16) == 0);

  // Nothing of a batch that is given up, or has an error, is executed.
  const std::uint8_t zero[8] = {};
  ibv_wr_start(qp);
  ibv_wr_rdma_write(qp, key, link.address(0x5000));
  ibv_wr_set_sge(qp, link.mr->lkey, link.address(0), 8);
  ibv_wr_abort(qp);
  ibv_wr_start(qp);
  ibv_wr_rdma_write(qp, key, link.address(0x5000));
  ibv_wr_set_sge(qp, link.mr->lkey, link.address(0), 8);
  ibv_wr_rdma_write(qp, key, link.address(0x5000));
  ibv_wr_set_inline_data(qp, link.at(0), 201);
  CHECK(ibv_wr_complete(qp) == EINVAL);
  ibv_wr_start(qp);
  qp->wr_id = 6;
  ibv_wr_rdma_write(qp, key, link.address(0x6000));
  ibv_wr_set_sge(qp, link.mr->lkey, link.address(0), 8);
  REQUIRE(ibv_wr_complete(qp) == 0);
  CHECK(next(link.cq).wr_id == 6);
  CHECK(std::memcmp(link.at(0x5000), zero, 8) == 0);
}

TEST_CASE("completions by the calls of an extended completion queue") {
  const Link link;
  auto* cq = reinterpret_cast<ibv_cq_ex*>(link.cq);
  ibv_poll_cq_attr none{};
  CHECK(ibv_start_poll(cq, &none) == ENOENT);
  ibv_sge piece = link.piece(0, 8);
  ibv_send_wr write = link.request(IBV_WR_RDMA_WRITE, 11, 0x100);
  ibv_send_wr read = link.request(IBV_WR_RDMA_READ, 12, 0x100);
  write.next = &read;
  read.sg_list = &piece;
  read.num_sge = 1;
  link.post(write, &piece, 1);
  const auto soon = [](const auto& poll) {
    int code = ENOENT;
    while ((code = poll()) == ENOENT) std::this_thread::yield();
    return code;
  };
  REQUIRE(soon([&] { return ibv_start_poll(cq, &none); }) == 0);
  CHECK(cq->wr_id == 11);
  CHECK(cq->status == IBV_WC_SUCCESS);
  CHECK(ibv_wc_read_opcode(cq) == IBV_WC_RDMA_WRITE);
  CHECK(ibv_wc_read_qp_num(cq) == link.a->qp_num);
  REQUIRE(soon([&] { return ibv_next_poll(cq); }) == 0);
  CHECK(cq->wr_id == 12);
  CHECK(ibv_wc_read_byte_len(cq) == 8);
  CHECK(ibv_wc_read_wc_flags(cq) == 0);
  CHECK(ibv_next_poll(cq) == ENOENT);
  ibv_end_poll(cq);
}
