// A program that knows nothing of gshmem: rdma-core's headers, -libverbs -lmlx5. It connects two
// queue pairs to each other by DevX, writes work queue entries into its memory, rings the doorbell
// and looks at data and completions. Exit 0, or a line on stderr and 1. Offsets are the
// programmer's reference manual's.
#define _GNU_SOURCE
#include <infiniband/mlx5dv.h>
#include <infiniband/verbs.h>

#include <arpa/inet.h>
#include <endian.h>
#include <errno.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define CHECK(condition)                                                                \
  do {                                                                                  \
    if (!(condition)) {                                                                 \
      fprintf(stderr, "%s:%d: %s (errno %d)\n", __FILE__, __LINE__, #condition, errno); \
      exit(1);                                                                          \
    }                                                                                   \
  } while (0)

enum { kPage = 4096, kLogEntries = 6, kEntries = 1 << kLogEntries, kDataBytes = 1 << 16 };
// The slab: send queues, CQs, records, each on pages of its own.
enum { kQueueAt = 0, kCqAt = 4 * kPage, kRecordAt = 8 * kPage, kSlabBytes = 9 * kPage };

struct side {
  struct mlx5dv_devx_obj *cq, *qp;
  struct mlx5dv_devx_uar* uar;
  uint32_t qpn, cqn, next;
  uint8_t *queue, *entry;  // first entry of the send queue; the collapsed CQ's only entry
  uint32_t* record;
};

static struct ibv_context* context;
static struct ibv_pd* pd;
static struct mlx5dv_devx_umem* umem;
static struct ibv_mr* region;
static uint8_t *slab, *data;
static uint32_t pdn, eqn, lid;

static void bits(uint8_t* command, int byte, int high, int low, uint32_t value) {
  uint32_t word;
  memcpy(&word, command + byte, 4);
  const uint32_t mask = (uint32_t)((((uint64_t)1 << (high - low + 1)) - 1) << low);
  word = htobe32((be32toh(word) & ~mask) | (value << low & mask));
  memcpy(command + byte, &word, 4);
}

static uint32_t get_bits(const uint8_t* reply, int byte, int high, int low) {
  uint32_t word;
  memcpy(&word, reply + byte, 4);
  return (uint32_t)(be32toh(word) >> low & (((uint64_t)1 << (high - low + 1)) - 1));
}

static void open_nic(void) {
  int count = 0;
  struct ibv_device** list = ibv_get_device_list(&count);
  CHECK(list && count == 1 && !strcmp(ibv_get_device_name(list[0]), "mlx5_0"));
  CHECK(mlx5dv_is_supported(list[0]));
  context = ibv_open_device(list[0]);
  CHECK(context);
  ibv_free_device_list(list);
  struct ibv_port_attr port;
  CHECK(!ibv_query_port(context, 1, &port));
  CHECK(port.state == IBV_PORT_ACTIVE && port.link_layer == IBV_LINK_LAYER_INFINIBAND && port.lid);
  lid = port.lid;

  uint8_t in[0x10] = {0}, out[0x1010];
  bits(in, 0, 31, 16, 0x100);
  bits(in, 4, 15, 0, 1);
  CHECK(!mlx5dv_devx_general_cmd(context, in, sizeof(in), out, sizeof(out)));
  CHECK(get_bits(out, 0x10 + 0x3c, 3, 0) == 1);  // cqe_version

  pd = ibv_alloc_pd(context);
  CHECK(pd);
  struct mlx5dv_pd dv_pd;
  struct mlx5dv_obj obj = {.pd = {pd, &dv_pd}};
  CHECK(!mlx5dv_init_obj(&obj, MLX5DV_OBJ_PD));
  pdn = dv_pd.pdn;

  slab = aligned_alloc(kPage, kSlabBytes);
  data = aligned_alloc(kPage, kDataBytes);
  CHECK(slab && data);
  memset(slab, 0, kSlabBytes);
  memset(data, 0, kDataBytes);
  umem = mlx5dv_devx_umem_reg(context, slab, kSlabBytes, IBV_ACCESS_LOCAL_WRITE);
  CHECK(umem);
  CHECK(!mlx5dv_devx_query_eqn(context, 0, &eqn));
  region = ibv_reg_mr_iova(pd, data, kDataBytes, 0,
                           IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |
                               IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC);
  CHECK(region);
}

static void create_cq(struct side* side, int index) {
  uint8_t in[0x110] = {0}, out[0x10];
  const int at = kCqAt + index * kPage;
  side->entry = slab + at;
  memset(side->entry, 0xff, 64 << kLogEntries);
  bits(in, 0, 31, 16, 0x400);
  bits(in, 0x10, 20, 20, 1);  // cc
  bits(in, 0x10, 17, 17, 1);  // oi
  bits(in, 0x14, 31, 0, umem->umem_id);
  bits(in, 0x1c, 28, 24, kLogEntries);
  bits(in, 0x1c, 23, 0, side->uar->page_id);
  bits(in, 0x24, 7, 0, eqn);
  bits(in, 0x4c, 31, 0, (uint32_t)(kRecordAt + 64 * index + 8));  // dbr_addr
  bits(in, 0x54, 31, 0, (uint32_t)at);                            // cq_umem_offset
  bits(in, 0x58, 31, 0, umem->umem_id);
  side->cq = mlx5dv_devx_obj_create(context, in, sizeof(in), out, sizeof(out));
  CHECK(side->cq);
  side->cqn = get_bits(out, 8, 23, 0);
}

static void create_qp(struct side* side, int index) {
  uint8_t in[0x110] = {0}, out[0x10];
  uint8_t* qpc = in + 0x18;
  const int at = kQueueAt + index * kPage, record = kRecordAt + 64 * index;
  side->queue = slab + at;
  side->record = (uint32_t*)(void*)(slab + record);
  bits(in, 0, 31, 16, 0x500);
  bits(qpc, 0x00, 12, 11, 3);
  bits(qpc, 0x04, 23, 0, pdn);
  bits(qpc, 0x08, 14, 11, kLogEntries);
  bits(qpc, 0x0c, 23, 0, side->uar->page_id);
  bits(qpc, 0x7c, 23, 0, side->cqn);
  bits(qpc, 0xa4, 31, 0, (uint32_t)record);
  bits(qpc, 0xac, 26, 24, 3);
  bits(qpc, 0xe4, 31, 0, umem->umem_id);
  bits(in, 0x104, 31, 0, (uint32_t)at);
  bits(in, 0x108, 31, 0, umem->umem_id);
  side->qp = mlx5dv_devx_obj_create(context, in, sizeof(in), out, sizeof(out));
  CHECK(side->qp);
  side->qpn = get_bits(out, 8, 23, 0);
}

static void modify(struct side* side, uint32_t opcode, uint8_t* in) {
  uint8_t out[0x10];
  bits(in, 0, 31, 16, opcode);
  bits(in, 8, 23, 0, side->qpn);
  CHECK(!mlx5dv_devx_obj_modify(side->qp, in, 0x110, out, sizeof(out)));
}

static void connect_to(struct side* side, const struct side* peer) {
  uint8_t init[0x110] = {0}, rtr[0x110] = {0}, rts[0x110] = {0};
  uint8_t* qpc = init + 0x18;
  bits(qpc, 0x00, 12, 11, 3);
  bits(qpc, 0x18 + 0x24, 23, 16, 1);  // port
  bits(qpc, 0x90, 19, 16, 3);         // atomic_mode
  bits(qpc, 0x90, 15, 13, 7);         // rre, rwe, rae
  modify(side, 0x502, init);
  qpc = rtr + 0x18;
  bits(qpc, 0x08, 31, 29, 5);
  bits(qpc, 0x08, 28, 24, 30);
  bits(qpc, 0x14, 23, 0, peer->qpn);
  bits(qpc, 0x18 + 0x04, 15, 0, lid);
  bits(qpc, 0x90, 23, 21, 4);
  bits(qpc, 0x94, 28, 24, 12);
  modify(side, 0x503, rtr);
  qpc = rts + 0x18;
  bits(qpc, 0x18 + 0x08, 31, 27, 14);
  bits(qpc, 0x70, 23, 21, 4);
  bits(qpc, 0x70, 18, 16, 7);
  bits(qpc, 0x70, 15, 13, 7);
  modify(side, 0x504, rts);
}

struct request {
  uint8_t opcode, units;
  uint64_t remote, local, add;
  uint32_t bytes;
};

// Writes one entry and rings: record, then the register, as the programmer's manual orders them.
static void post(struct side* side, const struct request* r) {
  uint8_t* wqe = side->queue + 64 * (side->next % kEntries);
  memset(wqe, 0, 64);
  struct mlx5_wqe_ctrl_seg* ctrl = (void*)wqe;
  mlx5dv_set_ctrl_seg(ctrl, (uint16_t)side->next, r->opcode, 0, side->qpn, MLX5_WQE_CTRL_CQ_UPDATE,
                      r->units, 0, 0);
  struct mlx5_wqe_raddr_seg* remote = (void*)(wqe + 16);
  remote->raddr = htobe64(r->remote);
  remote->rkey = htobe32(region->rkey);
  uint8_t* last = wqe + 32;
  if (r->opcode == MLX5_OPCODE_ATOMIC_FA) {
    const uint64_t add = htobe64(r->add);
    memcpy(last, &add, 8);
    last += 16;
  }
  mlx5dv_set_data_seg((void*)last, r->bytes, region->lkey, r->local);
  ++side->next;
  atomic_thread_fence(memory_order_seq_cst);
  atomic_store_explicit((_Atomic uint32_t*)&side->record[MLX5_SND_DBR],
                        htobe32(side->next & 0xffff), memory_order_release);
  atomic_thread_fence(memory_order_seq_cst);
  const uint64_t doorbell =
      htobe64((uint64_t)(side->next & 0xffff) << 40 | (uint64_t)side->qpn << 8);
  atomic_store_explicit((_Atomic uint64_t*)side->uar->reg_addr, doorbell, memory_order_release);
}

// Waits for the completion of the last entry; returns its opcode, 0 or 13. One load of the last
// word gives counter and opcode together, and what is read afterwards comes after it.
static int wait_for(struct side* side) {
  for (long i = 0; i < 200 * 1000; ++i) {
    const uint32_t last = be32toh(atomic_load_explicit(
        (const _Atomic uint32_t*)(const void*)(side->entry + 60), memory_order_acquire));
    const int opcode = last >> 4 & 0xf;
    if (opcode != MLX5_CQE_INVALID && last >> 16 == ((side->next - 1) & 0xffff)) return opcode;
    nanosleep(&(struct timespec){.tv_nsec = 50000}, NULL);
  }
  fprintf(stderr, "no completion of entry %u\n", side->next - 1);
  exit(1);
}

static uint32_t query_state(struct side* side) {
  uint8_t in[0x10] = {0}, out[0x110];
  bits(in, 0, 31, 16, 0x50b);
  bits(in, 8, 23, 0, side->qpn);
  CHECK(!mlx5dv_devx_obj_query(side->qp, in, sizeof(in), out, sizeof(out)));
  return get_bits(out, 0x18, 31, 28);
}

static void move_data(struct side* a, struct side* b) {
  for (int i = 0; i < 3000; ++i) data[i] = (uint8_t)(i * 7 + 1);
  post(a, &(struct request){MLX5_OPCODE_RDMA_WRITE, 3, 0x4000, 0, 0, 3000});
  CHECK(wait_for(a) == MLX5_CQE_REQ);
  CHECK(!memcmp(data, data + 0x4000, 3000));

  post(b, &(struct request){MLX5_OPCODE_RDMA_READ, 3, 0x4000, 0x8000, 0, 3000});
  CHECK(wait_for(b) == MLX5_CQE_REQ);
  CHECK(!memcmp(data, data + 0x8000, 3000));

  uint64_t sum = 0, before;
  for (uint64_t i = 1; i <= 3 * kEntries; ++i) {  // laps of the queue
    post(a, &(struct request){MLX5_OPCODE_ATOMIC_FA, 4, 0xc000, 0xd000, i, 8});
    CHECK(wait_for(a) == MLX5_CQE_REQ);
    memcpy(&before, data + 0xd000, 8);  // in the host's order, as the capabilities say
    CHECK(before == sum);
    sum += i;
  }
  memcpy(&before, data + 0xc000, 8);
  CHECK(before == sum);
}

static void provoke_error(struct side* a, struct side* b) {
  CHECK(query_state(a) == 3 && query_state(b) == 3);
  post(a, &(struct request){MLX5_OPCODE_RDMA_WRITE, 3, kDataBytes, 0, 0, 8});
  CHECK(wait_for(a) == MLX5_CQE_REQ_ERR);
  const struct mlx5_err_cqe* cqe = (const void*)a->entry;
  CHECK(cqe->syndrome == MLX5_CQE_SYNDROME_REMOTE_ACCESS_ERR);
  CHECK(query_state(a) == 6);
}

static void refuse_a_command(void) {
  uint8_t in[0x110] = {0}, out[0x10] = {0};
  bits(in, 0, 31, 16, 0x500);
  bits(in, 0x18, 23, 16, 3);  // a service that there is not
  errno = 0;
  CHECK(!mlx5dv_devx_obj_create(context, in, sizeof(in), out, sizeof(out)));
  CHECK(errno == EREMOTEIO && out[0] == 0x3 && get_bits(out, 4, 31, 0) != 0);
}

static void destroy(struct side* side) {
  CHECK(!mlx5dv_devx_obj_destroy(side->qp));
  CHECK(!mlx5dv_devx_obj_destroy(side->cq));
  mlx5dv_devx_free_uar(side->uar);
}

int main(void) {
  open_nic();
  struct side sides[2] = {{0}};
  for (int i = 0; i < 2; ++i) {
    sides[i].uar = mlx5dv_devx_alloc_uar(context, MLX5DV_UAR_ALLOC_TYPE_NC);
    CHECK(sides[i].uar && ((uintptr_t)sides[i].uar->reg_addr & 0xfff) == 0x800);
    create_cq(&sides[i], i);
    create_qp(&sides[i], i);
  }
  connect_to(&sides[0], &sides[1]);
  connect_to(&sides[1], &sides[0]);
  refuse_a_command();
  if (!getenv("VERBS_CLIENT_NO_DATA")) {
    move_data(&sides[0], &sides[1]);
    provoke_error(&sides[0], &sides[1]);
  }
  destroy(&sides[0]);
  destroy(&sides[1]);
  CHECK(!mlx5dv_devx_umem_dereg(umem));
  CHECK(!ibv_dereg_mr(region) && !ibv_dealloc_pd(pd) && !ibv_close_device(context));
  free(slab);
  free(data);
  puts("verbs client: ok");
  return 0;
}
