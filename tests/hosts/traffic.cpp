// One PE of a job on several hosts (run.sh) that puts to all others and synchronizes with them,
// repeatedly, until its job breaks: the link of the last host goes down ("cut"), or only the one
// for data does ("cut_data"; "cut_data_one": and only PE 0 puts; "cut_port": it is the NIC's own
// port, so that host's PEs do not reach even themselves), or all PEs of the last host are killed
// ("kill"), or one of them is ("kill_one"). Every remaining PE must get an error that names one
// that it cannot reach, within GSHMEM_TIMEOUT, and leave by gshmem_finalize.
#include <gshmem/gshmem.hpp>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

namespace {

using Clock = std::chrono::steady_clock;

constexpr long kRoundsBefore = 20;  // of undisturbed traffic
constexpr std::size_t kWords = 4096;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

double number(const char* name) {
  const char* text = std::getenv(name);
  return text ? std::atof(text) : 0;
}

struct Job {
  std::string what;
  int hosts = static_cast<int>(number("HOSTS_COUNT")), pes = static_cast<int>(number("HOSTS_PES"));
  int me = gshmem_my_pe(), n = gshmem_n_pes();
  std::string folder = std::getenv("HOSTS_FOLDER");

  [[nodiscard]] bool on_last_host(int pe) const { return pe / pes == hosts - 1; }
  [[nodiscard]] bool dies(int pe) const {
    return (what == "kill" && on_last_host(pe)) || (what == "kill_one" && pe == n - 1);
  }
  /// Has this PE lost `pe`?
  [[nodiscard]] bool lost(int pe) const {
    if (pe < 0 || pe >= n) return false;
    if (what == "kill" || what == "kill_one") return dies(pe);
    return is_cut_off(me, pe);
  }
  /// Is the link between them?
  [[nodiscard]] bool is_cut_off(int from, int to) const {
    return on_last_host(from) != on_last_host(to) || (what == "cut_port" && on_last_host(to));
  }
  /// Is that fault the expected one?
  [[nodiscard]] bool explains(const gshmemx_fault_t& fault) const {
    const std::string name = "PE " + std::to_string(fault.pe);
    if (std::string(fault.message).find(name) == std::string::npos) return false;
    // A report of a PE that this one still reaches: it has lost another, and names it.
    const std::string news = name + " was stopped by a fault: ";
    const bool told = fault.code == GSHMEMX_ERROR_PEER_FAILED &&
                      std::string(fault.message).find(news) != std::string::npos;
    if (told) return fault.pe != me && names_the_cut(fault);
    return (fault.code == GSHMEMX_ERROR_PEER_FAILED || fault.code == GSHMEMX_ERROR_NIC) &&
           lost(fault.pe);
  }
  /// Checks the report of a PE that has lost another one across a data link: the PE that it names
  /// is on the other side of the link.
  [[nodiscard]] bool names_the_cut(const gshmemx_fault_t& fault) const {
    if (what.rfind("cut_", 0) != 0) return true;
    const std::string text = fault.message, by = " was stopped by a fault: ";
    const std::string cause = text.substr(text.find(by) + by.size());
    const std::size_t name = cause.find("PE ");
    if (name == std::string::npos) return false;
    return is_cut_off(fault.pe, std::atoi(cause.c_str() + name + 3));
  }
  [[nodiscard]] bool puts(int pe) const { return what != "cut_data_one" || pe == 0; }
};

int failures = 0;
#define CHECK(condition)                                                \
  do {                                                                  \
    if (!(condition)) {                                                 \
      ++failures;                                                       \
      std::printf("FAILED traffic.cpp:%d: %s\n", __LINE__, #condition); \
    }                                                                   \
  } while (false)

bool healthy() { return gshmemx_last_fault(nullptr) == GSHMEMX_SUCCESS; }

struct Memory {
  explicit Memory(int n) : landing(zeroed(kWords * static_cast<std::size_t>(n))) {}
  static std::uint64_t* zeroed(std::size_t words) {
    return static_cast<std::uint64_t*>(gshmem_calloc(words, sizeof(std::uint64_t)));
  }
  std::uint64_t* landing;  ///< kWords of every PE
  std::uint64_t* mine = zeroed(kWords);
  std::uint64_t* counter = zeroed(1);
};

std::uint64_t pattern(int pe, long round) {
  return static_cast<std::uint64_t>(pe) << 32 | static_cast<std::uint64_t>(round);
}

void check_round(const Job& job, const Memory& memory, long round) {
  int putting = 0;
  for (int pe = 0; pe < job.n; ++pe) {
    if (!job.puts(pe)) continue;
    ++putting;
    const std::uint64_t* from = memory.landing + kWords * static_cast<std::size_t>(pe);
    std::size_t wrong = 0;
    for (std::size_t i = 0; i < kWords; ++i) wrong += from[i] != pattern(pe, round);
    if (wrong != 0) std::printf("round %ld: %zu words from PE %d are wrong\n", round, wrong, pe);
    CHECK(wrong == 0);
  }
  const std::uint64_t count = gshmem_uint64_atomic_fetch(memory.counter, job.me);
  if (healthy()) CHECK(count == static_cast<std::uint64_t>((round + 1) * putting));
}

/// Runs one round: puts a pattern to every PE, counts at every PE, synchronizes, and checks what
/// arrived.
void put_and_synchronize(const Job& job, const Memory& memory, long round) {
  std::fill_n(memory.mine, kWords, pattern(job.me, round));
  for (int pe = 0; pe < job.n && job.puts(job.me); ++pe) {
    gshmem_putmem_nbi(memory.landing + kWords * static_cast<std::size_t>(job.me), memory.mine,
                      sizeof(std::uint64_t) * kWords, pe);
    gshmem_uint64_atomic_inc(memory.counter, pe);
  }
  gshmem_barrier_all();
  if (!healthy()) return;  // the data may be of any round
  check_round(job, memory, round);
  gshmem_barrier_all();  // the next round overwrites it
}

/// A PE that has its error leaves only after the others have theirs, so that they do not see it
/// leave.
void synchronize_in_folder(const Job& job) {
  const std::string prefix = job.folder + "/met.";
  std::ofstream(prefix + std::to_string(job.me)) << "\n";
  for (int pe = 0; pe < job.n; ++pe)
    while (!job.dies(pe) && !std::ifstream(prefix + std::to_string(pe)))
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
}

void fails_at_once(const char* name, double timeout, void (*call)()) {
  const auto start = Clock::now();
  call();
  std::printf("%s ended in %.3f s\n", name, seconds_since(start));
  CHECK(seconds_since(start) < timeout / 2);
}

}  // namespace

int main(int argc, char** argv) {
  std::setvbuf(stdout, nullptr, _IOLBF, 0);
  if (argc != 2) return 2;
  const double timeout = number("GSHMEM_TIMEOUT");
  gshmem_init();
  const Job job{.what = argv[1]};
  const Memory memory(job.n);
  long round = 0;
  auto last_good = Clock::now();  // end of the last complete round
  const auto go_on_until = [&](long end) {
    while (healthy() && round != end) {
      put_and_synchronize(job, memory, round++);
      if (healthy()) last_good = Clock::now();
    }
  };
  go_on_until(kRoundsBefore);
  CHECK(round == kRoundsBefore);
  if (job.dies(job.me)) (void)raise(SIGKILL);
  if (job.me == 0) std::ofstream(job.folder + "/ready") << "\n";
  go_on_until(-1);
  const double waited = seconds_since(last_good);
  gshmemx_fault_t fault;
  gshmemx_last_fault(&fault);
  std::printf("after %.2f s in round %ld: fault %d PE %d %s\n", waited, round, fault.code, fault.pe,
              fault.message);
  CHECK(job.explains(fault));
  CHECK(waited < 2 * timeout);  // GSHMEM_TIMEOUT bounds it; the rest is for busy machines
  // Later calls fail, too, without a wait for their own time limit.
  fails_at_once("barrier_all", timeout, gshmem_barrier_all);
  fails_at_once("quiet", timeout, gshmem_quiet);
  fails_at_once("malloc", timeout, [] { (void)gshmem_malloc(64); });
  synchronize_in_folder(job);
  const auto leaving = Clock::now();
  gshmem_finalize();
  std::printf("finalized in %.2f s\n", seconds_since(leaving));
  CHECK(seconds_since(leaving) < 2 * timeout);
  return failures == 0 ? 0 : 1;
}
