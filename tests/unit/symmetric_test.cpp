// Tests which memory is symmetric for device code: the heap, and the ranges that the table names.
#include <gshmem/device/pe/p2p.h>

#include <catch2/catch.hpp>

#include <vector>

using namespace gshmem;

namespace {

constexpr std::uint64_t kHeap = 4 * abi::kInternalBytes, kBytes = 4096,
                        kGranule = abi::kGranuleBytes, kFirst = 2 * kHeap,
                        kSecond = kFirst + 2 * kGranule, kStride = 1 << 30;

struct Ranges {
  Ranges() {
    state.heap = reinterpret_cast<char*>(std::uintptr_t{1} << 32);
    state.heap_bytes = kHeap;
    state.n_pes = 2;
    state.my_pe = 0;
    state.mapped_count = 2;
    state.stride = kStride;
    state.host_registered = table.data();
    at(kFirst) = &first;
    at(kSecond) = at(kSecond + kGranule) = &second;
    at(kStride - kGranule) = &last;
    at(kStride) = &after;  // it is not among the addresses of this PE
  }
  [[nodiscard]] const abi::RegisteredRange*& at(std::uint64_t offset) {
    return table[offset >> abi::kGranuleShift];
  }
  [[nodiscard]] bool is(std::uint64_t offset, std::uint64_t bytes) const {
    return device::is_symmetric(state, state.heap + offset, bytes);
  }
  const abi::RegisteredRange first{kFirst + kBytes}, second{kSecond + kGranule + kBytes},
      last{kStride}, after{kStride + kBytes};
  std::vector<const abi::RegisteredRange*> table =
      std::vector<const abi::RegisteredRange*>((kStride >> abi::kGranuleShift) + 1);
  abi::DeviceState state;
};

}  // namespace

TEST_CASE("objects_are_symmetric_in_the_heap_and_in_registered_memory") {
  Ranges ranges;
  CHECK(ranges.is(abi::kInternalBytes, kHeap - abi::kInternalBytes));
  CHECK_FALSE(ranges.is(abi::kInternalBytes - 1, 1));
  CHECK_FALSE(ranges.is(kHeap - 1, 2));
  CHECK_FALSE(ranges.is(kHeap, 1));
  CHECK(ranges.is(kFirst, kBytes));
  CHECK_FALSE(ranges.is(kFirst, kBytes + 1));
  CHECK_FALSE(ranges.is(kFirst - 1, 2));
  CHECK(ranges.is(kFirst + kBytes - 1, 1));
  CHECK_FALSE(ranges.is(kFirst + kBytes, 0));
  CHECK_FALSE(ranges.is(kFirst + kGranule, 1));
  CHECK(ranges.is(kSecond, kGranule + kBytes));
  CHECK(ranges.is(kSecond + kGranule, kBytes));
  CHECK_FALSE(ranges.is(kSecond + 1, kGranule + kBytes));
  CHECK_FALSE(ranges.is(kSecond + kGranule + kBytes, 1));
  CHECK_FALSE(ranges.is(kSecond, UINT64_MAX));
  CHECK(ranges.is(kStride - 1, 1));
  CHECK_FALSE(ranges.is(kStride, 0));
  ranges.state.host_registered = nullptr;
  CHECK_FALSE(ranges.is(kFirst, kBytes));
}

TEST_CASE("registered_objects_are_found_at_peers_by_the_stride") {
  const Ranges ranges;
  char* const own = ranges.state.heap + kSecond + kGranule + 8;
  CHECK(device::ptr(ranges.state, own, 1) == own + kStride);
  CHECK(device::ptr(ranges.state, own, 0) == own);
  CHECK(device::ptr(ranges.state, own + kBytes, 1) == nullptr);
}
