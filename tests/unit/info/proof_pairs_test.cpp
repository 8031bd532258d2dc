// gshmem-info --gdr-proof where there are several pairs of PEs: who sends to whom, and figures of
// one pair alone and of all at once.
#include "host/tools/proof/measure.h"

#include "tests/unit/info/proof_cases.h"

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include <unistd.h>

#include <algorithm>
#include <string>
#include <vector>

namespace gshmem::proof {

using nlohmann::json;

TEST_CASE("pairs_are_on_two_hosts_where_there_are_two") {
  using Targets = std::vector<int>;
  CHECK(targets_of({7, 7}) == Targets{1, -1});
  CHECK(targets_of({7, 7, 7, 7}) == Targets{2, 3, -1, -1});
  CHECK(targets_of({7, 7, 5, 5}) == Targets{2, 3, -1, -1});  // by slot
  CHECK(targets_of({7, 5, 7, 5}) == Targets{1, -1, 3, -1});  // by node
}

TEST_CASE("all_pairs_at_once_are_compared_over_a_network_and_load_store") {
  const Jobs jobs(Config::from_env(), false);
  CHECK(jobs.pes_of_all(1) == 0);
  CHECK(jobs.pes_of_all(8) == 8);
  Config on = proof_config(Config::from_env(), true), off;
  on.device = DeviceChoice::kCpu;
  off = on;
  on.p2p = true;
  on.nic = NicKind::kNone;
  off.nic = NicKind::kSoft;
  const Plan plan{.repeats = 2, .bandwidth_bytes = {65536}, .volume = 1 << 20};
  const Comparison pairs = compare_pairs(jobs, plan, 4, on, off);
  CHECK(pairs.on.error + pairs.off.error == "");
  CHECK(pairs.on.network == "load/store");
  CHECK_THAT(pairs.off.network, Catch::Contains("mlx5_0"));
  CHECK(pairs.pairs == 2);
  REQUIRE(pairs.series.size() == 2);
  CHECK(pairs.series[0].quantity == Quantity::kOnePair);
  CHECK(pairs.series[1].quantity == Quantity::kAllPairs);
  for (const Series& series : pairs.series) {
    for (const Figures* figures : {&series.on, &series.off}) {
      CHECK(figures->values.size() == 2);
      CHECK(figures->cpu.size() == 2);
      CHECK(std::ranges::min(figures->values) > 0);
    }
  }

  // A side that does not start leaves the other one.
  on.nic = NicKind::kSoft;
  on.p2p = false;
  on.nic_devices = "=no_such";
  const Comparison one = compare_pairs(jobs, plan, 4, on, off);
  CHECK_THAT(one.on.error, Catch::Contains("no_such"));
  CHECK(one.off.good());
  CHECK(one.series.at(1).on.values.empty());
  CHECK(one.series.at(1).off.values.size() == 2);
}

TEST_CASE("pairs_that_share_a_link_are_together_as_fast_as_one") {
  const fs::path file = fs::temp_directory_path() / ("gshmem-pairs." + std::to_string(getpid()));
  const json all = json::parse(prove_case("sound_four_gpus", "--json --repeats 2").output);
  const json& pairs = all.at("all_pairs");
  CHECK(pairs.at("pairs") == 2);
  const json& one = pairs.at("series").at(0);
  const json& both = pairs.at("series").at(1);
  CHECK(one.at("quantity") == "one_pair_GB_s");
  CHECK(both.at("quantity") == "all_pairs_GB_s");
  for (const json* series : {&one, &both}) {
    CHECK(series->at("bytes") == 1 << 20);
    CHECK(series->at("on").at("values").size() == 2);
    CHECK(series->at("on").at("median") == Approx(48).epsilon(0.05));
    CHECK(series->at("off").at("median") == Approx(11).epsilon(0.05));
  }
  CHECK(json::parse(prove_case("sound", "--json --repeats 1").output).at("all_pairs").is_null());

  const Ran text = prove_case("sound_four_gpus", "--repeats 1 --page " + file.string());
  const std::string page = info::read(file);
  fs::remove(file);
  for (const char* part : {"All 2 pairs at once", "one pair, GB/s", "all pairs, GB/s"}) {
    INFO(part);
    CHECK_THAT(text.output, Catch::Contains(part));
    CHECK_THAT(page, Catch::Contains(part));
  }
}

}  // namespace gshmem::proof
