// Checks of this process: variables, locked memory, open files, memory.
#include "host/base/error.h"
#include "host/base/memory_limit.h"
#include "host/tools/doctor/checks.h"
#include "host/tools/doctor/topology.h"
#include "host/base/files.h"
#include "host/tools/info/report.h"

#include <algorithm>

namespace gshmem::info {
namespace {

namespace fs = std::filesystem;

std::string memlock_fix(const Machine& machine) {
  if (machine.env("SLURM_JOB_ID") != nullptr) {
    return "in slurm.conf PropagateResourceLimitsExcept=MEMLOCK; in slurmd.service "
           "LimitMEMLOCK=infinity; sudo systemctl daemon-reload && sudo systemctl restart slurmd";
  }
  if (in_container(machine)) {
    return "docker run --ulimit memlock=-1 ...   (or --cap-add=IPC_LOCK)";
  }
  return "printf '* soft memlock unlimited\\n* hard memlock unlimited\\n' | sudo tee "
         "/etc/security/limits.d/rdma.conf, then log in again   (services: LimitMEMLOCK=infinity)";
}

/// Returns the value of a line of /proc/meminfo in bytes.
std::optional<std::uint64_t> memory(const Machine& machine, const char* line) {
  const auto kib = leading_number(value_in(machine.at("/proc/meminfo"), line));
  if (!kib) return {};
  return static_cast<std::uint64_t>(*kib) * 1024;
}

/// Returns the number of PEs of the job on this host, as far as launchers tell; 1 without a
/// launcher.
std::uint64_t local_pes(const Machine& machine) {
  for (const char* name : {"OMPI_COMM_WORLD_LOCAL_SIZE", "SLURM_STEP_TASKS_PER_NODE"}) {
    const auto count = leading_number(machine.env_or_empty(name));
    if (count && *count > 0) return static_cast<std::uint64_t>(*count);
  }
  return 1;
}

/// Finds values that are accepted, but with which init fails.
void look_for_refused(const Machine& machine, Findings& findings) {
  const std::string& file = machine.config.log_file;
  const fs::path folder = fs::path(file).parent_path();
  std::error_code error;
  if (folder.is_absolute() && file.find('%') == std::string::npos &&
      !fs::is_directory(machine.at(folder.native()), error)) {
    findings.push_back(problem({.symptom = "init fails: GSHMEM_LOG_FILE=" + file,
                                .cause = "there is no folder " + folder.string(),
                                .fix = "mkdir -p " + folder.string()}));
  }
  const CheckChoice check = machine.config.check;
  const bool checks_order = check == CheckChoice::kOrder || check == CheckChoice::kFences;
  if (checks_order && !machine.built_with_order_check) {
    findings.push_back(
        problem({.symptom = "init fails: GSHMEM_CHECK=order",
                 .cause = "this gshmem was built without -DGSHMEM_SANITIZE=thread",
                 .fix = "unset GSHMEM_CHECK   (or build gshmem by cmake --preset check)"}));
  }
}

}  // namespace

Findings check_variables(const Machine& machine) {
  Findings findings;
  std::vector<std::string> set;
  for (const VariableReport& report : check_variables(machine.variables)) {
    if (!report.entry.set_by.empty()) set.push_back(report.entry.set_by);
    if (report.error.empty()) continue;
    findings.push_back(problem({.symptom = "init fails: " + report.error,
                                .cause = "the value in the environment is not accepted",
                                .fix = "unset " + report.entry.set_by}));
  }
  look_for_refused(machine, findings);
  for (const std::string& sentence : machine.unknown_names) {
    findings.push_back(
        hint({.symptom = sentence,
              .cause = "a variable or value that gshmem does not know changes nothing",
              .fix = "unset " + sentence.substr(0, sentence.find_first_of(" =,:"))}));
  }
  if (findings.empty()) {
    findings.push_back(ok(set.empty() ? "all at their defaults" : "set: " + joined(set)));
  }
  return findings;
}

Findings check_memlock(const Machine& machine) {
  const std::string now = "RLIMIT_MEMLOCK " + bytes_text(machine.memlock.soft);
  if (machine.memlock.soft == Limit::kUnlimited) return {ok(now)};
  // ib_umem_get (drivers/infiniband/core/umem.c): the limit does not apply with CAP_IPC_LOCK.
  if (has_capability(machine, Capability::kIpcLock)) {
    return {ok(now + ", which CAP_IPC_LOCK lifts")};
  }
  if (!has_rdma_device(machine)) {
    return {ok(now + "; without an RDMA device nothing is locked")};
  }
  return {problem({.symptom = "registering memory fails with ENOMEM: host heaps, and queues and "
                              "staging buffers in host memory",
                   .cause = now + " (hard limit " + bytes_text(machine.memlock.hard) +
                            ") and no "
                            "CAP_IPC_LOCK",
                   .fix = memlock_fix(machine)})};
}

Findings check_open_files(const Machine& machine) {
  // The first PE of a host keeps a socket to every other one; each PE keeps at most three more. All
  // keep the descriptor of their heap, and those of libraries.
  constexpr std::uint64_t kComfortable = 4096;
  const std::uint64_t soft = machine.open_files.soft, hard = machine.open_files.hard;
  const auto text = [](std::uint64_t n) {
    return n == Limit::kUnlimited ? std::string("unlimited") : std::to_string(n);
  };
  if (soft >= kComfortable) return {ok("RLIMIT_NOFILE " + text(soft))};
  return {
      hint({.symptom = "jobs with several hundred PEs per host, or PEs as threads, fail with "
                       "EMFILE (too many open files)",
            .cause = "RLIMIT_NOFILE is " + text(soft) + ", hard limit " + text(hard),
            .fix = hard >= kComfortable ? "ulimit -n " + text(std::min(hard, std::uint64_t{65536}))
                                        : "docker run --ulimit nofile=65536 ...   or nofile in "
                                          "/etc/security/limits.d"})};
}

Findings check_dev_shm(const Machine& machine) {
  const auto bytes = machine.volume_bytes(machine.at("/dev/shm"));
  if (!bytes) return {skipped("there is no /dev/shm")};
  const std::string now = "/dev/shm holds " + bytes_text(*bytes);
  // This is Docker's default; Open MPI and libfabric need several MiB per process.
  constexpr std::uint64_t kDockerDefault = 64u << 20;
  if (*bytes > kDockerDefault) return {ok(now)};
  return {
      hint({.symptom = "bus errors in Open MPI's or libfabric's shared memory, with many PEs",
            .cause = now + "; heaps of gshmem are memfds and do not count, but segments of MPI, "
                           "NCCL and libfabric's shm do",
            .fix = "docker run --shm-size=8g ...   or --ipc=host   (Kubernetes: an emptyDir "
                   "with medium: Memory at /dev/shm)"})};
}

Findings check_memory(const Machine& machine) {
  const bool cpu_mode = machine.cuda.gpus.empty() || machine.config.device == DeviceChoice::kCpu;
  if (!cpu_mode) return {skipped("heaps are in GPU memory")};
  const auto available = memory(machine, "MemAvailable:");
  const auto limit = cgroup_memory(machine.root);
  if (!available && !limit) return {skipped("neither /proc/meminfo nor a cgroup says how much")};
  const std::uint64_t room =
      std::min(available.value_or(Limit::kUnlimited), limit.value_or(Limit::kUnlimited));
  const std::uint64_t pes = local_pes(machine);
  const std::uint64_t need = pes * machine.config.symmetric_size;
  const std::string sum = strprintf(
      "heaps of %lu PE(s) here: %s of %s (%s)", pes, bytes_text(need).c_str(),
      bytes_text(room).c_str(), limit && *limit == room ? "the cgroup's limit" : "MemAvailable");
  if (need <= room) return {ok(sum + " before they grow")};
  // Heaps for which even an idle machine has no room are refused by init (require_memory of
  // transport/p2p).
  const auto total = memory(machine, "MemTotal:");
  const std::uint64_t swap = memory(machine, "SwapTotal:").value_or(0);
  const bool refused = !memory_bound(total ? *total + swap : Limit::kUnlimited, limit)
                            .has_room(machine.config.symmetric_size, pes);
  const char* const effect =
      refused ? ": init fails" : ": PEs that use them whole are killed by the kernel";
  const auto trouble = refused ? problem : hint;
  return {trouble(
      {.symptom = sum + effect,
       .cause = "GSHMEM_SYMMETRIC_SIZE=" + bytes_text(machine.config.symmetric_size) +
                " per PE in CPU mode",
       .fix = "export GSHMEM_SYMMETRIC_SIZE=" + std::to_string((room / pes >> 20) * 3 / 4) + "M"})};
}

}  // namespace gshmem::info
