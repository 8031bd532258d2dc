// Tests which local memory device code finds keys of, what the NICs of the PE are told, and what
// the list refuses.
#include <gshmem/device/pe/p2p.h>

#include "host/runtime/local_ranges.h"
#include "tests/capture.h"
#include "tests/unit/p2p/kernel_memory.h"

#include <catch2/catch.hpp>

#include <sys/mman.h>

#include <map>
#include <string>
#include <vector>

using namespace gshmem;

namespace {

constexpr char kLocalCall[] = "call";

/// Memory of rows, which may be made unreadable.
class Rows {
 public:
  Rows()
      : pages_(
            ::mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)) {
    REQUIRE(pages_ != MAP_FAILED);
  }
  ~Rows() { ::munmap(pages_, kBytes); }
  Rows(const Rows&) = delete;
  [[nodiscard]] void* data() const { return pages_; }
  void allow(bool access) const {
    REQUIRE(::mprotect(pages_, kBytes, access ? PROT_READ | PROT_WRITE : PROT_NONE) == 0);
  }

 private:
  static constexpr std::size_t kBytes = 16384;
  static_assert(LocalRanges::bytes_for(2) <= kBytes);
  void* const pages_;
};

struct LocalAccount {
  explicit LocalAccount(bool has_network = true, bool on_gpu = false) {
    if (!has_network) return;
    state.local = memory.open(
        {.count = 2,
         .add =
             [this](const void* addr, std::size_t bytes, abi::Be32* keys) {
               require(bytes != refused, GSHMEMX_ERROR_NIC, "the NIC does not reach it");
               const bool is_new = registered.emplace(addr, bytes).second;
               require(is_new, GSHMEMX_ERROR_INTERNAL, "it is registered already");
               keys[0] = abi::Be32(++last);
               keys[1] = abi::Be32(last + 1000);
             },
         .remove = [this](const void* addr) { registered.erase(addr); }},
        rows.data(), on_gpu ? kernels.functions() : ContextTable::DeviceMemory{});
  }
  void add(std::uintptr_t at, std::size_t bytes) {
    memory.add(kLocalCall, reinterpret_cast<void*>(at), bytes);
  }
  [[nodiscard]] std::string error_of_add(std::uintptr_t at, std::size_t bytes) {
    try {
      add(at, bytes);
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  }
  [[nodiscard]] bool remove(std::uintptr_t at) {
    return memory.remove(reinterpret_cast<void*>(at));
  }
  /// Returns the key of the second NIC; 0: there is none.
  [[nodiscard]] std::uint32_t key(std::uintptr_t at, std::size_t bytes) const {
    const abi::Be32* const keys =
        device::local_range(state, reinterpret_cast<void*>(at), bytes).keys;
    return keys ? keys[1].get() : 0;
  }
  /// Is the first byte known to be in no range, without a read of any row?
  [[nodiscard]] bool is_nowhere(std::uintptr_t at) const {
    rows.allow(false);
    const bool none = key(at, 1) == 0;
    rows.allow(true);
    return none;
  }
  std::map<const void*, std::size_t> registered;
  std::size_t refused = 0;
  std::uint32_t last = 0;
  Rows rows;
  test::KernelMemory kernels;
  LocalRanges memory;
  abi::DeviceState state;
};

}  // namespace

TEST_CASE("local_memory_has_keys_from_its_first_to_its_last_byte") {
  LocalAccount account;
  CHECK(account.key(4096, 1) == 0);
  account.add(4096, 100);
  account.add(4196, 50);
  CHECK(account.key(4096, 100) == 1001);
  CHECK(account.key(4195, 1) == 1001);
  CHECK(account.key(4196, 50) == 1002);
  // Two ranges have two keys, though they are adjacent.
  CHECK(account.key(4195, 2) == 0);
  CHECK(account.key(4095, 2) == 0);
  CHECK(account.key(4245, 2) == 0);
  CHECK(account.remove(4096));
  CHECK(account.key(4096, 1) == 0);
  CHECK(account.key(4196, 50) == 1002);
  CHECK_FALSE(account.remove(4096));
  CHECK_FALSE(account.remove(4200));
  account.add(UINTPTR_MAX - 64, 64);
  CHECK(account.key(UINTPTR_MAX - 64, 64) == 1003);
  account.memory.clear();
  CHECK(account.registered.empty());
  CHECK(account.key(4196, 1) == 0);
}

TEST_CASE("a_range_that_is_registered_again_gets_new_keys") {
  LocalAccount account;
  account.add(4096, 100);
  account.add(4096, 100);
  CHECK(account.key(4096, 100) == 1002);
  CHECK(account.registered.size() == 1);
  CHECK_THAT(account.error_of_add(4096, 99), Catch::Contains("is registered in part"));
  CHECK_THAT(account.error_of_add(4000, 97), Catch::Contains("0x1000 (100 bytes)"));
  CHECK_THAT(account.error_of_add(4090, 200), Catch::Contains("is registered in part"));
  CHECK(account.key(4096, 100) == 1002);
  CHECK(account.remove(4096));
  CHECK(account.registered.empty());
}

TEST_CASE("memory_that_a_nic_refuses_is_in_the_list_and_has_no_keys") {
  LocalAccount account;
  account.refused = 100;
  {
    test::StderrCapture log;
    account.add(4096, 100);
    const auto lines = log.writes();
    REQUIRE(lines.size() == 1);
    CHECK_THAT(lines[0], Catch::Contains("call: no NIC accesses 0x1000 (100 bytes)") &&
                             Catch::Contains("the NIC does not reach it"));
  }
  CHECK(account.key(4096, 100) == 0);
  CHECK_THAT(account.error_of_add(4096, 99), Catch::Contains("is registered in part"));
  CHECK(account.remove(4096));
}

TEST_CASE("so_many_ranges_of_local_memory_have_keys_and_further_ones_are_a_warning") {
  LocalAccount account, mapped(false);
  for (std::uint32_t i = 1; i <= abi::kMaxLocal; ++i) {
    account.add(4096 * i, 8);
    mapped.add(4096 * i, 8);
  }
  CHECK(account.key(4096 * abi::kMaxLocal, 8) == 1000 + abi::kMaxLocal);
  {
    test::StderrCapture log;
    account.add(8, 8);
    const auto lines = log.writes();
    REQUIRE(lines.size() == 1);
    CHECK_THAT(lines[0], Catch::Contains("call: no NIC accesses 0x8 (8 bytes)") &&
                             Catch::Contains("256 other ranges are registered"));
  }
  CHECK(account.key(8, 8) == 0);
  CHECK(account.remove(8192));
  account.add(8, 8);
  CHECK(account.key(8, 8) != 0);
  mapped.add(8, 8);
  CHECK(mapped.key(8, 8) == 0);
  CHECK_THAT(mapped.error_of_add(9, 8), Catch::Contains("is registered in part"));
}

TEST_CASE("no_row_is_read_for_an_address_before_or_after_all_ranges") {
  LocalAccount account(true, GENERATE(false, true));
  CHECK(account.is_nowhere(4096));
  account.add(8192, 100);
  account.add(4096, 100);
  account.refused = 10;
  {
    const test::StderrCapture log;
    account.add(20000, 10);
  }
  CHECK(account.is_nowhere(4095));
  CHECK(account.is_nowhere(8292));
  CHECK(account.is_nowhere(20000));
  CHECK(account.key(4096, 100) == 1002);
  CHECK(account.key(5000, 1) == 0);
  CHECK(account.key(8291, 1) == 1001);
  CHECK(account.remove(8192));
  CHECK(account.is_nowhere(8192));
  CHECK(account.key(4096, 100) == 1002);
  account.memory.clear();
  CHECK(account.is_nowhere(4096));
}
