// The checks of gshmem-info --doctor: each looks at one thing that keeps people from a working fast
// path and says what it found. Included by the table and by the tests. Invariant: a check says at
// least one thing, throws nothing for what it finds, and needs no other check.
#pragma once

#include "host/info/doctor/finding.h"
#include "host/info/doctor/machine.h"

namespace gshmem::info {

// check_driver.cpp: the NVIDIA driver and how NICs reach its memory.
[[nodiscard]] Findings check_nvidia_driver(const Machine& machine);
[[nodiscard]] Findings check_kernel_module(const Machine& machine);
[[nodiscard]] Findings check_dmabuf(const Machine& machine);
[[nodiscard]] Findings check_peermem(const Machine& machine);
[[nodiscard]] Findings check_doorbell(const Machine& machine);

// check_gpu.cpp
[[nodiscard]] Findings check_bar1(const Machine& machine);
[[nodiscard]] Findings check_peer_access(const Machine& machine);
[[nodiscard]] Findings check_memory_calls(const Machine& machine);
[[nodiscard]] Findings check_compute_mode(const Machine& machine);
[[nodiscard]] Findings check_mig(const Machine& machine);

// check_fabric.cpp
[[nodiscard]] Findings check_fabric(const Machine& machine);

// check_pci.cpp, check_bridges.cpp: the way between GPU and NIC.
[[nodiscard]] Findings check_gpu_nic_distance(const Machine& machine);
[[nodiscard]] Findings check_acs(const Machine& machine);
[[nodiscard]] Findings check_iommu(const Machine& machine);
[[nodiscard]] Findings check_pci_link(const Machine& machine);
[[nodiscard]] Findings check_relaxed_ordering(const Machine& machine);
[[nodiscard]] Findings check_numa(const Machine& machine);

// check_rdma.cpp, check_roce.cpp
[[nodiscard]] Findings check_rdma_modules(const Machine& machine);
[[nodiscard]] Findings check_rdma_files(const Machine& machine);
[[nodiscard]] Findings check_ports(const Machine& machine);
[[nodiscard]] Findings check_pkeys(const Machine& machine);
[[nodiscard]] Findings check_gids(const Machine& machine);
[[nodiscard]] Findings check_mtu(const Machine& machine);
[[nodiscard]] Findings check_flow_control(const Machine& machine);

// check_process.cpp
[[nodiscard]] Findings check_variables(const Machine& machine);
[[nodiscard]] Findings check_memlock(const Machine& machine);
[[nodiscard]] Findings check_open_files(const Machine& machine);
[[nodiscard]] Findings check_dev_shm(const Machine& machine);
[[nodiscard]] Findings check_memory(const Machine& machine);

// check_software.cpp
[[nodiscard]] Findings check_launcher(const Machine& machine);
[[nodiscard]] Findings check_pmix(const Machine& machine);
[[nodiscard]] Findings check_mpirun(const Machine& machine);
[[nodiscard]] Findings check_verbs_libraries(const Machine& machine);
[[nodiscard]] Findings check_libfabric(const Machine& machine);
[[nodiscard]] Findings check_gdrcopy(const Machine& machine);

}  // namespace gshmem::info
