// Cards and hosts of other kinds (GSHNIC_PROFILE), as programs see them by the libraries: Ethernet
// ports with their addresses, pages of 64 KiB, queue pairs without a doorbell record. And one that
// goes away.
#include "tests/nic/verbs_api_rig.h"
#include "tests/nic/verbs_commands.h"
#include "tests/nic/verbs_link.h"

#include <dlfcn.h>
#include <poll.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <vector>

using namespace verbs_test;

namespace {

// Before the libraries look: mlx5_0 and mlx5_1 on RoCE, mlx5_2 on InfiniBand.
const bool is_set =
    (setenv("GSHNIC_DEVICES", "3", 1),
     setenv("GSHNIC_PROFILE", "roce,mtu=1024,page=64k;roce6,no_record;ib", 1), true);

struct Port : Nic {
  using Nic::Nic;
  [[nodiscard]] ibv_port_attr attributes() const {
    ibv_port_attr attributes{};
    REQUIRE(ibv_query_port(context, 1, &attributes) == 0);
    return attributes;
  }
  [[nodiscard]] std::vector<ibv_gid_entry> gids() const {
    std::vector<ibv_gid_entry> entries(8);
    const ssize_t count = ibv_query_gid_table(context, entries.data(), entries.size(), 0);
    REQUIRE(count > 0);
    entries.resize(static_cast<std::size_t>(count));
    return entries;
  }
  /// What packets from GID `from` to `to` are addressed to; nothing when there is no answer.
  [[nodiscard]] std::vector<std::uint8_t> mac(const ibv_gid_entry& from, const ibv_gid& to) const {
    ibv_ah_attr attributes{};
    attributes.is_global = 1;
    attributes.port_num = 1;
    attributes.grh.dgid = to;
    attributes.grh.sgid_index = static_cast<std::uint8_t>(from.gid_index);
    attributes.grh.hop_limit = 17;
    attributes.grh.traffic_class = 0x68;
    attributes.grh.flow_label = 0x54321;
    attributes.sl = 3;
    errno = 0;
    ibv_ah* ah = ibv_create_ah(pd, &attributes);
    if (ah == nullptr) {
      CHECK(errno == ETIMEDOUT);
      return {};
    }
    mlx5dv_ah out{};
    mlx5dv_obj object{};
    object.ah.in = ah;
    object.ah.out = &out;
    REQUIRE(mlx5dv_init_obj(&object, MLX5DV_OBJ_AH) == 0);
    const std::vector<std::uint8_t> mac(out.av->rmac, out.av->rmac + 6);
    CHECK(int{out.av->hop_limit} == 17);
    CHECK(int{out.av->tclass} == 0x68);
    CHECK(int{out.av->stat_rate_sl} == 3);
    CHECK(be32toh(out.av->grh_gid_fl) == (1u << 30 | from.gid_index << 20 | 0x54321));
    CHECK(std::memcmp(out.av->rgid, to.raw, sizeof(to.raw)) == 0);
    ibv_destroy_ah(ah);
    return mac;
  }
};

bool is_ipv4(const ibv_gid& gid) { return gid.raw[0] == 0; }

}  // namespace

TEST_CASE("an Ethernet port has no LID, its MTU and addresses of both RoCE versions") {
  REQUIRE(is_set);
  const Port first(0), second(1), third(2);
  const ibv_port_attr ethernet = first.attributes();
  CHECK(ethernet.link_layer == IBV_LINK_LAYER_ETHERNET);
  CHECK(ethernet.lid == 0);
  CHECK(ethernet.active_mtu == IBV_MTU_1024);
  CHECK(third.attributes().link_layer == IBV_LINK_LAYER_INFINIBAND);
  CHECK(third.attributes().lid != 0);
  CHECK(third.attributes().active_mtu == IBV_MTU_4096);

  const std::vector<ibv_gid_entry> gids = first.gids();
  REQUIRE(gids.size() == 4);
  for (std::size_t i = 0; i < 4; ++i) {
    CHECK(gids[i].gid_index == i);
    CHECK(gids[i].gid_type == (i % 2 == 0 ? IBV_GID_TYPE_ROCE_V1 : IBV_GID_TYPE_ROCE_V2));
    CHECK(is_ipv4(gids[i].gid) == (i >= 2));
  }
  // fe80:: and the MAC with ff:fe in its midst and bit 1 of the first byte turned.
  const std::uint8_t local[16] = {0xfe, 0x80, 0,    0,    0,    0,    0, 0,
                                  0,    0x4e, 0x49, 0xff, 0xfe, 0x43, 0, 0};
  CHECK(std::memcmp(gids[1].gid.raw, local, 16) == 0);
  const std::uint8_t mapped[16] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 10, 0, 0, 1};
  CHECK(std::memcmp(gids[3].gid.raw, mapped, 16) == 0);
  CHECK(second.gids().size() == 2);
  CHECK(third.gids().size() == 1);
  CHECK(third.gids()[0].gid_type == IBV_GID_TYPE_IB);
}

TEST_CASE("the host's own addresses resolve to the port that sends, or to nothing") {
  const Port first(0), second(1);
  std::vector<std::uint8_t> own = {2, 0x4e, 0x49, 0x43, 0, 1};
  CHECK(second.mac(second.gids()[1], first.gids()[1].gid) == own);
  own.back() = 0;
  const ibv_gid_entry from = first.gids()[3];
  for (const ibv_gid_entry& mine : first.gids()) CHECK(first.mac(from, mine.gid) == own);
  // Those of the other port: by IPv6 its own MAC, where the frames do not get.
  CHECK(first.mac(from, second.gids()[1].gid) == own);
  ibv_gid ipv4 = from.gid;
  ipv4.raw[15] = 2;
  CHECK(first.mac(from, ipv4).empty());
  // There may be eight devices, as many as have addresses.
  ibv_gid other = second.gids()[1].gid;
  other.raw[15] = 7;
  CHECK(first.mac(from, other) == own);
  other.raw[15] = 8;
  CHECK(first.mac(from, other).empty());
  ibv_gid stranger = second.gids()[1].gid;
  stranger.raw[12] ^= 1;
  CHECK(first.mac(from, stranger).empty());
}

TEST_CASE("an address has a port and a GID that are there, on Ethernet both") {
  const Port ethernet(0), infiniband(2);
  const auto refused = [](const Port& port, const ibv_ah_attr& attributes) {
    ibv_ah_attr copy = attributes;
    errno = 0;
    ibv_ah* ah = ibv_create_ah(port.pd, &copy);
    if (ah != nullptr) ibv_destroy_ah(ah);
    return ah == nullptr ? errno : 0;
  };
  ibv_ah_attr good{};
  good.port_num = 1;
  good.is_global = 1;
  good.grh.dgid = ethernet.gids()[0].gid;
  good.grh.sgid_index = 3;
  CHECK(refused(ethernet, good) == 0);
  ibv_ah_attr bad = good;
  bad.grh.sgid_index = 4;
  CHECK(refused(ethernet, bad) == EINVAL);
  bad = good;
  bad.port_num = 2;
  CHECK(refused(ethernet, bad) == EINVAL);
  CHECK(refused(infiniband, bad) == EINVAL);
  bad = good;
  bad.is_global = 0;
  CHECK(refused(ethernet, bad) == EINVAL);
  CHECK(refused(infiniband, bad) == 0);
}

TEST_CASE("on Ethernet a queue pair is moved to a global address, by which it is reached") {
  const Port port(0);
  ibv_cq* cq = ibv_create_cq(port.context, 3, nullptr, nullptr, 0);
  REQUIRE(cq != nullptr);
  ibv_qp* qp = lone_qp(port, cq);
  ibv_qp_attr init = attributes(port, qp, IBV_QPS_INIT), rtr = attributes(port, qp, IBV_QPS_RTR),
              rts = attributes(port, qp, IBV_QPS_RTS);
  REQUIRE(ibv_modify_qp(qp, &init, kInitMask) == 0);
  rtr.path_mtu = IBV_MTU_1024;
  rtr.ah_attr.dlid = 1;
  rtr.ah_attr.grh.sgid_index = 3;
  rtr.ah_attr.grh.dgid = port.gids()[3].gid;
  CHECK(ibv_modify_qp(qp, &rtr, kRtrMask) == EINVAL);
  rtr.ah_attr.is_global = 1;
  rtr.ah_attr.grh.dgid.raw[15] = 2;  // nobody's
  CHECK(ibv_modify_qp(qp, &rtr, kRtrMask) == ETIMEDOUT);
  rtr.ah_attr.grh.dgid.raw[15] = 1;
  REQUIRE(ibv_modify_qp(qp, &rtr, kRtrMask) == 0);
  REQUIRE(ibv_modify_qp(qp, &rts, kRtsMask) == 0);
  ibv_send_wr write{}, *bad = nullptr;
  write.opcode = IBV_WR_RDMA_WRITE;
  write.send_flags = IBV_SEND_SIGNALED;
  REQUIRE(ibv_post_send(qp, &write, &bad) == 0);
  CHECK(next(cq).status == IBV_WC_SUCCESS);
  CHECK(ibv_destroy_qp(qp) == 0);
  CHECK(ibv_destroy_cq(cq) == 0);
}

TEST_CASE("a page of 64 KiB has 16 UARs with their registers") {
  const Port port(0);
  std::vector<mlx5dv_devx_uar*> uars;
  for (std::uint32_t i = 0; i < 65; ++i) {
    uars.push_back(mlx5dv_devx_alloc_uar(port.context, 1u << 31));
    REQUIRE(uars.back() != nullptr);
    const auto offset =
        static_cast<char*>(uars.back()->reg_addr) - static_cast<char*>(uars.back()->base_addr);
    if (i == 64) {
      CHECK(uars.back()->base_addr != uars.front()->base_addr);
      break;
    }
    CHECK(uars.back()->base_addr == uars.front()->base_addr);
    CHECK(uars.back()->page_id == uars.front()->page_id + i / 4);
    CHECK(offset == i / 4 * 4096 + 0x800 + i % 4 * 0x100);
  }
  for (mlx5dv_devx_uar* uar : uars) mlx5dv_devx_free_uar(uar);
}

TEST_CASE("queues can name each UAR of a page that has several") {
  const Port port(0);
  std::vector<mlx5dv_devx_uar*> uars;
  for (std::uint32_t i = 0; i < 5; ++i)
    uars.push_back(mlx5dv_devx_alloc_uar(port.context, 1u << 31));
  CHECK(uars.back()->page_id == uars.front()->page_id + 1);
  const Pages memory = pages(8192);
  mlx5dv_devx_umem* umem = mlx5dv_devx_umem_reg(port.context, memory.get(), 8192, kLocalWrite);
  REQUIRE(umem != nullptr);
  std::uint32_t eqn = 0;
  REQUIRE(mlx5dv_devx_query_eqn(port.context, 0, &eqn) == 0);
  for (const std::size_t i : {0u, 4u}) {
    const Bytes in = create_cq(
        {.umem = umem->umem_id, .uar = uars[i]->page_id, .eqn = eqn, .buffer = 4096, .record = 8});
    Bytes out(0x10);
    mlx5dv_devx_obj* cq =
        mlx5dv_devx_obj_create(port.context, in.data(), in.size(), out.data(), out.size());
    REQUIRE(cq != nullptr);
    CHECK(mlx5dv_devx_obj_destroy(cq) == 0);
  }
  CHECK(mlx5dv_devx_umem_dereg(umem) == 0);
  for (mlx5dv_devx_uar* uar : uars) mlx5dv_devx_free_uar(uar);
}

TEST_CASE(
    "queue pairs without doorbell records have a UAR of their own, where memory is the register") {
  const Port port(1);
  mlx5dv_devx_uar* one = mlx5dv_devx_alloc_uar(port.context, 1u << 31);
  mlx5dv_devx_uar* other = mlx5dv_devx_alloc_uar(port.context, 1u << 31);
  REQUIRE(one != nullptr);
  REQUIRE(other != nullptr);
  CHECK(one->page_id != other->page_id);
  mlx5dv_devx_free_uar(other);
  mlx5dv_devx_free_uar(one);
}

TEST_CASE("regions lie in pages of the host as they do in their addresses") {
  const Port large(0), small(2);
  constexpr std::size_t kBytes = 1 << 17;
  const Pages memory(std::aligned_alloc(1 << 16, kBytes));
  auto* at = static_cast<char*>(memory.get()) + 4096;
  CHECK(ibv_reg_mr_iova2(large.pd, at, 4096, 0, kAll) == nullptr);
  for (const auto& [port, iova] : {std::pair{&large, 4096u}, {&small, 0u}}) {
    ibv_mr* region = ibv_reg_mr_iova2(port->pd, at, 4096, iova, kAll);
    REQUIRE(region != nullptr);
    CHECK(ibv_dereg_mr(region) == 0);
  }
}

TEST_CASE("user memory may have pages up to the host's") {
  const Port large(0), small(2);
  const Pages memory(std::aligned_alloc(1 << 16, 1 << 18));
  mlx5dv_devx_umem_in in{};
  in.addr = memory.get();
  in.size = 1 << 18;
  in.access = kLocalWrite;
  const auto accepted = [&](const Port& port, std::uint64_t pages) {
    in.pgsz_bitmap = pages;
    mlx5dv_devx_umem* umem = mlx5dv_devx_umem_reg_ex(port.context, &in);
    return umem != nullptr && mlx5dv_devx_umem_dereg(umem) == 0;
  };
  CHECK(accepted(large, 1 << 16));
  CHECK(accepted(large, 4096));
  CHECK_FALSE(accepted(large, 1 << 17));  // memory may come in pieces of 64 KiB
  CHECK(accepted(small, 4096));
  CHECK_FALSE(accepted(small, 1 << 16));
}

TEST_CASE("a queue pair without a doorbell record needs a card that has them") {
  const Port with(1), without(2);
  const auto cap2 = [](const Port& port) {
    Bytes in = command(0x100), out(0x1010);
    bits(in, 4, 15, 0, 0x20 << 1 | 1);
    REQUIRE(mlx5dv_devx_general_cmd(port.context, in.data(), in.size(), out.data(), out.size()) ==
            0);
    return bits_at(out, 0x10 + 0x5c, 30, 30);
  };
  CHECK(cap2(with) == 1);
  CHECK(cap2(without) == 0);
  for (const auto& [port, status] : {std::pair{&with, 0u}, {&without, 3u}}) {
    const Pages memory = pages(1 << 16);
    mlx5dv_devx_umem* umem =
        mlx5dv_devx_umem_reg(port->context, memory.get(), 1 << 16, kLocalWrite);
    mlx5dv_devx_uar* uar = mlx5dv_devx_alloc_uar(port->context, MLX5DV_UAR_ALLOC_TYPE_BF);
    REQUIRE(umem != nullptr);
    REQUIRE(uar != nullptr);
    std::uint32_t eqn = 0;
    REQUIRE(mlx5dv_devx_query_eqn(port->context, 0, &eqn) == 0);
    mlx5dv_pd pd{};
    mlx5dv_obj object{};
    object.pd.in = port->pd;
    object.pd.out = &pd;
    REQUIRE(mlx5dv_init_obj(&object, MLX5DV_OBJ_PD) == 0);
    Bytes out(0x10);
    const Bytes cq_in =
        create_cq({.umem = umem->umem_id, .uar = uar->page_id, .eqn = eqn, .record = 0xf008});
    mlx5dv_devx_obj* cq =
        mlx5dv_devx_obj_create(port->context, cq_in.data(), cq_in.size(), out.data(), out.size());
    REQUIRE(cq != nullptr);
    Bytes qp_in = create_qp({.pd = pd.pdn,
                             .umem = umem->umem_id,
                             .uar = uar->page_id,
                             .cq = bits_at(out, 8, 23, 0),
                             .log_entries = 6,
                             .queue = 0x1000,
                             .record = 0xf000});
    bits(qp_in, kQpc + 0x10, 31, 30, 1);  // send_dbr_mode: none, rung by software
    mlx5dv_devx_obj* qp =
        mlx5dv_devx_obj_create(port->context, qp_in.data(), qp_in.size(), out.data(), out.size());
    CHECK((qp != nullptr) == (status == 0));
    CHECK(bits_at(out, 0, 31, 24) == status);
    if (qp != nullptr) mlx5dv_devx_obj_destroy(qp);
    mlx5dv_devx_obj_destroy(cq);
    mlx5dv_devx_free_uar(uar);
    mlx5dv_devx_umem_dereg(umem);
  }
}

// The last one: its device does not come back.
TEST_CASE(
    "a device that is removed says so, refuses all calls, and lets its objects be destroyed") {
  const Port port(2);
  ibv_cq* cq = ibv_create_cq(port.context, 1, nullptr, nullptr, 0);
  REQUIRE(cq != nullptr);
  ibv_qp* qp = lone_qp(port, cq);
  connect(port, qp, qp);
  mlx5dv_devx_event_channel* channel = mlx5dv_devx_create_event_channel(
      port.context, MLX5DV_DEVX_CREATE_EVENT_CHANNEL_FLAGS_OMIT_EV_DATA);
  REQUIRE(channel != nullptr);
  const auto inject = reinterpret_cast<int (*)(const char*)>(dlsym(RTLD_DEFAULT, "gshnic_inject"));
  REQUIRE((inject != nullptr && inject("op=write:device=gone") == 0));
  ibv_send_wr wr{}, *bad = nullptr;
  wr.opcode = IBV_WR_RDMA_WRITE;
  wr.send_flags = IBV_SEND_SIGNALED;
  REQUIRE(ibv_post_send(qp, &wr, &bad) == 0);

  ibv_async_event event{};
  REQUIRE(ibv_get_async_event(port.context, &event) == 0);
  CHECK(event.event_type == IBV_EVENT_DEVICE_FATAL);
  ibv_ack_async_event(&event);
  pollfd events{port.context->async_fd, POLLIN, 0};
  REQUIRE(poll(&events, 1, 1000 * gshmem::test::kPatience) == 1);
  CHECK((events.revents & (POLLHUP | POLLERR)) != 0);
  errno = 0;
  CHECK(ibv_get_async_event(port.context, &event) == -1);
  CHECK(errno == EIO);
  mlx5dv_devx_async_event_hdr header{};
  errno = 0;
  CHECK(mlx5dv_devx_get_event(channel, &header, sizeof(header)) == -1);
  CHECK(errno == EIO);
  mlx5dv_devx_destroy_event_channel(channel);

  ibv_port_attr attr{};
  CHECK(ibv_query_port(port.context, 1, &attr) == EIO);
  errno = 0;
  CHECK(ibv_alloc_pd(port.context) == nullptr);
  CHECK(errno == EIO);
  std::uint8_t out[0x10] = {};
  const Bytes alloc_pd = command(0x800);
  errno = 0;
  CHECK(mlx5dv_devx_obj_create(port.context, alloc_pd.data(), alloc_pd.size(), out, sizeof(out)) ==
        nullptr);
  CHECK(errno == EIO);
  ibv_wc wc{};
  CHECK(ibv_poll_cq(cq, 1, &wc) == 0);
  CHECK(ibv_destroy_qp(qp) == 0);
  CHECK(ibv_destroy_cq(cq) == 0);
}
