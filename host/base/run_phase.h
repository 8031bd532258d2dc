// Runs the phases of init and of growth: each runs on every PE, and a failure on one PE fails on
// all, with its reason. Included by all code that makes something that all PEs must have.
#pragma once

#include "host/base/collectives.h"
#include "host/base/error.h"

#include <algorithm>
#include <cstring>
#include <vector>

namespace gshmem {

/// The result of a PE in a phase of init, as the other PEs read it.
struct PhaseReport {
  int code = GSHMEMX_SUCCESS;
  char reason[1000] = "";
};

/// A failure that all PEs know of, so no PE waits for another.
struct PhaseError : Error {
  using Error::Error;
};

/// Rates how likely a failure is the effect of another PE's failure.
inline int remoteness(int code) {
  return code == GSHMEMX_ERROR_PEER_FAILED ? 2 : code == GSHMEMX_ERROR_TIMEOUT ? 1 : 0;
}

/// Throws when the phase failed on any PE. It throws this PE's own error, unless that is only the
/// effect of another PE's error. The text of another PE's error begins with `failed`.
inline void check_reports(const std::vector<PhaseReport>& reports, int me,
                          const char* failed = "init failed") {
  const PhaseReport* cause = nullptr;
  const PhaseReport& mine = reports[static_cast<std::size_t>(me)];
  for (const PhaseReport& report : reports) {
    if (report.code == GSHMEMX_SUCCESS) continue;
    if (!cause || remoteness(report.code) < remoteness(cause->code)) cause = &report;
  }
  if (!cause) return;
  if (mine.code != GSHMEMX_SUCCESS && remoteness(mine.code) == remoteness(cause->code))
    throw PhaseError(static_cast<gshmemx_status>(mine.code), mine.reason);
  throw PhaseError(static_cast<gshmemx_status>(cause->code),
                   strprintf("%s on PE %td: %s", failed, cause - reports.data(), cause->reason));
}

/// Runs one phase on every PE; throws PhaseError on all of them when it failed on any (see
/// check_reports).
template <class Phase>
void run_phase(Collectives& ranks, const Phase& phase, const char* failed_text = "init failed") {
  PhaseReport mine;
  try {
    phase();
  } catch (const Error& error) {
    mine.code = error.code();
    std::strncpy(mine.reason, error.what(), sizeof(mine.reason) - 1);
  } catch (const std::exception& error) {
    mine.code = GSHMEMX_ERROR_INTERNAL;
    std::strncpy(mine.reason, error.what(), sizeof(mine.reason) - 1);
  }
  // Texts are exchanged only after a failure.
  const std::vector<int> codes = allgather(ranks, mine.code);
  const auto failed = [](int code) { return code != GSHMEMX_SUCCESS; };
  if (std::ranges::any_of(codes, failed))
    check_reports(allgather(ranks, mine), ranks.rank(), failed_text);
}

}  // namespace gshmem
