#include "host/tools/proof/judge.h"

#include "host/base/error.h"

#include <algorithm>

namespace gshmem::proof {
namespace {

using Met = Criterion::Met;
using info::Verdict;

struct Trouble {
  const char *name, *check;
  Verdict least;
  unsigned signs;
  const char *title, *mend;
};
constexpr Trouble kTroubles[] = {
#define GSHMEM_TROUBLE(name, check, least, signs, title, mend) \
  {#name, #check, Verdict::least, signs, title, mend},
#include "host/tools/proof/troubles.def"
};

Met met(bool yes) { return yes ? Met::kYes : Met::kNo; }

/// The medians of a series that was measured on both sides.
struct Pair {
  double off = 0, on = 0;
  [[nodiscard]] bool known() const { return off > 0 && on > 0; }
};
Pair values_of(const Series* series) {
  if (series == nullptr) return {};
  return {spread(series->off.values).median, spread(series->on.values).median};
}
Pair cpu_of(const Series* series) {
  if (series == nullptr) return {};
  return {spread(series->off.cpu).median, spread(series->on.cpu).median};
}

std::string size_text(const Series* series) {
  return series == nullptr ? "" : std::string(" of ") + size_in_units(series->bytes);
}

Criterion bandwidth(const Series* series, double share) {
  const Pair value = values_of(series);
  Criterion criterion{
      "bandwidth", "not measured on both sides",
      strprintf("+%.0f %%, or %.0f %% of the link", (kGain - 1) * 100, kFullShare * 100)};
  if (!value.known()) return criterion;
  criterion.measured = change_text(value.off, value.on) + size_text(series);
  criterion.met = met(value.on >= kGain * value.off || share >= kFullShare);
  return criterion;
}

Criterion share_of_link(double share, const Place& place) {
  Criterion criterion{"share of the link", "the rate of the link is unknown",
                      strprintf("%.0f %%", kLeastShare * 100)};
  if (share <= 0) return criterion;
  criterion.measured = strprintf("%.0f %% of %s GB/s (%s)", share * 100,
                                 digits(place.link_gb_s).c_str(), place.link.c_str());
  criterion.met = met(share >= kLeastShare);
  return criterion;
}

/// Makes a criterion: a figure of `series` must be at most `most` times its value on the side
/// "off".
Criterion drop(const char* name, const Pair& value, const Series* series, double most) {
  Criterion criterion{name, "not measured on both sides", strprintf("-%.0f %%", (1 - most) * 100)};
  if (!value.known()) return criterion;
  criterion.measured = change_text(value.off, value.on) + size_text(series);
  criterion.met = met(value.on <= most * value.off);
  return criterion;
}

const Series* shortest(const Comparison& gdr) {
  const auto found = std::ranges::find_if(gdr.series, [&](const Series& each) {
    return each.quantity == Quantity::kLatency && each.caller == gdr.caller();
  });
  return found == gdr.series.end() ? nullptr : &*found;
}

std::string figures_of(const std::vector<Criterion>& criteria) {
  std::string text;
  for (const Criterion& each : criteria) {
    if (each.met != Met::kNo) continue;
    text += (text.empty() ? "" : "; ") + each.name + " " + each.measured;
  }
  return text;
}

bool matches(const Trouble& row, const Evidence& evidence) {
  const Verdict verdict = evidence.finding.verdict;
  return evidence.check == row.check &&
         (verdict == Verdict::kProblem || (verdict == Verdict::kHint && row.least == verdict));
}

Judgement without_a_job(const Comparison& gdr, const Place& place) {
  Judgement judgement;
  const std::string error = gdr.on.error.empty() ? "no job has started" : gdr.on.error;
  // If neither side starts, GPUDirect RDMA is not the reason.
  const bool neither = gdr.on.error == gdr.off.error;
  if (!neither) judgement.cause = most_likely(kNoStart, place, error);
  judgement.outcome = judgement.cause ? Outcome::kFails : Outcome::kUnknown;
  judgement.sentence = (judgement.cause ? "GPUDirect RDMA does not work: "
                        : neither       ? "GPUDirect RDMA could not be measured, nor could off: "
                                        : "GPUDirect RDMA could not be measured: ") +
                       error;
  return judgement;
}

/// Judges without figures for "off". There is no comparison, but the result is clear if the link is
/// almost fully used, or hardly used.
void judge_alone(Judgement& judgement, double share, const Leg& off, const Place& place) {
  if (share >= kFullShare) {
    judgement.outcome = Outcome::kWorks;
    judgement.sentence = "GPUDirect RDMA works, by the share of the link alone";
  } else if (share > 0 && share < kLeastShare) {
    judgement.outcome = Outcome::kFails;
    judgement.sentence =
        "GPUDirect RDMA does not work as it should, by the share of the link alone";
    judgement.cause = most_likely(kSlow, place, figures_of(judgement.criteria));
  } else {
    judgement.sentence = "GPUDirect RDMA cannot be judged";
    if (share <= 0) judgement.sentence += ": the rate of the link is unknown";
  }
  judgement.sentence += "; off was not measured: " + off.error;
}

/// Returns for example "; not judged: latency".
std::string unknown_text(const std::vector<Criterion>& criteria) {
  std::vector<std::string> names;
  for (const Criterion& each : criteria)
    if (each.met == Met::kUnknown) names.push_back(each.name + " (" + each.measured + ")");
  return names.empty() ? "" : "; not judged: " + info::joined(names);
}

}  // namespace

std::vector<std::string> checks_of_troubles() {
  std::vector<std::string> names;
  for (const Trouble& row : kTroubles) {
    if (row.mend[0] == '\0' && std::ranges::find(names, row.check) == names.end())
      names.emplace_back(row.check);
  }
  return names;
}

std::optional<Cause> most_likely(unsigned signs, const Place& place, const std::string& figures) {
  for (const Trouble& row : kTroubles) {
    if ((row.signs & signs) == 0) continue;
    if (row.mend[0] != '\0') return Cause{row.name, row.title, figures, row.mend};
    const auto found = std::ranges::find_if(
        place.evidence, [&](const Evidence& each) { return matches(row, each); });
    if (found == place.evidence.end()) continue;
    const info::Finding& finding = found->finding;
    return Cause{row.name, row.title, finding.text + ": " + finding.cause, finding.fix};
  }
  return {};
}

std::string load_store_text(const Comparison& p2p) {
  const Series *const most = p2p.fastest(), *const least = shortest(p2p);
  const Pair moved = values_of(most), took = values_of(least);
  if (!moved.known() || !took.known()) return "";
  const auto change = [](const Pair& pair) { return change_text(pair.off, pair.on); };
  return strprintf(
      "load/store moves messages%s at %s GB/s, staging at %s (%s); a put%s takes %s us, "
      "staged %s (%s)",
      size_text(most).c_str(), digits(moved.on).c_str(), digits(moved.off).c_str(),
      change(moved).c_str(), size_text(least).c_str(), digits(took.on).c_str(),
      digits(took.off).c_str(), change(took).c_str());
}

Judgement judge(const Comparison& gdr, const Place& place) {
  if (!gdr.on.good()) return without_a_job(gdr, place);
  const Series* const fastest = gdr.fastest();
  const Series* const least = shortest(gdr);
  const double share = place.link_gb_s > 0 ? values_of(fastest).on / place.link_gb_s : 0;
  Judgement judgement;
  judgement.criteria = {bandwidth(fastest, share), share_of_link(share, place),
                        drop("latency", values_of(least), least, kDrop),
                        drop("CPU seconds per GB", cpu_of(fastest), fastest, kCpuDrop)};
  if (!gdr.off.good()) {
    judge_alone(judgement, share, gdr.off, place);
    return judgement;
  }
  constexpr unsigned kSigns[] = {kSlow, kSlow, kLate, kCpu};
  unsigned signs = 0;
  for (std::size_t i = 0; i < std::size(kSigns); ++i)
    if (judgement.criteria[i].met == Met::kNo) signs |= kSigns[i];
  judgement.outcome = signs == 0 ? Outcome::kWorks : Outcome::kFails;
  judgement.sentence =
      (signs == 0 ? "GPUDirect RDMA works" : "GPUDirect RDMA does not work as it should") +
      unknown_text(judgement.criteria) + ".";
  if (signs != 0) judgement.cause = most_likely(signs, place, figures_of(judgement.criteria));
  return judgement;
}

}  // namespace gshmem::proof
