#include "host/tools/info/program_library.h"

#include "host/base/config.h"
#include "host/base/dynamic_library.h"
#include "host/base/error.h"

#include <gshmem/abi/state.h>
#include <gshmem/gshmem.h>

#include <dlfcn.h>

#include <algorithm>
#include <sstream>

namespace gshmem::info {
namespace {

namespace fs = std::filesystem;

constexpr char kName[] = GSHMEM_INFO_SONAME;

std::string version_text(int major, int minor, int patch) {
  return strprintf("%d.%d.%d", major, minor, patch);
}

std::string file_of(const void* address) {
  Dl_info info{};
  if (address == nullptr || dladdr(address, &info) == 0) return {};
  std::error_code error;
  const fs::path file = fs::canonical(info.dli_fname, error);
  return error ? std::string(info.dli_fname) : file.string();
}

SharedLibrary load(std::string* why_none) {
  SharedLibrary loaded;
  try {
    // It is kept loaded: one of its threads may be running.
    const auto& library = *new DynamicLibrary(kName);
    using Version = void(int*, int*, int*);
    auto* const version = library.function<Version>("gshmemx_vendor_get_version_info");
    auto* const abi = library.find("gshmemi_abi_number");
    int major = 0, minor = 0, patch = 0;
    version(&major, &minor, &patch);
    loaded.file = file_of(reinterpret_cast<const void*>(version));
    loaded.version = version_text(major, minor, patch);
    if (abi != nullptr) loaded.abi = reinterpret_cast<unsigned (*)()>(abi)();
  } catch (const Error& error) {
    *why_none = error.what();
  }
  return loaded;
}

std::vector<fs::path> places() {
  std::vector<fs::path> folders;
  std::istringstream path(env_lookup("LD_LIBRARY_PATH") ? env_lookup("LD_LIBRARY_PATH") : "");
  for (std::string folder; std::getline(path, folder, ':');)
    if (!folder.empty()) folders.emplace_back(folder);
  const std::string bin = folder_of_code(reinterpret_cast<const void*>(&program_library));
  const fs::path prefix = fs::path(bin).parent_path();
  for (const char* beside : {"lib", "lib64", "lib/x86_64-linux-gnu", "lib/aarch64-linux-gnu"})
    folders.push_back(prefix / beside);
  return folders;
}

}  // namespace

std::vector<std::string> files_called(const std::string& name,
                                      const std::vector<fs::path>& folders) {
  std::vector<std::string> found;
  for (const fs::path& folder : folders) {
    std::error_code error;
    const fs::path file = fs::canonical(folder / name, error);
    if (!error && std::ranges::find(found, file.string()) == found.end())
      found.push_back(file.string());
  }
  return found;
}

ProgramLibrary program_library() {
  ProgramLibrary library;
  library.mine.version = version_text(GSHMEM_VENDOR_MAJOR_VERSION, GSHMEM_VENDOR_MINOR_VERSION,
                                      GSHMEM_VENDOR_PATCH_VERSION);
  library.mine.abi = abi::kStateAbi;
  library.loaded = load(&library.why_none);
  library.found = files_called(kName, places());
  return library;
}

// A filter of libgshmem has its names, and NVIDIA's library has none of them.
std::string nvshmem_of_others() {
  try {
    const auto& library = *new DynamicLibrary("libnvshmem_host.so.3");
    const bool is_ours = library.find("gshmem_init") != nullptr;
    return is_ours ? "" : file_of(library.find("nvshmemx_init_status"));
  } catch (const Error&) {
    return {};
  }
}

std::string library_text(const SharedLibrary& library) {
  return library.file + ", version " + library.version + ", ABI " +
         (library.abi != 0 ? std::to_string(library.abi) : "unknown");
}

std::string library_text(const ProgramLibrary& library) {
  if (!library.loaded.file.empty()) return library_text(library.loaded);
  if (library.found.empty()) return "none: " + library.why_none;
  return library.found[0] + ", for programs with a path to it (-Wl,-rpath or LD_LIBRARY_PATH)";
}

}  // namespace gshmem::info
