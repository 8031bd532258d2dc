// The symmetric heap's allocator. It returns offsets and accesses no memory, so one instance
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

/// Best fit over blocks that cover [0, capacity); neighbouring free blocks are always merged.
/// Threads: one at a time. Cost: O(log n) in the number of blocks; an alignment above the
/// granularity adds the free blocks that are skipped.
class OffsetAllocator {
 public:
  /// The granularity is a GPU cache line: two allocations never share one, so that neither false
  /// sharing nor a line-sized write-back couples unrelated objects. It also aligns every
  /// fundamental type.
  static constexpr std::uint64_t kGranularity = 128;

  enum class State { kFree, kUsed };
  struct Block {
    std::uint64_t offset;
    std::uint64_t reserved_bytes;   ///< multiple of the granularity
    std::uint64_t requested_bytes;  ///< 0 if the block is free
    State state;
  };

  /// A capacity that is not a multiple of the granularity is rounded down. Alignments count from
  /// `origin` bytes before offset 0, a multiple of the granularity. Errors:
  /// GSHMEMX_ERROR_INVALID_VALUE when `granularity` is not a power of two.
  explicit OffsetAllocator(std::uint64_t capacity_bytes, std::uint64_t granularity = kGranularity,
                           std::uint64_t origin = 0, Where where = {});

  /// Returns the offset of a new block of at least `bytes`, aligned to `alignment` and the
  /// granularity. Addresses are aligned only as far as the origin is; the caller limits `alignment`
  /// to that. Errors: GSHMEMX_ERROR_OUT_OF_MEMORY with requested, free and largest free bytes;
  /// GSHMEMX_ERROR_INVALID_VALUE when `alignment` is not a power of two, `bytes` + `alignment`
  /// overflows, or `bytes` is 0: the caller decides what an empty request means.
  [[nodiscard]] std::uint64_t allocate(std::uint64_t bytes, std::uint64_t alignment = 1,
                                       Where where = {});
  /// Does the same, but returns nothing when it is out of memory.
  [[nodiscard]] std::optional<std::uint64_t> try_allocate(std::uint64_t bytes,
                                                          std::uint64_t alignment = 1,
                                                          Where where = {});

  /// Makes a new block of at least `bytes` at `offset`. Returns false without a change if `offset`
  /// is not aligned to the granularity, or not all of the block is free. Errors: those of
  /// allocate() for `bytes` except out of memory.
  [[nodiscard]] bool allocate_at(std::uint64_t offset, std::uint64_t bytes, Where where = {});

  /// Errors: GSHMEMX_ERROR_INVALID_VALUE when `offset` is not the start of a block in use. The text
  /// says whether it was freed already, was never allocated or is inside a block, as far as that is
  /// known.
  void free(std::uint64_t offset, Where where = {});

  /// Changes the size of a block in place. Returns `offset`, or nothing when the block cannot grow
  /// there; then the caller allocates, copies and frees. Errors: those of free() for `offset`,
  /// those of allocate() for `bytes` except out of memory.
  [[nodiscard]] std::optional<std::uint64_t> reallocate(std::uint64_t offset, std::uint64_t bytes,
                                                        Where where = {});

  /// Returns the size requested by the last allocate() or reallocate(). Errors: those of free().
  [[nodiscard]] std::uint64_t size_of(std::uint64_t offset, Where where = {}) const;

  /// Returns the block, free or in use, that contains `offset`; nothing beyond the capacity.
  [[nodiscard]] std::optional<Block> containing(std::uint64_t offset) const;
  /// Returns every block in the order of offsets.
  [[nodiscard]] std::vector<Block> blocks() const;

  [[nodiscard]] std::uint64_t capacity() const noexcept { return capacity_bytes_; }
  [[nodiscard]] std::uint64_t bytes_free() const noexcept { return bytes_free_; }
  [[nodiscard]] std::uint64_t largest_free() const noexcept {
    return free_by_size_.empty() ? 0 : free_by_size_.rbegin()->first;
  }
  /// Is no block in use?
  [[nodiscard]] bool empty() const noexcept { return bytes_free_ == capacity_bytes_; }

 private:
  struct Extent {
    std::uint64_t reserved_bytes;
    std::uint64_t requested_bytes;
    State state;
  };
  using ByOffset = std::map<std::uint64_t, Extent>;
  using BySize = std::set<std::pair<std::uint64_t, std::uint64_t>>;  // pairs of (bytes, offset)

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

  // These are only for the text of errors: no offset at or above the first was ever returned; the
  // second are the offsets freed last.
  std::uint64_t never_used_from_ = 0;
  std::array<std::uint64_t, 64> recently_freed_{};
  std::size_t freed_count_ = 0;
};

}  // namespace gshmem
