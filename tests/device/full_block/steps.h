// What main.cu launches, of another unit.
#pragma once

#include <cstddef>

struct Arrays {
  int *source, *sums, *all;
};

/// Adds to `wrong` what is not as it should be; arrays of `n`, `all` of as many for each PE.
__global__ void steps(Arrays arrays, std::size_t n, int* wrong);
