// Physical floors: what no correct measurement can beat. A result below its floor means that the
// benchmark is wrong (it did not wait, or hit a cache). So it is an error and not a number.
#pragma once

#include <cstddef>
#include <optional>
#include <string>

namespace perftest {

/// Where two PEs meet.
enum class Path {
  kPeerGpu,  ///< memory of another GPU, over NVLink or PCIe
  kSameGpu,  ///< memory of the GPU that runs the kernel
  kHost,     ///< CPU mode: memory that host threads share
  kNetwork   ///< some PE is not mapped: work queues of any consumer
};
[[nodiscard]] const char* path_name(Path path);

/// How often a measured operation must cross the path at least.
enum class Trip {
  kOneWay,  ///< barrier, sync: a message from every PE
  kRound,   ///< get, g, fetching atomics, put + quiet, ping-pongs
  kStream   ///< bandwidth and rate: many in flight, only the bytes count
};

/// One result, as little of it as the laws of nature need.
struct Claim {
  Path path = Path::kHost;
  Trip trip = Trip::kStream;
  double us = 0;              ///< time of one operation
  double clock_error_us = 0;  ///< by how much the clock may have shortened it
  std::size_t bytes = 0;      ///< that cross the path in one direction in one operation
  unsigned senders = 1;       ///< threads that copy at once (CPU mode)
};

/// Least time that the operation of `claim` can take.
[[nodiscard]] double floor_us(const Claim& claim);
/// Why the claim is impossible, as one line; nothing if it is possible.
[[nodiscard]] std::optional<std::string> below_floor(const Claim& claim);

}  // namespace perftest
