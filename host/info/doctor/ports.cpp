#include "host/info/doctor/ports.h"

#include "host/base/error.h"
#include "host/info/files.h"

#include <algorithm>
#include <charconv>

namespace gshmem::info {
namespace {

namespace fs = std::filesystem;

/// "fe80:0000:...:0001", eight groups of four digits; nothing when it is another text.
std::optional<std::array<std::uint8_t, 16>> gid_bytes(const std::string& text) {
  std::array<std::uint8_t, 16> bytes{};
  if (text.size() < 39) return {};
  for (std::size_t group = 0; group < 8; ++group) {
    const char* const at = text.data() + 5 * group;
    std::uint16_t value = 0;
    if (std::from_chars(at, at + 4, value, 16).ptr != at + 4) return {};
    bytes[2 * group] = static_cast<std::uint8_t>(value >> 8);
    bytes[2 * group + 1] = static_cast<std::uint8_t>(value);
  }
  return bytes;
}

}  // namespace

std::vector<NicPort> rdma_ports(const Machine& machine) {
  return nic_ports(machine.at("/sys").string());
}

fs::path port_folder(const Machine& machine, const NicPort& port) {
  return machine.at("/sys/class/infiniband") / port.device / "ports" / std::to_string(port.port);
}

std::string port_name(const NicPort& port) {
  return port.device + " port " + std::to_string(port.port);
}

bool Gid::ipv4() const {
  return std::all_of(bytes.begin(), bytes.begin() + 10, [](std::uint8_t b) { return b == 0; }) &&
         bytes[10] == 0xff && bytes[11] == 0xff;
}

std::string Gid::address() const {
  if (!ipv4()) return text;
  return strprintf("%u.%u.%u.%u", unsigned{bytes[12]}, unsigned{bytes[13]}, unsigned{bytes[14]},
                   unsigned{bytes[15]});
}

std::vector<Gid> gids(const Machine& machine, const NicPort& port) {
  // Documentation/ABI/stable/sysfs-class-infiniband: gids, gid_attrs/types, gid_attrs/ndevs. An
  // unused entry reads as zeros, and its attributes fail with EINVAL.
  const fs::path folder = port_folder(machine, port);
  std::vector<Gid> table;
  for (const std::string& name : names_in(folder / "gids")) {
    Gid gid;
    gid.index = static_cast<int>(leading_number(name).value_or(-1));
    gid.text = first_line(folder / "gids" / name);
    const auto bytes = gid_bytes(gid.text);
    if (!bytes || std::all_of(bytes->begin(), bytes->end(), [](auto b) { return b == 0; })) {
      continue;
    }
    gid.bytes = *bytes;
    gid.v2 = first_line(folder / "gid_attrs" / "types" / name) == "RoCE v2";
    gid.netdev = first_line(folder / "gid_attrs" / "ndevs" / name);
    table.push_back(std::move(gid));
  }
  std::sort(table.begin(), table.end(),
            [](const Gid& a, const Gid& b) { return a.index < b.index; });
  return table;
}

const Gid* chosen_gid(const std::vector<Gid>& table, int wanted) {
  auto found = table.end();
  if (wanted < 0) {
    found = std::find_if(table.begin(), table.end(),
                         [](const Gid& gid) { return gid.v2 && gid.ipv4(); });
  }
  if (found == table.end()) {
    const int index = std::max(wanted, 0);
    found = std::find_if(table.begin(), table.end(),
                         [&](const Gid& gid) { return gid.index == index; });
  }
  return found == table.end() ? nullptr : &*found;
}

std::string port_netdev(const Machine& machine, const NicPort& port) {
  for (const Gid& gid : gids(machine, port)) {
    if (!gid.netdev.empty()) return gid.netdev;
  }
  const std::vector<std::string> names =
      names_in(machine.at("/sys/class/infiniband") / port.device / "device" / "net");
  return names.empty() ? "" : names.front();
}

}  // namespace gshmem::info
