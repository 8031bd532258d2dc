// Finds the devices on which the figures of gshmem-info --gdr-proof are taken, and whether they can
// be taken: the machine is as the doctor sees it. Included by prove.cpp and the tests.
#pragma once

#include "host/tools/info/nics.h"
#include "host/tools/proof/proof.h"

#include <optional>
#include <string>

namespace gshmem::proof {

/// Does the soft NIC, or a double of libfabric, model a card (by its model of costs)?
[[nodiscard]] bool stands_for_card(const info::Machine& machine);
/// Returns why jobs run in CPU mode; empty if they run on GPUs.
[[nodiscard]] std::string why_cpu_mode(const info::Machine& machine);
/// Returns why GPUDirect RDMA does not apply to this machine; empty when it does.
[[nodiscard]] std::string why_not(const info::Machine& machine);
/// Returns the first port that the text of a network names.
[[nodiscard]] std::optional<info::NicPort> named_port(const info::Machine& machine,
                                                      const std::string& network);
/// Finds the place. `network` is the text of the job with GPUDirect RDMA on, or empty; `gpu` is
/// that of PE 0, or -1. If they are not given, the NIC is the nearest one with an active port, and
/// the GPU is the first one. `before` has findings from before the measurement. They are no
/// evidence unless their counters have increased.
[[nodiscard]] Place find_place(const info::Machine& machine, const std::string& network, int gpu,
                               const info::Findings& before = {});

}  // namespace gshmem::proof
