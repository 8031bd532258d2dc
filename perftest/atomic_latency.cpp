// Time of an atomic operation by one thread. A fetching one is timed until the old value has
// arrived (the next address depends on it), any other one with quiet.
#include "perftest/common/atomics.h"

namespace perftest {
namespace {

template <class T>
struct AtomicAgain {
  Atomic op;
  T* target;             ///< symmetric, with space for a second word
  T* expected;           ///< the expected value of the word; on this PE
  std::uint64_t* wrong;  ///< on this PE
  int pe;

  GSHMEM_FN void operator()(const gshmem::LaunchContext& ctx, Span span) const {
    with_atomic(op, Loop{*this, ctx, span});
  }

  struct Loop {
    const AtomicAgain& body;
    const gshmem::LaunchContext& ctx;
    Span span;
    template <Atomic kOp>
    GSHMEM_FN void run() const {
      T word = *body.expected;
      T differs = 0;
      for (unsigned i = 0; i < span.count; ++i) {
        const T operand = operand_of<T>(kOp, span.first + i);
        const T old = perform<kOp>(ctx, body.target + (differs ? 1 : 0), operand, word, body.pe);
        if constexpr (!kFetches<kOp>) ctx.quiet();
        differs = static_cast<T>(differs | (old ^ word));
        word = model(kOp, word, operand);
      }
      *body.expected = word;
      if (differs) *body.wrong += 1;
    }
  };
};

template <class T>
void run_op(Bench& bench, Atomic op, const std::string& name) {
  const Role role = bench.role();
  const T initial = initial_value<T>(op);
  gshmem::SymmetricArray<T> target(2), expected(1);
  gshmem::SymmetricArray<std::uint64_t> wrong(1);
  target.write(std::span(&initial, 1), bench.my_pe());
  expected.write(std::span(&initial, 1), bench.my_pe());
  const std::uint64_t before = bench.iterations_taken();
  const Measurement measured =
      measure(bench, bench.shape_of("thread"), timed_if(role.is_active()),
              AtomicAgain<T>{op, target.data(), expected.data(), wrong.data(), role.target});

  T last = target.to_vector(bench.my_pe())[0];
  if (bench.options().inject_corruption) last = static_cast<T>(last ^ 1u);
  const T wanted = model_after<T>(op, before, bench.iterations_taken());
  std::string problem;
  if (wrong.to_vector(bench.my_pe())[0] != 0) {
    problem = "FAIL: wrong data: " + name + " returned an old value that was never there";
  } else if (role.source >= 0 && last != wanted) {
    problem = "FAIL: wrong data: " + name + " left " + std::to_string(last) + " instead of " +
              std::to_string(wanted);
  }
  bench.agree(problem);
  bench.add_row({.name = name, .size = sizeof(T), .scope = "thread"}, measured, Trip::kRound,
                sizeof(T));
}

void run(Bench& bench) {
  for_each_atomic(
      bench, [&]<class T>(Atomic op, T, const std::string& name) { run_op<T>(bench, op, name); });
}

}  // namespace
}  // namespace perftest

int main(int argc, char** argv) {
  using namespace perftest;
  return run_program({.name = "atomic_latency",
                      .summary = "time of an atomic operation by one thread",
                      .groups = kType | kAtomic | kPattern,
                      .shows = Shows::kLatency,
                      .gpu = {.datatype = "uint64", .atomic_op = "all"},
                      .cpu = {.repetitions = 3, .datatype = "uint64", .atomic_op = "all"},
                      .run = run},
                     argc, argv);
}
