// Checks of --nic-selftest: queues, doorbells, order, and errors.
#include "host/runtime/execute_selftest.h"
#include "host/tools/selftest/bench.h"

#include <gshmem/device/network/network_path.h>

#include <chrono>

namespace gshmem::selftest {
namespace {

using Clock = std::chrono::steady_clock;

constexpr double kOrderSeconds = 3, kSoftOrderSeconds = 0.3;
constexpr std::uint64_t kOrderRounds = 1'000'000;

double since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

std::string expect_syndrome(const Bench::Met& met, abi::Syndrome syndrome) {
  const abi::CompletionEntry& entry = met.completion;
  const std::string text = strprintf("syndrome 0x%02x, vendor 0x%02x, hardware 0x%02x%02x (%s)",
                                     entry.syndrome, entry.vendor_syndrome, entry.hardware_syndrome,
                                     entry.hardware_syndrome_type, met.message.c_str());
  if (entry.syndrome == static_cast<std::uint8_t>(syndrome)) return text;
  throw CheckFailed{
      strprintf("expected syndrome 0x%02x, but %s", static_cast<unsigned>(syndrome), text.c_str())};
}

/// Was its completion overwritten by that of a later entry?
bool was_flushed(const Bench::Met& met) {
  return met.completion.syndrome == static_cast<std::uint8_t>(abi::Syndrome::kFlush);
}

/// Rings the first queue once, by the register of the NIC itself.
std::string ring_by_hand(Bench& bench, const char* name, bool record_first, const char* good) {
  if (!device::has_register(bench.state().nic.traits))
    return "left out: kernels ring a word in memory";
  device::Call nop(device::CallKind::kNop, name);
  nop.operand = record_first ? 1 : 0;
  bench.run(nop);
  return good;
}

/// Returns memory that no key covers.
char* beyond_heap(const Bench& bench) {
  return bench.state().heap + bench.state().heap_bytes + (1 << 30);
}

}  // namespace

std::string check_wrap(Bench& bench) {
  constexpr std::uint64_t kCount = 70'000;  // more than 2^16
  for (std::uint64_t i = 1; i <= kCount; ++i) {
    device::Call call(device::CallKind::kP, "p", 0);
    call.dest = bench.at(kDest);
    call.operand = i;
    call.width = 8;
    bench.run(call);
  }
  bench.quiet();
  expect_word("the last word", bench.load_word(kDest), kCount, 8);
  return strprintf("%llu entries on a collapsed completion queue of one entry",
                   static_cast<unsigned long long>(kCount));
}

std::string check_doorbell_alone(Bench& bench) {
  return ring_by_hand(bench, "doorbell without its record", false,
                      "the NIC takes the producer index from the doorbell");
}

std::string check_record_first(Bench& bench) {
  return ring_by_hand(bench, "doorbell after its record", true, "record, then doorbell");
}

/// A thread of the GPU, or this one, sends payloads with a signal after each, reads them back, and
/// checks the data that has arrived.
std::string check_order(Bench& bench) {
  constexpr std::size_t kPayload = 512;
  constexpr std::uint64_t kBatch = 64;
  device::Call call = device::Call::transfer(device::CallKind::kOrder, "order", bench.at(kDest),
                                             bench.at(kSource), kPayload, 0, true);
  call.signal = reinterpret_cast<std::uint64_t*>(bench.at(kDest + 4096));
  call.operand = kBatch;
  const auto begin = Clock::now();
  const double limit = bench.is_card() ? kOrderSeconds : kSoftOrderSeconds;
  for (; call.cond < kOrderRounds && since(begin) < limit; call.cond += kBatch) {
    const std::uint64_t late = bench.run(call);
    if (late == 0) continue;
    const bool by_get = (late & device::late_word(true, 0, 0)) == device::late_word(true, 0, 0);
    throw CheckFailed{strprintf("%s %lu was there before word %lu of %s",
                                by_get ? "the completion of READ" : "signal",
                                call.cond + (late & 0xffffffff), late >> 32 & 0xffff,
                                by_get ? "its data" : "its payload: atomics overtake writes")};
  }
  return strprintf("%lu payloads of %zu bytes: none after its signal, nor after its READ",
                   call.cond, kPayload);
}

std::string check_beyond_the_heap(Bench& bench) {
  char* const beyond = beyond_heap(bench);
  return expect_syndrome(bench.error_of([&] { bench.put(beyond, bench.at(kSource), 64); }),
                         abi::Syndrome::kRemoteAccess);
}

std::string check_bad_remote_key(Bench& bench) {
  bench.change_queue([](abi::QueueView& view) { view.remote_key = abi::Be32(0x00dead00); });
  return expect_syndrome(bench.error_of([&] { bench.put(bench.at(kDest), bench.at(kSource), 64); }),
                         abi::Syndrome::kRemoteAccess);
}

std::string check_bad_local_key(Bench& bench) {
  bench.change_queue([](abi::QueueView& view) { view.local_key = abi::Be32(0x00dead00); });
  return expect_syndrome(bench.error_of([&] { bench.put(bench.at(kDest), bench.at(kSource), 64); }),
                         abi::Syndrome::kLocalProtection);
}

std::string check_unaligned_atomic(Bench& bench) {
  device::Call call(device::CallKind::kAmo, "fetch_add", 0);
  call.dest = bench.at(kDest + 4);
  call.op = device::AmoOp::kAdd;
  call.operand = 1;
  call.width = 8;
  const Bench::Met met = bench.error_of([&] { bench.run(call); });
  const bool dump = (bench.state().nic.flags & abi::kNicReadNeedsDump) != 0;
  if (dump && was_flushed(met))
    return "its completion was overwritten by that of the DUMP after it";
  return expect_syndrome(met, abi::Syndrome::kRemoteRequest);
}

/// With pending entries after the one that fails, its completion may be overwritten.
std::string check_entries_after_an_error(Bench& bench) {
  const auto post = [&](void* dest) {
    bench.run(device::Call::transfer(device::CallKind::kPut, "put_nbi", dest, bench.at(kSource), 64,
                                     0, false));
  };
  bench.store(kSource, pattern(64, 5));
  const Bench::Met met = bench.error_of([&] {
    post(beyond_heap(bench));
    for (int i = 0; i < 32; ++i) post(bench.at(kDest));
  });
  const bool flushed = was_flushed(met);
  if (!flushed) expect_syndrome(met, abi::Syndrome::kRemoteAccess);
  const Bytes after = bench.load(kDest, 64);
  expect_equal("what was put after the entry that failed", after, Bytes(after.size()));
  return std::string(flushed ? "its completion was overwritten by those of flushed entries"
                             : "its completion stayed") +
         "; none of them was executed";
}

}  // namespace gshmem::selftest
