#include "host/tools/doctor/topology.h"

#include "host/base/files.h"

#include <utility>

namespace gshmem::info {
namespace {

namespace fs = std::filesystem;

PciDevice described(std::string name, std::string address, const fs::path& link) {
  PciDevice device{nic::pci_place(link)};
  device.name = std::move(name);
  device.address = std::move(address);
  return device;
}

}  // namespace

fs::path pci_folder(const Machine& machine, const std::string& address) {
  return machine.at("/sys/bus/pci/devices") / address;
}

int pci_number(const Machine& machine, const std::string& address, const char* file) {
  return static_cast<int>(number_in(pci_folder(machine, address) / file).value_or(-1));
}

std::vector<PciDevice> gpus(const Machine& machine) {
  std::vector<PciDevice> found;
  for (const CudaGpu& gpu : machine.cuda.gpus) {
    const std::string address = nic::sysfs_pci_address(gpu.info.pci);
    found.push_back(described("GPU " + std::to_string(gpu.info.device) + " (" + address + ")",
                              address, pci_folder(machine, address)));
  }
  if (!found.empty()) return found;
  for (const std::string& address : names_in(machine.at("/sys/bus/pci/devices"))) {
    const fs::path folder = pci_folder(machine, address);
    // PCI Code and ID Assignment specification, base class 03h: display controllers.
    const bool display = first_line(folder / "class").starts_with("0x03");
    if (display && first_line(folder / "vendor") == "0x10de") {
      found.push_back(described("GPU " + address, address, folder));
    }
  }
  return found;
}

std::vector<PciDevice> nics(const Machine& machine) {
  std::vector<PciDevice> found;
  const fs::path cards = machine.at("/sys/class/infiniband");
  for (const std::string& name : names_in(cards)) {
    PciDevice nic = described(name, "", cards / name / "device");
    if (!nic.path.empty()) {
      nic.address = nic.path.back();
      nic.name += " (" + nic.address + ")";
    }
    found.push_back(std::move(nic));
  }
  return found;
}

std::vector<std::string> mlx5_devices(const Machine& machine) {
  std::vector<std::string> found;
  const fs::path cards = machine.at("/sys/class/infiniband");
  for (const std::string& name : names_in(cards)) {
    // The driver identifies them, because udev renames devices: mlx5_0, rocep23s0f0, ibp24s0.
    if (link_target_name(cards / name / "device" / "driver").starts_with("mlx5_core")) {
      found.push_back(name);
    }
  }
  return found;
}

bool has_rdma_device(const Machine& machine) {
  return !names_in(machine.at("/sys/class/infiniband")).empty();
}

}  // namespace gshmem::info
