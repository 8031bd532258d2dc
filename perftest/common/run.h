// Entry of every perftest: command line, PEs (of a launcher, or threads), report, exit status.
#pragma once

#include "perftest/common/bench.h"

namespace perftest {

struct Program {
  const char* name;
  const char* summary;
  unsigned groups;  ///< OptionGroup
  Shows shows;
  int least_pes = 1;
  Options gpu, cpu;  ///< defaults by mode; CPU ones end within 2 s on 2 cores
  void (*run)(Bench& bench);
};

/// Exit status: 0, 1 for a failed run, 2 for wrong use.
int run_program(const Program& program, int argc, char** argv);

}  // namespace perftest
