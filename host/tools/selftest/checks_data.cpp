// Checks of --nic-selftest: data that is sent must arrive unchanged.
#include "host/tools/selftest/bench.h"

#include <cstring>

namespace gshmem::selftest {
namespace {

constexpr std::uint64_t kGuard = 64;

/// Transfers `bytes` bytes, and checks these and their neighbours.
template <class Move>
void check_move(Bench& bench, const std::string& what, std::size_t bytes, unsigned seed,
                const Move& move) {
  const Bytes payload = pattern(bytes, seed), before = pattern(bytes + 2 * kGuard, seed + 1);
  bench.store(kDest, before);
  Bytes expected = before;
  std::ranges::copy(payload, expected.begin() + kGuard);
  move(payload);
  const std::string name = strprintf("%s of %zu bytes", what.c_str(), bytes);
  const Bytes got = bench.load(kDest, expected.size());
  if (got == before) throw CheckFailed{name + ": complete, but the data is not there"};
  expect_equal(name, got, expected);
}

std::uint64_t word_of(const Bytes& bytes) {
  std::uint64_t word = 0;
  std::memcpy(&word, bytes.data(), bytes.size());
  return word;
}
Bytes bytes_of(std::uint64_t word, std::uint32_t width) {
  Bytes bytes(width);
  std::memcpy(bytes.data(), &word, width);
  return bytes;
}

std::uint64_t result_of(device::AmoOp op, std::uint64_t old, std::uint64_t operand,
                        std::uint64_t cond) {
  using device::AmoOp;
  switch (op) {
    case AmoOp::kFetch:
      return old;
    case AmoOp::kSet:
    case AmoOp::kSwap:
      return operand;
    case AmoOp::kCompareSwap:
      return old == cond ? operand : old;
    case AmoOp::kAdd:
      return old + operand;
    case AmoOp::kAnd:
      return old & operand;
    case AmoOp::kOr:
      return old | operand;
    case AmoOp::kXor:
      return old ^ operand;
  }
  return old;
}

struct AmoCase {
  device::AmoOp op;
  const char* name;
  bool hits = true;  ///< for a compare-and-swap: whether the condition holds
};

/// Checks every operation, with operands whose bytes all differ: another byte order, or a wrong
/// carry, gives another result.
std::string check_atomics(Bench& bench, std::uint32_t width) {
  using device::AmoOp;
  constexpr AmoCase kCases[] = {{AmoOp::kFetch, "fetch"},
                                {AmoOp::kSwap, "swap"},
                                {AmoOp::kCompareSwap, "compare_swap that hits"},
                                {AmoOp::kCompareSwap, "compare_swap that misses", false},
                                {AmoOp::kAdd, "fetch_add"},
                                {AmoOp::kAnd, "fetch_and"},
                                {AmoOp::kOr, "fetch_or"},
                                {AmoOp::kXor, "fetch_xor"}};
  const std::uint64_t mask = width == 8 ? ~std::uint64_t{0} : 0xffffffff;
  const std::uint64_t old = 0xf123456789abcdef & mask, operand = 0x8192a3b4c5d6e7f8 & mask;
  // The word is in the middle of an entry of 16 bytes, with neighbours that must not change.
  const Bytes guard = pattern(48, 7);
  for (const AmoCase& each : kCases) {
    Bytes area = guard;
    const Bytes before = bytes_of(old, width);
    std::ranges::copy(before, area.begin() + 16 + width);
    bench.store(kDest, area);
    device::Call call(device::CallKind::kAmo, each.name, 0);
    call.dest = bench.at(kDest + 16 + width);
    call.op = each.op;
    call.operand = operand;
    call.cond = each.hits ? old : old ^ 0x0100;
    call.width = width;
    const std::string what = strprintf("%s of %u bytes", each.name, width);
    expect_word(what + " returns", bench.run(call), old, width);
    bench.quiet();
    const std::uint64_t after = result_of(each.op, old, operand, call.cond) & mask;
    const Bytes word = bytes_of(after, width), got = bench.load(kDest, area.size());
    const Bytes here(got.begin() + 16 + width, got.begin() + 16 + 2 * width);
    expect_word(what + " leaves", word_of(here), after, width);
    std::ranges::copy(word, area.begin() + 16 + width);
    expect_equal("memory beside " + what, got, area);
  }
  return "8 operations";
}

}  // namespace

std::string check_transfers(Bench& bench) {
  unsigned seed = 0;
  for (const std::size_t bytes : {1u, 3u, 8u, 29u, 64u, 221u, 4095u, 4097u, 65536u, 1u << 20}) {
    ++seed;
    check_move(bench, "put (WRITE)", bytes, seed, [&](const Bytes& payload) {
      bench.store(kSource + seed, payload);
      bench.put(bench.at(kDest + kGuard), bench.at(kSource + seed), bytes);
      bench.quiet();
    });
    check_move(bench, "get (READ)", bytes, seed, [&](const Bytes& payload) {
      bench.store(kSource + seed, payload);
      bench.get(bench.at(kDest + kGuard), bench.at(kSource + seed), bytes);
    });
  }
  return "WRITE and READ of 1 byte to 1 MiB";
}

std::string check_inline(Bench& bench) {
  int lengths = 0;
  for (std::size_t bytes = 1; bytes <= 230; ++bytes, ++lengths) {
    check_move(bench, "put (WRITE inline)", bytes, static_cast<unsigned>(bytes),
               [&](const Bytes& payload) {
                 bench.put(bench.at(kDest + kGuard), payload.data(), bytes);
                 bench.quiet();
               });
  }
  return strprintf("%d lengths up to 230 bytes, from outside of the heap", lengths);
}

std::string check_atomics_4(Bench& bench) { return check_atomics(bench, 4); }
std::string check_atomics_8(Bench& bench) { return check_atomics(bench, 8); }

std::string check_signals(Bench& bench) {
  std::uint64_t expected = 0;
  for (const device::AmoOp op : {device::AmoOp::kSet, device::AmoOp::kAdd}) {
    const Bytes payload = pattern(100, 3);
    bench.store(kSource, payload);
    device::Call call = device::Call::transfer(device::CallKind::kPutSignal, "put_signal",
                                               bench.at(kDest), bench.at(kSource), 100, 0, true);
    call.signal = reinterpret_cast<std::uint64_t*>(bench.at(kDest + 4096));
    call.operand = 0x0102030405060708;
    call.op = op;
    bench.run(call);
    bench.quiet();
    expected += call.operand;
    expect_equal("payload of put_signal", bench.load(kDest, 100), payload);
    expect_word("signal", bench.load_word(kDest + 4096), expected, 8);
  }
  return "SET (masked swap) and ADD after a payload";
}

}  // namespace gshmem::selftest
