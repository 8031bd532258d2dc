// The checks of gshmem-info --doctor as functions. Included by the table and by the tests.
// Invariant: a check says at least one thing, throws nothing for what it finds, and needs no other
// check.
#pragma once

#include "host/info/doctor/finding.h"
#include "host/info/doctor/machine.h"

namespace gshmem::info {

#define GSHMEM_CHECK(name, purpose) [[nodiscard]] Findings check_##name(const Machine& machine);
#include "host/info/doctor/checks.def"

}  // namespace gshmem::info
