// Which algorithm the collectives between all PEs take, by operation, scope and bytes. Invariant:
// no bound is known here. Sizes are tried on the function that calls choose by
// (device/collective/collective.h, algorithm_of), and variables by what another value of theirs
// changes.
#pragma once

#include "host/runtime/teams.h"

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace gshmem::info {

/// Bytes that one member gives to another one, and how they are given.
struct AlgorithmRange {
  std::uint64_t from, to;  ///< to: 0 = without end
  std::string_view algorithm;
  /// Variables that move `to`; of a range that is all there is, those by which it would not be.
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
  int flat_members;  ///< syncs and barriers of more than these go in rounds
  [[nodiscard]] std::string topology() const;
  [[nodiscard]] std::string_view sync() const { return team.flat != 0 ? "flat" : "dissemination"; }
};

/// All PEs come to one answer.
[[nodiscard]] Algorithms algorithms(const Teams& teams, bool on_gpu);

}  // namespace gshmem::info
