// Checks of calls by a PE's host threads that only the library can make. Device code that is
// compiled into programs calls them. Included by Pe, which owns one.
#pragma once

#include <gshmem/device/core/host_block.h>

#include <string>

namespace gshmem {

/// Returns the text for a call with GSHMEM_TEAM_INVALID, which is a valid result of other calls.
[[nodiscard]] std::string no_team_text(const char* call, const char* argument);

class HostChecks final : public device::HostChecks {
 public:
  void tell_no_team(const char* call, const char* argument) noexcept override;
};

}  // namespace gshmem
