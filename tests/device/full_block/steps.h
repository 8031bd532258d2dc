// The kernel of another unit that main.cu launches.
#pragma once

#include <cstddef>

struct Arrays {
  int *source, *sums, *all;
};

/// Adds the number of errors to `wrong`; arrays have `n` elements, `all` has `n` for each PE.
__global__ void steps(Arrays arrays, std::size_t n, int* wrong);
