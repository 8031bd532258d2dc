// The last segments of atomics, for tests that write entries field by field. Device code makes
// units of 16 bytes (device/network/wqe.h). tests/unit/mlx5_layout_test.cpp compares their layout.
#pragma once

#include <gshmem/abi/mlx5.h>

#include <cstdint>

namespace gshmem::abi {

struct AtomicSegment {
  Be64 swap_or_add;
  Be64 compare;
};
struct MaskedAdd4Segment {
  Be32 add, boundary;
  std::uint64_t reserved = 0;
};
struct MaskedAdd8Segment {
  Be64 add, boundary;
};
struct MaskedSwap4Segment {
  Be32 swap, compare, swap_mask, compare_mask;
};
struct MaskedSwap8Segment {
  Be64 swap, compare, swap_mask, compare_mask;
};
static_assert(sizeof(AtomicSegment) == 16);
static_assert(sizeof(MaskedAdd4Segment) == 16 && sizeof(MaskedAdd8Segment) == 16);
static_assert(sizeof(MaskedSwap4Segment) == 16 && sizeof(MaskedSwap8Segment) == 32);

}  // namespace gshmem::abi
