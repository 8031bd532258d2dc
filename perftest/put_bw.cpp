// Bandwidth of puts.
#include "perftest/common/bandwidth.h"

int main(int argc, char** argv) {
  using namespace perftest;
  return run_program(bandwidth_program<Puts>("put_bw", "bandwidth of puts"), argc, argv);
}
