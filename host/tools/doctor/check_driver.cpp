// Checks the NVIDIA driver, and the requirements for a NIC to access GPU memory and for a GPU to
// access a NIC's doorbell.
#include "host/base/error.h"
#include "host/tools/doctor/checks.h"
#include "host/tools/doctor/topology.h"
#include "host/base/files.h"

#include <algorithm>
#include <cctype>
#include <cstdio>
#include <sstream>

namespace gshmem::info {
namespace {

namespace fs = std::filesystem;

/// Reads the kernel module from /proc/driver/nvidia/version; empty without driver.
std::string nvrm_line(const Machine& machine) {
  return value_in(machine.at("/proc/driver/nvidia/version"), "NVRM version:");
}

/// Returns the version in that line, "580.95.05": its first word of digits and at least one dot.
std::string driver_version(const std::string& line) {
  std::istringstream words(line);
  for (std::string word; words >> word;) {
    const bool digits =
        std::ranges::all_of(word, [](unsigned char c) { return std::isdigit(c) || c == '.'; });
    if (digits && word.find('.') != std::string::npos) return word;
  }
  return "of unknown version";
}

bool open_module(const std::string& line) {
  return line.find("Open Kernel Module") != std::string::npos;
}

std::string kernel_release(const Machine& machine) {
  return first_line(machine.at("/proc/sys/kernel/osrelease"));
}

bool kernel_is_at_least(const std::string& release, int wanted_major, int wanted_minor) {
  int major = 0, minor = 0;
  (void)std::sscanf(release.c_str(), "%d.%d", &major, &minor);
  return major > wanted_major || (major == wanted_major && minor >= wanted_minor);
}
/// Can ib_core register dma-bufs? It can since Linux 5.12 (ib_umem_dmabuf_get).
bool kernel_has_rdma_dmabuf(const std::string& release) {
  return kernel_is_at_least(release, 5, 12);
}
/// Does mlx5_ib accept dma-bufs as user memory of DevX, which work queues are? It does since Linux
/// 6.1 (MLX5_IB_ATTR_DEVX_UMEM_REG_DMABUF_FD).
bool kernel_has_queue_dmabuf(const std::string& release) {
  return kernel_is_at_least(release, 6, 1);
}

/// Can a NIC access GPU memory as a dma-buf, and if not, why?
struct Dmabuf {
  bool usable = false;
  std::string reason;
};

Dmabuf dmabuf_state(const Machine& machine) {
  const std::string release = kernel_release(machine);
  if (!machine.cuda.gpus.empty()) {
    for (const CudaGpu& gpu : machine.cuda.gpus) {
      if (gpu.dma_buf) continue;
      return {false,
              strprintf("GPU %d has CU_DEVICE_ATTRIBUTE_DMA_BUF_SUPPORTED = 0 (%s kernel "
                        "module, Linux %s)",
                        gpu.info.device, open_module(nvrm_line(machine)) ? "open" : "proprietary",
                        release.c_str())};
    }
  } else if (!open_module(nvrm_line(machine))) {
    return {false, "the proprietary kernel module does not export GPU memory as dma-buf"};
  }
  if (!kernel_has_rdma_dmabuf(release)) {
    return {false, "Linux " + release + " is older than 5.12, whose RDMA core takes dma-bufs"};
  }
  return {true,
          "Linux " + release +
              (machine.cuda.gpus.empty() ? ", open kernel module" : ", all GPUs export dma-buf")};
}

/// Returns why GPUDirect RDMA does not apply here; empty when it does.
std::string no_gpudirect(const Machine& machine) {
  if (gpus(machine).empty()) return "there is no NVIDIA GPU";
  if (nvrm_line(machine).empty() && machine.cuda.gpus.empty()) return "there is no NVIDIA driver";
  if (!has_rdma_device(machine)) return "there is no RDMA device that could use it";
  if (machine.config.gdr == Switch::kOff) return "GSHMEM_GDR=off";
  if (machine.config.nic == NicKind::kNone || machine.config.nic == NicKind::kSoft) {
    return "GSHMEM_NIC=" + word_of(machine.config.nic);
  }
  return "";
}

/// Returns the effect of a NIC that cannot access GPU memory: only ofi stages
/// (transport/nic/open.cpp).
std::string without_gpudirect(const Machine& machine) {
  if (machine.config.nic == NicKind::kMlx5) {
    return "init fails with GSHMEM_NIC=mlx5 (auto and ofi stage data through host memory)";
  }
  return "data is staged through host memory (GSHMEM_GDR=auto), or init fails (GSHMEM_GDR=on)";
}

// docs.nvidia.com, Driver Installation Guide, "Kernel Modules".
constexpr char kOpenModules[] =
    "install the open kernel modules (Turing and newer), then reboot: sudo apt-get install "
    "nvidia-open   or   sudo dnf module enable nvidia-driver:open-dkms && sudo dnf install "
    "nvidia-open   or   NVIDIA-Linux-*.run --kernel-module-type=open";

}  // namespace

Findings check_nvidia_driver(const Machine& machine) {
  const std::string line = nvrm_line(machine);
  const bool found = !gpus(machine).empty();
  if (!machine.cuda.gpus.empty()) {
    const std::string version = line.empty() ? "answers" : driver_version(line);
    return {ok(strprintf("driver %s, %zu GPU(s) for this process", version.c_str(),
                         machine.cuda.gpus.size()))};
  }
  if (machine.config.device == DeviceChoice::kCpu) return {skipped("GSHMEM_DEVICE=cpu")};
  const bool wanted = machine.config.device == DeviceChoice::kCuda;
  if (!found && line.empty() && !wanted) {
    return {skipped("no NVIDIA GPU on the PCI bus and no driver: programs run in CPU mode")};
  }
  const std::string seen = found ? gpus(machine).front().name + " is on the bus" : "no GPU is seen";
  if (line.empty()) {
    return {
        problem({.symptom = "programs run in CPU mode, or fail with GSHMEM_DEVICE=cuda: " + seen,
                 .cause = "/proc/driver/nvidia/version is missing: the kernel module nvidia is "
                          "not loaded, or this container was started without the GPU",
                 .fix = in_container(machine)
                            ? "docker run --gpus all ...   (podman: --device nvidia.com/gpu=all)"
                            : "sudo modprobe nvidia; when that fails: sudo dmesg | grep NVRM"})};
  }
  if (!machine.cuda.built) {
    return {hint(
        {.symptom = "programs run in CPU mode although there is driver " + driver_version(line),
         .cause = "this gshmem was built without CUDA (no nvcc at configure time)",
         .fix = "cmake --preset gpu && cmake --build --preset gpu"})};
  }
  return {problem({.symptom = "kernel driver " + driver_version(line) +
                              " is loaded, but programs find no GPU: " + machine.cuda.why_none,
                   .cause = "libcuda.so.1 is missing or of another version than the kernel module, "
                            "or the device files are hidden (CUDA_VISIBLE_DEVICES=\"" +
                            machine.env_or_empty("CUDA_VISIBLE_DEVICES") + "\")",
                   .fix = "nvidia-smi; ls -l /dev/nvidia*; ldconfig -p | grep libcuda"})};
}

Findings check_kernel_module(const Machine& machine) {
  const std::string line = nvrm_line(machine);
  if (line.empty()) return {skipped("no /proc/driver/nvidia/version")};
  if (open_module(line)) return {ok("open kernel module " + driver_version(line))};
  if (!has_rdma_device(machine)) {
    return {ok("proprietary kernel module " + driver_version(line) +
               "; without an RDMA device that changes nothing")};
  }
  return {hint({.symptom = "proprietary kernel module " + driver_version(line) +
                           ": NICs reach GPU memory by nvidia-peermem only",
                // See docs.nvidia.com, GPU Operator, "GPUDirect RDMA and GPUDirect Storage".
                .cause = "only the open kernel module exports GPU memory as dma-buf",
                .fix = kOpenModules})};
}

Findings check_dmabuf(const Machine& machine) {
  if (machine.config.gdr == Switch::kOff && machine.config.nic == NicKind::kMlx5 &&
      !gpus(machine).empty()) {
    return {problem({.symptom = "programs on GPUs: " + without_gpudirect(machine),
                     .cause = "GSHMEM_GDR=off forbids what the mlx5 path is made of",
                     .fix = "unset GSHMEM_GDR, or export GSHMEM_NIC=auto"})};
  }
  const Dmabuf state = dmabuf_state(machine);
  if (const std::string why = no_gpudirect(machine); !why.empty()) {
    const bool known = !machine.cuda.gpus.empty();
    return {skipped(known ? why + " (" + state.reason + ")" : why)};
  }
  Findings findings;
  if (state.usable) {
    findings.push_back(ok(state.reason));
  } else {
    findings.push_back(hint({.symptom = "GPU memory cannot be registered as a dma-buf",
                             .cause = state.reason,
                             .fix = kOpenModules}));
  }
  const std::string release = kernel_release(machine);
  if (state.usable && machine.config.queue_memory == QueueMemoryChoice::kGpu &&
      !kernel_has_queue_dmabuf(release)) {
    findings.push_back(hint(
        {.symptom =
             "GSHMEM_QUEUE_MEMORY=gpu: queues cannot be registered as a dma-buf, as heaps are",
         .cause = "Linux " + release + " is older than 6.1, whose mlx5 driver takes them for DevX",
         .fix = "sudo modprobe nvidia-peermem; or export GSHMEM_QUEUE_MEMORY=host"}));
  }
  for (const CudaGpu& gpu : machine.cuda.gpus) {
    if (gpu.gpudirect_rdma) continue;
    findings.push_back(problem(
        {.symptom = strprintf("GPU %d: ", gpu.info.device) + without_gpudirect(machine),
         .cause = "CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WITH_CUDA_VMM_SUPPORTED is 0: this GPU or "
                  "driver has no GPUDirect RDMA for memory of cuMemCreate",
         .fix = "export GSHMEM_GDR=off to stage without trying; else another driver or GPU"}));
  }
  return findings;
}

Findings check_peermem(const Machine& machine) {
  if (const std::string why = no_gpudirect(machine); !why.empty()) return {skipped(why)};
  const fs::path modules = machine.at("/sys/module");
  std::error_code error;
  if (fs::exists(modules / "nvidia_peermem", error)) return {ok("nvidia-peermem is loaded")};
  const bool dmabuf = dmabuf_state(machine).usable;
  if (fs::exists(modules / "nv_peer_mem", error)) {
    if (dmabuf) return {ok("the legacy nv_peer_mem is loaded; dma-buf makes it superfluous")};
    // NVIDIA GPUDirect RDMA User Manual, "Installing GPUDirect RDMA": it does not work with DevX
    // umem.
    return {problem({.symptom = "work queues cannot be in GPU memory",
                     .cause = "the legacy module nv_peer_mem registers memory for verbs, but not "
                              "DevX user memory, which queues are",
                     .fix = "sudo rmmod nv_peer_mem && sudo modprobe nvidia-peermem; meanwhile "
                            "export GSHMEM_QUEUE_MEMORY=host"})};
  }
  if (dmabuf) return {ok("not loaded, and not needed: dma-buf works")};
  return {problem({.symptom = "the NIC cannot reach GPU memory: " + without_gpudirect(machine),
                   .cause = "neither dma-buf nor nvidia-peermem: /sys/module/nvidia_peermem is "
                            "missing",
                   .fix = "sudo modprobe nvidia-peermem && echo nvidia-peermem | sudo tee "
                          "/etc/modules-load.d/nvidia-peermem.conf   (on the host, not in a "
                          "container)"})};
}

Findings check_doorbell(const Machine& machine) {
  if (gpus(machine).empty()) return {skipped("there is no NVIDIA GPU")};
  if (mlx5_devices(machine).empty()) return {skipped("there is no mlx5 NIC whose doorbell to map")};
  if (machine.config.nic != NicKind::kAuto && machine.config.nic != NicKind::kMlx5) {
    return {skipped("GSHMEM_NIC=" + word_of(machine.config.nic) + " rings no hardware")};
  }
  if (machine.config.doorbell == DoorbellChoice::kAgent) {
    return {ok("GSHMEM_DOORBELL=agent: a host thread rings, which needs no permission")};
  }
  const std::string params = whole_file(machine.at("/proc/driver/nvidia/params"));
  if (params.empty()) return {skipped("/proc/driver/nvidia/params is not readable")};
  if (params.find("PeerMappingOverride=1") != std::string::npos) {
    return {ok("PeerMappingOverride=1: kernels may ring the NIC without root")};
  }
  // The driver's test is capable(CAP_SYS_ADMIN): open-gpu-kernel-modules, kernel-open/common/inc/
  // nv-linux.h NV_IS_SUSER, through os_is_administrator.
  if (has_capability(machine, Capability::kSysAdmin)) {
    return {
        ok("this process has CAP_SYS_ADMIN, so the driver maps the doorbell; without "
           "PeerMappingOverride=1 other users get the host agent")};
  }
  return {problem(
      {.symptom = "kernels cannot ring the NIC: GSHMEM_DOORBELL=auto takes a host thread, which "
                  "adds microseconds to each operation; GSHMEM_DOORBELL=gpu fails at init with "
                  "CUDA_ERROR_NOT_PERMITTED",
       .cause = "the driver maps device registers for CAP_SYS_ADMIN only, and RegistryDwords in "
                "/proc/driver/nvidia/params lacks PeerMappingOverride=1",
       .fix = "echo 'options nvidia NVreg_RegistryDwords=\"PeerMappingOverride=1;\"' | sudo tee "
              "/etc/modprobe.d/gshmem.conf && sudo update-initramfs -u   (dracut -f on Red Hat), "
              "then reboot; without root: export GSHMEM_DOORBELL=agent"})};
}

}  // namespace gshmem::info
