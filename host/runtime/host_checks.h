// Checks of calls by a PE's host threads that only the library can make. Device code that is
// compiled into programs calls them. Included by Pe, which owns one.
#pragma once

#include <gshmem/device/core/host_block.h>

#include <string>

namespace gshmem {

class Pe;

/// Returns the text for a call with GSHMEM_TEAM_INVALID, which is a valid result of other calls.
[[nodiscard]] std::string no_team_text(const char* call, const char* argument);

class HostChecks final : public device::HostChecks {
 public:
  explicit HostChecks(Pe& pe) : pe_(pe) {}
  /// Enables the checks of allocations (GSHMEM_CHECK).
  void check_allocations() noexcept { allocations_ = true; }

  void report_no_team(const char* call, const char* argument) noexcept override;
  bool is_one_allocation(const abi::DeviceState& state, const char* call, const char* argument,
                         const void* p, std::size_t bytes) noexcept override;
  bool looks_at_allocations() const noexcept override { return allocations_; }

 private:
  Pe& pe_;
  bool allocations_ = false;
};

}  // namespace gshmem
