// Memory regions by key. A key is index << 8 | tag. The tag changes each time an index is reused,
// and an index is reused as late as possible. So a stale key fails. Guarded by the engine's lock.
#pragma once

#include "transport/softnic/engine.h"
#include "transport/softnic/memory.h"

#include <cstdint>
#include <unordered_map>

namespace gshmem::soft {

struct Region {
  std::uint32_t key = 0, pd = 0, access = 0;
  std::uint8_t* base = nullptr;
  std::uint64_t bytes = 0, iova = 0;
  MemoryAccess* memory = nullptr;

  /// Returns the address of a byte that RegionTable::check has found inside of the region.
  [[nodiscard]] std::uint8_t* at(std::uint64_t address) const { return base + (address - iova); }
};

class RegionTable {
 public:
  /// Sets the fabric node whose numbers are used. Call it only while the table is empty.
  void set_node(std::uint32_t node) { node_ = node; }

  /// Errors: EngineError 0x3, also for REMOTE_WRITE or REMOTE_ATOMIC without LOCAL_WRITE, which
  /// ibv_reg_mr(3) refuses.
  [[nodiscard]] std::uint32_t create(const RegionAttributes& attributes);
  /// Errors: EngineError 0x5.
  void destroy(std::uint32_t key);
  [[nodiscard]] bool empty() const { return regions_.empty(); }
  [[nodiscard]] bool uses(std::uint32_t pd) const;

  /// Returns the region, if [address, address + bytes) is in it and `rights` (Access bits) are
  /// allowed. Otherwise returns null, and `*why` has the reason. For 0 bytes the range is not
  /// checked.
  [[nodiscard]] const Region* check(std::uint32_t key, std::uint32_t pd, std::uint32_t rights,
                                    std::uint64_t address, std::uint64_t bytes,
                                    const char** why) const;

 private:
  std::uint32_t node_ = 0, next_ = 0, generation_ = 0;
  std::unordered_map<std::uint32_t, Region> regions_;
};

}  // namespace gshmem::soft
