// Checks RDMA devices: their modules, their device files, the state of their ports, partition keys.
#include "host/base/error.h"
#include "host/tools/doctor/checks.h"
#include "host/tools/doctor/ports.h"
#include "host/tools/doctor/topology.h"
#include "host/base/files.h"

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace gshmem::info {
namespace {

namespace fs = std::filesystem;

/// Returns the addresses of Mellanox and NVIDIA network controllers on the bus, with or without a
/// driver.
std::vector<std::string> mellanox_cards(const Machine& machine) {
  std::vector<std::string> found;
  for (const std::string& address : names_in(machine.at("/sys/bus/pci/devices"))) {
    const fs::path folder = pci_folder(machine, address);
    const bool network = first_line(folder / "class").starts_with("0x02");
    if (network && first_line(folder / "vendor") == "0x15b3") found.push_back(address);
  }
  return found;
}

bool module_loaded(const Machine& machine, const char* name) {
  std::error_code error;
  return fs::exists(machine.at("/sys/module") / name, error);
}

/// Returns why a port transfers nothing, by its state, and how to repair it.
Trouble port_trouble(const Machine& machine, const NicPort& port) {
  const std::string name = port_name(port);
  const std::string symptom =
      name + " is " + port.state + " (physical state " + port.phys_state + "): it carries no data";
  const std::string netdev = port_netdev(machine, port);
  const std::vector<std::string> mlx5 = mlx5_devices(machine);
  const std::string mlxlink = "sudo mlxlink -d " + port.device + " -p " + std::to_string(port.port);
  const bool has_mlxlink = std::ranges::find(mlx5, port.device) != mlx5.end();
  if (!is_ethernet(port) && port.phys_state == "LinkUp") {
    return {
        .symptom = symptom,
        .cause = "the link is up, but no subnet manager has configured the port",
        .fix = "sminfo; start one on a node or switch of the fabric: sudo systemctl start opensm"};
  }
  if (is_ethernet(port) && port.phys_state == "Disabled" && !netdev.empty()) {
    return {.symptom = symptom,
            .cause = "its network interface " + netdev + " is down (" +
                     first_line(machine.at("/sys/class/net") / netdev / "operstate") + ")",
            .fix = "sudo ip link set " + netdev + " up"};
  }
  if (port.phys_state == "Disabled") {
    return {
        .symptom = symptom,
        .cause = "the port is switched off",
        .fix = is_ethernet(port) ? mlxlink + " --port_state UP" : "sudo ibportstate -D 0 1 enable"};
  }
  return {.symptom = symptom,
          .cause = "no signal from the other end: cable, module, or a switch port that is off",
          .fix = has_mlxlink ? mlxlink + " -m   (shows module and reason)"
                             : "sudo ethtool " + netdev + "; ibstat " + port.device};
}

struct DeviceFile {
  std::string path, device;
  int error = 0;
};

Trouble file_trouble(const Machine& machine, const DeviceFile& file) {
  const std::string symptom = strprintf("%s cannot be opened for %s: %s", file.path.c_str(),
                                        file.device.c_str(), std::strerror(file.error));
  if (file.error == ENOENT || file.error == ENXIO || file.error == ENODEV) {
    return {.symptom = symptom,
            .cause = in_container(machine)
                         ? "the container was started without the device"
                         : "udev has not made the file, or ib_uverbs is not loaded",
            .fix = in_container(machine)
                       ? "docker run --device=/dev/infiniband --cap-add=IPC_LOCK --ulimit "
                         "memlock=-1 ...   (Kubernetes: an RDMA device plugin's resource)"
                       : "sudo modprobe ib_uverbs && sudo udevadm trigger"};
  }
  if (file.error == EPERM) {
    return {.symptom = symptom,
            .cause = "the file is there, but the device cgroup of the container forbids it",
            .fix = "docker run --device=/dev/infiniband ...   instead of a bind mount with -v"};
  }
  return {.symptom = symptom,
          .cause = "the file's mode shuts this user out; rdma-core makes it 0666",
          .fix = "sudo chmod 666 " + file.path +
                 "   (for good: install rdma-core, whose udev rules do it)"};
}

Finding pkey_of(const Machine& machine, const NicPort& port) {
  const int index = machine.config.ib_pkey_index;
  const fs::path table = port_folder(machine, port) / "pkeys";
  const std::optional<std::int64_t> key = number_in(table / std::to_string(index));
  const std::string name = port_name(port);
  if (!key) {
    return problem(
        {.symptom = name + ": queues cannot be set up",
         .cause = strprintf("GSHMEM_IB_PKEY_INDEX=%d, but the table has %zu entries", index,
                            names_in(table).size()),
         .fix = "grep . " + table.string() + "/* | grep -v 0x0000; export GSHMEM_IB_PKEY_INDEX=0"});
  }
  // InfiniBand Architecture Specification, 10.9.2: bit 15 is full membership, key 0 is invalid.
  if ((*key & 0x7fff) == 0) {
    return problem(
        {.symptom = name + ": connections hang, then end in retry exceeded",
         .cause = strprintf("P_Key index %d is empty (0x%04x)", index, static_cast<unsigned>(*key)),
         .fix = "grep . " + table.string() +
                "/* | grep -v 0x0000   shows good ones; export GSHMEM_IB_PKEY_INDEX=<n>"});
  }
  if ((*key & 0x8000) == 0) {
    return hint({.symptom = name + ": no connection to PEs that are limited members as well",
                 .cause = strprintf("P_Key index %d is 0x%04x, limited membership", index,
                                    static_cast<unsigned>(*key)),
                 .fix = "make it full in the subnet manager's partitions.conf (=full), or another "
                        "GSHMEM_IB_PKEY_INDEX"});
  }
  return ok(strprintf("%s: index %d is 0x%04x, full member", name.c_str(), index,
                      static_cast<unsigned>(*key)));
}

}  // namespace

Findings check_rdma_modules(const Machine& machine) {
  const std::vector<std::string> cards = mellanox_cards(machine);
  const std::vector<std::string> working = mlx5_devices(machine);
  if (!working.empty()) {
    // Modules built into the kernel have no folder below /sys/module, but their class exists.
    if (module_loaded(machine, "ib_uverbs") ||
        !names_in(machine.at("/sys/class/infiniband_verbs")).empty()) {
      return {ok("mlx5_ib and ib_uverbs serve " + joined(working))};
    }
    return {problem({.symptom = "verbs programs find no device",
                     .cause = "ib_uverbs is not loaded (" + joined(working) + " is there)",
                     .fix = "sudo modprobe ib_uverbs"})};
  }
  if (cards.empty()) {
    const std::vector<std::string> others = names_in(machine.at("/sys/class/infiniband"));
    if (!others.empty()) {
      return {ok("no mlx5 NIC; " + joined(others) + " is for libfabric (GSHMEM_NIC=ofi)")};
    }
    return {skipped("no Mellanox or NVIDIA network card on the PCI bus")};
  }
  std::vector<std::string> missing;
  for (const char* name : {"mlx5_core", "mlx5_ib", "ib_uverbs"}) {
    if (!module_loaded(machine, name)) missing.push_back(name);
  }
  return {problem({.symptom = "no RDMA device, although there is a card at " + joined(cards),
                   .cause = missing.empty() ? "the modules are loaded, but have not taken the card "
                                              "(given to a virtual machine, or firmware trouble)"
                                            : "not loaded: " + joined(missing),
                   .fix = "sudo modprobe -a mlx5_ib ib_uverbs; when nothing changes: sudo dmesg | "
                          "grep mlx5"})};
}

Findings check_rdma_files(const Machine& machine) {
  if (!has_rdma_device(machine)) return {skipped("there is no RDMA device")};
  const fs::path verbs = machine.at("/sys/class/infiniband_verbs");
  Findings findings;
  std::vector<std::string> good;
  for (const std::string& name : names_in(verbs)) {
    if (!name.starts_with("uverbs")) continue;
    DeviceFile file{.path = "/dev/infiniband/" + name,
                    .device = first_line(verbs / name / "ibdev")};
    file.error = machine.open_errno(machine.at(file.path));
    if (file.error == 0) {
      good.push_back(file.path + " (" + file.device + ")");
    } else {
      findings.push_back(problem(file_trouble(machine, file)));
    }
  }
  if (!good.empty()) findings.push_back(ok("may open " + joined(good)));
  const DeviceFile manager{.path = "/dev/infiniband/rdma_cm",
                           .device = "connections by address",
                           .error = machine.open_errno(machine.at("/dev/infiniband/rdma_cm"))};
  if (manager.error != 0) {
    Trouble trouble = file_trouble(machine, manager);
    trouble.cause += "; only libfabric's verbs provider needs it (GSHMEM_NIC=ofi)";
    findings.push_back(hint(std::move(trouble)));
  }
  return findings;
}

Findings check_ports(const Machine& machine) {
  const std::vector<NicPort> ports = rdma_ports(machine);
  if (ports.empty()) return {skipped("there is no RDMA device")};
  const bool any = std::ranges::any_of(ports, is_active);
  Findings findings;
  for (const NicPort& port : ports) {
    if (is_active(port)) {
      findings.push_back(ok(port_name(port) + ": " + port.link_layer + ", ACTIVE, " +
                            port.phys_state + ", " + port.rate));
      continue;
    }
    Trouble trouble = port_trouble(machine, port);
    findings.push_back(any ? hint(std::move(trouble)) : problem(std::move(trouble)));
  }
  return findings;
}

Findings check_pkeys(const Machine& machine) {
  return at_active_ports(machine, Links::kAll,
                         [&](const NicPort& port) { return pkey_of(machine, port); });
}

}  // namespace gshmem::info
