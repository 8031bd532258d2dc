// Physical floors: no correct measurement can be faster. A result below its floor means that the
// benchmark is wrong (it did not wait, or read from a cache). So it is an error, and is not printed
// as a number.
#pragma once

#include <cstddef>
#include <optional>
#include <string>

namespace perftest {

/// The path between two PEs.
enum class Path {
  kPeerGpu,  ///< memory of another GPU, over NVLink or PCIe
  kSameGpu,  ///< memory of the GPU that runs the kernel
  kHost,     ///< CPU mode: memory that host threads share
  kNetwork   ///< some PE is not mapped: work queues with any consumer
};
[[nodiscard]] const char* path_name(Path path);

/// How often a measured operation must cross the path at least.
enum class Trip {
  kOneWay,  ///< barrier, sync: a message from every PE
  kRound,   ///< get, g, fetching atomics, put + quiet, ping-pongs
  kStream   ///< bandwidth and rate: many are in flight, only the bytes count
};

/// One result, with the facts that its floor depends on.
struct Claim {
  Path path = Path::kHost;
  Trip trip = Trip::kStream;
  double us = 0;              ///< time of one operation
  double clock_error_us = 0;  ///< error of the clock that may have shortened the time
  std::size_t bytes = 0;      ///< bytes that cross the path in one direction in one operation
  unsigned senders = 1;       ///< threads that copy at once (CPU mode)
};

/// Returns the least time that the operation of `claim` can take.
[[nodiscard]] double floor_us(const Claim& claim);
/// Returns why the claim is impossible, as one line; nothing if it is possible.
[[nodiscard]] std::optional<std::string> below_floor(const Claim& claim);

}  // namespace perftest
