// Prints the report for a person, and the table of variables for docs/variables.md.
#include "host/base/error.h"
#include "host/tools/doctor/machine.h"
#include "host/tools/info/report.h"

namespace gshmem::info {
namespace {

void print_each(std::string& out, const std::vector<VariableReport>& variables) {
  for (const auto& [entry, error] : variables) {
    out +=
        strprintf("  %s = \"%s\" (%s)\n      %s; %s%s\n", entry.name.c_str(), entry.value.c_str(),
                  entry.set_by.empty()         ? "default"
                  : entry.set_by == entry.name ? "environment"
                                               : entry.set_by.c_str(),
                  entry.help.c_str(), entry.accepted.c_str(),
                  entry.same_on_all_pes ? "; the same on all PEs" : "");
    if (!entry.set_by.empty() && entry.value != entry.default_value) {
      out += strprintf("      default \"%s\"\n", entry.default_value.c_str());
    }
    if (!error.empty()) out += "      ERROR: " + error + "\n";
  }
}

/// Those that are set have their meanings, and the others their values alone.
void print_variables(std::string& out, const Report& report) {
  std::vector<VariableReport> set;
  std::string others;
  for (const VariableReport& variable : report.variables) {
    if (!variable.entry.set_by.empty()) {
      set.push_back(variable);
    } else {
      others += "  " + variable.entry.name + " = \"" + variable.entry.value + "\"\n";
    }
  }
  out += "\nVariables that are set\n";
  if (set.empty()) out += "  none\n";
  print_each(out, set);
  for (const std::string& message : report.unknown_variables) out += "  WARNING: " + message + "\n";
  if (!others.empty())
    out += "\nVariables with their defaults (gshmem-info NAME has the meaning of one)\n" + others;
}

void print_gpus(std::string& out, const Report& report) {
  out += "\nGPUs\n";
  if (report.gpus.empty()) out += "  none: " + report.no_gpus + "\n";
  for (const GpuInfo& gpu : report.gpus) {
    out += strprintf("  %d  %s, %.1f GiB, PCI %s, %s\n", gpu.device, gpu.name.c_str(),
                     static_cast<double>(gpu.memory_bytes) / (1u << 30), gpu.pci.c_str(),
                     gpu.uuid.c_str());
  }
  if (report.gpus.size() < 2) return;
  out += "  Access to peers (A: load/store with native atomics, x: load/store, .: none)\n     ";
  for (const GpuInfo& gpu : report.gpus) out += strprintf("%3d", gpu.device);
  for (const GpuInfo& gpu : report.gpus) {
    out += strprintf("\n  %3d", gpu.device);
    for (std::size_t peer = 0; peer < gpu.peer_access.size(); ++peer) {
      out += gpu.peer_atomics[peer] ? "  A" : gpu.peer_access[peer] ? "  x" : "  .";
    }
  }
  out += "\n";
}

void print_nics(std::string& out, const Report& report) {
  out += "\nRDMA network cards\n";
  if (report.nics.empty()) out += "  none\n";
  for (const NicPort& nic : report.nics) {
    out += strprintf("  %s port %d: %s, %s, %s\n", nic.device.c_str(), nic.port,
                     nic.link_layer.c_str(), nic.state.c_str(), nic.rate.c_str());
  }
}

void print_job(std::string& out, const Report& report) {
  if (!report.job && report.job_error.empty()) return;
  out += "\nJob\n";
  if (!report.job) {
    out += "  ERROR: " + report.job_error + "\n";
    return;
  }
  const Job& job = *report.job;
  for (std::size_t pe = 0; pe < job.pes.size(); ++pe) {
    const PeFacts& facts = job.pes[pe];
    out += strprintf("  PE %d: bootstrap %s, host %s, ", facts.rank, facts.bootstrap, facts.host);
    out += facts.gpu < 0
               ? "CPU mode\n"
               : strprintf("GPU %d (%s, %s)\n", facts.gpu, facts.gpu_name, facts.gpu_uuid);
    for (std::size_t peer = 0; peer < job.pes.size(); ++peer) {
      const std::size_t pair = pe * job.pes.size() + peer;
      const std::string path(path_name(job.paths[pair]));
      out += strprintf("      to PE %zu: ", peer);
      out += job.paths[pair] == Path::kNetwork
                 ? strprintf("network (%s); %s\n", facts.nic, job.why[pair].c_str())
                 : "load/store, " + path + "\n";
    }
  }
}

void print_algorithms(std::string& out, const Report& report) {
  if (!report.job) return;
  const Algorithms& algorithms = report.job->algorithms;
  out += "\nAlgorithms: " + algorithms.topology() + "; bytes that one member gives another one\n";
  for (const AlgorithmRow& row : algorithms.rows) {
    const std::vector<std::string> scopes(row.scopes.begin(), row.scopes.end());
    out += strprintf("  %-15s  %-33s  ", std::string(row.operation).c_str(),
                     joined(scopes, ", ").c_str());
    for (const AlgorithmRange& range : row.ranges) {
      out += (range.from == 1 ? "" : ", then ") + std::string(range.algorithm);
      if (range.to != 0) out += strprintf(" to %llu", static_cast<unsigned long long>(range.to));
      std::string separator = " (";
      for (const std::string_view variable : range.moved_by) {
        out += separator + std::string(variable) + "=" + report.value_of(variable);
        separator = ", ";
      }
      if (!range.moved_by.empty()) out += ")";
    }
    out += "\n";
  }
  out += strprintf("  %-15s  %-33s  %s (flat to %d members)\n", "sync, barrier", "all",
                   std::string(algorithms.sync()).c_str(), algorithms.flat_members);
}

}  // namespace

std::string as_text(const Report& report) {
  std::string out = "gshmem\n";
  for (const Fact& fact : report.build) {
    out += strprintf("  %-14s %s\n", fact.name.c_str(), fact.value.c_str());
  }
  print_gpus(out, report);
  print_nics(out, report);
  print_variables(out, report);
  print_job(out, report);
  print_algorithms(out, report);
  return out;
}

std::string as_text(const std::vector<VariableReport>& variables) {
  std::string out;
  print_each(out, variables);
  return out;
}

std::string variables_as_markdown(const std::vector<ConfigEntry>& entries) {
  std::string out =
      "| variable | default | meaning | accepted | PEs |\n| --- | --- | --- | --- | --- |\n";
  for (const ConfigEntry& entry : entries) {
    const std::string value = entry.default_value.empty() ? "" : "`" + entry.default_value + "`";
    out += "| `" + entry.name + "` | " + value + " | " + entry.help + " | " + entry.accepted +
           " | " + (entry.same_on_all_pes ? "same" : "") + " |\n";
  }
  return out;
}

}  // namespace gshmem::info
