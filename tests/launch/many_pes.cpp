// Many PEs on one machine: many_pes threads|processes N. Each PE does init, 10 malloc and free, 100
// barriers and finalize. Prints the time of the slowest PE for each, and the memory and descriptors
// that the PEs take, those of processes without what they share with others. Exit 0 = all went
// well, 1 = not, 2 = misuse.
#include <gshmem/gshmem.hpp>

#include <dirent.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <string>
#include <vector>

namespace {

using Clock = std::chrono::steady_clock;

/// The slowest PE of each phase, in microseconds. In memory that all PEs share.
struct Times {
  std::atomic<long> init{0}, malloc{0}, barrier{0}, finalize{0};
  std::atomic<long> kilobytes{0}, descriptors{0};
};

void keep_most(std::atomic<long>& most, Clock::time_point start, long calls) {
  const auto took = std::chrono::duration_cast<std::chrono::microseconds>(Clock::now() - start);
  const long mine = took.count() / calls;
  for (long seen = most.load(); mine > seen && !most.compare_exchange_weak(seen, mine);) {
  }
}

/// Kilobytes in memory that no other process has.
long own_kilobytes() {
  std::ifstream in("/proc/self/smaps_rollup");
  long sum = 0;
  for (std::string line; std::getline(in, line);) {
    if (line.rfind("Private_", 0) == 0) sum += std::atol(line.c_str() + line.find(':') + 1);
  }
  return sum;
}

long open_descriptors() {
  DIR* const folder = ::opendir("/proc/self/fd");
  if (!folder) return 0;
  long count = -3;  // ".", "..", and the one of this very look
  while (::readdir(folder)) ++count;
  ::closedir(folder);
  return count;
}

void require(bool ok, const char* what) {
  if (ok) return;
  std::fprintf(stderr, "many_pes: %s\n", what);
  std::_Exit(1);
}

void work(Times& times) {
  constexpr int kMallocs = 10, kBarriers = 100;
  Clock::time_point start = Clock::now();
  for (int i = 0; i < kMallocs; ++i) {
    void* const block = gshmem_malloc(4096);
    require(block != nullptr, "gshmem_malloc");
    gshmem_free(block);
  }
  keep_most(times.malloc, start, kMallocs);
  auto* const counter = static_cast<std::uint64_t*>(gshmem_calloc(1, sizeof(std::uint64_t)));
  require(counter != nullptr, "gshmem_calloc");
  gshmem_uint64_atomic_inc(counter, (gshmem_my_pe() + 1) % gshmem_n_pes());
  start = Clock::now();
  for (int i = 0; i < kBarriers; ++i) gshmem_barrier_all();
  keep_most(times.barrier, start, kBarriers);
  require(*counter == 1, "the neighbour's atomic has not come");
}

void as_threads(int n, Times& times) {
  const long before = own_kilobytes(), open_before = open_descriptors();
  const Clock::time_point start = Clock::now();
  Clock::time_point last;
  gshmem::run_threads(n, [&](const gshmem::Runtime& runtime) {
    keep_most(times.init, start, 1);
    gshmem_barrier_all();
    if (runtime.my_pe() == 0) {
      times.kilobytes = (own_kilobytes() - before) / n;
      times.descriptors = open_descriptors() - open_before;
    }
    work(times);
    if (runtime.my_pe() == 0) last = Clock::now();
  });
  keep_most(times.finalize, last, 1);
}

int one_process(Times& times) {
  const long before = own_kilobytes();
  Clock::time_point start = Clock::now();
  gshmem_init();
  keep_most(times.init, start, 1);
  gshmem_barrier_all();
  times.kilobytes += own_kilobytes() - before;
  times.descriptors += open_descriptors();
  work(times);
  start = Clock::now();
  gshmem_finalize();
  keep_most(times.finalize, start, 1);
  return 0;
}

void as_processes(int n, Times& times) {
  // A port for rank 0: by the process id, as tests run side by side.
  const std::string address = "127.0.0.1:" + std::to_string(20000 + ::getpid() % 12000);
  (void)::setenv("GSHMEM_BOOTSTRAP", "uid", 1);
  (void)::setenv("GSHMEM_UID_ADDRESS", address.c_str(), 1);
  (void)::setenv("GSHMEM_UID_SIZE", std::to_string(n).c_str(), 1);
  for (int rank = 0; rank < n; ++rank) {
    if (::fork() != 0) continue;
    (void)::setenv("GSHMEM_UID_RANK", std::to_string(rank).c_str(), 1);
    std::_Exit(one_process(times));
  }
  for (int status = 0; ::wait(&status) > 0;) require(status == 0, "a process failed");
  times.kilobytes = times.kilobytes / n;
}

}  // namespace

int main(int argc, char** argv) {
  const std::string mode = argc == 3 ? argv[1] : "";
  const int n = argc == 3 ? std::atoi(argv[2]) : 0;
  if ((mode != "threads" && mode != "processes") || n < 1) return 2;
  (void)::setenv("GSHMEM_DEVICE", "cpu", 0);
  void* const shared =
      ::mmap(nullptr, sizeof(Times), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  require(shared != MAP_FAILED, "mmap");
  Times& times = *new (shared) Times;
  try {
    mode == "threads" ? as_threads(n, times) : as_processes(n, times);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "many_pes: %s\n", error.what());
    return 1;
  }
  std::printf("| %d %s | %.3g | %ld | %ld | %.3g | %ld | %ld |\n", n, mode.c_str(),
              static_cast<double>(times.init) / 1e3, times.malloc.load(), times.barrier.load(),
              static_cast<double>(times.finalize) / 1e3, times.kilobytes.load(),
              times.descriptors.load());
}
