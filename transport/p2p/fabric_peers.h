// Fabric handles: 64 bytes by which a PE of another host maps a heap over NVLink switches
// (multi-node NVLink, IMEX). This file has the data that PEs exchange about theirs, and decides
// which PEs try each other's handles. Pure except for the exchange; included by the window of GPU
// heaps and by the runtime. Invariant: from the same offers all PEs compute the same domains and
// components, so that all make the same collective calls.
#pragma once

#include "host/base/collectives.h"
#include "host/base/error.h"
#include "host/base/nvml.h"

#include <array>
#include <cstdint>
#include <string>
#include <vector>

namespace gshmem::p2p {

/// GSHMEM_FABRIC: never; between GPUs that NVML places in one fabric; between all that can.
enum class FabricUse { kOff, kAuto, kOn };

/// The bytes of a CUmemFabricHandle.
using FabricHandle = std::array<std::uint8_t, 64>;

/// The message of a PE to all others about its heap.
struct FabricOffer {
  enum class State : std::int32_t { kNone, kHandle, kFailed };
  State state = State::kNone;
  std::int32_t code = 0;         ///< kFailed: code of the error that ends init
  std::uint64_t heap_bytes = 0;  ///< size of the mapping
  FabricHandle handle{};
  std::array<std::uint8_t, 16> cluster{};  ///< zero: unknown
  std::uint32_t clique = 0;
  char why[156] = "";  ///< why there is no handle

  void set_why(const std::string& reason);
};
static_assert(sizeof(FabricOffer) == 256);

/// Collective over the job: returns the offers of all PEs. Errors: throws on every PE when one has
/// failed. A PE whose own offer (`mine`) is kFailed throws its own error; the others throw that of
/// the first such PE, with its number.
[[nodiscard]] std::vector<FabricOffer> exchange_offers(Collectives& boot, const FabricOffer& mine);

/// Returns the domain of each PE: the PEs of one domain try each other's handles; -1 = has no
/// handle.
[[nodiscard]] std::vector<int> fabric_domains(const std::vector<FabricOffer>& offers,
                                              FabricUse use);

/// Returns the component of each PE. PEs that share a local group or a domain are in one component,
/// so a PE can share memory only within its component, directly or through others.
[[nodiscard]] std::vector<int> components(const std::vector<int>& local_groups,
                                          const std::vector<int>& domains);

/// Returns the PEs with this number, ascending; and the size of the largest group.
[[nodiscard]] std::vector<int> members(const std::vector<int>& numbers, int number);
[[nodiscard]] std::size_t largest(const std::vector<int>& numbers);

}  // namespace gshmem::p2p
