// Time of sync_all over all PEs, by one thread, warp or block of each: mean over the PEs.
#include "perftest/common/barriers.h"

namespace perftest {
namespace {

struct All {
  static constexpr bool kCompletesPuts = false;
  template <class Group>
  GSHMEM_FN static void wait(const gshmem::LaunchContext& ctx, const Group& group) {
    ctx.sync_all(group);
  }
};

}  // namespace
}  // namespace perftest

int main(int argc, char** argv) {
  using namespace perftest;
  return run_program(barrier_program("sync_latency", "time of sync_all", run_barriers<All>), argc,
                     argv);
}
