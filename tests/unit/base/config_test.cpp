#include "host/base/config.h"

#include "host/base/error.h"
#include "tests/capture.h"

#include <catch2/catch.hpp>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdlib>
#include <map>
#include <optional>
#include <set>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

namespace gshmem {
namespace {

using Values = std::map<std::string, std::string>;
using Names = std::vector<std::string>;

const char* find_value(const char* name, void* context) {
  const Values& values = *static_cast<const Values*>(context);
  const auto found = values.find(name);
  return found != values.end() ? found->second.c_str() : nullptr;
}

Config parse(Values values) { return Config::from(find_value, &values); }

std::uint64_t size_of(const std::string& text) {
  return parse({{"GSHMEM_SYMMETRIC_SIZE", text}}).symmetric_size;
}

/// Returns the error text when `name` is set to `text`, or "accepted" when there is no error.
std::string error_of(const std::string& name, const std::string& text) {
  try {
    (void)parse({{name, text}});
  } catch (const Error& error) {
    CHECK(error.code() == GSHMEMX_ERROR_CONFIG);
    return error.what();
  }
  return "accepted";
}

// The variables of each type come from the table itself, so that a new line is covered without a
// new test.
const Names kBytesNames = {
#define GSHMEM_BYTES(field, name, ...) "GSHMEM_" #name,
#define GSHMEM_INT(...)
#define GSHMEM_SECONDS(...)
#define GSHMEM_BOOL(...)
#define GSHMEM_STRING(...)
#define GSHMEM_CHOICE(...)
#include "host/base/config.def"
};
struct IntName {
  std::string name;
  long min, max;
};
const std::vector<IntName> kIntNames = {
#define GSHMEM_BYTES(...)
#define GSHMEM_INT(field, name, same, def, min, max, help) {"GSHMEM_" #name, min, max},
#define GSHMEM_SECONDS(...)
#define GSHMEM_BOOL(...)
#define GSHMEM_STRING(...)
#define GSHMEM_CHOICE(...)
#include "host/base/config.def"
};
const Names kSecondsNames = {
#define GSHMEM_BYTES(...)
#define GSHMEM_INT(...)
#define GSHMEM_SECONDS(field, name, ...) "GSHMEM_" #name,
#define GSHMEM_BOOL(...)
#define GSHMEM_STRING(...)
#define GSHMEM_CHOICE(...)
#include "host/base/config.def"
};
const Names kBoolNames = {
#define GSHMEM_BYTES(...)
#define GSHMEM_INT(...)
#define GSHMEM_SECONDS(...)
#define GSHMEM_BOOL(field, name, ...) "GSHMEM_" #name,
#define GSHMEM_STRING(...)
#define GSHMEM_CHOICE(...)
#include "host/base/config.def"
};
const Names kChoiceNames = {
#define GSHMEM_BYTES(...)
#define GSHMEM_INT(...)
#define GSHMEM_SECONDS(...)
#define GSHMEM_BOOL(...)
#define GSHMEM_STRING(...)
#define GSHMEM_CHOICE(field, Type, name, ...) "GSHMEM_" #name,
#include "host/base/config.def"
};

void check_refused(const std::string& name, const std::string& text, const std::string& accepted) {
  const std::string expected = name + "=\"" + text + "\": expected " + accepted;
  CHECK(error_of(name, text).substr(0, expected.size()) == expected);
}

TEST_CASE("defaults_are_those_of_the_table") {
  const Config config = parse({});
  CHECK(config.device == DeviceChoice::kAuto);
  CHECK(config.symmetric_size == 1073741824U);
  CHECK(config.bootstrap == BootstrapKind::kAuto);
  CHECK(config.bootstrap_timeout == 60.0);
  CHECK(config.uid_address.empty());
  CHECK(config.uid_rank == -1);
  CHECK(config.timeout == 1800.0);
  CHECK(config.fault == abi::FaultPolicy::kAbort);
  CHECK(config.max_pes_per_gpu == 1);
  CHECK(config.p2p);
  CHECK(config.log_level == LogLevel::kWarn);
}

TEST_CASE("sizes_take_units_hex_and_fractions") {
  const std::pair<const char*, std::uint64_t> table[] = {
      {"0", 0},
      {"1", 1},
      {"007", 7},
      {"4096", 4096},
      {"1K", 1024},
      {"1k", 1024},
      {"20m", 20971520},
      {"2M", 2097152},
      {"3G", 3221225472},
      {"5T", 5497558138880},
      {"0x10", 16},
      {"0x9", 9},
      {"0XfF", 255},
      {"0x10K", 16384},
      {"3.1M", 3250586},
      {"1.5G", 1610612736},
      {"32MB", 33554432},
      {"10gb", 10737418240},
      {"32MiB", 33554432},
      {".5m", 524288},
      {"0.5K", 512},
      {"0.0001", 1},
      {"1.0", 1},
      {"18446744073709551615", UINT64_MAX},
      {"0xffffffffffffffff", UINT64_MAX},
      {"16777215T", 18446742974197923840U},
      {"18014398509481983K", 18446744073709550592U},
      {"18014398509481983.999K", 18446744073709551615U},
  };
  for (const auto& [text, bytes] : table) {
    CAPTURE(text);
    CHECK(size_of(text) == bytes);
  }
  // A part of a byte that is smaller than any double but 0 still counts.
  CHECK(size_of("2." + std::string(400, '0') + "1") == 3);
}

TEST_CASE("bad_sizes_are_refused") {
  for (const std::string& name : kBytesNames) {
    for (const char* text : {" ",      "-1",     "+1",  "abc",  "K",    "0x",   "0xK",     "0xg",
                             "1 G",    " 1G",    "1G ", "1GG",  "1KBB", "1BiB", "12x",     "1e9",
                             "nan",    "inf",    "1.",  "-.5",  ".",    "20kk", "1.5.5",   "1.e3",
                             "1.5e3K", "0x1.8K", "1,5", "1.-5", "--1",  "1P",   "\xc2\xbd"})
      check_refused(name, text,
                    "a size in bytes (a number or 0x hex, with an optional K, M, G or T)");
  }
}

TEST_CASE("integers_accept_their_range_and_nothing_else") {
  for (const IntName& v : kIntNames) {
    CHECK(error_of(v.name, std::to_string(v.min)) == "accepted");
    CHECK(error_of(v.name, std::to_string(v.max)) == "accepted");
    const std::string accepted = strprintf("an integer from %ld to %ld", v.min, v.max);
    for (const std::string& text :
         {std::to_string(v.min - 1), std::to_string(v.max + 1), std::string("2147483648"),
          std::string("4294967297"), std::string("18446744073709551617"), std::string("abc"),
          std::string("1 "), std::string(" 1"), std::string("1x"), std::string("1.0"),
          std::string("+1"), std::string("0x1"), std::string("-")})
      check_refused(v.name, text, accepted);
  }
  CHECK(parse({{"GSHMEM_UID_RANK", "12"}}).uid_rank == 12);
  CHECK(error_of("GSHMEM_MAX_PES_PER_GPU", "65") ==
        "GSHMEM_MAX_PES_PER_GPU=\"65\": expected an integer from 1 to 64");
}

TEST_CASE("seconds_take_fractions_and_no_negatives") {
  const std::pair<const char*, double> table[] = {{"0", 0},    {"1", 1},      {"0.25", 0.25},
                                                  {".5", 0.5}, {"1e3", 1000}, {"1000000000", 1e9}};
  for (const auto& [text, seconds] : table) {
    CAPTURE(text);
    CHECK(parse({{"GSHMEM_TIMEOUT", text}}).timeout == seconds);
  }
  for (const std::string& name : kSecondsNames) {
    for (const char* text : {" ",   "abc",  "-1",         "-0",   "-0.0",  "-1e-999", "nan", "-nan",
                             "inf", "-inf", "infinity",   "1s",   "1 ",    " 1",      "+1",  "0x10",
                             "1,5", "1e",   "1000000001", "1e10", "1e999", "1e-999"})
      check_refused(name, text, "seconds (a number >= 0; 0 = never)");
  }
  CHECK(error_of("GSHMEM_TIMEOUT", "abc") ==
        "GSHMEM_TIMEOUT=\"abc\": expected seconds (a number >= 0; 0 = never)");
  CHECK(error_of("GSHMEM_TIMEOUT", "1e10").ends_with("; it is more than 1e9"));
}

TEST_CASE("booleans_take_the_usual_words") {
  for (const char* text : {"1", "yes", "true", "on", "YES", "True", "oN"})
    CHECK(parse({{"GSHMEM_P2P", text}}).p2p);
  for (const char* text : {"0", "no", "false", "off", "NO", "False", "oFF"})
    CHECK_FALSE(parse({{"GSHMEM_P2P", text}}).p2p);
  for (const std::string& name : kBoolNames) {
    for (const char* text : {" ", "2", "-1", "01", "y", "n", "t", "tru", "yess", "1 ", "enable"})
      check_refused(name, text, "one of 0 1 yes no true false on off");
  }
}

TEST_CASE("choices_take_their_words_and_keep_the_table_s_spelling") {
  CHECK(parse({{"GSHMEM_DEVICE", "cpu"}}).device == DeviceChoice::kCpu);
  CHECK(parse({{"GSHMEM_DEVICE", "CUDA"}}).device == DeviceChoice::kCuda);
  CHECK(parse({{"GSHMEM_FAULT", "Report"}}).fault == abi::FaultPolicy::kReport);
  CHECK(error_of("GSHMEM_DEVICE", "gpu") == "GSHMEM_DEVICE=\"gpu\": expected one of auto cuda cpu");
  for (const std::string& name : kChoiceNames) {
    for (const char* text : {" ", "|", "xyz", "aut", "autoo", "auto|cpu", "auto ", "-1"})
      check_refused(name, text, "one of ");
  }
}

/// Returns the error text for three PEs, of which the last has `name` set to `text`.
std::string difference(const std::string& name, const std::string& text) {
  std::vector<std::uint64_t> all;
  for (const Values& values : {Values{}, Values{}, Values{{name, text}}}) {
    for (const std::uint64_t value : config_same_values(parse(values))) all.push_back(value);
  }
  try {
    config_require_same(all);
  } catch (const Error& error) {
    CHECK(error.code() == GSHMEMX_ERROR_SYMMETRY);
    return error.what();
  }
  return "";
}

TEST_CASE("a_difference_between_pes_is_named_with_both_values_and_pes") {
  CHECK(difference("GSHMEM_TEAMS", "4") ==
        "GSHMEM_TEAMS is 128 on PE 0 and 4 on PE 2; set it the same on all PEs");
  CHECK(difference("GSHMEM_FABRIC", "off") ==
        "GSHMEM_FABRIC is auto on PE 0 and off on PE 2; set it the same on all PEs");
  CHECK(difference("GSHMEM_P2P", "no") ==
        "GSHMEM_P2P is 1 on PE 0 and 0 on PE 2; set it the same on all PEs");
  CHECK(difference("GSHMEM_SYMMETRIC_SIZE", "1M") ==
        "GSHMEM_SYMMETRIC_SIZE is 1073741824 bytes (1 GiB) on PE 0 and 1048576 bytes (1 MiB) on "
        "PE 2; set it the same on all PEs");
  for (const char* name :
       {"GSHMEM_NIC", "GSHMEM_P2P_GROUP", "GSHMEM_QPS_PER_PE", "GSHMEM_CONTEXTS"}) {
    const std::string text = name == std::string("GSHMEM_NIC") ? "none" : "7";
    CHECK(difference(name, text).find(name + std::string(" is ")) == 0);
  }
  CHECK(difference("GSHMEM_NIC", "AUTO") == "");   // another spelling
  CHECK(difference("GSHMEM_TIMEOUT", "5") == "");  // may differ between PEs
  CHECK(difference("GSHMEM_QP_DEPTH", "64") == "");
}

// Compose files and job scripts write GSHMEM_X= for a variable that has no value.
TEST_CASE("an_empty_variable_counts_as_not_set") {
  Values none;
  Values empty;
  for (const ConfigEntry& entry : config_entries(find_value, &none)) empty[entry.name] = "";
  for (const ConfigEntry& entry : config_entries(find_value, &empty)) {
    CAPTURE(entry.name);
    CHECK(entry.value == entry.default_value);
    CHECK(entry.set_by.empty());
  }
  CHECK(parse(empty).symmetric_size == 1073741824U);
}

TEST_CASE("environment_is_read") {
  REQUIRE(setenv("GSHMEM_UID_SIZE", "17", 1) == 0);
  CHECK(Config::from_env().uid_size == 17);
  bool seen = false;
  for (const ConfigEntry& entry : config_entries_from_env()) {
    if (entry.name != "GSHMEM_UID_SIZE") continue;
    seen = true;
    CHECK(entry.value == "17");
    CHECK(entry.set_by == "GSHMEM_UID_SIZE");
  }
  CHECK(seen);
  REQUIRE(setenv("GSHMEM_UID_SIZE", "seventeen", 1) == 0);
  CHECK_THROWS_AS(Config::from_env(), Error);
  REQUIRE(unsetenv("GSHMEM_UID_SIZE") == 0);
}

TEST_CASE("variables_of_nvshmem_count_if_those_of_gshmem_are_not_set") {
  CHECK(parse({{"NVSHMEM_SYMMETRIC_SIZE", "1.5G"}}).symmetric_size == 3u << 29);
  CHECK(parse({{"NVSHMEM_SYMMETRIC_SIZE", "2G"}, {"GSHMEM_SYMMETRIC_SIZE", "1M"}}).symmetric_size ==
        1u << 20);
  CHECK(parse({}).symmetric_growth);
  CHECK_FALSE(parse({{"NVSHMEM_DISABLE_CUDA_VMM", "1"}}).symmetric_growth);
  CHECK(parse({{"NVSHMEM_DISABLE_CUDA_VMM", "0"}}).symmetric_growth);
  CHECK(parse({{"NVSHMEM_MAX_MEMORY_PER_GPU", "3G"}}).symmetric_limit == std::uint64_t{3} << 30);
  CHECK(parse({{"NVSHMEM_CUMEM_GRANULARITY", "2M"}}).symmetric_part == 2u << 20);
  CHECK_FALSE(parse({{"NVSHMEM_DISABLE_P2P", "true"}}).p2p);
  CHECK(parse({{"NVSHMEM_DISABLE_P2P", "0"}}).p2p);
  CHECK(parse({{"NVSHMEM_DISABLE_MNNVL", "1"}}).fabric == Switch::kOff);
  CHECK(parse({{"NVSHMEM_IBGDA_NIC_HANDLER", "cpu"}}).doorbell == DoorbellChoice::kAgent);
  CHECK(parse({{"NVSHMEM_IBGDA_RC_MAP_BY", "CTA"}}).qp_map == abi::QueueMap::kBlock);
  CHECK(parse({{"NVSHMEM_DEBUG", "TRACE"}}).log_level == LogLevel::kDebug);
  CHECK(parse({{"NVSHMEM_HCA_LIST", "^mlx5_2"}}).nic_devices == "^mlx5_2");
  // A value of NVSHMEM that this library does not accept does not end the program.
  Values values{
      {"NVSHMEM_QP_DEPTH", "8"}, {"NVSHMEM_REMOTE_TRANSPORT", "carrier"}, {"NVSHMEM_HCA_LIST", ""}};
  CHECK(parse(values).qp_depth == 1024);
  CHECK(config_unused_twins(find_value, &values) ==
        Names{"NVSHMEM_REMOTE_TRANSPORT=\"carrier\" is ignored: GSHMEM_NIC accepts one of auto "
              "mlx5 soft ofi none",
              "NVSHMEM_QP_DEPTH=\"8\" is ignored: GSHMEM_QP_DEPTH accepts an integer from 64 to "
              "32768"});
  // A value that only gshmem knows is no value of NVSHMEM, and an empty value counts as not set.
  Values other{{"NVSHMEM_REMOTE_TRANSPORT", "soft"}, {"NVSHMEM_QP_DEPTH", ""}};
  CHECK(parse(other).nic == NicKind::kAuto);
  CHECK(config_unused_twins(find_value, &other).size() == 1);
  values["GSHMEM_QP_DEPTH"] = "64";
  values.erase("NVSHMEM_REMOTE_TRANSPORT");
  CHECK(config_unused_twins(find_value, &values).empty());
  values = {{"NVSHMEM_IB_SL", "3"}, {"NVSHMEM_HCA_LIST", ""}};
  for (const ConfigEntry& entry : config_entries(find_value, &values)) {
    if (entry.name == "GSHMEM_IB_SL")
      CHECK((entry.value == "3" && entry.set_by == "NVSHMEM_IB_SL"));
    if (entry.name == "GSHMEM_NIC_DEVICES") CHECK(entry.set_by.empty());
  }
}

TEST_CASE("a_bad_size_of_nvshmem_is_an_error_that_names_its_variable") {
  for (const char* name : {"NVSHMEM_SYMMETRIC_SIZE", "NVSHMEM_MAX_MEMORY_PER_GPU"}) {
    check_refused(name, "abc", "a size in bytes");
    check_refused(name, "-1", "a size in bytes");
  }
  CHECK(parse({{"NVSHMEM_SYMMETRIC_SIZE", "10GB"}}).symmetric_size == 10737418240U);
}

TEST_CASE("variables_of_nvshmem_that_change_nothing_are_named_on_one_line") {
  CHECK(config_names_without_twin({"NVSHMEM_DISABLE_NCCL"}) ==
        "NVSHMEM_DISABLE_NCCL: no counterpart in gshmem, changes nothing");
  CHECK(config_names_without_twin({"PATH", "NVSHMEM_HCA_PE_MAPPING", "NVSHMEM_SYMMETRIC_SIZE",
                                   "NVSHMEM_SYMETRIC_SIZE", "NVSHMEM_HOME", "GSHMEM_X"}) ==
        "NVSHMEM_HCA_PE_MAPPING, NVSHMEM_SYMETRIC_SIZE: no counterpart in gshmem, changes nothing; "
        "for NVSHMEM_HCA_PE_MAPPING see GSHMEM_NIC_DEVICES; did you mean NVSHMEM_SYMMETRIC_SIZE?");
  // This name is one letter from a variable that is accepted, and from another variable of NVSHMEM.
  CHECK(config_names_without_twin({"NVSHMEM_IBGDA_DCI_MAP_BY"}) ==
        "NVSHMEM_IBGDA_DCI_MAP_BY: no counterpart in gshmem, changes nothing; for "
        "NVSHMEM_IBGDA_DCI_MAP_BY see GSHMEM_QP_MAP");
  CHECK(config_names_without_twin({"NVSHMEM_QP_DEPTH", "NVSHMEM_VERSION"}).empty());
}

TEST_CASE("log_lines_name_the_variable_that_the_user_has_set") {
  const std::string line = "GSHMEM_SYMMETRIC_LIMIT=7: too large";
  CHECK(config_note_on(line).empty());
  REQUIRE(setenv("NVSHMEM_MAX_MEMORY_PER_GPU", "7", 1) == 0);
  test::StderrCapture capture;
  log_configure(LogLevel::kWarn, "");
  log_line(LogLevel::kWarn, "%s", line.c_str());
  log_line(LogLevel::kWarn, "GSHMEM_SYMMETRIC_LIMITS and GSHMEM_TEAMS");
  REQUIRE(setenv("GSHMEM_SYMMETRIC_LIMIT", "7", 1) == 0);
  log_line(LogLevel::kWarn, "%s", line.c_str());
  CHECK(capture.writes() ==
        Names{"gshmem[-] WARN: GSHMEM_SYMMETRIC_LIMIT=7: too large (GSHMEM_SYMMETRIC_LIMIT is set "
              "by NVSHMEM_MAX_MEMORY_PER_GPU)\n",
              "gshmem[-] WARN: GSHMEM_SYMMETRIC_LIMITS and GSHMEM_TEAMS\n",
              "gshmem[-] WARN: GSHMEM_SYMMETRIC_LIMIT=7: too large\n"});
  for (const char* name : {"NVSHMEM_MAX_MEMORY_PER_GPU", "GSHMEM_SYMMETRIC_LIMIT"})
    REQUIRE(unsetenv(name) == 0);
}

TEST_CASE("a_secret_is_not_shown") {
  Values values{{"GSHMEM_UID_SECRET", "correct horse"}, {"GSHMEM_UID_SIZE", "2"}};
  for (const ConfigEntry& entry : config_entries(find_value, &values)) {
    CHECK(entry.value.find("correct") == std::string::npos);
    if (entry.name == "GSHMEM_UID_SECRET") CHECK(entry.value == "(hidden)");
    if (entry.name == "GSHMEM_UID_SIZE") CHECK(entry.value == "2");
  }
  values["GSHMEM_UID_SECRET"] = "";
  for (const ConfigEntry& entry : config_entries(find_value, &values)) {
    if (entry.name == "GSHMEM_UID_SECRET") CHECK(entry.value.empty());
  }
}

TEST_CASE("warning_of_an_unknown_name_suggests_a_similar_one") {
  const std::pair<const char*, const char*> near[] = {
      {"GSHMEM_SYMETRIC_SIZE", "GSHMEM_SYMMETRIC_SIZE"},
      {"GSHMEM_HEAP_SYMMETRIC_SIZE", nullptr},
      {"GSHMEM_TIMEOT", "GSHMEM_TIMEOUT"},
      {"GSHMEM_TIEMOUT", "GSHMEM_TIMEOUT"},
      {"GSHMEM_timeout", "GSHMEM_TIMEOUT"},
      {"GSHMEM_teamx", "GSHMEM_TEAMS"},  // the most edits that are allowed
      {"GSHMEM_ymmtrc_sizex", "GSHMEM_SYMMETRIC_SIZE"},
      {"GSHMEM_BOOTSTRAP_TIMOUT", "GSHMEM_BOOTSTRAP_TIMEOUT"},
      {"GSHMEM_BOOTSTRAPP", "GSHMEM_BOOTSTRAP"},
      {"GSHMEM_UID_RNAK", "GSHMEM_UID_RANK"},
      {"GSHMEM_PTP", "GSHMEM_P2P"},
      {"GSHMEM_PTX", nullptr},
      {"GSHMEM_2PP", "GSHMEM_P2P"},
      {"GSHMEM_NCX", nullptr},
      {"GSHMEM_NXI", nullptr},
      {"GSHMEM_UID_RAZE", "GSHMEM_UID_RANK"},  // equally close to GSHMEM_UID_SIZE
      {"GSHMEM_SYMMETRIC_HEAP", "GSHMEM_SYMMETRIC_SIZE"},
      {"GSHMEM_LOGS", "GSHMEM_LOG"},
      {"GSHMEM_L0G_FILE", "GSHMEM_LOG_FILE"},
      {"GSHMEM_", nullptr},
      {"GSHMEM_XYZ", nullptr},
      {"GSHMEM_SOMETHING_ELSE", nullptr},
  };
  for (const auto& [name, meant] : near) {
    const std::string question = meant != nullptr ? std::string("did you mean ") + meant + "?"
                                                  : "gshmem-info lists those it has";
    CHECK(config_unknown_names({name}) ==
          Names{std::string(name) + " is not a variable of gshmem; " + question});
  }
  CHECK(config_unknown_names({"GSHMEM_HOME", "GSHMEM_PREFIX", "GSHMEM_DIR"}).empty());
}

}  // namespace
}  // namespace gshmem
