// Which libgshmem.so programs load, and whether it is of the same version as this gshmem-info,
// which has the library's objects in itself. Included by gshmem-info's pages.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace gshmem::info {

/// A libgshmem.so.
struct SharedLibrary {
  std::string file;     ///< empty: there is none
  std::string version;  ///< "0.1.0"
  unsigned abi = 0;     ///< kStateAbi of its headers; 0: it does not say
};

struct ProgramLibrary {
  SharedLibrary mine;    ///< of this gshmem-info; no file
  SharedLibrary loaded;  ///< what the loader finds by name, as for a program without a rpath
  std::string why_none;  ///< the loader's words
  std::vector<std::string> found;  ///< beside this gshmem-info and in LD_LIBRARY_PATH, each once
};
[[nodiscard]] ProgramLibrary program_library();
/// The libnvshmem_host.so.3 that the loader finds, where that is NVSHMEM's; otherwise empty.
[[nodiscard]] std::string nvshmem_of_others();
/// The different files called `name` in `folders`, in their order.
[[nodiscard]] std::vector<std::string> files_called(
    const std::string& name, const std::vector<std::filesystem::path>& folders);

/// "/usr/lib/libgshmem.so.0.1.0, version 0.1.0, ABI 12".
[[nodiscard]] std::string library_text(const SharedLibrary& library);
/// That of what programs load, or where one is and that they need a path to it.
[[nodiscard]] std::string library_text(const ProgramLibrary& library);

}  // namespace gshmem::info
