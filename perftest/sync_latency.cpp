// Time of sync_all over all PEs, by one thread, warp or block of each: mean over the PEs.
#include "perftest/common/barriers.h"

int main(int argc, char** argv) {
  using namespace perftest;
  return run_program(barrier_program<SyncAll>("sync_latency", "time of sync_all"), argc, argv);
}
