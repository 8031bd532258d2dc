// The device commands for a reliable connection: their arguments, their bytes (encode_*), and their
// execution over DevX with status and syndrome in words. Included by device.cpp and connection.cpp.
// Invariant: encode_* are pure. Fields that are not in a spec are zero, which the device requires
// of reserved bits and of options that are off.
#pragma once

#include "transport/nic/mlx5/handles.h"
#include "transport/nic/mlx5/prm.h"

#include <array>
#include <cstdint>
#include <string>

namespace gshmem::nic::mlx5 {

/// The capabilities of a device, from QUERY_HCA_CAP.
struct Caps {
  std::uint32_t log_queue_max = 0;  ///< number of entries of 64 bytes in a send queue
  std::uint32_t wqe_bytes_max = 0;
  std::uint32_t log_reads_out = 0, log_reads_in = 0;  ///< outstanding reads and atomics
  bool has_roce = false, has_atomics = false, has_rc = false;
  std::uint32_t cqe_version = 0;
  std::uint32_t atomic_operations = 0, atomic_sizes = 0;
  bool has_dynamic = false;  ///< dynamic connections
  std::uint32_t atomic_sizes_dynamic = 0;
  bool fetched_host_endian = false;        ///< results of 8-byte atomics are in host order
  std::uint32_t timestamp_format = 0;      ///< qpc.ts_format
  bool no_record = false;                  ///< queue pairs may work without a doorbell record
  std::uint32_t log_no_record_queues = 0;  ///< so many at a time; 0: the device names no limit
  /// Source ports of RoCE v2 packets, first and last: those of InfiniBand annex A17 unless the
  /// device reports others.
  std::uint32_t udp_source_min = 0xc000, udp_source_max = 0xffff;
};
[[nodiscard]] Caps query_caps(const VerbsApi& api, ibv_context* context);
/// Throws GSHMEMX_ERROR_NOT_SUPPORTED, which names all capabilities that gshmem needs and `device`
/// lacks.
void require_caps(const Caps& caps, const std::string& device);

/// A completion queue of one entry, collapsed and never overrun: every completion replaces the
/// previous one, and its doorbell record is never written. Source: mlx5_ifc_cqc_bits cc, oi.
struct CqSpec {
  std::uint32_t umem = 0, uar_page = 0, event_queue = 0;
  std::uint64_t entry = 0, record = 0;  ///< offsets in the umem
};
struct QpSpec {
  std::uint32_t umem = 0, uar_page = 0, pd = 0, cq = 0, user_index = 0, timestamp_format = 0;
  std::uint32_t log_entries = 0;
  std::uint64_t entries = 0, record = 0;  ///< offsets in the umem
  bool no_record = false;                 ///< nothing is stored to the record
  bool initiator = false;                 ///< of dynamic connections
  std::uint32_t receive_queue = 0;        ///< a shared one, for an initiator
};
struct InitSpec {
  std::uint32_t port = 1, pkey_index = 0, counter_set = 0;
  bool initiator = false;
  std::uint64_t access_key = 0;  ///< of an initiator
};
struct RtrSpec {
  std::uint32_t remote_number = 0, receive_psn = 0, mtu = 0;  ///< of type enum ibv_mtu
  std::uint32_t log_reads_in = 0;
  std::uint32_t port = 1, pkey_index = 0, service_level = 0, traffic_class = 0;
  std::uint32_t remote_lid = 0;
  bool initiator = false;  ///< it has no other end
  bool ethernet = false;
  bool roce_v2 = false;  ///< for Ethernet: packets are UDP
  bool global = false;   ///< with a GRH; always on Ethernet
  std::uint32_t gid_index = 0, hop_limit = 0, udp_source_port = 0;
  std::array<std::uint8_t, 16> remote_gid{};
  std::array<std::uint8_t, 6> remote_mac{};
};
struct RtsSpec {
  std::uint32_t send_psn = 0, log_reads_out = 0, retry_count = 7, rnr_retry = 7, ack_timeout = 20;
};

/// Messages up to 2^30 bytes.
inline constexpr std::uint32_t kLogMessageMax = 30;

[[nodiscard]] prm::Message<prm::CreateCqIn> encode_create_cq(const CqSpec& spec);
[[nodiscard]] prm::Message<prm::CreateQpIn> encode_create_qp(const QpSpec& spec);
[[nodiscard]] prm::Message<prm::ModifyQpIn> encode_init(std::uint32_t number, const InitSpec& spec);
[[nodiscard]] prm::Message<prm::ModifyQpIn> encode_rtr(std::uint32_t number, const RtrSpec& spec);
[[nodiscard]] prm::Message<prm::ModifyQpIn> encode_rts(std::uint32_t number, const RtsSpec& spec);
/// For 2ERR, 2RST and QUERY_QP.
[[nodiscard]] prm::Message<prm::QpNumberIn> encode_number(prm::Opcode opcode, std::uint32_t number);

struct DeviceObject {
  OwnedObject object;
  std::uint32_t number = 0;
};
// Errors of all: GSHMEMX_ERROR_NIC "CREATE_QP on mlx5_0: status 0x03: bad parameter, syndrome
// 0x3c5f2a (...)", or the kernel's answer when the command did not reach the device.
[[nodiscard]] DeviceObject create_cq(const VerbsApi& api, ibv_context* context, const CqSpec& spec);
[[nodiscard]] DeviceObject create_qp(const VerbsApi& api, ibv_context* context, const QpSpec& spec);
void modify_qp(const VerbsApi& api, const DeviceObject& qp, const char* name,
               const prm::Message<prm::ModifyQpIn>& in);
/// Executes 2ERR or 2RST.
void move_qp(const VerbsApi& api, const DeviceObject& qp, const char* name, prm::Opcode opcode);

struct QpStatus {
  prm::QpState state = prm::QpState::kReset;
  std::uint32_t hardware_counter = 0, software_counter = 0;  ///< numbers of entries, modulo 2^16
};
[[nodiscard]] QpStatus query_qp(const VerbsApi& api, const DeviceObject& qp);
[[nodiscard]] const char* state_name(prm::QpState state) noexcept;

/// Returns the counter set of the port, which the kernel driver's queue pairs use. With it the
/// queue pairs of DevX are counted in /sys/class/infiniband/<device>/ports/<port>/hw_counters, too.
/// It is read from a queue pair that the kernel driver makes; 0 (none) if that fails.
[[nodiscard]] std::uint32_t port_counter_set(const VerbsApi& api, ibv_context* context, ibv_pd* pd,
                                             int port) noexcept;

}  // namespace gshmem::nic::mlx5
