// Host shared memory mapped once per process: PEs that are threads of one process get the same
// addresses for the same segments. Saves address space, and lets ThreadSanitizer, which knows
// memory by its address, see what PEs do to each other.
#pragma once

#include "host/base/fd.h"

#include <cstdint>
#include <memory>
#include <vector>

namespace gshmem::p2p {

/// The places of segments in a range: the first one at a multiple of `alignment`.
struct Spacing {
  std::uint64_t stride, alignment;
};

/// `segments.size()` segments of `bytes` bytes, mapped one after the other.
class SharedMapping {
 public:
  SharedMapping(const std::vector<Fd>& segments, std::uint64_t bytes, Spacing spacing);
  ~SharedMapping();
  SharedMapping(const SharedMapping&) = delete;
  [[nodiscard]] char* base() const noexcept { return base_; }

 private:
  void* range_ = nullptr;
  std::uint64_t reserved_ = 0;
  char* base_ = nullptr;
};

/// The process's mapping of exactly these segments, made when there is none. Shared ownership,
/// because whichever PE leaves last unmaps. Errors: GSHMEMX_ERROR_OUT_OF_MEMORY,
/// GSHMEMX_ERROR_SYSTEM.
[[nodiscard]] std::shared_ptr<SharedMapping> map_shared(const std::vector<Fd>& segments,
                                                        std::uint64_t bytes, Spacing spacing);

/// An anonymous shared-memory file of `bytes` zero bytes.
[[nodiscard]] Fd make_segment(const char* name, std::uint64_t bytes);

}  // namespace gshmem::p2p
