// The checks of gshmem-info --doctor as functions, and their findings. Included by every check, by
// the table and by the tests. Invariant: a check reports at least one finding, throws nothing for
// what it finds, and needs no other check. A hint or a problem has all three texts, and `fix` is a
// command or a setting that can be used as it is.
#pragma once

#include "host/base/choice.h"
#include "host/tools/doctor/machine.h"

#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace gshmem::info {

/// A hint means that something works, but slower or less safely than this machine could. A problem
/// prevents the fast path, or the start of programs. A skipped check could not run, or its subject
/// does not exist.
GSHMEM_CHOICE_TYPE(Verdict, kOk, kHint, kProblem, kSkipped)

struct Finding {
  Verdict verdict = Verdict::kOk;
  std::string text;  ///< kOk: what is good; kSkipped: why; otherwise the symptom
  std::string cause{}, fix{};

  [[nodiscard]] bool is_trouble() const {
    return verdict == Verdict::kHint || verdict == Verdict::kProblem;
  }
};
using Findings = std::vector<Finding>;

struct Trouble {
  std::string symptom, cause, fix;
};

[[nodiscard]] inline Finding ok(std::string what) { return {Verdict::kOk, std::move(what)}; }
[[nodiscard]] inline Finding skipped(std::string why) {
  return {Verdict::kSkipped, std::move(why)};
}
[[nodiscard]] inline Finding problem(Trouble t) {
  return {Verdict::kProblem, std::move(t.symptom), std::move(t.cause), std::move(t.fix)};
}
[[nodiscard]] inline Finding hint(Trouble t) {
  return {Verdict::kHint, std::move(t.symptom), std::move(t.cause), std::move(t.fix)};
}

#define GSHMEM_CHECK(name, purpose) [[nodiscard]] Findings check_##name(const Machine& machine);
#include "host/tools/doctor/checks.def"

struct PciDevice;
/// Returns the finding of check_gpu_nic_distance about this GPU, as if these were all NICs.
[[nodiscard]] Finding distance_finding(const Machine& machine, const PciDevice& gpu,
                                       const std::vector<PciDevice>& cards);
/// Returns the finding of check_numa that no CPU of this process is near any of the devices, which
/// `which` names; nothing if one is near.
[[nodiscard]] std::optional<Finding> far_from_all(const Machine& machine,
                                                  const std::vector<PciDevice>& devices,
                                                  const char* which);

}  // namespace gshmem::info
