// Every put of the C API: all types, fixed sizes and mem, all scopes, from kernels and from host
// threads, to every PE.
#include "tests/spmd/rma_rows.h"

using namespace gshmem;
using namespace gshmem::spmd;

namespace {

#define NAME PutByThread
#define CALL(STEM) gshmem_##STEM
#include "tests/spmd/rma_put.def"
#define NAME PutByWarp
#define CALL(STEM) gshmemx_##STEM##_warp
#include "tests/spmd/rma_put.def"
#define NAME PutByBlock
#define CALL(STEM) gshmemx_##STEM##_block
#include "tests/spmd/rma_put.def"

/// Shares the PEs among the groups of a launch.
template <class Puts>
struct PutsInKernel {
  GSHMEM_FN void operator()(const LaunchContext& ctx, Log, RmaArea area, Scope scope) const {
    Puts{}(area, share_of(ctx, scope));
  }
};

template <class Puts>
void test_puts(Pe& pe, Scope scope) {
  if (!pe.c_api_in_kernels()) return pe.skip(kTwoPesOnAGpu);
  RmaMemory memory(pe);
  pe.run(shape_of(pe, scope), PutsInKernel<Puts>{}, memory.area(), scope);
  pe.barrier();
  memory.verify(pe, __LINE__, kRmaOps);
}

}  // namespace

SPMD_TEST(put_of_every_type_by_thread_arrives_everywhere) {
  test_puts<PutByThread>(pe, Scope::kThread);
}
SPMD_TEST(put_of_every_type_by_warp_arrives_everywhere) { test_puts<PutByWarp>(pe, Scope::kWarp); }
SPMD_TEST(put_of_every_type_by_block_arrives_everywhere) {
  test_puts<PutByBlock>(pe, Scope::kBlock);
}

SPMD_TEST(put_of_every_type_by_host_thread_arrives_everywhere) {
  RmaMemory memory(pe);
  PutByThread{}(memory.area(), {0, 1, true});
  pe.barrier();
  memory.verify(pe, __LINE__, kRmaOps);
  // A host thread outside a launch is a warp and a block of one.
  if (pe.on_gpu()) return;
  memory.reset(pe);
  PutByBlock{}(memory.area(), {0, 1, true});
  pe.barrier();
  memory.verify(pe, __LINE__, kRmaOps);
}
