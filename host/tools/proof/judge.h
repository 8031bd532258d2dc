// The verdict of gshmem-info --gdr-proof, as a pure function of figures and findings. Included by
// prove.cpp and the tests, which give it tables.
#pragma once

#include "host/tools/proof/proof.h"

namespace gshmem::proof {

/// The criteria: bandwidth rises by 30 % or reaches 80 % of the link, latency falls by 50 %, the
/// link is used to 60 %, and moving bytes takes less CPU time than before.
inline constexpr double kGain = 1.3, kDrop = 0.5, kFullShare = 0.8, kLeastShare = 0.6,
                        kCpuDrop = 0.9;

/// Signs that a measurement shows when it has failed. They can be combined.
enum Sign : unsigned { kNoStart = 1, kSlow = 2, kLate = 4, kCpu = 8 };

/// Without figures for "off" the share of the link alone decides, if it is high or low enough.
[[nodiscard]] Judgement judge(const Comparison& gdr, const Place& place);
/// Returns what load/store ("on") brings against staging ("off"); empty if either has no figures.
[[nodiscard]] std::string load_store_text(const Comparison& p2p);
/// Returns the first row of troubles.def that fits; nothing if none does.
[[nodiscard]] std::optional<Cause> most_likely(unsigned signs, const Place& place,
                                               const std::string& figures);
/// Returns the names of the doctor's checks in the table, each once.
[[nodiscard]] std::vector<std::string> checks_of_troubles();

}  // namespace gshmem::proof
