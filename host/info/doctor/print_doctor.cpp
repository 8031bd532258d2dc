// The diagnosis for a person and for programs.
#include "host/base/error.h"
#include "host/info/doctor/doctor.h"
#include "host/info/json.h"

namespace gshmem::info {
namespace {

const char* verdict_name(Verdict verdict) {
  switch (verdict) {
    case Verdict::kOk:
      return "ok";
    case Verdict::kHint:
      return "hint";
    case Verdict::kProblem:
      return "problem";
    case Verdict::kSkipped:
      return "skipped";
  }
  return "";
}

void write_finding(JsonWriter& json, const CheckResult& result, const Finding& finding) {
  json.begin_object();
  json.member("check", result.check->name);
  json.member("verdict", verdict_name(finding.verdict));
  const bool trouble = finding.verdict == Verdict::kHint || finding.verdict == Verdict::kProblem;
  json.member(trouble ? "symptom" : "text", finding.text);
  if (trouble) {
    json.member("cause", finding.cause);
    json.member("fix", finding.fix);
  }
  json.end_object();
}

}  // namespace

std::string as_text(const Diagnosis& diagnosis) {
  std::string out = strprintf("gshmem doctor, %zu checks on %s\n", diagnosis.results.size(),
                              diagnosis.host.c_str());
  for (const CheckResult& result : diagnosis.results) {
    for (const Finding& finding : result.findings) {
      const bool loud = finding.verdict == Verdict::kProblem;
      out += strprintf("%-8s %s: %s\n", loud ? "PROBLEM" : verdict_name(finding.verdict),
                       result.check->name, finding.text.c_str());
      if (finding.cause.empty()) continue;
      out += "           cause: " + finding.cause + "\n           fix:   " + finding.fix + "\n";
    }
  }
  return out + strprintf("%zu problem(s), %zu hint(s), %zu not looked at\n",
                         diagnosis.count(Verdict::kProblem), diagnosis.count(Verdict::kHint),
                         diagnosis.count(Verdict::kSkipped));
}

std::string as_json(const Diagnosis& diagnosis) {
  JsonWriter json;
  json.begin_object();
  json.member("host", diagnosis.host);
  json.key("findings");
  json.begin_array();
  for (const CheckResult& result : diagnosis.results) {
    for (const Finding& finding : result.findings) write_finding(json, result, finding);
  }
  json.end_array();
  json.key("problems");
  json.number(std::uint64_t{diagnosis.count(Verdict::kProblem)});
  json.key("hints");
  json.number(std::uint64_t{diagnosis.count(Verdict::kHint)});
  json.end_object();
  return json.text();
}

std::string list_as_text() {
  std::string out;
  for (const Check& check : all_checks()) out += strprintf("%-17s %s\n", check.name, check.purpose);
  return out;
}

std::string list_as_json() {
  JsonWriter json;
  json.begin_array();
  for (const Check& check : all_checks()) {
    json.begin_object();
    json.member("name", check.name);
    json.member("purpose", check.purpose);
    json.end_object();
  }
  json.end_array();
  return json.text();
}

}  // namespace gshmem::info
