#include "transport/nic/mlx5/connection.h"

#include "host/base/random.h"
#include "transport/nic/mlx5/memory.h"
#include "transport/nic/mlx5/registers.h"

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstring>

namespace gshmem::nic::mlx5 {
namespace {

/// Returns the source port of RoCE v2 packets: one per pair of queues, so that switches spread the
/// packets over equal paths.
std::uint32_t udp_source_port(const Caps& caps, std::uint32_t a, std::uint32_t b) {
  const std::uint64_t hash = std::uint64_t{a} * b * 0x9e3779b97f4a7c15ull >> 32;
  const std::uint64_t ports = caps.udp_source_max - caps.udp_source_min + 1;
  return caps.udp_source_min + static_cast<std::uint32_t>(hash * ports >> 32);
}

std::uint8_t smaller(std::uint32_t a, std::uint32_t b) {
  return static_cast<std::uint8_t>(std::min(a, b));
}

std::uint64_t subnet_of(const Gid& gid) {
  abi::Be64 prefix{};
  std::memcpy(&prefix, gid.data(), sizeof(prefix));
  return prefix.get();
}

}  // namespace

ConnectInfo connect_info(const Device& device, std::uint32_t number, std::uint32_t psn) {
  ConnectWire wire;
  wire.link_layer = device.link_layer;
  wire.mtu = static_cast<std::uint8_t>(device.port_attributes.active_mtu);
  wire.number = number;
  wire.psn = psn;
  wire.lid = device.port_attributes.lid;
  wire.pkey = device.pkey;
  wire.log_reads_in = static_cast<std::uint8_t>(std::min(device.caps.log_reads_in, 7u));
  wire.global = device.global() ? 1 : 0;
  wire.port = static_cast<std::uint8_t>(device.port);
  device.name.copy(wire.device, sizeof(wire.device) - 1);
  wire.gid = device.gid.gid;
  ConnectInfo info{};
  std::memcpy(info.data(), &wire, sizeof(wire));
  return info;
}

ConnectWire read_connect_info(const ConnectInfo& info, const Device& device, int pe) {
  ConnectWire wire;
  std::memcpy(&wire, info.data(), sizeof(wire));
  require(wire.magic == ConnectWire::kMagic, GSHMEMX_ERROR_NIC,
          strprintf("PE %d does not use the mlx5 transport: GSHMEM_NIC must choose the same on all "
                    "PEs",
                    pe));
  require(wire.version == ConnectWire::kVersion, GSHMEMX_ERROR_NIC,
          strprintf("PE %d has version %d of the mlx5 transport, this PE version %d: all PEs need "
                    "the same gshmem",
                    pe, wire.version, ConnectWire::kVersion));
  require(wire.link_layer == device.link_layer, GSHMEMX_ERROR_NIC,
          strprintf("PE %d is on %s, this PE's %s: choose ports of one network by "
                    "GSHMEM_NIC_DEVICES",
                    pe, link_layer_name(wire.link_layer), device.describe().c_str()));
  require(wire.global == (device.global() ? 1 : 0), GSHMEMX_ERROR_CONFIG,
          strprintf("%s uses GIDs and %s does not: set GSHMEM_IB_GID_INDEX on all PEs or on none; "
                    "where it is the same on all, only one of the two ports requires GIDs "
                    "(IBV_QPF_GRH_REQUIRED), and setting it on all helps",
                    wire.global != 0 ? strprintf("PE %d", pe).c_str() : "this PE",
                    wire.global != 0 ? "this PE" : strprintf("PE %d", pe).c_str()));
  // A packet for another subnet goes to the LID of a router, which only the subnet manager knows.
  const bool known = wire.gid != Gid{} && device.gid.gid != Gid{};
  const Network theirs{wire.link_layer, {}, subnet_of(wire.gid)};
  const Network mine{device.link_layer, {}, subnet_of(device.gid.gid)};
  require(wire.link_layer != LinkLayer::kInfiniBand || !known || theirs == mine, GSHMEMX_ERROR_NIC,
          strprintf("PE %d is on %s, this PE's %s on %s: InfiniBand between subnets is not "
                    "supported; choose ports of one subnet by GSHMEM_NIC_DEVICES",
                    pe, network_text(theirs).c_str(), device.describe().c_str(),
                    network_text(mine).c_str()));
  // Packets are accepted when the 15 low bits are equal and at most one end is a limited member
  // (InfiniBand, section 10.9.3). Otherwise they are dropped silently.
  require(
      (wire.pkey & 0x7fff) == (device.pkey & 0x7fff) && ((wire.pkey | device.pkey) & 0x8000) != 0,
      GSHMEMX_ERROR_CONFIG,
      strprintf("partition key 0x%04x of PE %d does not go with 0x%04x of this PE's %s: choose "
                "one partition by GSHMEM_IB_PKEY_INDEX",
                wire.pkey, pe, device.pkey, device.describe().c_str()));
  return wire;
}

std::string ends_text(const Device& device, const ConnectWire& remote, int pe) {
  const auto end = [&](const char* name, int port, int lid, const Gid& gid) {
    const std::string address =
        device.global() ? "GID " + gid_address(gid) : strprintf("LID %d", lid);
    return strprintf("%s port %d (%s)", name, port, address.c_str());
  };
  const std::string here =
      end(device.name.c_str(), device.port, device.port_attributes.lid, device.gid.gid);
  return here + " to " + end(remote.device, remote.port, remote.lid, remote.gid) +
         strprintf(" of PE %d", pe);
}

Connection::Connection(const Device& device, const QueueMemory& memory, const QueuePlace& place,
                       int index)
    : device_(device), index_(index), bell_(memory.bell) {
  require(std::has_single_bit(place.depth) && place.depth >= abi::kMinQueueDepth &&
              place.depth <= abi::kMaxQueueDepth,
          GSHMEMX_ERROR_INVALID_VALUE,
          strprintf("queue %d: depth %u is not a power of two from %u to %u", index, place.depth,
                    abi::kMinQueueDepth, abi::kMaxQueueDepth));
  const auto log_entries = static_cast<std::uint32_t>(std::countr_zero(place.depth));
  require(log_entries <= device.caps.log_queue_max, GSHMEMX_ERROR_CONFIG,
          strprintf("GSHMEM_QP_DEPTH: %u entries, but a queue of %s has at most %u", place.depth,
                    device.name.c_str(), 1u << device.caps.log_queue_max));
  psn_ = random_bits<std::uint32_t>() & 0xffffff;  // packets of an earlier connection do not match
  cq_ = create_cq(device.api, device.context.get(),
                  {.umem = memory.umem,
                   .uar_page = bell_.page_id,
                   .event_queue = device.event_queue,
                   .entry = place.completion,
                   .record = place.cq_record});
  qp_ = create_qp(device.api, device.context.get(),
                  {.umem = memory.umem,
                   .uar_page = bell_.page_id,
                   .pd = device.pd_number,
                   .cq = cq_.number,
                   .user_index = static_cast<std::uint32_t>(index),
                   .timestamp_format = device.caps.timestamp_format,
                   .log_entries = log_entries,
                   .entries = place.entries,
                   .record = place.record,
                   .no_record = device.caps.no_record,
                   .initiator = memory.target != nullptr,
                   .receive_queue = memory.target ? memory.target->receive_queue() : 0});
  to_init(memory.target);
  if (memory.target) make_ready();
}

void Connection::to_init(const DynamicTarget* target) {
  InitSpec spec{.port = static_cast<std::uint32_t>(device_.port),
                .pkey_index = static_cast<std::uint32_t>(device_.config.ib_pkey_index),
                .counter_set = device_.counter_set,
                .initiator = target != nullptr,
                .access_key = target ? target->key() : 0};
  if (spec.counter_set != 0) {
    try {
      return modify_qp(device_.api, qp_, "RST2INIT", encode_init(qp_.number, spec));
    } catch (const Error& error) {
      GSHMEM_DEBUG("queue %d: not counted in hw_counters: %s", index_, error.what());
    }
    spec.counter_set = 0;
  }
  modify_qp(device_.api, qp_, "RST2INIT", encode_init(qp_.number, spec));
}

ConnectInfo Connection::info() const { return connect_info(device_, qp_.number, psn_); }

void Connection::connect(const ConnectInfo& peer, int pe) {
  const ConnectWire remote = read_connect_info(peer, device_, pe);
  remote_ = remote;
  const Config& config = device_.config;
  const bool ethernet = device_.link_layer == LinkLayer::kEthernet;
  RtrSpec rtr;
  rtr.remote_number = remote.number;
  rtr.receive_psn = remote.psn;
  rtr.mtu = smaller(remote.mtu, device_.port_attributes.active_mtu);
  rtr.log_reads_in = smaller(device_.caps.log_reads_in, 7);
  rtr.port = static_cast<std::uint32_t>(device_.port);
  rtr.pkey_index = static_cast<std::uint32_t>(config.ib_pkey_index);
  rtr.service_level = static_cast<std::uint32_t>(config.ib_service_level);
  rtr.traffic_class = static_cast<std::uint32_t>(config.ib_traffic_class);
  rtr.remote_lid = remote.lid;
  rtr.ethernet = ethernet;
  rtr.global = device_.global();
  if (rtr.global) {
    rtr.gid_index = static_cast<std::uint32_t>(device_.gid.index);
    rtr.hop_limit = kHopLimit;
    rtr.remote_gid = remote.gid;
  }
  if (ethernet) {
    rtr.remote_mac = device_.mac_of(remote.gid, pe);
    rtr.roce_v2 = device_.gid.kind == GidKind::kRoceV2;
    rtr.udp_source_port = udp_source_port(device_.caps, qp_.number, remote.number);
  }
  modify_qp(device_.api, qp_, "INIT2RTR", encode_rtr(qp_.number, rtr));
  to_rts(remote.log_reads_in);
}

/// Makes an initiator ready. Each of its entries contains its destination and its service.
void Connection::make_ready() {
  const bool ethernet = device_.link_layer == LinkLayer::kEthernet;
  const RtrSpec ready{.mtu = static_cast<std::uint32_t>(device_.port_attributes.active_mtu),
                      .port = static_cast<std::uint32_t>(device_.port),
                      .pkey_index = static_cast<std::uint32_t>(device_.config.ib_pkey_index),
                      .service_level = static_cast<std::uint32_t>(device_.config.ib_service_level),
                      .traffic_class = static_cast<std::uint32_t>(device_.config.ib_traffic_class),
                      .initiator = true,
                      .ethernet = ethernet,
                      .roce_v2 = ethernet && device_.gid.kind == GidKind::kRoceV2,
                      .gid_index = ethernet ? static_cast<std::uint32_t>(device_.gid.index) : 0};
  modify_qp(device_.api, qp_, "INIT2RTR", encode_rtr(qp_.number, ready));
  to_rts(device_.caps.log_reads_in);  // as many as each target answers (Mlx5Nic::vector_to)
}

void Connection::to_rts(std::uint32_t log_reads_in) {
  const Config& config = device_.config;
  // A requester must not have more outstanding reads than the responder answers at a time.
  const RtsSpec rts{
      .send_psn = psn_,
      .log_reads_out = smaller(std::min(device_.caps.log_reads_out, 7u), log_reads_in),
      .retry_count = static_cast<std::uint32_t>(config.ib_retry_count),
      // 7, the default, means without end (InfiniBand 11.2.4.2). gshmem needs no receive buffers.
      .rnr_retry = static_cast<std::uint32_t>(config.ib_retry_count),
      .ack_timeout = static_cast<std::uint32_t>(config.ib_timeout)};
  modify_qp(device_.api, qp_, "RTR2RTS", encode_rts(qp_.number, rts));
}

void Connection::stop() noexcept {
  if (qp_.object != nullptr) {
    // The queue first goes to ERROR: queued entries are flushed, and responses in progress find a
    // queue that still exists.
    for (const auto& [opcode, name] :
         {std::pair{prm::Opcode::kToError, "2ERR"}, std::pair{prm::Opcode::kToReset, "2RST"}}) {
      try {
        move_qp(device_.api, qp_, name, opcode);
      } catch (const std::exception& error) {
        GSHMEM_DEBUG("queue %d: %s", index_, error.what());  // it is destroyed regardless
      }
    }
  }
  qp_.object.reset();
  cq_.object.reset();
}

CreatedQueue Connection::created() const {
  return {.number = qp_.number, .doorbell = DoorbellRegisters::doorbell_of(device_, bell_)};
}

std::string Connection::status_text() const try {
  if (qp_.object == nullptr) return {};
  const QpStatus status = query_qp(device_.api, qp_);
  return strprintf("the queue is in state %s, hardware counter %u, software counter %u",
                   state_name(status.state), status.hardware_counter, status.software_counter);
} catch (const Error& error) {
  return std::string("the state of the queue is unknown: ") + error.what();
}

}  // namespace gshmem::nic::mlx5
