// Time of a blocking get by one thread, warp or block.
#include "perftest/common/latency.h"

int main(int argc, char** argv) {
  using namespace perftest;
  return run_program(latency_program<Gets>("get_latency", "time of a blocking get"), argc, argv);
}
