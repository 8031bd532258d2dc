// Compares queues to many targets: reliable connections, one to each, and a few DC initiators.
// It is linked like a program of rdma-core, and runs on a card, too. docs/dynamic-connections.md
// has its figures. Usage: dc_scale TARGETS INITIATORS BURST WRITES; 0 initiators: reliable
// connections. Words are written to the targets in turn, BURST to each.
#include <infiniband/mlx5dv.h>
#include <infiniband/verbs.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

namespace {

constexpr std::uint64_t kAccessKey = 0x5ca1e;
constexpr int kAll = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE;
constexpr std::uint32_t kDepth = 1024, kPending = 256;
constexpr int kToInit = IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT;
constexpr int kToRts = IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
                       IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC;

template <class T>
T* must(T* made, const char* what) {
  if (made != nullptr) return made;
  std::fprintf(stderr, "%s: %s\n", what, std::strerror(errno));
  std::exit(1);
}
void must(bool good, const char* what) {
  if (good) return;
  std::fprintf(stderr, "%s failed: %s\n", what, std::strerror(errno));
  std::exit(1);
}

/// Memory of this process in use, in KiB.
long resident_kib() {
  std::FILE* const file = must(std::fopen("/proc/self/statm", "r"), "statm");
  long all = 0, resident = 0;
  must(std::fscanf(file, "%ld %ld", &all, &resident) == 2, "statm");
  std::fclose(file);
  return resident * 4;
}

struct Device {
  ibv_context* context;
  ibv_pd* pd;
  ibv_port_attr port{};
  Device() {
    ibv_device** const list = must(ibv_get_device_list(nullptr), "ibv_get_device_list");
    context = must(ibv_open_device(must(list[0], "a device")), "ibv_open_device");
    ibv_free_device_list(list);
    pd = must(ibv_alloc_pd(context), "ibv_alloc_pd");
    must(ibv_query_port(context, 1, &port) == 0, "ibv_query_port");
  }
  [[nodiscard]] ibv_qp_attr state(ibv_qp_state to, std::uint32_t peer = 0) const {
    ibv_qp_attr attr{};
    attr.qp_state = to;
    attr.port_num = attr.ah_attr.port_num = 1;
    attr.qp_access_flags = kAll;
    attr.path_mtu = port.active_mtu;
    attr.dest_qp_num = peer;
    attr.ah_attr.dlid = port.lid;
    attr.max_dest_rd_atomic = attr.max_rd_atomic = 1;
    attr.min_rnr_timer = 12;
    attr.timeout = 14;
    attr.retry_cnt = attr.rnr_retry = 7;
    return attr;
  }
  void move(ibv_qp* qp, ibv_qp_state to, int mask, std::uint32_t peer = 0) const {
    ibv_qp_attr attr = state(to, peer);
    must(ibv_modify_qp(qp, &attr, mask) == 0, "ibv_modify_qp");
  }
};

/// A queue that is posted to.
struct Queue {
  ibv_cq* cq;
  ibv_qp* qp;
  std::uint32_t pending = 0;

  std::uint32_t poll() {
    ibv_wc done[32];
    const int count = ibv_poll_cq(cq, 32, done);
    for (int i = 0; i < count; ++i) must(done[i].status == IBV_WC_SUCCESS, "a write");
    pending -= static_cast<std::uint32_t>(std::max(count, 0));
    return pending;
  }
};

ibv_qp_init_attr_ex sender(const Device& device, ibv_cq* cq, ibv_qp_type type) {
  ibv_qp_init_attr_ex init{};
  init.qp_type = type;
  init.send_cq = init.recv_cq = cq;
  init.pd = device.pd;
  init.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
  init.send_ops_flags = IBV_QP_EX_WITH_RDMA_WRITE;
  init.cap = {kDepth, 0, 1, 0, 64};
  return init;
}

/// Both ends of a reliable connection.
Queue connection(const Device& device) {
  const auto move = [&](ibv_qp* qp, std::uint32_t peer) {
    device.move(qp, IBV_QPS_INIT, kToInit | IBV_QP_ACCESS_FLAGS);
    device.move(qp, IBV_QPS_RTR,
                IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
                    IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER,
                peer);
    device.move(qp, IBV_QPS_RTS, kToRts);
  };
  Queue queue{must(ibv_create_cq(device.context, kDepth, nullptr, nullptr, 0), "ibv_create_cq"),
              nullptr};
  ibv_qp_init_attr_ex init = sender(device, queue.cq, IBV_QPT_RC);
  queue.qp = must(ibv_create_qp_ex(device.context, &init), "ibv_create_qp_ex");
  ibv_qp_init_attr answers{};
  answers.qp_type = IBV_QPT_RC;
  answers.send_cq = answers.recv_cq = queue.cq;
  answers.cap = {1, 0, 1, 0, 0};
  ibv_qp* const there = must(ibv_create_qp(device.pd, &answers), "ibv_create_qp");
  move(queue.qp, there->qp_num);
  move(there, queue.qp->qp_num);
  return queue;
}

ibv_qp* dynamic(const Device& device, ibv_cq* cq, ibv_srq* receives) {
  ibv_qp_init_attr_ex init = sender(device, cq, IBV_QPT_DRIVER);
  mlx5dv_qp_init_attr special{};
  special.comp_mask = MLX5DV_QP_INIT_ATTR_MASK_DC;
  special.dc_init_attr.dc_type = MLX5DV_DCTYPE_DCI;
  if (receives != nullptr) {
    init.comp_mask = IBV_QP_INIT_ATTR_PD;
    init.srq = receives;
    init.cap = {};
    special.dc_init_attr.dc_type = MLX5DV_DCTYPE_DCT;
    special.dc_init_attr.dct_access_key = kAccessKey;
  }
  return must(mlx5dv_create_qp(device.context, &init, &special), "mlx5dv_create_qp");
}
Queue initiator(const Device& device) {
  Queue queue{must(ibv_create_cq(device.context, kDepth, nullptr, nullptr, 0), "ibv_create_cq"),
              nullptr};
  queue.qp = dynamic(device, queue.cq, nullptr);
  device.move(queue.qp, IBV_QPS_INIT, kToInit);
  device.move(queue.qp, IBV_QPS_RTR, IBV_QP_STATE | IBV_QP_PATH_MTU);
  device.move(queue.qp, IBV_QPS_RTS, kToRts);
  return queue;
}
ibv_qp* target(const Device& device, ibv_cq* cq, ibv_srq* receives) {
  ibv_qp* const qp = dynamic(device, cq, receives);
  device.move(qp, IBV_QPS_INIT, kToInit | IBV_QP_ACCESS_FLAGS);
  device.move(qp, IBV_QPS_RTR, IBV_QP_STATE | IBV_QP_MIN_RNR_TIMER | IBV_QP_AV | IBV_QP_PATH_MTU);
  return qp;
}

using Clock = std::chrono::steady_clock;
double since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

}  // namespace

int main(int count, char** arguments) {
  must(count == 5, "usage: dc_scale TARGETS INITIATORS BURST WRITES");
  const auto number = [&](int i) { return std::stoul(arguments[i]); };
  const std::size_t targets = number(1), initiators = number(2), burst = number(3);
  const std::size_t writes = number(4);
  const Device device;
  std::vector<std::uint64_t> words(targets + burst);
  for (std::size_t i = 0; i < burst; ++i) words[targets + i] = i + 1;
  ibv_mr* const region =
      must(ibv_reg_mr(device.pd, words.data(), words.size() * 8, kAll), "ibv_reg_mr");
  const auto address = [&](std::size_t word) {
    return reinterpret_cast<std::uintptr_t>(words.data() + word);
  };

  const long before = resident_kib();
  const auto begun = Clock::now();
  std::vector<Queue> queues;
  std::vector<std::uint32_t> numbers;
  ibv_ah* way = nullptr;
  if (initiators == 0) {
    for (std::size_t i = 0; i < targets; ++i) queues.push_back(connection(device));
  } else {
    ibv_qp_attr attr = device.state(IBV_QPS_INIT);
    way = must(ibv_create_ah(device.pd, &attr.ah_attr), "ibv_create_ah");
    ibv_cq* const cq = must(ibv_create_cq(device.context, 1, nullptr, nullptr, 0), "ibv_create_cq");
    ibv_srq_init_attr receives{};
    receives.attr = {1, 1, 0};
    ibv_srq* const shared = must(ibv_create_srq(device.pd, &receives), "ibv_create_srq");
    for (std::size_t i = 0; i < targets; ++i) numbers.push_back(target(device, cq, shared)->qp_num);
    for (std::size_t i = 0; i < initiators; ++i) queues.push_back(initiator(device));
  }
  const double setup = since(begun);

  const auto wrote = Clock::now();
  std::size_t to = 0;
  for (std::size_t sent = 0; sent < writes; sent += burst, to = (to + 1) % targets) {
    Queue& queue = queues[to % queues.size()];
    while (queue.pending + burst > kPending) queue.poll();
    ibv_qp_ex* const ex = ibv_qp_to_qp_ex(queue.qp);
    ibv_wr_start(ex);
    for (std::size_t i = 0; i < burst; ++i) {
      ex->wr_id = 0;
      ex->wr_flags = IBV_SEND_SIGNALED;
      ibv_wr_rdma_write(ex, region->rkey, address(to));
      if (initiators != 0)
        mlx5dv_wr_set_dc_addr(mlx5dv_qp_ex_from_ibv_qp_ex(ex), way, numbers[to], kAccessKey);
      ibv_wr_set_sge(ex, region->lkey, address(targets + i), 8);
    }
    must(ibv_wr_complete(ex) == 0, "ibv_wr_complete");
    queue.pending += static_cast<std::uint32_t>(burst);
  }
  for (Queue& queue : queues) {
    while (queue.pending != 0) queue.poll();
  }
  const double took = since(wrote);
  const std::size_t reached = std::min(targets, (writes + burst - 1) / burst);
  for (std::size_t i = 0; i < targets; ++i)
    must(words[i] == (i < reached ? burst : 0), "what has arrived");
  std::printf("%zu targets, %zu %s, bursts of %zu: set up in %.3f s, %ld KiB; %.1f us a write\n",
              targets, initiators == 0 ? targets : initiators,
              initiators == 0 ? "reliable connections" : "initiators", burst, setup,
              resident_kib() - before, took * 1e6 / static_cast<double>(writes));
  std::fflush(stdout);
  std::_Exit(0);  // the process ends, and everything with it
}
