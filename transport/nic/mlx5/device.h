// One opened port of one RDMA device: context, protection domain, and its properties. Included by
// memory, connection, events and mlx5_nic. Invariant: a Device that exists has an active port and
// everything gshmem needs of the hardware.
#pragma once

#include "transport/nic/gid_choice.h"
#include "transport/nic/mlx5/commands.h"
#include "transport/nic/mlx5/device_choice.h"
#include "transport/nic/mlx5/handles.h"
#include "transport/nic/nic.h"

#include <array>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

namespace gshmem::nic::mlx5 {

/// The options that the choice of a device needs, and the path of sysfs (tests have their own).
struct DeviceWish {
  const Config& config;
  std::string gpu_pci = {};
  int local_rank = 0;
  std::string sysfs = "/sys";
  /// A device that was chosen beforehand; otherwise the nearest one is used.
  std::optional<Candidate> chosen = {};
};

struct FoundPort {
  Candidate candidate;
  ibv_port_attr attributes{};
  Network network;
};
/// The active ports of mlx5 devices that GSHMEM_NIC_DEVICES allows, with their devices opened. It
/// also has a text about the ports that were skipped.
struct FoundDevices {
  std::vector<OwnedContext> contexts;
  std::vector<FoundPort> ports;
  std::vector<std::size_t> context_of_port;
  std::string passed_over;
};
[[nodiscard]] ibv_port_attr query_port(const VerbsApi& api, ibv_context* context, int port);
[[nodiscard]] FoundDevices find_devices(const VerbsApi& api, const DeviceWish& wish);
/// Returns the candidates that a PE uses, at most `count`; empty when there are none.
[[nodiscard]] std::vector<Candidate> choose_ports(const FoundDevices& found, const DeviceWish& wish,
                                                  int count);
/// Returns the error text for a search without result.
[[nodiscard]] std::string no_device_text(const FoundDevices& found, const Config& config);

class Device {
 public:
  Device(const VerbsApi& api, const DeviceWish& wish);

  const VerbsApi& api;
  const Config& config;
  std::string name;
  int port = 1;
  Distance distance = Distance::kUnknown;
  OwnedContext context;
  OwnedPd pd;
  std::uint32_t pd_number = 0;
  ibv_device_attr attributes{};
  ibv_port_attr port_attributes{};
  LinkLayer link_layer = LinkLayer::kInfiniBand;
  GidEntry gid;
  std::uint16_t pkey = 0;
  Caps caps;
  std::uint32_t event_queue = 0;
  std::uint32_t counter_set = 0;

  /// Returns for example "mlx5_0 port 1 (InfiniBand, LID 7, MTU 4096, PIX, firmware 28.39.2048)"
  [[nodiscard]] std::string describe() const;
  /// Returns the destination of RoCE packets to the port of PE `pe` with that GID. The kernel is
  /// asked once until forget_macs(), then by each call: a port may have changed its address when a
  /// connection is made later. Threads: any.
  using Mac = std::array<std::uint8_t, 6>;
  [[nodiscard]] Mac mac_of(const Gid& to, int pe) const;
  void forget_macs();
  /// Returns the address of a port as the library takes it: by `gid` where ports are addressed by
  /// GIDs, and else by `lid`.
  [[nodiscard]] ibv_ah_attr way_to(std::uint16_t lid, const Gid& gid) const;
  /// Returns the address vector to that port of PE `pe`, without key and number.
  [[nodiscard]] abi::AddressVector vector_to(std::uint16_t lid, const Gid& gid, int pe) const;
  /// Are ports addressed by GIDs? Always on Ethernet. On InfiniBand when the user selected a GID,
  /// or when the port requires a GRH (virtual ports, which share a LID).
  [[nodiscard]] bool global() const {
    return link_layer == LinkLayer::kEthernet || config.ib_gid_index >= 0 ||
           (port_attributes.flags & IBV_QPF_GRH_REQUIRED) != 0;
  }

 private:
  mutable std::mutex macs_mutex_;
  mutable std::map<Gid, Mac> macs_;
  bool keeps_macs_ = true;

  void choose(const DeviceWish& wish);
  void open(FoundDevices& found, const Candidate& chosen);
  void learn_pkey();
  void learn_gid(const std::string& sysfs);
};

inline constexpr std::uint32_t kHopLimit = 255;  // as NCCL, NVSHMEM and UCX; RFC 5082 asks for it

/// Converts an enum ibv_mtu to 256..4096.
[[nodiscard]] inline int mtu_bytes(unsigned mtu) { return 128 << mtu; }

}  // namespace gshmem::nic::mlx5
