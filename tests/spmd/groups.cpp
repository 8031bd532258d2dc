// Group operations synchronize: data that any thread of the group has written before the call is
// transferred, data that any thread has read before is not overwritten until then, and any thread's
// quiet afterwards completes the call. Nothing else synchronizes the groups here, and some threads
// come late.
#include "tests/spmd/groups.h"

#include "tests/spmd/handles.h"

using namespace gshmem;
using namespace gshmem::spmd;

namespace {

using Size = std::uint32_t;
constexpr std::size_t kCount = GroupSteps::kBytes / sizeof(Size);

/// Makes one operation of the C++ API. It is out of line: otherwise nvcc 13.0 with
/// --Ofast-compile=min crashes.
template <class Group>
GSHMEM_OUTLINE void call(const Context& by, Group group, GroupOp op, const GroupSteps& steps) {
  Size* target = reinterpret_cast<Size*>(steps.target());
  Size* source = reinterpret_cast<Size*>(steps.source);
  const Size* fixed = reinterpret_cast<const Size*>(steps.fixed);
  const Signal signal{steps.signal(), steps.number()};
  const int next = steps.next, from = steps.previous;
  const std::size_t few = steps.strided_count();
  const device::Strides strides{GroupSteps::kStride, GroupSteps::kStride, few};
  switch (op) {
    case GroupOp::kPut:
      return by.put(group, target, source, kCount, next);
    case GroupOp::kPutNbi:
      return by.put_nbi(group, target, source, kCount, next);
    case GroupOp::kPutSignal:
      return by.put_signal(group, target, source, kCount, signal, next);
    case GroupOp::kPutSignalNbi:
      return by.put_signal_nbi(group, target, source, kCount, signal, next);
    case GroupOp::kIput:
      return by.iput(group, target, source, strides, next);
    case GroupOp::kGet:
      return by.get(group, target, fixed, kCount, from);
    case GroupOp::kGetNbi:
      return by.get_nbi(group, target, fixed, kCount, from);
    case GroupOp::kIget:
      return by.iget(group, target, fixed, strides, from);
  }
}

/// Makes every operation, by groups of which each thread is late once, and once between the
/// synchronizations.
struct CallEach {
  static constexpr int kOps = 8;
  static constexpr int kSteps = kOps * 2 * GroupSteps::kWays;

  template <class Group>
  GSHMEM_FN void once(const Context& by, Log log, Group group, GroupOp op,
                      GroupSteps& steps) const {
    begin_step(steps, log, group, op, sizeof(Size));
    call(by, group, op, steps);
    end_step(steps, by, log, group, op, sizeof(Size));
  }
  template <class Group>
  GSHMEM_FN void run(const Context& by, Log log, Group group, GroupSteps steps) const {
    for (int op = 0; op < kOps; ++op) {
      for (int way = 0; way < GroupSteps::kWays; ++way) {
        once(by, log, group, static_cast<GroupOp>(op), steps);
      }
      for (int way = 0; way < GroupSteps::kWays; ++way) {
        once(by, log, dawdling(group, is_late(group, steps.step)), static_cast<GroupOp>(op), steps);
      }
    }
  }
  GSHMEM_FN void operator()(const LaunchContext& ctx, Log log, GroupSteps steps, Scope scope,
                            std::int32_t handle) const {
    const Context by = ctx.on(handle);
    if (scope == Scope::kWarp) {
      run(by, log, ctx.warp(), steps);
    } else {
      run(by, log, ctx.block(), steps);
    }
  }
};

void test_each(Pe& pe, std::int32_t handle) {
  for (const Scope scope : {Scope::kWarp, Scope::kBlock}) {
    const GroupMemory memory(pe, scope, CallEach::kSteps);
    pe.run(memory.shape(), CallEach{}, memory.steps(), scope, handle);
    pe.barrier();
  }
}

}  // namespace

SPMD_TEST(group_operations_synchronize_at_both_ends) { test_each(pe, GSHMEM_CTX_DEFAULT); }
SPMD_TEST(group_operations_of_a_context_synchronize_at_both_ends) {
  const OwnedQueues queues(pe, 1);
  test_each(pe, queues.list().handle[0]);
}
