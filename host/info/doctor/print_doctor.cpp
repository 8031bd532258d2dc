// The diagnosis for a person.
#include "host/base/error.h"
#include "host/info/doctor/doctor.h"

namespace gshmem::info {

std::string as_text(const Diagnosis& diagnosis) {
  std::string out = strprintf("gshmem doctor, %zu checks on %s\n", diagnosis.results.size(),
                              diagnosis.host.c_str());
  for (const CheckResult& result : diagnosis.results) {
    for (const Finding& finding : result.findings) {
      const bool loud = finding.verdict == Verdict::kProblem;
      out += strprintf("%-8s %s: %s\n", loud ? "PROBLEM" : word_of(finding.verdict).c_str(),
                       result.check->name, finding.text.c_str());
      if (finding.cause.empty()) continue;
      out += "           cause: " + finding.cause + "\n           fix:   " + finding.fix + "\n";
    }
  }
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
