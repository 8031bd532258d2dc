#include "transport/nic/mlx5/device.h"

#include "transport/nic/mlx5/dynamic_target.h"

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace gshmem::nic::mlx5 {
namespace {

const char* port_state_name(ibv_port_state state) {
  switch (state) {
    case IBV_PORT_DOWN:
      return "DOWN";
    case IBV_PORT_INIT:
      return "INIT (no subnet manager has configured it)";
    case IBV_PORT_ARMED:
      return "ARMED (no subnet manager has activated it)";
    case IBV_PORT_ACTIVE:
      return "ACTIVE";
    default:
      return "in no state of use";
  }
}

void note(std::string& list, const std::string& text) {
  if (!list.empty()) list += "; ";
  list += text;
}

OwnedContext open_context(const VerbsApi& api, ibv_device* device, const std::string& name) {
  errno = 0;
  ibv_context* context = api.open_device(device);
  if (context == nullptr) {
    fail_verbs(
        "ibv_open_device(" + name + ")", errno,
        errno == EACCES || errno == EPERM
            ? "no permission on /dev/infiniband/uverbs*: give the user access (udev rule), or "
              "the container the devices (--device=/dev/infiniband)"
            : "");
  }
  return own(context, api.close_device, "ibv_close_device");
}

Network network_of(const VerbsApi& api, ibv_context* context, int port,
                   const ibv_port_attr& attributes) {
  if (attributes.link_layer == IBV_LINK_LAYER_ETHERNET) return {LinkLayer::kEthernet};
  Network network;
  ibv_gid gid{};  // the default GID, which every InfiniBand port has
  if (api.query_gid(context, static_cast<std::uint8_t>(port), 0, &gid) == 0)
    network.prefix = abi::swap_bytes(std::uint64_t{gid.global.subnet_prefix});
  return network;
}

/// Returns the rate of a port, from its codes (InfiniBand 14.2.5.6, PortInfo: LinkWidthActive,
/// LinkSpeedActive, LinkSpeedExtActive; enum ib_port_speed of linux rdma/ib_verbs.h). 0: unknown.
double gbits_of_codes(const ibv_port_attr& port) {
  struct Code {
    int code;
    double value;
  };
  constexpr Code kLanes[] = {{1, 1}, {2, 4}, {4, 8}, {8, 12}, {16, 2}};
  constexpr Code kGbits[] = {{1, 2.5}, {2, 5},   {4, 10},  {8, 10},
                             {16, 14}, {32, 25}, {64, 50}, {128, 100}};
  const auto value = [](const auto& table, int code) {
    for (const Code& each : table)
      if (each.code == code) return each.value;
    return 0.0;
  };
  return value(kLanes, port.active_width) * value(kGbits, port.active_speed);
}

/// Returns the rate as newer libraries report it, in units of 100 Mb/s: the codes have no XDR.
double gbits_of(const VerbsApi& api, ibv_context* context, int port,
                const ibv_port_attr& attributes) {
  std::uint64_t speed = 0;
  const bool known = api.query_port_speed != nullptr &&
                     api.query_port_speed(context, static_cast<std::uint32_t>(port), &speed) == 0;
  return known && speed != 0 ? static_cast<double>(speed) / 10 : gbits_of_codes(attributes);
}

/// Reads the GIDs of a device that sysfs does not show.
std::vector<GidEntry> gids_of_library(const VerbsApi& api, ibv_context* context, int port,
                                      int count) {
  std::vector<GidEntry> entries;
  for (int index = 0; index < count; ++index) {
    GidEntry entry;
    entry.index = index;
    ibv_gid_entry full{};
    ibv_gid gid{};
    if (api.query_gid_ex != nullptr &&
        api.query_gid_ex(context, static_cast<std::uint32_t>(port),
                         static_cast<std::uint32_t>(index), &full, 0, sizeof(full)) == 0) {
      gid = full.gid;
      entry.kind = full.gid_type == IBV_GID_TYPE_ROCE_V2   ? GidKind::kRoceV2
                   : full.gid_type == IBV_GID_TYPE_ROCE_V1 ? GidKind::kRoceV1
                                                           : GidKind::kInfiniBand;
    } else if (api.query_gid(context, static_cast<std::uint8_t>(port), index, &gid) != 0) {
      continue;  // this entry is not in use
    }
    std::memcpy(entry.gid.data(), gid.raw, entry.gid.size());
    if (entry.gid != Gid{}) entries.push_back(entry);
  }
  return entries;
}

/// `count` is the number of entries of the port's table.
std::vector<GidEntry> gids_of(const VerbsApi& api, const std::string& sysfs, ibv_context* context,
                              const std::string& device, int port, int count) {
  std::vector<GidEntry> entries = read_gids(sysfs, device, port);
  return entries.empty() ? gids_of_library(api, context, port, count) : entries;
}

void look_at(const VerbsApi& api, ibv_device* device, const DeviceWish& wish,
             const DeviceFilter& filter, FoundDevices& found) {
  const std::string name = api.get_device_name(device);
  if (wish.chosen && wish.chosen->device != name) return;
  if (!api.is_supported(device)) return note(found.passed_over, name + " is not an mlx5 device");
  OwnedContext context = open_context(api, device, name);
  ibv_device_attr attributes{};
  check_verbs(api.query_device(context.get(), &attributes), "ibv_query_device(" + name + ")");
  const Distance distance = device_distance(wish.sysfs, name, wish.gpu_pci);
  for (int port = 1; port <= attributes.phys_port_cnt; ++port) {
    const std::string where = strprintf("%s port %d", name.c_str(), port);
    if (!wish.chosen && !filter.accepts(name, port)) {
      note(found.passed_over, where + " is not in GSHMEM_NIC_DEVICES");
      continue;
    }
    const ibv_port_attr port_attributes = query_port(api, context.get(), port);
    if (port_attributes.state != IBV_PORT_ACTIVE) {
      note(found.passed_over, where + " is " + port_state_name(port_attributes.state));
      continue;
    }
    const bool ethernet = port_attributes.link_layer == IBV_LINK_LAYER_ETHERNET;
    if (!wish.chosen && ethernet &&
        gids_of(api, wish.sysfs, context.get(), name, port, port_attributes.gid_tbl_len).empty()) {
      note(found.passed_over, where + " " + kNoGid);
      continue;
    }
    found.ports.push_back(
        {{name, port, distance, gbits_of(api, context.get(), port, port_attributes)},
         port_attributes,
         network_of(api, context.get(), port, port_attributes)});
    found.context_of_port.push_back(found.contexts.size());
  }
  found.contexts.push_back(std::move(context));
}

}  // namespace

ibv_port_attr query_port(const VerbsApi& api, ibv_context* context, int port) {
  // verbs.h has a macro for this call that links against libibverbs. The function itself fills the
  // first part of the structure, up to `flags`, which has all fields that are used here.
  ibv_port_attr attributes{};
  check_verbs(api.query_port(context, static_cast<std::uint8_t>(port),
                             reinterpret_cast<_compat_ibv_port_attr*>(&attributes)),
              strprintf("ibv_query_port(port %d)", port));
  return attributes;
}

FoundDevices find_devices(const VerbsApi& api, const DeviceWish& wish) {
  const DeviceFilter filter(wish.config.nic_devices);
  FoundDevices found;
  int count = 0;
  errno = 0;
  ibv_device** list = api.get_device_list(&count);
  if (list == nullptr) {
    if (errno == ENOSYS) return found;  // the kernel has no module of RDMA
    note(found.passed_over, std::string("ibv_get_device_list: ") + std::strerror(errno));
    return found;
  }
  const Owned<ibv_device*, void> freed = own(list, api.free_device_list, "ibv_free_device_list");
  for (int i = 0; i < count; ++i) {
    try {
      look_at(api, list[i], wish, filter, found);
    } catch (const Error& error) {
      if (error.code() == GSHMEMX_ERROR_OUT_OF_MEMORY) throw;
      note(found.passed_over, error.what());
    }
  }
  return found;
}

std::string no_device_text(const FoundDevices& found, const Config& config) {
  std::string text = "no RDMA device that gshmem can use";
  if (!config.nic_devices.empty()) text += " (GSHMEM_NIC_DEVICES=\"" + config.nic_devices + "\")";
  text += ": " + (found.passed_over.empty()
                      ? std::string("the system has none (/sys/class/infiniband is empty; is the "
                                    "mlx5_ib module loaded?); GSHMEM_NIC=ofi takes libfabric, and "
                                    "soft a NIC in software")
                      : found.passed_over);
  return text;
}

std::vector<Candidate> choose_ports(const FoundDevices& found, const DeviceWish& wish, int count) {
  std::vector<Candidate> candidates, chosen;
  for (const FoundPort& each : found.ports) candidates.push_back(each.candidate);
  for (const int index : choose_devices(candidates, wish.local_rank, count)) {
    chosen.push_back(candidates[static_cast<std::size_t>(index)]);
  }
  return chosen;
}

Device::Device(const VerbsApi& api_in, const DeviceWish& wish) : api(api_in), config(wish.config) {
  choose(wish);
  check_verbs(api.query_device(context.get(), &attributes), "ibv_query_device(" + name + ")");
  caps = query_caps(api, context.get());
  require_caps(caps, name);
  if (config.connect == ConnectChoice::kDc) require_dynamic(caps, name);
  pd = own(check_verbs(api.alloc_pd(context.get()), "ibv_alloc_pd(" + name + ")"), api.dealloc_pd,
           "ibv_dealloc_pd");
  mlx5dv_pd pd_out{};
  mlx5dv_obj object{};
  object.pd.in = pd.get();
  object.pd.out = &pd_out;
  check_verbs(api.init_obj(&object, MLX5DV_OBJ_PD), "mlx5dv_init_obj(PD)");
  pd_number = pd_out.pdn;
  check_verbs(api.query_eqn(context.get(), 0, &event_queue), "mlx5dv_devx_query_eqn(vector 0)");
  learn_pkey();
  learn_gid(wish.sysfs);
  counter_set = port_counter_set(api, context.get(), pd.get(), port);
}

void Device::choose(const DeviceWish& wish) {
  FoundDevices found = find_devices(api, wish);
  const std::vector<Candidate> nearest = choose_ports(found, wish, 1);
  require(!nearest.empty(), GSHMEMX_ERROR_NIC, no_device_text(found, config));
  open(found, wish.chosen.value_or(nearest.front()));
}

void Device::open(FoundDevices& found, const Candidate& chosen) {
  const auto at = std::ranges::find_if(found.ports, [&](const FoundPort& each) {
    return each.candidate.device == chosen.device && each.candidate.port == chosen.port;
  });
  require(at != found.ports.end(), GSHMEMX_ERROR_NIC, no_device_text(found, config));
  const auto index = static_cast<std::size_t>(at - found.ports.begin());
  name = chosen.device;
  port = chosen.port;
  distance = chosen.distance;
  port_attributes = found.ports[index].attributes;
  context = std::move(found.contexts[found.context_of_port[index]]);
  link_layer = port_attributes.link_layer == IBV_LINK_LAYER_ETHERNET ? LinkLayer::kEthernet
                                                                     : LinkLayer::kInfiniBand;
}

void Device::learn_pkey() {
  const int index = config.ib_pkey_index;
  __be16 value = 0;
  const int result = api.query_pkey(context.get(), static_cast<std::uint8_t>(port), index, &value);
  const std::uint16_t key = abi::swap_bytes(static_cast<std::uint16_t>(value));
  // Entry 0 is the default partition everywhere, so a table that cannot be read is not an error.
  // Any other entry must exist: with a wrong entry, packets are dropped silently.
  if (index == 0 && (result != 0 || key == 0)) {
    pkey = 0xffff;
    return;
  }
  require(
      result == 0 && (key & 0x7fff) != 0, GSHMEMX_ERROR_CONFIG,
      strprintf("GSHMEM_IB_PKEY_INDEX=%d: entry %d of the partition table of %s port %d is empty "
                "(see /sys/class/infiniband/%s/ports/%d/pkeys)",
                index, index, name.c_str(), port, name.c_str(), port));
  pkey = key;
}

void Device::learn_gid(const std::string& sysfs) {
  const std::vector<GidEntry> entries =
      gids_of(api, sysfs, context.get(), name, port, port_attributes.gid_tbl_len);
  gid = choose_gid(entries, link_layer, config.ib_gid_index,
                   strprintf("%s port %d", name.c_str(), port));
}

std::string Device::describe() const {
  const char* const version = gid.kind == GidKind::kRoceV2   ? ", RoCE v2"
                              : gid.kind == GidKind::kRoceV1 ? ", RoCE v1"
                                                             : "";
  const std::string address =
      link_layer == LinkLayer::kInfiniBand
          ? strprintf("LID %d", port_attributes.lid)
          : strprintf("GID %d %s%s", gid.index, gid_text(gid.gid).c_str(), version);
  return strprintf("%s port %d (%s, %s, MTU %d, %s, firmware %s%s)", name.c_str(), port,
                   link_layer_name(link_layer), address.c_str(),
                   mtu_bytes(port_attributes.active_mtu),
                   distance == Distance::kUnknown ? "distance unknown" : distance_name(distance),
                   attributes.fw_ver, caps.no_record ? ", no doorbell records" : "");
}

ibv_ah_attr Device::way_to(std::uint16_t lid, const Gid& to) const {
  ibv_ah_attr attributes{};
  attributes.dlid = lid;
  attributes.sl = static_cast<std::uint8_t>(config.ib_service_level);
  attributes.port_num = static_cast<std::uint8_t>(port);
  if (!global()) return attributes;
  attributes.is_global = 1;
  std::memcpy(attributes.grh.dgid.raw, to.data(), to.size());
  attributes.grh.sgid_index = static_cast<std::uint8_t>(gid.index);
  attributes.grh.hop_limit = kHopLimit;
  attributes.grh.traffic_class = static_cast<std::uint8_t>(config.ib_traffic_class);
  if (link_layer == LinkLayer::kEthernet) attributes.sl &= 7;
  return attributes;
}

abi::AddressVector Device::vector_to(std::uint16_t lid, const Gid& to, int pe) const {
  ibv_ah_attr attributes = way_to(lid, to);
  const std::string whom = global() ? "GID " + gid_text(to) : strprintf("LID %d", lid);
  errno = 0;
  const OwnedAh handle = own(check_verbs(api.create_ah(pd.get(), &attributes),
                                         strprintf("ibv_create_ah(%s of PE %d)", whom.c_str(), pe),
                                         "there is no way from " + describe() +
                                             " to that address: try to ping it, or choose another "
                                             "GID by GSHMEM_IB_GID_INDEX"),
                             api.destroy_ah, "ibv_destroy_ah");
  mlx5dv_ah out{};
  mlx5dv_obj object{};
  object.ah.in = handle.get();
  object.ah.out = &out;
  check_verbs(api.init_obj(&object, MLX5DV_OBJ_AH), "mlx5dv_init_obj(AH)");
  abi::AddressVector vector{};
  static_assert(sizeof(vector) == sizeof(*out.av));
  std::memcpy(&vector, out.av, sizeof(vector));
  return vector;
}

Device::Mac Device::mac_of(const Gid& to, int pe) const {
  const std::lock_guard<std::mutex> lock(macs_mutex_);
  if (const auto known = macs_.find(to); known != macs_.end()) return known->second;
  const abi::AddressVector vector = vector_to(0, to, pe);
  mlx5_wqe_av av;
  std::memcpy(&av, &vector, sizeof(av));
  Mac mac{};
  std::memcpy(mac.data(), av.rmac, mac.size());
  if (keeps_macs_) macs_[to] = mac;
  return mac;
}

void Device::forget_macs() {
  const std::lock_guard<std::mutex> lock(macs_mutex_);
  keeps_macs_ = false;
  macs_.clear();
}

}  // namespace gshmem::nic::mlx5
