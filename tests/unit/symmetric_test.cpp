// Tests which memory is symmetric for device code: the heap, and the ranges in rows of the table.
#include <gshmem/device/pe/p2p.h>

#include <catch2/catch.hpp>

#include <vector>

using namespace gshmem;

namespace {

constexpr std::uint64_t kHeap = 4 * abi::kInternalBytes, kFirst = 2 * kHeap, kBytes = 4096;

struct Ranges {
  Ranges() {
    state.heap = reinterpret_cast<char*>(std::uintptr_t{1} << 32);
    state.heap_bytes = kHeap;
    state.n_pes = 2;
    state.my_pe = 0;
    state.mapped_count = 2;
    state.stride = 1 << 30;
    state.registered = rows.data();
    rows[0] = {kFirst, kFirst + kBytes};
    rows[1] = {kFirst + 2 * kBytes, 0};  // no longer registered
    rows[2] = {kFirst + 4 * kBytes, kFirst + 5 * kBytes};
  }
  [[nodiscard]] bool is(std::uint64_t offset, std::uint64_t bytes) const {
    return device::is_symmetric(state, state.heap + offset, bytes);
  }
  std::vector<abi::RegisteredRange> rows = std::vector<abi::RegisteredRange>(abi::kMaxRegistered);
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
  CHECK_FALSE(ranges.is(kFirst + 2 * kBytes, 1));
  CHECK(ranges.is(kFirst + 4 * kBytes, kBytes));
  CHECK_FALSE(ranges.is(kFirst + 4 * kBytes + 1, kBytes));
  CHECK_FALSE(ranges.is(kFirst + 4 * kBytes, UINT64_MAX));
  ranges.state.registered = nullptr;
  CHECK_FALSE(ranges.is(kFirst, kBytes));
}

TEST_CASE("registered_objects_are_found_at_peers_by_the_stride") {
  const Ranges ranges;
  char* const own = ranges.state.heap + kFirst + 4 * kBytes + 8;
  CHECK(device::ptr(ranges.state, own, 1) == own + (1 << 30));
  CHECK(device::ptr(ranges.state, own, 0) == own);
  CHECK(device::ptr(ranges.state, own + kBytes, 1) == nullptr);
}
