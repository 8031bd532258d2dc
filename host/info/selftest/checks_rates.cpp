// Figures of --nic-selftest, for who reads the page. The one thread that takes them is no benchmark
// (perftest/ has those).
#include "host/info/selftest/bench.h"

#include <algorithm>
#include <chrono>
#include <cstring>

namespace gshmem::selftest {
namespace {

using Clock = std::chrono::steady_clock;
using device::Call;
using device::CallKind;

double seconds_of(const std::function<void()>& work) {
  const auto begin = Clock::now();
  work();
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

/// Median in microseconds.
double median_of(int count, const std::function<void()>& work) {
  std::vector<double> all;
  for (int i = 0; i < count; ++i) all.push_back(seconds_of(work));
  std::nth_element(all.begin(), all.begin() + count / 2, all.end());
  return all[static_cast<std::size_t>(count) / 2] * 1e6;
}

Call transfer(Bench& bench, CallKind kind, std::size_t bytes) {
  return kind == CallKind::kPut
             ? Call::transfer(kind, "put", bench.at(kDest), bench.at(kSource), bytes, 0, false)
             : Call::transfer(kind, "get", bench.at(kSource), bench.at(kDest), bytes, 0, false);
}

}  // namespace

std::string measure_latency(Bench& bench) {
  constexpr int kCount = 2001;
  Call add(CallKind::kAmo, "fetch_add", 0);
  add.dest = bench.at(kDest);
  add.op = device::AmoOp::kAdd;
  add.operand = 1;
  add.width = 8;
  const double put = median_of(kCount, [&] {
    bench.run(transfer(bench, CallKind::kPut, 8));
    bench.quiet();
  });
  const double get = median_of(kCount, [&] {
    bench.run(transfer(bench, CallKind::kGet, 8));
    bench.quiet();
  });
  const double atomic = median_of(kCount, [&] { bench.run(add); });
  return strprintf("8 bytes: put %.2f us, get %.2f us, fetch_add %.2f us", put, get, atomic);
}

std::string measure_rate(Bench& bench) {
  constexpr int kPuts = 100'000, kAtomics = 20'000;
  const double puts = seconds_of([&] {
    for (int i = 0; i < kPuts; ++i) bench.run(transfer(bench, CallKind::kPut, 64));
    bench.quiet();
  });
  Call signal(CallKind::kSignal, "signal", 0);
  signal.signal = reinterpret_cast<std::uint64_t*>(bench.at(kDest));
  signal.operand = 1;
  signal.op = device::AmoOp::kAdd;
  bench.store(kDest, Bytes(8));
  const double atomics = seconds_of([&] {
    for (int i = 0; i < kAtomics; ++i) bench.run(signal);
    bench.quiet();
  });
  std::uint64_t sum = 0;
  std::memcpy(&sum, bench.load(kDest, sizeof(sum)).data(), sizeof(sum));
  expect_word("the sum of all signals", sum, kAtomics, sizeof(sum));
  return strprintf("one queue: %.2f M puts of 64 bytes/s, %.2f M atomics/s", kPuts / puts * 1e-6,
                   kAtomics / atomics * 1e-6);
}

std::string measure_bandwidth(Bench& bench) {
  constexpr std::size_t kBytes = 1 << 20;
  constexpr int kCount = 200;
  const auto of = [&](CallKind kind) {
    return kCount * static_cast<double>(kBytes) * 1e-9 / seconds_of([&] {
             for (int i = 0; i < kCount; ++i) bench.run(transfer(bench, kind, kBytes));
             bench.quiet();
           });
  };
  const double put = of(CallKind::kPut), get = of(CallKind::kGet);
  return strprintf("1 MiB each: put %.2f GB/s, get %.2f GB/s", put, get);
}

}  // namespace gshmem::selftest
