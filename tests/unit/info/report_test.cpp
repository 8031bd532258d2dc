#include "host/info/report.h"

#include <catch2/catch.hpp>

#include <cstring>

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

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

}  // namespace

TEST_CASE("paths_in_cpu_mode_are_self_and_shared_memory") {
  CHECK(path_between(pe_on(0, -1, ""), pe_on(0, -1, ""), {}) == Path::kSelf);
  CHECK(path_between(pe_on(0, -1, ""), pe_on(1, -1, ""), {}) == Path::kSharedMemory);
}

TEST_CASE("paths_between_gpus_follow_uuids_and_native_atomics") {
  const std::vector<GpuInfo> gpus{gpu(0, "A", {true, true, false}),
                                  gpu(1, "B", {true, true, false}),
                                  gpu(2, "C", {false, false, true})};
  const PeFacts me = pe_on(0, 0, "A");
  CHECK(path_between(me, pe_on(0, 0, "A"), gpus) == Path::kSelf);
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

TEST_CASE("text_and_json_name_what_was_found") {
  Report report;
  report.gpus = {gpu(0, "GPU-a", {true, true}), gpu(1, "GPU-b", {true, true})};
  report.nics = {{"mlx5_0", 1, "InfiniBand", "ACTIVE", "400 Gb/sec"}};
  report.unknown_variables = {"GSHMEM_X is not a variable of gshmem"};
  report.job = Job{.rank = 0,
                   .pes = {pe_on(0, 0, "GPU-a"), pe_on(1, 1, "GPU-b")},
                   .paths = {Path::kSelf, Path::kNvlink, Path::kNvlink, Path::kSelf},
                   .why = std::vector<std::string>(4)};
  for (const std::string& text : {as_text(report), as_json(report)}) {
    for (const char* part :
         {"GPU-a", "GPU-b", "mlx5_0", "InfiniBand", "ACTIVE", "GSHMEM_X", "NVLink", "self"}) {
      INFO(part);
      CHECK(contains(text, part));
    }
  }
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

TEST_CASE("json_is_utf8_whatever_the_texts_are") {
  Report report;
  report.job_error = "caf\xc3\xa9 \xff \xc0\xaf \xe2\x82";
  CHECK(contains(as_json(report),
                 "\"caf\xc3\xa9 \xef\xbf\xbd \xef\xbf\xbd\xef\xbf\xbd \xef\xbf\xbd\""));
}

TEST_CASE("text_says_why_there_is_no_gpu_and_no_job") {
  Report report;
  report.no_gpus = "no driver here";
  report.job_error = "no server there";
  for (const std::string& text : {as_text(report), as_json(report)}) {
    CHECK(contains(text, "no driver here"));
    CHECK(contains(text, "no server there"));
  }
  CHECK_FALSE(report.good());
}

TEST_CASE("markdown_has_a_line_per_variable") {
  const std::string table =
      variables_as_markdown({{"GSHMEM_A", "2", "1", "yes", "h", "GSHMEM_A", true},
                             {"GSHMEM_B", "", "", "any text", "i", ""}});
  CHECK(contains(table, "| `GSHMEM_A` | `1` | h | yes | same |\n"));
  CHECK(contains(table, "| `GSHMEM_B` |  | i | any text |  |\n"));
}

}  // namespace gshmem::info
