#include "host/tools/doctor/doctor.h"

#include "host/base/error.h"
#include "host/tools/doctor/checks.h"

#include <algorithm>
#include <exception>

namespace gshmem::info {

std::span<const Check> all_checks() {
  static constexpr Check kChecks[] = {
#define GSHMEM_CHECK(name, purpose) {#name, check_##name, purpose},
#include "host/tools/doctor/checks.def"
  };
  return kChecks;
}

std::size_t Diagnosis::count(Verdict verdict) const {
  std::size_t n = 0;
  for (const CheckResult& result : results) {
    n += static_cast<std::size_t>(std::ranges::count(result.findings, verdict, &Finding::verdict));
  }
  return n;
}

Diagnosis diagnose(const Machine& machine, const std::vector<std::string>& names) {
  for (const std::string& name : names) {
    require(
        std::ranges::any_of(all_checks(), [&](const Check& check) { return check.name == name; }),
        GSHMEMX_ERROR_INVALID_VALUE,
        "no check \"" + name + "\"; gshmem-info --doctor --list has their names");
  }
  Diagnosis diagnosis{.host = machine.host, .results = {}};
  for (const Check& check : all_checks()) {
    if (!names.empty() && std::ranges::find(names, check.name) == names.end()) continue;
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
  // The variables of Open MPI, Slurm, hydra via MPICH, PALS, Flux, jsrun, MVAPICH, torchrun.
  for (const char* name : {"OMPI_COMM_WORLD_LOCAL_RANK", "SLURM_LOCALID", "MPI_LOCALRANKID",
                           "PALS_LOCAL_RANKID", "FLUX_TASK_LOCAL_ID", "JSM_NAMESPACE_LOCAL_RANK",
                           "MV2_COMM_WORLD_LOCAL_RANK", "LOCAL_RANK"}) {
    if (machine.env(name) != nullptr) return machine.env_or_empty(name) == "0";
  }
  return true;
}

std::string as_text(const Diagnosis& diagnosis, bool quiet) {
  std::string out;
  if (!quiet) {
    out = strprintf("gshmem doctor, %zu checks on %s\n", diagnosis.results.size(),
                    diagnosis.host.c_str());
  }
  for (const CheckResult& result : diagnosis.results) {
    for (const Finding& finding : result.findings) {
      if (quiet && !finding.is_trouble()) continue;
      const bool loud = finding.verdict == Verdict::kProblem;
      out += strprintf("%-8s %s: %s\n", loud ? "PROBLEM" : word_of(finding.verdict).c_str(),
                       result.check->name, finding.text.c_str());
      if (finding.cause.empty()) continue;
      out += "           cause: " + finding.cause + "\n           fix:   " + finding.fix + "\n";
    }
  }
  if (quiet) return out;
  return out + strprintf("%zu problem(s), %zu hint(s), %zu not looked at\n",
                         diagnosis.count(Verdict::kProblem), diagnosis.count(Verdict::kHint),
                         diagnosis.count(Verdict::kSkipped));
}

std::string list_as_text() {
  std::string out;
  for (const Check& check : all_checks()) out += strprintf("%-17s %s\n", check.name, check.purpose);
  return out;
}

}  // namespace gshmem::info
