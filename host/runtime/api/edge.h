// The C edge: every extern "C" body of the library is one guard. It maps exceptions to a status, or
// to a recorded fault if the call returns none.
#pragma once

#include "host/base/error.h"
#include "host/base/log.h"
#include "host/runtime/process.h"

#include <new>

namespace gshmem {

/// Throws an error that names the argument when it is null.
inline void require_not_null(const char* call, const char* argument, const void* value) {
  require(value != nullptr, GSHMEMX_ERROR_INVALID_VALUE,
          strprintf("%s: argument %s is null", call, argument));
}

/// Logs where an error was detected, for developers of the library (GSHMEM_LOG=debug).
inline void log_where(const Error& error) {
  GSHMEM_DEBUG("detected at %s:%d: %s", error.where().file, error.where().line, error.what());
}

/// For calls that return a status: runs `body`, and logs its error.
template <class Body>
[[nodiscard]] int guard_status(const Body& body) noexcept {
  try {
    body();
    return GSHMEMX_SUCCESS;
  } catch (const Answer& answer) {
    GSHMEM_WARN("%s", answer.what());
    return answer.code();
  } catch (const Error& error) {
    log_where(error);
    GSHMEM_ERROR("%s", error.what());
    return error.code();
  } catch (const std::bad_alloc&) {
    return GSHMEMX_ERROR_OUT_OF_MEMORY;
  } catch (const std::exception& error) {
    GSHMEM_ERROR("%s", error.what());
    return GSHMEMX_ERROR_INTERNAL;
  }
}

/// For calls without a status: runs `body(pe)` for the calling thread's PE. A failure becomes the
/// PE's fault (GSHMEM_FAULT decides what follows) and `otherwise` is returned.
template <class Result, class Body>
[[nodiscard]] Result guard_value(const char* call, Result otherwise, const Body& body) noexcept {
  Pe* pe = current_pe();
  // The call comes from a destructor of a process that ends.
  if (process_departed()) return otherwise;
  if (!pe) {
    GSHMEM_ERROR("%s", no_pe_text(call).c_str());
    // A forked child may end and run destructors that it has inherited from its parent.
    if (process_forked_from().pe >= 0) return otherwise;
    std::abort();
  }
  try {
    const Waits::Call here(pe->waits(), call);
    return body(*pe);
  } catch (const Error& error) {
    log_where(error);
    pe->raise(error);
  } catch (const std::exception& error) {
    pe->faults().raise(Error(GSHMEMX_ERROR_INTERNAL, std::string(call) + ": " + error.what()));
  }
  return otherwise;
}

/// Does what guard_value does, for calls that return nothing.
template <class Body>
void guard_call(const char* call, const Body& body) noexcept {
  (void)guard_value<int>(call, 0, [&](Pe& pe) {
    body(pe);
    return 0;
  });
}

/// Reports that the call has nothing to do, since there is no PE. Exit handlers and destructors
/// that a forked child has inherited make such calls, too.
inline void report_no_pe(const char* call) {
  const bool forked = process_forked_from().pe >= 0;
  GSHMEM_LOG(forked ? LogLevel::kDebug : LogLevel::kWarn, "%s", no_pe_text(call).c_str());
}

/// Does what guard_call does, for calls that have nothing to do without a PE. A destructor may make
/// them after gshmem_finalize.
template <class Body>
void guard_release(const char* call, const Body& body) noexcept {
  if (process_departed()) return;
  if (!current_pe()) return report_no_pe(call);
  guard_call(call, body);
}

}  // namespace gshmem
