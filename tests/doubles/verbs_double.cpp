#include "tests/doubles/verbs_double.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <memory>

namespace gshmem::nic::mlx5 {
namespace {

std::unique_ptr<FakeVerbs> current;
int event_sockets[2] = {-1, -1}, device_sockets[2] = {-1, -1};

struct Object {
  std::uint32_t number;
};

/// Counts a call; returns true if it has to fail.
bool fails(const char* name) {
  FakeVerbs& fake = *current;
  const bool now = static_cast<int>(fake.calls.size()) == fake.fail_at || fake.fail_named == name;
  fake.calls.emplace_back(name);
  if (!now) errno = EAGAIN;  // successful calls may set it to anything
  if (now) fake.failed = name;
  if (now && fake.fail_errno != 0) errno = fake.fail_errno;
  return now;
}

template <class T>
T* make(const char* name) {
  if (fails(name)) return nullptr;
  ++current->live;
  return new T{};
}
template <class T>
int release(const char* name, T* object) {
  const bool failed = fails(name);
  --current->live;
  delete object;
  return failed ? current->fail_errno : 0;
}
int simple(const char* name) { return fails(name) ? current->fail_errno : 0; }

constexpr int kMostDevices = 3;
ibv_device the_devices[kMostDevices];
ibv_device* the_list[kMostDevices + 1] = {&the_devices[0], &the_devices[1], &the_devices[2],
                                          nullptr};

ibv_device** get_device_list(int* count) {
  if (fails("ibv_get_device_list")) return nullptr;
  ++current->live;
  *count = current->devices;
  return the_list;
}
void free_device_list(ibv_device**) { --current->live; }
const char* get_device_name(ibv_device* device) {
  const char* const kNames[kMostDevices] = {current->name, "mlx5_8", "mlx5_9"};
  return kNames[device - the_devices];
}
bool is_supported(ibv_device* device) { return device - the_devices != current->unsupported; }

ibv_context* open_device(ibv_device*) {
  auto* context = make<ibv_context>("ibv_open_device");
  if (context != nullptr) context->async_fd = event_sockets[0];
  return context;
}
int close_device(ibv_context* context) { return release("ibv_close_device", context); }

int query_device(ibv_context*, ibv_device_attr* out) {
  *out = {};
  out->phys_port_cnt = current->ports;
  std::strcpy(out->fw_ver, "28.39.2048");
  out->atomic_cap = current->atomicity;
  return simple("ibv_query_device");
}
int query_port(ibv_context*, std::uint8_t, _compat_ibv_port_attr* out) {
  auto* attributes = reinterpret_cast<ibv_port_attr*>(out);
  attributes->state = current->active ? current->state : IBV_PORT_DOWN;
  attributes->active_mtu = IBV_MTU_4096;
  attributes->flags = current->grh_required ? IBV_QPF_GRH_REQUIRED : 0;
  attributes->gid_tbl_len = 2;
  attributes->lid = 0x1234;
  attributes->active_width = current->width;
  attributes->active_speed = current->speed;
  attributes->link_layer = current->ethernet ? IBV_LINK_LAYER_ETHERNET : IBV_LINK_LAYER_INFINIBAND;
  return simple("ibv_query_port");
}
int query_port_speed(ibv_context*, std::uint32_t, std::uint64_t* speed) {
  *speed = current->port_speed;
  return current->port_speed != 0 ? 0 : EOPNOTSUPP;
}
int query_gid(ibv_context*, std::uint8_t, int index, ibv_gid* gid) {
  const bool none = fails("ibv_query_gid") || index != current->gid_index;
  *gid = {};
  gid->raw[7] = current->prefix;
  gid->raw[10] = gid->raw[11] = 0xff;
  gid->raw[12] = 10;
  gid->raw[15] = none ? 9 : 1;  // a GID that does not exist has arbitrary bytes
  return none ? -1 : 0;
}
int query_gid_ex(ibv_context*, std::uint32_t port, std::uint32_t index, ibv_gid_entry* entry,
                 std::uint32_t flags, std::size_t bytes) {
  if (flags != 0 || bytes != sizeof(*entry)) return EINVAL;
  const int wanted = static_cast<int>(index);
  if (fails("ibv_query_gid_ex") || wanted != current->gid_index) return ENODATA;
  *entry = {};
  entry->gid_type = current->gid_type;
  return query_gid(nullptr, static_cast<std::uint8_t>(port), wanted, &entry->gid) == 0 ? 0
                                                                                       : ENODATA;
}
int query_pkey(ibv_context*, std::uint8_t, int index, __be16* pkey) {
  if (fails("ibv_query_pkey") || index > 1) return -1;
  *pkey = static_cast<__be16>(current->pkey << 8 | current->pkey >> 8);
  return 0;
}
ibv_pd* alloc_pd(ibv_context*) { return make<ibv_pd>("ibv_alloc_pd"); }
int dealloc_pd(ibv_pd* pd) { return release("ibv_dealloc_pd", pd); }
ibv_mr* reg_mr_iova2(ibv_pd*, void*, std::size_t bytes, std::uint64_t iova, unsigned access) {
  auto* mr = make<ibv_mr>("ibv_reg_mr_iova2");
  if (mr == nullptr) return mr;
  mr->lkey = mr->rkey = 0x55 + static_cast<std::uint32_t>(iova + current->access.size());
  current->access.push_back(access);
  current->bytes.push_back(bytes);
  return mr;
}
ibv_mr* reg_dmabuf_mr(ibv_pd*, std::uint64_t at, std::size_t, std::uint64_t, int, int) {
  current->begin.push_back(at);
  return make<ibv_mr>("ibv_reg_dmabuf_mr");
}
ibv_mr* reg_dmabuf_direct(ibv_pd*, std::uint64_t at, std::size_t, std::uint64_t, int, int,
                          int mlx5_access) {
  current->begin.push_back(at);
  current->direct_access = mlx5_access;
  return make<ibv_mr>("mlx5dv_reg_dmabuf_mr");
}
int dereg_mr(ibv_mr* mr) { return release("ibv_dereg_mr", mr); }
ibv_ah* create_ah(ibv_pd*, ibv_ah_attr* attributes) {
  current->address = *attributes;
  return make<ibv_ah>("ibv_create_ah");
}
int destroy_ah(ibv_ah* ah) { return release("ibv_destroy_ah", ah); }

int get_async_event(ibv_context*, ibv_async_event* event) {
  int type = 0;
  ++current->event_reads;
  if (read(event_sockets[0], &type, sizeof(type)) != sizeof(type)) return -1;
  *event = {};
  event->event_type = static_cast<ibv_event_type>(type);
  event->element.port_num = 1;
  return 0;
}
void ack_async_event(ibv_async_event*) { ++current->acknowledged; }

ibv_cq* create_cq(ibv_context*, int entries, void*, ibv_comp_channel*, int vector) {
  if (entries < 1 || vector != 0) {
    errno = EINVAL;
    return nullptr;
  }
  return make<ibv_cq>("ibv_create_cq");
}
int destroy_cq(ibv_cq* cq) { return release("ibv_destroy_cq", cq); }
ibv_qp* create_qp(ibv_pd*, ibv_qp_init_attr* init) {
  const ibv_qp_cap& cap = init->cap;
  const bool has_room =
      cap.max_send_wr > 0 && cap.max_recv_wr > 0 && cap.max_send_sge > 0 && cap.max_recv_sge > 0;
  if (init->send_cq == nullptr || init->recv_cq == nullptr || init->qp_type != IBV_QPT_RC ||
      !has_room) {
    errno = EINVAL;
    return nullptr;
  }
  return make<ibv_qp>("ibv_create_qp");
}
int modify_qp(ibv_qp*, ibv_qp_attr* attributes, int mask) {
  current->moved = *attributes;
  current->moved_mask = mask;
  return simple("ibv_modify_qp");
}
int destroy_qp(ibv_qp* qp) { return release("ibv_destroy_qp", qp); }

mlx5_wqe_av the_address{};
int init_obj(mlx5dv_obj* object, std::uint64_t type) {
  if (type == MLX5DV_OBJ_PD) {
    object->pd.out->pdn = 0x77;
    return simple("mlx5dv_init_obj(PD)");
  }
  the_address.rmac[0] = 0x02;
  the_address.rmac[5] = current->mac_end;
  object->ah.out->av = &the_address;
  return simple("mlx5dv_init_obj(AH)");
}

/// Returns the name of a command, as errors have it.
const char* command_name(const void* in) {
  const auto* bytes = static_cast<const std::uint8_t*>(in);
  switch (bytes[0] << 8 | bytes[1]) {
    case 0x100:
      return bytes[7] == 1      ? "QUERY_HCA_CAP(GENERAL)"
             : bytes[7] == 0x41 ? "QUERY_HCA_CAP(GENERAL_2)"
             : bytes[7] == 9    ? "QUERY_HCA_CAP(ROCE)"
                                : "QUERY_HCA_CAP(ATOMIC)";
    case 0x400:
      return "CREATE_CQ";
    case 0x500:
      return "CREATE_QP";
    case 0x502:
      return "RST2INIT";
    case 0x503:
      return "INIT2RTR";
    case 0x504:
      return "RTR2RTS";
    case 0x507:
      return "2ERR";
    case 0x50a:
      return "2RST";
    default:
      return "QUERY_QP";
  }
}
bool command(const void* in, std::size_t in_bytes, void* out, std::size_t out_bytes) {
  const auto* bytes = static_cast<const std::uint8_t*>(in);
  current->commands.emplace_back(bytes, bytes + in_bytes);
  std::memset(out, 0, out_bytes);
  if (!fails(command_name(in))) return true;
  static_cast<std::uint8_t*>(out)[0] = current->fail_status;
  return false;
}
/// Returns the result of a refused command.
int refusal() {
  if (current->by_errno) return -1;
  return current->negative ? -current->fail_errno : current->fail_errno;
}

int general_cmd(ibv_context*, const void* in, std::size_t in_bytes, void* out,
                std::size_t out_bytes) {
  if (!command(in, in_bytes, out, out_bytes)) return refusal();
  auto* caps = static_cast<std::uint8_t*>(out) + 0x10;
  const int type = static_cast<const std::uint8_t*>(in)[7] / 2;
  if (type == 0x20) {
    caps[0x5c] = static_cast<std::uint8_t>(0x40 |  // send_dbr_mode_no_dbr_ext
                                           current->log_no_record_queues);
  } else if (type == 4) {
    caps[0x03] = static_cast<std::uint8_t>(current->timestamps);
    const auto [first, last] = current->udp_sources;
    caps[0x18] = static_cast<std::uint8_t>(last >> 8), caps[0x19] = static_cast<std::uint8_t>(last);
    caps[0x1a] = static_cast<std::uint8_t>(first >> 8),
    caps[0x1b] = static_cast<std::uint8_t>(first);
  } else if (type == 0) {
    caps[0x04] = current->no_record ? 0x80 : 0;  // hca_cap_2
    caps[0x11] = current->log_queue_max;         // log_max_qp_sz
    caps[0x29] = current->log_reads;             // log_max_ra_req_qp
    caps[0x2b] = current->log_reads;             // log_max_ra_res_qp
    caps[0x3f] = current->cqe_version;
    caps[0x43] = static_cast<std::uint8_t>((current->dynamic ? 0x20 : 0) |       // dct
                                           (current->atomics ? 2 : 0) |          // atomic
                                           (current->timestamps >= 0 ? 4 : 0));  // roce
    caps[0x47] = 0x01;                                                           // rc
    caps[0x52] = static_cast<std::uint8_t>(current->wqe_bytes_max >> 8);         // max_wqe_sz_sq
    caps[0x53] = static_cast<std::uint8_t>(current->wqe_bytes_max);
  } else {
    caps[0x08] = current->host_endian ? 0x40 : 0;
    caps[0x13] = static_cast<std::uint8_t>(current->atomic_operations);
    caps[0x17] = 0x0c;                           // 4 and 8 bytes
    caps[0x1b] = current->atomic_sizes_dynamic;  // atomic_size_dc
  }
  return 0;
}
mlx5dv_devx_obj* obj_create(ibv_context*, const void* in, std::size_t in_bytes, void* out,
                            std::size_t out_bytes) {
  if (!command(in, in_bytes, out, out_bytes)) return nullptr;
  auto* object = new Object{++current->made & 0xff};
  static_cast<std::uint8_t*>(out)[0xb] = static_cast<std::uint8_t>(object->number);
  ++current->live;
  return reinterpret_cast<mlx5dv_devx_obj*>(object);
}
int obj_query(mlx5dv_devx_obj*, const void* in, std::size_t in_bytes, void* out,
              std::size_t out_bytes) {
  if (!command(in, in_bytes, out, out_bytes)) return refusal();
  auto* qpc = static_cast<std::uint8_t*>(out) + 0x18;
  qpc[0] = static_cast<std::uint8_t>(current->qp_state << 4);
  for (int i = 0; i < 4; ++i)  // hw_sq_wqebb_counter, sw_sq_wqebb_counter
    qpc[0xb4 + i] = static_cast<std::uint8_t>(current->qp_counters >> (24 - 8 * i));
  return 0;
}
int obj_modify(mlx5dv_devx_obj*, const void* in, std::size_t in_bytes, void* out,
               std::size_t out_bytes) {
  return command(in, in_bytes, out, out_bytes) ? 0 : refusal();
}
int obj_destroy(mlx5dv_devx_obj* object) {
  return release("mlx5dv_devx_obj_destroy", reinterpret_cast<Object*>(object));
}
int qp_query(ibv_qp*, const void*, std::size_t, void* out, std::size_t out_bytes) {
  std::memset(out, 0, out_bytes);
  static_cast<std::uint8_t*>(out)[0x24] = current->counter_set;  // counter_set_id
  return simple("QUERY_QP");
}
int query_eqn(ibv_context*, std::uint32_t vector, std::uint32_t* eqn) {
  *eqn = 9 + vector;
  return simple("mlx5dv_devx_query_eqn");
}
/// rdma-core does this for NC_DEDICATED: four registers in each page (verbs.c
/// mlx5_insert_dyn_uuars).
alignas(4096) std::uint8_t the_pages[256][4096];
mlx5dv_devx_uar* alloc_uar(ibv_context*, std::uint32_t) {
  if (current->registers == 0) {
    errno = ENOMEM;
    return nullptr;
  }
  auto* uar = make<mlx5dv_devx_uar>("mlx5dv_devx_alloc_uar");
  if (uar != nullptr) {
    const auto nth = static_cast<std::uint32_t>(--current->registers);
    uar->base_addr = the_pages[nth / 4 % 256];
    uar->reg_addr = the_pages[nth / 4 % 256] + 0x800 + nth % 4 * 0x100;
    uar->page_id = 3 + nth / 4;
  }
  return uar;
}
void free_uar(mlx5dv_devx_uar* uar) { (void)release("mlx5dv_devx_free_uar", uar); }
mlx5dv_devx_umem* umem_reg(ibv_context*, void*, std::size_t, std::uint32_t access) {
  current->umem_access = access;
  return make<mlx5dv_devx_umem>("mlx5dv_devx_umem_reg");
}
mlx5dv_devx_umem* umem_reg_ex(ibv_context*, mlx5dv_devx_umem_in* in) {
  current->page_sizes = in->pgsz_bitmap;
  current->umem_access = in->access;
  current->umem_mask = in->comp_mask;
  if (in->comp_mask != 0 && !current->umem_dmabuf) {
    errno = EOPNOTSUPP;
    return nullptr;
  }
  return make<mlx5dv_devx_umem>("mlx5dv_devx_umem_reg_ex");
}
int umem_dereg(mlx5dv_devx_umem* umem) { return release("mlx5dv_devx_umem_dereg", umem); }

mlx5dv_devx_event_channel* create_event_channel(ibv_context*,
                                                mlx5dv_devx_create_event_channel_flags flags) {
  current->channel_flags = flags;
  auto* channel = make<mlx5dv_devx_event_channel>("mlx5dv_devx_create_event_channel");
  if (channel != nullptr) channel->fd = device_sockets[0];
  return channel;
}
void destroy_event_channel(mlx5dv_devx_event_channel* channel) {
  (void)release("mlx5dv_devx_destroy_event_channel", channel);
}
int subscribe_event(mlx5dv_devx_event_channel*, mlx5dv_devx_obj*, std::uint16_t bytes,
                    std::uint16_t events[], std::uint64_t cookie) {
  current->watched.push_back({{events, events + bytes / sizeof(*events)}, cookie});
  return simple("mlx5dv_devx_subscribe_devx_event");
}
ssize_t get_event(mlx5dv_devx_event_channel* channel, mlx5dv_devx_async_event_hdr* header,
                  std::size_t) {
  return read(channel->fd, &header->cookie, sizeof(header->cookie));
}

}  // namespace

void FakeVerbs::raise(ibv_event_type type) {
  const int value = type;
  (void)!write(event_sockets[1], &value, sizeof(value));
}

void FakeVerbs::raise_device(std::uint64_t cookie) {
  (void)!write(device_sockets[1], &cookie, sizeof(cookie));
}

std::pair<bool, bool> FakeVerbs::non_blocking() {
  const auto is = [](int fd) { return (fcntl(fd, F_GETFL) & O_NONBLOCK) != 0; };
  return {is(event_sockets[0]), is(device_sockets[0])};
}

void FakeVerbs::remove() {
  for (const int fd : {event_sockets[1], device_sockets[1]}) shutdown(fd, SHUT_WR);
}

void FakeVerbs::remove_with(short revents) {
  int ends[2];
  (void)!pipe2(ends, O_CLOEXEC | O_NONBLOCK);
  // The end for writing without a reader, or the end for reading without a writer, or none at all.
  if (revents != POLLNVAL) dup2(ends[revents == POLLERR ? 1 : 0], event_sockets[0]);
  for (const int end : ends) close(end);
  if (revents == POLLNVAL) close(std::exchange(event_sockets[0], -1));
}

std::vector<std::vector<std::uint8_t>> FakeVerbs::commands_of(std::uint16_t opcode) const {
  std::vector<std::vector<std::uint8_t>> found;
  for (const auto& each : commands) {
    if ((each[0] << 8 | each[1]) == opcode) found.push_back(each);
  }
  return found;
}

FakeVerbs& fake_verbs() { return *current; }

void fake_verbs_reset() {
  current = std::make_unique<FakeVerbs>();
  for (int* ends : {event_sockets, device_sockets}) {
    for (int i = 0; i < 2; ++i)
      if (ends[i] >= 0) close(ends[i]);
    (void)!socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends);
  }
}

#define FAKE(name) api.name = name

VerbsApi fake_verbs_api_with_device_events() {
  VerbsApi api = fake_verbs_api();
  FAKE(create_event_channel);
  FAKE(destroy_event_channel);
  FAKE(subscribe_event);
  FAKE(get_event);
  return api;
}

VerbsApi fake_verbs_api() {
  VerbsApi api;
  FAKE(get_device_list);
  FAKE(free_device_list);
  FAKE(get_device_name);
  FAKE(open_device);
  FAKE(close_device);
  FAKE(query_device);
  FAKE(query_port);
  FAKE(query_port_speed);
  FAKE(query_gid);
  FAKE(query_gid_ex);
  FAKE(query_pkey);
  FAKE(alloc_pd);
  FAKE(dealloc_pd);
  FAKE(reg_mr_iova2);
  FAKE(reg_dmabuf_mr);
  FAKE(reg_dmabuf_direct);
  FAKE(dereg_mr);
  FAKE(create_ah);
  FAKE(destroy_ah);
  FAKE(get_async_event);
  FAKE(ack_async_event);
  FAKE(create_cq);
  FAKE(destroy_cq);
  FAKE(create_qp);
  FAKE(modify_qp);
  FAKE(destroy_qp);
  FAKE(is_supported);
  FAKE(init_obj);
  FAKE(general_cmd);
  FAKE(obj_create);
  FAKE(obj_query);
  FAKE(obj_modify);
  FAKE(obj_destroy);
  FAKE(qp_query);
  FAKE(query_eqn);
  FAKE(alloc_uar);
  FAKE(free_uar);
  FAKE(umem_reg);
  FAKE(umem_reg_ex);
  FAKE(umem_dereg);
#undef FAKE
  return api;
}

}  // namespace gshmem::nic::mlx5
