// The checks of --nic-selftest find what they look for: each runs on a soft NIC whose memory, keys
// or bells the test has bent, so that it does what a broken card would. Good ones run in
// tests/info.
#include "host/tools/selftest/bench.h"

#include <gshmem/device/network/network_path.h>

#include <catch2/catch.hpp>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstring>

namespace gshmem::selftest {
namespace {

Config soft_config() {
  Config given = Config::from([](const char*, void*) -> const char* { return nullptr; }, nullptr);
  given.nic = NicKind::kSoft;
  given.device = DeviceChoice::kCpu;
  return config_of(given);
}

abi::DeviceState& state_of(const Bench& bench) {
  return const_cast<abi::DeviceState&>(bench.state());
}

/// The library sees its heap `bytes` after the place where the NIC has it.
class Shifted {
 public:
  Shifted(Bench& bench, std::ptrdiff_t bytes) : state_(state_of(bench)), bytes_(bytes) {
    state_.heap += bytes_;
  }
  ~Shifted() { state_.heap -= bytes_; }
  Shifted(const Shifted&) = delete;

 private:
  abi::DeviceState& state_;
  std::ptrdiff_t bytes_;
};

bool contains(const std::string& text, const char* part) {
  return text.find(part) != std::string::npos;
}

/// Why it fails; empty when it does not.
std::string why(Check check, Bench& bench) {
  try {
    (void)check(bench);
  } catch (const CheckFailed& failed) {
    return failed.why;
  }
  return "";
}

/// What atomics bring, where the NIC brings it to another place.
void prepare_fetched(const Bench& bench, std::uint64_t value) {
  auto* const area = reinterpret_cast<abi::InternalArea*>(bench.state().heap);
  for (abi::ScratchSlot& slot : area->scratch) std::memcpy(slot.data, &value, sizeof(value));
}

/// All entries of the first queue have failed so.
void complete_with(Bench& bench, abi::Syndrome syndrome) {
  static abi::CompletionEntry entry;
  entry = {};
  entry.op_own =
      static_cast<std::uint8_t>(static_cast<unsigned>(abi::CompletionOpcode::kRequesterError) << 4);
  entry.syndrome = static_cast<std::uint8_t>(syndrome);
  bench.change_queue([](abi::QueueView& view) {
    view.completion = reinterpret_cast<const abi::Be32*>(reinterpret_cast<const char*>(&entry) +
                                                         abi::kCompletionWordOffset);
  });
}

}  // namespace

TEST_CASE("data_that_a_card_puts_beside_its_place_is_found") {
  Bench bench(soft_config());
  const Shifted shifted(bench, 8);
  CHECK(why(check_transfers, bench) ==
        "put (WRITE) of 1 bytes: byte 56 is 0x1e and should be 0xe3");
  bench.store(kDest, Bytes(4096));
  CHECK(why(check_inline, bench) ==
        "put (WRITE inline) of 1 bytes: byte 56 is 0x1e and should be 0xe3");
  bench.store(kDest, Bytes(4096));
  CHECK(why(check_signals, bench) == "payload of put_signal: byte 92 is 0x00 and should be 0x6c");
}

TEST_CASE("data_that_does_not_come_is_found") {
  Bench bench(soft_config());
  const Shifted shifted(bench, 1 << 16);
  CHECK(why(check_transfers, bench) ==
        "put (WRITE) of 1 bytes: complete, but the data is not there");
  CHECK(why(check_inline, bench) ==
        "put (WRITE inline) of 1 bytes: complete, but the data is not there");
  bench.store(kDest, pattern(100, 3));
  CHECK(why(check_signals, bench) == "signal: 0x0, and should be 0x102030405060708");
  bench.store(kDest + 4096, {1, 2, 3, 4, 5, 6, 7, 8});
  CHECK(why(check_signals, bench) ==
        "signal: 0x807060504030201, and should be 0x102030405060708 (its bytes are in reverse "
        "order)");
}

TEST_CASE("words_that_atomics_do_not_bring_or_do_not_change_are_found") {
  Bench bench(soft_config());
  const Shifted shifted(bench, 1 << 16);
  CHECK(why(check_atomics_4, bench) == "fetch of 4 bytes returns: 0x0, and should be 0x89abcdef");
  CHECK(why(check_atomics_8, bench) ==
        "fetch of 8 bytes returns: 0x0, and should be 0xf123456789abcdef");
  prepare_fetched(bench, 0xf123456789abcdef);
  CHECK(why(check_atomics_8, bench) ==
        "swap of 8 bytes leaves: 0xf123456789abcdef, and should be 0x8192a3b4c5d6e7f8");
  prepare_fetched(bench, abi::swap_bytes(0x89abcdefu));
  CHECK(why(check_atomics_4, bench) ==
        "swap of 4 bytes leaves: 0x89abcdef, and should be 0xc5d6e7f8");
}

TEST_CASE("a_queue_that_ends_before_its_last_entry_is_found") {
  Bench bench(soft_config());
  const Shifted shifted(bench, 1 << 16);
  bench.store(kDest, {0, 0, 0, 0, 0, 1, 0x11, 0x70});
  CHECK(why(check_wrap, bench) ==
        "the last word: 0x7011010000000000, and should be 0x11170 (its bytes are in reverse "
        "order)");
}

TEST_CASE("a_doorbell_is_rung_before_its_record_or_after_it") {
  Config impatient = soft_config();
  impatient.timeout = 0.1;
  for (const bool record_first : {false, true}) {
    Bench bench(impatient);
    // Both in one word of the test: what is there at the end was written last.
    alignas(8) static std::uint64_t word;
    word = 0;
    bench.change_queue([](abi::QueueView& view) {
      view.doorbell = &word;
      view.send_record = reinterpret_cast<abi::Be32*>(&word);
    });
    INFO(record_first);
    CHECK(contains(why(record_first ? check_record_first : check_doorbell_alone, bench),
                   "longer than GSHMEM_TIMEOUT=0.1 allows"));
    const std::uint32_t record = abi::Be32(2).raw;
    CHECK((std::memcmp(&word, &record, sizeof(record)) == 0) != record_first);
  }
}

TEST_CASE("an_atomic_may_be_flushed_where_a_dump_is_after_it") {
  {
    Bench bench(soft_config());
    state_of(bench).nic.flags |= abi::kNicReadNeedsDump;
    CHECK(why(check_unaligned_atomic, bench) == "");
  }
  struct Row {
    bool dump;
    abi::Syndrome syndrome;
    const char* said;
  };
  for (const Row& row :
       {Row{false, abi::Syndrome::kRemoteRequest, "syndrome 0x12, vendor 0x00"},
        Row{true, abi::Syndrome::kRemoteRequest, "syndrome 0x12, vendor 0x00"},
        Row{true, abi::Syndrome::kFlush, "its completion was overwritten by that of the DUMP"},
        Row{false, abi::Syndrome::kFlush, "expected syndrome 0x12, but syndrome 0x05"}}) {
    Bench bench(soft_config());
    if (row.dump) state_of(bench).nic.flags |= abi::kNicReadNeedsDump;
    complete_with(bench, row.syndrome);
    std::string said;
    try {
      said = check_unaligned_atomic(bench);
    } catch (const CheckFailed& failed) {
      said = failed.why;
    }
    CHECK_THAT(said, Catch::StartsWith(row.said));
  }
}

TEST_CASE("an_error_that_does_not_come_or_is_another_one_is_found") {
  Bench bench(soft_config());
  try {
    (void)bench.error_of([] {});
    FAIL("an error, where there is none");
  } catch (const CheckFailed& failed) {
    CHECK(failed.why == "no error, where there should be one");
  }
  complete_with(bench, abi::Syndrome::kRemoteRequest);
  CHECK_THAT(why(check_entries_after_an_error, bench),
             Catch::StartsWith("expected syndrome 0x13, but syndrome 0x12, vendor 0x00"));
}

TEST_CASE("entries_that_are_executed_after_one_that_failed_are_found") {
  Bench bench(soft_config());
  bench.store(kDest, pattern(64, 5));
  CHECK(why(check_entries_after_an_error, bench) ==
        "what was put after the entry that failed: byte 0 is 0x92 and should be 0x00");
  CHECK(bench.load(kSource, 64) != Bytes(64));
}

TEST_CASE("the_sum_of_signals_is_that_of_the_ones_measured") {
  Bench bench(soft_config());
  bench.store(kSource, pattern(64, 1));
  CHECK(measure_rate(bench) != "");
  const Shifted shifted(bench, 1 << 16);
  CHECK(why(measure_rate, bench) == "the sum of all signals: 0x0, and should be 0x1388");
}

TEST_CASE("rates_are_those_of_the_time_that_calls_take") {
  using Clock = std::chrono::steady_clock;
  Bench bench(soft_config());
  // Whoever takes the processor between the two series makes it longer.
  double all = 0, least = 0, most = 0;
  for (int tries = 0; tries < 5 && most <= 0.95 * all; ++tries) {
    const auto begin = Clock::now();
    const std::string rates = measure_rate(bench);
    all = std::chrono::duration<double, std::micro>(Clock::now() - begin).count();
    double puts = 0, atomics = 0;
    REQUIRE(std::sscanf(rates.c_str(), "one queue: %lf M puts of 64 bytes/s, %lf M atomics/s",
                        &puts, &atomics) == 2);
    constexpr double kRounded = 0.005;
    least = 20'000 / (puts + kRounded) + 5'000 / (atomics + kRounded);
    most = 20'000 / std::max(puts - kRounded, 1e-6) + 5'000 / std::max(atomics - kRounded, 1e-6);
  }
  CHECK(least <= all);
  CHECK(most > 0.95 * all);
}

}  // namespace gshmem::selftest
