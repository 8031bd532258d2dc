// GDRCopy's library, loaded at run time, with one function pointer per line of gdrapi.def. It maps
// GPU memory for the CPU with the kernel module gdrdrv. Included by gpu_mapping.cpp, which explains
// how it is used, and by tests. Invariant: in a Library that load() returns, every pointer is set.
#pragma once

#include "host/base/dynamic_library.h"

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace gshmem::gdr {

inline constexpr const char* kSoname = "libgdrapi.so.2";
inline constexpr const char* kDevice = "/dev/gdrdrv";
/// A mapping starts at a multiple of this: the page size of the GPU's window on PCI (GPUDirect RDMA
/// documentation, "Pinning GPU memory").
inline constexpr std::uint64_t kPageBytes = 64 * 1024;

struct Session;  // opaque

/// This is gdr_mh_t; it is passed by value.
struct Pin {
  unsigned long handle = 0;
};

/// This is gdr_info_v2_t. `reserved` is added here: a later minor version may write more bytes.
struct Info {
  std::uint64_t address = 0;  ///< GPU address at which the mapping begins
  std::uint64_t mapped_bytes = 0;
  std::uint32_t page_bytes = 0;
  std::uint64_t deprecated_cycles = 0;
  std::uint32_t deprecated_rate = 0;
  std::uint32_t flags = 0;  ///< bit 0: mapped, bit 1: write-combining
  std::uint32_t mapping_type = 0;
  std::uint32_t reserved[8] = {};
};
static_assert(offsetof(Info, page_bytes) == 16 && offsetof(Info, deprecated_cycles) == 24 &&
              offsetof(Info, flags) == 36);

struct Library {
#define GSHMEM_GDR_FUNCTION(name, result, ...) result (*name)(__VA_ARGS__) = nullptr;
#include "host/base/gdrapi.def"

  /// Errors: GSHMEMX_ERROR_NOT_SUPPORTED, which names the library and, when it is too old, the
  /// symbol.
  [[nodiscard]] static Library load(const std::string& soname = kSoname);

 private:
  DynamicLibrary library_;
};

/// Returns the symbols of gdrapi.def, for code that checks whether a library has them.
[[nodiscard]] std::vector<std::string> symbols();

}  // namespace gshmem::gdr
