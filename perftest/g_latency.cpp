// Time of a g: one thread follows a chain of indices through the memory of another PE. So no load
// can begin before the previous one has returned.
#include "perftest/common/run.h"
#include "perftest/common/timing.h"

namespace perftest {
namespace {

constexpr std::size_t kNodes = 128;      // an index fits in one byte
constexpr std::size_t kNodeBytes = 128;  // one cache line each

template <class T>
constexpr std::size_t kPitch = kNodeBytes / sizeof(T);

template <class T>
struct Chase {
  const T* nodes;
  T* position;  ///< of this PE; kept between launches
  int pe;

  GSHMEM_FN void operator()(const gshmem::LaunchContext& ctx, Span span) const {
    T at = *position;
    for (unsigned i = 0; i < span.count; ++i) at = ctx.g(nodes + at * kPitch<T>, pe);
    *position = at;
  }
};

/// Makes a cycle through all nodes that hardware cannot predict (Sattolo's algorithm). It is
/// different on each PE.
template <class T>
std::vector<T> make_chain(int pe) {
  std::vector<std::byte> random(kNodes * 8);
  fill_pattern(random, {.size = sizeof(T), .round = 0, .pe = pe});
  std::vector<T> next(kNodes);
  for (std::size_t i = 0; i < kNodes; ++i) next[i] = static_cast<T>(i);
  for (std::size_t i = kNodes - 1; i > 0; --i) {
    std::swap(next[i], next[std::to_integer<std::size_t>(random[i * 8]) % i]);
  }
  return next;
}

template <class T>
void run_word(Bench& bench, const std::string& name) {
  const Role role = bench.role();
  gshmem::SymmetricArray<T> nodes(kNodes * kPitch<T>), position(1);
  const std::vector<T> mine = make_chain<T>(bench.my_pe());
  std::vector<T> spread(nodes.size());
  for (std::size_t i = 0; i < kNodes; ++i) spread[i * kPitch<T>] = mine[i];
  nodes.write(spread, bench.my_pe());

  const std::uint64_t before = bench.iterations_taken();
  const Measurement measured = measure(bench, bench.shape_of("thread"), timed_if(role.is_active()),
                                       Chase<T>{nodes.data(), position.data(), role.target});
  T found{};
  position.read(std::span(&found, 1), bench.my_pe());
  if (bench.options().inject_corruption) found = static_cast<T>(found ^ 1u);
  std::string problem;
  if (role.is_active()) {
    const std::vector<T> chain = make_chain<T>(role.target);
    T wanted = 0;
    for (std::uint64_t i = before; i < bench.iterations_taken(); ++i) wanted = chain[wanted];
    if (found != wanted) {
      problem = "FAIL: wrong data: the chain ended at node " + std::to_string(found) +
                " instead of " + std::to_string(wanted);
    }
  }
  bench.agree(problem);
  bench.add_row({.name = name, .size = sizeof(T), .scope = "thread"}, measured, Trip::kRound,
                sizeof(T));
}

void run(Bench& bench) {
  for_each_word(bench, [&]<class T>(T, const std::string& name) { run_word<T>(bench, name); });
}

}  // namespace
}  // namespace perftest

int main(int argc, char** argv) {
  using namespace perftest;
  return run_program({.name = "g_latency",
                      .summary = "time of one g that depends on the one before it",
                      .groups = kType | kPattern,
                      .shows = Shows::kLatency,
                      .gpu = {},
                      .cpu = {.repetitions = 3},
                      .run = run},
                     argc, argv);
}
