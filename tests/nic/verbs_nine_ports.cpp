// The calls of libibverbs and libmlx5 that a search for ports makes, for one device with nine
// InfiniBand ports, the last of which is on another subnet.
#include <infiniband/mlx5dv.h>
#include <infiniband/verbs.h>

#include <cstdint>

#undef ibv_query_port
#define EXPORTED extern "C" __attribute__((visibility("default")))

namespace {

ibv_device the_device{};
ibv_device* the_list[] = {&the_device, nullptr};
ibv_context the_context{};
constexpr std::uint8_t kPorts = 9;

}  // namespace

EXPORTED ibv_device** ibv_get_device_list(int* count) {
  *count = 1;
  return the_list;
}
EXPORTED void ibv_free_device_list(ibv_device**) {}
EXPORTED const char* ibv_get_device_name(ibv_device*) { return "mlx5_0"; }
EXPORTED bool mlx5dv_is_supported(ibv_device*) { return true; }
EXPORTED ibv_context* ibv_open_device(ibv_device*) { return &the_context; }
EXPORTED int ibv_close_device(ibv_context*) { return 0; }
EXPORTED int ibv_query_device(ibv_context*, ibv_device_attr* out) {
  *out = {};
  out->phys_port_cnt = kPorts;
  return 0;
}
EXPORTED int ibv_query_port(ibv_context*, std::uint8_t, _compat_ibv_port_attr* out) {
  auto* attributes = reinterpret_cast<ibv_port_attr*>(out);
  attributes->state = IBV_PORT_ACTIVE;
  attributes->link_layer = IBV_LINK_LAYER_INFINIBAND;
  return 0;
}
EXPORTED int ibv_query_gid(ibv_context*, std::uint8_t port, int, ibv_gid* out) {
  *out = {};
  out->raw[7] = port == kPorts ? 2 : 1;
  return 0;
}
