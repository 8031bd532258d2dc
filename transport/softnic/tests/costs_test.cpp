// The model of costs alone: its grammar, and its clock.
#include "transport/softnic/costs.h"

#include "transport/softnic/engine.h"

#include <catch2/catch.hpp>

#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>

namespace gshmem::soft {
namespace {

namespace fs = std::filesystem;

class Model {
 public:
  Model(const std::string& text, bool staged) {
    const fs::path file = fs::temp_directory_path() / ("gshnic-costs." + std::to_string(getpid()));
    std::ofstream(file) << text;
    costs.load(file.string(), staged);
    fs::remove(file);
  }
  /// Returns the microseconds of `count` messages that are posted together.
  double us_of(int count, std::uint64_t bytes) {
    const double begin = costs.read().seconds;
    for (int i = 0; i < count; ++i) costs.charge(bytes);
    return (costs.read().seconds - begin) * 1e6;
  }
  CostModel costs;
};

constexpr char kCosts[] = R"(link_us 2   # a comment
link_gb_s 40

link_mops 10
gpu_us 1
gpu_gb_s 20
gpu_cpu_s_gb 0.5
copy_us 5
copy_gb_s 16
busy_cpus 2
)";

}  // namespace

TEST_CASE("a_line_of_costs_that_is_none_is_quoted") {
  for (const char* line :
       {"link_us", "link_us x", "link_us -1", "link_us 1 2", "no_such 1", "fails", "fails often"}) {
    INFO(line);
    CHECK_THROWS_WITH(parse_costs("link_us 1\n" + std::string(line)),
                      Catch::Contains("GSHNIC_COSTS: \"" + std::string(line) + "\"") &&
                          Catch::Contains("busy_cpus"));
  }
  CHECK(parse_costs("fails port\n").fails == Costs::Fails::kPort);
  CostModel model;
  CHECK_THROWS_WITH(model.load("/no/such/file", false), Catch::Contains("/no/such/file"));
}

TEST_CASE("messages_share_the_link_and_wait_once") {
  Model direct(kCosts, false), staged(kCosts, true);
  // A small message takes its way, and the time until the next one may be sent.
  CHECK(direct.us_of(1, 0) == Approx(2 + 1 + 0.1));
  CHECK(staged.us_of(1, 0) == Approx(2 + 2 * 5 + 5));
  CHECK(direct.us_of(100, 0) == Approx(2 + 1 + 100 * 0.1));
  // The slowest part of the way counts: GPU memory at 20 GB/s, or two copies at 16.
  CHECK(direct.us_of(10, 1'000'000) == Approx(3 + 10 * 50));
  CHECK(staged.us_of(10, 1'000'000) == Approx(12 + 10 * 125));
}

TEST_CASE("cpu_time_is_that_of_waiting_and_of_touching_the_data") {
  Model direct(kCosts, false), staged(kCosts, true);
  const double direct_us = direct.us_of(1, 1'000'000), staged_us = staged.us_of(1, 1'000'000);
  CHECK(direct.costs.read().cpu_seconds * 1e6 == Approx(2 * direct_us + 500));
  CHECK(staged.costs.read().cpu_seconds * 1e6 == Approx(2 * staged_us + 125));
}

TEST_CASE("only_what_is_not_staged_fails") {
  CHECK(Model("fails gpu", false).costs.fails(Costs::Fails::kGpu));
  CHECK_FALSE(Model("fails gpu", true).costs.fails(Costs::Fails::kGpu));
  CHECK_FALSE(Model("fails peer", false).costs.fails(Costs::Fails::kGpu));
  CHECK(Model("fails peer", false).costs.fails(Costs::Fails::kPeer));
}

}  // namespace gshmem::soft
