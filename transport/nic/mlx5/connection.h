// One queue: its completion queue and queue pair, and the connection to the queue of another PE. An
// initiator of dynamic connections has no other end.
// Owned by Mlx5Nic. Invariant: the queue pair is destroyed before the completion queue. After
// stop() the device accesses neither the queue's memory nor, through this queue, the heap.
#pragma once

#include "transport/nic/mlx5/device.h"
#include "transport/nic/mlx5/dynamic_target.h"

#include <optional>
#include <string>

namespace gshmem::nic::mlx5 {

/// The content of a ConnectInfo. Both ends are little-endian machines, which `magic` verifies.
struct ConnectWire {
  static constexpr std::uint32_t kMagic = 0x35584c4d;  // "MLX5"
  static constexpr std::uint16_t kVersion = 2;
  std::uint32_t magic = kMagic;
  std::uint16_t version = kVersion;
  LinkLayer link_layer = LinkLayer::kInfiniBand;
  std::uint8_t mtu = 0;  ///< of type enum ibv_mtu
  std::uint32_t number = 0, psn = 0;
  std::uint16_t lid = 0, pkey = 0;
  std::uint8_t log_reads_in = 0;  ///< outstanding reads and atomics that it answers
  std::uint8_t global = 0;
  std::uint8_t port = 0;
  char device[21] = {};  ///< the first characters of its name, for messages
  Gid gid{};
};
static_assert(sizeof(ConnectWire) == 60 && sizeof(ConnectWire) <= sizeof(ConnectInfo));

/// Describes an end on this device to the other PEs.
[[nodiscard]] ConnectInfo connect_info(const Device& device, std::uint32_t number,
                                       std::uint32_t psn);
/// Throws when the two ends cannot be connected: another build of gshmem, another link layer,
/// another partition. `pe` is the peer; `mine` describes this end.
[[nodiscard]] ConnectWire read_connect_info(const ConnectInfo& info, const Device& device, int pe);
/// Returns for example "mlx5_0 port 1 (LID 7) to mlx5_3 port 1 (LID 9) of PE 2".
[[nodiscard]] std::string ends_text(const Device& device, const ConnectWire& remote, int pe);

/// The memory of queues, and the doorbell register of this queue, which outlives it. With a target
/// the queue is an initiator of dynamic connections.
struct QueueMemory {
  std::uint32_t umem;
  const mlx5dv_devx_uar& bell;
  const DynamicTarget* target = nullptr;
};

class Connection {
 public:
  /// Creates the queue and moves it to INIT; an initiator is ready then.
  Connection(const Device& device, const QueueMemory& memory, const QueuePlace& place, int index);
  Connection(const Connection&) = delete;
  ~Connection() { stop(); }

  [[nodiscard]] ConnectInfo info() const;
  void connect(const ConnectInfo& peer, int pe);
  /// Flushes and resets the queue.
  void stop() noexcept;

  [[nodiscard]] CreatedQueue created() const;
  [[nodiscard]] mlx5dv_devx_obj* qp_object() const { return qp_.object.get(); }
  [[nodiscard]] mlx5dv_devx_obj* cq_object() const { return cq_.object.get(); }
  [[nodiscard]] std::uint32_t number() const { return qp_.number; }
  /// Returns the argument of connect(), or nothing before it.
  [[nodiscard]] const std::optional<ConnectWire>& remote() const { return remote_; }
  /// Returns the state of the queue as the device reports it, for errors: "the queue is in state
  /// ERROR, ...".
  [[nodiscard]] std::string status_text() const;

 private:
  void to_init(const DynamicTarget* target);
  void make_ready();
  void to_rts(std::uint32_t log_reads_out);

  const Device& device_;
  int index_;
  std::uint32_t psn_ = 0;
  std::optional<ConnectWire> remote_;
  const mlx5dv_devx_uar& bell_;
  DeviceObject cq_, qp_;
};

}  // namespace gshmem::nic::mlx5
