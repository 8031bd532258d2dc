#include "host/base/dynamic_library.h"

#include "host/base/thread.h"

#include <dlfcn.h>
#include <link.h>

#include <filesystem>
#include <system_error>
#include <utility>

namespace gshmem {

DynamicLibrary::DynamicLibrary(const std::string& soname, Where where) : name_(soname) {
  // Constructors of libraries may not expect signals that interrupt their calls: libinfinipath,
  // which Debian's libfabric needs, ends the process.
  const SignalsHeldBack held_back;
  handle_ = dlopen(soname.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle_ != nullptr) return;
  throw Error(GSHMEMX_ERROR_NOT_SUPPORTED, "cannot load " + soname + ": " + dlerror(), where);
}

DynamicLibrary::DynamicLibrary(DynamicLibrary&& other) noexcept
    : handle_(std::exchange(other.handle_, nullptr)), name_(std::move(other.name_)) {}

DynamicLibrary& DynamicLibrary::operator=(DynamicLibrary&& other) noexcept {
  std::swap(handle_, other.handle_);
  std::swap(name_, other.name_);
  return *this;
}

DynamicLibrary::~DynamicLibrary() {
  if (handle_ != nullptr) dlclose(handle_);
}

void* DynamicLibrary::find(const char* symbol) const noexcept {
  // dlsym(nullptr, ...) would search the whole process, but an empty library has no symbols.
  return handle_ != nullptr ? dlsym(handle_, symbol) : nullptr;
}

void* DynamicLibrary::find(const char* symbol, const char* version) const noexcept {
  return handle_ != nullptr ? dlvsym(handle_, symbol, version) : nullptr;
}

void* DynamicLibrary::address(const char* symbol, Where where) const {
  void* found = find(symbol);
  if (found == nullptr) {
    const std::string library = handle_ != nullptr ? name_ : "a library that is not loaded";
    throw Error(GSHMEMX_ERROR_NOT_SUPPORTED, library + " has no symbol " + symbol, where);
  }
  return found;
}

std::string folder_of_code(const void* address) {
  Dl_info info{};
  void* map = nullptr;
  if (dladdr1(address, &info, &map, RTLD_DL_LINKMAP) == 0) return {};
  // The name of the main program is argv[0], which is no path if the shell found it in PATH.
  const bool in_program = *static_cast<const link_map*>(map)->l_name == '\0';
  std::error_code error;
  const std::filesystem::path file =
      std::filesystem::canonical(in_program ? "/proc/self/exe" : info.dli_fname, error);
  return error ? std::string{} : file.parent_path().string();
}

}  // namespace gshmem
