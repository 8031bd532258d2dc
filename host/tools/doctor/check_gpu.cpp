// Checks the GPUs themselves: window on PCI, peer access, several processes.
#include "host/base/error.h"
#include "host/tools/doctor/checks.h"
#include "host/tools/doctor/topology.h"
#include "host/base/files.h"

#include <algorithm>
#include <sstream>

namespace gshmem::info {
namespace {

namespace fs = std::filesystem;

/// Returns the size of the largest BAR of a function, which on GPUs is the window to their memory.
/// It is BAR1 in NVIDIA's counting, but its index depends on the width of BAR0 before it. 0 when
/// unknown.
std::uint64_t largest_bar(const fs::path& folder) {
  // Documentation/PCI/sysfs-pci.rst: a line "start end flags" per resource; the first six are BARs.
  std::istringstream lines(whole_file(folder / "resource"));
  std::uint64_t largest = 0, start = 0, end = 0, flags = 0;
  lines >> std::hex;
  for (int bar = 0; bar < 6 && lines >> start >> end >> flags; ++bar) {
    if (end > start) largest = std::max(largest, end - start + 1);
  }
  return largest;
}

Finding bar1_of(const Machine& machine, const PciDevice& gpu, std::uint64_t need) {
  const std::uint64_t bar = largest_bar(pci_folder(machine, gpu.address));
  if (bar == 0) return skipped(gpu.name + ": sysfs shows no resource file with BARs");
  const std::string sizes = gpu.name + ": BAR1 " + bytes_text(bar);
  if (!has_rdma_device(machine)) {
    return skipped(sizes + ", but no RDMA device that would read heaps through it");
  }
  if (bar > need) return ok(sizes + ", heaps on it " + bytes_text(need) + " before they grow");
  const std::uint64_t pes = static_cast<std::uint64_t>(machine.config.max_pes_per_gpu);
  return problem({.symptom = sizes + " cannot hold the heap(s) of " + bytes_text(need) +
                             ": registering the heap with a NIC fails with ENOMEM",
                  .cause = "a NIC reads GPU memory through BAR1, where the whole heap is mapped "
                           "(GSHMEM_SYMMETRIC_SIZE times GSHMEM_MAX_PES_PER_GPU)",
                  .fix = "firmware setup: Above 4G Decoding and Resizable BAR on; or export "
                         "GSHMEM_SYMMETRIC_SIZE=" +
                         std::to_string((bar >> 20) * 3 / 4 / pes) + "M"});
}

}  // namespace

Findings check_bar1(const Machine& machine) {
  const std::vector<PciDevice> devices = gpus(machine);
  if (devices.empty()) return {skipped("there is no NVIDIA GPU")};
  const std::uint64_t need =
      machine.config.symmetric_size * static_cast<std::uint64_t>(machine.config.max_pes_per_gpu);
  Findings findings;
  for (const PciDevice& gpu : devices) findings.push_back(bar1_of(machine, gpu, need));
  return findings;
}

Findings check_peer_access(const Machine& machine) {
  const std::vector<CudaGpu>& all = machine.cuda.gpus;
  if (all.empty()) return {skipped("CUDA does not answer: " + machine.cuda.why_none)};
  if (all.size() == 1) return {skipped("this process sees one GPU")};
  Findings findings;
  std::vector<std::string> pcie;
  for (const CudaGpu& gpu : all) {
    std::vector<std::string> none;
    for (std::size_t peer = 0; peer < gpu.info.peer_access.size(); ++peer) {
      if (!gpu.info.peer_access[peer]) none.push_back(std::to_string(peer));
      if (gpu.info.peer_access[peer] && !gpu.info.peer_atomics[peer]) {
        pcie.push_back(strprintf("%d-%zu", gpu.info.device, peer));
      }
    }
    if (none.empty()) continue;
    findings.push_back(problem(
        {.symptom = strprintf("GPU %d cannot map memory of GPU %s: no load/store between their PEs",
                              gpu.info.device, joined(none).c_str()),
         .cause =
             "cuDeviceCanAccessPeer is 0: no P2P over this PCIe topology (chipset, ACS, IOMMU, "
             "virtual machine), for this product, or in MIG mode",
         .fix = "nvidia-smi topo -p2p r   names the reason (CNS chipset, GNS GPU, TNS topology); "
                "iommu=pt and ACS off remove the usual one"}));
  }
  if (!findings.empty()) return findings;
  if (pcie.empty()) {
    return {ok(strprintf("all %zu GPUs map each other, with native atomics (NVLink)", all.size()))};
  }
  return {problem(
      {.symptom =
           "atomics and signals that add between PEs on GPUs " + joined(pcie) +
           " use the network, or are an error (GSHMEMX_ERROR_NOT_SUPPORTED) where there is none",
       .cause = "these GPUs map each other over PCIe, without native atomics "
                "(CU_DEVICE_P2P_ATTRIBUTE_NATIVE_ATOMIC_SUPPORTED is 0)",
       .fix =
           "start PEs on GPUs that NVLink joins (nvidia-smi topo -m); else leave GSHMEM_NIC=auto, "
           "and install libfabric where no ConnectX reaches the heaps"})};
}

Findings check_memory_calls(const Machine& machine) {
  if (machine.cuda.gpus.empty()) return {skipped("CUDA does not answer: " + machine.cuda.why_none)};
  if (machine.cuda.sync_memops) {
    return {ok("cudaMemset and cudaMemcpy have ended when they return (CU_CTX_SYNC_MEMOPS)")};
  }
  return {
      hint({.symptom = "cudaMemset on memory outside the heap may end after a later barrier",
            .cause = "the driver is older than CUDA 12.1 and has no CU_CTX_SYNC_MEMOPS; init sets "
                     "the attribute of the heap alone",
            .fix = "install a newer driver, or call cudaDeviceSynchronize() before the barrier"})};
}

Findings check_inbound_writes(const Machine& machine) {
  if (machine.cuda.gpus.empty()) return {skipped("CUDA does not answer: " + machine.cuda.why_none)};
  Findings findings;
  for (const CudaGpu& gpu : machine.cuda.gpus) {
    if (gpu.orders_writes) continue;
    findings.push_back(
        hint({.symptom = strprintf("GPU %d: over GSHMEM_NIC=mlx5, each wait and barrier takes a "
                                   "read by the NIC longer",
                                   gpu.info.device),
              .cause = "the GPU does not order what NICs write to it "
                       "(CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WRITES_ORDERING is below OWNER)",
              .fix = "wait by gshmem's calls, not by loops of your own; GPUs of the Hopper "
                     "generation or newer need no such read"}));
  }
  if (findings.empty()) findings.push_back(ok("all GPUs order what NICs write to them"));
  return findings;
}

Findings check_compute_mode(const Machine& machine) {
  if (machine.cuda.gpus.empty()) {
    return {skipped("CUDA does not answer: " + machine.cuda.why_none)};
  }
  Findings findings;
  for (const CudaGpu& gpu : machine.cuda.gpus) {
    const int device = gpu.info.device;
    const std::string fix = "sudo nvidia-smi -i " + gpu.info.pci + " -c DEFAULT";
    if (gpu.mode == ComputeMode::kProhibited) {
      findings.push_back(
          problem({.symptom = strprintf("GPU %d: init fails with CUDA_ERROR_NO_DEVICE", device),
                   .cause = "compute mode Prohibited",
                   .fix = fix}));
    } else if (gpu.mps) {
      findings.push_back(
          ok(strprintf("GPU %d: MPS runs, and a process per PE may share it", device)));
    } else if (gpu.mode == ComputeMode::kExclusiveProcess && machine.config.max_pes_per_gpu > 1) {
      findings.push_back(problem(
          {.symptom =
               strprintf("GPU %d: the second PE fails with CUDA_ERROR_DEVICE_UNAVAILABLE", device),
           .cause = strprintf("compute mode Exclusive_Process, but GSHMEM_MAX_PES_PER_GPU=%d",
                              machine.config.max_pes_per_gpu),
           .fix = fix + ", or start MPS: nvidia-cuda-mps-control -d"}));
    } else if (gpu.mode == ComputeMode::kExclusiveProcess) {
      findings.push_back(
          ok(strprintf("GPU %d: Exclusive_Process, which one PE per GPU suits", device)));
    }
  }
  if (findings.empty()) findings.push_back(ok("compute mode Default on all GPUs"));
  return findings;
}

Findings check_mig(const Machine& machine) {
  std::vector<std::string> sliced;
  const fs::path capabilities = machine.at("/proc/driver/nvidia/capabilities");
  // There is one folder per GPU instance (NVIDIA MIG User Guide, "Device Nodes and Capabilities").
  for (const std::string& gpu : names_in(capabilities)) {
    for (const std::string& instance : names_in(capabilities / gpu / "mig")) {
      if (gpu.starts_with("gpu") && instance.starts_with("gi")) {
        sliced.push_back(gpu + "/" + instance);
      }
    }
  }
  if (gpus(machine).empty()) return {skipped("there is no NVIDIA GPU")};
  if (sliced.empty()) return {ok("no MIG instances")};
  return {
      hint({.symptom = "PEs on MIG instances cannot map each other's heaps: one PE per job, or "
                       "a NIC between them",
            .cause = "CUDA has no peer access or IPC between instances; here: " + joined(sliced),
            .fix = "sudo nvidia-smi -mig 0, and MPS to share"})};
}

}  // namespace gshmem::info
