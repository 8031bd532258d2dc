// The NICs that a PE uses together ("rails"): a libfabric endpoint for each, and memory that is
// registered with all of them. Rail i of a PE reaches rail i of the others, since fabrics are often
// wired in this way. Small transfers between two PEs always use the same rail; large ones are
// spread over all (rma.cpp). Invariant: all PEs of a job have the same number of rails.
#pragma once

#include "transport/ofi/fabric.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

namespace gshmem::ofi {

inline constexpr std::size_t kMaxRails = 8;

/// Access rights for the heap, and for registered memory.
inline constexpr std::uint64_t kHeapAccess = FI_READ | FI_WRITE | FI_REMOTE_READ | FI_REMOTE_WRITE;
/// Access rights for local memory.
inline constexpr std::uint64_t kLocalAccess = FI_READ | FI_WRITE;

/// A peer's address on one rail.
struct Route {
  fi_addr_t address = FI_ADDR_UNSPEC;
  std::uint64_t heap_key = 0, probe_key = 0;
};

/// A block of memory, registered with every rail.
struct RailMemory {
  std::uint8_t* base = nullptr;
  std::uint64_t remote_base = 0;  ///< address of its first byte for peers
  std::array<void*, kMaxRails> descriptors{};
  std::array<std::uint64_t, kMaxRails> keys{};
  std::array<const fid_mr*, kMaxRails> regions{};
};

class OfiRails {
 public:
  explicit OfiRails(std::vector<std::unique_ptr<Fabric>> fabrics) : fabrics_(std::move(fabrics)) {}

  [[nodiscard]] std::size_t count() const { return fabrics_.size(); }
  [[nodiscard]] Fabric& operator[](std::size_t rail) const { return *fabrics_[rail]; }
  /// Keeps the first `count` rails. Do not call it after memory was registered with the others.
  void keep(std::size_t count) { fabrics_.resize(std::min(count, fabrics_.size())); }
  /// All rails use one provider.
  [[nodiscard]] const Fabric& first() const { return *fabrics_.front(); }
  /// Returns the rail for small transfers and messages between two PEs. It differs between
  /// consecutive PEs. So if all PEs send to one PE, their messages use all of its rails.
  [[nodiscard]] std::size_t between(int a, int b) const {
    return static_cast<std::size_t>(a + b) % count();
  }

  /// Errors: GSHMEMX_ERROR_NIC; then the memory is registered with no rail.
  [[nodiscard]] RailMemory register_memory(const nic::Region& region, std::uint64_t access) {
    RailMemory memory;
    try {
      for (std::size_t rail = 0; rail < count(); ++rail) {
        const Registered registered = fabrics_[rail]->register_memory(region, access);
        memory.base = registered.base;
        memory.remote_base = registered.remote_base;
        memory.descriptors[rail] = registered.descriptor;
        memory.keys[rail] = registered.key;
        memory.regions[rail] = registered.region;
      }
    } catch (...) {
      unregister_memory(memory);
      throw;
    }
    return memory;
  }
  void unregister_memory(const RailMemory& memory) noexcept {
    for (std::size_t rail = 0; rail < count(); ++rail)
      fabrics_[rail]->unregister_memory(memory.regions[rail]);
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
