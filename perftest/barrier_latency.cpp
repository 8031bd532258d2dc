// Time of barrier_all over all PEs, by one thread, warp or block of each: mean over the PEs.
#include "perftest/common/barriers.h"

int main(int argc, char** argv) {
  using namespace perftest;
  return run_program(barrier_program<BarrierAll>("barrier_latency", "time of barrier_all"), argc,
                     argv);
}
