// Every get of the C API: all types, fixed sizes and mem, all scopes, from kernels and from host
// threads, from every PE.
#include "tests/spmd/rma_rows.h"

using namespace gshmem;
using namespace gshmem::spmd;

namespace {

#define NAME GetByThread
#define CALL(STEM) gshmem_##STEM
#include "tests/spmd/rma_get.def"
#define NAME GetByWarp
#define CALL(STEM) gshmemx_##STEM##_warp
#include "tests/spmd/rma_get.def"
#define NAME GetByBlock
#define CALL(STEM) gshmemx_##STEM##_block
#include "tests/spmd/rma_get.def"

/// Shares the PEs among the groups of a launch.
template <class Gets>
struct GetsInKernel {
  GSHMEM_FN void operator()(const LaunchContext& ctx, Log log, RmaArea area, Scope scope) const {
    Gets{}(log, area, share_of(ctx, scope));
  }
};

template <class Gets>
void test_gets(Pe& pe, Scope scope) {
  if (!pe.c_api_in_kernels()) return pe.skip(kTwoPesOnAGpu);
  RmaMemory memory(pe);
  pe.run(shape_of(pe, scope), GetsInKernel<Gets>{}, memory.area(), scope);
  pe.barrier();
  memory.verify(pe, __LINE__, kScalar);
}

}  // namespace

SPMD_TEST(get_of_every_type_by_thread_reads_every_pe) {
  test_gets<GetByThread>(pe, Scope::kThread);
}
SPMD_TEST(get_of_every_type_by_warp_reads_every_pe) { test_gets<GetByWarp>(pe, Scope::kWarp); }
SPMD_TEST(get_of_every_type_by_block_reads_every_pe) { test_gets<GetByBlock>(pe, Scope::kBlock); }

SPMD_TEST(get_of_every_type_by_host_thread_reads_every_pe) {
  RmaMemory memory(pe);
  GetByThread{}(pe.host_log(), memory.area(), {0, 1, true});
  pe.barrier();
  memory.verify(pe, __LINE__, kScalar);
  // A host thread outside a launch is a warp and a block of one.
  if (pe.on_gpu()) return;
  memory.reset(pe);
  GetByBlock{}(pe.host_log(), memory.area(), {0, 1, true});
  pe.barrier();
  memory.verify(pe, __LINE__, kScalar);
}
