// A libibverbs and libmlx5 of the test: every call succeeds except one that the test chooses, every
// object is counted, and commands are answered as by a ConnectX with one active port.
#pragma once

#include "transport/nic/mlx5/verbs_api.h"

#include <atomic>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace gshmem::nic::mlx5 {

struct FakeVerbs {
  // Chosen by the test.
  int fail_at = -1;                         ///< index of the call that fails, from 0; -1: none
  int fail_errno = EIO;                     ///< 0: errno is unchanged
  bool by_errno = false, negative = false;  ///< commands that fail return -1, or -fail_errno
  std::string fail_named;                   ///< every call of this name fails
  std::uint8_t fail_status = 0;             ///< the status with which devices answer then
  int devices = 1;                          ///< mlx5_7 and following
  const char* name = "mlx5_7";              ///< of the first one
  int unsupported = -1;                     ///< index of the device that is no mlx5, from 0
  bool ethernet = false, active = true, grh_required = false;
  std::uint8_t mac_end = 0x55;                    ///< of every port
  ibv_port_state state = IBV_PORT_ACTIVE;         ///< of an active port
  int gid_index = 0;                              ///< the only one
  std::uint8_t prefix = 0;                        ///< last byte of the GID's subnet
  std::uint32_t gid_type = IBV_GID_TYPE_ROCE_V2;  ///< on Ethernet
  bool atomics = true;
  ibv_atomic_cap atomicity = IBV_ATOMIC_HCA;
  bool host_endian = true;  ///< byte order of 8-byte results
  std::uint16_t atomic_operations = 0xf;
  bool dynamic = false;                   ///< dynamic connections
  std::uint8_t atomic_sizes_dynamic = 0;  ///< sizes of atomics over them
  int timestamps = -1;  ///< qp_ts_format of its RoCE capabilities; -1: it has none
  std::pair<std::uint16_t, std::uint16_t> udp_sources{};  ///< of its RoCE capabilities
  std::uint64_t port_speed = 0;                           ///< in 100 Mb/s; 0: the call fails
  std::uint16_t pkey = 0xffff;
  std::uint8_t cqe_version = 1, ports = 1;
  std::uint16_t wqe_bytes_max = 1024;
  std::uint8_t log_queue_max = 15, log_reads = 4;  ///< of reads, in either direction
  std::uint8_t counter_set = 0x21;                 ///< of the port
  int registers = 1000;                            ///< doorbells that are left
  bool umem_dmabuf = true;                         ///< dmabufs are accepted as user memory
  std::uint8_t log_no_record_queues = 0;           ///< log_max_send_dbr_less_qp_sq
  bool no_record = false;                       ///< queue pairs may work without a doorbell record
  std::uint8_t width = 0, speed = 0;            ///< of the port, as codes
  std::uint32_t qp_state = 3, qp_counters = 0;  ///< the answer of QUERY_QP, as in the qpc

  // Recorded.
  std::vector<std::string> calls;
  std::string failed;      ///< name of the call that failed
  std::uint32_t made = 0;  ///< objects made by commands, which are their numbers
  int live = 0;            ///< objects not released yet
  std::atomic<int> event_reads{0};
  std::atomic<int> acknowledged{0};  ///< events of verbs that were acknowledged
  std::vector<std::vector<std::uint8_t>> commands;
  ibv_ah_attr address{};           ///< of the last address handle
  ibv_qp_attr moved{};             ///< attributes to which a queue pair of verbs was moved
  int moved_mask = 0;              ///< ... and their mask
  std::uint64_t page_sizes = 0;    ///< page sizes with which user memory was registered
  std::uint32_t umem_access = 0;   ///< its access rights
  std::uint64_t umem_mask = 0;     ///< its other fields
  int channel_flags = -1;          ///< of the channel for events of DevX
  int direct_access = 0;           ///< flags of mlx5dv_reg_dmabuf_mr
  std::vector<unsigned> access;    ///< access rights of regions, whose keys begin at 0x55
  std::vector<std::size_t> bytes;  ///< of regions
  std::vector<std::size_t> begin;  ///< of regions in their dmabufs
  std::vector<std::pair<std::vector<std::uint16_t>, std::uint64_t>> watched;  ///< events, cookie

  /// Makes the device's port report an event.
  void raise(ibv_event_type type);
  /// Makes one of its queues report an event of DevX.
  static void raise_device(std::uint64_t cookie);
  /// Do reads of its event files return when there is no event?
  [[nodiscard]] static std::pair<bool, bool> non_blocking();
  /// Removes the device: its event files stay readable, at their end.
  static void remove();
  /// Removes it with an unrequested poll event, of the file of verbs only.
  static void remove_with(short revents);
  /// Returns the commands with this opcode, in order.
  [[nodiscard]] std::vector<std::vector<std::uint8_t>> commands_of(std::uint16_t opcode) const;
};

/// The object that the functions of the table below use. Each test begins with a new one.
FakeVerbs& fake_verbs();
void fake_verbs_reset();
/// Returns the table of functions over fake_verbs().
[[nodiscard]] VerbsApi fake_verbs_api();
/// Includes the calls for events of DevX, which the other table lacks.
[[nodiscard]] VerbsApi fake_verbs_api_with_device_events();

}  // namespace gshmem::nic::mlx5
