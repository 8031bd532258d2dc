#include "host/runtime/symmetric_heap.h"

#include <gshmem/abi/state.h>

#include "host/base/log.h"
#include "host/base/run_phase.h"

#include <algorithm>
#include <bit>
#include <cstring>

namespace gshmem {
namespace {

/// Returns the result of `work`. Adds the name of the API call to the text of its Error.
template <class Work>
auto named(const char* call, const Work& work) {
  try {
    return work();
  } catch (const Error& error) {
    throw Error(error.code(), strprintf("%s: %s", call, error.what()));
  }
}

std::uint64_t rounded_up(std::uint64_t bytes, std::uint64_t unit) {
  return (bytes + unit - 1) / unit * unit;
}

}  // namespace

SymmetricHeap::SymmetricHeap(const Memory& memory, const Growth& growth, Collectives& ranks,
                             std::function<void()> require_running)
    : memory_(memory),
      ranks_(ranks),
      require_running_(std::move(require_running)),
      growth_(growth) {
  constexpr std::uint64_t kBegin = abi::kInternalBytes;
  parts_.push_back(
      {kBegin, OffsetAllocator(memory.bytes - kBegin, OffsetAllocator::kGranularity, kBegin)});
  growth_.limit = std::max(growth_.limit, capacity());
}

std::uint64_t SymmetricHeap::capacity() const {
  std::uint64_t bytes = 0;
  for (const Part& part : parts_) bytes += part.blocks.capacity();
  return bytes;
}

char* SymmetricHeap::at(const Place& place) const {
  return memory_.heap + parts_[place.part].begin + place.offset;
}

std::uint64_t SymmetricHeap::offset_of(const Place& place) const {
  return parts_[place.part].begin + place.offset - abi::kInternalBytes;
}

SharedArgument SymmetricHeap::ptr_at(const Place& place) const {
  return {"argument ptr", offset_of(place), SharedArgument::Form::kHeapOffset};
}

void SymmetricHeap::agree(const char* call, std::initializer_list<SharedArgument> arguments) {
  named(call, [&] { require_running_(); });
  require_same_call(ranks_, call, arguments);
}

std::optional<SymmetricHeap::Place> SymmetricHeap::find(const void* ptr) const {
  const auto offset = static_cast<std::uint64_t>(static_cast<const char*>(ptr) - memory_.heap);
  for (std::size_t i = 0; i < parts_.size(); ++i) {
    const Part& part = parts_[i];
    if (offset - part.begin < part.blocks.capacity()) return Place{i, offset - part.begin};
  }
  return std::nullopt;
}

SymmetricHeap::Place SymmetricHeap::place_of(const char* call, const void* ptr) const {
  const std::optional<Place> place = find(ptr);
  require(place.has_value(), GSHMEMX_ERROR_INVALID_VALUE,
          strprintf("%s: argument ptr = %p is not in the symmetric heap", call, ptr));
  return *place;
}

std::uint64_t SymmetricHeap::size_of(const char* call, const void* ptr, const Place& place) const {
  try {
    return parts_[place.part].blocks.size_of(place.offset);
  } catch (const Error& error) {
    throw Error(error.code(), strprintf("%s: argument ptr = %p: %s", call, ptr, error.what()));
  }
}

void* SymmetricHeap::allocate(const char* call, std::size_t bytes, std::size_t alignment,
                              bool clear) {
  const std::lock_guard lock(mutex_);
  require(std::has_single_bit(alignment), GSHMEMX_ERROR_INVALID_VALUE,
          strprintf("%s: argument alignment = %zu is not a power of two", call, alignment));
  if (clear)
    agree(call, {{"count * size", bytes}});
  else
    agree(call, {{"argument size", bytes}, {"argument alignment", alignment}});
  return allocate_agreed(call, bytes, alignment, clear);
}

void* SymmetricHeap::allocate_agreed(const char* call, std::size_t bytes, std::size_t alignment,
                                     bool clear) {
  if (bytes == 0) return nullptr;
  void* const result = room_for(call, bytes, alignment);
  if (!result) return nullptr;
  if (clear) zero(result, bytes);
  named(call, [&] { ranks_.barrier(); });
  return result;
}

/// Returns null when the heap is full and does not grow. All PEs get the same result, since they
/// make the same calls on equal heaps. A request larger than any heap counts as out of memory, even
/// if the allocator calls it invalid.
void* SymmetricHeap::room_for(const char* call, std::size_t bytes, std::size_t alignment) {
  const auto none = [&](const std::string& why) {
    GSHMEM_WARN("%s: %s", call, why.c_str());
    return nullptr;
  };
  if (alignment > memory_.alignment)
    return none(
        strprintf("argument alignment = %zu is larger than that of the heap, %lu; raise "
                  "GSHMEM_SYMMETRIC_SIZE",
                  alignment, memory_.alignment));
  if (bytes > growth_.limit)
    return none(strprintf("%s requested of a heap of %s%s", size_text(bytes).c_str(),
                          size_text(growth_.limit).c_str(), growth_.advice.c_str()));
  if (void* const found = room_in_parts(bytes, alignment)) return found;
  const std::string failure = named(call, [&] { return grow(bytes, alignment); });
  if (void* const found = room_in_parts(bytes, alignment)) return found;
  return none(fullness(bytes, alignment) + failure);
}

void* SymmetricHeap::room_in_parts(std::size_t bytes, std::size_t alignment) {
  const std::lock_guard change(blocks_mutex_);
  for (std::size_t i = 0; i < parts_.size(); ++i) {
    if (const auto offset = parts_[i].blocks.try_allocate(bytes, alignment))
      return at({i, *offset});
  }
  return nullptr;
}

std::string SymmetricHeap::fullness(std::size_t bytes, std::size_t alignment) const {
  std::uint64_t free = 0, largest = 0;
  for (const Part& part : parts_) {
    free += part.blocks.bytes_free();
    largest = std::max(largest, part.blocks.largest_free());
  }
  return strprintf(
      "symmetric heap: %s requested (aligned to %zu), %s of %s free, largest free block %s",
      size_text(bytes).c_str(), alignment, size_text(free).c_str(), size_text(capacity()).c_str(),
      size_text(largest).c_str());
}

/// Returns the size of a new part for a block that needs `needed` bytes. The part has room for
/// several such blocks if there were many before, and for many blocks if they are small. So the
/// number of parts stays small. Blocks of one size leave no bytes unused.
std::uint64_t SymmetricHeap::wanted_for(std::uint64_t needed) const {
  constexpr std::uint64_t kShareOfHeap = 8, kShareOfStep = 4;
  const std::uint64_t least = std::max(needed, capacity() / kShareOfHeap);
  const std::uint64_t unit = needed < growth_.step / kShareOfStep ? growth_.step : needed;
  const std::uint64_t room = growth_.limit - capacity();
  return std::min(rounded_up(least, unit), room / growth_.granularity * growth_.granularity);
}

/// Adds a part in which the block fits. If there is not enough memory, the size of the part is
/// halved until only the block fits. Smaller parts are avoided, since many parts take long to
/// search. Returns why the heap has not grown, as a text that continues fullness(); empty if it has
/// grown. Errors: those of Growth::add that are not PhaseError.
std::string SymmetricHeap::grow(std::uint64_t bytes, std::uint64_t alignment) {
  const std::uint64_t needed = rounded_up(bytes, growth_.granularity);
  if (!growth_.add || needed > growth_.limit - capacity()) return growth_.advice;
  const std::uint64_t align = std::max(alignment, growth_.granularity);
  std::uint64_t size = wanted_for(needed);
  while (const std::optional<std::string> why = add_part(size, align)) {
    if (size == needed) return ", and it does not grow: " + *why;
    GSHMEM_INFO("the heap grows by less than %s: %s", size_text(size).c_str(), why->c_str());
    size = std::max(needed, size / 2 / growth_.granularity * growth_.granularity);
  }
  return "";
}

/// Returns nothing on success, otherwise why all PEs have failed. Then all have given back the
/// memory of this attempt.
std::optional<std::string> SymmetricHeap::add_part(std::uint64_t bytes, std::uint64_t alignment) {
  std::uint64_t begin = 0;
  try {
    begin = growth_.add(bytes, alignment);
  } catch (const PhaseError& error) {
    ranks_.barrier();
    return error.what();
  }
  const std::lock_guard change(blocks_mutex_);
  parts_.push_back({begin, OffsetAllocator(bytes, OffsetAllocator::kGranularity, begin)});
  GSHMEM_INFO("symmetric heap: %s more, %s in all", size_text(bytes).c_str(),
              size_text(capacity()).c_str());
  return std::nullopt;
}

std::unique_lock<std::mutex> SymmetricHeap::enter(const char* call,
                                                  const SharedArgument& argument) {
  std::unique_lock lock(mutex_);
  agree(call, {argument});
  return lock;
}

void SymmetricHeap::free(const char* call, void* ptr) {
  if (!ptr) return;
  const std::lock_guard lock(mutex_);
  const Place place = place_of(call, ptr);
  (void)size_of(call, ptr, place);  // an invalid address is this PE's error only
  // This is also the barrier that the specification requires. The size of a realloc may be 0.
  agree(call, {ptr_at(place), {"argument size", 0}});
  const std::lock_guard change(blocks_mutex_);
  parts_[place.part].blocks.free(place.offset);
}

void* SymmetricHeap::reallocate(const char* call, void* ptr, std::size_t bytes) {
  if (!ptr) {
    const std::lock_guard lock(mutex_);
    agree(call, {{"argument ptr", SharedArgument::kNull, SharedArgument::Form::kHeapOffset},
                 {"argument size", bytes}});
    return allocate_agreed(call, bytes, OffsetAllocator::kGranularity, false);
  }
  if (bytes == 0) {
    free(call, ptr);
    return nullptr;
  }
  const std::lock_guard lock(mutex_);
  const Place place = place_of(call, ptr);
  const std::uint64_t old_bytes = size_of(call, ptr, place);
  agree(call, {ptr_at(place), {"argument size", bytes}});
  {
    OffsetAllocator& blocks = parts_[place.part].blocks;
    const std::lock_guard change(blocks_mutex_);
    if (bytes <= blocks.capacity() && blocks.reallocate(place.offset, bytes)) return ptr;
  }
  void* const moved = room_for(call, bytes, OffsetAllocator::kGranularity);
  if (!moved) return nullptr;
  copy(moved, ptr, old_bytes);
  named(call, [&] { ranks_.barrier(); });
  const std::lock_guard change(blocks_mutex_);
  parts_[place.part].blocks.free(place.offset);
  return moved;
}

std::string SymmetricHeap::complaint(const void* p, std::uint64_t bytes) const {
  using State = OffsetAllocator::State;
  const std::shared_lock reading(blocks_mutex_);
  const std::optional<Place> place = find(p);
  if (!place) return "";
  const OffsetAllocator& blocks = parts_[place->part].blocks;
  const std::uint64_t first = place->offset, base = offset_of({place->part, 0});
  const auto block = blocks.containing(first);
  const auto name_of = [&](const OffsetAllocator::Block& one) {
    return strprintf("the allocation of %s at offset %lu", size_text(one.requested_bytes).c_str(),
                     base + one.offset);
  };
  const std::uint64_t end = first + bytes;
  std::uint64_t next = block->offset + block->reserved_bytes;
  std::string text;
  if (block->state == State::kUsed) {
    const std::uint64_t last = block->offset + block->requested_bytes;
    if (end <= last) return "";
    text = first < last ? strprintf("%lu bytes leave %s", end - last, name_of(*block).c_str())
                        : "it begins after " + name_of(*block);
  } else {
    text = strprintf("it begins at offset %lu, where nothing is allocated", base + first);
  }
  while (next < end) {
    const auto other = blocks.containing(next);
    if (!other) break;
    if (other->state == State::kUsed) return text + "; it overlaps " + name_of(*other);
    next = other->offset + other->reserved_bytes;
  }
  return text;
}

void SymmetricHeap::copy(void* dst, const void* src, std::size_t bytes) {
  if (memory_.gpu) {
    memory_.gpu->copy(dst, src, bytes);
  } else {
    std::memcpy(dst, src, bytes);
  }
}

void SymmetricHeap::zero(void* dst, std::size_t bytes) {
  if (memory_.gpu) {
    memory_.gpu->zero(dst, bytes);
  } else {
    std::memset(dst, 0, bytes);
  }
}

}  // namespace gshmem
