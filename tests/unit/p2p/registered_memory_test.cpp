// Tests where registered memory is mapped, which of it device code knows, and what the account
// refuses.
#include <gshmem/device/pe/p2p.h>

#include "host/runtime/registered_memory.h"

#include <catch2/catch.hpp>

#include <string>
#include <vector>

using namespace gshmem;

namespace {

constexpr std::uint64_t kBegin = abi::kInternalBytes + (4 << 20), kBytes = 1 << 20, kPage = 4096;

struct Account {
  Account() {
    state.heap = reinterpret_cast<char*>(std::uintptr_t{1} << 32);
    state.heap_bytes = kBegin - kPage;  // the rest belongs to the library
    state.stride = 1 << 30;
    state.registered = rows.data();
  }
  std::uint64_t add(std::uint64_t bytes, std::optional<std::uint64_t> wish = {}) {
    const std::uint64_t offset = memory.reserve("call", bytes, wish);
    buffer += 10 * kBytes;
    memory.publish(offset, reinterpret_cast<void*>(buffer), bytes, {});
    return offset;
  }
  [[nodiscard]] bool knows(std::uint64_t offset, std::uint64_t bytes) const {
    return device::is_symmetric(state, state.heap + offset, bytes);
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
  std::vector<abi::RegisteredRange> rows{abi::kMaxRegistered};
  RegisteredMemory memory{{kBegin, kBytes, kPage}, rows.data()};
  abi::DeviceState state;
  std::uintptr_t buffer = std::uintptr_t{1} << 40;
};

}  // namespace

TEST_CASE("registered_memory_is_symmetric_up_to_its_last_byte") {
  Account account;
  CHECK_FALSE(account.knows(kBegin, 1));
  const std::uint64_t first = account.add(2 * kPage), second = account.add(kPage);
  CHECK(first == kBegin);
  CHECK(second == kBegin + 2 * kPage);
  CHECK(account.knows(first, 2 * kPage));
  CHECK(account.knows(first + 2 * kPage - 1, 1));
  CHECK_FALSE(account.knows(first, 2 * kPage + 1));  // two objects, though they are adjacent
  CHECK_FALSE(account.knows(first - 1, 1));
  CHECK(account.knows(second, kPage));
  CHECK_FALSE(account.knows(second + kPage, 1));
  CHECK_FALSE(account.knows(second, UINT64_MAX));
  CHECK(account.knows(abi::kInternalBytes, 1));
  account.memory.release(first);
  CHECK_FALSE(account.knows(first, 1));
  CHECK(account.knows(second, kPage));
  CHECK(account.add(kPage) == first);
  CHECK(account.knows(first, kPage));
  CHECK_FALSE(account.knows(first + kPage, 1));
}

TEST_CASE("part_for_which_there_is_no_address_is_refused_with_what_to_raise") {
  Account account;
  account.add(kBytes / 2);
  CHECK_THAT(Account::error_of([&] { (void)account.memory.reserve_part(kBytes / 4 * 3, kPage); }),
             Catch::Contains("786432 bytes (768 KiB) needed") &&
                 Catch::Contains("524288 bytes (512 KiB) of them in one piece; raise "
                                 "GSHMEM_REGISTERED_SIZE"));
}

TEST_CASE("part_for_which_there_is_no_row_is_refused_with_what_to_raise") {
  Account account;
  for (std::size_t i = 0; i < abi::kMaxRegistered; ++i) (void)account.memory.reserve_part(kPage, 1);
  CHECK_THAT(Account::error_of([&] { (void)account.memory.reserve_part(kPage, 1); }),
             Catch::Contains("256 parts") && Catch::Contains("; raise GSHMEM_SYMMETRIC_SIZE"));
}

TEST_CASE("a_requested_offset_is_used_if_it_is_free_and_aligned_and_in_the_range") {
  Account account;
  const std::uint64_t wish = kBegin + 16 * kPage;
  CHECK(account.add(kPage, wish) == wish);
  for (const std::uint64_t bad :
       {wish, wish + 8, kBegin + kBytes, kBegin - kPage, std::uint64_t{0}}) {
    const std::uint64_t got = account.add(kPage, bad);
    CHECK(got != bad);
    CHECK((got >= kBegin && got < kBegin + kBytes && got % kPage == 0));
  }
}
