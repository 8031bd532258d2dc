#include "host/runtime/registered_memory.h"

#include "host/base/error.h"

#include <algorithm>
#include <utility>

namespace gshmem {
namespace {

std::uint64_t granules(std::uint64_t bytes) {
  return (bytes + abi::kGranuleBytes - 1) >> abi::kGranuleShift;
}

}  // namespace

RegisteredMemory::RegisteredMemory(const Place& place, ContextTable::DeviceMemory memory)
    : place_(place),
      memory_(std::move(memory)),
      allocator_(place.bytes, place.granularity, place.begin) {
  const std::size_t count = granules(place.stride);
  host_table_.reset(static_cast<Word*>(std::calloc(count, sizeof(Word))));
  require(host_table_ != nullptr, GSHMEMX_ERROR_OUT_OF_MEMORY, [&] {
    return strprintf("%zu bytes for the table of registered memory; lower GSHMEM_REGISTERED_SIZE",
                     count * sizeof(Word));
  });
  device_table_ = memory_.allocate ? static_cast<Word*>(memory_.allocate(count * sizeof(Word)))
                                   : host_table_.get();
}

void RegisteredMemory::enter(abi::DeviceState& state) const {
  state.registered = reinterpret_cast<const abi::RegisteredRange* const*>(device_table_);
  state.host_registered = reinterpret_cast<const abi::RegisteredRange* const*>(host_table_.get());
}

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
  require(bytes <= allocator_.largest_free(), GSHMEMX_ERROR_OUT_OF_MEMORY, [&] {
    return strprintf(
        "%s: argument size = %zu: of %s of addresses for registered memory %lu are free, %lu of "
        "them contiguous; raise GSHMEM_REGISTERED_SIZE",
        call, bytes, size_text(allocator_.capacity()).c_str(), allocator_.bytes_free(),
        allocator_.largest_free());
  });
  // Without a wish the subtraction wraps around to an impossible offset.
  std::uint64_t at = wish.value_or(0) - place_.begin;
  if (!wish || !allocator_.allocate_at(at, bytes)) at = allocator_.allocate(bytes);
  const std::uint64_t offset = place_.begin + at;
  buffers_[offset].bytes = bytes;
  return offset;
}

std::uint64_t RegisteredMemory::reserve_part(std::uint64_t bytes, std::uint64_t alignment) {
  const auto at = allocator_.try_allocate(bytes, alignment);
  require(at.has_value(), GSHMEMX_ERROR_OUT_OF_MEMORY, [&] {
    return strprintf(
        "%s needed, and of %s of addresses after the heap %s are free, %s of them contiguous; "
        "raise GSHMEM_REGISTERED_SIZE",
        size_text(bytes).c_str(), size_text(allocator_.capacity()).c_str(),
        size_text(allocator_.bytes_free()).c_str(), size_text(allocator_.largest_free()).c_str());
  });
  const std::uint64_t offset = place_.begin + *at;
  buffers_[offset].bytes = bytes;
  return offset;
}

void RegisteredMemory::make_rows(std::size_t key_bytes) {
  row_words_ = (sizeof(abi::RegisteredRange) + key_bytes + sizeof(Word) - 1) / sizeof(Word);
  if (memory_.allocate) add_rows();
}

/// Adds many rows at a time for kernels. CUDA may wait for kernels when it allocates memory, and
/// kernels may wait for a heap that grows.
void RegisteredMemory::add_rows() {
  constexpr std::size_t kWords = 8192;
  const std::size_t count = memory_.allocate ? std::max<std::size_t>(1, kWords / row_words_) : 1;
  const std::size_t words = count * row_words_;
  void* const device = memory_.allocate ? memory_.allocate(words * sizeof(Word)) : nullptr;
  Word* const host = rows_.emplace_back(words).data();
  for (std::size_t at = 0; at < words; at += row_words_)
    free_.push_back({host + at, device ? static_cast<Word*>(device) + at : host + at});
}

void RegisteredMemory::prepare(std::uint64_t offset) {
  if (free_.empty()) add_rows();
  buffers_.at(offset).row = free_.back();
  free_.pop_back();
}

/// Stores the row's address for all granules of the range. Pairs with device::range_at.
void RegisteredMemory::enter_row(std::uint64_t offset, std::uint64_t bytes, const Row& row) {
  const std::uint64_t first = offset >> abi::kGranuleShift, count = granules(bytes);
  for (std::uint64_t i = first; i < first + count; ++i)
    __atomic_store_n(&host_table_[i], reinterpret_cast<Word>(row.host), __ATOMIC_RELEASE);
  if (!memory_.allocate) return;
  const std::vector<Word> copy(count, reinterpret_cast<Word>(row.device));
  memory_.upload(device_table_ + first, copy.data(), count * sizeof(Word));
}

/// The row is complete before its address is in a table: a thread that finds the range finds all of
/// it.
void RegisteredMemory::publish(std::uint64_t offset, const void* buffer, std::size_t bytes,
                               const nic::MemoryKeys::OfRange& keys) {
  Buffer& made = buffers_.at(offset);
  made.begin = reinterpret_cast<std::uintptr_t>(buffer);
  made.bytes = bytes;
  auto* const range = reinterpret_cast<abi::RegisteredRange*>(made.row.host);
  range->end = offset + bytes;
  auto* const remote = reinterpret_cast<abi::RemoteKeys*>(range + 1);
  auto* const local = std::copy(keys.remote.begin(), keys.remote.end(), remote);
  auto* const end =
      std::copy(keys.local.begin(), keys.local.end(), reinterpret_cast<abi::Be32*>(local));
  if (memory_.allocate) {
    const auto size = static_cast<std::size_t>(reinterpret_cast<const char*>(end) -
                                               reinterpret_cast<const char*>(range));
    memory_.upload(made.row.device, range, size);
  }
  enter_row(offset, bytes, made.row);
  made.is_published = true;
}

void RegisteredMemory::release(std::uint64_t offset) {
  const auto found = buffers_.find(offset);
  const Buffer& buffer = found->second;
  if (buffer.is_published) enter_row(offset, buffer.bytes, {});
  if (buffer.row.host) free_.push_back(buffer.row);
  buffers_.erase(found);
  allocator_.free(offset - place_.begin);
}

}  // namespace gshmem
