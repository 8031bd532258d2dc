// Checks of RoCE alone: GIDs that are IP addresses, Ethernet MTU, flow control by priority.
#include "host/base/error.h"
#include "host/tools/doctor/checks.h"
#include "host/tools/doctor/ports.h"
#include "host/base/files.h"

#include <algorithm>

namespace gshmem::info {
namespace {

namespace fs = std::filesystem;

using nic::GidEntry;
using nic::GidKind;

const char* kind_name(GidKind kind) {
  switch (kind) {
    case GidKind::kRoceV2:
      return "RoCE v2";
    case GidKind::kRoceV1:
      return "RoCE v1";
    case GidKind::kInfiniBand:
      return "InfiniBand";
    case GidKind::kUnknown:
      break;
  }
  return "of a type that sysfs does not show";
}

std::string listed(const std::vector<GidEntry>& table) {
  std::vector<std::string> entries;
  for (const GidEntry& gid : table) {
    entries.push_back(
        strprintf("%d %s %s", gid.index, kind_name(gid.kind), nic::gid_address(gid.gid).c_str()));
  }
  return entries.empty() ? "empty" : joined(entries);
}

Finding infiniband_gid(const Machine& machine, const NicPort& port,
                       const std::vector<GidEntry>& table) {
  const GidEntry* const gid = chosen_gid(machine, port, table);
  const std::string name = port_name(port);
  if (gid != nullptr) {
    return ok(
        strprintf("%s: index %d, %s", name.c_str(), gid->index, nic::gid_text(gid->gid).c_str()));
  }
  return problem(
      {.symptom = name + ": queues cannot be set up",
       .cause = strprintf("GID index %d is empty; the table: %s",
                          std::max(machine.config.ib_gid_index, 0), listed(table).c_str()),
       .fix = "unset GSHMEM_IB_GID_INDEX"});
}

/// Returns the finding for the entry `gid`, which gshmem will use; `chosen` describes it.
Finding roce_verdict(const GidEntry& gid, int wanted, const std::string& chosen,
                     const std::string& table, const std::string& give_address) {
  if (gid.kind == GidKind::kUnknown) {
    return skipped(chosen + " (a container without gid_attrs?)");
  }
  if (gid.kind != GidKind::kRoceV2) {
    return problem({.symptom = chosen + ": packets are not routed, and peers with v2 do not answer",
                    .cause = wanted >= 0
                                 ? strprintf("GSHMEM_IB_GID_INDEX=%d is RoCE v1; ", wanted) + table
                                 : "no RoCE v2 entry; " + table,
                    .fix = wanted >= 0 ? "unset GSHMEM_IB_GID_INDEX" : give_address});
  }
  if (wanted < 0 && nic::gid_is_link_local(gid.gid)) {
    return hint({.symptom = chosen + ": packets reach hosts of the same Ethernet segment only, and "
                                     "peers that have an IPv4 address not at all",
                 .cause = "no RoCE v2 entry over IPv4 or routable IPv6; " + table,
                 .fix = give_address});
  }
  return ok(chosen + (nic::gid_is_ipv4(gid.gid) ? "" : " (IPv6: all PEs must have it)"));
}

Finding roce_gid(const Machine& machine, const NicPort& port, const std::vector<GidEntry>& table) {
  const int wanted = machine.config.ib_gid_index;
  const GidEntry* const gid = chosen_gid(machine, port, table);
  const std::string name = port_name(port), netdev = port_netdev(machine, port);
  const std::string all = "the table: " + listed(table);
  const std::string give_address =
      "sudo ip addr add <address>/<length> dev " + (netdev.empty() ? "<interface>" : netdev);
  if (gid == nullptr) {
    return problem(
        {.symptom = name + ": queues cannot be set up",
         .cause = strprintf("GID index %d is empty; %s", std::max(wanted, 0), all.c_str()),
         .fix = wanted >= 0 ? "unset GSHMEM_IB_GID_INDEX" : give_address});
  }
  const std::string chosen =
      strprintf("%s: index %d, %s, %s, %s", name.c_str(), gid->index, kind_name(gid->kind),
                nic::gid_address(gid->gid).c_str(), gid->netdev.c_str());
  std::error_code error;
  if (!gid->netdev.empty() && !fs::exists(machine.at("/sys/class/net") / gid->netdev, error)) {
    return problem({.symptom = chosen + ": packets do not leave",
                    .cause = "interface " + gid->netdev + " is not in this network namespace",
                    .fix = "docker run --network=host ...   (Kubernetes: hostNetwork: true, or an "
                           "RDMA CNI plugin that moves the interface in)"});
  }
  return roce_verdict(*gid, wanted, chosen, all, give_address);
}

/// Returns the InfiniBand MTU that fits a network device: <rdma/ib_addr.h> iboe_get_mtu subtracts
/// GRH 40, UDP 8, BTH 12, XRC 4, AtomicETH 28 and ICRC 4.
int roce_mtu(std::int64_t netdev_mtu) {
  constexpr int kHeaders = 40 + 8 + 12 + 4 + 28 + 4;
  int mtu = 4096;
  while (mtu > 256 && netdev_mtu - kHeaders < mtu) mtu /= 2;
  return mtu;
}

Finding mtu_of(const Machine& machine, const NicPort& port) {
  const std::string name = port_name(port);
  if (!is_ethernet(port)) {
    return skipped(name + ": InfiniBand's active MTU is not in sysfs; ibv_devinfo -d " +
                   port.device + " | grep active_mtu");
  }
  const std::string netdev = port_netdev(machine, port);
  const std::optional<std::int64_t> bytes =
      number_in(machine.at("/sys/class/net") / netdev / "mtu");
  if (netdev.empty() || !bytes)
    return skipped(name + ": its network interface is not visible here");
  const int mtu = roce_mtu(*bytes);
  const std::string now = strprintf("%s: %s has MTU %d, so RoCE packets carry %d bytes",
                                    name.c_str(), netdev.c_str(), static_cast<int>(*bytes), mtu);
  if (mtu == 4096) return ok(now);
  return hint({.symptom = now + " of 4096: more packets for large puts",
               .cause = "an MTU of 4192 and more carries 4096 bytes",
               .fix = "sudo ip link set " + netdev +
                      " mtu 9000   (switches and all hosts alike; for good in netplan or "
                      "NetworkManager)"});
}

/// Returns "0 3" for the priorities whose file below `folder` contains 1; nothing when there is no
/// such folder.
std::optional<std::string> enabled_priorities(const fs::path& folder) {
  const std::vector<std::string> names = names_in(folder);
  if (names.empty()) return {};
  std::vector<std::string> on;
  for (const std::string& name : names) {
    if (number_in(folder / name) == 1) on.push_back(name);
  }
  return on.empty() ? "none" : joined(on, " ");
}

Finding losses_of(const Machine& machine, const NicPort& port, const std::string& priority) {
  // mlx5 counters are documented at docs.kernel.org, "Ethernet counters", RDMA hw_counters.
  const fs::path counters = port_folder(machine, port) / "hw_counters";
  std::vector<std::string> bad;
  bool counted = false;
  for (const char* name : {"local_ack_timeout_err", "packet_seq_err", "out_of_sequence"}) {
    const std::optional<std::int64_t> count = number_in(counters / name);
    counted = counted || count;
    if (count > 0) bad.push_back(strprintf("%s %ld", name, *count));
  }
  const std::string name = port_name(port), netdev = port_netdev(machine, port);
  const std::string look = "mlnx_qos -i " + netdev + "   or   dcb pfc show dev " + netdev;
  if (!counted) {
    return skipped(name + ": no counters of lost packets, and PFC is not in sysfs: " + look);
  }
  if (bad.empty()) {
    return ok(name + ": no lost packets since the driver was loaded; " + priority +
              " (PFC is not in sysfs: " + look + ")");
  }
  return hint({.symptom = name + ": packets were lost since the driver was loaded: " + joined(bad),
               .cause = "RoCE without working flow control loses packets under load; " + priority,
               .fix = look + "; lossless for that priority on host and switch: sudo mlnx_qos -i " +
                      netdev + " --trust dscp --pfc 0,0,0,1,0,0,0,0"});
}

}  // namespace

Findings check_gids(const Machine& machine) {
  return at_active_ports(machine, Links::kAll, [&](const NicPort& port) {
    const std::vector<GidEntry> table = gids(machine, port);
    return is_ethernet(port) ? roce_gid(machine, port, table)
                             : infiniband_gid(machine, port, table);
  });
}

Findings check_mtu(const Machine& machine) {
  return at_active_ports(machine, Links::kAll,
                         [&](const NicPort& port) { return mtu_of(machine, port); });
}

Findings check_flow_control(const Machine& machine) {
  const int priority = machine.config.ib_service_level % 8;
  const int dscp = machine.config.ib_traffic_class / 4;
  return at_active_ports(machine, Links::kEthernet, [&](const NicPort& port) {
    std::string used = strprintf(
        "gshmem sends with priority %d, DSCP %d (GSHMEM_IB_SL, "
        "GSHMEM_IB_TRAFFIC_CLASS)",
        priority, dscp);
    // Only MLNX_OFED's mlx5_core has these files.
    const fs::path ecn = machine.at("/sys/class/net") / port_netdev(machine, port) / "ecn";
    const auto notify = enabled_priorities(ecn / "roce_np" / "enable");
    const auto react = enabled_priorities(ecn / "roce_rp" / "enable");
    if (notify && react) {
      used += "; ECN notifies on priorities " + *notify + ", reacts on " + *react;
    }
    return losses_of(machine, port, used);
  });
}

}  // namespace gshmem::info
