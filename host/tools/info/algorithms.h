// Finds the algorithm of each collective between all PEs, by operation, scope and bytes. Invariant:
// no limit is known here. Sizes are tried with the function by which calls choose
// (device/collective/collective.h, algorithm_of), and variables by the effect of another value.
#pragma once

#include "host/runtime/teams.h"

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace gshmem::info {

/// A range of bytes that one member puts to another, and the algorithm for it.
struct AlgorithmRange {
  std::uint64_t from, to;  ///< to: 0 = no upper limit
  std::string_view algorithm;
  /// The variables that change `to`; if there is only one range, those that would make another.
  std::vector<std::string_view> moved_by;
  bool operator==(const AlgorithmRange&) const = default;
};
struct AlgorithmRow {
  std::string_view operation;
  std::vector<std::string_view> scopes;
  std::vector<AlgorithmRange> ranges;
};
struct Algorithms {
  abi::Team team;  ///< of all PEs
  std::vector<AlgorithmRow> rows;
  int flat_members;  ///< syncs and barriers of more members than this use rounds
  [[nodiscard]] std::string topology() const;
  [[nodiscard]] std::string_view sync() const { return team.flat != 0 ? "flat" : "dissemination"; }
};

/// All PEs get the same result.
[[nodiscard]] Algorithms algorithms(const Teams& teams, bool on_gpu);

}  // namespace gshmem::info
