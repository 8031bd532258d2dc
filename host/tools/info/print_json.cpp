// Prints the reports for programs, with members in the order in which they were added. Invariant:
// the output is valid UTF-8 for any strings; invalid bytes become U+FFFD. Pages of one kind
// and schema have the same members on every machine: null stands for what there is not.
#include "host/tools/doctor/doctor.h"
#include "host/tools/info/report.h"

#include <nlohmann/json.hpp>

namespace gshmem::info {
namespace {

using Json = nlohmann::ordered_json;

constexpr int kSchema = 1;  // increases when a member changes its meaning or is removed

Json text_or_null(const std::string& text) { return text.empty() ? Json() : Json(text); }

std::string text_of(const Json& json) {
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

Json json_of(const VariableReport& variable) {
  const ConfigEntry& entry = variable.entry;
  return {{"name", entry.name},
          {"value", entry.value},
          {"default", entry.default_value},
          {"origin", entry.set_by.empty()         ? "default"
                     : entry.set_by == entry.name ? "environment"
                                                  : entry.set_by},
          {"same_on_all_pes", entry.same_on_all_pes},
          {"accepted", entry.accepted},
          {"help", entry.help},
          {"error", text_or_null(variable.error)}};
}

Json json_of(const GpuInfo& gpu) {
  return {{"device", gpu.device},
          {"name", gpu.name},
          {"uuid", gpu.uuid},
          {"pci", gpu.pci},
          {"memory_bytes", gpu.memory_bytes},
          {"peer_access", gpu.peer_access},
          {"peer_native_atomics", gpu.peer_atomics}};
}

Json json_of(const NicPort& nic) {
  return {{"device", nic.device},
          {"port", nic.port},
          {"link_layer", nic.link_layer},
          {"state", nic.state},
          {"rate", nic.rate}};
}

Json json_of_pe(const Job& job, std::size_t pe) {
  const PeFacts& facts = job.pes[pe];
  Json gpu;  // null in CPU mode
  if (facts.gpu >= 0) {
    gpu = {{"device", facts.gpu}, {"name", facts.gpu_name}, {"uuid", facts.gpu_uuid}};
  }
  Json paths = Json::array(), why = Json::array();
  for (std::size_t peer = 0; peer < job.pes.size(); ++peer) {
    paths.push_back(path_name(job.paths[pe * job.pes.size() + peer]));
    why.push_back(job.why[pe * job.pes.size() + peer]);
  }
  return {{"pe", facts.rank},        {"bootstrap", facts.bootstrap},
          {"host", facts.host},      {"gpu", gpu},
          {"paths", paths},          {"nic", facts.nic},
          {"why_no_load_store", why}};
}

Json json_of(const AlgorithmRange& range, const Report& report) {
  Json json = {{"from", range.from}, {"to", nullptr}, {"algorithm", range.algorithm}};
  if (range.to != 0) json["to"] = range.to;
  json["moved_by"] = Json::array();
  for (const std::string_view variable : range.moved_by)
    json["moved_by"].push_back({{"variable", variable}, {"value", report.value_of(variable)}});
  return json;
}

Json json_of(const Algorithms& algorithms, const Report& report) {
  const abi::Team& team = algorithms.team;
  Json json = {
      {"members", team.n_pes},
      {"all_mapped", team.mapped != 0},
      {"members_of_a_domain", team.inner},
      {"sync", {{"algorithm", algorithms.sync()}, {"flat_to_members", algorithms.flat_members}}},
      {"collectives", Json::array()}};
  for (const AlgorithmRow& row : algorithms.rows) {
    Json ranges = Json::array();
    for (const AlgorithmRange& range : row.ranges) ranges.push_back(json_of(range, report));
    json["collectives"].push_back(
        {{"operation", row.operation}, {"scopes", row.scopes}, {"ranges", ranges}});
  }
  return json;
}

template <class T>
Json list_of(const std::vector<T>& all) {
  Json list = Json::array();
  for (const T& one : all) list.push_back(json_of(one));
  return list;
}

Json json_of(const Check& check, const Finding& finding) {
  return {{"check", check.name},
          {"verdict", word_of(finding.verdict)},
          {"text", finding.text},
          {"cause", text_or_null(finding.cause)},
          {"fix", text_or_null(finding.fix)}};
}

}  // namespace

std::string as_json(const Report& report) {
  Json json = {{"schema", kSchema}, {"build", Json::object()}};
  for (const Fact& fact : report.build) json["build"][fact.name] = fact.value;
  json["variables"] = list_of(report.variables);
  json["unknown_variables"] = report.unknown_variables;
  json["no_gpus"] = report.gpus.empty() ? Json(report.no_gpus) : Json();
  json["gpus"] = list_of(report.gpus);
  json["nics"] = list_of(report.nics);
  json["pes"] = nullptr;
  json["algorithms"] = nullptr;
  if (report.job) {
    json["pes"] = Json::array();
    for (std::size_t pe = 0; pe < report.job->pes.size(); ++pe) {
      json["pes"].push_back(json_of_pe(*report.job, pe));
    }
    json["algorithms"] = json_of(report.job->algorithms, report);
  }
  json["job_error"] = text_or_null(report.job_error);
  return text_of(json);
}

std::string as_json(const Diagnosis& diagnosis) {
  Json findings = Json::array();
  for (const CheckResult& result : diagnosis.results) {
    for (const Finding& finding : result.findings) {
      findings.push_back(json_of(*result.check, finding));
    }
  }
  return text_of({{"schema", kSchema},
                  {"host", diagnosis.host},
                  {"findings", findings},
                  {"problems", diagnosis.count(Verdict::kProblem)},
                  {"hints", diagnosis.count(Verdict::kHint)}});
}

std::string as_json(const std::vector<VariableReport>& variables) {
  return text_of({{"schema", kSchema}, {"variables", list_of(variables)}});
}

std::string list_as_json() {
  Json list = Json::array();
  for (const Check& check : all_checks()) {
    list.push_back({{"name", check.name}, {"purpose", check.purpose}});
  }
  return text_of(list);
}

}  // namespace gshmem::info
