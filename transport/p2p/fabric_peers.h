// Fabric handles: 64 bytes by which a PE of another host maps a heap over NVLink switches
// (multi-node NVLink, IMEX). What PEs tell each other about theirs, and who is to try whom. Pure
// but for the exchange; included by the window of GPU heaps and by the runtime. Invariant: from the
// same offers all PEs compute the same domains and components, so that all take the same collective
// steps.
#pragma once

#include "host/base/collectives.h"
#include "host/base/error.h"
#include "host/base/nvml.h"

#include <array>
#include <cstdint>
#include <string>
#include <vector>

namespace gshmem::p2p {

/// GSHMEM_FABRIC: not at all; between GPUs that NVML places in one fabric; between all that can.
enum class FabricUse { kOff, kAuto, kOn };

/// CUmemFabricHandle.
using FabricHandle = std::array<std::uint8_t, 64>;

/// The message of a PE to all others about its heap.
struct FabricOffer {
  enum class State : std::int32_t { kNone, kHandle, kFailed };
  State state = State::kNone;
  std::int32_t code = 0;         ///< of the error that ends init: kFailed
  std::uint64_t heap_bytes = 0;  ///< as mapped
  FabricHandle handle{};
  std::array<std::uint8_t, 16> cluster{};  ///< zero: not known
  std::uint32_t clique = 0;
  char why[156] = "";  ///< there is no handle

  void set_why(const std::string& reason);
};
static_assert(sizeof(FabricOffer) == 256);

/// Collective over the job: the offers of all PEs. Errors: on every PE when one has failed, its own
/// where it is this one (`mine` is kFailed), else the first one's with its number.
[[nodiscard]] std::vector<FabricOffer> exchange_offers(Collectives& boot, const FabricOffer& mine);

/// Indexed by PE: the number of its domain, the PEs that try each other's handles; -1 = has no
/// handle.
[[nodiscard]] std::vector<int> fabric_domains(const std::vector<FabricOffer>& offers,
                                              FabricUse use);

/// Indexed by PE: the number of the part of the job that it may share memory with at all, directly
/// or through others: PEs that share a local group or a domain are in one component.
[[nodiscard]] std::vector<int> components(const std::vector<int>& local_groups,
                                          const std::vector<int>& domains);

/// The PEs with this number, ascending; and how many PEs have the most frequent one.
[[nodiscard]] std::vector<int> members(const std::vector<int>& numbers, int number);
[[nodiscard]] std::size_t largest(const std::vector<int>& numbers);

}  // namespace gshmem::p2p
