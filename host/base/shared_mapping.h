// Host shared memory that is mapped once per process. PEs that are threads of one process get the
// same addresses for the same segment. This saves address space. It also lets ThreadSanitizer,
// which identifies memory by its address, see accesses of PEs to each other's memory.
#pragma once

#include "host/base/fd.h"

#include <cstdint>
#include <map>
#include <memory>

namespace gshmem {

/// The pieces of a segment. In the segment they are contiguous; they are mapped `stride` apart. The
/// addresses between them have no memory, and take no space, not even in a core dump.
struct Pieces {
  std::uint64_t bytes, stride, count;
};

/// A mapping of the pieces of a segment; its base is a multiple of `alignment`.
class SharedMapping {
 public:
  SharedMapping(const Fd& segment, const Pieces& pieces, std::uint64_t alignment);
  ~SharedMapping();
  SharedMapping(const SharedMapping&) = delete;
  [[nodiscard]] char* base() const noexcept { return base_; }

  /// Replaces `bytes` bytes at offset `at` by memory of a file from `offset` on; all are in whole
  /// pages. When another PE of the process repeats the call, it is only counted. Errors:
  /// GSHMEMX_ERROR_SYSTEM.
  void place(std::uint64_t at, std::uint64_t bytes, const Fd& file, std::uint64_t offset);
  /// Undoes one place() at `at`. The last call unmaps the memory.
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

/// Returns the process's mapping of this segment, which the first call makes. Ownership is shared,
/// because the PE that leaves last unmaps. Errors: GSHMEMX_ERROR_OUT_OF_MEMORY,
/// GSHMEMX_ERROR_SYSTEM.
[[nodiscard]] std::shared_ptr<SharedMapping> map_shared(const Fd& segment, const Pieces& pieces,
                                                        std::uint64_t alignment);
/// Maps a segment that is one piece.
[[nodiscard]] inline std::shared_ptr<SharedMapping> map_shared(const Fd& segment,
                                                               std::uint64_t bytes,
                                                               std::uint64_t alignment) {
  return map_shared(segment, Pieces{bytes, bytes, 1}, alignment);
}

/// Makes an anonymous shared-memory file of `bytes` zero bytes.
[[nodiscard]] Fd make_segment(const char* name, std::uint64_t bytes);

}  // namespace gshmem
