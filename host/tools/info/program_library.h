// Finds the libgshmem.so that programs load, and whether it has the same version as this
// gshmem-info, into which the library is linked. Included by gshmem-info's pages.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace gshmem::info {

/// A libgshmem.so.
struct SharedLibrary {
  std::string file;     ///< empty: there is none
  std::string version;  ///< "0.1.0"
  unsigned abi = 0;     ///< kStateAbi of its headers; 0: unknown
};

struct ProgramLibrary {
  SharedLibrary mine;  ///< that of this gshmem-info; it has no file
  /// The one that the loader finds by name, as for a program without a rpath.
  SharedLibrary loaded;
  std::string why_none;  ///< the loader's error
  /// Those in the folder of this gshmem-info and in LD_LIBRARY_PATH, each once.
  std::vector<std::string> found;
};
[[nodiscard]] ProgramLibrary program_library();
/// Returns the libnvshmem_host.so.3 that the loader finds, if it is NVSHMEM's; otherwise an empty
/// text.
[[nodiscard]] std::string nvshmem_of_others();
/// Returns the different files called `name` in `folders`, in their order.
[[nodiscard]] std::vector<std::string> files_called(
    const std::string& name, const std::vector<std::filesystem::path>& folders);

/// Returns for example "/usr/lib/libgshmem.so.0.1.0, version 0.1.0, ABI 12".
[[nodiscard]] std::string library_text(const SharedLibrary& library);
/// Returns the text for the library that programs load, or where one is and that they need a path
/// to it.
[[nodiscard]] std::string library_text(const ProgramLibrary& library);

}  // namespace gshmem::info
