// gshmem-info --gdr-proof: measures, judges, and prints. Included by main.cpp.
#pragma once

#include "host/tools/doctor/machine.h"
#include "host/tools/proof/measure.h"
#include "host/tools/proof/proof.h"

namespace gshmem::proof {

/// Lets the doctor find the libraries of the card that a model of costs represents.
[[nodiscard]] info::Machine with_card_libraries(info::Machine machine);

/// Collective. Only the first process has a complete result. Errors: those of Jobs.
[[nodiscard]] Proof prove(info::Machine machine, const Jobs& jobs, Plan plan);

}  // namespace gshmem::proof
