// gshmem-info --gdr-proof on machines that are seeded with one trouble each (proof_cases.h). The
// name of a case is the row of troubles.def that has to be named, or it begins with "sound" or
// "unknown".
#include "bootstrap/bootstrap.h"
#include "host/runtime/execute.h"
#include "host/runtime/pe.h"
#include "host/tools/doctor/doctor.h"
#include "host/tools/proof/judge.h"
#include "host/tools/proof/measure.h"
#include "host/tools/proof/prove.h"

#include "tests/unit/info/proof_cases.h"

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include <stdlib.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>
#include <sstream>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace gshmem::proof {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

std::vector<std::string> case_names() {
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(GSHMEM_PROOFS))
    if (entry.path().extension() == ".case") names.push_back(entry.path().stem().string());
  std::ranges::sort(names);
  return names;
}

bool has_line(const Case& seeded, const std::string& command) {
  return ("\n" + seeded.tree).find("\n" + command + " ") != std::string::npos;
}
/// No file can say what CUDA and the loader do.
bool has_more_than_files(const std::string& name) {
  Case seeded;
  read_case(fs::path(GSHMEM_PROOFS) / (name + ".case"), seeded);
  return has_line(seeded, "cuda") || has_line(seeded, "library");
}

/// Changes a machine where no line of a case can; the result is kept while it is measured.
using Change = std::function<std::shared_ptr<void>(info::TestMachine&)>;

/// Proves a case in this process, which has no GPU.
Ran prove_here(const std::string& name, const Change& change = {}, int repeats = 1) {
  Case seeded;
  read_case(fs::path(GSHMEM_PROOFS) / (name + ".case"), seeded);
  info::TestMachine test(name, std::istringstream(seeded.tree));
  const std::string costs = (test.machine.root / "costs").string();
  std::ofstream(costs) << seeded.costs;
  REQUIRE(setenv("GSHNIC_COSTS", costs.c_str(), 1) == 0);
  test.machine.env = [](const char* variable) { return env_lookup(variable); };
  test.machine.config.device = DeviceChoice::kCpu;
  test.machine.config.nic = NicKind::kSoft;
  const Jobs jobs(test.machine.config, false);
  const Plan plan{.repeats = repeats, .bandwidth_bytes = {1 << 20}, .volume = 4 << 20};
  if (!has_line(seeded, "library")) test.machine = with_card_libraries(test.machine);
  const std::shared_ptr<void> meanwhile = change ? change(test) : nullptr;
  const Proof proof = prove(test.machine, jobs, plan);
  REQUIRE(unsetenv("GSHNIC_COSTS") == 0);
  return {proof.judgement.status(), as_json(proof)};
}

/// Checks what was printed of a case as JSON.
void check_verdict(const std::string& name, const Ran& ran) {
  INFO(name << ": " << ran.output);
  const json page = json::parse(ran.output);
  // Programs still stage, whatever is in the way of GPUDirect RDMA.
  CHECK_FALSE(page.at("gdr").at("off").contains("error"));
  for (const json& series : page.at("gdr").at("series"))
    CHECK(series.at("off").at("values").size() == 1);
  if (name.starts_with("sound")) {
    CHECK(ran.status == 0);
    CHECK(page.at("verdict") == "works");
    CHECK(page.at("cause").is_null());
  } else if (name.starts_with("unknown")) {
    CHECK(ran.status == 2);
    CHECK(page.at("verdict") == "unknown");
    CHECK(page.at("cause").is_null());
  } else {
    CHECK(ran.status == 1);
    CHECK(page.at("verdict") == "fails");
    REQUIRE_FALSE(page.at("cause").is_null());
    CHECK(page.at("cause").at("row") == name);
    CHECK_FALSE(page.at("cause").at("evidence").get<std::string>().empty());
    CHECK_FALSE(page.at("cause").at("fix").get<std::string>().empty());
  }
}

/// Figures of one call by the GPU, and a link of 50 GB/s with its evidence.
struct Figure {
  double latency_off = 10, latency_on = 3, gb_s_off = 10, gb_s_on = 45, cpu_off = 0.2,
         cpu_on = 0.02;
};
Comparison comparison_of(const Figure& figure) {
  Comparison gdr;
  gdr.on.network = gdr.off.network = "mlx5 (mlx5_0)";
  gdr.series = {{.quantity = Quantity::kLatency,
                 .caller = Caller::kGpu,
                 .bytes = 8,
                 .on = {{figure.latency_on}, {}},
                 .off = {{figure.latency_off}, {}}},
                {.quantity = Quantity::kBandwidth,
                 .caller = Caller::kGpu,
                 .bytes = 1 << 20,
                 .on = {{figure.gb_s_on}, {figure.cpu_on}},
                 .off = {{figure.gb_s_off}, {figure.cpu_off}}}};
  return gdr;
}
Place place_of(std::vector<Evidence> evidence) {
  return {.facts = {}, .link_gb_s = 50, .link = "the port's rate", .evidence = std::move(evidence)};
}
Evidence about(const char* check, info::Verdict verdict) {
  return {check, {verdict, "symptom", "cause", "fix"}};
}
std::string row_of(const Judgement& judgement) {
  return judgement.cause ? judgement.cause->name : "";
}

}  // namespace

TEST_CASE("each_seeded_trouble_is_named_and_others_have_none") {
  const std::vector<std::string> names = case_names();
  REQUIRE(names.size() >= 13);
  for (const std::string& name : names)
    check_verdict(name, has_more_than_files(name) ? prove_here(name)
                                                  : prove_case(name, "--json --repeats 1"));
}

/// A port that counts one more lost packet each millisecond.
class LosingPort {
 public:
  explicit LosingPort(fs::path counter) : counter_(std::move(counter)) {}
  ~LosingPort() {
    ended_ = true;
    losing_.join();
  }
  LosingPort(const LosingPort&) = delete;

 private:
  void lose() {
    const fs::path next = counter_.string() + ".next";
    for (int lost = 1; !ended_; ++lost) {
      std::ofstream(next) << lost << "\n";
      fs::rename(next, counter_);
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  }
  fs::path counter_;
  std::atomic<bool> ended_{false};
  std::thread losing_{[this] { lose(); }};
};

TEST_CASE("packets_that_are_lost_meanwhile_are_the_cause") {
  check_verdict("lost_packets", prove_here("sound_roce", [](info::TestMachine& test) {
                  std::ofstream(test.machine.root / "costs", std::ios::app) << "link_gb_s 14\n";
                  return std::make_shared<LosingPort>(test.machine.at(
                      "/sys/class/infiniband/mlx5_0/ports/1/hw_counters/packet_seq_err"));
                }));
}

TEST_CASE("gdrcopy_on_and_off_is_compared_for_loads_and_stores") {
  const Ran ran = prove_here(
      "sound",
      [](info::TestMachine& test) {
        test.machine.cuda.gpus.emplace_back();
        test.machine.library = [real = test.machine.library](
                                   const std::string& soname,
                                   const std::vector<std::string>& symbols) {
          return soname == "libgdrapi.so.2"
                     ? info::Library{.file = soname, .why_not = "", .missing = {}}
                     : real(soname, symbols);
        };
        return nullptr;
      },
      2);
  INFO(ran.output);
  const json compared = json::parse(ran.output).at("gdrcopy");
  std::vector<std::string> quantities;
  for (const json& series : compared.at("series")) {
    quantities.push_back(series.at("quantity"));
    for (const char* side : {"on", "off"}) CHECK(series.at(side).at("values").size() == 2);
  }
  CHECK(quantities == std::vector<std::string>{"load_us", "staged_put_us"});
  // Both sides of a put stage, whatever GPUDirect RDMA does here.
  for (const char* side : {"on", "off"})
    CHECK(compared.at("series").at(1).at(side).at("median") == Approx(2 + 2 * 6 + 6).epsilon(0.01));
}

#if defined(GSHMEM_FABRIC_DOUBLE)
constexpr char kOverLibfabric[] =
    "GSHMEM_NIC=ofi FABRIC_DOUBLE=offer=cxi LD_LIBRARY_PATH=" GSHMEM_FABRIC_DOUBLE " ";

TEST_CASE("verdicts_over_libfabric_are_the_same") {
  for (const std::string& name : case_names())
    if (!has_more_than_files(name))
      check_verdict(name, prove_case(name, "--json --repeats 1", kOverLibfabric));
}

TEST_CASE("on_is_rma_and_off_is_staged_over_libfabric") {
  const json gdr =
      json::parse(prove_case("sound", "--json --repeats 2", kOverLibfabric).output).at("gdr");
  CHECK(gdr.at("modelled") == true);
  CHECK_THAT(gdr.at("on").at("network").get<std::string>(), Catch::Contains("cxi"));
  bool seen = false;
  for (const json& series : gdr.at("series")) {
    const double on = series.at("on").at("median"), off = series.at("off").at("median");
    if (series.at("quantity") == "latency_us" && series.at("bytes") == 8) {
      CHECK(on == Approx(2 + 0.5 + 1.0 / 80).epsilon(0.01));
      CHECK(off == Approx(2 + 2 * 6 + 6).epsilon(0.01));
    }
    if (series.at("quantity") == "bandwidth_GB_s" && series.at("bytes") == 1 << 20) {
      seen = true;
      CHECK(on == Approx(48).epsilon(0.05));
      CHECK(off < 12);
    }
  }
  CHECK(seen);
}
#endif

TEST_CASE("on_and_off_differ_by_what_the_costs_say") {
  const json page = json::parse(prove_case("sound", "--json --repeats 3").output);
  CHECK(page.at("link_GB_s") == 50);
  bool seen = false;
  for (const json& series : page.at("gdr").at("series")) {
    CHECK(series.at("on").at("values").size() == 3);
    CHECK(series.at("off").at("values").size() == 3);
    const double on = series.at("on").at("median"), off = series.at("off").at("median");
    if (series.at("quantity") == "latency_us" && series.at("bytes") == 8) {
      CHECK(on == Approx(2 + 0.5 + 1.0 / 80).epsilon(0.001));
      CHECK(off == Approx(2 + 2 * 6 + 6).epsilon(0.001));
    }
    if (series.at("quantity") == "bandwidth_GB_s" && series.at("bytes") == 1 << 20) {
      seen = true;
      CHECK(on == Approx(48).epsilon(0.05));
      CHECK(off == Approx(11).epsilon(0.05));
      const double cpu_on = series.at("on").at("cpu_seconds").at(0);
      CHECK(cpu_on == Approx(1.0 / on).epsilon(0.01));  // one CPU waits
    }
  }
  CHECK(seen);
}

TEST_CASE("causes_are_found_also_where_programs_stage") {
  const Ran ran = prove_case("no_peermem", "--json --repeats 1", "GSHMEM_GDR=off ");
  INFO(ran.output);
  CHECK(ran.status == 1);
  const json page = json::parse(ran.output);
  CHECK(page.at("cause").at("row") == "no_peermem");
  CHECK(page.at("facts").at("setting") == "GSHMEM_GDR=off is set: programs here stage");
}

TEST_CASE("the_page_and_the_text_have_the_verdict_and_every_figure") {
  const fs::path file = fs::temp_directory_path() / ("gshmem-proof." + std::to_string(getpid()));
  const Ran ran = prove_case("far_root_complex", "--repeats 2 --page " + file.string());
  const std::string page = info::read(file);
  fs::remove(file);
  CHECK(ran.status == 1);
  for (const char* part : {"GPU and NIC are below different root complexes", "SYS",
                           "nvidia-smi topo -m", "least .. most", "4 KiB", "1 MiB"}) {
    INFO(part);
    CHECK_THAT(ran.output, Catch::Contains(part));
    CHECK_THAT(page, Catch::Contains(part));
  }
  CHECK_THAT(page, Catch::StartsWith("<!doctype html>"));
  CHECK_THAT(page, !Catch::Contains("http"));
  // A line for each side of latency and bandwidth.
  for (const char* side : {"<g class=\"on\">", "<g class=\"off\">"}) {
    std::size_t lines = 0;
    for (std::size_t at = 0; (at = page.find(side, at)) != std::string::npos; ++at) ++lines;
    CHECK(lines == 2);
  }
}

TEST_CASE("a_side_of_gdrcopy_that_fails_is_shown_with_its_reason") {
  Proof proof;
  proof.gdr = comparison_of({});
  proof.gdrcopy = Comparison{};
  proof.gdrcopy->on.error = "gdr_open: the module gdrdrv is not loaded";
  for (const std::string& shown : {as_text(proof), as_page(proof)}) {
    CHECK_THAT(shown, Catch::Contains("GDRCopy"));
    CHECK_THAT(shown, Catch::Contains("not measured: gdr_open: the module gdrdrv is not loaded"));
  }
}

TEST_CASE("nothing_is_shown_of_jobs_that_did_not_run") {
  Proof proof;
  proof.repeats = 7;
  proof.judgement.sentence = "GPUDirect RDMA does not apply: there is no NVIDIA GPU";
  for (const std::string& shown : {as_text(proof), as_page(proof)}) {
    CHECK_THAT(shown, Catch::Contains("there is no NVIDIA GPU"));
    CHECK_THAT(shown, !Catch::Contains("alternately") && !Catch::Contains("both PEs"));
  }
}

TEST_CASE("what_does_not_apply_is_said_with_a_status_of_its_own") {
  const std::string nothing = "CUDA_VISIBLE_DEVICES= GSHMEM_DEVICE=cpu GSHMEM_TEST_ROOT=/nowhere ";
  const Ran no_gpu = run(nothing + GSHMEM_INFO_PROGRAM " --gdr-proof");
  CHECK(no_gpu.status == 2);
  CHECK_THAT(no_gpu.output, Catch::Contains("does not apply: there is no NVIDIA GPU"));
  const Ran load_store = run(nothing + "GSHMEM_NIC=none " GSHMEM_INFO_PROGRAM " --gdr-proof");
  CHECK(load_store.status == 2);
  CHECK_THAT(load_store.output, Catch::Contains("load/store only"));
  // A GPU and a card do not help a job in CPU mode.
  const Ran on_cpu =
      prove_case("sound", "--repeats 1", "GSHMEM_NIC=ofi GSHNIC_COSTS= GSHMEM_TEST_FABRIC_COSTS= ");
  CHECK(on_cpu.status == 2);
  CHECK_THAT(on_cpu.output, Catch::Contains("does not apply: CPU mode: GSHMEM_DEVICE=cpu"));
}

TEST_CASE("what_keeps_it_from_measuring_is_no_verdict") {
  const Ran variable = prove_case("sound", "2>&1", "GSHMEM_QP_DEPTH=deep ");
  CHECK(variable.status == 2);
  CHECK_THAT(variable.output, Catch::StartsWith("gshmem-info: GSHMEM_QP_DEPTH=\"deep\""));
  const Ran page = prove_case("sound", "--page /nowhere/page.html 2>&1");
  CHECK(page.status == 2);
  CHECK_THAT(page.output, Catch::StartsWith("gshmem-info: --page /nowhere/page.html"));
}

TEST_CASE("load_store_is_compared_with_a_network_by_the_clock") {
  const Jobs jobs(Config::from_env(), false);
  Config on = proof_config(Config::from_env(), true), off;
  on.device = DeviceChoice::kCpu;
  off = on;
  on.p2p = true;
  on.nic = NicKind::kNone;
  off.nic = NicKind::kSoft;
  const Plan plan{.repeats = 2,
                  .latency_bytes = {8},
                  .bandwidth_bytes = {65536},
                  .calls = 10,
                  .messages = 100,
                  .volume = 1 << 20};
  const Comparison both = compare(jobs, plan, on, off);
  CHECK(both.on.error + both.off.error == "");
  CHECK(both.on.network == "load/store");
  CHECK_THAT(both.off.network, Catch::Contains("mlx5_0"));
  CHECK_FALSE(both.modelled);
  CHECK(both.series.size() == 3);
  for (const Series& series : both.series) {
    for (const Figures* figures : {&series.on, &series.off}) {
      CHECK(figures->values.size() == 2);
      CHECK(std::ranges::min(figures->values) > 0);
      CHECK(figures->cpu.size() == (series.quantity == Quantity::kLatency ? 0 : 2));
    }
  }

  // A side that does not start leaves the other one, and every repeat of it.
  on.nic = NicKind::kSoft;
  on.p2p = false;
  on.nic_devices = "=no_such";
  const Comparison one = compare(jobs, plan, on, off);
  CHECK_THAT(one.on.error, Catch::Contains("no_such"));
  CHECK(one.off.good());
  CHECK(one.series.at(0).on.values.empty());
  CHECK(one.series.at(0).off.values.size() == 2);
}

TEST_CASE("blocks_of_a_kernel_move_each_message_together") {
  for (const std::uint64_t bytes : {1ul, 16ul, 1000ul, 65536ul, 3ul << 20}) {
    for (const std::uint32_t blocks : {1u, 3u, 16u}) {
      std::uint64_t end = 0;
      for (std::uint32_t i = 0; i < blocks; ++i) {
        const device::BlockPart part = device::part_of_block(bytes, i, blocks);
        CHECK(part.at == end);
        CHECK((part.at % 16 == 0 || part.bytes == 0));
        end += part.bytes;
      }
      CHECK(end == bytes);
    }
  }
  // This runs the blocks of a grid one after the other.
  Config config = Config::from_env();
  config.device = DeviceChoice::kCpu;
  config.nic = NicKind::kNone;
  config.symmetric_size = 1 << 20;
  Pe pe(bootstrap::create_single(), PeOptions{.config = config});
  constexpr std::size_t kBytes = 1000;
  auto* const source = static_cast<char*>(pe.heap().allocate("test", kBytes, 4096, true));
  auto* const dest = static_cast<char*>(pe.heap().allocate("test", kBytes, 4096, true));
  std::fill_n(source, kBytes, 'x');
  device::Call call =
      device::Call::transfer(device::CallKind::kTimed, "test", dest, source, kBytes, 0, false);
  call.cond = static_cast<std::uint64_t>(device::CallKind::kPut);
  call.operand = 2;
  call.blocks = 3;
  for (int block = 0; block < call.blocks; ++block) {
    const device::BlockPart part =
        device::part_of_block(kBytes, static_cast<std::uint32_t>(block), 3);
    CHECK(std::count(dest, dest + kBytes, 'x') == static_cast<std::ptrdiff_t>(part.at));
    const device::HostLane lane{.block_rank = block, .grid_size = 3};
    gshmemi_ambient()->lane = &lane;
    (void)device::execute(device::Thread{}, pe.state(), "test", call);
    gshmemi_ambient()->lane = nullptr;
  }
  CHECK(std::count(dest, dest + kBytes, 'x') == kBytes);
}

TEST_CASE("load_store_is_said_to_be_how_much_faster_than_staging") {
  Comparison p2p =
      comparison_of({.latency_off = 40, .latency_on = 1.2, .gb_s_off = 2, .gb_s_on = 340});
  p2p.blocks = 16;
  CHECK(load_store_text(p2p) ==
        "load/store moves messages of 1 MiB at 340 GB/s, staging at 2.00 (170 times); a put of 8 "
        "bytes takes 1.20 us, staged 40.0 (-97 %)");
  Proof proof;
  proof.gdr = p2p;
  for (const std::string& shown : {as_text(proof), as_page(proof)})
    CHECK_THAT(shown, Catch::Contains("those of 16 blocks move each message of a bandwidth"));
  CHECK(json::parse(as_json(proof)).at("gdr").at("blocks") == 16);
  p2p.series[1].off = {};
  CHECK(load_store_text(p2p).empty());
}

TEST_CASE("a_verdict_follows_from_each_criterion") {
  using info::Verdict;
  const std::vector<Evidence> all{about("numa", Verdict::kHint), about("mtu", Verdict::kHint)};
  const auto judged = [&](const Figure& figure) {
    return judge(comparison_of(figure), place_of(all));
  };
  CHECK(judged({}).status() == 0);
  CHECK_FALSE(judged({}).cause);
  // Bandwidth: 30 % more, or nearly all of the link.
  CHECK(judged({.gb_s_off = 30, .gb_s_on = 38.9}).status() == 1);
  CHECK(judged({.gb_s_off = 30, .gb_s_on = 39.1}).status() == 0);
  CHECK(judged({.gb_s_off = 39, .gb_s_on = 40.1}).status() == 0);
  // The share of the link.
  CHECK(judged({.gb_s_on = 29.9}).status() == 1);
  CHECK(judged({.gb_s_on = 30.1}).status() == 0);
  Place no_rate = place_of(all);
  no_rate.link_gb_s = 0;
  const Judgement unknown = judge(comparison_of({}), no_rate);
  CHECK(unknown.status() == 0);
  CHECK_THAT(unknown.sentence, Catch::Contains("not judged: share of the link"));
  // Latency: half.
  CHECK(judged({.latency_on = 5.1}).status() == 1);
  CHECK(judged({.latency_on = 4.9}).status() == 0);
  // The CPU.
  CHECK(judged({.cpu_on = 0.19}).status() == 1);
  CHECK(judged({.cpu_on = 0.17}).status() == 0);
  // A row is for signs of its own: the MTU for bandwidth, far CPUs for all.
  CHECK(row_of(judged({.gb_s_on = 12})) == "small_mtu");
  CHECK(row_of(judged({.latency_on = 9})) == "far_cpu");
  CHECK(row_of(judged({.cpu_on = 0.3})) == "far_cpu");
}

TEST_CASE("a_side_that_was_not_measured_is_not_compared") {
  Comparison gdr = comparison_of({.gb_s_on = 45});
  gdr.off = {.network = "", .error = "libfabric is missing"};
  for (Series& series : gdr.series) series.off = {};
  CHECK(judge(gdr, place_of({})).status() == 0);  // the share of the link says enough
  gdr.series[1].on.values = {30};
  const Judgement unknown = judge(gdr, place_of({about("acs", info::Verdict::kProblem)}));
  CHECK(unknown.status() == 2);
  CHECK_THAT(unknown.sentence, Catch::Contains("libfabric is missing"));
  gdr.series[1].on.values = {29};
  const Judgement slow = judge(gdr, place_of({about("acs", info::Verdict::kProblem)}));
  CHECK(slow.status() == 1);
  CHECK(row_of(slow) == "acs");
  Place no_rate = place_of({});
  no_rate.link_gb_s = 0;
  CHECK(judge(gdr, no_rate).status() == 2);
  CHECK_THAT(judge(gdr, no_rate).sentence, Catch::Contains("the rate of the link is unknown"));

  gdr.on = {.network = "", .error = "the heap cannot be registered"};
  CHECK(judge(gdr, place_of({})).status() == 2);
  const Judgement failed = judge(gdr, place_of({about("dmabuf", info::Verdict::kProblem)}));
  CHECK(failed.status() == 1);
  CHECK(row_of(failed) == "no_support");
  // A job that does not start either way has other reasons.
  gdr.off.error = gdr.on.error;
  const Judgement neither = judge(gdr, place_of({about("dmabuf", info::Verdict::kProblem)}));
  CHECK(neither.status() == 2);
  CHECK_FALSE(neither.cause);
  CHECK_THAT(neither.sentence, Catch::Contains("the heap cannot be registered"));
  gdr.off.error = "libfabric is missing";
  // A hint is no reason for a job that does not start.
  CHECK(judge(gdr, place_of({about("dmabuf", info::Verdict::kHint)})).status() == 2);
}

TEST_CASE("the_largest_message_is_the_one_that_was_asked_for") {
  using Sizes = std::vector<std::size_t>;
  constexpr std::size_t kKib = 1 << 10, kMib = 1 << 20;
  CHECK(bandwidth_sizes(kMib) == Sizes{64 * kKib, 256 * kKib, kMib});
  CHECK(bandwidth_sizes(32 * kMib).back() == 32 * kMib);
  CHECK(bandwidth_sizes(128 * kMib).back() == 128 * kMib);
  CHECK(Plan().bandwidth_bytes.back() == 64 * kMib);
}

TEST_CASE("rows_of_troubles_name_checks_of_the_doctor") {
  for (const std::string& name : checks_of_troubles()) {
    INFO(name);
    const auto all = info::all_checks();
    CHECK(std::ranges::count_if(all, [&](const auto& check) { return name == check.name; }) == 1);
  }
}

}  // namespace gshmem::proof
