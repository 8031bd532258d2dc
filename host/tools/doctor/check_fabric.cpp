// Checks fabric handles: the requirements of load/store to GPUs of other hosts in one NVLink
// domain.
#include "host/base/error.h"
#include "host/tools/doctor/checks.h"
#include "host/base/files.h"

#include <cerrno>
#include <cstring>
#include <fstream>
#include <sstream>

namespace gshmem::info {
namespace {

// NVIDIA IMEX Service for NVLink Networks, "IMEX Channels" and "Configuration".
constexpr char kChannels[] = "/dev/nvidia-caps-imex-channels";
constexpr char kDriverName[] = "nvidia-caps-imex-channels";
constexpr char kNodes[] = "/etc/nvidia-imex/nodes_config.cfg";

/// Returns the major number that the driver has for channels; empty = none.
std::string major_number(const Machine& machine) {
  std::istringstream lines(whole_file(machine.at("/proc/devices")));
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    std::string number, name;
    if (words >> number >> name && name == kDriverName) return number;
  }
  return "";
}

struct Channel {
  std::string file;  ///< the first that opens, or else the first; empty = there is none
  int error = ENOENT;
};

Channel find_channel(const Machine& machine) {
  Channel found;
  for (const std::string& name : names_in(machine.at(kChannels))) {
    if (!name.starts_with("channel")) continue;
    const int error = machine.open_errno(machine.at(std::string(kChannels) + "/" + name));
    if (!found.file.empty() && error != 0) continue;
    found = {std::string(kChannels) + "/" + name, error};
    if (error == 0) break;
  }
  return found;
}

Trouble channel_trouble(const Machine& machine, const Channel& channel) {
  Trouble trouble{
      .symptom = machine.config.fabric == Switch::kOn
                     ? "GSHMEM_FABRIC=on: init fails on GPUs"
                     : "PEs of other hosts in this NVLink domain are reached over the network",
      .cause = {},
      .fix = {}};
  const std::string major = major_number(machine);
  if (!channel.file.empty()) {
    trouble.cause = channel.file + ": " + std::strerror(channel.error);
    trouble.fix = "sudo chmod 666 " + channel.file;
  } else if (major.empty()) {
    trouble.cause = std::string("the driver has no ") + kDriverName + " (/proc/devices)";
    trouble.fix = "a driver with IMEX: 550 or later, with the open kernel module";
  } else if (in_container(machine)) {
    trouble.cause = std::string("the container has no IMEX channel in ") + kChannels;
    trouble.fix = std::string("docker run --device=") + kChannels + "/channel0 ...";
  } else {
    trouble.cause = std::string("there is no IMEX channel in ") + kChannels;
    trouble.fix = std::string("sudo mkdir -p ") + kChannels + " && sudo mknod -m 666 " + kChannels +
                  "/channel0 c " + major +
                  " 0   (at every start of the driver: NVreg_CreateImexChannel0=1)";
  }
  return trouble;
}

}  // namespace

Findings check_fabric(const Machine& machine) {
  const Switch policy = machine.config.fabric;
  if (policy == Switch::kOff) return {skipped("GSHMEM_FABRIC=off")};
  const std::vector<CudaGpu>& all = machine.cuda.gpus;
  if (all.empty()) return {skipped("CUDA does not answer: " + machine.cuda.why_none)};
  const CudaGpu* in_fabric = nullptr;
  bool handles = false;
  for (const CudaGpu& gpu : all) {
    handles = handles || gpu.fabric_handles;
    if (in_fabric == nullptr && gpu.fabric.why_none.empty()) in_fabric = &gpu;
  }
  if (!handles && policy == Switch::kOn) {
    return {problem({.symptom = "GSHMEM_FABRIC=on: init fails on GPUs",
                     .cause = "no GPU here has fabric handles "
                              "(CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_FABRIC_SUPPORTED is 0)",
                     .fix = "unset GSHMEM_FABRIC"})};
  }
  if (!handles) return {skipped("no GPU here has fabric handles")};
  if (in_fabric == nullptr && policy != Switch::kOn) {
    return {skipped("one host is all that load/store reaches: GPU " +
                    std::to_string(all[0].info.device) + ": " + all[0].fabric.why_none)};
  }
  const Channel channel = find_channel(machine);
  if (channel.error != 0) return {problem(channel_trouble(machine, channel))};
  Findings findings{ok("may open " + channel.file)};
  std::error_code error;
  if (in_fabric != nullptr && !in_container(machine) &&
      !std::filesystem::exists(machine.at(kNodes), error)) {
    findings.push_back(hint(
        {.symptom = "PEs of other hosts in this NVLink domain may not be mapped",
         .cause = std::string("there is no ") + kNodes +
                  ": nvidia-imex, which makes handles of other hosts known here, is not set up",
         .fix = std::string("install nvidia-imex, list the addresses of all hosts in ") + kNodes +
                ", sudo systemctl enable --now nvidia-imex; nvidia-imex-ctl -N"}));
  }
  return findings;
}

}  // namespace gshmem::info
