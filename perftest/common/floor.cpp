#include "perftest/common/floor.h"

#include <algorithm>
#include <cstdio>

namespace perftest {
namespace {

struct Limits {
  Path path;
  double one_way_us, round_us;
  double bytes_per_us;  ///< in one direction; in CPU mode per thread
};

// kPeerGpu: between two H200s over NVLink a remote load takes 0.80 us, and a store that another GPU
// sees takes 0.74 us. The limits of 0.70 for a round trip and of half of that one way leave some
// room. An H200 has 18 NVLink 4 links of 25 GB/s per direction (NVIDIA H100 whitepaper,
// "Fourth-Generation NVLink"): 450 GB/s raw, of which data gets at most 82 %. The limit is 5 %
// higher for the error of the clock. GPUs on PCIe are slower in every respect, so the limits hold
// for them, too.
// kSameGpu: an L2 hit takes over 200 cycles of at most 1.98 GHz, a hit in the far half more; L2
//   moves less than 128 bytes per cycle and SM: 132 * 128 * 1.98 GHz = 33 TB/s.
// kHost: with one PE per core or less nothing crosses a wire, so only the limits of a core count.
// No x86 core stores more than 64 bytes per cycle (AVX-512) of at most 6 GHz, and an operation with
// its fence takes more than a few cycles.
// kNetwork: at least one cache line goes from the poster to the consumer and one comes back, which
//   takes longer than 50 ns between cores, and no consumer is faster than 800 Gb/s.
constexpr Limits kLimits[] = {
    {Path::kPeerGpu, 0.35, 0.70, 450e3 * 1.05},
    {Path::kSameGpu, 0.05, 0.10, 33e6},
    {Path::kHost, 0.0005, 0.001, 400e3},
    {Path::kNetwork, 0.05, 0.10, 100e3},
};

const Limits& limits_of(Path path) {
  return *std::find_if(std::begin(kLimits), std::end(kLimits),
                       [&](const Limits& limits) { return limits.path == path; });
}

}  // namespace

const char* path_name(Path path) {
  switch (path) {
    case Path::kPeerGpu:
      return "peer GPU";
    case Path::kSameGpu:
      return "same GPU";
    case Path::kHost:
      return "shared host memory";
    case Path::kNetwork:
      return "network";
  }
  return "";
}

double floor_us(const Claim& claim) {
  const Limits& limits = limits_of(claim.path);
  const double bandwidth =
      limits.bytes_per_us * (claim.path == Path::kHost ? std::max(1u, claim.senders) : 1u);
  const double wire = static_cast<double>(claim.bytes) / bandwidth;
  switch (claim.trip) {
    case Trip::kOneWay:
      return std::max(limits.one_way_us, wire);
    case Trip::kRound:
      return std::max(limits.round_us, wire);
    case Trip::kStream:
      break;
  }
  return wire;
}

std::optional<std::string> below_floor(const Claim& claim) {
  const double least = floor_us(claim);
  // The comparison is not "<", so that a NaN is refused, too. A time of zero is always impossible.
  if (claim.us > 0 && claim.us + claim.clock_error_us >= least) return std::nullopt;
  char text[200];
  std::snprintf(text, sizeof(text),
                "FAIL: below the physical floor: %.6g us for an operation of %zu bytes, but on the "
                "path '%s' it takes at least %.6g us",
                claim.us, claim.bytes, path_name(claim.path), least);
  return text;
}

}  // namespace perftest
