#include "perftest/common/run.h"

#include "perftest/common/gpu.h"

#include <fcntl.h>
#include <unistd.h>

namespace perftest {
namespace {

/// The options of programs that have no defaults of their own.
const Options& common_defaults() {
  static const Options defaults = [] {
    Options options;
    options.step = 2;
    options.warmup_iters = 10;
    options.repetitions = 5;
    options.ctas = options.threads_per_cta = 1;
    options.scope = options.call = options.acks = "all";
    options.pattern = "pair";
    options.format = "table";
    options.stride = options.unroll = 1;
    return options;
  }();
  return defaults;
}

Header header_of(const Program& program, const Bench& bench) {
  return {{"program", program.name},
          {"version", GSHMEM_VENDOR_STRING},
          {"mode", bench.on_gpu() ? gpu_name() : "CPU"},
          {"pes", std::to_string(bench.n_pes())},
          {"pes_are", bench.options().pes ? "threads" : "processes"},
          {"path", path_name(bench.path())}};
}

}  // namespace

void run_pe(const Program& program, const std::function<void(Bench&)>& run, Options options,
            gshmem::Runtime& runtime) try {
  if (runtime.n_pes() < program.least_pes) {
    throw UsageError("needs at least " + std::to_string(program.least_pes) +
                     " PEs: start it under mpirun or srun, or with --pes");
  }
  apply_defaults(options, runtime.on_gpu() ? program.gpu : program.cpu);
  apply_defaults(options, common_defaults());
  Bench bench(runtime, options);
  Report report(options.format, program.shows, options.report_msgrate,
                bench.path() == Path::kNetwork, stdout);
  const Header header = header_of(program, bench);
  if (runtime.my_pe() == 0) {
    bench.set_report(&report);
    report.begin(header);
  }
  run(bench);
  if (runtime.my_pe() == 0) report.end();
} catch (const UsageError& error) {
  // It is thrown on all PEs.
  if (runtime.my_pe() == 0) std::fprintf(stderr, "%s: %s\n", program.name, error.what());
  throw Failed{2};
}

void for_each_pe(const Options& options, const std::function<void(gshmem::Runtime&)>& body) {
  if (options.pes) {
    gshmem::run_threads(static_cast<int>(options.pes), body);
  } else {
    gshmem::Runtime runtime;
    body(runtime);
  }
}

int run_job(const Program& program, int argc, char** argv,
            const std::function<void(const Options&)>& job) try {
  // Without it (`>&-`) another file may get its number in the meantime.
  const bool has_output = ::fcntl(STDOUT_FILENO, F_GETFD) != -1;
  const Options options = parse_options(program.groups, {argv + 1, argv + argc});
  if (options.help) {
    std::fputs(help_text(program.name, program.summary, program.groups).c_str(), stdout);
  } else {
    job(options);
  }
  if (has_output && std::fflush(stdout) == 0 && std::ferror(stdout) == 0) return 0;
  std::fprintf(stderr, "%s: the output is lost: standard output cannot be written\n", program.name);
  return 1;
} catch (const UsageError& error) {
  std::fprintf(stderr, "%s: %s\n", program.name, error.what());
  return 2;
} catch (const Failed& failed) {
  std::fprintf(stderr, "%s: failed\n", program.name);
  return failed.code;
} catch (const std::exception& error) {
  std::fprintf(stderr, "%s: %s\n", program.name, error.what());
  return 1;
}

int run_program(const Program& program, int argc, char** argv) {
  return run_job(program, argc, argv, [&](const Options& options) {
    for_each_pe(options,
                [&](gshmem::Runtime& runtime) { run_pe(program, program.run, options, runtime); });
  });
}

}  // namespace perftest
