// Wraps dlopen; it is called only here. The CUDA driver, PMIx, verbs and libfabric are loaded
// through this class. So the library starts on a machine that has none of them.
#pragma once

#include "host/base/error.h"

#include <string>

namespace gshmem {

class DynamicLibrary {
 public:
  DynamicLibrary() = default;
  /// Opens `soname`. Errors: GSHMEMX_ERROR_NOT_SUPPORTED with dlerror's text.
  explicit DynamicLibrary(const std::string& soname, Where where = {});
  DynamicLibrary(DynamicLibrary&& other) noexcept;
  DynamicLibrary& operator=(DynamicLibrary&& other) noexcept;
  ~DynamicLibrary();

  /// Returns the address of `symbol`. Errors: GSHMEMX_ERROR_NOT_SUPPORTED, which names library and
  /// symbol.
  template <class F>
  [[nodiscard]] F* function(const char* symbol, Where where = {}) const {
    return reinterpret_cast<F*>(address(symbol, where));
  }
  [[nodiscard]] void* find(const char* symbol) const noexcept;  ///< null when absent
  /// Finds a symbol of one version node ("IBVERBS_1.1"); null when absent.
  [[nodiscard]] void* find(const char* symbol, const char* version) const noexcept;
  [[nodiscard]] explicit operator bool() const noexcept { return handle_ != nullptr; }

 private:
  [[nodiscard]] void* address(const char* symbol, Where where) const;
  void* handle_ = nullptr;
  std::string name_;
};

/// Returns the absolute folder of the file (library or program) that contains `address`, without a
/// trailing "/". Empty when it is unknown.
[[nodiscard]] std::string folder_of_code(const void* address);

}  // namespace gshmem
