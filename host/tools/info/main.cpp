// gshmem-info prints the version, build, variables, GPUs and network cards, and under a launcher
// how the PEs of the job reach each other; or, with --doctor, what prevents the fast path;
// or, with --gdr-proof, what GPUDirect RDMA brings.
#include "bootstrap/bootstrap.h"
#include "host/base/error.h"
#include "host/tools/doctor/doctor.h"
#include "host/tools/info/report.h"
#include "host/tools/proof/prove.h"
#include "host/tools/selftest/selftest.h"

#include <gshmem/gshmem.hpp>

#include <CLI/CLI.hpp>

#include <fcntl.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>
#include <fstream>

namespace {

struct Options {
  bool version = false, json = false, markdown = false, doctor = false, list = false, quiet = false;
  bool selftest = false;
  std::vector<std::string> names;
  bool proof = false;
  std::string page;
  gshmem::proof::Plan plan;
  std::size_t largest_mib = 64;
  bool job = gshmem::info::launched();
};

/// Breaks the text at spaces into lines of at most `width` characters.
std::string wrapped(const std::string& text, std::size_t width) {
  std::string lines = text;
  for (std::size_t begin = 0; lines.size() - begin > width;) {
    const std::size_t space = lines.rfind(' ', begin + width);
    if (space == std::string::npos || space <= begin) break;
    lines[space] = '\n';
    begin = space + 1;
  }
  return lines;
}

void declare_doctor(CLI::App& app, Options& options, CLI::Option* doctor) {
  constexpr const char* kGroup = "Doctor";
  doctor->group(kGroup);
  app.add_flag("--list", options.list, "with --doctor: only the table of checks")
      ->needs(doctor)
      ->group(kGroup);
  app.add_flag("--quiet", options.quiet, "with --doctor: only problems and hints")
      ->needs(doctor)
      ->group(kGroup);
}

void declare_proof(CLI::App& app, Options& options, CLI::Option* proof) {
  constexpr const char* kGroup = "Tests of a network card";
  proof->group(kGroup);
  app.add_option("--page", options.page, "with --gdr-proof: also write one HTML page with plots")
      ->needs(proof)
      ->option_text("FILE")
      ->group(kGroup);
  app.add_option("--repeats", options.plan.repeats,
                 "with --gdr-proof: measurements of each side, 7 by default")
      ->needs(proof)
      ->check(CLI::Range(1, 1000))
      ->option_text("N")
      ->group(kGroup);
  app.add_option("--largest", options.largest_mib,
                 "with --gdr-proof: the largest message in MiB, 64 by default")
      ->needs(proof)
      ->check(CLI::Range(1, 1024))
      ->option_text("MIB")
      ->group(kGroup);
}

void declare(CLI::App& app, Options& options) {
  CLI::Option* version =
      app.add_flag("--version", options.version,
                   "print the version, the number of the ABI and the level of NVSHMEM");
  CLI::Option* json = app.add_flag("--json", options.json, "print JSON")->excludes(version);
  CLI::Option* job = app.add_flag_function(
      "--job", [&](std::int64_t) { options.job = true; },
      "join a job without a launcher as well: one PE, or as GSHMEM_BOOTSTRAP says");
  app.add_flag_function(
         "--no-job", [&](std::int64_t) { options.job = false; },
         "join no job, also under a launcher: only look at this machine")
      ->excludes(job);
  CLI::Option* markdown = app.add_flag("--markdown", options.markdown,
                                       "only the variables, as the tables in docs/variables.md")
                              ->excludes(json);
  CLI::Option* doctor =
      app.add_flag("--doctor", options.doctor,
                   "check what keeps programs from starting or from the fast path: a line for what "
                   "is good; symptom, cause and fix for what is not. It joins no job. Under a "
                   "launcher one process of each host prints.");
  doctor->excludes(markdown);
  CLI::Option* names =
      app.add_option("name", options.names,
                     "only these variables; with --doctor: only these checks, by the names of "
                     "--list")
          ->option_text("...")
          ->excludes(markdown);
  declare_doctor(app, options, doctor);
  CLI::Option* selftest =
      app.add_flag("--nic-selftest", options.selftest,
                   "test a ConnectX by a PE that sends to itself, and print a page to send back "
                   "(docs/hardware.md). GSHMEM_NIC=soft tests the NIC in software.")
          ->group("Tests of a network card");
  CLI::Option* proof = app.add_flag(
      "--gdr-proof", options.proof,
      "measure with GPUDirect RDMA on and off alternately, and say whether it works, or why not "
      "(docs/gpudirect.md). Alone it makes two PEs. Between two hosts: mpirun -np 2 "
      "gshmem-info --gdr-proof. With more processes, or GPUs, all pairs are measured at once, too");
  selftest->excludes(json, markdown, doctor, names, proof);
  proof->excludes(markdown, doctor, names);
  declare_proof(app, options, proof);
  constexpr std::size_t kColumns = 70;
  for (CLI::Option* option : app.get_options()) {
    option->description(wrapped(option->get_description(), kColumns));
    // Errors name the options that exclude each other.
    if (option->get_option_text().empty()) option->option_text(" ");
  }
  app.footer(
      "Examples:\n"
      "  gshmem-info --doctor                what is wrong on this machine, and how to mend it\n"
      "  mpirun -np 4 gshmem-info            how the PEs of a job reach each other\n"
      "  gshmem-info GSHMEM_SYMMETRIC_SIZE   one variable: its value, meaning and default\n\n"
      "Exit status:\n"
      "  0  all is well\n"
      "  1  a variable has a bad value, the job could not be joined, --doctor found a problem\n"
      "     (a hint is none), or a check of --nic-selftest failed\n"
      "  2  a wrong option or name, or there is no card for --nic-selftest\n"
      "  --gdr-proof: 0 it works, 1 it does not, 2 it does not apply or could not be measured");
}

/// PE 0 prints for the job; when the job could not start, the process with the launcher's rank 0
/// does.
bool speaks(const gshmem::info::Report& report) {
  if (report.job) return report.job->rank == 0;
  const auto lookup = [](const char* name, void*) { return gshmem::env_lookup(name); };
  const auto* const launcher = gshmem::bootstrap::launcher_of_several(lookup, nullptr);
  for (const char* name :
       {"PMIX_RANK", "GSHMEM_UID_RANK", launcher ? launcher->rank : "GSHMEM_UID_RANK"}) {
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
  const Diagnosis diagnosis = diagnose(machine, options.names);
  std::fputs((options.json ? as_json(diagnosis) : as_text(diagnosis, options.quiet)).c_str(),
             stdout);
  return diagnosis.status();
}

int print_variables(const Options& options) {
  using namespace gshmem::info;
  Report report;
  report.variables = only(options.names, check_variables(gshmem::config_entries_from_env()));
  if (!speaks(report)) return report.good() ? 0 : 1;
  std::fputs((options.json ? as_json(report.variables) : as_text(report.variables)).c_str(),
             stdout);
  return report.good() ? 0 : 1;
}

int run_selftest() {
  using namespace gshmem;
  const Config config = Config::from_env();
  // It provokes errors on purpose, and prints them itself.
  if (env_lookup("GSHMEM_LOG") == nullptr) log_configure(LogLevel::kNone, "");
  if (const std::string why = selftest::why_not(info::this_machine()); !why.empty()) {
    std::fputs(selftest::as_text_without(why).c_str(), stdout);
    return 2;
  }
  const selftest::SelfTest test = selftest::test_nic(config);
  std::fputs(selftest::as_text(test).c_str(), stdout);
  return test.good() ? 0 : 1;
}

/// Every process of a launcher measures, the first one prints, and no other one fails. What keeps
/// it from measuring is found before it does.
int run_proof(const Options& options) {
  using namespace gshmem;
  const Config config = Config::from_env();
  if (env_lookup("GSHMEM_LOG") == nullptr) log_configure(LogLevel::kNone, "");
  proof::Plan plan = options.plan;
  const std::size_t most = options.largest_mib << 20;
  plan.bandwidth_bytes = proof::bandwidth_sizes(most);
  plan.volume = 4 * most;
  const proof::Jobs jobs(config, info::launched());
  std::ofstream page;
  const auto require_page = [&] {
    require(page.good(), GSHMEMX_ERROR_INVALID_VALUE,
            "--page " + options.page + ": the file cannot be written");
  };
  if (jobs.is_first() && !options.page.empty()) page.open(options.page, std::ios::binary);
  const bool all_good = jobs.all(page.good());
  require_page();
  if (!all_good) return 0;
  const proof::Proof proof =
      proof::prove(proof::with_card_libraries(info::this_machine()), jobs, plan);
  if (!jobs.is_first()) return 0;
  std::fputs((options.json ? as_json(proof) : as_text(proof)).c_str(), stdout);
  if (page.is_open()) page << as_page(proof) << std::flush;
  require_page();
  return proof.judgement.status();
}

int run(const Options& options) {
  using namespace gshmem::info;
  if (options.version) {
    std::puts(version_line().c_str());
    return 0;
  }
  if (options.doctor) return run_doctor(options);
  if (options.selftest) return run_selftest();
  if (options.proof) return run_proof(options);
  if (options.markdown) {
    const std::string table = variables_as_markdown(gshmem::config_entries_from_env());
    std::fputs(table.c_str(), stdout);
    return 0;
  }
  if (!options.names.empty()) return print_variables(options);
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
    // The printing process has the error, too. Launchers end a job with the first process that
    // fails, so no other process may fail before that one has printed.
    report.job_error.clear();
  }
  return report.good() ? 0 : 1;
}

/// Returns the status, or that of a failure if what was printed is lost. Without standard output
/// (`>&-`) another file may have its number now.
int finished(bool has_output, int status) {
  if (has_output && std::fflush(stdout) == 0 && std::ferror(stdout) == 0) return status;
  std::fputs("gshmem-info: the output is lost: standard output cannot be written\n", stderr);
  return status == 0 ? 1 : status;
}

int parse_and_run(int argc, char** argv) {
  Options options;
  CLI::App app(
      "Prints version, build, GPUs, network cards, and every variable with its value.\n"
      "Under a launcher it also joins the job, and PE 0 prints how each PE reaches the others.",
      "gshmem-info");
  declare(app, options);
  try {
    app.parse(argc, argv);
    return run(options);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;
  } catch (const gshmem::Error& error) {
    std::fprintf(stderr, "gshmem-info: %s\n", error.what());
    const bool is_name = !options.names.empty();
    return options.proof || is_name ? 2 : 1;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "gshmem-info: %s\n", error.what());
    return options.proof ? 2 : 1;
  }
}

}  // namespace

int main(int argc, char** argv) {
  const bool has_output = ::fcntl(STDOUT_FILENO, F_GETFD) != -1;
  return finished(has_output, parse_and_run(argc, argv));
}
