// Tests queue pairs for datagrams, by the calls of libibverbs.
#include "transport/softnic/tests/verbs_api_rig.h"

#include <endian.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <vector>

using namespace verbs_test;

namespace {

constexpr std::uint32_t kKey = 0x1234567, kGrh = 40;

struct Datagrams {
  Nic nic;
  ibv_cq* cq = ibv_create_cq(nic.context, 63, nullptr, nullptr, 0);
  ibv_qp* qp = nullptr;
  Pages memory = pages(16384);
  ibv_mr* region = ibv_reg_mr(nic.pd, memory.get(), 16384, kLocalWrite);

  Datagrams() {
    REQUIRE((cq != nullptr && region != nullptr));
    ibv_qp_init_attr init{};
    init.send_cq = init.recv_cq = cq;
    init.cap = {16, 16, 1, 1, 0};
    init.qp_type = IBV_QPT_UD;
    qp = ibv_create_qp(nic.pd, &init);
    REQUIRE(qp != nullptr);
    ibv_qp_attr attr{};
    attr.port_num = 1;
    attr.qkey = kKey;
    for (const auto& [state, mask] :
         {std::pair{IBV_QPS_INIT, int{IBV_QP_PKEY_INDEX} | IBV_QP_PORT | IBV_QP_QKEY},
          std::pair{IBV_QPS_RTR, 0}, std::pair{IBV_QPS_RTS, int{IBV_QP_SQ_PSN}}}) {
      attr.qp_state = state;
      REQUIRE(ibv_modify_qp(qp, &attr, int{IBV_QP_STATE} | mask) == 0);
    }
  }
  Datagrams(const Datagrams&) = delete;
  ~Datagrams() {
    CHECK(ibv_destroy_qp(qp) == 0);
    CHECK(ibv_destroy_cq(cq) == 0);
    CHECK(ibv_dereg_mr(region) == 0);
  }

  [[nodiscard]] std::uint8_t* at(std::size_t offset) const {
    return static_cast<std::uint8_t*>(memory.get()) + offset;
  }
  [[nodiscard]] ibv_sge piece(std::size_t offset, std::uint32_t bytes) const {
    return {reinterpret_cast<std::uintptr_t>(at(offset)), bytes, region->lkey};
  }
  /// Posts a receive of `bytes` at offset 8192.
  void receive(std::uint32_t bytes) const {
    ibv_sge room = piece(8192, bytes);
    ibv_recv_wr request{7, nullptr, &room, 1};
    ibv_recv_wr* bad = nullptr;
    REQUIRE(ibv_post_recv(qp, &request, &bad) == 0);
  }
  /// Sends from offset 0; returns the status of the send.
  ibv_wc_status send(ibv_ah* ah, std::uint32_t bytes, std::uint32_t number, std::uint32_t key) {
    ibv_sge data = piece(0, bytes);
    ibv_send_wr request{};
    request.wr_id = 9;
    request.sg_list = &data;
    request.num_sge = 1;
    request.opcode = IBV_WR_SEND_WITH_IMM;
    request.imm_data = htobe32(0xabcd);
    request.send_flags = IBV_SEND_SIGNALED;
    request.wr.ud.ah = ah;
    request.wr.ud.remote_qpn = number;
    request.wr.ud.remote_qkey = key;
    ibv_send_wr* bad = nullptr;
    REQUIRE(ibv_post_send(qp, &request, &bad) == 0);
    return wait(9).status;
  }
  /// Returns the address of the port itself, by its LID.
  [[nodiscard]] ibv_ah_attr way_back() const {
    ibv_port_attr port;
    REQUIRE(ibv_query_port(nic.context, 1, &port) == 0);
    ibv_ah_attr way{};
    way.port_num = 1;
    way.dlid = port.lid;
    return way;
  }
  ibv_wc wait(std::uint64_t id) {
    const auto is = [&](const ibv_wc& wc) { return wc.wr_id == id; };
    for (;;) {
      if (const auto found = std::ranges::find_if(seen_, is); found != seen_.end()) {
        const ibv_wc wc = *found;
        seen_.erase(found);
        return wc;
      }
      poll();
    }
  }
  /// Returns the number of completions that were not waited for.
  [[nodiscard]] std::size_t others() {
    poll();
    return seen_.size();
  }

 private:
  void poll() {
    ibv_wc wc{};
    while (ibv_poll_cq(cq, 1, &wc) == 1) seen_.push_back(wc);
  }
  std::vector<ibv_wc> seen_;
};

}  // namespace

TEST_CASE("a datagram reaches the queue pair with its key, after room for a GRH") {
  Datagrams ends;
  ibv_ah_attr way = ends.way_back();
  const bool global = GENERATE(false, true);
  if (global) {
    way.is_global = 1;
    way.grh.hop_limit = 9;
    way.grh.traffic_class = 0x68;
    REQUIRE(ibv_query_gid(ends.nic.context, 1, 0, &way.grh.dgid) == 0);
  }
  ibv_ah* ah = ibv_create_ah(ends.nic.pd, &way);
  REQUIRE(ah != nullptr);
  std::fill_n(ends.at(0), 100, std::uint8_t{0x5a});
  std::fill_n(ends.at(8192), 200, std::uint8_t{0xee});

  // No queue has this key or this number: the sender gets no error.
  ends.receive(kGrh + 100);
  CHECK(ends.send(ah, 100, ends.qp->qp_num, kKey + 1) == IBV_WC_SUCCESS);
  CHECK(ends.send(ah, 100, ends.qp->qp_num + 1, kKey) == IBV_WC_SUCCESS);
  CHECK(ends.send(ah, 101, ends.qp->qp_num, kKey) == IBV_WC_SUCCESS);  // longer than the buffer
  CHECK(ends.others() == 0);
  // Bit 31 stands for the key of its own queue pair.
  CHECK(ends.send(ah, 100, ends.qp->qp_num, 1u << 31) == IBV_WC_SUCCESS);
  const ibv_wc wc = ends.wait(7);
  CHECK(wc.status == IBV_WC_SUCCESS);
  CHECK(wc.opcode == IBV_WC_RECV);
  CHECK(wc.byte_len == kGrh + 100);
  CHECK(wc.src_qp == ends.qp->qp_num);
  CHECK(wc.slid == way.dlid);
  CHECK(be32toh(wc.imm_data) == 0xabcd);
  CHECK(wc.wc_flags == (IBV_WC_WITH_IMM | (global ? unsigned{IBV_WC_GRH} : 0u)));
  CHECK(std::memcmp(ends.at(8192 + kGrh), ends.at(0), 100) == 0);
  CHECK(int{*ends.at(8192 + kGrh + 100)} == 0xee);
  if (global) {
    const std::array<std::uint8_t, 8> begin = {0x66, 0x80, 0, 0, 0, 124, 0x1b, 9};
    CHECK(std::equal(begin.begin(), begin.end(), ends.at(8192)));
    CHECK(std::memcmp(ends.at(8192 + 24), way.grh.dgid.raw, 16) == 0);
  } else {
    CHECK(int{*ends.at(8192)} == 0xee);
  }
  CHECK(ends.send(ah, 100, ends.qp->qp_num, kKey) == IBV_WC_SUCCESS);  // there is no buffer
  CHECK(ibv_destroy_ah(ah) == 0);
}

TEST_CASE("a datagram above the MTU is an error of its sender") {
  Datagrams ends;
  ibv_ah_attr way = ends.way_back();
  ibv_ah* ah = ibv_create_ah(ends.nic.pd, &way);
  REQUIRE(ah != nullptr);
  CHECK(ends.send(ah, 4097, ends.qp->qp_num, kKey) == IBV_WC_LOC_LEN_ERR);
  CHECK(ibv_destroy_ah(ah) == 0);
}
