#include "transport/softnic/regions.h"

#include "host/base/error.h"
#include "transport/softnic/atomic_words.h"
#include "transport/softnic/fabric.h"

#include <limits>

namespace gshmem::soft {
namespace {

constexpr std::uint32_t kIndices = (1u << kLocalBits) - 1;  // index 0 is not used

}  // namespace

std::uint32_t RegionTable::create(const RegionAttributes& attributes) {
  const auto address = reinterpret_cast<std::uintptr_t>(attributes.address);
  constexpr std::uint64_t kMax = std::numeric_limits<std::uint64_t>::max();
  if (attributes.bytes > kMax - address || attributes.bytes > kMax - attributes.iova) {
    throw EngineError{0x3, "the region wraps around the address space"};
  }
  if ((attributes.access & (kRemoteWrite | kRemoteAtomic)) && !(attributes.access & kLocalWrite)) {
    throw EngineError{0x3, "remote write or atomic access needs local write access"};
  }
  if (regions_.size() >= kIndices) throw EngineError{0xf, "no key is free"};

  Region region;
  region.pd = attributes.pd;
  region.access = attributes.access;
  region.base = static_cast<std::uint8_t*>(attributes.address);
  region.bytes = attributes.bytes;
  region.iova = attributes.iova;
  region.memory = attributes.memory;
  try {
    if (region.memory == nullptr) region.memory = gpu_memory(attributes.address);
  } catch (const Error& error) {
    throw EngineError{0xf, error.what()};
  }
  if (region.memory == nullptr) region.memory = &host_memory();
  // The tag counts how often all indices have been used. So two keys are equal only after 256 *
  // kIndices registrations.
  do {
    if (next_ == kIndices) next_ = 0, ++generation_;
    ++next_;
    const std::uint32_t index = node_ << kLocalBits | next_;
    region.key = index << 8 | ((generation_ + 0x11) & 0xff);
  } while (regions_.count(region.key) != 0);
  regions_.emplace(region.key, region);
  return region.key;
}

void RegionTable::destroy(std::uint32_t key) {
  const auto found = regions_.find(key);
  if (found == regions_.end()) throw EngineError{0x5, strprintf("no region has key 0x%x", key)};
  // After this nothing is stored, as the caller expects. A failure has been logged.
  static_cast<void>(found->second.memory->flush());
  AtomicWords::of_process().forget(found->second.base, found->second.bytes);
  regions_.erase(found);
}

bool RegionTable::uses(std::uint32_t pd) const {
  for (const auto& [key, region] : regions_) {
    if (region.pd == pd) return true;
  }
  return false;
}

const Region* RegionTable::check(std::uint32_t key, std::uint32_t pd, std::uint32_t rights,
                                 std::uint64_t address, std::uint64_t bytes,
                                 const char** why) const {
  const auto found = regions_.find(key);
  if (found == regions_.end()) {
    *why = "no region has this key";
    return nullptr;
  }
  const Region& region = found->second;
  if (region.pd != pd) {
    *why = "the region belongs to another protection domain";
    return nullptr;
  }
  if ((region.access & rights) != rights) {
    *why = "the region does not allow this access";
    return nullptr;
  }
  if (bytes > 0 && (address < region.iova || bytes > region.bytes ||
                    address - region.iova > region.bytes - bytes)) {
    *why = "outside of the region";
    return nullptr;
  }
  return &region;
}

}  // namespace gshmem::soft
