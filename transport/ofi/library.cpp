#include "transport/ofi/library.h"

#include "host/base/signal_handlers.h"

#include <cstdint>

namespace gshmem::ofi {

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

std::string Library::text(long error) const {
  return strerror(static_cast<int>(error < 0 ? -error : error));
}

void Library::check(long result, const std::string& call, const char* remedy, Where where) const {
  if (result >= 0) return;
  throw Error(GSHMEMX_ERROR_NIC, call + ": " + text(result) + ". " + remedy, where);
}

}  // namespace gshmem::ofi
