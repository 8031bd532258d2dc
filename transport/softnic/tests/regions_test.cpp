// Tests keys of registered memory, and what they permit.
#include "transport/softnic/tests/softnic.h"
#include "transport/softnic/fabric.h"
#include "transport/softnic/memory.h"
#include "transport/softnic/regions.h"

#include <catch2/catch.hpp>

#include <algorithm>
#include <cstdint>
#include <set>
#include <utility>

namespace gshmem::test {
namespace {

alignas(4096) std::uint8_t registered[4096];

std::uint32_t new_key(soft::RegionTable& table) {
  return table.create(
      {.pd = 1, .address = registered, .bytes = 4096, .iova = 0x1000, .access = 15});
}

/// Memory in which data is visible only after a flush.
class Staging final : public soft::MemoryAccess {
 public:
  bool write(void* to, const void* from, std::size_t bytes) override {
    const auto* first = static_cast<const std::uint8_t*>(from);
    to_ = static_cast<std::uint8_t*>(to);
    staged_.assign(first, first + bytes);
    return true;
  }
  bool read(const Part*, std::size_t) override { return false; }
  bool atomic(void*, const nic::Wqe&, std::uint64_t*) override { return false; }
  bool flush() override {
    std::copy(staged_.begin(), staged_.end(), to_);
    staged_.clear();
    return true;
  }
  [[nodiscard]] bool batched() const override { return true; }

 private:
  std::uint8_t* to_ = nullptr;
  Bytes staged_;
};

TEST_CASE("writes_to_a_region_are_stored_before_it_is_deregistered") {
  Staging access;
  soft::RegionTable table;
  std::uint8_t bytes[8] = {};
  const std::uint32_t key = table.create(
      {.pd = 1, .address = bytes, .bytes = 8, .iova = 0, .access = 15, .memory = &access});
  const char* why = "";
  const soft::Region* region = table.check(key, 1, soft::kRemoteWrite, 4, 1, &why);
  REQUIRE(region != nullptr);
  const std::uint8_t byte = 0x5a;
  REQUIRE(region->memory->write(region->at(4), &byte, 1));
  CHECK(bytes[4] == 0);
  table.destroy(key);
  CHECK(bytes[4] == 0x5a);
}

TEST_CASE("access_is_inside_of_a_region_except_for_no_bytes") {
  soft::RegionTable table;
  const std::uint32_t key = new_key(table);
  const auto inside = [&](std::uint64_t address, std::uint64_t bytes) {
    const char* why = "";
    return table.check(key, 1, soft::kRemoteWrite, address, bytes, &why) != nullptr;
  };
  CHECK(inside(0x1000, 4096));
  CHECK(inside(0x1fff, 1));
  for (const auto& [address, bytes] : {std::pair<std::uint64_t, std::uint64_t>{0xfff, 1},
                                       {0xfff, 2},
                                       {0x2000, 1},
                                       {0x1fff, 2},
                                       {0x1000, 4097},
                                       {0xfff, 4097},
                                       {0x1001, ~0ull},
                                       {~0ull, 1}}) {
    INFO(address << " " << bytes);
    CHECK_FALSE(inside(address, bytes));
  }
  for (const std::uint64_t address : {0ull, 0xfffull, 0x2000ull, 0x2001ull, ~0ull})
    CHECK(inside(address, 0));
}

}  // namespace
}  // namespace gshmem::test
