// Tests errors on the network path in kernels, over the soft NIC: quiet_status reports the error,
// no later data arrives, no thread hangs. Two PEs, on one GPU or two. Exit 0, 1 with the errors, 77
// without a GPU.
#include "tests/device/faults/jobs.h"

#include <array>

namespace {

enum class Call { kPut, kPutWarp, kPutBlock, kGet, kFetchAdd, kPutSignal };

constexpr std::size_t kWords = 8;
/// Symmetric memory.
struct Area {
  std::uint64_t source[kWords], dest[kWords], signal;
};

/// Makes the call with one block of two warps; stores the status of its last group.
__global__ void make(Call call, Area* area, int* status) {
  const bool first = threadIdx.x == 0;
  if (call == Call::kPut && first) gshmem_uint64_put_nbi(area->dest, area->source, kWords, 1);
  if (call == Call::kPutWarp && threadIdx.x < 32) {
    gshmemx_uint64_put_nbi_warp(area->dest, area->source, kWords, 1);
  }
  if (call == Call::kPutBlock) {
    gshmemx_uint64_put_nbi_block(area->dest, area->source, kWords, 1);
  }
  if (call == Call::kGet && first) gshmem_uint64_get(area->dest, area->source, kWords, 1);
  if (call == Call::kFetchAdd && first) gshmem_uint64_atomic_fetch_add(area->dest, 1, 1);
  if (call == Call::kPutSignal && first) {
    gshmem_uint64_put_signal_nbi(area->dest, area->source, kWords, &area->signal, 1,
                                 GSHMEM_SIGNAL_SET, 1);
  }
  const int code = gshmemx_quiet_status_block();
  if (gshmemx_quiet_status_block() != code) *status = -1;  // a second call, on one of all threads
  if (first && *status == 0) *status = code;
}

/// PE 0 makes the call, whose first entry fails; PE 1 waits for it in a barrier until it learns of
/// the error.
int failing_job(int rank, Call call, const char* rule) {
  setenv("GSHMEM_NIC", "soft", 1);
  setenv("GSHMEM_P2P", "0", 1);
  setenv("GSHMEM_MAX_PES_PER_GPU", "2", 1);
  setenv("GSHMEM_SYMMETRIC_SIZE", "16M", 1);
  if (rank == 0) setenv("GSHNIC_RULES", rule, 1);
  gshmem_init();
  auto* area = static_cast<Area*>(gshmem_calloc(1, sizeof(Area)));
  if (rank == 0) {
    const std::array<std::uint64_t, kWords> ones{1, 1, 1, 1, 1, 1, 1, 1};
    cudaMemcpy(area->source, ones.data(), sizeof(ones), cudaMemcpyDefault);
    int* status = nullptr;
    cudaMallocHost(&status, sizeof(int));
    *status = 0;
    make<<<1, 64>>>(call, area, status);
    const cudaError_t error = cudaDeviceSynchronize();
    std::printf("kernel: %s, status %d\n", cudaGetErrorName(error), *status);
  } else {
    gshmem_barrier_all();
    Area seen{};
    cudaMemcpy(&seen, area, sizeof(seen), cudaMemcpyDefault);
    std::printf("there: %lu, signal %lu\n", static_cast<unsigned long>(seen.dest[0]),
                static_cast<unsigned long>(seen.signal));
  }
  const int code = report_and_leave();
  // The error of its own end of the connection, or the report of PE 0.
  const bool heard = code == GSHMEMX_ERROR_NIC || code == GSHMEMX_ERROR_PEER_FAILED;
  return rank == 1 && heard ? 0 : code;
}

/// Entries after the failed one are flushed, and the NIC's one completion entry shows the newest.
/// With two entries the cause may be either: for a put and its signal, or for a READ or fetching
/// atomic and its DUMP.
void test(const char* name, Call call, const char* rule,
          const char* cause = "remote access error") {
  const std::vector<Outcome> pes =
      run_pes(2, "report", "60", [&](int rank) { return failing_job(rank, call, rule); });
  // PE 1's end of the connection fails as well, and its report may arrive first.
  const bool told = pes[0].output.find("PE 1 was stopped by a fault") != std::string::npos;
  const int code = told ? GSHMEMX_ERROR_PEER_FAILED : GSHMEMX_ERROR_NIC;
  const std::string status = "kernel: cudaSuccess, status " + std::to_string(code);
  const std::string of =
      told ? "queue 0 to PE 0: the other end asked for memory that it may not touch"
           : std::string("to PE 1 failed: ") + cause;
  const std::string scenario = name;
  expect((scenario + " has a status").c_str(), pes[0], code, status.c_str());
  expect((scenario + " has a cause").c_str(), pes[0], code, of.c_str());
  expect((scenario + " ends").c_str(), pes[0], code, "finalized");
  expect((scenario + " leaves no data").c_str(), pes[1], 0, "there: 0, signal 0");
}

}  // namespace

int main() {
  if (count_gpus() < 1) {
    std::puts("skipped: no GPU");
    return 77;
  }
  const char* write = "op=write:times=1:syndrome=0x13";
  test("put by a thread", Call::kPut, write);
  test("put by a warp", Call::kPutWarp, write);
  test("put by a block", Call::kPutBlock, write);
  test("put with a signal", Call::kPutSignal, write, "");
  test("get", Call::kGet, "op=read:times=1:syndrome=0x13", "");
  test("fetching atomic", Call::kFetchAdd, "op=atomic:times=1:syndrome=0x13", "");
  return failures == 0 ? 0 : 1;
}
