#include "host/info/doctor/doctor.h"

#include "host/info/doctor/checks.h"

#include <algorithm>
#include <exception>

namespace gshmem::info {

std::span<const Check> all_checks() {
  static constexpr Check kChecks[] = {
      {"variables", check_variables, "every GSHMEM_* in the environment is known and accepted"},
      {"nvidia_driver", check_nvidia_driver, "the NVIDIA driver is loaded and finds its GPUs"},
      {"kernel_module", check_kernel_module, "open or proprietary kernel module of the driver"},
      {"dmabuf", check_dmabuf, "GPU memory can be registered with a NIC as dma-buf"},
      {"peermem", check_peermem, "nvidia-peermem is loaded where dma-buf does not do"},
      {"doorbell", check_doorbell, "PeerMappingOverride: kernels may ring the NIC themselves"},
      {"bar1", check_bar1, "the GPU's window on PCI holds the heaps on it"},
      {"peer_access", check_peer_access, "GPUs of this host map each other's memory"},
      {"memory_calls", check_memory_calls, "cudaMemset on a heap has ended when it returns"},
      {"fabric", check_fabric, "GPUs of other hosts in one NVLink domain can be mapped"},
      {"compute_mode", check_compute_mode, "the GPU takes as many processes as PEs"},
      {"mig", check_mig, "MIG instances, which cannot map each other"},
      {"gpu_nic_distance", check_gpu_nic_distance, "PCI distance of each GPU to its nearest NIC"},
      {"acs", check_acs, "no ACS redirect in the bridges between GPUs and NICs"},
      {"iommu", check_iommu, "the IOMMU does not translate GPUs and NICs"},
      {"pci_link", check_pci_link, "PCIe width and speed of GPUs and NICs, now against the best"},
      {"relaxed_ordering", check_relaxed_ordering, "NICs may write with relaxed ordering"},
      {"numa", check_numa, "NUMA nodes of GPUs and NICs, and the CPUs of this process"},
      {"rdma_modules", check_rdma_modules,
       "mlx5_ib and ib_uverbs are loaded where there is a card"},
      {"rdma_files", check_rdma_files, "/dev/infiniband/uverbs* and rdma_cm can be opened"},
      {"ports", check_ports, "state, link layer, rate of RDMA ports"},
      {"gids", check_gids, "the GID that would be chosen, of RoCE v2, with its interface"},
      {"pkeys", check_pkeys, "the partition key that would be chosen"},
      {"mtu", check_mtu, "the Ethernet MTU lets RoCE packets carry 4096 bytes"},
      {"flow_control", check_flow_control, "lost packets, ECN and priority of RoCE ports"},
      {"memlock", check_memlock, "locked memory is not limited where a NIC needs it"},
      {"open_files", check_open_files, "the limit of open files suits many PEs per host"},
      {"dev_shm", check_dev_shm, "/dev/shm is not a container's default of 64 MiB"},
      {"memory", check_memory, "heaps of CPU mode fit into memory and cgroup"},
      {"launcher", check_launcher, "what started this process, and that it gives PMIx"},
      {"pmix", check_pmix, "libpmix.so.2 can be loaded"},
      {"mpirun", check_mpirun, "a launcher is in PATH"},
      {"verbs_libraries", check_verbs_libraries, "libibverbs and libmlx5, new enough for dma-buf"},
      {"libfabric", check_libfabric, "libfabric.so.1 can be loaded where it is needed"},
      {"gdrcopy", check_gdrcopy, "GDRCopy maps heaps on GPUs for host threads"},
  };
  return kChecks;
}

std::size_t Diagnosis::count(Verdict verdict) const {
  std::size_t n = 0;
  for (const CheckResult& result : results) {
    n += static_cast<std::size_t>(
        std::count_if(result.findings.begin(), result.findings.end(),
                      [&](const Finding& finding) { return finding.verdict == verdict; }));
  }
  return n;
}

Diagnosis diagnose(const Machine& machine) {
  Diagnosis diagnosis{.host = machine.host, .results = {}};
  for (const Check& check : all_checks()) {
    CheckResult result{.check = &check, .findings = {}};
    try {
      result.findings = check.run(machine);
    } catch (const std::exception& error) {
      result.findings = {skipped(std::string("the check failed: ") + error.what())};
    }
    diagnosis.results.push_back(std::move(result));
  }
  return diagnosis;
}

bool speaks_for_host(const Machine& machine) {
  // Open MPI, Slurm, and hydra by way of MPICH.
  for (const char* name : {"OMPI_COMM_WORLD_LOCAL_RANK", "SLURM_LOCALID", "MPI_LOCALRANKID"}) {
    if (machine.env(name) != nullptr) return machine.env_or_empty(name) == "0";
  }
  return true;
}

}  // namespace gshmem::info
