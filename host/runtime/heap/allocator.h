// The symmetric heap's allocator. It hands out offsets and touches no memory, so one instance
// describes the heaps of all PEs. Included by the symmetric heap, its tests and its fuzzer.
// Invariant: the result of every call depends only on the calls made before it. PEs that make the
// same calls in the same order hold the same offsets, with no communication. Calls that throw, or
// return nothing, change nothing.
#pragma once

#include "host/base/error.h"

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <utility>
#include <vector>

namespace gshmem {

/// Best fit over blocks that tile [0, capacity); neighbouring free blocks are always merged.
/// Threads: one at a time. Cost: O(log n) in the number of blocks; an alignment above the
/// granularity adds the free blocks it has to pass over.
class OffsetAllocator {
 public:
  /// A GPU cache line: two allocations never share one, so that neither false sharing nor a
  /// line-sized write-back couples unrelated objects. Every fundamental type is aligned by it too.
  static constexpr std::uint64_t kGranularity = 128;

  enum class State { kFree, kUsed };
  struct Block {
    std::uint64_t offset;
    std::uint64_t reserved_bytes;   ///< multiple of the granularity
    std::uint64_t requested_bytes;  ///< 0 when free
    State state;
  };

  /// A capacity that is no multiple of the granularity is rounded down. Alignments count from
  /// `origin` bytes before offset 0, a multiple of the granularity.
  /// Errors: GSHMEMX_ERROR_INVALID_VALUE when `granularity` is no power of two.
  explicit OffsetAllocator(std::uint64_t capacity_bytes, std::uint64_t granularity = kGranularity,
                           std::uint64_t origin = 0, Where where = {});

  /// Offset of a new block of at least `bytes`, aligned to `alignment` and the granularity.
  /// Addresses are aligned only as far as the origin is; the caller bounds `alignment` by it.
  /// Errors: GSHMEMX_ERROR_OUT_OF_MEMORY with requested, free and largest free bytes;
  /// GSHMEMX_ERROR_INVALID_VALUE when `alignment` is no power of two, `bytes` + `alignment`
  /// overflows, or `bytes` is 0: what an empty request means is the caller's rule, made above this.
  [[nodiscard]] std::uint64_t allocate(std::uint64_t bytes, std::uint64_t alignment = 1,
                                       Where where = {});

  /// A new block of at least `bytes` at `offset`; false, and no change, where that is not aligned
  /// to the granularity, or not all of it is free. Errors: those of allocate() for `bytes` except
  /// out of memory.
  [[nodiscard]] bool allocate_at(std::uint64_t offset, std::uint64_t bytes, Where where = {});

  /// Errors: GSHMEMX_ERROR_INVALID_VALUE when `offset` is no start of a block in use; the text says
  /// whether it was freed already, was never allocated or is inside a block, as far as is known.
  void free(std::uint64_t offset, Where where = {});

  /// Changes the size of a block where it stands. Returns `offset`, or nothing when the block
  /// cannot grow there; then the caller allocates, copies and frees. Errors: those of free() for
  /// `offset`, those of allocate() for `bytes` except out of memory.
  [[nodiscard]] std::optional<std::uint64_t> reallocate(std::uint64_t offset, std::uint64_t bytes,
                                                        Where where = {});

  /// Bytes as requested by the last allocate() or reallocate() of it. Errors: those of free().
  [[nodiscard]] std::uint64_t size_of(std::uint64_t offset, Where where = {}) const;

  /// The block, free or in use, that covers `offset`; nothing beyond the capacity.
  [[nodiscard]] std::optional<Block> containing(std::uint64_t offset) const;
  /// Every block in the order of offsets.
  [[nodiscard]] std::vector<Block> blocks() const;

  [[nodiscard]] std::uint64_t capacity() const noexcept { return capacity_bytes_; }
  [[nodiscard]] std::uint64_t bytes_free() const noexcept { return bytes_free_; }
  [[nodiscard]] std::uint64_t largest_free() const noexcept {
    return free_by_size_.empty() ? 0 : free_by_size_.rbegin()->first;
  }
  /// No block is in use.
  [[nodiscard]] bool empty() const noexcept { return bytes_free_ == capacity_bytes_; }

 private:
  struct Extent {
    std::uint64_t reserved_bytes;
    std::uint64_t requested_bytes;
    State state;
  };
  using ByOffset = std::map<std::uint64_t, Extent>;
  using BySize = std::set<std::pair<std::uint64_t, std::uint64_t>>;  // (bytes, offset)

  [[nodiscard]] std::uint64_t reserved_for(std::uint64_t bytes, std::uint64_t alignment,
                                           Where where) const;
  [[nodiscard]] std::uint64_t padding_at(std::uint64_t offset, std::uint64_t alignment) const;
  [[nodiscard]] BySize::const_iterator best_fit(std::uint64_t bytes, std::uint64_t alignment) const;
  void check_used(std::uint64_t offset, Where where) const;
  [[nodiscard]] const char* why_not_used(std::uint64_t offset) const;
  void carve(Block hole, std::uint64_t offset, Extent block);
  void add_free(std::uint64_t offset, std::uint64_t bytes);
  void remove_free(ByOffset::iterator block);

  std::uint64_t granularity_;
  std::uint64_t origin_;
  std::uint64_t capacity_bytes_;
  std::uint64_t bytes_free_ = 0;
  ByOffset by_offset_;
  BySize free_by_size_;

  // Only for the text of errors: no offset at or above the first was ever handed out; the second
  // are the offsets freed last.
  std::uint64_t never_used_from_ = 0;
  std::array<std::uint64_t, 64> recently_freed_{};
  std::size_t freed_count_ = 0;
};

}  // namespace gshmem
