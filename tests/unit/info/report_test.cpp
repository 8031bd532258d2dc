#include "host/tools/info/report.h"

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

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

/// Returns a report with all that a page can have: variables of every origin, GPUs with every path
/// to each other, a port, and a job of two PEs, one on a GPU.
Report full_report() {
  Report report;
  report.build = {{"version", "1.2.3"}};
  report.variables = {{{"GSHMEM_A", "2", "1", "a number", "how many", "GSHMEM_A", true}, ""},
                      {{"GSHMEM_B", "x", "x", "any text", "what", "GSHMEM_B"}, "GSHMEM_B is bad"},
                      {{"GSHMEM_C", "y", "x", "any text", "which", "NVSHMEM_C"}, ""},
                      {{"GSHMEM_D", "(hidden)", "", "any text", "a secret", ""}, ""}};
  report.unknown_variables = {"GSHMEM_X is none"};
  report.gpus = {gpu(0, "GPU-a", {true, false, false}), gpu(1, "GPU-b", {true, true, false})};
  report.gpus[0].peer_access[2] = false;
  report.gpus[0].memory_bytes = std::uint64_t{3} << 29;
  report.gpus[0].pci = "0000:01:00.0";
  report.nics = {{"mlx5_0", 2, "Ethernet", "DOWN", "100 Gb/sec"}};
  report.job = Job{
      .rank = 0,
      .pes = {pe_on(0, 0, "GPU-a"), pe_on(1, -1, "")},
      .paths = {Path::kSelf, Path::kNetwork, Path::kPcie, Path::kSelf},
      .why = {"", "far", "", ""},
      .algorithms = {.team = {nullptr, 0, 1, 2, 0, 0, 1, 1},
                     .rows = {{"put all",
                               {"thread", "host"},
                               {{1, 8, "small", {"GSHMEM_A", "GSHMEM_B"}}, {9, 0, "large", {}}}},
                              {"reduce", {"warp"}, {{1, 0, "any", {"GSHMEM_C"}}}}},
                     .flat_members = 5}};
  std::strcpy(report.job->pes[0].bootstrap, "pmix");
  std::strcpy(report.job->pes[0].nic, "ofi");
  std::strcpy(report.job->pes[0].host, "node7");
  std::strcpy(report.job->pes[0].gpu_name, "H");
  return report;
}

constexpr char kFullPage[] = R"page(gshmem
  version        1.2.3

GPUs
  0  GPU, 1.5 GiB, PCI 0000:01:00.0, GPU-a
  1  GPU, 0.0 GiB, PCI , GPU-b
  Access to peers (A: load/store with native atomics, x: load/store, .: none)
       0  1
    0  A  x  .
    1  A  A  x

RDMA network cards
  mlx5_0 port 2: Ethernet, DOWN, 100 Gb/sec

Variables that are set
  GSHMEM_A = "2" (environment)
      how many; a number; the same on all PEs
      default "1"
  GSHMEM_B = "x" (environment)
      what; any text
      ERROR: GSHMEM_B is bad
  GSHMEM_C = "y" (NVSHMEM_C)
      which; any text
      default "x"
  WARNING: GSHMEM_X is none

Variables with their defaults (gshmem-info NAME has the meaning of one)
  GSHMEM_D = "(hidden)"

Job
  PE 0: bootstrap pmix, host node7, GPU 0 (H, GPU-a)
      to PE 0: load/store, self
      to PE 1: network (ofi); far
  PE 1: bootstrap , host , CPU mode
      to PE 0: load/store, PCIe
      to PE 1: load/store, self

Algorithms: 2 PEs, which map each other; bytes that one member gives another one
  put all          thread, host                       small to 8 (GSHMEM_A=2, GSHMEM_B=x), then large
  reduce           warp                               any (GSHMEM_C=y)
  sync, barrier    all                                flat (flat to 5 members)
)page";
constexpr char kFullJson[] = R"page({
    "schema": 1,
    "build": {"version": "1.2.3"},
    "variables": [
      {"name": "GSHMEM_A", "value": "2", "default": "1", "origin": "environment",
       "same_on_all_pes": true, "accepted": "a number", "help": "how many",
       "error": null},
      {"name": "GSHMEM_B", "value": "x", "default": "x", "origin": "environment",
       "same_on_all_pes": false, "accepted": "any text", "help": "what",
       "error": "GSHMEM_B is bad"},
      {"name": "GSHMEM_C", "value": "y", "default": "x", "origin": "NVSHMEM_C",
       "same_on_all_pes": false, "accepted": "any text", "help": "which",
       "error": null},
      {"name": "GSHMEM_D", "value": "(hidden)", "default": "", "origin": "default",
       "same_on_all_pes": false, "accepted": "any text", "help": "a secret",
       "error": null}],
    "no_gpus": null, "job_error": null,
    "unknown_variables": ["GSHMEM_X is none"],
    "gpus": [
      {"device": 0, "name": "GPU", "uuid": "GPU-a", "pci": "0000:01:00.0",
       "memory_bytes": 1610612736, "peer_access": [true, true, false],
       "peer_native_atomics": [true, false, false]},
      {"device": 1, "name": "GPU", "uuid": "GPU-b", "pci": "", "memory_bytes": 0,
       "peer_access": [true, true, true], "peer_native_atomics": [true, true, false]}],
    "nics": [{"device": "mlx5_0", "port": 2, "link_layer": "Ethernet", "state": "DOWN",
              "rate": "100 Gb/sec"}],
    "pes": [
      {"pe": 0, "bootstrap": "pmix", "host": "node7",
       "gpu": {"device": 0, "name": "H", "uuid": "GPU-a"}, "paths": ["self", "network"],
       "nic": "ofi", "why_no_load_store": ["", "far"]},
      {"pe": 1, "bootstrap": "", "host": "", "gpu": null, "paths": ["PCIe", "self"], "nic": "",
       "why_no_load_store": ["", ""]}],
    "algorithms": {
      "members": 2, "all_mapped": true, "members_of_a_domain": 0,
      "sync": {"algorithm": "flat", "flat_to_members": 5},
      "collectives": [
        {"operation": "put all", "scopes": ["thread", "host"], "ranges": [
          {"from": 1, "to": 8, "algorithm": "small", "moved_by": [
            {"variable": "GSHMEM_A", "value": "2"}, {"variable": "GSHMEM_B", "value": "x"}]},
          {"from": 9, "to": null, "algorithm": "large", "moved_by": []}]},
        {"operation": "reduce", "scopes": ["warp"], "ranges": [
          {"from": 1, "to": null, "algorithm": "any", "moved_by": [
            {"variable": "GSHMEM_C", "value": "y"}]}]}]}})page";
constexpr char kEmptyJson[] = R"page({
  "schema": 1,
  "build": {},
  "variables": [],
  "unknown_variables": [],
  "no_gpus": "",
  "gpus": [],
  "nics": [],
  "pes": null,
  "algorithms": null,
  "job_error": null
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
  // The peer may number its GPU differently in its own process.
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

TEST_CASE("a_page_has_everything_in_its_place") {
  CHECK(as_text(full_report()) == kFullPage);
  // One GPU has no peers. The page names what is missing, but no job if the user has not asked for
  // one.
  Report report;
  report.no_gpus = "no driver";
  CHECK(as_text(report) ==
        "gshmem\n\nGPUs\n  none: no driver\n\nRDMA network cards\n  none\n\nVariables that are "
        "set\n  "
        "none\n");
  report.gpus = {gpu(0, "GPU-a", {true})};
  report.job_error = "no job";
  CHECK(as_text(report) ==
        "gshmem\n\nGPUs\n  0  GPU, 0.0 GiB, PCI , GPU-a\n\nRDMA network cards\n"
        "  none\n\nVariables that are set\n  none\n\nJob\n  ERROR: no job\n");
}

TEST_CASE("json_has_every_member_in_its_place") {
  CHECK(nlohmann::json::parse(as_json(full_report())) == nlohmann::json::parse(kFullJson));
  CHECK(as_json(Report{}) == kEmptyJson);
}

}  // namespace gshmem::info
