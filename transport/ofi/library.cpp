#include "transport/ofi/library.h"

#include "host/base/fd.h"

#include <signal.h>

#include <array>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstdlib>

namespace gshmem::ofi {
namespace {

/// Saves the handlers of all signals, and restores them in its destructor. It is used while
/// libraries are loaded whose constructors install handlers: Debian's libfabric needs
/// libinfinipath, which reports SIGINT, SIGTERM and crashes in files in the current folder.
/// Handlers that other threads set in the meantime are lost.
class SignalHandlersKept {
 public:
  SignalHandlersKept() noexcept {
    for (int signal = 1; signal < kSignals; ++signal)
      ::sigaction(signal, nullptr, &before_[static_cast<std::size_t>(signal)]);
  }
  ~SignalHandlersKept() {
    for (int signal = 1; signal < kSignals; ++signal)
      ::sigaction(signal, &before_[static_cast<std::size_t>(signal)], nullptr);
  }
  SignalHandlersKept(const SignalHandlersKept&) = delete;

 private:
  /// Higher numbers are real-time signals, or used by the C library.
  static constexpr int kSignals = 32;
  std::array<struct sigaction, kSignals> before_{};
};

}  // namespace

Library::Library() {
  const SignalHandlersKept kept;
  try {
    library_ = DynamicLibrary("libfabric.so.1");
  } catch (const Error& error) {
    throw Error(GSHMEMX_ERROR_NOT_SUPPORTED,
                std::string(error.what()) +
                    "; GSHMEM_NIC=ofi needs libfabric (Debian: libfabric1; Amazon and HPE systems "
                    "bring their own, whose folder must be in LD_LIBRARY_PATH)");
  }
  getinfo = library_.function<decltype(::fi_getinfo)>("fi_getinfo");
  freeinfo = library_.function<decltype(::fi_freeinfo)>("fi_freeinfo");
  dupinfo = library_.function<decltype(::fi_dupinfo)>("fi_dupinfo");
  fabric = library_.function<decltype(::fi_fabric)>("fi_fabric");
  version = library_.function<decltype(::fi_version)>("fi_version");
  strerror = library_.function<decltype(::fi_strerror)>("fi_strerror");
}

const Library& Library::get() {
  static const Library* const library = new Library;
  return *library;
}

std::string Library::version_text() const {
  const std::uint32_t v = version();
  return strprintf("%u.%u", FI_MAJOR(v), FI_MINOR(v));
}

std::string Library::text(long error) const { return strerror(static_cast<int>(std::abs(error))); }

namespace {
/// Returns which resource is exhausted, for any call and provider; empty for another error.
std::string shortage_text(long error) {
  if (error == EMFILE || error == ENFILE) return "Raise the limit: " + descriptor_limit_text();
  if (error == ENOMEM) return "Memory, or locked memory (ulimit -l), is short";
  return {};
}
}  // namespace

void Library::check(long result, const std::string& call, const char* remedy, Where where) const {
  if (result >= 0) return;
  const std::string shortage = shortage_text(-result);
  throw Error(GSHMEMX_ERROR_NIC,
              call + ": " + text(result) + ". " + (shortage.empty() ? remedy : shortage), where);
}

}  // namespace gshmem::ofi
