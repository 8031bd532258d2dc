// Figures of --nic-selftest, for the reader of the page. One thread of the CPU or the GPU takes
// them; they are not benchmarks (perftest/ has those).
#include "host/tools/selftest/bench.h"

#include <algorithm>
#include <cstring>

namespace gshmem::selftest {
namespace {

using device::Call;
using device::CallKind;

enum class Each { kWaits, kGoesOn };

/// Returns the microseconds of one of `count` calls.
double us_of(Bench& bench, CallKind kind, std::size_t bytes, int count, Each each) {
  Call call = Call::transfer(CallKind::kTimed, "figures", bench.at(kDest), bench.at(kSource), bytes,
                             0, each == Each::kWaits);
  call.signal = reinterpret_cast<std::uint64_t*>(bench.at(kDest));
  call.cond = static_cast<std::uint64_t>(kind);
  call.operand = static_cast<std::uint64_t>(count);
  return static_cast<double>(bench.run(call)) * 1e-3 / count;
}

/// Returns the median of several series.
double latency_of(Bench& bench, CallKind kind) {
  constexpr int kSeries = 21, kCount = 100;
  std::vector<double> all;
  for (int i = 0; i < kSeries; ++i) all.push_back(us_of(bench, kind, 8, kCount, Each::kWaits));
  std::nth_element(all.begin(), all.begin() + kSeries / 2, all.end());
  return all[kSeries / 2];
}

}  // namespace

std::string measure_latency(Bench& bench) {
  return strprintf("8 bytes: put %.2f us, get %.2f us, fetch_add %.2f us",
                   latency_of(bench, CallKind::kPut), latency_of(bench, CallKind::kGet),
                   latency_of(bench, CallKind::kAmo));
}

std::string measure_rate(Bench& bench) {
  const int puts = bench.is_card() ? 100'000 : 20'000, atomics = bench.is_card() ? 20'000 : 5'000;
  const double put = us_of(bench, CallKind::kPut, 64, puts, Each::kGoesOn);
  bench.store(kDest, Bytes(8));
  const double atomic = us_of(bench, CallKind::kSignal, 0, atomics, Each::kGoesOn);
  std::uint64_t sum = 0;
  std::memcpy(&sum, bench.load(kDest, sizeof(sum)).data(), sizeof(sum));
  expect_word("the sum of all signals", sum, static_cast<std::uint64_t>(atomics), sizeof(sum));
  return strprintf("one queue: %.2f M puts of 64 bytes/s, %.2f M atomics/s", 1 / put, 1 / atomic);
}

std::string measure_bandwidth(Bench& bench) {
  constexpr std::size_t kBytes = 1 << 20;
  constexpr int kCount = 200;
  const auto of = [&](CallKind kind) {
    return kBytes * 1e-3 / us_of(bench, kind, kBytes, kCount, Each::kGoesOn);
  };
  const double put = of(CallKind::kPut), get = of(CallKind::kGet);
  return strprintf("1 MiB each: put %.2f GB/s, get %.2f GB/s", put, get);
}

}  // namespace gshmem::selftest
