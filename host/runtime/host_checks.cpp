#include "host/runtime/host_checks.h"

#include "host/base/error.h"
#include "host/base/log.h"
#include "host/runtime/pe.h"

#include <new>

namespace gshmem {

std::string no_team_text(const char* call, const char* argument) {
  return strprintf(
      "%s: argument %s is GSHMEM_TEAM_INVALID, of which no PE is a member; the call does nothing",
      call, argument);
}

void HostChecks::report_no_team(const char* call, const char* argument) noexcept {
  GSHMEM_LOG_LIMITED(LogLevel::kWarn, "%s", no_team_text(call, argument).c_str());
}

/// The state may be that of another PE, whose heap is not known here.
bool HostChecks::is_one_allocation(const abi::DeviceState& state, const char* call,
                                   const char* argument, const void* p,
                                   std::size_t bytes) noexcept {
  if (!allocations_ || state.heap != pe_.state().heap) return true;
  try {
    const std::string wrong = pe_.heap().complaint(p, bytes);
    if (wrong.empty()) return true;
    pe_.raise(Error(GSHMEMX_ERROR_INVALID_VALUE,
                    strprintf("%s: argument %s = %p (%zu bytes): %s (GSHMEM_CHECK)", call, argument,
                              p, bytes, wrong.c_str())));
  } catch (const std::bad_alloc&) {
    return true;
  }
  return false;
}

}  // namespace gshmem
