// A libibverbs and libmlx5 of the test's own: every call succeeds except the one that is told to
// fail, every object is counted, and commands are answered as a ConnectX with one active port
// would.
#pragma once

#include "transport/nic/mlx5/verbs_api.h"

#include <atomic>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace gshmem::nic::mlx5 {

struct FakeVerbs {
  // What the test chooses.
  int fail_at = -1;                         ///< the how-manieth call fails, from 0; -1: none
  int fail_errno = EIO;                     ///< 0: errno stays as it is
  bool by_errno = false, negative = false;  ///< commands that fail return -1, or -fail_errno
  std::string fail_named;                   ///< or: every call of this name fails
  std::uint8_t fail_status = 0;             ///< and devices answer with this status
  int devices = 1;                          ///< mlx5_7 and on
  const char* name = "mlx5_7";              ///< of the first one
  int unsupported = -1;                     ///< the how-manieth is no mlx5, from 0
  bool ethernet = false, active = true, grh_required = false;
  ibv_port_state state = IBV_PORT_ACTIVE;         ///< of an active port
  int gid_index = 0;                              ///< the only one
  std::uint8_t prefix = 0;                        ///< last byte of the GID's subnet
  std::uint32_t gid_type = IBV_GID_TYPE_ROCE_V2;  ///< on Ethernet
  bool atomics = true;
  ibv_atomic_cap atomicity = IBV_ATOMIC_HCA;
  bool host_endian = true;  ///< 8-byte results of them
  std::uint16_t atomic_operations = 0xf;
  int timestamps = -1;  ///< qp_ts_format of its RoCE, which it has then
  std::pair<std::uint16_t, std::uint16_t> udp_sources{};  ///< of that
  std::uint64_t port_speed = 0;                           ///< in 100 Mb/s; 0: the call fails
  std::uint16_t pkey = 0xffff;
  std::uint8_t cqe_version = 1, ports = 1;
  std::uint16_t wqe_bytes_max = 1024;
  std::uint8_t log_queue_max = 15, log_reads = 4;  ///< of reads, in either direction
  std::uint8_t counter_set = 0x21;                 ///< of the port
  int registers = 1000;                            ///< doorbells that can still be had
  bool umem_dmabuf = true;                         ///< user memory is taken by a dmabuf
  bool no_record = false;                          ///< queue pairs may do without a doorbell record
  std::uint8_t width = 0, speed = 0;               ///< of the port, as codes
  std::uint32_t qp_state = 3, qp_counters = 0;     ///< what QUERY_QP answers, by place in the qpc

  // What it saw.
  std::vector<std::string> calls;
  std::string failed;      ///< name of the call that failed
  std::uint32_t made = 0;  ///< objects by commands, which are their numbers
  int live = 0;            ///< objects not released yet
  std::atomic<int> event_reads{0};
  std::atomic<int> acknowledged{0};  ///< events of verbs
  std::vector<std::vector<std::uint8_t>> commands;
  ibv_ah_attr address{};           ///< of the last address handle
  ibv_qp_attr moved{};             ///< what a queue pair of verbs was moved to, and ...
  int moved_mask = 0;              ///< ... which of it counts
  std::uint64_t page_sizes = 0;    ///< that user memory was registered with
  std::uint32_t umem_access = 0;   ///< rights of that
  std::uint64_t umem_mask = 0;     ///< what was named of it besides
  int channel_flags = -1;          ///< of the channel for events of DevX
  int direct_access = 0;           ///< flags of mlx5dv_reg_dmabuf_mr
  std::vector<unsigned> access;    ///< rights of regions, which are keys 0x55 and on
  std::vector<std::size_t> bytes;  ///< of regions
  std::vector<std::pair<std::vector<std::uint16_t>, std::uint64_t>> watched;  ///< events, cookie

  /// Has the device's port report an event.
  void raise(ibv_event_type type);
  /// Has one of its queues report an event of DevX.
  static void raise_device(std::uint64_t cookie);
  /// Whether reads of its files of events return where there is none.
  [[nodiscard]] static std::pair<bool, bool> non_blocking();
  /// Has the device go away: its files of events are readable for ever, and are at their end.
  static void remove();
  /// Has it go away with an event of poll that nobody asks for, of the file of verbs alone.
  static void remove_with(short revents);
  /// Commands with this opcode, in order.
  [[nodiscard]] std::vector<std::vector<std::uint8_t>> commands_of(std::uint16_t opcode) const;
};

/// The one that the table below works on. Each test begins with a fresh one.
FakeVerbs& fake_verbs();
void fake_verbs_reset();
/// The table of functions over fake_verbs().
[[nodiscard]] VerbsApi fake_verbs_api();
/// With the calls for events of DevX, which the other one does not have.
[[nodiscard]] VerbsApi fake_verbs_api_with_device_events();

}  // namespace gshmem::nic::mlx5
