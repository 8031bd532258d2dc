// Tests how soon a wait on the CPU sees that it has to end. Its polls sleep, and a sleep can take
// long, so the test counts polls, not time.
#include <gshmem/device/core/wait.h>

#include <catch2/catch.hpp>

#include <cstdint>

using namespace gshmem;
using namespace gshmem::device;

namespace {

constexpr unsigned kBeforeSleeps = kPauseSpins + kPauseYields;

struct Pe {
  explicit Pe(std::uint64_t timeout_ns) {
    state.control = &control;
    state.timeout_ns = timeout_ns;
    state.fault_policy = abi::FaultPolicy::kReport;
  }
  abi::Control control{};
  State state{};
};

}  // namespace

TEST_CASE("a wait sees at its next poll that its PE was stopped") {
  Pe pe(0);
  unsigned polls = 0;
  constexpr unsigned kStopAt = 2 * kBeforeSleeps;
  CHECK_FALSE(spin_until(pe.state, "test", [&] {
    if (++polls == kStopAt) store_flag(&pe.control.stop, 1u);
    return false;
  }));
  CHECK(polls <= kStopAt + 1);
}

TEST_CASE("a wait that has timed out ends at its next poll") {
  constexpr std::uint64_t kTimeout = 1'000'000;  // a sleep takes 20 us at least
  Pe pe(kTimeout);
  unsigned polls = 0;
  const std::uint64_t begin = now_ns();
  CHECK_FALSE(spin_until(pe.state, "test", [&] {
    ++polls;
    return false;
  }));
  CHECK(now_ns() - begin >= kTimeout);
  CHECK(polls <= kBeforeSleeps + kTimeout / 20'000 + 2);
  CHECK(pe.control.fault.code == GSHMEMX_ERROR_TIMEOUT);
}
