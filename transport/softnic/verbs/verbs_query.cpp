// Queries of the device and its port.
#include "transport/softnic/verbs/verbs_calls.h"

#include <endian.h>

#include <algorithm>
#include <bit>
#include <cstring>

namespace gshmem::soft {
namespace {

constexpr std::uint32_t kVendorId = 0x02c9;  ///< Mellanox, by its OUI
constexpr std::uint32_t kVendorPart = 4129;  ///< ConnectX-7
constexpr int kMaxObjects = 1 << 18, kMaxReads = 1 << kLogOutstanding, kMaxElements = 30;
constexpr std::uint8_t kLinkPolling = 2, kLinkUp = 5;  ///< InfiniBand, PortPhysicalState
constexpr int kLogMtu0 = 7;                            ///< IBV_MTU_256 is 1
constexpr std::uint8_t kWidth4x = 2, kSpeedNdr = 128;
constexpr std::uint64_t kPortSpeed = 4000;  ///< of these two
constexpr std::uint16_t kDefaultPkey = 0xffff;

ibv_device_attr device_attributes(ibv_context* context) {
  const DeviceAttributes device = engine_of(context).device();
  ibv_device_attr attr{};
  std::strcpy(attr.fw_ver, "0.0.0-soft");
  attr.node_guid = htobe64(device.guid);
  attr.sys_image_guid = attr.node_guid;
  attr.max_mr_size = ~0ull;
  attr.page_size_cap = ~0xfffull;
  attr.vendor_id = kVendorId;
  attr.vendor_part_id = kVendorPart;
  attr.max_qp = kMaxObjects;
  attr.max_qp_wr = 1 << device.max_log_qp_entries;
  attr.max_sge = kMaxElements;
  attr.max_sge_rd = kMaxElements;
  attr.max_cq = kMaxObjects;
  attr.max_cqe = (1 << device.max_log_cq_entries) - 1;
  attr.max_mr = 1 << 24;
  attr.max_pd = 1 << 20;
  attr.max_qp_rd_atom = kMaxReads;
  attr.max_res_rd_atom = kMaxObjects * kMaxReads;
  attr.max_qp_init_rd_atom = kMaxReads;
  attr.atomic_cap = IBV_ATOMIC_HCA;
  attr.max_ah = kMaxObjects;
  attr.max_srq = 1 << 16;
  attr.max_srq_wr = kMaxReceives - 1;  // one entry stays in the list
  attr.max_srq_sge = kMaxElements;
  attr.max_pkeys = 1;
  attr.local_ca_ack_delay = 16;
  attr.phys_port_cnt = 1;
  return attr;
}

ibv_port_attr port_attributes(ibv_context* context) {
  const DeviceAttributes device = engine_of(context).device();
  ibv_port_attr attr{};
  attr.state = device.port_up ? IBV_PORT_ACTIVE : IBV_PORT_DOWN;
  attr.max_mtu = IBV_MTU_4096;
  attr.active_mtu = static_cast<ibv_mtu>(std::countr_zero(device.profile.mtu) - kLogMtu0);
  attr.gid_tbl_len = static_cast<int>(device.gids.size());
  attr.max_msg_sz = 1u << kLogMessageMax;
  attr.pkey_tbl_len = 1;
  attr.lid = device.lid;
  attr.sm_lid = device.lid;
  attr.max_vl_num = 1;
  attr.subnet_timeout = 18;
  attr.active_width = kWidth4x;
  attr.active_speed = kSpeedNdr;
  attr.phys_state = device.port_up ? kLinkUp : kLinkPolling;
  attr.link_layer = device.mac != 0 ? IBV_LINK_LAYER_ETHERNET : IBV_LINK_LAYER_INFINIBAND;
  return attr;
}

std::uint32_t gid_type(GidAttributes::Kind kind) {
  switch (kind) {
    case GidAttributes::Kind::kInfiniBand:
      return IBV_GID_TYPE_IB;
    case GidAttributes::Kind::kRoceV1:
      return IBV_GID_TYPE_ROCE_V1;
    case GidAttributes::Kind::kRoceV2:
      break;
  }
  return IBV_GID_TYPE_ROCE_V2;
}

}  // namespace

int query_port(ibv_context* context, std::uint8_t port, ibv_port_attr* out, std::size_t bytes) {
  return errno_call([&] {
    require_call(port == kPort, EINVAL);
    const ibv_port_attr attr = port_attributes(context);
    std::memset(out, 0, bytes);
    std::memcpy(out, &attr, std::min(bytes, sizeof(attr)));
  });
}

int query_device_ex(ibv_context* context, const ibv_query_device_ex_input* input,
                    ibv_device_attr_ex* out, std::size_t bytes) {
  return errno_call([&] {
    require_call(input == nullptr || input->comp_mask == 0, EINVAL);
    require_call(bytes >= sizeof(ibv_device_attr), EINVAL);
    ibv_device_attr_ex attr{};
    attr.orig_attr = device_attributes(context);
    attr.phys_port_cnt_ex = 1;
    std::memset(out, 0, bytes);
    std::memcpy(out, &attr, std::min(bytes, sizeof(attr)));
  });
}

}  // namespace gshmem::soft

using namespace gshmem::soft;

extern "C" {

int ibv_query_device(ibv_context* context, ibv_device_attr* out) {
  return errno_call([&] { *out = device_attributes(context); });
}

// The caller's structure ends before port_cap_flags2, which came later (struct
// _compat_ibv_port_attr of libibverbs).
int ibv_query_port(ibv_context* context, std::uint8_t port, _compat_ibv_port_attr* out) {
  return query_port(context, port, reinterpret_cast<ibv_port_attr*>(out),
                    offsetof(ibv_port_attr, port_cap_flags2));
}

int ibv_query_gid(ibv_context* context, std::uint8_t port, int index, ibv_gid* out) {
  const int code = errno_call([&] {
    const DeviceAttributes device = engine_of(context).device();
    require_call(port == kPort && index >= 0 && index < static_cast<int>(device.gids.size()),
                 EINVAL);
    const GidAttributes& gid = device.gids[static_cast<std::size_t>(index)];
    std::ranges::copy(gid.bytes, out->raw);
  });
  if (code != 0) errno = code;
  return code == 0 ? 0 : -1;
}

int _ibv_query_gid_ex(ibv_context* context, std::uint32_t port, std::uint32_t index,
                      ibv_gid_entry* out, std::uint32_t flags, std::size_t bytes) {
  return errno_call([&] {
    require_call(port == kPort && flags == 0, EINVAL);
    ibv_gid_entry entry{};
    require_call(bytes >= sizeof(entry), EINVAL);
    require_call(ibv_query_gid(context, kPort, static_cast<int>(index), &entry.gid) == 0, EINVAL);
    entry.gid_index = index;
    entry.port_num = kPort;
    entry.gid_type = gid_type(engine_of(context).device().gids[index].kind);
    std::memset(out, 0, bytes);
    std::memcpy(out, &entry, sizeof(entry));
  });
}

ssize_t _ibv_query_gid_table(ibv_context* context, ibv_gid_entry* out, std::size_t entries,
                             std::uint32_t flags, std::size_t bytes) {
  const std::size_t count = engine_of(context).device().gids.size();
  if (entries < count) return -EINVAL;
  for (std::size_t i = 0; i < count; ++i) {
    auto* entry = reinterpret_cast<ibv_gid_entry*>(reinterpret_cast<char*>(out) + i * bytes);
    const int code =
        _ibv_query_gid_ex(context, kPort, static_cast<std::uint32_t>(i), entry, flags, bytes);
    if (code != 0) return -code;
  }
  return static_cast<ssize_t>(count);
}

// Private to rdma-core, whose ibv_devinfo calls it: 0 is what sysfs calls "IB/RoCE v1", 1 "RoCE
// v2".
int ibv_query_gid_type(ibv_context* context, std::uint8_t port, unsigned index, int* type) {
  ibv_gid_entry entry{};
  const int code = _ibv_query_gid_ex(context, port, index, &entry, 0, sizeof(entry));
  if (code != 0) {
    errno = code;
    return -1;
  }
  *type = entry.gid_type == IBV_GID_TYPE_ROCE_V2 ? 1 : 0;
  return 0;
}

// In units of 100 Mb/s.
int ibv_query_port_speed(ibv_context*, std::uint32_t port, std::uint64_t* speed) {
  if (port != kPort) return EINVAL;
  *speed = kPortSpeed;
  return 0;
}

int ibv_query_pkey(ibv_context*, std::uint8_t port, int index, __be16* out) {
  if (port != kPort || index != 0) {
    errno = EINVAL;
    return -1;
  }
  *out = htobe16(kDefaultPkey);
  return 0;
}

int ibv_get_pkey_index(ibv_context*, std::uint8_t port, __be16 pkey) {
  if (port == kPort && be16toh(pkey) == kDefaultPkey) return 0;
  errno = EINVAL;
  return -1;
}

}  // extern "C"
