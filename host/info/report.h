// What gshmem-info says, as data: collected once, printed as text or as JSON.
#pragma once

#include "host/base/config.h"
#include "host/gpu/gpu.h"
#include "host/info/job.h"
#include "host/info/nics.h"

#include <optional>
#include <string>
#include <vector>

namespace gshmem::info {

struct Fact {
  std::string name, value;
};

struct VariableReport {
  ConfigEntry entry;
  std::string error;  ///< empty when the value is a good one
};

struct Report {
  std::vector<Fact> build;
  std::vector<VariableReport> variables;
  std::vector<std::string> unknown_variables;  ///< complete sentences
  std::string no_gpus;                         ///< why there are none
  std::vector<GpuInfo> gpus;
  std::vector<NicPort> nics;
  std::optional<Job> job;
  std::string job_error;  ///< why there is no job, when one was to be joined

  [[nodiscard]] bool good() const;
};

/// Everything but the job. Never throws for what it finds: a machine without driver, GPU or cards
/// is a result.
[[nodiscard]] Report collect(const std::string& sysfs_root);
[[nodiscard]] std::vector<VariableReport> check_variables(std::vector<ConfigEntry> entries);

[[nodiscard]] std::string as_text(const Report& report);
[[nodiscard]] std::string as_json(const Report& report);
/// The variables as the table in host/README.md.
[[nodiscard]] std::string variables_as_markdown(const std::vector<ConfigEntry>& entries);

}  // namespace gshmem::info
