#include "host/tools/doctor/machine.h"

#include "host/base/dynamic_library.h"
#include "host/base/error.h"
#include "host/base/fd.h"
#include "host/base/files.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/statvfs.h>
#include <sys/utsname.h>

#include <cerrno>
#include <charconv>
#include <fstream>

namespace gshmem::info {
namespace {

namespace fs = std::filesystem;

Limit limit_of(int resource) {
  rlimit limit{};
  check_errno(getrlimit(static_cast<__rlimit_resource>(resource), &limit), "getrlimit");
  const auto bytes = [](rlim_t value) {
    return value == RLIM_INFINITY ? Limit::kUnlimited : value;
  };
  return {bytes(limit.rlim_cur), bytes(limit.rlim_max)};
}

int open_errno(const fs::path& file) {
  // Only an attempt to open it also detects a device cgroup; opening a verbs device has no effect.
  const Fd fd(::open(file.c_str(), O_RDWR | O_CLOEXEC));
  return fd ? 0 : errno;
}

std::optional<std::uint64_t> volume_bytes(const fs::path& folder) {
  struct statvfs info {};
  if (statvfs(folder.c_str(), &info) != 0) return {};
  return std::uint64_t{info.f_blocks} * info.f_frsize;
}

/// Returns the mapped file whose name starts with that of the library: its name has the full
/// version.
std::string mapped_file(const std::string& soname) {
  const std::string stem = soname.substr(0, soname.find(".so")) + ".";
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);) {
    const std::size_t slash = line.find('/');
    if (slash == std::string::npos) continue;
    const fs::path file = line.substr(slash);
    if (file.filename().string().starts_with(stem)) return file.string();
  }
  return soname;
}

Library load(const std::string& soname, const std::vector<std::string>& symbols) {
  Library found;
  try {
    // They are kept until the process ends: PMIx and libfabric must not be unloaded.
    static auto* const kept = new std::vector<DynamicLibrary>();
    const DynamicLibrary& library = kept->emplace_back(soname);
    found.file = mapped_file(soname);
    for (const std::string& symbol : symbols) {
      if (library.find(symbol.c_str()) == nullptr) found.missing.push_back(symbol);
    }
  } catch (const Error& error) {
    found.why_not = error.what();
  }
  return found;
}

Config config_or_defaults() {
  try {
    return Config::from_env();
  } catch (const Error&) {  // the check of variables reports which
    return Config::from([](const char*, void*) -> const char* { return nullptr; }, nullptr);
  }
}

}  // namespace

Machine this_machine() {
  Machine machine;
  if (const char* const root = env_lookup("GSHMEM_TEST_ROOT")) machine.root = root;
  utsname names{};
  check_errno(uname(&names), "uname");
  machine.host = names.nodename;
  machine.architecture = names.machine;
  machine.memlock = limit_of(RLIMIT_MEMLOCK);
  machine.open_files = limit_of(RLIMIT_NOFILE);
  machine.built_with_pmix = GSHMEM_INFO_PMIX != 0;
  machine.built_with_order_check = std::string_view(GSHMEM_INFO_SANITIZE) == "thread";
  machine.cuda = cuda_facts();
  machine.program_library = program_library();
  machine.others_nvshmem = nvshmem_of_others();
  machine.config = config_or_defaults();
  machine.variables = config_entries_from_env();
  machine.unknown_names = config_warnings_from_env();
  machine.env = env_lookup;
  machine.open_errno = open_errno;
  machine.volume_bytes = volume_bytes;
  machine.library = load;
  return machine;
}

bool has_capability(const Machine& machine, Capability capability) {
  const std::string mask = value_in(machine.at("/proc/self/status"), "CapEff:");
  std::uint64_t effective = 0;
  std::from_chars(mask.data(), mask.data() + mask.size(), effective, 16);
  // user_namespaces(7): the initial namespace maps all ids onto themselves.
  std::int64_t inside = -1, outside = -1, count = 0;
  std::ifstream(machine.at("/proc/self/uid_map")) >> inside >> outside >> count;
  const bool initial = inside == 0 && outside == 0 && count == 4294967295;
  return initial && (effective >> static_cast<int>(capability) & 1) != 0;
}

bool in_container(const Machine& machine) {
  std::error_code error;
  return fs::exists(machine.at("/.dockerenv"), error) ||
         fs::exists(machine.at("/run/.containerenv"), error) ||
         fs::exists(machine.at("/.singularity.d"), error) ||
         machine.env("KUBERNETES_SERVICE_HOST") != nullptr;
}

std::string bytes_text(std::uint64_t bytes) {
  return bytes == Limit::kUnlimited ? "unlimited" : size_in_units(bytes);
}

std::string joined(const std::vector<std::string>& words, std::string_view between) {
  std::string text;
  for (const std::string& word : words) {
    if (!text.empty()) text += between;
    text += word;
  }
  return text;
}

}  // namespace gshmem::info
