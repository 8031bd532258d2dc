// The entry point of every perftest: command line, PEs (of a launcher, or threads), report, exit
// status.
#pragma once

#include "perftest/common/bench.h"

namespace perftest {

struct Program {
  const char* name;
  const char* summary;
  unsigned groups;  ///< OptionGroup
  Shows shows;
  int least_pes = 1;
  Options gpu, cpu;           ///< defaults by mode; those of CPU mode end within 2 s on 2 cores
  void (*run)(Bench& bench);  ///< null when the program passes another
};

/// Runs the program on all PEs. Exit status: 0, 1 for a failed run, 2 for wrong use.
int run_program(const Program& program, int argc, char** argv);

// The parts of run_program, for a program that begins and ends the PEs itself.

/// Reads the command line, calls `job` and turns its errors into the exit status.
int run_job(const Program& program, int argc, char** argv,
            const std::function<void(const Options&)>& job);
/// Calls `body` on every PE of this process, between its init and its finalize.
void for_each_pe(const Options& options, const std::function<void(gshmem::Runtime&)>& body);
/// Collective: calls `run` on this PE, with the program's defaults and report.
void run_pe(const Program& program, const std::function<void(Bench&)>& run, Options options,
            gshmem::Runtime& runtime);

}  // namespace perftest
