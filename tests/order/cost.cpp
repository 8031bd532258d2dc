// Cost of the order checker: a build without it runs this, and one for ThreadSanitizer does with
// GSHMEM_CHECK=order. cost.py divides. Two PEs as threads fill, copy and add arrays, and exchange
// messages of several sizes. Prints "NAME NUMBER": microseconds of processor time of a part, and
// KiB of memory at most.
#include <gshmem/gshmem.hpp>

#include <sys/resource.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace {

constexpr int kPes = 2;

double process_us() {
  timespec now{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) * 1e6 + static_cast<double>(now.tv_nsec) / 1e3;
}

/// Measures what all PEs do until they meet again.
template <class Work>
void measure(const gshmem::Runtime& runtime, const char* name, const Work& work) {
  gshmem_barrier_all();
  const double started = process_us();
  gshmem_barrier_all();
  work();
  gshmem_barrier_all();
  if (runtime.my_pe() == 0) std::printf("%s %.0f\n", name, process_us() - started);
}

/// Work of a PE between its messages: arrays in the heap, word by word.
struct Compute {
  GSHMEM_FN void operator()(gshmem::LaunchContext, double* to, const double* from,
                            std::size_t count) const {
    for (std::size_t i = 0; i < count; ++i) to[i] = 1;
    for (int round = 0; round < 4; ++round) {
      for (std::size_t i = 0; i < count; ++i) to[i] += 2 * from[i];
    }
  }
};

/// Messages to the other PE, and answers.
struct Exchange {
  GSHMEM_FN void operator()(gshmem::LaunchContext ctx, double* to, const double* from,
                            std::uint64_t* signal, std::size_t count, std::uint64_t messages,
                            std::uint64_t from_number) const {
    const gshmem::Thread self;
    for (std::uint64_t i = from_number + 1; i <= from_number + messages; ++i) {
      if (ctx.my_pe() == 0) ctx.put_signal(self, to, from, count, {signal, i}, 1);
      ctx.signal_wait_until(signal, gshmem::Cmp::kGe, i);
      if (ctx.my_pe() == 1) ctx.put_signal(self, to, from, count, {signal, i}, 0);
    }
  }
};

/// Many messages without an answer, with a quiet after 64 of them.
struct Stream {
  GSHMEM_FN void operator()(gshmem::LaunchContext ctx, double* to, const double* from,
                            std::size_t count, int messages) const {
    for (int i = 0; i < messages; ++i) {
      const std::size_t at = static_cast<std::size_t>(i % 64) * count;
      ctx.put_nbi(gshmem::Thread{}, to + at, from + at, count, 1 - ctx.my_pe());
      if (i % 64 == 63) ctx.quiet();
    }
    ctx.quiet();
  }
};

void run(const gshmem::Runtime& runtime) {
  constexpr std::size_t kBig = std::size_t{12} << 20, kSmall = 1024, kOne = 1;  // of 8 bytes
  gshmem::SymmetricArray<double> from(kBig), to(kBig);
  gshmem::SymmetricArray<std::uint64_t> signal(1);
  double* const a = to.data();
  double* const b = from.data();
  const auto part = [&](const char* name, const auto& work) { measure(runtime, name, work); };
  part("fill", [&] {
    std::memset(static_cast<void*>(a), 0, kBig * sizeof(double));
    for (std::size_t i = 0; i < kBig; ++i) b[i] = static_cast<double>(i);
  });
  part("compute", [&] { gshmem::launch({}, Compute{}, a, b, kBig); });
  std::uint64_t number = 0;
  const auto exchange = [&](const char* name, std::size_t count, std::uint64_t messages) {
    part(name,
         [&] { gshmem::launch({}, Exchange{}, a, b, signal.data(), count, messages, number); });
    number += messages;
  };
  exchange("exchange_8B", 1, 20'000);
  exchange("exchange_8KiB", kSmall, 5000);
  exchange("exchange_1MiB", kSmall * 128, 50);
  part("stream_8B", [&] { gshmem::launch({}, Stream{}, a, b, kOne, 100'000); });
  part("stream_8KiB", [&] { gshmem::launch({}, Stream{}, a, b, kSmall, 20'000); });
  rusage used{};
  gshmem_barrier_all();
  if (runtime.my_pe() == 0 && getrusage(RUSAGE_SELF, &used) == 0)
    std::printf("memory %ld\n", used.ru_maxrss);
}

}  // namespace

int main() {
  setenv("GSHMEM_SYMMETRIC_SIZE", "256M", 0);
  gshmem::run_threads(kPes, run);
}
