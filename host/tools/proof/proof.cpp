#include "host/tools/proof/proof.h"

#include "host/base/error.h"

#include <algorithm>
#include <cmath>

namespace gshmem::proof {
namespace {

double median_of(const Figures& figures) { return spread(figures.values).median; }

}  // namespace

Spread spread(std::vector<double> values) {
  if (values.empty()) return {};
  std::ranges::sort(values);
  const std::size_t half = values.size() / 2;
  const double median =
      values.size() % 2 != 0 ? values[half] : (values[half - 1] + values[half]) / 2;
  return {median, values.front(), values.back()};
}

const Series* Comparison::find(Quantity quantity, Caller by, std::size_t bytes) const {
  const auto found = std::ranges::find_if(series, [&](const Series& each) {
    return each.quantity == quantity && each.caller == by && each.bytes == bytes;
  });
  return found == series.end() ? nullptr : &*found;
}

const Series* Comparison::fastest() const {
  const Series* best = nullptr;
  const auto speed = [](const Series& each) {
    return std::max(median_of(each.on), median_of(each.off));
  };
  for (const Series& each : series) {
    if (each.quantity != Quantity::kBandwidth || each.caller != caller()) continue;
    if (best == nullptr || speed(each) > speed(*best)) best = &each;
  }
  return best;
}

Caller Comparison::caller() const {
  const bool by_gpu =
      std::ranges::any_of(series, [](const Series& each) { return each.caller == Caller::kGpu; });
  return by_gpu ? Caller::kGpu : Caller::kHost;
}

std::string title_of(Quantity quantity) {
  constexpr const char* kTitles[] = {"latency, us",        "bandwidth, GB/s", "rate, M/s",
                                     "load of a word, us", "staged put, us",  "one pair, GB/s",
                                     "all pairs, GB/s"};
  return kTitles[static_cast<std::size_t>(quantity)];
}

std::string_view caller_name(Caller caller) { return caller == Caller::kGpu ? "GPU" : "host"; }

std::string pairs_title(const Comparison& all_pairs) {
  return strprintf("All %d pairs at once", all_pairs.pairs);
}

std::string threads_text(const Comparison& comparison) {
  if (comparison.caller() != Caller::kGpu) return "";
  if (comparison.blocks == 0) return "one calls";
  return strprintf("one calls; those of %d blocks move each message of a bandwidth",
                   comparison.blocks);
}

std::string digits(double value) {
  if (value == 0) return "0";
  const int before = static_cast<int>(std::floor(std::log10(std::abs(value)))) + 1;
  return strprintf("%.*f", std::clamp(3 - before, 0, 9), value);
}

std::string change_text(double off, double on) {
  if (off <= 0 || on <= 0) return "";
  if (on >= 10 * off) return digits(on / off) + " times";
  return strprintf("%+.0f %%", (on / off - 1) * 100);
}

}  // namespace gshmem::proof
