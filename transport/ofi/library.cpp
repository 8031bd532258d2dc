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

/// At its end, the process does on every signal what it did at its beginning. For the loading of
/// libraries whose constructors take signals for themselves: Debian's libfabric needs
/// libinfinipath, which reports SIGINT, SIGTERM and crashes by files in the current folder.
/// Handlers that other threads set meanwhile are lost.
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
  static constexpr int kSignals = 32;  ///< later ones are real-time ones, or the C library's
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
                    "bring their own, whose folder belongs into LD_LIBRARY_PATH)");
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
/// What is short, whatever the call and provider; empty when it is another error.
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
