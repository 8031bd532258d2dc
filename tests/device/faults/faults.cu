// Tests faults of kernels: a dead PE during a barrier and collectives, a wait that never ends, bad
// arguments, collectives that differ (this unit is compiled with GSHMEM_DEVICE_CHECKS=1). Each
// scenario runs in processes of its own, one per PE, forked before any of them uses CUDA. Usage:
// faults one_pe|one_gpu|dead_pe. Exit 0, 1 with the errors, 77 without a GPU.
#include "tests/device/faults/jobs.h"

#include <csignal>

namespace {

__global__ void barrier() { gshmemx_barrier_all_block(); }
__global__ void wait_for_ever(int* word) { gshmem_int_wait_until(word, GSHMEM_CMP_EQ, 1); }
__global__ void put_to(int* word, int pe) { gshmem_int_p(word, 1, pe); }
__global__ void put_outside(int* word) { gshmem_int_p(word, 1, 0); }
__global__ void alltoall(int* dest, const int* source, std::size_t nelems) {
  gshmemx_int_alltoall_block(GSHMEM_TEAM_WORLD, dest, source, nelems);
}
__global__ void sum(int* dest, const int* source, std::size_t nelems) {
  gshmemx_int_sum_reduce_block(GSHMEM_TEAM_WORLD, dest, source, nelems);
}

/// PE 1 dies while PE 0 runs `call` with `dest`, `source` and `nelems`.
template <class Call>
int dying_job(int rank, std::size_t nelems, const Call& call) {
  gshmem_init();
  auto* dest = static_cast<int*>(gshmem_calloc(2 * nelems, sizeof(int)));
  auto* source = static_cast<int*>(gshmem_calloc(2 * nelems, sizeof(int)));
  call(dest, source, nelems);  // this also loads the kernel
  cudaDeviceSynchronize();
  if (rank == 1) (void)raise(SIGKILL);
  call(dest, source, nelems);
  const cudaError_t error = cudaDeviceSynchronize();
  std::printf("kernel: %s\n", cudaGetErrorName(error));
  return report_and_leave();
}

template <class Launch>
int faulting_job(const Launch& launch) {
  gshmem_init();
  int* word = static_cast<int*>(gshmem_calloc(1, sizeof(int)));
  launch(word);
  const cudaError_t error = cudaDeviceSynchronize();
  std::printf("kernel: %s\n", cudaGetErrorName(error));
  return report_and_leave();
}

void test_one_pe() {
  Outcome one = run_pes(1, "report", "1", [](int) {
    return faulting_job([](int* word) { wait_for_ever<<<1, 1>>>(word); });
  })[0];
  expect("wait that never ends is a timeout", one, GSHMEMX_ERROR_TIMEOUT,
         "gshmem_int_wait_until: waited");
  one = run_pes(1, "report", "60",
                [](int) { return faulting_job([](int* word) { put_to<<<1, 1>>>(word, 7); }); })[0];
  expect("PE out of range is named", one, GSHMEMX_ERROR_INVALID_VALUE,
         "gshmem_int_p: argument pe = 7 is out of range [0, 1)");
  one = run_pes(1, "abort", "60",
                [](int) { return faulting_job([](int* word) { put_to<<<1, 1>>>(word, -1); }); })[0];
  expect("abort traps and leaves the record", one, GSHMEMX_ERROR_INVALID_VALUE,
         "gshmem_int_p: argument pe = -1 is out of range [0, 1)");
  one = run_pes(1, "report", "60", [](int) {
    return faulting_job([](int*) {
      int* outside = nullptr;
      cudaMalloc(&outside, sizeof(int));
      put_outside<<<1, 1>>>(outside);
    });
  })[0];
  expect("address outside the heap is named", one, GSHMEMX_ERROR_INVALID_VALUE,
         "gshmem_int_p: argument dest = 0x");
}

/// Two PEs on one GPU, whose members pass `elements[rank]`.
template <class Kernel>
void test_collective(const char* scenario, Kernel kernel, const std::size_t (&elements)[2],
                     const char* text) {
  setenv("GSHMEM_MAX_PES_PER_GPU", "2", 1);
  const std::vector<Outcome> both = run_pes(2, "report", "60", [&](int rank) {
    constexpr std::size_t kMost = 60000;
    gshmem_init();
    auto* dest = static_cast<int*>(gshmem_calloc(kMost, sizeof(int)));
    auto* source = static_cast<int*>(gshmem_calloc(kMost, sizeof(int)));
    kernel<<<1, 128>>>(dest, source, elements[rank]);
    std::printf("kernel: %s\n", cudaGetErrorName(cudaDeviceSynchronize()));
    return report_and_leave();
  });
  for (const Outcome& one : both) expect(scenario, one, GSHMEMX_ERROR_SYMMETRY, text);
}
void test_one_gpu() {
  test_collective("few bytes and fewer are told apart", alltoall, {1, 4},
                  "gshmemx_int_alltoall_block: argument nelems is of ");
  test_collective("few bytes and none are told apart", alltoall, {0, 4},
                  "gshmemx_int_alltoall_block: argument nelems is of ");
  test_collective("sums of different counts are told apart", sum, {3000, 30000},
                  "gshmemx_int_sum_reduce_block: argument nelems is of ");
}

/// On the network path the card may detect it first.
template <class Call>
void test_dead_pe(const std::string& scenario, std::size_t nelems, const Call& call) {
  const auto job = [&](int rank) { return dying_job(rank, nelems, call); };
  const auto cause = [](const Outcome& one) {
    return one.output.find("syndrome 0x15") == std::string::npos ? "PE 1 died"
                                                                 : "to PE 1 failed: retries";
  };
  Outcome one = run_pes(2, "report", "60", job)[0];
  const bool died = cause(one) == std::string("PE 1 died");
  expect(("dead PE ends " + scenario + " under report").c_str(), one,
         died ? GSHMEMX_ERROR_PEER_FAILED : GSHMEMX_ERROR_NIC, cause(one));
  one = run_pes(2, "abort", "60", job)[0];
  expect(("dead PE ends the job in " + scenario + " under abort").c_str(), one, 1, cause(one));
}
void test_dead_pe() {
  // With one GPU, both PEs share it.
  setenv("GSHMEM_MAX_PES_PER_GPU", "2", 1);
  const auto by_kernel = [](auto kernel) {
    return [kernel](int* dest, const int* source, std::size_t n) {
      kernel<<<1, 64>>>(dest, source, n);
    };
  };
  const auto on_stream = [](int* dest, const int* source, std::size_t n) {
    gshmemx_int_sum_reduce_on_stream(GSHMEM_TEAM_WORLD, dest, source, n, nullptr);
  };
  test_dead_pe("a barrier", 1, [](auto...) { barrier<<<1, 64>>>(); });
  for (const bool network : {false, true}) {
    if (network) {
      setenv("GSHMEM_NIC", "soft", 1);
      setenv("GSHMEM_P2P", "0", 1);
    }
    const std::string way = network ? " by the network" : "";
    test_dead_pe("an alltoall of few bytes" + way, 2, by_kernel(alltoall));
    test_dead_pe("a sum" + way, 3000, by_kernel(sum));
    test_dead_pe("a sum on a stream" + way, 3000, on_stream);
  }
}

}  // namespace

int main(int argc, char** argv) {
  const std::string which = argc == 2 ? argv[1] : "";
  if (which != "one_pe" && which != "one_gpu" && which != "dead_pe") {
    std::puts("usage: faults one_pe|one_gpu|dead_pe");
    return 2;
  }
  if (count_gpus() == 0) {
    std::puts("skipped: needs a GPU");
    return 77;
  }
  if (which == "dead_pe") {
    test_dead_pe();
  } else if (which == "one_gpu") {
    test_one_gpu();
  } else {
    test_one_pe();
  }
  return failures == 0 ? 0 : 1;
}
