// Bandwidth of gets.
#include "perftest/common/bandwidth.h"

int main(int argc, char** argv) {
  using namespace perftest;
  return run_program(bandwidth_program<Gets>("get_bw", "bandwidth of gets"), argc, argv);
}
