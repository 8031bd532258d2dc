#include "host/runtime/host_checks.h"

#include "host/base/error.h"
#include "host/base/log.h"

namespace gshmem {

std::string no_team_text(const char* call, const char* argument) {
  return strprintf(
      "%s: argument %s is GSHMEM_TEAM_INVALID, of which no PE is a member; the call does nothing",
      call, argument);
}

void HostChecks::tell_no_team(const char* call, const char* argument) noexcept {
  GSHMEM_LOG_LIMITED(LogLevel::kWarn, "%s", no_team_text(call, argument).c_str());
}

}  // namespace gshmem
