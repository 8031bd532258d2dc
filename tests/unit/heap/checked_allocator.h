// OffsetAllocator beside a model that is too simple to be wrong: one owner per granule. Every call
// goes to both; a difference throws std::logic_error. Included by the unit tests and the fuzzer.
// Invariant: the model predicts the exact offset (best fit, lowest of equal holes), so two
// instances that pass are also deterministic.
#pragma once

#include "host/runtime/heap/allocator.h"

#include <algorithm>
#include <map>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

namespace gshmem::test {

class CheckedAllocator {
 public:
  CheckedAllocator(std::uint64_t capacity_bytes, std::uint64_t granularity,
                   std::uint64_t origin = 0)
      : allocator_(capacity_bytes, granularity, origin),
        granularity_(granularity),
        origin_(origin / granularity),
        owner_(capacity_bytes / granularity, kNobody) {
    verify();
  }

  std::optional<std::uint64_t> allocate(std::uint64_t bytes, std::uint64_t alignment) {
    const auto expected =
        predict(granules(bytes), std::max<std::uint64_t>(alignment / granularity_, 1));
    std::optional<std::uint64_t> got;
    try {
      got = allocator_.allocate(bytes, alignment);
    } catch (const Error& error) {
      expect(error.code() == GSHMEMX_ERROR_OUT_OF_MEMORY, error.what());
    }
    expect(got == expected, "allocate: offset differs from the model's");
    if (got) set(*got, bytes);
    return got;
  }

  void free(std::uint64_t offset) {
    allocator_.free(offset);
    clear(offset);
  }

  bool reallocate(std::uint64_t offset, std::uint64_t bytes) {
    const std::uint64_t first = offset / granularity_;
    std::uint64_t room = granules(used_.at(offset));
    while (first + room < owner_.size() && owner_[first + room] == kNobody) ++room;
    const auto got = allocator_.reallocate(offset, bytes);
    expect(got.has_value() == (granules(bytes) <= room),
           "reallocate: room differs from the model's");
    if (!got) return false;
    expect(*got == offset, "reallocate: the block moved");
    clear(offset);
    set(offset, bytes);
    return true;
  }

  /// The allocator must refuse an offset at which no used block begins, and must change nothing.
  void free_wrong(std::uint64_t offset) {
    expect(used_.count(offset) == 0, "free_wrong: the test passed a used block");
    try {
      allocator_.free(offset);
    } catch (const Error& error) {
      expect(error.code() == GSHMEMX_ERROR_INVALID_VALUE, error.what());
      return;
    }
    expect(false, "free: an offset that is not in use was accepted");
  }

  /// Compares everything that the allocator reports about itself with the model.
  void verify() const {
    std::uint64_t at = 0, free_bytes = 0, largest = 0, used_blocks = 0;
    bool free_before = false;
    for (const auto& block : allocator_.blocks()) {
      expect(block.offset == at, "blocks do not tile the heap");
      expect(block.reserved_bytes != 0 && block.reserved_bytes % granularity_ == 0, "bad size");
      const bool is_free = block.state == OffsetAllocator::State::kFree;
      expect(!(is_free && free_before), "neighbouring free blocks were not merged");
      for (auto g = at / granularity_; g < (at + block.reserved_bytes) / granularity_; ++g) {
        expect(owner_.at(g) == (is_free ? kNobody : block.offset), "owner differs");
      }
      if (is_free) {
        expect(block.requested_bytes == 0, "a free block has requested bytes");
        free_bytes += block.reserved_bytes;
        largest = std::max(largest, block.reserved_bytes);
      } else {
        ++used_blocks;
        expect(block.requested_bytes == used_.at(block.offset), "requested bytes differ");
        expect(allocator_.size_of(block.offset) == block.requested_bytes, "size_of differs");
        expect(granules(block.requested_bytes) * granularity_ == block.reserved_bytes,
               "bad reserve");
      }
      const auto last = allocator_.containing(at + block.reserved_bytes - 1);
      expect(last && last->offset == at, "containing differs");
      free_before = is_free;
      at += block.reserved_bytes;
    }
    expect(at == allocator_.capacity(), "blocks do not fill the heap");
    expect(!allocator_.containing(at), "containing knows a block beyond the heap");
    expect(used_blocks == used_.size(), "number of blocks differs");
    expect(free_bytes == allocator_.bytes_free(), "bytes_free differs");
    expect(largest == allocator_.largest_free(), "largest_free differs");
    expect(used_.empty() == allocator_.empty(), "empty differs");
  }

  [[nodiscard]] const OffsetAllocator& allocator() const { return allocator_; }
  /// Returns offset and requested bytes of every block in use.
  [[nodiscard]] const std::map<std::uint64_t, std::uint64_t>& used() const { return used_; }

 private:
  static constexpr std::uint64_t kNobody = ~std::uint64_t{0};

  static void expect(bool ok, const std::string& what) {
    if (!ok) throw std::logic_error(what);
  }
  [[nodiscard]] std::uint64_t granules(std::uint64_t bytes) const {
    return (bytes + granularity_ - 1) / granularity_;
  }

  /// Finds the best fit by looking at every hole; counts in granules.
  [[nodiscard]] std::optional<std::uint64_t> predict(std::uint64_t size,
                                                     std::uint64_t align) const {
    std::optional<std::uint64_t> best;
    std::uint64_t best_hole = 0;
    for (std::uint64_t begin = 0, end = 0; begin < owner_.size(); begin = end + 1) {
      end = begin;
      while (end < owner_.size() && owner_[end] == kNobody) ++end;
      std::uint64_t first = begin;
      while ((first + origin_) % align != 0) ++first;
      const bool fits = end != begin && first + size <= end;
      if (fits && (!best || end - begin < best_hole)) {
        best = first * granularity_;
        best_hole = end - begin;
      }
    }
    return best;
  }

  void set(std::uint64_t offset, std::uint64_t bytes) {
    used_[offset] = bytes;
    for (std::uint64_t g = 0; g < granules(bytes); ++g) {
      auto& owner = owner_.at(offset / granularity_ + g);
      expect(owner == kNobody, "blocks overlap");
      owner = offset;
    }
  }
  void clear(std::uint64_t offset) {
    std::replace(owner_.begin(), owner_.end(), offset, kNobody);
    used_.erase(offset);
  }

  OffsetAllocator allocator_;
  std::uint64_t granularity_;
  std::uint64_t origin_;              // in granules
  std::vector<std::uint64_t> owner_;  // offset of the block that owns each granule
  std::map<std::uint64_t, std::uint64_t> used_;
};

}  // namespace gshmem::test
