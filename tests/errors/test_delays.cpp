// Tests that late data of one queue does no harm to earlier data of another queue.
#include "tests/errors/scene.h"

#include <catch2/catch.hpp>

#include <stdexcept>

using namespace gshmem;
using namespace gshmem::errors;

namespace {

/// Two syncs, by blocks that have queues of their own. The flag of the actor's first sync reaches
/// the target after that of the second one, and before the target reads it.
struct TwoSyncs {
  struct Words {
    std::uint64_t first_is_over, first_has_come, target_is_through;
  };
  GSHMEM_FN void operator()(const LaunchContext& ctx, Words* words) const {
    const int me = ctx.my_pe();
    if (ctx.block_rank() == 0) {
      ctx.sync_all(Thread{});
      device::store_release(&words->first_is_over, std::uint64_t{1});
      if (me == kActor) ctx.p(&words->first_has_come, std::uint64_t{1}, kTarget);  // after the flag
    } else {
      ctx.wait_until(&words->first_is_over, Cmp::kEq, 1);
      if (me == kTarget) ctx.wait_until(&words->first_has_come, Cmp::kEq, 1);
      ctx.sync_all(Thread{});
      if (me == kTarget) ctx.p(&words->target_is_through, std::uint64_t{1}, kActor);
      if (me == kActor) ctx.wait_until(&words->target_is_through, Cmp::kEq, 1);
    }
  }
};

}  // namespace

TEST_CASE("flags_of_two_syncs_may_overtake_each_other") {
  Leg leg = legs({"soft"}).front();
  leg.mapping = Mapping::kNone;
  const auto body = [](const Runtime&) {
    auto* words = static_cast<TwoSyncs::Words*>(gshmem_calloc(1, sizeof(TwoSyncs::Words)));
    if (!words) throw std::runtime_error("no memory");
    gshmem_barrier_all();
    if (gshmem_my_pe() == kActor) inject("times=1:delay=700ms", 0);
    gshmem::launch({.blocks = 2}, TwoSyncs{}, words);
    gshmem_barrier_all();
  };
  for (const gshmemx_fault_t& fault :
       spmd::faults_after(kPes, environment_of(leg, {{"GSHMEM_TIMEOUT", "10"}}), body)) {
    INFO(fault.message);
    CHECK(fault.code == GSHMEMX_SUCCESS);
  }
}
