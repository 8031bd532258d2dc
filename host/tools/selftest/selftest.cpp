#include "host/tools/selftest/selftest.h"

#include "host/runtime/gpu/gpu.h"
#include "host/tools/doctor/checks.h"
#include "host/tools/doctor/topology.h"
#include "host/tools/selftest/bench.h"

#include <gshmem/gshmem.h>

#include <algorithm>

namespace gshmem::selftest {
namespace {

using Kind = Finding::Kind;

struct NamedCheck {
  const char* name;
  Check check;
  Kind good = Kind::kGood;  ///< the result if there is no error
};
constexpr NamedCheck kChecks[] = {
    {"transfers", check_transfers},
    {"inline payloads", check_inline},
    {"atomics of 4 bytes", check_atomics_4},
    {"atomics of 8 bytes", check_atomics_8},
    {"signals", check_signals},
    {"wrap of the queue", check_wrap},
    {"doorbell alone", check_doorbell_alone},
    {"record first", check_record_first},
    {"order of arrival", check_order},
    {"error: beyond the heap", check_beyond_the_heap},
    {"error: remote key", check_bad_remote_key},
    {"error: local key", check_bad_local_key},
    {"error: unaligned atomic", check_unaligned_atomic},
    {"error: what comes after", check_entries_after_an_error},
    {"latency", measure_latency, Kind::kNote},
    {"rate", measure_rate, Kind::kNote},
    {"bandwidth", measure_bandwidth, Kind::kNote},
};

Finding finding_of(const NamedCheck& each, const Config& config) {
  try {
    Bench bench(config);
    return {each.good, each.name, each.check(bench)};
  } catch (const CheckFailed& failed) {
    return {Kind::kFailed, each.name, failed.why};
  } catch (const std::exception& error) {
    return {Kind::kFailed, each.name, error.what()};
  }
}

SelfTestPart test_part(const std::string& title, const Config& config) {
  SelfTestPart part{title, {}};
  try {
    const Bench bench(config);
    part.findings.push_back({Kind::kGood, "init", bench.network()});
  } catch (const std::exception& error) {
    part.findings.push_back({Kind::kFailed, "init", error.what()});
    return part;
  }
  for (const NamedCheck& each : kChecks) part.findings.push_back(finding_of(each, config));
  return part;
}

/// Tries a setting of queues in host memory: it checks data, the operations for signals, and
/// `more`.
Finding try_setting(const std::string& name, const Config& config,
                    std::initializer_list<Check> more = {}) {
  std::vector<Check> checks{check_transfers, check_signals};
  checks.insert(checks.end(), more);
  for (const Check check : checks) {
    const Finding each = finding_of({name.c_str(), check}, config);
    if (each.kind == Kind::kFailed) return each;
  }
  const Bench bench(config);
  return {Kind::kGood, name, bench.network()};
}

SelfTestPart test_records(Config config) {
  SelfTestPart part{"doorbell records, in host memory", {}};
  config.doorbell_record = Switch::kOn;
  part.findings.push_back(try_setting("on", config, {check_wrap}));
  config.doorbell_record = Switch::kOff;
  // The index of a queue has 16 bits, and without a record only the doorbell contains it.
  Finding off = try_setting("off", config, {check_wrap});
  if (off.kind == Kind::kFailed && off.detail.ends_with(" has no queues without doorbell records"))
    off.kind = Kind::kNote;
  part.findings.push_back(off);
  return part;
}

/// Tests the addresses of an Ethernet port, for each version of RoCE. A card has at least four. If
/// one of them does not work, this is not an error unless `network` uses it: its interface may be
/// down.
SelfTestPart test_addresses(Config config, const std::string& network) {
  SelfTestPart part{"addresses of the port, in host memory", {}};
  constexpr int kMost = 16;
  for (config.ib_gid_index = 0; config.ib_gid_index < kMost; ++config.ib_gid_index) {
    const std::string name = strprintf("GID %d", config.ib_gid_index);
    Finding each = try_setting(name, config);
    // The entry is after the end of the table, or it is empty.
    const bool is_none =
        each.kind == Kind::kFailed && each.detail.find("of the GID table") != std::string::npos;
    if (each.kind == Kind::kFailed && network.find(name + " ") == std::string::npos)
      each = {Kind::kNote, name, "unused, and does not work: " + each.detail};
    if (!is_none) part.findings.push_back(each);
  }
  return part;
}

}  // namespace

Config config_of(const Config& given) {
  Config config = given;
  config.p2p = false;
  config.fabric = Switch::kOff;
  if (config.nic != NicKind::kSoft) config.nic = NicKind::kMlx5;
  config.fault = abi::FaultPolicy::kReport;
  config.symmetric_size = 2 * Bench::kBytes;
  config.timeout = 3;
  config.ib_timeout = std::min(config.ib_timeout, 14);
  config.ib_retry_count = std::min(config.ib_retry_count, 3);
  config.qps_per_pe = 1;
  // The checks read entries, which are those of connections.
  if (config.connect == ConnectChoice::kDc) config.connect = ConnectChoice::kInit;
  return config;
}

std::string why_not(const info::Machine& machine) {
  if (machine.config.nic == NicKind::kSoft || !info::mlx5_devices(machine).empty()) return "";
  const info::Findings modules = info::check_rdma_modules(machine);
  if (std::ranges::any_of(modules, &info::Finding::is_trouble)) return "";
  return modules.front().text;
}

std::string as_text_without(const std::string& why) {
  return std::string(GSHMEM_VENDOR_STRING) +
         ", network card self-test\n\nIt does not apply to this machine: " + why +
         ".\nGSHMEM_NIC=soft tests the NIC in software.\n";
}

bool SelfTest::good() const {
  return std::ranges::all_of(parts, [](const SelfTestPart& part) {
    return std::ranges::none_of(part.findings,
                                [](const Finding& each) { return each.kind == Kind::kFailed; });
  });
}

SelfTest test_nic(const Config& given) {
  SelfTest test;
  Config config = config_of(given);
  config.device = DeviceChoice::kCpu;
  test.parts.push_back(test_part("host memory, rung by a CPU", config));
  const Finding& init = test.parts.front().findings.front();
  if (init.kind == Kind::kGood) {
    test.network = init.detail;
    test.parts.push_back(test_records(config));
    if (test.network.find("Ethernet") != std::string::npos)
      test.parts.push_back(test_addresses(config, test.network));
  }
  const std::string why = given.device == DeviceChoice::kCpu ? "GSHMEM_DEVICE=cpu" : why_no_gpu();
  if (!why.empty()) {
    test.parts.push_back({"GPU memory", {{Kind::kNote, "left out", why}}});
    return test;
  }
  config.device = DeviceChoice::kCuda;
  test.parts.push_back(test_part("GPU memory, as programs use it", config));
  config.queue_memory = QueueMemoryChoice::kHost;
  config.doorbell = DoorbellChoice::kAgent;
  test.parts.push_back(
      test_part("GPU memory, queues in host memory, rung by a host thread", config));
  return test;
}

std::string as_text(const SelfTest& test) {
  std::string text = std::string(GSHMEM_VENDOR_STRING) + ", network card self-test\n";
  for (const SelfTestPart& part : test.parts) {
    text += "\n" + part.title + "\n";
    for (const Finding& each : part.findings) {
      const char* word = each.kind == Kind::kGood     ? "ok"
                         : each.kind == Kind::kFailed ? "FAILED"
                                                      : "";
      text += strprintf("  %-6s  %-24s  %s\n", word, each.what.c_str(), each.detail.c_str());
    }
  }
  text += test.good() ? "\nAll checks are good.\n"
                      : "\nSome checks failed. Please send this page with the issue.\n";
  return text + as_line(test) + "\n";
}

std::string as_line(const SelfTest& test) {
  std::string line = std::string("result: ") + GSHMEM_VENDOR_STRING + "; " +
                     (test.network.empty() ? "no network" : test.network);
  for (const SelfTestPart& part : test.parts) {
    const auto good = std::ranges::count(part.findings, Kind::kGood, &Finding::kind);
    line += strprintf("; %s: %d ok", part.title.c_str(), static_cast<int>(good));
    for (const Finding& each : part.findings) {
      if (each.kind == Kind::kFailed) line += ", FAILED " + each.what;
      if (each.kind == Kind::kNote && each.what == "left out") line += ", left out";
      if (each.kind == Kind::kNote && each.what == "off") line += ", off is not there";
      if (each.kind == Kind::kNote && each.detail.starts_with("unused"))
        line += ", " + each.what + " does not work";
    }
  }
  return line;
}

}  // namespace gshmem::selftest
