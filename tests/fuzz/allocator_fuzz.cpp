// Uses bytes as calls to the heap's allocator, each compared with the granule map. A difference
// throws an exception that ends the fuzzer with the input that caused it.
#include "tests/unit/heap/checked_allocator.h"

#include <cstddef>
#include <cstdint>
#include <iterator>

namespace {

constexpr std::uint64_t kGranularity = gshmem::OffsetAllocator::kGranularity;
constexpr std::uint64_t kCapacityBytes = 256 * kGranularity;

/// Four bytes are one call: kind and alignment, two of size, and the block.
struct Call {
  std::uint8_t kind, size_low, size_high, pick;
  [[nodiscard]] std::uint64_t bytes() const { return 1u + size_low + 256u * (size_high % 192u); }
  [[nodiscard]] std::uint64_t alignment() const { return std::uint64_t{1} << (kind >> 2) % 16; }
};

void apply(gshmem::test::CheckedAllocator& heap, const Call& call) {
  const auto& used = heap.used();
  const auto kind = call.kind % 4;
  if (kind == 0 || used.empty()) {
    heap.allocate(call.bytes(), call.alignment());
    return;
  }
  const std::uint64_t offset =
      std::next(used.begin(), static_cast<std::ptrdiff_t>(call.pick % used.size()))->first;
  if (kind == 1) {
    heap.free(offset);
  } else if (kind == 2) {
    heap.reallocate(offset, call.bytes());
  } else if (used.count(call.bytes()) == 0) {
    heap.free_wrong(call.bytes());
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  gshmem::test::CheckedAllocator heap(kCapacityBytes, kGranularity);
  for (; size >= 4; data += 4, size -= 4) {
    apply(heap, {data[0], data[1], data[2], data[3]});
    heap.verify();
  }
  while (!heap.used().empty()) heap.free(heap.used().begin()->first);
  heap.verify();
  return 0;
}
