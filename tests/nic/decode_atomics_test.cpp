// Tests atomics of the decoder: golden bytes, entries that it must refuse, and their effect on a
// word.
#include "transport/nic/decode.h"

#include <catch2/catch.hpp>

#include <cstdint>
#include <initializer_list>
#include <vector>

namespace gshmem::nic {
namespace {

using Bytes = std::vector<std::uint8_t>;
using Catch::Contains;

/// Makes an entry of a control and a remote segment, `operands`, and a data segment of `result`
/// bytes.
Bytes entry(std::uint8_t opmod, std::uint8_t opcode, const Bytes& operands, std::uint8_t result) {
  const auto ds = static_cast<std::uint8_t>(3 + operands.size() / 16);
  Bytes wqe = {opmod, 0, 7, opcode, 0, 0, 0x41, ds,   0, 0, 0, 8, 0, 0, 0, 0,   // control
               0,     0, 0, 0,      0, 0, 0x20, 0x08, 0, 0, 1, 2, 0, 0, 0, 0};  // remote
  const Bytes data = {0, 0, 0, result, 0, 0, 3, 4, 0, 0, 0, 0, 0, 0, 0x30, 0};
  for (const std::uint8_t byte : operands) wqe.push_back(byte);
  for (const std::uint8_t byte : data) wqe.push_back(byte);
  return wqe;
}

const Bytes kTwo8 = {1, 2, 3, 4, 5, 6, 7, 8, 0x11, 0x12, 0x13, 0x14, 0x15, 0x16, 0x17, 0x18};
const Bytes kAdd8 = {1, 2, 3, 4, 5, 6, 7, 8, 0, 0, 0, 0, 0, 0, 0, 0};
const Bytes kAdd4 = {0, 0, 0, 5, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0};
const Bytes kSwap4 = {0, 0, 0, 1, 0, 0, 0, 2, 0, 0, 0, 3, 0, 0, 0, 4};

Wqe good_atomic(const Bytes& bytes) {
  const DecodeResult result = decode_wqe(bytes.data(), bytes.size());
  INFO(result.reason);
  CHECK(result.error == WqeError::kNone);
  CHECK(result.wqe.is_atomic());
  CHECK(result.wqe.remote_address == 0x2008);
  CHECK(result.wqe.remote_key == 0x102);
  REQUIRE(result.wqe.local.size() == 1);
  CHECK(result.wqe.local[0].key == 0x304);
  CHECK(result.wqe.local[0].bytes == result.wqe.length);
  return result.wqe;
}

void bad_atomic(const Bytes& bytes, const char* reason,
                WqeError error = WqeError::kLocalOperation) {
  const DecodeResult result = decode_wqe(bytes.data(), bytes.size());
  CHECK(result.error == error);
  CHECK_THAT(result.reason, Contains(reason));
}

TEST_CASE("compare_and_swap_and_fetch_and_add") {
  const Wqe swap = good_atomic(entry(0, 0x11, kTwo8, 8));
  CHECK(swap.kind == WqeKind::kCompareSwap);
  CHECK(swap.swap_or_add == 0x0102030405060708);
  CHECK(swap.compare == 0x1112131415161718);
  CHECK(swap.length == 8);
  CHECK(swap.entries() == 1);
  const Wqe add = good_atomic(entry(0, 0x12, kAdd8, 8));
  CHECK(add.kind == WqeKind::kFetchAdd);
  CHECK(add.swap_or_add == 0x0102030405060708);
}

TEST_CASE("masked_fetch_and_add_of_4_and_8_bytes") {
  const Wqe small = good_atomic(entry(8, 0x15, kAdd4, 4));
  CHECK(small.kind == WqeKind::kMaskedFetchAdd);
  CHECK(small.length == 4);
  CHECK(small.swap_or_add == 5);
  CHECK(small.boundary == 0x80000000);
  const Wqe big = good_atomic(entry(9, 0x15, kTwo8, 8));
  CHECK(big.length == 8);
  CHECK(big.swap_or_add == 0x0102030405060708);
  CHECK(big.boundary == 0x1112131415161718);
}

TEST_CASE("masked_compare_and_swap_of_4_and_8_bytes") {
  const Wqe small = good_atomic(entry(8, 0x14, kSwap4, 4));
  CHECK(small.kind == WqeKind::kMaskedCompareSwap);
  CHECK(small.swap_or_add == 1);
  CHECK(small.compare == 2);
  CHECK(small.swap_mask == 3);
  CHECK(small.compare_mask == 4);
  CHECK(small.entries() == 1);
  Bytes operands = kTwo8;
  for (std::uint8_t i = 1; i <= 8; ++i) operands.push_back(static_cast<std::uint8_t>(0x20 + i));
  for (std::uint8_t i = 1; i <= 8; ++i) operands.push_back(static_cast<std::uint8_t>(0x30 + i));
  const Wqe big = good_atomic(entry(9, 0x14, operands, 8));
  CHECK(big.swap_or_add == 0x0102030405060708);
  CHECK(big.compare == 0x1112131415161718);
  CHECK(big.swap_mask == 0x2122232425262728);
  CHECK(big.compare_mask == 0x3132333435363738);
  CHECK(big.entries() == 2);
}

TEST_CASE("operands_that_a_nic_ignores_are_remarked") {
  const auto remark = [](const Bytes& bytes) {
    return decode_wqe(bytes.data(), bytes.size()).remark;
  };
  const Bytes add = entry(0, 0x12, kTwo8, 8);
  CHECK(good_atomic(add).swap_or_add == 0x0102030405060708);
  CHECK(remark(add) == "compare value in ATOMIC_FA");
  for (const std::size_t byte : {8u, 15u}) {
    Bytes reserved = kAdd4;
    reserved[byte] = 1;
    const Bytes masked = entry(8, 0x15, reserved, 4);
    CHECK(good_atomic(masked).swap_or_add == 5);
    CHECK(remark(masked) == "reserved bytes of the operands are set");
  }
  CHECK(remark(entry(8, 0x15, kAdd4, 4)).empty());
}

TEST_CASE("malformed_atomics_are_refused") {
  bad_atomic(entry(8, 0x11, kTwo8, 8), "opmod 0x08 in ATOMIC_CS");
  bad_atomic(entry(0, 0x14, kSwap4, 4), "opmod 0x00 in MASKED_CS");
  bad_atomic(entry(0x0a, 0x15, kAdd8, 8), "opmod 0x0a in MASKED_FA");
  bad_atomic(entry(0, 0x11, kTwo8, 4), "result of 4 bytes for ATOMIC_CS of 8",
             WqeError::kLocalLength);
  bad_atomic(entry(8, 0x15, kAdd4, 8), "result of 8 bytes for MASKED_FA of 4",
             WqeError::kLocalLength);
  bad_atomic(entry(9, 0x14, kSwap4, 8), "ds 4 in MASKED_CS of 8");

  Bytes short_of_data = entry(0, 0x12, kAdd8, 8);
  short_of_data.resize(48);
  short_of_data[7] = 3;
  bad_atomic(short_of_data, "ds 3 in ATOMIC_FA of 8");
  Bytes one_more = entry(0, 0x12, kAdd8, 8);
  one_more.resize(80);
  one_more[7] = 5;
  bad_atomic(one_more, "ds 5 in ATOMIC_FA of 8");
  Bytes inlined = entry(0, 0x12, kAdd8, 8);
  inlined[48] = 0x80;
  bad_atomic(inlined, "inline data in ATOMIC_FA");
}

}  // namespace
}  // namespace gshmem::nic
