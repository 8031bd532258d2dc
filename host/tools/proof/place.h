// Finds what the figures of gshmem-info --gdr-proof are taken on, and whether there are any to
// take: the machine is as the doctor sees it. Included by prove.cpp and the tests.
#pragma once

#include "host/tools/info/nics.h"
#include "host/tools/proof/proof.h"

#include <optional>
#include <string>

namespace gshmem::proof {

/// Does the soft NIC, or a double of libfabric, stand for a card, by its model of costs?
[[nodiscard]] bool stands_for_card(const info::Machine& machine);
/// Returns why jobs run in CPU mode; empty if they run on GPUs.
[[nodiscard]] std::string why_cpu_mode(const info::Machine& machine);
/// Returns why GPUDirect RDMA does not apply to this machine; empty when it does.
[[nodiscard]] std::string why_not(const info::Machine& machine);
/// Returns the first port that the text of a network names.
[[nodiscard]] std::optional<info::NicPort> named_port(const info::Machine& machine,
                                                      const std::string& network);
/// `network` is the text of the job with it on, or empty; `gpu` is PE 0's, or -1. Then the NIC is
/// the nearest with an active port, and the GPU is the first. `before` has findings of before the
/// measurement, which are no evidence unless their counters have risen.
[[nodiscard]] Place find_place(const info::Machine& machine, const std::string& network, int gpu,
                               const info::Findings& before = {});

}  // namespace gshmem::proof
