// The configuration is a plain struct of values that are read once from the environment, one field
// per line of config.def. `getenv` is called only in config.cpp. A bad value is an Error that names
// the variable, its value and what is accepted. An unknown GSHMEM_* variable causes a warning with
// the nearest name. An empty variable counts as not set.
#pragma once

#include "host/base/choice.h"
#include "host/base/error.h"
#include "host/base/log.h"

#include <gshmem/abi/queue.h>
#include <gshmem/abi/state.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace gshmem::abi {

GSHMEM_WORDS(FaultPolicy, kAbort, kReport)
GSHMEM_WORDS(QueueMap, kBlock, kWarp, kSm, kPe)

}  // namespace gshmem::abi

namespace gshmem {

GSHMEM_CHOICE_TYPE(DeviceChoice, kAuto, kCuda, kCpu)
GSHMEM_CHOICE_TYPE(BootstrapKind, kAuto, kPmix, kUid, kSingle)
GSHMEM_CHOICE_TYPE(AddressFamily, kAny, kIpv4, kIpv6)
GSHMEM_CHOICE_TYPE(CheckChoice, kAuto, kOff, kOn, kOrder, kFences)
GSHMEM_CHOICE_TYPE(Switch, kAuto, kOn, kOff)
GSHMEM_CHOICE_TYPE(NicKind, kAuto, kMlx5, kSoft, kOfi, kNone)
GSHMEM_CHOICE_TYPE(DoorbellChoice, kAuto, kGpu, kAgent)
GSHMEM_CHOICE_TYPE(ConnectChoice, kInit, kUse, kDc)
GSHMEM_CHOICE_TYPE(QuietChoice, kAuto, kVisible)
GSHMEM_CHOICE_TYPE(QueueMemoryChoice, kAuto, kHost, kGpu)
GSHMEM_CHOICE_TYPE(AmoChoice, kLocal, kNic)
GSHMEM_CHOICE_TYPE(PollChoice, kAuto, kSpin, kSleep)

struct Config {
#define GSHMEM_BYTES(field, ...) std::uint64_t field = 0;
#define GSHMEM_INT(field, ...) int field = 0;
#define GSHMEM_BOOL(field, ...) bool field = false;
#define GSHMEM_CHOICE(field, Type, ...) Type field = choices_of(Type{}).values[0];
#define GSHMEM_SECONDS(field, ...) double field = 0;
#define GSHMEM_STRING(field, ...) std::string field;
#include "host/base/config.def"

  /// Looks up a variable by its full name ("GSHMEM_TIMEOUT"); null = not set.
  using Lookup = const char* (*)(const char* name, void* context);

  /// Parses every variable of the table. A variable that is not set takes its value from NVSHMEM's
  /// variable (nvshmem_variables.def), and otherwise its default. A value of NVSHMEM's variable
  /// that ours cannot have is ignored (config_unused_twins), except a size. Errors:
  /// GSHMEMX_ERROR_CONFIG with name, value and accepted values of the first bad variable:
  /// `GSHMEM_TIMEOUT="abc": expected seconds (a number >= 0; 0 = never)`. If `bad` is given, the
  /// error is stored there instead, and bad variables have their defaults.
  [[nodiscard]] static Config from_env(std::optional<Error>* bad = nullptr);
  /// Reads the variables from any source of values; from_env and the tests use it.
  [[nodiscard]] static Config from(Lookup lookup, void* context,
                                   std::optional<Error>* bad = nullptr);
};

/// Returns the values of the variables that must be the same on all PEs, as numbers in the table's
/// order.
[[nodiscard]] std::vector<std::uint64_t> config_same_values(const Config& config);
/// `all` holds these values of every PE, by PE. Errors: GSHMEMX_ERROR_SYMMETRY with the first
/// variable that differs, its values and their PEs.
void config_require_same(const std::vector<std::uint64_t>& all);

/// Returns a variable of another program, such as a launcher's PMIX_RANK; null = not set.
[[nodiscard]] const char* env_lookup(const char* name) noexcept;

/// Sets a variable that a library reads when it is loaded or first called, unless it is set.
void env_set_default(const char* name, const std::string& value) noexcept;

/// One variable as gshmem-info prints it. `value` is the text as set, which may be invalid.
struct ConfigEntry {
  std::string name, value, default_value, accepted, help;
  std::string set_by;  ///< the name by which it was set: its own or NVSHMEM's; empty = not set
  bool same_on_all_pes = false;
};
[[nodiscard]] std::vector<ConfigEntry> config_entries(Config::Lookup lookup, void* context);
[[nodiscard]] std::vector<ConfigEntry> config_entries_from_env();

/// Returns "GSHMEM_SYMETRIC_SIZE is not a variable of gshmem; did you mean GSHMEM_SYMMETRIC_SIZE?"
/// for each unknown GSHMEM_* in `environ_names`. If no name is similar, the text refers to
/// gshmem-info instead of the question. Names that start with GSHMEM_TEST_ are ignored, and
/// GSHMEM_HOME and the like, which build systems set.
[[nodiscard]] std::vector<std::string> config_unknown_names(
    const std::vector<std::string>& environ_names);
/// Returns `NVSHMEM_QP_DEPTH="8" is ignored: GSHMEM_QP_DEPTH accepts an integer ...` for each
/// variable of nvshmem_variables.def whose value ours cannot have.
[[nodiscard]] std::vector<std::string> config_unused_twins(Config::Lookup lookup, void* context);
/// Returns "NVSHMEM_HCA_PREFIX, NVSHMEM_QP_DEPHT: no counterpart in gshmem, changes nothing; for
/// NVSHMEM_HCA_PREFIX see GSHMEM_NIC_DEVICES; did you mean NVSHMEM_QP_DEPTH?" for all NVSHMEM_* in
/// `environ_names` that have no effect. Empty when there are none.
[[nodiscard]] std::string config_names_without_twin(const std::vector<std::string>& environ_names);
/// Returns the sentences of all three about this process's environment.
[[nodiscard]] std::vector<std::string> config_warnings_from_env();
/// Returns a number by which PEs find out whether another one has the same sentences.
[[nodiscard]] std::uint64_t config_warnings_hash(const std::vector<std::string>& messages);
/// Logs config_warnings_from_env(), once per process.
void config_warn();

/// Returns the variable that NVSHMEM's `theirs` sets; empty if it sets none.
[[nodiscard]] std::string config_set_through(std::string_view theirs);
/// Returns the name of the environment variable that sets variable `name`: itself or NVSHMEM's.
/// Empty if it has its default.
[[nodiscard]] std::string config_set_by(std::string_view name);
/// Returns " (GSHMEM_TEAMS is set by NVSHMEM_MAX_TEAMS)" if the line names a variable that the user
/// has set by NVSHMEM's name, and does not name that one; otherwise an empty text.
[[nodiscard]] std::string config_note_on(std::string_view line);

}  // namespace gshmem
