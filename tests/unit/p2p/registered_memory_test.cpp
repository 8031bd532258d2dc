// Tests where registered memory is mapped, which of it device code knows, and what the account
// refuses.
#include <gshmem/device/pe/p2p.h>

#include "host/runtime/registered_memory.h"
#include "tests/unit/p2p/kernel_memory.h"

#include <catch2/catch.hpp>

#include <string>
#include <vector>

using namespace gshmem;

namespace {

constexpr std::uint64_t kGranule = abi::kGranuleBytes, kBegin = abi::kInternalBytes + 8 * kGranule,
                        kBytes = 256 * kGranule, kStride = std::uint64_t{1} << 30, kPage = 4096;
constexpr int kPes = 3, kRails = 2, kNics = 3;

/// It also looks at memory of kernels, as they do.
struct Account {
  explicit Account(bool on_gpu = false)
      : memory({kBegin, kBytes, kGranule, kStride},
               on_gpu ? kernels.functions() : ContextTable::DeviceMemory{}) {
    state.heap = reinterpret_cast<char*>(std::uintptr_t{1} << 32);
    state.heap_bytes = kBegin - kPage;  // the rest belongs to the library
    state.stride = kStride;
    state.n_pes = kPes;
    state.key_rails = kRails;
    memory.enter(state);
    memory.make_rows(kPes * kRails * sizeof(abi::RemoteKeys) + kNics * sizeof(abi::Be32));
    in_kernels = state;
    in_kernels.host_registered = state.registered;
  }
  std::uint64_t add(std::uint64_t bytes, std::optional<std::uint64_t> wish = {}) {
    return publish(memory.reserve("call", bytes, wish), bytes);
  }
  std::uint64_t publish(std::uint64_t offset, std::uint64_t bytes) {
    memory.prepare(offset);
    nic::MemoryKeys::OfRange keys;
    for (int i = 0; i < kPes * kRails; ++i)
      keys.remote.push_back({abi::Be32(++last_key), abi::Be32(++last_key)});
    for (int i = 0; i < kNics; ++i) keys.local.emplace_back(++last_key);
    buffer += 2 * kBytes;
    memory.publish(offset, reinterpret_cast<void*>(buffer), bytes, keys);
    return offset;
  }
  [[nodiscard]] bool knows(std::uint64_t offset, std::uint64_t bytes) const {
    const bool known = device::is_symmetric(state, state.heap + offset, bytes);
    CHECK(device::is_symmetric(in_kernels, state.heap + offset, bytes) == known);
    return known;
  }
  /// Returns the keys that kernels find, in order.
  [[nodiscard]] std::vector<std::uint32_t> keys(std::uint64_t offset) const {
    std::vector<std::uint32_t> found;
    const abi::RegisteredRange* const range = device::range_at(in_kernels, offset);
    if (!range) return found;
    for (int i = 0; i < kPes * kRails; ++i) {
      found.push_back(device::remote_keys(*range)[i].payload.get());
      found.push_back(device::remote_keys(*range)[i].atomic.get());
    }
    for (int i = 0; i < kNics; ++i)
      found.push_back(device::local_keys(*range, kPes * kRails)[i].get());
    return found;
  }
  template <class Call>
  [[nodiscard]] static std::string error_of(const Call& call) {
    try {
      call();
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  }
  test::KernelMemory kernels;
  RegisteredMemory memory;
  abi::DeviceState state, in_kernels;
  std::uintptr_t buffer = std::uintptr_t{1} << 40;
  std::uint32_t last_key = 0;
};

}  // namespace

TEST_CASE("registered_memory_is_symmetric_up_to_its_last_byte") {
  Account account(GENERATE(false, true));
  CHECK_FALSE(account.knows(kBegin, 1));
  const std::uint64_t first = account.add(kGranule + kPage), second = account.add(kPage);
  CHECK(first == kBegin);
  CHECK(second == kBegin + 2 * kGranule);
  CHECK(account.knows(first, kGranule + kPage));
  CHECK(account.knows(first + kGranule + kPage - 1, 1));
  CHECK_FALSE(account.knows(first, kGranule + kPage + 1));
  CHECK_FALSE(account.knows(first - 1, 1));
  CHECK(account.knows(second, kPage));
  CHECK_FALSE(account.knows(second + kPage, 1));
  CHECK_FALSE(account.knows(second, UINT64_MAX));
  CHECK(account.knows(abi::kInternalBytes, 1));
  account.memory.release(first);
  CHECK_FALSE(account.knows(first, 1));
  CHECK_FALSE(account.knows(first + kGranule, 1));
  CHECK(account.knows(second, kPage));
  CHECK(account.add(kPage) == first);
  CHECK(account.knows(first, kPage));
  CHECK_FALSE(account.knows(first + kPage, 1));
}

TEST_CASE("adjacent_registered_memory_is_two_objects") {
  Account account(GENERATE(false, true));
  const std::uint64_t first = account.add(2 * kGranule), second = account.add(kGranule);
  CHECK(second == first + 2 * kGranule);
  CHECK(account.knows(second - 1, 1));
  CHECK(account.knows(second, kGranule));
  CHECK_FALSE(account.knows(second - 1, 2));
}

TEST_CASE("kernels_find_the_keys_of_registered_memory_at_each_of_its_bytes") {
  Account account(GENERATE(false, true));
  const auto from = [](std::uint32_t key) {
    std::vector<std::uint32_t> all(2 * kPes * kRails + kNics);
    for (std::uint32_t& each : all) each = key++;
    return all;
  };
  const std::uint64_t first = account.add(3 * kGranule), second = account.add(kPage);
  const std::vector<std::uint32_t> of_first = from(1), of_second = from(16);
  for (const std::uint64_t at : {first, first + kGranule, first + 3 * kGranule - 1})
    CHECK(account.keys(at) == of_first);
  CHECK(account.keys(second) == of_second);
  CHECK(account.keys(second + kGranule).empty());
  account.memory.release(first);
  CHECK(account.keys(first + kGranule).empty());
  CHECK(account.keys(second) == of_second);
  CHECK(account.add(kGranule) == first);
  CHECK(account.keys(first) == from(31));
  CHECK(account.keys(second) == of_second);
}

TEST_CASE("part_for_which_there_is_no_address_is_refused_with_what_to_raise") {
  Account account;
  account.add(kBytes / 2);
  CHECK_THAT(
      Account::error_of([&] { (void)account.memory.reserve_part(kBytes / 4 * 3, kGranule); }),
      Catch::Contains("402653184 bytes (384 MiB) needed") &&
          Catch::Contains("268435456 bytes (256 MiB) of them contiguous; raise "
                          "GSHMEM_REGISTERED_SIZE"));
}

TEST_CASE("addresses_alone_limit_the_number_of_parts") {
  Account account(GENERATE(false, true));
  for (std::uint64_t i = 0; i < kBytes / kGranule; ++i)
    (void)account.publish(account.memory.reserve_part(kGranule, 1), kGranule);
  CHECK(account.keys(kBegin).front() == 1);
  CHECK(account.keys(kBegin + kBytes - 1).back() == account.last_key);
  CHECK_THAT(Account::error_of([&] { (void)account.memory.reserve_part(kGranule, 1); }),
             Catch::Contains("; raise GSHMEM_REGISTERED_SIZE"));
}

TEST_CASE("memory_that_kernels_lack_for_rows_leaves_all_else_as_it_was") {
  // A row takes more than is allocated at a time: each is an allocation of its own.
  test::KernelMemory kernels;
  RegisteredMemory memory({kBegin, kBytes, kGranule, kStride}, kernels.functions());
  memory.make_rows(100000);
  const std::uint64_t first = memory.reserve_part(kGranule, 1);
  memory.prepare(first);
  kernels.fill();
  const std::uint64_t next = memory.reserve_part(kGranule, 1);
  CHECK_THAT(Account::error_of([&] { memory.prepare(next); }),
             Catch::Contains("no memory of kernels"));
  memory.release(next);
  memory.release(first);
  CHECK(memory.reserve_part(kGranule, 1) == first);
  memory.prepare(first);  // the row is free again
}

TEST_CASE("a_requested_offset_is_used_if_it_is_free_and_aligned_and_in_the_range") {
  Account account;
  const std::uint64_t wish = kBegin + 16 * kGranule;
  CHECK(account.add(kGranule, wish) == wish);
  for (const std::uint64_t bad :
       {wish, wish + 8, kBegin + kBytes, kBegin - kGranule, std::uint64_t{0}}) {
    const std::uint64_t got = account.add(kGranule, bad);
    CHECK(got != bad);
    CHECK((got >= kBegin && got < kBegin + kBytes && got % kGranule == 0));
  }
}
