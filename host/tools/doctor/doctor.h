// gshmem-info --doctor: the table of checks, how they are run, and how their findings are printed.
#pragma once

#include "host/tools/doctor/checks.h"
#include "host/tools/doctor/machine.h"

#include <span>
#include <string>
#include <vector>

namespace gshmem::info {

struct Check {
  const char* name;
  Findings (*run)(const Machine& machine);
  const char* purpose;  ///< one line
};
/// Returns all checks, in the order of the report.
[[nodiscard]] std::span<const Check> all_checks();

struct CheckResult {
  const Check* check;
  Findings findings;
};
struct Diagnosis {
  std::string host;
  std::vector<CheckResult> results;

  [[nodiscard]] std::size_t count(Verdict verdict) const;
  /// Returns the exit status of the program: 1 when there is a problem.
  [[nodiscard]] int status() const { return count(Verdict::kProblem) > 0 ? 1 : 0; }
};

/// Runs the checks with these names, or every one if there are none. Errors:
/// GSHMEMX_ERROR_INVALID_VALUE for a name that no check has. A check that throws gets one finding,
/// kSkipped, with the text of its error.
[[nodiscard]] Diagnosis diagnose(const Machine& machine,
                                 const std::vector<std::string>& names = {});

/// Returns true in the one process of a launcher that reports for its host.
[[nodiscard]] bool speaks_for_host(const Machine& machine);

/// Returns the report. With `quiet` it omits good findings and skipped checks.
[[nodiscard]] std::string as_text(const Diagnosis& diagnosis, bool quiet = false);
[[nodiscard]] std::string as_json(const Diagnosis& diagnosis);
[[nodiscard]] std::string list_as_text();
[[nodiscard]] std::string list_as_json();

}  // namespace gshmem::info
