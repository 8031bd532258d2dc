#include "host/runtime/heap/allocator.h"

#include <algorithm>
#include <bit>
#include <cinttypes>
#include <iterator>
#include <limits>

namespace gshmem {
namespace {

constexpr std::uint64_t kMax = std::numeric_limits<std::uint64_t>::max();

/// Returns the first multiple of `step` (a power of two) that is not below `bytes`; it must exist.
std::uint64_t round_up(std::uint64_t bytes, std::uint64_t step) {
  return (bytes + step - 1) & ~(step - 1);
}

}  // namespace

OffsetAllocator::OffsetAllocator(std::uint64_t capacity_bytes, std::uint64_t granularity,
                                 std::uint64_t origin, Where where)
    : granularity_(granularity), origin_(origin), capacity_bytes_(0) {
  if (!std::has_single_bit(granularity)) {
    throw Error(GSHMEMX_ERROR_INVALID_VALUE,
                strprintf("granularity of %" PRIu64 " bytes is not a power of two", granularity),
                where);
  }
  capacity_bytes_ = capacity_bytes & ~(granularity - 1);
  if (capacity_bytes_ != 0) add_free(0, capacity_bytes_);
}

std::uint64_t OffsetAllocator::allocate(std::uint64_t bytes, std::uint64_t alignment, Where where) {
  if (const auto offset = try_allocate(bytes, alignment, where)) return *offset;
  throw Error(GSHMEMX_ERROR_OUT_OF_MEMORY,
              strprintf("symmetric heap: %s requested (aligned to %" PRIu64 "), %s of %s free, "
                        "largest free block %s",
                        size_text(bytes).c_str(), alignment, size_text(bytes_free_).c_str(),
                        size_text(capacity_bytes_).c_str(), size_text(largest_free()).c_str()),
              where);
}

std::optional<std::uint64_t> OffsetAllocator::try_allocate(std::uint64_t bytes,
                                                           std::uint64_t alignment, Where where) {
  if (!std::has_single_bit(alignment)) {
    throw Error(GSHMEMX_ERROR_INVALID_VALUE,
                strprintf("alignment of %" PRIu64 " bytes is not a power of two", alignment),
                where);
  }
  const std::uint64_t align = std::max(alignment, granularity_);
  const std::uint64_t reserved = reserved_for(bytes, align, where);
  const auto fit = best_fit(reserved, align);
  if (fit == free_by_size_.end()) return std::nullopt;
  const auto [hole_bytes, hole] = *fit;
  const std::uint64_t offset = hole + padding_at(hole, align);
  carve({hole, hole_bytes, 0, State::kFree}, offset, {reserved, bytes, State::kUsed});
  return offset;
}

bool OffsetAllocator::allocate_at(std::uint64_t offset, std::uint64_t bytes, Where where) {
  const std::uint64_t reserved = reserved_for(bytes, granularity_, where);
  const std::optional<Block> hole = containing(offset);
  if (!hole || hole->state != State::kFree || offset % granularity_ != 0) return false;
  if (reserved > hole->reserved_bytes - (offset - hole->offset)) return false;
  carve(*hole, offset, {reserved, bytes, State::kUsed});
  return true;
}

/// Makes `block`, at `offset`, from a part of a free block.
void OffsetAllocator::carve(Block hole, std::uint64_t offset, Extent block) {
  remove_free(by_offset_.find(hole.offset));
  by_offset_.emplace(offset, block);
  if (offset != hole.offset) add_free(hole.offset, offset - hole.offset);
  const std::uint64_t end = offset + block.reserved_bytes;
  const std::uint64_t hole_end = hole.offset + hole.reserved_bytes;
  if (end != hole_end) add_free(end, hole_end - end);
  never_used_from_ = std::max(never_used_from_, offset + 1);
}

void OffsetAllocator::free(std::uint64_t offset, Where where) {
  check_used(offset, where);
  const auto block = by_offset_.find(offset);
  std::uint64_t begin = offset;
  std::uint64_t bytes = block->second.reserved_bytes;
  recently_freed_[freed_count_++ % recently_freed_.size()] = offset;

  if (const auto next = std::next(block);
      next != by_offset_.end() && next->second.state == State::kFree) {
    bytes += next->second.reserved_bytes;
    remove_free(next);
  }
  if (block != by_offset_.begin()) {
    if (const auto before = std::prev(block); before->second.state == State::kFree) {
      begin = before->first;
      bytes += before->second.reserved_bytes;
      remove_free(before);
    }
  }
  by_offset_.erase(block);
  add_free(begin, bytes);
}

std::optional<std::uint64_t> OffsetAllocator::reallocate(std::uint64_t offset, std::uint64_t bytes,
                                                         Where where) {
  check_used(offset, where);
  const std::uint64_t reserved = reserved_for(bytes, granularity_, where);
  const auto block = by_offset_.find(offset);
  const std::uint64_t before = block->second.reserved_bytes;

  const auto next = std::next(block);
  const bool next_is_free = next != by_offset_.end() && next->second.state == State::kFree;
  const std::uint64_t room = before + (next_is_free ? next->second.reserved_bytes : 0);
  if (reserved > room) return std::nullopt;

  if (reserved != before) {
    if (next_is_free) remove_free(next);
    if (reserved != room) add_free(offset + reserved, room - reserved);
  }
  block->second = {reserved, bytes, State::kUsed};
  return offset;
}

std::uint64_t OffsetAllocator::size_of(std::uint64_t offset, Where where) const {
  check_used(offset, where);
  return by_offset_.find(offset)->second.requested_bytes;
}

std::optional<OffsetAllocator::Block> OffsetAllocator::containing(std::uint64_t offset) const {
  if (offset >= capacity_bytes_) return std::nullopt;
  const auto block = std::prev(by_offset_.upper_bound(offset));
  const Extent& extent = block->second;
  return Block{block->first, extent.reserved_bytes, extent.requested_bytes, extent.state};
}

std::vector<OffsetAllocator::Block> OffsetAllocator::blocks() const {
  std::vector<Block> all;
  for (const auto& [offset, extent] : by_offset_) {
    all.push_back({offset, extent.reserved_bytes, extent.requested_bytes, extent.state});
  }
  return all;
}

/// Returns the bytes that a request takes from the heap; `alignment` - 1 bytes of padding must fit,
/// too.
std::uint64_t OffsetAllocator::reserved_for(std::uint64_t bytes, std::uint64_t alignment,
                                            Where where) const {
  if (bytes == 0) {
    throw Error(GSHMEMX_ERROR_INVALID_VALUE, "a block of 0 bytes was requested", where);
  }
  if (bytes > kMax - alignment) {
    throw Error(GSHMEMX_ERROR_INVALID_VALUE,
                strprintf("%" PRIu64 " bytes aligned to %" PRIu64 " exceed the address space",
                          bytes, alignment),
                where);
  }
  return round_up(bytes, granularity_);
}

/// Returns the bytes from `offset` to the first aligned offset, without computing that offset: it
/// may not exist.
std::uint64_t OffsetAllocator::padding_at(std::uint64_t offset, std::uint64_t alignment) const {
  return (alignment - ((offset + origin_) & (alignment - 1))) & (alignment - 1);
}

/// Returns the smallest free block that can hold the request, the lowest of equal ones; end() when
/// there is none.
OffsetAllocator::BySize::const_iterator OffsetAllocator::best_fit(std::uint64_t bytes,
                                                                  std::uint64_t alignment) const {
  auto hole = free_by_size_.lower_bound({bytes, 0});
  while (hole != free_by_size_.end()) {
    const auto [hole_bytes, offset] = *hole;
    if (padding_at(offset, alignment) <= hole_bytes - bytes) break;
    ++hole;
  }
  return hole;
}

void OffsetAllocator::check_used(std::uint64_t offset, Where where) const {
  const auto block = by_offset_.find(offset);
  if (block != by_offset_.end() && block->second.state == State::kUsed) return;
  const auto around = containing(offset);
  if (around && around->state == State::kUsed) {
    throw Error(GSHMEMX_ERROR_INVALID_VALUE,
                strprintf("offset %" PRIu64 " is inside the allocation of %" PRIu64
                          " bytes that starts at offset %" PRIu64,
                          offset, around->requested_bytes, around->offset),
                where);
  }
  throw Error(GSHMEMX_ERROR_INVALID_VALUE,
              strprintf("offset %" PRIu64 " %s", offset, why_not_used(offset)), where);
}

const char* OffsetAllocator::why_not_used(std::uint64_t offset) const {
  if (offset >= never_used_from_ || offset % granularity_ != 0) return "was never allocated";
  const auto known = std::min(freed_count_, recently_freed_.size());
  const auto end = recently_freed_.begin() + static_cast<std::ptrdiff_t>(known);
  if (std::find(recently_freed_.begin(), end, offset) != end) return "was already freed";
  return "is not allocated: it was freed long ago, or was never allocated";
}

void OffsetAllocator::add_free(std::uint64_t offset, std::uint64_t bytes) {
  by_offset_.insert_or_assign(offset, Extent{bytes, 0, State::kFree});
  free_by_size_.emplace(bytes, offset);
  bytes_free_ += bytes;
}

void OffsetAllocator::remove_free(ByOffset::iterator block) {
  bytes_free_ -= block->second.reserved_bytes;
  free_by_size_.erase({block->second.reserved_bytes, block->first});
  by_offset_.erase(block);
}

}  // namespace gshmem
