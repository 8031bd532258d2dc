// Many PEs on one machine: many_pes threads|processes N [NEIGHBOURS]. Each PE does init, an atomic
// on each of the NEIGHBOURS PEs after it (1; with 0 it only ends), 10 malloc and free, 100 barriers
// (3 over the soft NIC) and finalize. Prints the time of the slowest PE for each, the memory of a
// PE after init and after the atomics, and the descriptors of all; for processes without memory
// that they share. Then it prints the processor time in ms that the soft NIC and each PE took on
// average for init, the atomics, a barrier and finalize. Over the soft NIC it also prints how many
// queue pairs a PE has on average: with its neighbours, and with those that barriers reach. Exit 0
// = success, 1 = errors, 2 = misuse.
#include <gshmem/gshmem.hpp>

#include <dirent.h>
#include <dlfcn.h>
#include <sys/mman.h>
#include <sys/resource.h>
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

/// The slowest PE of each phase, in microseconds. It is in memory that all PEs share.
struct Times {
  std::atomic<long> init{0}, first_use{0}, malloc{0}, barrier{0}, finalize{0};
  std::atomic<long> kilobytes{0}, used_kilobytes{0}, descriptors{0};
  std::atomic<long> used_pairs{0}, all_pairs{0};  ///< queue pairs of all processes
  /// Processor time of all processes, in microseconds.
  std::atomic<long> init_used{0}, first_use_used{0}, barrier_used{0}, finalize_used{0};
};

void keep_most(std::atomic<long>& most, Clock::time_point start, long calls) {
  const auto took = std::chrono::duration_cast<std::chrono::microseconds>(Clock::now() - start);
  const long mine = took.count() / calls;
  for (long seen = most.load(); mine > seen && !most.compare_exchange_weak(seen, mine);) {
  }
}

/// Returns the kilobytes of memory that no other process has.
long own_kilobytes() {
  std::ifstream in("/proc/self/smaps_rollup");
  long sum = 0;
  for (std::string line; std::getline(in, line);) {
    if (line.rfind("Private_", 0) == 0) sum += std::atol(line.c_str() + line.find(':') + 1);
  }
  return sum;
}

long used_us() {
  rusage used{};
  ::getrusage(RUSAGE_SELF, &used);
  return (used.ru_utime.tv_sec + used.ru_stime.tv_sec) * 1'000'000L + used.ru_utime.tv_usec +
         used.ru_stime.tv_usec;
}

long open_descriptors() {
  DIR* const folder = ::opendir("/proc/self/fd");
  if (!folder) return 0;
  long count = -3;  // minus ".", "..", and the descriptor of this listing
  while (::readdir(folder)) ++count;
  ::closedir(folder);
  return count;
}

/// Returns the queue pairs of this process on the soft NIC; 0 without it.
long queue_pairs() {
  void* const library = ::dlopen("libgshnic.so", RTLD_NOW | RTLD_NOLOAD);
  if (library == nullptr) return 0;
  const auto count = reinterpret_cast<long (*)()>(::dlsym(library, "gshnic_queue_pairs"));
  const long pairs = count();
  ::dlclose(library);
  return pairs;
}

void require(bool ok, const char* what) {
  if (ok) return;
  std::fprintf(stderr, "many_pes: %s\n", what);
  std::_Exit(1);
}

/// Synchronizes the host threads of all PEs without the network.
void synchronize() { gshmem_free(gshmem_malloc(8)); }

/// Runs a PE. `counts`: it reports for its process, which had `before` kilobytes.
void work(Times& times, int neighbours, bool counts, long before) {
  if (neighbours == 0) return;
  constexpr int kMallocs = 10;
  // The soft NIC runs only when the PEs on all cores have polled in vain.
  const int barriers = queue_pairs() > 0 ? 3 : 100;
  auto* const counter = static_cast<std::uint64_t*>(gshmem_calloc(1, sizeof(std::uint64_t)));
  require(counter != nullptr, "gshmem_calloc");
  Clock::time_point start = Clock::now();
  long used = used_us();
  for (int i = 1; i <= neighbours; ++i)
    gshmem_uint64_atomic_inc(counter, (gshmem_my_pe() + i) % gshmem_n_pes());
  gshmem_quiet();
  keep_most(times.first_use, start, 1);
  synchronize();
  if (counts) {
    times.first_use_used += used_us() - used;
    times.used_pairs += queue_pairs();
    times.used_kilobytes += own_kilobytes() - before;
  }
  synchronize();
  start = Clock::now();
  for (int i = 0; i < kMallocs; ++i) {
    void* const block = gshmem_malloc(4096);
    require(block != nullptr, "gshmem_malloc");
    gshmem_free(block);
  }
  keep_most(times.malloc, start, kMallocs);
  synchronize();
  start = Clock::now();
  used = used_us();
  for (int i = 0; i < barriers; ++i) gshmem_barrier_all();
  keep_most(times.barrier, start, barriers);
  synchronize();
  if (counts) times.barrier_used += (used_us() - used) / barriers;
  require(*counter == static_cast<std::uint64_t>(neighbours), "a neighbour's atomic is missing");
  if (counts) times.all_pairs += queue_pairs();
}

void as_threads(int n, Times& times, int neighbours) {
  const long before = own_kilobytes(), open_before = open_descriptors(), used = used_us();
  long used_last = 0;
  const Clock::time_point start = Clock::now();
  Clock::time_point last;
  gshmem::run_threads(n, [&](const gshmem::Runtime& runtime) {
    keep_most(times.init, start, 1);
    synchronize();
    if (runtime.my_pe() == 0) {
      times.init_used = used_us() - used;
      times.kilobytes += own_kilobytes() - before;
      times.descriptors = open_descriptors() - open_before;
    }
    work(times, neighbours, runtime.my_pe() == 0, before);
    if (runtime.my_pe() == 0) last = Clock::now(), used_last = used_us();
  });
  keep_most(times.finalize, last, 1);
  times.finalize_used = used_us() - used_last;
}

int one_process(Times& times, int neighbours) {
  const long before = own_kilobytes();
  long used = used_us();
  Clock::time_point start = Clock::now();
  gshmem_init();
  keep_most(times.init, start, 1);
  synchronize();
  times.init_used += used_us() - used;
  times.kilobytes += own_kilobytes() - before;
  times.descriptors += open_descriptors();
  work(times, neighbours, true, before);
  start = Clock::now();
  used = used_us();
  gshmem_finalize();
  keep_most(times.finalize, start, 1);
  times.finalize_used += used_us() - used;
  return 0;
}

void as_processes(int n, Times& times, int neighbours) {
  // The port of rank 0 depends on the process id, because tests run side by side.
  const std::string address = "127.0.0.1:" + std::to_string(20000 + ::getpid() % 12000);
  (void)::setenv("GSHMEM_BOOTSTRAP", "uid", 1);
  (void)::setenv("GSHMEM_UID_ADDRESS", address.c_str(), 1);
  (void)::setenv("GSHMEM_UID_SIZE", std::to_string(n).c_str(), 1);
  for (int rank = 0; rank < n; ++rank) {
    if (::fork() != 0) continue;
    (void)::setenv("GSHMEM_UID_RANK", std::to_string(rank).c_str(), 1);
    std::_Exit(one_process(times, neighbours));
  }
  for (int status = 0; ::wait(&status) > 0;) require(status == 0, "a process failed");
}

}  // namespace

int main(int argc, char** argv) {
  const bool counted = argc == 3 || argc == 4;
  const std::string mode = counted ? argv[1] : "";
  const int n = counted ? std::atoi(argv[2]) : 0, neighbours = argc == 4 ? std::atoi(argv[3]) : 1;
  if ((mode != "threads" && mode != "processes") || n < 1 || neighbours < 0) return 2;
  (void)::setenv("GSHMEM_DEVICE", "cpu", 0);
  void* const shared =
      ::mmap(nullptr, sizeof(Times), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  require(shared != MAP_FAILED, "mmap");
  Times& times = *new (shared) Times;
  try {
    mode == "threads" ? as_threads(n, times, neighbours) : as_processes(n, times, neighbours);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "many_pes: %s\n", error.what());
    return 1;
  }
  const auto used = [n](long us) { return static_cast<double>(us) / 1e3 / n; };
  std::printf("| %d %s | %.3g | %.3g | %ld | %ld | %.3g | %ld, %ld | %ld | %ld, %ld |", n,
              mode.c_str(), static_cast<double>(times.init) / 1e3,
              static_cast<double>(times.first_use) / 1e3, times.malloc.load(), times.barrier.load(),
              static_cast<double>(times.finalize) / 1e3, times.kilobytes / n,
              times.used_kilobytes / n, times.descriptors.load(), times.used_pairs / n,
              times.all_pairs / n);
  std::printf(" %.3g, %.3g, %.3g, %.3g |\n", used(times.init_used), used(times.first_use_used),
              used(times.barrier_used), used(times.finalize_used));
  // Two queues to each neighbour on both sides, two to the PE itself, and their peers.
  const char* const connect = std::getenv("GSHMEM_CONNECT");
  if (connect != nullptr && connect == std::string("use") && neighbours > 0 && 2 * neighbours < n)
    require(times.used_pairs == 4L * n * (1 + neighbours), "unneeded queue pairs");
}
