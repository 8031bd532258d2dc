#include "transport/nic/mlx5/verbs_api.h"

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <map>
#include <mutex>

namespace gshmem::nic::mlx5 {
namespace {

std::string library_path(const std::string& folder, const char* soname) {
  if (folder.empty()) return soname;
  return std::filesystem::absolute(std::filesystem::path(folder) / soname).string();
}

void* find(const DynamicLibrary& library, const char* symbol, const char* version) {
  // The symbol is looked up by version if the library has versions: an old version of the same name
  // may exist (mlx5dv_init_obj has two). A library that was linked without a version script is
  // searched by name alone.
  void* found = library.find(symbol, version);
  return found != nullptr ? found : library.find(symbol);
}

void* require_symbol(const DynamicLibrary& library, const std::string& path, const char* symbol,
                     const char* version) {
  void* found = find(library, symbol, version);
  require(found != nullptr, GSHMEMX_ERROR_NOT_SUPPORTED,
          path + " has no " + symbol + "@" + version + ": gshmem needs rdma-core 28 or newer");
  return found;
}

}  // namespace

std::unique_ptr<const VerbsApi> VerbsApi::load(const std::string& folder) {
  auto api = std::make_unique<VerbsApi>();
  const std::string verbs = library_path(folder, "libibverbs.so.1");
  const std::string mlx5 = library_path(folder, "libmlx5.so.1");
  api->verbs_ = DynamicLibrary(verbs);
  api->mlx5_ = DynamicLibrary(mlx5);
#define GSHMEM_VERBS(member, symbol, version)            \
  api->member = reinterpret_cast<decltype(api->member)>( \
      require_symbol(api->verbs_, verbs, #symbol, version));
#define GSHMEM_VERBS_OPTIONAL(member, symbol, version) \
  api->member = reinterpret_cast<decltype(api->member)>(find(api->verbs_, #symbol, version));
#define GSHMEM_MLX5DV(member, symbol, version) \
  api->member =                                \
      reinterpret_cast<decltype(api->member)>(require_symbol(api->mlx5_, mlx5, #symbol, version));
#define GSHMEM_MLX5DV_OPTIONAL(member, symbol, version) \
  api->member = reinterpret_cast<decltype(api->member)>(find(api->mlx5_, #symbol, version));
#include "transport/nic/mlx5/verbs_api.def"
  return api;
}

const VerbsApi& VerbsApi::get(const std::string& folder) {
  struct Loaded {
    std::mutex mutex;
    std::map<std::string, std::unique_ptr<const VerbsApi>> by_folder;
  };
  static auto* const loaded = new Loaded;  // it is never freed: see the declaration
  const std::lock_guard<std::mutex> lock(loaded->mutex);
  if (const auto known = loaded->by_folder.find(folder); known != loaded->by_folder.end()) {
    return *known->second;
  }
  std::unique_ptr<const VerbsApi> api = load(folder);
  for (const auto& [other, there] : loaded->by_folder) {
    // The loader identifies a library by its soname. When the system's library is requested by
    // name, it returns the one that an earlier get() loaded from a folder. This cannot be avoided,
    // but it must be reported.
    require(there->get_device_list != api->get_device_list, GSHMEMX_ERROR_NOT_SUPPORTED,
            "cannot load the system's libibverbs.so.1: this process already has the one of " +
                other + ", and a process finds only one by that name");
  }
  return *(loaded->by_folder[folder] = std::move(api));
}

int error_of(int result) { return result == -1 ? errno : std::abs(result); }

void fail_verbs(const std::string& call, int error, const std::string& advice, Where where) {
  std::string text = call + ": ";
  text += error != 0 ? std::strerror(error) : "failed without an error number";
  if (!advice.empty()) text += "; " + advice;
  throw Error(error == ENOMEM ? GSHMEMX_ERROR_OUT_OF_MEMORY : GSHMEMX_ERROR_NIC, text, where);
}

void check_verbs(int result, const std::string& call, const std::string& advice, Where where) {
  if (result != 0) fail_verbs(call, error_of(result), advice, where);
}

}  // namespace gshmem::nic::mlx5
