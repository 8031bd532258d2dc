// The device list, and what a context is made of.
#include "transport/softnic/verbs/symver.h"
#include "transport/softnic/verbs/verbs_calls.h"

#include "host/base/log.h"

#include <endian.h>
#include <fcntl.h>
#include <limits.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <vector>

namespace gshmem::soft {
namespace {

/// mlx5_<number>. Clients choose by the name, which they expect to contain mlx5.
ibv_device make_device(int number) {
  ibv_device device{};
  device.node_type = IBV_NODE_CA;
  device.transport_type = IBV_TRANSPORT_IB;
  std::snprintf(device.name, sizeof(device.name), "mlx5_%d", number);
  std::snprintf(device.dev_name, sizeof(device.dev_name), "uverbs%d", number);
  std::snprintf(device.dev_path, sizeof(device.dev_path), "/sys/class/infiniband_verbs/uverbs%d",
                number);
  std::snprintf(device.ibdev_path, sizeof(device.ibdev_path), "/sys/class/infiniband/mlx5_%d",
                number);
  return device;
}

std::vector<ibv_device>& devices() {
  static auto& all = *new std::vector<ibv_device>([] {  // as the engines, never destroyed
    std::vector<ibv_device> made;
    for (int i = 0; i < Engine::devices(); ++i) made.push_back(make_device(i));
    return made;
  }());
  return all;
}

/// Returns the number of the device, or -1.
int index_of(const ibv_device* device) {
  for (std::size_t i = 0; i < devices().size(); ++i) {
    if (device == &devices()[i]) return static_cast<int>(i);
  }
  return -1;
}

/// Sets calls that inline functions of verbs.h make without a check whether they exist.
void fill_operations(ibv_context_ops& ops) {
  ops.dealloc_mw = [](ibv_mw*) { return EOPNOTSUPP; };
  ops.bind_mw = [](ibv_qp*, ibv_mw*, ibv_mw_bind*) { return EOPNOTSUPP; };
  ops.poll_cq = poll_cq;
  ops.req_notify_cq = request_notification;
  ops.post_srq_recv = [](ibv_srq* srq, ibv_recv_wr* request, ibv_recv_wr** bad) {
    return whole<SoftSrq>(srq)->receives.post(request, bad);
  };
  ops.post_send = post_send;
  ops.post_recv = [](ibv_qp* qp, ibv_recv_wr* request, ibv_recv_wr** bad) {
    auto* soft = whole<SoftQp>(qp);
    if (soft->receive_bytes > 0 && may_post(*qp, QpState::kInit))
      return soft->receives.post(request, bad);
    *bad = request;
    return EINVAL;
  };
}

void fill_extended(verbs_context& verbs) {
  verbs.query_port = query_port;
  verbs.query_device_ex = query_device_ex;
  verbs.create_cq_ex = [](ibv_context* context, ibv_cq_init_attr_ex* wanted) {
    return create_cq(context, *wanted, kCqeBytes);
  };
  verbs.create_qp_ex = create_qp_ex;
  verbs.alloc_parent_domain = alloc_parent_domain;
  verbs.get_srq_num = get_srq_number;
  verbs.close_xrcd = [](ibv_xrcd*) { return EOPNOTSUPP; };  // verbs.h calls it unasked
  verbs.sz = sizeof(verbs);
}

void destroy(SoftContext* context) {
  delete context->state;
  pthread_mutex_destroy(&context->verbs.context.mutex);
  delete context;
}

}  // namespace
}  // namespace gshmem::soft

using namespace gshmem::soft;

extern "C" {

ibv_device** ibv_get_device_list_1_1(int* count) {
  return pointer_call([&] {
    std::vector<ibv_device>& all = devices();
    auto** list = static_cast<ibv_device**>(std::calloc(all.size() + 1, sizeof(ibv_device*)));
    require_call(list != nullptr, ENOMEM);
    for (std::size_t i = 0; i < all.size(); ++i) list[i] = &all[i];
    if (count != nullptr) *count = static_cast<int>(all.size());
    return list;
  });
}
GSHNIC_DEFAULT_VERSION(ibv_get_device_list_1_1, ibv_get_device_list, "IBVERBS_1.1");

// Structures of version 1.0 have another layout, and no program of its time writes to an mlx5: they
// find no device.
ibv_device** ibv_get_device_list_1_0(int* count) {
  GSHMEM_WARN("soft NIC: programs of libibverbs 1.0 are not supported");
  if (count != nullptr) *count = 0;
  errno = ENOSYS;
  return nullptr;
}
GSHNIC_OLD_VERSION(ibv_get_device_list_1_0, ibv_get_device_list, "IBVERBS_1.0");

void ibv_free_device_list(ibv_device** list) { std::free(list); }

const char* ibv_get_device_name(ibv_device* device) { return device->name; }

int ibv_get_device_index(ibv_device* device) { return index_of(device); }

__be64 ibv_get_device_guid(ibv_device* device) {
  __be64 guid = 0;
  errno = errno_call([&] { guid = htobe64(Engine::get(index_of(device)).device().guid); });
  return guid;
}

ibv_context* ibv_open_device(ibv_device* device) {
  return pointer_call([&] {
    const int index = index_of(device);
    require_call(index >= 0, ENODEV);
    auto context = std::make_unique<SoftContext>();
    auto state = std::make_unique<ContextState>(Engine::get(index));
    ibv_context& verbs = context->verbs.context;
    fill_operations(verbs.ops);
    fill_extended(context->verbs);
    verbs.device = device;
    verbs.cmd_fd = -1;  // there is no kernel device
    verbs.async_fd = state->events_read.get();
    verbs.num_comp_vectors = kEventQueues;
    verbs.abi_compat = __VERBS_ABI_IS_EXTENDED;
    pthread_mutex_init(&verbs.mutex, nullptr);
    context->create_cq = create_cq;
    context->create_dc = create_dc;
    context->state = state.release();
    return &context.release()->verbs.context;
  });
}

int ibv_close_device(ibv_context* context) {
  destroy(&context_of(context));
  return 0;
}

// Attributes that libibverbs itself reads in sysfs, at the path that it has passed (ibdev_path).
const char* ibv_get_sysfs_path(void) { return "/sys"; }
int ibv_read_sysfs_file(const char* folder, const char* name, char* text, std::size_t bytes) {
  char path[PATH_MAX];
  std::snprintf(path, sizeof path, "%s/%s", folder, name);
  const gshmem::Fd file(::open(path, O_RDONLY | O_CLOEXEC));
  const ssize_t got = file ? ::read(file.get(), text, bytes) : -1;
  if (got <= 0) return -1;
  auto length = static_cast<std::size_t>(got);
  if (text[length - 1] == '\n') --length;
  if (length < bytes) text[length] = '\0';
  return static_cast<int>(length);
}

// No page of a process is pinned, so these calls have nothing to do.
int ibv_dontfork_range(void*, std::size_t) { return 0; }
int ibv_dofork_range(void*, std::size_t) { return 0; }
int ibv_fork_init(void) { return 0; }
ibv_fork_status ibv_is_fork_initialized(void) { return IBV_FORK_UNNEEDED; }

}  // extern "C"
