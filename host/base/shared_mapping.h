// Host shared memory mapped once per process: PEs that are threads of one process get the same
// addresses for the same segment. Saves address space, and lets ThreadSanitizer, which knows
// memory by its address, see what PEs do to each other.
#pragma once

#include "host/base/fd.h"

#include <cstdint>
#include <map>
#include <memory>

namespace gshmem {

/// `bytes` bytes of a segment, the first one at a multiple of `alignment`.
class SharedMapping {
 public:
  SharedMapping(const Fd& segment, std::uint64_t bytes, std::uint64_t alignment);
  ~SharedMapping();
  SharedMapping(const SharedMapping&) = delete;
  [[nodiscard]] char* base() const noexcept { return base_; }

  /// Other memory in place of `bytes` bytes from `at` on: a file's from `offset` on, all in whole
  /// pages. Again with the same, by another PE of the process: only counted. Errors:
  /// GSHMEMX_ERROR_SYSTEM.
  void place(std::uint64_t at, std::uint64_t bytes, const Fd& file, std::uint64_t offset);
  /// Ends one place() at `at`; with the last one nothing is mapped there.
  void clear(std::uint64_t at) noexcept;

 private:
  struct Placed {
    std::uint64_t bytes = 0;
    int users = 0;
  };
  std::map<std::uint64_t, Placed> placed_;
  void* range_ = nullptr;
  std::uint64_t reserved_ = 0;
  char* base_ = nullptr;
};

/// The process's mapping of this segment, made when there is none. Shared ownership, because
/// whichever PE leaves last unmaps. Errors: GSHMEMX_ERROR_OUT_OF_MEMORY, GSHMEMX_ERROR_SYSTEM.
[[nodiscard]] std::shared_ptr<SharedMapping> map_shared(const Fd& segment, std::uint64_t bytes,
                                                        std::uint64_t alignment);

/// An anonymous shared-memory file of `bytes` zero bytes.
[[nodiscard]] Fd make_segment(const char* name, std::uint64_t bytes);

}  // namespace gshmem
