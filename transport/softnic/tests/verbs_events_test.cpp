// Events that come by themselves, with what they are of: by the context, and by channels of DevX.
#include "transport/softnic/tests/verbs_devx.h"
#include "transport/softnic/tests/verbs_link.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/resource.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <filesystem>
#include <iterator>
#include <string>
#include <thread>

using namespace verbs_test;

namespace {

int inject(const char* rules) {
  const auto call = reinterpret_cast<int (*)(const char*)>(dlsym(RTLD_DEFAULT, "gshnic_inject"));
  return call != nullptr ? call(rules) : -1;
}

/// The next one, acknowledged.
ibv_async_event next_event(ibv_context* context) {
  pollfd ready{context->async_fd, POLLIN, 0};
  REQUIRE(::poll(&ready, 1, 1000 * gshmem::test::kPatience) == 1);
  ibv_async_event event{};
  REQUIRE(ibv_get_async_event(context, &event) == 0);
  ibv_ack_async_event(&event);
  return event;
}
bool has_event(ibv_context* context) {
  pollfd ready{context->async_fd, POLLIN, 0};
  return ::poll(&ready, 1, 0) == 1;
}

void write_to(const Link& link, std::size_t to, std::uint32_t key) {
  ibv_sge piece = link.piece(0, 8);
  ibv_send_wr write = link.request(IBV_WR_RDMA_WRITE, 1, to);
  write.wr.rdma.rkey = key;
  link.post(write, &piece, 1);
}

}  // namespace

TEST_CASE("a port that goes down and comes up tells every context of its device") {
  const Link link;
  const Nic other;
  REQUIRE(inject("op=write:times=1:port=flap:2ms") == 0);
  write_to(link, 0x100, link.mr->rkey);
  for (ibv_context* const context : {link.nic.context, other.context}) {
    const ibv_async_event down = next_event(context);
    CHECK(down.event_type == IBV_EVENT_PORT_ERR);
    CHECK(down.element.port_num == 1);
    const ibv_async_event up = next_event(context);
    CHECK(up.event_type == IBV_EVENT_PORT_ACTIVE);
    CHECK(up.element.port_num == 1);
  }
  CHECK(next(link.cq).status == IBV_WC_SUCCESS);
}

TEST_CASE("a queue pair that fails at the far end tells whose context has it, and by what") {
  struct Row {
    const char* rules;
    ibv_event_type event;
  };
  for (const Row& row : {Row{"op=write:times=1:syndrome=0x13", IBV_EVENT_QP_ACCESS_ERR},
                         Row{"op=write:times=1:syndrome=0x12", IBV_EVENT_QP_REQ_ERR},
                         Row{"op=write:times=1:syndrome=0x14", IBV_EVENT_QP_FATAL}}) {
    INFO(row.rules);
    const Link link;
    const Nic other;
    REQUIRE(inject(row.rules) == 0);
    write_to(link, 0x100, link.mr->rkey);
    CHECK(next(link.cq).status != IBV_WC_SUCCESS);
    const ibv_async_event event = next_event(link.nic.context);
    CHECK(event.event_type == row.event);
    CHECK(event.element.qp == link.b);
    CHECK_FALSE(has_event(link.nic.context));
    CHECK_FALSE(has_event(other.context));
  }
}

TEST_CASE("a channel of DevX tells the events that it was asked for, of those objects") {
  const Link link;  // whose device it is
  DevxQueuePair queue(link.nic.context);
  // The queue pair of verbs sends to this one.
  ibv_port_attr port{};
  REQUIRE(ibv_query_port(link.nic.context, 1, &port) == 0);
  queue.modify({rst2init(queue.qpn), init2rtr(queue.qpn, link.a->qp_num, port.lid)});
  ibv_qp_attr reset{};
  reset.qp_state = IBV_QPS_RESET;
  REQUIRE(ibv_modify_qp(link.a, &reset, IBV_QP_STATE) == 0);
  ibv_qp peer{};
  peer.qp_num = queue.qpn;
  connect(link.nic, link.a, &peer);

  constexpr auto kFlags = MLX5DV_DEVX_CREATE_EVENT_CHANNEL_FLAGS_OMIT_EV_DATA;
  const auto channel = [&] {
    mlx5dv_devx_event_channel* made = mlx5dv_devx_create_event_channel(link.nic.context, kFlags);
    REQUIRE(made != nullptr);
    return made;
  };
  mlx5dv_devx_event_channel *asked = channel(), *of_cq = channel(), *of_other = channel();
  std::uint16_t access[] = {0x11}, both[] = {0x05, 0x11}, fatal[] = {0x05};
  CHECK(mlx5dv_devx_subscribe_devx_event(asked, queue.qp, 0, both, 1) == EINVAL);
  CHECK(mlx5dv_devx_subscribe_devx_event(asked, queue.qp, 3, both, 1) == EINVAL);
  CHECK(mlx5dv_devx_subscribe_devx_event(asked, nullptr, 2, both, 1) == EINVAL);
  CHECK(mlx5dv_devx_subscribe_devx_event(asked, queue.qp, 4, both, 77) == 0);
  CHECK(mlx5dv_devx_subscribe_devx_event(of_cq, queue.cq, 2, access, 78) == 0);
  CHECK(mlx5dv_devx_subscribe_devx_event(of_other, queue.qp, 2, fatal, 79) == 0);
  write_to(link, 0x100, ~link.mr->rkey);
  CHECK(next(link.cq).status == IBV_WC_REM_ACCESS_ERR);
  mlx5dv_devx_async_event_hdr header{};
  CHECK(mlx5dv_devx_get_event(asked, &header, sizeof(header)) == 8);
  CHECK(header.cookie == 77);
  for (mlx5dv_devx_event_channel* const each : {asked, of_cq, of_other}) {
    pollfd ready{each->fd, POLLIN, 0};
    CHECK(::poll(&ready, 1, 0) == 0);
    mlx5dv_devx_destroy_event_channel(each);
  }
  CHECK_FALSE(has_event(link.nic.context));  // that of DevX is none of verbs
  queue.destroy();
}
