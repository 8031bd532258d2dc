#include "host/runtime/registered_memory.h"

#include "host/base/error.h"

#include <algorithm>

namespace gshmem {

RegisteredMemory::RegisteredMemory(const Place& place, abi::RegisteredRange* rows)
    : place_(place), rows_(rows), allocator_(place.bytes, place.granularity, place.begin) {}

void RegisteredMemory::require_new(const char* call, const void* buffer, std::size_t bytes) const {
  const auto begin = reinterpret_cast<std::uintptr_t>(buffer);
  for (const auto& [offset, known] : buffers_) {
    if (known.begin == 0) continue;
    require(begin >= known.begin + known.bytes || begin + bytes <= known.begin,
            GSHMEMX_ERROR_INVALID_VALUE, [&, &of = known] {
              return strprintf(
                  "%s: argument buf_ptr = %p (%zu bytes) has bytes in common with what is "
                  "registered (0x%lx, %lu bytes)",
                  call, buffer, bytes, of.begin, of.bytes);
            });
  }
}

void RegisteredMemory::require_known(const char* call, const void* symmetric, std::uint64_t offset,
                                     std::size_t bytes) const {
  const auto found = buffers_.find(offset);
  require(found != buffers_.end() && found->second.begin != 0, GSHMEMX_ERROR_INVALID_VALUE,
          strprintf("%s: argument mmap_ptr = %p is not registered", call, symmetric));
  require(found->second.bytes == bytes, GSHMEMX_ERROR_INVALID_VALUE, [&, &of = found->second] {
    return strprintf("%s: argument size = %zu, but %p was registered with %lu bytes", call, bytes,
                     symmetric, of.bytes);
  });
}

std::uint64_t RegisteredMemory::reserve(const char* call, std::size_t bytes,
                                        std::optional<std::uint64_t> wish) {
  require(buffers_.size() < abi::kMaxRegistered, GSHMEMX_ERROR_OUT_OF_MEMORY,
          strprintf("%s: %u buffers are registered, or are later parts of the heap, as many as "
                    "there may be",
                    call, abi::kMaxRegistered));
  require(bytes <= allocator_.largest_free(), GSHMEMX_ERROR_OUT_OF_MEMORY, [&] {
    return strprintf(
        "%s: argument size = %zu: of %s of addresses for registered memory %lu are free, %lu of "
        "them in one piece; raise GSHMEM_REGISTERED_SIZE",
        call, bytes, size_text(allocator_.capacity()).c_str(), allocator_.bytes_free(),
        allocator_.largest_free());
  });
  // Without a wish this wraps to an impossible offset.
  std::uint64_t at = wish.value_or(0) - place_.begin;
  if (!wish || !allocator_.allocate_at(at, bytes)) at = allocator_.allocate(bytes);
  const std::uint64_t offset = place_.begin + at;
  buffers_[offset].bytes = bytes;
  return offset;
}

std::uint64_t RegisteredMemory::reserve_part(std::uint64_t bytes, std::uint64_t alignment) {
  require(buffers_.size() < abi::kMaxRegistered, GSHMEMX_ERROR_OUT_OF_MEMORY,
          strprintf("it has %u parts, with registered memory, as many as there may be; raise "
                    "GSHMEM_SYMMETRIC_SIZE",
                    abi::kMaxRegistered));
  const auto at = allocator_.try_allocate(bytes, alignment);
  require(at.has_value(), GSHMEMX_ERROR_OUT_OF_MEMORY, [&] {
    return strprintf(
        "%s needed, and of %s of addresses beside it %s are free, %s of them in one piece; raise "
        "GSHMEM_REGISTERED_SIZE",
        size_text(bytes).c_str(), size_text(allocator_.capacity()).c_str(),
        size_text(allocator_.bytes_free()).c_str(), size_text(allocator_.largest_free()).c_str());
  });
  const std::uint64_t offset = place_.begin + *at;
  buffers_[offset].bytes = bytes;
  return offset;
}

/// The end is stored last: a thread that finds the range finds all of it. Pairs with
/// device::search_registered.
void RegisteredMemory::publish(std::uint64_t offset, const void* buffer, std::size_t bytes,
                               const abi::RegisteredRange& keys) {
  abi::RegisteredRange* const row = std::find_if(rows_, rows_ + abi::kMaxRegistered,
                                                 [](const auto& range) { return range.end == 0; });
  buffers_[offset] = {reinterpret_cast<std::uintptr_t>(buffer), bytes, row};
  row->local = keys.local;
  row->remote = keys.remote;
  row->rails = keys.rails;
  __atomic_store_n(&row->begin, offset, __ATOMIC_RELEASE);
  __atomic_store_n(&row->end, offset + bytes, __ATOMIC_RELEASE);
}

void RegisteredMemory::release(std::uint64_t offset) {
  const auto found = buffers_.find(offset);
  if (found->second.row) __atomic_store_n(&found->second.row->end, 0, __ATOMIC_RELEASE);
  buffers_.erase(found);
  allocator_.free(offset - place_.begin);
}

}  // namespace gshmem
