// Checks of calls by a PE's host threads that only the library can make. The device code that
// programs have compiled asks for them. Included by Pe, which owns one.
#pragma once

#include <gshmem/device/core/host_block.h>

#include <string>

namespace gshmem {

/// The text of a call that was given GSHMEM_TEAM_INVALID, an answer of other calls.
[[nodiscard]] std::string no_team_text(const char* call, const char* argument);

class HostChecks final : public device::HostChecks {
 public:
  void tell_no_team(const char* call, const char* argument) noexcept override;
};

}  // namespace gshmem
