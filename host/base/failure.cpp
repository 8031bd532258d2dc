#include "host/base/failure.h"

namespace gshmem {

std::string rank_list(const std::vector<int>& ranks) {
  constexpr std::size_t kShown = 8;
  std::string text = ranks.size() == 1 ? "rank" : "ranks";
  for (std::size_t i = 0; i < ranks.size() && i < kShown; ++i)
    text += (i == 0 ? " " : ", ") + std::to_string(ranks[i]);
  if (ranks.size() > kShown) text += " and " + std::to_string(ranks.size() - kShown) + " more";
  return text;
}

JobFailure failure_timeout(std::string_view operation, double seconds,
                           const std::vector<int>& missing) {
  return {GSHMEMX_ERROR_TIMEOUT,
          strprintf("bootstrap %.*s timed out after %g s (GSHMEM_BOOTSTRAP_TIMEOUT): %s did not "
                    "take part",
                    static_cast<int>(operation.size()), operation.data(), seconds,
                    missing.empty() ? "another rank" : rank_list(missing).c_str())};
}

}  // namespace gshmem
