// What the checks of --nic-selftest compare with, and their page. The checks run in tests/info.
#include "host/tools/selftest/bench.h"
#include "host/tools/selftest/selftest.h"

#include <catch2/catch.hpp>

namespace gshmem::selftest {
namespace {

template <class Call>
std::string why_failed(const Call& call) {
  try {
    call();
  } catch (const CheckFailed& failed) {
    return failed.why;
  }
  return "";
}

}  // namespace

TEST_CASE("patterns_have_no_byte_of_their_neighbours_nor_of_the_next_seed") {
  constexpr std::size_t kBytes = 1 << 16;
  const Bytes first = pattern(kBytes, 1), second = pattern(kBytes, 2);
  REQUIRE(first.size() == kBytes);
  std::size_t alike = 0, repeated = 0, zeros = 0;
  for (std::size_t i = 0; i < kBytes; ++i) {
    alike += first[i] == second[i] ? 1 : 0;
    if (i > 0) alike += first[i] == first[i - 1] ? 1 : 0;
    if (i >= 256) repeated += first[i] == first[i - 256] ? 1 : 0;
    zeros += first[i] == 0 ? 1 : 0;
  }
  CHECK(alike == 0);
  CHECK(repeated < kBytes / 16);  // so that what comes 256 bytes too late differs
  CHECK(zeros < kBytes / 128);    // memory that nobody has written to
  CHECK(pattern(9, 1) == Bytes(first.begin(), first.begin() + 9));
  CHECK(pattern(0, 1).empty());
}

TEST_CASE("bytes_that_differ_are_named_by_their_place_and_values") {
  const auto compare = [](const Bytes& got) {
    return why_failed([&] { expect_equal("it", got, {1, 2, 3}); });
  };
  CHECK(compare({1, 2, 3}).empty());
  CHECK(compare({1, 2, 4}) == "it: byte 2 is 0x04 and should be 0x03");
  CHECK(compare({10, 2, 4}) == "it: byte 0 is 0x0a and should be 0x01");
}

TEST_CASE("words_that_differ_are_named_and_those_in_reverse_order_said_to_be_so") {
  const auto compare = [](std::uint64_t got, std::uint64_t expected, std::uint32_t width) {
    return why_failed([&] { expect_word("it", got, expected, width); });
  };
  CHECK(compare(0x12345678, 0x12345678, 4).empty());
  CHECK(compare(1, 2, 4) == "it: 0x1, and should be 0x2");
  CHECK(compare(0x78563412, 0x12345678, 4) ==
        "it: 0x78563412, and should be 0x12345678 (its bytes are in reverse order)");
  CHECK(compare(0x0100000000000000, 1, 8) ==
        "it: 0x100000000000000, and should be 0x1 (its bytes are in reverse order)");
  CHECK(compare(0x01000000, 1, 8) == "it: 0x1000000, and should be 0x1");
}

TEST_CASE("a_pe_that_tests_a_card_has_only_that_and_gives_up_before_its_time_is_over") {
  Config given = Config::from([](const char*, void*) -> const char* { return nullptr; }, nullptr);
  for (const auto& [nic, tested] : {std::pair{NicKind::kAuto, NicKind::kMlx5},
                                    {NicKind::kNone, NicKind::kMlx5},
                                    {NicKind::kOfi, NicKind::kMlx5},
                                    {NicKind::kMlx5, NicKind::kMlx5},
                                    {NicKind::kSoft, NicKind::kSoft}}) {
    given.nic = nic;
    CHECK(config_of(given).nic == tested);
  }
  given.ib_timeout = 20;
  given.ib_retry_count = 7;
  given.qps_per_pe = 4;
  given.nic_devices = "=mlx5_9";
  const Config config = config_of(given);
  CHECK_FALSE(config.p2p);
  CHECK(config.fabric == Switch::kOff);
  CHECK(config.fault == abi::FaultPolicy::kReport);
  CHECK(config.symmetric_size == 16 << 20);
  CHECK(config.timeout == 3);
  CHECK(config.ib_timeout == 14);
  CHECK(config.ib_retry_count == 3);
  CHECK(config.qps_per_pe == 1);
  CHECK(config.nic_devices == "=mlx5_9");
  given.ib_timeout = 13;
  given.ib_retry_count = 2;
  CHECK(config_of(given).ib_timeout == 13);
  CHECK(config_of(given).ib_retry_count == 2);
}

TEST_CASE("without_its_card_a_part_ends_at_its_first_line") {
  Config config = Config::from([](const char*, void*) -> const char* { return nullptr; }, nullptr);
  config.device = DeviceChoice::kCpu;
  config.nic_devices = "=none_of_this_name";
  const SelfTest test = test_nic(config);
  REQUIRE(test.parts.size() == 2);
  REQUIRE(test.parts[0].findings.size() == 1);
  CHECK(test.parts[0].findings[0].kind == Finding::Kind::kFailed);
  CHECK(test.parts[0].findings[0].what == "init");
  REQUIRE(test.parts[1].findings.size() == 1);
  CHECK(test.parts[1].findings[0].kind == Finding::Kind::kNote);
  CHECK(test.parts[1].findings[0].detail == "GSHMEM_DEVICE=cpu");
  // The first part is one of host memory, whatever the device.
  config.device = DeviceChoice::kCuda;
  CHECK(test_nic(config).parts[0].findings[0].detail == test.parts[0].findings[0].detail);
}

TEST_CASE("a_page_is_good_unless_a_check_of_any_part_has_failed") {
  using Kind = Finding::Kind;
  SelfTest test{.parts = {{"first", {{Kind::kGood, "a", "fine"}, {Kind::kNote, "b", "3 us"}}},
                          {"second", {{Kind::kGood, "c", "fine"}}}}};
  const std::string page = as_text(test);
  CHECK(test.good());
  CHECK(
      page.ends_with(", network card self-test\n"
                     "\nfirst\n"
                     "  ok      a                         fine\n"
                     "          b                         3 us\n"
                     "\nsecond\n"
                     "  ok      c                         fine\n"
                     "\nAll checks are good.\n"));
  test.parts[1].findings.push_back({Kind::kFailed, "d", "why"});
  CHECK_FALSE(test.good());
  CHECK_THAT(as_text(test),
             Catch::EndsWith("  FAILED  d                         why\n"
                             "\nSome checks failed. Please send this page with the issue.\n"));
}

}  // namespace gshmem::selftest
