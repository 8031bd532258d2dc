// Every group operation of the C API meets at both ends, as groups.cpp has it: fixed sizes and mem,
// and all types where the host's compiler makes the bodies. In one kernel they are too many for
// nvcc 13.0 (--Ofast-compile=min ends with a segmentation fault); what a type adds is its size.
#include "tests/spmd/groups.h"

#if !defined(__CUDACC__)
#define GROUP_CALLS_OF_ALL_TYPES
#endif

using namespace gshmem;
using namespace gshmem::spmd;

namespace {

#define NAME CallsByWarp
#define CALL(STEM) gshmemx_##STEM##_warp
#include "tests/spmd/group_calls.def"
#define NAME CallsByBlock
#define CALL(STEM) gshmemx_##STEM##_block
#include "tests/spmd/group_calls.def"

struct CallsInKernel {
  static constexpr int kSteps = 5 * 8 + 6
#if defined(GROUP_CALLS_OF_ALL_TYPES)
#define GSHMEM_TYPE(N, T, AMO, WAIT, REDUCE) +8
#include <gshmem/types.def>
#endif
      ;

  GSHMEM_FN void operator()(const LaunchContext& ctx, Log log, GroupSteps steps,
                            Scope scope) const {
    if (scope == Scope::kWarp) {
      CallsByWarp{}(ctx, log, ctx.warp(), steps);
    } else {
      CallsByBlock{}(ctx, log, ctx.block(), steps);
    }
  }
};

void test_calls(Pe& pe, Scope scope) {
  if (!pe.c_api_in_kernels()) return pe.skip(kTwoPesOnAGpu);
  const GroupMemory memory(pe, scope, CallsInKernel::kSteps);
  pe.run(memory.shape(), CallsInKernel{}, memory.steps(), scope);
  pe.barrier();
}

}  // namespace

SPMD_TEST(operations_of_every_type_by_warp_meet_at_both_ends) { test_calls(pe, Scope::kWarp); }
SPMD_TEST(operations_of_every_type_by_block_meet_at_both_ends) { test_calls(pe, Scope::kBlock); }
