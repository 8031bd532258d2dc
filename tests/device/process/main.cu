// Tests CUDA calls of an application beside gshmem: a thread that captures a graph in global mode
// while another one joins a job, moves data and leaves; a context of the application; children that
// a PE forks. Each scenario runs in processes of its own. Usage: process_test NIC... Exit 0, 1 with
// the errors, 77 without a GPU.
#include "tests/device/faults/jobs.h"

#include <cuda.h>

#include <atomic>
#include <csignal>
#include <thread>

namespace {

#define REQUIRE_CUDA(call)                                     \
  do {                                                         \
    const cudaError_t error = (call);                          \
    if (error != cudaSuccess) {                                \
      std::printf("%s: %s\n", #call, cudaGetErrorName(error)); \
      std::fflush(stdout);                                     \
      _exit(1);                                                \
    }                                                          \
  } while (false)

/// A thread that captures until the object is destroyed. The graph must be complete then, and must
/// run.
class Capture {
 public:
  Capture() : thread_([this] { run(); }) {
    while (!begun_) std::this_thread::yield();
  }
  ~Capture() {
    end_ = true;
    thread_.join();
  }

 private:
  void run() {
    cudaStream_t stream = nullptr;
    cudaGraph_t graph = nullptr;
    cudaGraphExec_t executable = nullptr;
    int* word = nullptr;
    int value = 0;
    REQUIRE_CUDA(cudaMalloc(&word, sizeof(int)));
    REQUIRE_CUDA(cudaMemset(word, 0, sizeof(int)));
    REQUIRE_CUDA(cudaStreamCreate(&stream));  // the default stream synchronizes with it
    REQUIRE_CUDA(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
    begun_ = true;
    while (!end_) std::this_thread::yield();
    REQUIRE_CUDA(cudaMemsetAsync(word, 1, sizeof(int), stream));
    REQUIRE_CUDA(cudaStreamEndCapture(stream, &graph));
    REQUIRE_CUDA(cudaGraphInstantiate(&executable, graph, 0));
    REQUIRE_CUDA(cudaGraphLaunch(executable, stream));
    REQUIRE_CUDA(cudaStreamSynchronize(stream));
    REQUIRE_CUDA(cudaMemcpy(&value, word, sizeof(int), cudaMemcpyDefault));
    std::printf("graph left 0x%08x\n", static_cast<unsigned>(value));
  }
  std::atomic<bool> begun_{false}, end_{false};
  std::thread thread_;
};

/// Runs init, heap, transfers of both kinds by the host, a context, atomics, finalize.
int job_in_capture() {
  const Capture capture;
  gshmem_init();
  const int me = gshmem_my_pe(), next = (me + 1) % gshmem_n_pes();
  constexpr int kWords = 100000;
  int* words = static_cast<int*>(gshmem_calloc(kWords, sizeof(int)));
  std::vector<int> mine(kWords, me + 1), back(kWords);
  gshmem_ctx_t context{};
  bool good = words != nullptr && gshmem_ctx_create(0, &context) == 0;
  gshmem_int_put(words, mine.data(), kWords, next);
  gshmem_barrier_all();
  gshmem_int_get(back.data(), words, kWords, next);
  for (const int word : back) good = good && word == me + 1;
  good = good && gshmem_int_atomic_fetch_add(words, 5, next) == me + 1;
  gshmem_barrier_all();
  gshmem_ctx_destroy(context);
  gshmem_free(words);
  good = good && gshmemx_last_fault(nullptr) == GSHMEMX_SUCCESS;
  gshmem_finalize();
  std::printf("job %s\n", good ? "good" : "bad");
  return good ? 0 : 1;
}

void test_capture(const std::string& nic) {
  setenv("GSHMEM_NIC", nic.c_str(), 1);
  setenv("GSHMEM_P2P", nic == "none" ? "1" : "0", 1);
  for (const Outcome& pe : run_pes(2, "abort", "60", [](int) { return job_in_capture(); })) {
    const std::string name = "a job while a graph is captured, GSHMEM_NIC=" + nic;
    expect(name.c_str(), pe, 0, "job good");
    expect(name.c_str(), pe, 0, "graph left 0x01010101");
  }
}

/// Returns a function of the driver as it was in CUDA 11.0.
template <class Function>
Function driver(const char* name) {
  void* address = nullptr;
  cudaDriverEntryPointQueryResult found{};
  REQUIRE_CUDA(cudaGetDriverEntryPointByVersion(name, &address, 11000, cudaEnableDefault, &found));
  return reinterpret_cast<Function>(address);
}

int own_context() {
  REQUIRE_CUDA(cudaFree(nullptr));
  CUcontext own = nullptr, current = nullptr;
  const auto create = driver<CUresult (*)(CUcontext*, unsigned, CUdevice)>("cuCtxCreate");
  const auto get = driver<CUresult (*)(CUcontext*)>("cuCtxGetCurrent");
  if (create(&own, 0, 0) != CUDA_SUCCESS) return 3;
  gshmemx_init_attr_t attr = GSHMEMX_INIT_ATTR_INITIALIZER;
  const int refused = gshmemx_init_attr(GSHMEMX_INIT_DEFAULT, &attr);
  if (get(&current) != CUDA_SUCCESS || current != own) return 4;
  REQUIRE_CUDA(cudaSetDevice(0));
  const int accepted = gshmemx_init_attr(GSHMEMX_INIT_DEFAULT, &attr);
  gshmem_finalize();
  return refused == GSHMEMX_ERROR_NOT_SUPPORTED && accepted == GSHMEMX_SUCCESS ? 0 : 5;
}

/// Runs `body` in a forked child of this PE, as Python's multiprocessing does. Returns whether it
/// ended by `code`: its exit code, or 128 + signal.
template <class Body>
bool child_ends(const char* name, int code, const Body& body) {
  std::fflush(nullptr);
  const pid_t child = fork();
  if (child == 0) {
    alarm(20);
    body();
    std::exit(0);
  }
  int status = 0;
  if (waitpid(child, &status, 0) != child) return false;
  const int end = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  if (end != code) std::printf("the child that %s ended by %d\n", name, end);
  return end == code;
}

/// Calls of children do not affect the job of a PE that has a GPU; it goes on.
int job_with_children() {
  gshmem_init();
  const int me = gshmem_my_pe();
  int* word = static_cast<int*>(gshmem_calloc(1, sizeof(int)));
  gshmem_barrier_all();
  bool good = word != nullptr;
  if (me == 0) {
    good = good && child_ends("exits", 0, [] {});
    good = good && child_ends("finalizes", 0, [] { gshmem_finalize(); });
    good = good && child_ends("allocates", 0, [word] {
             gshmem_ctx_t context{};
             if (gshmem_malloc(64) != nullptr) _exit(1);
             gshmem_free(word);
             if (gshmem_ctx_create(0, &context) == 0) _exit(2);
             if (gshmemx_pe_handle() != nullptr) _exit(3);
           });
    good = good && child_ends("meets", 128 + SIGABRT, [] { gshmem_barrier_all(); });
    good = good && child_ends("puts", 128 + SIGABRT, [word] { gshmem_int_p(word, 6, 1); });
    gshmem_int_p(word, 5, 1);
  }
  gshmem_barrier_all();
  good = good && gshmem_int_atomic_fetch(word, 1) == 5;
  gshmem_barrier_all();
  gshmem_free(word);
  good = good && gshmemx_last_fault(nullptr) == GSHMEMX_SUCCESS;
  gshmem_finalize();
  std::printf("job %s\n", good ? "good" : "bad");
  return good ? 0 : 1;
}

void test_children() {
  const auto pes = run_pes(2, "abort", "60", [](int) { return job_with_children(); });
  expect("a PE on a GPU has children", pes[0], 0,
         "gshmem_malloc: this process was forked from PE 0");
  expect("a PE's children reach no PE", pes[0], 0,
         "gshmem_barrier_all: this process was forked from PE 0");
  for (const Outcome& pe : pes) expect("a job goes on whose PEs have children", pe, 0, "job good");
}

}  // namespace

int main(int argc, char** argv) {
  if (count_gpus() == 0) {
    std::puts("skipped: process_test needs a GPU");
    return 77;
  }
  setenv("GSHMEM_MAX_PES_PER_GPU", "2", 1);
  setenv("CUDA_VISIBLE_DEVICES", "0", 0);
  setenv("GSHMEM_SYMMETRIC_SIZE", "16M", 1);
  setenv("GSHMEM_OFI_INTERFACE", "127.0.0.1", 1);
  for (int i = 1; i < argc; ++i) test_capture(argv[i]);
  setenv("GSHMEM_P2P", "1", 1);
  setenv("GSHMEM_NIC", "none", 1);
  test_children();
  expect("an own context is refused and stays current",
         run_pes(1, "report", "60", [](int) { return own_context(); })[0], 0,
         "is not the primary one of GPU 0");
  return failures != 0;
}
