// Rate of atomic operations: every thread works on words of its own at the target. For operations
// that return a ticket (fetch_add, fetch_inc) all threads of all PEs also draw from one word. No
// ticket may be missing or appear twice.
#include "perftest/common/atomics.h"

#include <algorithm>

namespace perftest {
namespace {

template <class T>
struct AtomicStream {
  Atomic op;
  T* words;
  std::size_t count;
  std::uint64_t origin;  ///< number of the first iteration on these words
  int pe;

  GSHMEM_FN void operator()(const gshmem::LaunchContext& ctx, Span span) const {
    with_atomic(op, Loop{*this, ctx, span});
    ctx.quiet();
  }

  struct Loop {
    const AtomicStream& body;
    const gshmem::LaunchContext& ctx;
    Span span;
    template <Atomic kOp>
    GSHMEM_FN void run() const {
      const Place place = thread_place(ctx);
      // The results are used: otherwise the compiler need not wait for them, nor fetch them.
      T seen{};
      for (unsigned i = 0; i < span.count; ++i) {
        const std::uint64_t iteration = span.first + i;
        const T operand = operand_of<T>(kOp, iteration);
        // Only compare_swap uses it: the operand of the previous iteration.
        const T expected = iteration == body.origin ? T{0} : operand_of<T>(kOp, iteration - 1);
        for (std::size_t w = place.index; w < body.count; w += place.count) {
          seen =
              static_cast<T>(seen ^ perform<kOp>(ctx, body.words + w, operand, expected, body.pe));
        }
      }
      // This almost never happens, and the word is not read.
      if (seen == static_cast<T>(0x5ca1ab1e)) body.words[body.count + 1] = seen;
    }
  };
};

template <class T>
struct DrawTickets {
  T* counter;  ///< on PE 0
  T* drawn;    ///< for this PE
  GSHMEM_FN void operator()(const gshmem::LaunchContext& ctx, Span span) const {
    T* mine = drawn + thread_place(ctx).index * span.count;
    for (unsigned i = 0; i < span.count; ++i) mine[i] = ctx.atomic_fetch_add(counter, 1, 0);
  }
};

template <class T>
void check_tickets(Bench& bench, const gshmem::LaunchShape& shape) {
  constexpr unsigned kEach = 8;
  const std::size_t mine = std::size_t{shape.blocks} * shape.threads * kEach;
  gshmem::SymmetricArray<T> counter(1), drawn(mine);
  run_once(bench, shape, true, DrawTickets<T>{counter.data(), drawn.data()}, kEach);
  std::string problem;
  if (bench.my_pe() == 0) {
    std::vector<T> all;
    for (int pe = 0; pe < bench.n_pes(); ++pe) {
      const std::vector<T> part = drawn.to_vector(pe);
      all.insert(all.end(), part.begin(), part.end());
    }
    std::sort(all.begin(), all.end());
    for (std::size_t i = 0; i < all.size() && problem.empty(); ++i) {
      if (all[i] != i) {
        problem = "FAIL: wrong data: of " + std::to_string(all.size()) +
                  " tickets the one in place " + std::to_string(i) + " is " +
                  std::to_string(all[i]);
      }
    }
  }
  bench.agree(problem);
}

template <class T>
Measurement run_size(Bench& bench, Atomic op, gshmem::SymmetricArray<T>& words,
                     const gshmem::LaunchShape& shape, std::size_t count) {
  const Role role = bench.role();
  // The next word must not change.
  std::vector<T> image(count + 1, initial_value<T>(op));
  words.write(image, bench.my_pe());
  const std::uint64_t first = bench.iterations_taken();
  const Measurement measured =
      measure(bench, shape, timed_if(role.is_active()),
              AtomicStream<T>{op, words.data(), count, first, role.target});
  words.read(image, bench.my_pe());
  if (bench.options().inject_corruption) image[count / 2] = static_cast<T>(image[count / 2] ^ 1u);
  const T wanted = model_after<T>(op, first, bench.iterations_taken());
  std::string problem;
  for (std::size_t w = 0; role.source >= 0 && w <= count && problem.empty(); ++w) {
    const T right = w == count ? initial_value<T>(op) : wanted;
    if (image[w] != right) {
      problem = "FAIL: wrong data: word " + std::to_string(w) + " is " + std::to_string(image[w]) +
                " instead of " + std::to_string(right);
    }
  }
  bench.agree(problem);
  return measured;
}

template <class T>
void run_op(Bench& bench, Atomic op, const std::string& name) {
  const gshmem::LaunchShape shape = bench.full_shape("thread");
  if (op == Atomic::kFetchAdd || op == Atomic::kFetchInc) check_tickets<T>(bench, shape);
  gshmem::SymmetricArray<T> words(bench.options().max_size / sizeof(T) + 2);
  for (const std::size_t bytes : sizes_of(bench.options(), sizeof(T))) {
    const std::size_t count = bytes / sizeof(T);
    const Measurement measured = run_size<T>(bench, op, words, shape, count);
    bench.add_row({.name = name,
                   .size = bytes,
                   .scope = "thread",
                   .blocks = shape.blocks,
                   .threads = shape.threads,
                   .bytes = bytes,
                   .operations = count},
                  measured, Trip::kStream, bytes);
  }
}

void run(Bench& bench) {
  for_each_atomic(
      bench, [&]<class T>(Atomic op, T, const std::string& name) { run_op<T>(bench, op, name); });
}

}  // namespace
}  // namespace perftest

int main(int argc, char** argv) {
  using namespace perftest;
  return run_program({.name = "atomic_bw",
                      .summary = "rate of atomic operations on words of many threads",
                      .groups = kSizes | kShape | kType | kAtomic | kPattern,
                      .shows = Shows::kRate,
                      .gpu = {.min_size = 64 << 10,
                              .max_size = 4 << 20,
                              .step = 8,
                              .warmup_iters = 3,
                              .ctas = 32,
                              .threads_per_cta = 1024,
                              .datatype = "uint64",
                              .atomic_op = "all"},
                      .cpu = {.min_size = 1 << 10,
                              .max_size = 16 << 10,
                              .step = 16,
                              .warmup_iters = 3,
                              .repetitions = 3,
                              .ctas = 2,
                              .threads_per_cta = 1,
                              .datatype = "uint64",
                              .atomic_op = "all"},
                      .run = run},
                     argc, argv);
}
