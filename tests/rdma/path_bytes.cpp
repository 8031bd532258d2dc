// path_bytes LOCAL REMOTE MAC INDEX CLASS PRIORITY HOPS PORT: the command that moves a queue pair
// of gshmem to RTR, as hexadecimal digits, for a path between two RDMA devices of this machine:
// from GID INDEX of LOCAL (-1: the one that gshmem chooses) to the GID of the same kind of REMOTE,
// whose network interface has that MAC address. The GIDs come from sysfs, as in jobs. Used by
// wire.py.
#include "transport/nic/gid_choice.h"
#include "transport/nic/mlx5/commands.h"

#include <cstdio>
#include <cstdlib>

using namespace gshmem;
using namespace gshmem::nic;

namespace {

GidEntry gid_of(const char* device, int wanted) {
  return choose_gid(read_gids("/sys", device, 1), LinkLayer::kEthernet, wanted, device);
}

}  // namespace

int main(int count, char** arguments) try {
  require(count == 9, GSHMEMX_ERROR_INVALID_VALUE,
          "path_bytes LOCAL REMOTE MAC INDEX CLASS PRIORITY HOPS PORT");
  const auto number = [&](int i) {
    return static_cast<std::uint32_t>(std::strtol(arguments[i], nullptr, 0));
  };
  const int wanted = static_cast<int>(number(4));
  const GidEntry local = gid_of(arguments[1], wanted), remote = gid_of(arguments[2], wanted);
  mlx5::RtrSpec spec;
  spec.remote_number = 0x123456;
  spec.receive_psn = 0x654321;
  spec.mtu = 3;
  spec.ethernet = spec.global = true;
  spec.roce_v2 = local.kind == GidKind::kRoceV2;
  spec.gid_index = static_cast<std::uint32_t>(local.index);
  spec.remote_gid = remote.gid;
  spec.traffic_class = number(5);
  spec.service_level = number(6);
  spec.hop_limit = number(7);
  spec.udp_source_port = number(8);
  unsigned mac[6] = {};
  const char* const form = "%2x:%2x:%2x:%2x:%2x:%2x";
  require(
      std::sscanf(arguments[3], form, &mac[0], &mac[1], &mac[2], &mac[3], &mac[4], &mac[5]) == 6,
      GSHMEMX_ERROR_INVALID_VALUE, std::string("not a MAC address: ") + arguments[3]);
  for (std::size_t i = 0; i < 6; ++i) spec.remote_mac[i] = static_cast<std::uint8_t>(mac[i]);
  const auto in = mlx5::encode_rtr(1, spec);
  for (std::size_t i = 0; i < in.size(); ++i) std::printf("%02x", in.data()[i]);
  std::printf("\n");
} catch (const std::exception& error) {
  std::fprintf(stderr, "path_bytes: %s\n", error.what());
  return 1;
}
