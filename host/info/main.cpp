// gshmem-info: version, build, variables, GPUs, network cards, and under a launcher how the PEs of
// the job reach each other; or, with --doctor, what is in the way of the fast path.
#include "host/base/error.h"
#include "host/info/doctor/doctor.h"
#include "host/info/report.h"

#include <gshmem/gshmem.hpp>

#include <cstdio>
#include <cstring>
#include <string_view>

namespace {

constexpr char kUsage[] =
    "usage: gshmem-info [--json] [--job | --no-job]\n"
    "       gshmem-info --doctor [--list] [--json]\n"
    "  Prints version, build, every variable with its value and origin, GPUs and network cards.\n"
    "  Under a launcher it also joins the job, and PE 0 prints how each PE reaches the others.\n"
    "  --json      the same as JSON\n"
    "  --job       join a job without a launcher as well (one PE, or as GSHMEM_BOOTSTRAP says)\n"
    "  --no-job    only look at this machine\n"
    "  --markdown  only the variables, as the table in host/README.md\n"
    "  --doctor    check what keeps programs from starting or from the fast path: a line for what\n"
    "              is good, symptom, cause and fix for what is not; joins no job. Under a "
    "launcher\n"
    "              one process of each host prints.\n"
    "  --list      with --doctor: only the table of checks\n"
    "Exit status: 1 when a variable has a bad value, the job could not be joined, or --doctor "
    "found\n"
    "at least one problem (hints do not count); 2 for a wrong option.\n";

struct Options {
  bool json = false, markdown = false, help = false, doctor = false, list = false;
  bool job = gshmem::info::launched();
};

bool parse(int argc, char** argv, Options* options) {
  for (int i = 1; i < argc; ++i) {
    const std::string_view word = argv[i];
    if (word == "--json") {
      options->json = true;
    } else if (word == "--markdown") {
      options->markdown = true;
    } else if (word == "--doctor") {
      options->doctor = true;
    } else if (word == "--list") {
      options->list = true;
    } else if (word == "--job" || word == "--no-job") {
      options->job = word == "--job";
    } else if (word == "--help" || word == "-h") {
      options->help = true;
    } else {
      std::fprintf(stderr, "gshmem-info: no option %s\n%s", argv[i], kUsage);
      return false;
    }
  }
  if (options->list && !options->doctor) {
    std::fprintf(stderr, "gshmem-info: --list goes with --doctor\n%s", kUsage);
    return false;
  }
  return true;
}

/// PE 0 speaks for the job; when it has not come about, the process with the launcher's rank 0
/// does.
bool speaks(const gshmem::info::Report& report) {
  if (report.job) return report.job->rank == 0;
  for (const char* name : {"PMIX_RANK", "GSHMEM_UID_RANK"}) {
    const char* rank = gshmem::env_lookup(name);
    if (rank != nullptr) return std::strcmp(rank, "0") == 0;
  }
  return true;
}

int run_doctor(const Options& options) {
  using namespace gshmem::info;
  if (options.list) {
    std::fputs((options.json ? list_as_json() : list_as_text()).c_str(), stdout);
    return 0;
  }
  const Machine machine = this_machine();
  if (!speaks_for_host(machine)) return 0;
  const Diagnosis diagnosis = diagnose(machine);
  std::fputs((options.json ? as_json(diagnosis) : as_text(diagnosis)).c_str(), stdout);
  return diagnosis.status();
}

int run(const Options& options) {
  using namespace gshmem::info;
  if (options.doctor) return run_doctor(options);
  if (options.markdown) {
    const std::string table = variables_as_markdown(gshmem::config_entries_from_env());
    std::fputs(table.c_str(), stdout);
    return 0;
  }
  Report report = collect("/sys");
  if (options.job && !report.good()) {
    report.job_error = "not joined, because a variable has a bad value";
  } else if (options.job) {
    try {
      report.job = join_job();
    } catch (const std::exception& error) {
      report.job_error = error.what();
    }
  }
  if (speaks(report)) {
    const std::string text = options.json ? as_json(report) : as_text(report);
    std::fputs(text.c_str(), stdout);
  } else {
    // The process that prints has it, too. Launchers end a job with the first process that fails,
    // which must not be before that one has printed.
    report.job_error.clear();
  }
  return report.good() ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  if (!parse(argc, argv, &options)) return 2;
  if (options.help) {
    std::fputs(kUsage, stdout);
    return 0;
  }
  try {
    return run(options);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "gshmem-info: %s\n", error.what());
    return 1;
  }
}
