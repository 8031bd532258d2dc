// Time of a put that has arrived: put, then quiet, by one thread, warp or block.
#include "perftest/common/latency.h"

int main(int argc, char** argv) {
  using namespace perftest;
  return run_program(latency_program<Puts>("put_latency", "time of put + quiet"), argc, argv);
}
