// The report for programs.
#include "host/info/json.h"
#include "host/info/report.h"

namespace gshmem::info {
namespace {

void write_variables(JsonWriter& json, const Report& report) {
  json.key("variables");
  json.begin_array();
  for (const auto& [entry, error] : report.variables) {
    json.begin_object();
    json.member("name", entry.name);
    json.member("value", entry.value);
    json.member("default", entry.default_value);
    json.member("origin", entry.from_environment ? "environment" : "default");
    json.member("accepted", entry.accepted);
    json.member("help", entry.help);
    if (!error.empty()) json.member("error", error);
    json.end_object();
  }
  json.end_array();
  json.key("unknown_variables");
  json.begin_array();
  for (const std::string& message : report.unknown_variables) json.string(message);
  json.end_array();
}

void write_flags(JsonWriter& json, const char* name, const std::vector<bool>& flags) {
  json.key(name);
  json.begin_array();
  for (const bool flag : flags) json.boolean(flag);
  json.end_array();
}

void write_machine(JsonWriter& json, const Report& report) {
  if (report.gpus.empty()) json.member("no_gpus", report.no_gpus);
  json.key("gpus");
  json.begin_array();
  for (const GpuInfo& gpu : report.gpus) {
    json.begin_object();
    json.key("device");
    json.number(gpu.device);
    json.member("name", gpu.name);
    json.member("uuid", gpu.uuid);
    json.member("pci", gpu.pci);
    json.key("memory_bytes");
    json.number(gpu.memory_bytes);
    write_flags(json, "peer_access", gpu.peer_access);
    write_flags(json, "peer_native_atomics", gpu.peer_atomics);
    json.end_object();
  }
  json.end_array();
  json.key("nics");
  json.begin_array();
  for (const NicPort& nic : report.nics) {
    json.begin_object();
    json.member("device", nic.device);
    json.key("port");
    json.number(nic.port);
    json.member("link_layer", nic.link_layer);
    json.member("state", nic.state);
    json.member("rate", nic.rate);
    json.end_object();
  }
  json.end_array();
}

void write_job(JsonWriter& json, const Job& job) {
  json.key("pes");
  json.begin_array();
  for (std::size_t pe = 0; pe < job.pes.size(); ++pe) {
    const PeFacts& facts = job.pes[pe];
    json.begin_object();
    json.key("pe");
    json.number(facts.rank);
    json.member("bootstrap", facts.bootstrap);
    json.member("host", facts.host);
    json.key("gpu");
    if (facts.gpu < 0) {
      json.null();
    } else {
      json.begin_object();
      json.key("device");
      json.number(facts.gpu);
      json.member("name", facts.gpu_name);
      json.member("uuid", facts.gpu_uuid);
      json.end_object();
    }
    json.key("paths");
    json.begin_array();
    for (std::size_t peer = 0; peer < job.pes.size(); ++peer) {
      json.string(path_name(job.paths[pe * job.pes.size() + peer]));
    }
    json.end_array();
    json.member("nic", facts.nic);
    json.key("why_no_load_store");
    json.begin_array();
    for (std::size_t peer = 0; peer < job.pes.size(); ++peer)
      json.string(job.why[pe * job.pes.size() + peer]);
    json.end_array();
    json.end_object();
  }
  json.end_array();
}

}  // namespace

std::string as_json(const Report& report) {
  JsonWriter json;
  json.begin_object();
  json.key("build");
  json.begin_object();
  for (const Fact& fact : report.build) json.member(fact.name, fact.value);
  json.end_object();
  write_variables(json, report);
  write_machine(json, report);
  if (report.job) write_job(json, *report.job);
  if (!report.job_error.empty()) json.member("job_error", report.job_error);
  json.end_object();
  return json.text();
}

}  // namespace gshmem::info
