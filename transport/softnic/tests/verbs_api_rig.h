// An open device of the soft NIC, for tests that call its libraries by name.
#pragma once

#include <catch2/catch.hpp>

#include <infiniband/mlx5dv.h>
#include <infiniband/verbs.h>

#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <utility>

namespace verbs_test {

struct Free {
  void operator()(void* p) const { std::free(p); }
};
using Pages = std::unique_ptr<void, Free>;
inline Pages pages(std::size_t bytes) { return Pages(std::aligned_alloc(4096, bytes)); }

/// An int: the macros of verbs.h combine it with a flag of another enumeration.
constexpr int kLocalWrite = IBV_ACCESS_LOCAL_WRITE;
constexpr int kAll = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |
                     IBV_ACCESS_REMOTE_ATOMIC;

/// Opens device n.
struct Nic {
  explicit Nic(int n = 0) {
    ibv_device** list = ibv_get_device_list(nullptr);
    REQUIRE(list != nullptr);
    context = ibv_open_device(list[n]);
    ibv_free_device_list(list);
    REQUIRE(context != nullptr);
    pd = ibv_alloc_pd(context);
    REQUIRE(pd != nullptr);
  }
  Nic(const Nic&) = delete;
  ~Nic() {
    if (pd != nullptr) ibv_dealloc_pd(pd);
    ibv_close_device(context);
  }
  ibv_context* context;
  ibv_pd* pd;
};

constexpr int kInitMask = IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS;
constexpr int kRtrMask = IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
                         IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
constexpr int kRtsMask = IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
                         IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC;

/// Returns attributes of a transition to `state`, with all access and a peer on this device.
inline ibv_qp_attr attributes(const Nic& nic, const ibv_qp* peer, ibv_qp_state state) {
  ibv_port_attr port;
  REQUIRE(ibv_query_port(nic.context, 1, &port) == 0);
  ibv_qp_attr attr{};
  attr.qp_state = state;
  attr.port_num = 1;
  attr.qp_access_flags = kAll;
  attr.path_mtu = IBV_MTU_4096;
  attr.dest_qp_num = peer->qp_num;
  attr.ah_attr.dlid = port.lid;
  attr.ah_attr.port_num = 1;
  attr.max_dest_rd_atomic = 16;
  attr.max_rd_atomic = 16;
  attr.min_rnr_timer = 12;
  attr.timeout = 14;
  attr.retry_cnt = 7;
  attr.rnr_retry = 7;
  return attr;
}

inline void connect(const Nic& nic, ibv_qp* qp, const ibv_qp* peer) {
  for (const auto& [state, mask] :
       {std::pair{IBV_QPS_INIT, kInitMask}, std::pair{IBV_QPS_RTR, kRtrMask},
        std::pair{IBV_QPS_RTS, kRtsMask}}) {
    ibv_qp_attr attr = attributes(nic, peer, state);
    REQUIRE(ibv_modify_qp(qp, &attr, mask) == 0);
  }
}

}  // namespace verbs_test
