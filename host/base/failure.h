// The failure that ended a job early. It is kept so that every later call fails in the same way.
// Included by bootstraps and by the collectives of hosts.
#pragma once

#include "host/base/error.h"

#include <string>
#include <string_view>
#include <vector>

namespace gshmem {

struct JobFailure {
  gshmemx_status code = GSHMEMX_SUCCESS;
  std::string text;

  [[nodiscard]] explicit operator bool() const noexcept { return code != GSHMEMX_SUCCESS; }
  [[noreturn]] void raise(Where where = {}) const { throw Error(code, text, where); }
};

/// Returns for example "rank 3", "ranks 1, 4, 5", "ranks 0, 1, 2, 3, 4, 5, 6, 7 and 92 more".
[[nodiscard]] std::string rank_list(const std::vector<int>& ranks);

/// Makes for example "bootstrap allgather timed out after 2 s: rank 3 did not take part".
[[nodiscard]] JobFailure failure_timeout(std::string_view operation, double seconds,
                                         const std::vector<int>& missing);

}  // namespace gshmem
