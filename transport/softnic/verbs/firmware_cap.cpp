// QUERY_HCA_CAP, QUERY_ROCE_ADDRESS, and the two objects that are nothing but a number.
#include "transport/softnic/verbs/firmware_state.h"

#include <algorithm>
#include <array>
#include <iterator>

namespace gshmem::soft {
namespace {

constexpr std::uint32_t kLogQueuePairs = 18;
// Capability types, op_mod >> 1; op_mod bit 0 is "current", else "maximum" (Linux
// include/linux/mlx5/device.h, enum mlx5_cap_type). Both are the same here.
constexpr std::uint32_t kGeneralCap = 0x0, kAtomicCap = 0x3, kRoceCap = 0x4, kGeneral2Cap = 0x20;

void fill_general(const DeviceAttributes& device, std::uint8_t* caps) {
  namespace cap = cmd_hca_cap;
  set(caps, cap::hca_cap_2, 1);
  set(caps, cap::log_max_qp_sz, device.max_log_qp_entries);
  set(caps, cap::log_max_srq_sz, device.max_log_qp_entries);
  set(caps, cap::log_max_qp, kLogQueuePairs);
  set(caps, cap::log_max_srq, 16);
  set(caps, cap::log_max_cq_sz, device.max_log_cq_entries);
  set(caps, cap::log_max_cq, 18);
  set(caps, cap::relaxed_ordering_write, 1);
  set(caps, cap::log_max_mkey, 24);
  set(caps, cap::log_max_ra_req_qp, kLogOutstanding);
  set(caps, cap::log_max_ra_res_qp, kLogOutstanding);
  set(caps, cap::log_max_ra_req_dc, kLogOutstanding);
  set(caps, cap::log_max_ra_res_dc, kLogOutstanding);
  set(caps, cap::gid_table_size, 0);   // 8 << 0 entries, the fewest that can be said
  set(caps, cap::pkey_table_size, 0);  // 128 << 0, likewise
  set(caps, cap::port_type, device.mac != 0 ? 1 : 0);  // Ethernet or InfiniBand
  set(caps, cap::num_ports, 1);
  set(caps, cap::log_max_msg, kLogMessageMax);
  set(caps, cap::cqe_version, 1);
  set(caps, cap::compact_address_vector, 1);
  set(caps, cap::dct, 1);
  set(caps, cap::roce, device.mac != 0 ? 1 : 0);
  set(caps, cap::atomic, 1);
  set(caps, cap::cq_oi, 1);
  set(caps, cap::cd, 1);
  set(caps, cap::rc, 1);
  set(caps, cap::uar_4k, 1);
  set(caps, cap::log_pg_sz, 12);
  set(caps, cap::bf, 1);
  set(caps, cap::log_bf_reg_size, 9);  // two halves of 256 bytes, as every mlx5 so far
  set(caps, cap::max_wqe_sz_sq, device.max_wqe_bytes);
  set(caps, cap::max_wqe_sz_sq_dc, device.max_wqe_bytes);
  set(caps, cap::log_max_pd, 20);
  set(caps, cap::log_max_rmp, 16);
}

void fill_atomic(std::uint8_t* caps) {
  // Mode 1: results of 8 bytes come in the order of the host (mlx5_ifc_atomic_caps_bits).
  set(caps, atomic_caps::req_8B_endianness_mode, 1);
  set(caps, atomic_caps::supported_req_8B_endianness_mode_1, 1);
  // Compare-and-swap 1, fetch-and-add 2, and their masked forms 4, 8; operands of 4 and 8 bytes.
  set(caps, atomic_caps::atomic_operations, 0x1 | 0x2 | 0x4 | 0x8);
  set(caps, atomic_caps::atomic_size_qp, 0x4 | 0x8);
  set(caps, atomic_caps::atomic_size_dc, 0x4 | 0x8);
}

/// Versions and address families are bits by number: RoCE v1 is 0 and v2 is 2, IPv4 is 1 and IPv6 2
/// (Linux include/linux/mlx5/device.h, MLX5_ROCE_VERSION_*_CAP and MLX5_ROCE_L3_TYPE_*_CAP).
void fill_roce(const DeviceAttributes& device, std::uint8_t* caps) {
  if (device.mac == 0) return;               // a known type, with nothing to report
  constexpr std::uint32_t kBothFormats = 2;  // free-running and real time
  set(caps, roce_cap::sw_r_roce_src_udp_port, 1);
  set(caps, roce_cap::qp_ts_format, has_real_time(device) ? kBothFormats : 0);
  set(caps, roce_cap::l3_type, 1 << 1 | 1 << 2);
  set(caps, roce_cap::roce_version, 1 << 0 | 1 << 2);
  set(caps, roce_cap::r_roce_dest_udp_port, kRoceUdpPort);
  set(caps, roce_cap::r_roce_max_src_udp_port, kMaxUdpSource);
  set(caps, roce_cap::r_roce_min_src_udp_port, kMinUdpSource);
  set(caps, roce_cap::roce_address_table_size, 255);
}

}  // namespace

void query_hca_cap(FirmwareState& state, Call& call) {
  const std::uint8_t* input = call.in.data();
  demand(get(input, query_hca_cap_in::other_function) == 0, Status::kBadParameter,
         Check::kCapability, "there is no other function");
  std::array<std::uint8_t, kCapBytes> caps{};
  switch (get(input, in::op_mod) >> 1) {
    case kGeneralCap:
      fill_general(state.engine.device(), caps.data());
      break;
    case kAtomicCap:
      fill_atomic(caps.data());
      break;
    case kGeneral2Cap:
      set(caps.data(), cmd_hca_cap_2::send_dbr_mode_no_dbr_ext,
          state.engine.device().profile.no_record ? 1 : 0);
      // All queue pairs may do without.
      set(caps.data(), cmd_hca_cap_2::log_max_send_dbr_less_qp_sq,
          state.engine.device().profile.no_record ? kLogQueuePairs : 0);
      break;
    case kRoceCap:
      fill_roce(state.engine.device(), caps.data());
      break;
    default:
      throw Refusal{Status::kBadParameter, Check::kCapability, "capabilities that are not there"};
  }
  const std::size_t room = std::min(call.out.size() - kReplyOffset, caps.size());
  std::copy_n(caps.begin(), room, call.out.begin() + kReplyOffset);
}

void query_roce_address(FirmwareState& state, Call& call) {
  namespace query = query_roce_address_in;
  demand(get(call.in.data(), query::vhca_port_num) <= 1, Status::kBadParameter, Check::kPath,
         "there is one port");
  const DeviceAttributes device = state.engine.device();
  const std::uint32_t index = get(call.in.data(), query::roce_address_index);
  demand(index < device.gids.size(), Status::kBadIndex, Check::kPath, "no such address");
  const GidAttributes& gid = device.gids[index];
  std::uint8_t* address = call.out.data() + kReplyOffset;
  std::ranges::copy(gid.bytes, address);
  set(address, roce_addr_layout::source_mac_47_32, static_cast<std::uint32_t>(device.mac >> 32));
  set(address, roce_addr_layout::source_mac_31_0, static_cast<std::uint32_t>(device.mac));
  set(address, roce_addr_layout::roce_l3_type, gid.bytes[0] == 0 ? 0 : 1);  // IPv4 or IPv6
  set(address, roce_addr_layout::roce_version, gid.kind == GidAttributes::Kind::kRoceV2 ? 2 : 0);
}

// Bits of lagc that say there are several ports in one: none.
void query_lag(FirmwareState&, Call&) {}

void query_hca_vport_context(FirmwareState& state, Call& call) {
  namespace vport = hca_vport_context;
  demand(get(call.in.data(), query_hca_vport_context_in::other_vport) == 0, Status::kBadParameter,
         Check::kCapability, "there is no other function");
  demand(get(call.in.data(), query_hca_vport_context_in::port_num) <= 1, Status::kBadParameter,
         Check::kPath, "there is one port");
  constexpr std::uint32_t kLinkUp = 5, kActive = 4;
  const DeviceAttributes device = state.engine.device();
  std::uint8_t* port = call.out.data() + kReplyOffset;
  set(port, vport::port_physical_state, kLinkUp);
  set(port, vport::port_state, kActive);
  set(port, vport::vport_state, kActive);
  set(port, vport::system_image_guid, device.guid);
  set(port, vport::port_guid, device.guid);
  set(port, vport::node_guid, device.guid);
  set(port, vport::lid, device.lid);
  set(port, vport::subnet_timeout, 18);
  set(port, vport::sm_lid, device.lid);
}

void alloc_pd(FirmwareState& state, Call& call) {
  const std::uint32_t pd = state.engine.create_pd();
  state.resources.add(Resource::kPd, pd);
  set(call.out.data(), object::number, pd);
}

void alloc_uar(FirmwareState& state, Call& call) {
  void* page = nullptr;
  const std::uint32_t uar = state.engine.create_uar(&page);
  state.resources.add(Resource::kUar, uar);
  set(call.out.data(), object::number, uar);
}

void dealloc_pd(FirmwareState& state, Call& call) {
  state.engine.destroy_pd(take_number(state, call, Resource::kPd));
}

void dealloc_uar(FirmwareState& state, Call& call) {
  state.engine.destroy_uar(take_number(state, call, Resource::kUar));
}

}  // namespace gshmem::soft
