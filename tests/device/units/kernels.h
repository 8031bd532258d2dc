// Shared by the translation units of this test. Each has kernels of its own that use gshmem, and so
// its own device state when compiled without -rdc.
#pragma once

/// The observations of a unit's kernels, read from symmetric memory after the launch.
struct Seen {
  int my_pe, n_pes;
  int from_left;  ///< put by the PE on the left
};

/// Launches the unit's kernel on `seen`, a symmetric object. Returns 0, or a cudaError_t.
using Launch = int (*)(Seen* seen);
int launch_first(Seen* seen);
int launch_second(Seen* seen);
__attribute__((visibility("default"))) int launch_library(Seen* seen);
