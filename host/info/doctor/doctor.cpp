#include "host/info/doctor/doctor.h"

#include "host/info/doctor/checks.h"

#include <algorithm>
#include <exception>

namespace gshmem::info {

std::span<const Check> all_checks() {
  static constexpr Check kChecks[] = {
#define GSHMEM_CHECK(name, purpose) {#name, check_##name, purpose},
#include "host/info/doctor/checks.def"
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
