// The checks of gshmem-info --doctor as functions, and what they say. Included by every check, by
// the table and by the tests. Invariant: a check says at least one thing, throws nothing for what
// it finds, and needs no other check. A hint or a problem has all three texts, and `fix` is a
// command or a setting that can be used as it stands.
#pragma once

#include "host/base/choice.h"
#include "host/tools/doctor/machine.h"

#include <string>
#include <utility>
#include <vector>

namespace gshmem::info {

/// A hint is about what works, but slower or less safe than this machine could; a problem is in the
/// way of the fast path, or of starting at all; what is skipped could not be looked at, or is not
/// there.
GSHMEM_CHOICE_TYPE(Verdict, kOk, kHint, kProblem, kSkipped)

struct Finding {
  Verdict verdict = Verdict::kOk;
  std::string text;  ///< kOk: what is good; kSkipped: why; else the symptom
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

}  // namespace gshmem::info
