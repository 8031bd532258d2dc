#include "host/tools/info/report.h"

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include <stdlib.h>

#include <algorithm>
#include <cstring>

namespace gshmem::info {
namespace {

PeFacts pe_on(int rank, int gpu, const char* uuid) {
  PeFacts facts;
  facts.rank = rank;
  facts.gpu = gpu;
  std::strncpy(facts.gpu_uuid, uuid, sizeof(facts.gpu_uuid) - 1);
  return facts;
}

GpuInfo gpu(int device, const char* uuid, std::vector<bool> atomics) {
  GpuInfo info;
  info.device = device;
  info.name = "GPU";
  info.uuid = uuid;
  info.peer_access.assign(atomics.size(), true);
  info.peer_atomics = std::move(atomics);
  return info;
}

)page";

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

}  // namespace

TEST_CASE("paths_between_gpus_follow_uuids_and_native_atomics") {
  const std::vector<GpuInfo> gpus{gpu(0, "A", {true, true, false}),
                                  gpu(1, "B", {true, true, false}),
                                  gpu(2, "C", {false, false, true})};
  const PeFacts me = pe_on(0, 0, "A");
  CHECK(path_between(me, pe_on(1, 0, "A"), gpus) == Path::kSameGpu);
  // In its own process the peer may number its GPU otherwise.
  CHECK(path_between(me, pe_on(1, 0, "B"), gpus) == Path::kNvlink);
  CHECK(path_between(me, pe_on(1, 2, "C"), gpus) == Path::kPcie);
  CHECK(path_between(me, pe_on(1, 0, "hidden"), gpus) == Path::kPeerGpu);
}

TEST_CASE("a_bad_value_is_reported_at_its_variable_only") {
  const std::vector<VariableReport> reports =
      check_variables({{"GSHMEM_TIMEOUT", "abc", "1800", "", "", "GSHMEM_TIMEOUT"},
                       {"GSHMEM_LOG", "warn", "warn", "", "", ""},
                       {"GSHMEM_P2P", "perhaps", "1", "", "", "GSHMEM_P2P"}});
  REQUIRE(reports.size() == 3);
  CHECK(contains(reports[0].error, "GSHMEM_TIMEOUT=\"abc\""));
  CHECK(reports[1].error.empty());
  CHECK(contains(reports[2].error, "GSHMEM_P2P=\"perhaps\""));

  Report report;
  CHECK(report.good());
  report.variables = reports;
  CHECK_FALSE(report.good());
}

TEST_CASE("paths_between_hosts_are_a_fabric_or_a_network_with_the_reason") {
  Report report;
  report.job =
      Job{.rank = 0,
          .pes = {pe_on(0, 0, "GPU-a"), pe_on(1, 0, "GPU-b"), pe_on(2, 0, "GPU-c")},
          .paths = {Path::kSelf, Path::kFabric, Path::kNetwork, Path::kFabric, Path::kSelf,
                    Path::kNetwork, Path::kNetwork, Path::kNetwork, Path::kSelf},
          .why = {"", "", "no channel", "", "", "no channel", "no channel", "no channel", ""}};
  for (PeFacts& pe : report.job->pes) std::strcpy(pe.nic, "mlx5");
  const std::string text = as_text(report), json = as_json(report);
  CHECK(contains(text, "to PE 1: load/store, NVLink fabric\n"));
  CHECK(contains(text, "to PE 2: network (mlx5); no channel\n"));
  CHECK_FALSE(contains(text, "load/store, network"));
  for (const char* part : {"\"NVLink fabric\"", "\"network\"", "\"nic\": \"mlx5\"", "no channel"}) {
    INFO(part);
    CHECK(contains(json, part));
  }
}

}  // namespace gshmem::info
