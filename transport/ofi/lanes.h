// The NICs that a PE uses together ("lanes"): a libfabric endpoint for each, and memory that is
// registered with all of them. Lane i of a PE reaches lane i of the others, since fabrics are often
// wired in this way. Small transfers between two PEs always use the same lane; large ones are
// spread over all (rma.cpp). Invariant: all PEs of a job have the same number of lanes.
#pragma once

#include "transport/ofi/fabric.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

namespace gshmem::ofi {

inline constexpr std::size_t kMaxLanes = 8;

/// Access rights for the heap, and for registered memory.
inline constexpr std::uint64_t kHeapAccess = FI_READ | FI_WRITE | FI_REMOTE_READ | FI_REMOTE_WRITE;

/// A peer's address on one lane.
struct Way {
  fi_addr_t address = FI_ADDR_UNSPEC;
  std::uint64_t heap_key = 0, probe_key = 0;
};

/// A block of memory, registered with every lane.
struct LaneMemory {
  std::uint8_t* base = nullptr;
  std::uint64_t remote_base = 0;  ///< address of its first byte for peers
  std::array<void*, kMaxLanes> descriptors{};
  std::array<std::uint64_t, kMaxLanes> keys{};
  std::array<const fid_mr*, kMaxLanes> regions{};
};

class Lanes {
 public:
  explicit Lanes(std::vector<std::unique_ptr<Fabric>> fabrics) : fabrics_(std::move(fabrics)) {}

  [[nodiscard]] std::size_t count() const { return fabrics_.size(); }
  [[nodiscard]] Fabric& operator[](std::size_t lane) const { return *fabrics_[lane]; }
  /// Keeps the first `count` lanes. Do not call it after memory was registered with the others.
  void keep(std::size_t count) { fabrics_.resize(std::min(count, fabrics_.size())); }
  /// All lanes use one provider.
  [[nodiscard]] const Fabric& first() const { return *fabrics_.front(); }
  /// Returns the lane for small transfers and messages between two PEs. It differs between
  /// neighbours, so that the messages which all send to one PE use all of its lanes.
  [[nodiscard]] std::size_t between(int a, int b) const {
    return static_cast<std::size_t>(a + b) % count();
  }

  /// Errors: GSHMEMX_ERROR_NIC; then the memory is registered with no lane.
  [[nodiscard]] LaneMemory register_memory(const nic::Region& region, std::uint64_t access) {
    LaneMemory memory;
    try {
      for (std::size_t lane = 0; lane < count(); ++lane) {
        const Registered registered = fabrics_[lane]->register_memory(region, access);
        memory.base = registered.base;
        memory.remote_base = registered.remote_base;
        memory.descriptors[lane] = registered.descriptor;
        memory.keys[lane] = registered.key;
        memory.regions[lane] = registered.region;
      }
    } catch (...) {
      unregister_memory(memory);
      throw;
    }
    return memory;
  }
  void unregister_memory(const LaneMemory& memory) noexcept {
    for (std::size_t lane = 0; lane < count(); ++lane)
      fabrics_[lane]->unregister_memory(memory.regions[lane]);
  }
  bool poll() {
    bool any = false;
    for (const auto& fabric : fabrics_) any |= fabric->poll();
    return any;
  }
  void close() noexcept {
    for (const auto& fabric : fabrics_) fabric->close();
  }

 private:
  std::vector<std::unique_ptr<Fabric>> fabrics_;
};

}  // namespace gshmem::ofi
