// Every group operation of the C API synchronizes at both ends, as groups.cpp tests it: fixed sizes
// and mem, and all types, and those on handles, if the host's compiler compiles the bodies. In one
// kernel they are too many for nvcc 13.0 (--Ofast-compile=min ends with a segmentation fault);
// types differ only in their size.
#include "tests/spmd/groups.h"
#include "tests/spmd/handles.h"

#if !defined(__CUDACC__)
#define GROUP_CALLS_OF_ALL_TYPES
#endif

using namespace gshmem;
using namespace gshmem::spmd;

namespace {

#define NAME CallsByWarp
#define CALL(STEM, ...) gshmemx_##STEM##_warp(__VA_ARGS__)
#include "tests/spmd/group_calls.def"
#define NAME CallsByBlock
#define CALL(STEM, ...) gshmemx_##STEM##_block(__VA_ARGS__)
#include "tests/spmd/group_calls.def"
#if defined(GROUP_CALLS_OF_ALL_TYPES)
#define NAME ContextCallsByWarp
#define CALL(STEM, ...) gshmemx_ctx_##STEM##_warp(handle, __VA_ARGS__)
#include "tests/spmd/group_calls.def"
#define NAME ContextCallsByBlock
#define CALL(STEM, ...) gshmemx_ctx_##STEM##_block(handle, __VA_ARGS__)
#include "tests/spmd/group_calls.def"
#define NAME QueueCallsByWarp
#define CALL(STEM, ...) gshmemx_qp_##STEM##_warp(__VA_ARGS__, handle)
#define TYPES_ALONE
#include "tests/spmd/group_calls.def"
#define NAME QueueCallsByBlock
#define CALL(STEM, ...) gshmemx_qp_##STEM##_block(__VA_ARGS__, handle)
#define TYPES_ALONE
#include "tests/spmd/group_calls.def"
#endif

constexpr int kMostSteps = 5 * 8 + 6
#if defined(GROUP_CALLS_OF_ALL_TYPES)
#define GSHMEM_TYPE(N, T, AMO, WAIT, REDUCE) +8
#include <gshmem/types.def>
#endif
    ;

template <class ByWarp, class ByBlock>
struct CallsInKernel {
  GSHMEM_FN void operator()(const LaunchContext& ctx, Log log, GroupSteps steps, Scope scope,
                            std::int32_t handle) const {
    if (scope == Scope::kWarp) {
      ByWarp{}(ctx.on(handle), log, ctx.warp(), steps, handle);
    } else {
      ByBlock{}(ctx.on(handle), log, ctx.block(), steps, handle);
    }
  }
};

template <class ByWarp, class ByBlock>
void test_calls(Pe& pe, Scope scope, std::int32_t handle = GSHMEM_CTX_DEFAULT) {
  if (!pe.c_api_in_kernels()) return pe.skip(kTwoPesOnAGpu);
  const GroupMemory memory(pe, scope, kMostSteps);
  pe.run(memory.shape(), CallsInKernel<ByWarp, ByBlock>{}, memory.steps(), scope, handle);
  pe.barrier();
}

}  // namespace

SPMD_TEST(operations_of_every_type_by_warp_synchronize_at_both_ends) {
  test_calls<CallsByWarp, CallsByBlock>(pe, Scope::kWarp);
}
SPMD_TEST(operations_of_every_type_by_block_synchronize_at_both_ends) {
  test_calls<CallsByWarp, CallsByBlock>(pe, Scope::kBlock);
}

#if defined(GROUP_CALLS_OF_ALL_TYPES)
SPMD_TEST(operations_of_every_type_on_a_context_synchronize_at_both_ends) {
  const OwnedContexts contexts(pe, 1, 0, OwnedContexts::Queues::kOwn);
  for (const Scope scope : {Scope::kWarp, Scope::kBlock}) {
    if (pe.draws())
      test_calls<ContextCallsByWarp, ContextCallsByBlock>(pe, scope, contexts.list().handle[0]);
  }
}
SPMD_TEST(operations_of_every_type_on_a_queue_synchronize_at_both_ends) {
  const OwnedQueues queues(pe, 1);
  for (const Scope scope : {Scope::kWarp, Scope::kBlock}) {
    if (pe.draws())
      test_calls<QueueCallsByWarp, QueueCallsByBlock>(pe, scope, queues.list().handle[0]);
  }
}
#endif
