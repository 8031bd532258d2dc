// Compares collectives on streams of gshmem and of NCCL in one run, with loads and stores without a
// library: one process per GPU, float, sum. Started by perftest/peer/collectives. Small whole
// numbers make sums exact, and every row is checked before and after it is timed. Sizes are those
// of nccl-tests: the whole of an allreduce or a broadcast, the result of a PE of an allgather, and
// the input of a PE to an alltoall or a reducescatter. Times are medians over rounds of many calls,
// of the slowest PE. NVLink multicast is not used.
#include <cuda_runtime.h>
#include <gshmem/gshmem.h>
#include <gshmem/gshmemx.h>
#include <nccl.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

namespace {

void require(bool good, const char* text, const char* call) {
  if (good) return;
  std::fprintf(stderr, "collectives: %s: %s\n", call, text);
  std::exit(1);
}
void require(cudaError_t error, const char* call) {
  require(error == cudaSuccess, cudaGetErrorString(error), call);
}
void require(ncclResult_t error, const char* call) {
  require(error == ncclSuccess, ncclGetErrorString(error), call);
}
#define REQUIRE(...) require(__VA_ARGS__, #__VA_ARGS__)

enum Op { kAllreduce, kAllgather, kAlltoall, kBroadcast, kReducescatter, kOps };
constexpr const char* kOpNames[kOps] = {"allreduce", "allgather", "alltoall", "broadcast",
                                        "reducescatter"};
enum Way { kOurs, kHand, kNccl, kWindows, kWays };
constexpr const char* kWayNames[kWays] = {"gshmem", "loads and stores by hand", "NCCL",
                                          "NCCL windows"};
constexpr int kMostPes = 8, kMostBlocks = 64;
constexpr unsigned kThreads = 512;

struct Job {
  int me, n;
  cudaStream_t stream;
  ncclComm_t comm;
  double* number;
  unsigned long long* wrong;
} job;
struct Arrays {
  float *source, *dest;
} arrays[kWays];

double most_of_all(double value) {
  REQUIRE(cudaMemcpyAsync(job.number, &value, sizeof(value), cudaMemcpyHostToDevice, job.stream));
  REQUIRE(ncclAllReduce(job.number, job.number, 1, ncclDouble, ncclMax, job.comm, job.stream));
  REQUIRE(cudaMemcpyAsync(&value, job.number, sizeof(value), cudaMemcpyDeviceToHost, job.stream));
  REQUIRE(cudaStreamSynchronize(job.stream));
  return value;
}

__device__ float number_of(unsigned pe, size_t i, unsigned seed) {
  return static_cast<float>((i * 7 + pe * 13 + seed * 5 + (i >> 10)) & 63);
}
__global__ void fill(float* at, size_t n, unsigned pe, unsigned seed) {
  for (size_t i = blockIdx.x * size_t{blockDim.x} + threadIdx.x; i < n;
       i += size_t{gridDim.x} * blockDim.x)
    at[i] = number_of(pe, i, seed);
}
__global__ void check(const float* at, size_t n, Op op, size_t each, int me, int pes, unsigned seed,
                      unsigned long long* wrong) {
  for (size_t i = blockIdx.x * size_t{blockDim.x} + threadIdx.x; i < n;
       i += size_t{gridDim.x} * blockDim.x) {
    float right = 0;
    if (op == kAllreduce || op == kReducescatter) {
      const size_t first = op == kReducescatter ? me * each : 0;
      for (int pe = 0; pe < pes; ++pe) right += number_of(pe, first + i, seed);
    } else if (op == kBroadcast) {
      right = number_of(0, i, seed);
    } else {
      right = number_of(i / each, i % each + (op == kAlltoall ? me * each : 0), seed);
    }
    if (at[i] != right) atomicAdd(wrong, 1ull);
  }
}

/// A baseline without a library: blocks with the same number signal each other, load the data they
/// need, and store the result to its destination.
struct Peers {
  float *source[kMostPes], *dest[kMostPes];
  unsigned* flags[kMostPes];
} peers;
__device__ void tell_and_wait(const Peers& all, int me, int n, unsigned number, bool release) {
  __syncthreads();
  if (threadIdx.x < n) {
    if (release) __threadfence_system();
    volatile unsigned* const told = all.flags[threadIdx.x] + blockIdx.x * kMostPes + me;
    volatile unsigned* const seen = all.flags[me] + blockIdx.x * kMostPes + threadIdx.x;
    *told = number;
    while (static_cast<int>(*seen - number) < 0) {
    }
    __threadfence_system();
  }
  __syncthreads();
}
__device__ float4 add(float4 a, float4 b) { return {a.x + b.x, a.y + b.y, a.z + b.z, a.w + b.w}; }
/// Combines words of 16 bytes of `count` arrays; `store` stores the results.
template <int kArrays, class Load, class Store>
__device__ void stream_words(size_t n, const Load& load, const Store& store) {
  constexpr int kDepth = 4;
  const size_t width = size_t{gridDim.x} * blockDim.x;
  for (size_t first = blockIdx.x * size_t{blockDim.x} + threadIdx.x; first < n;
       first += kDepth * width) {
    float4 word[kDepth][kArrays];
#pragma unroll
    for (int k = 0; k < kDepth; ++k)
#pragma unroll
      for (int i = 0; i < kArrays; ++i)
        if (first + k * width < n) word[k][i] = load(i, first + k * width);
#pragma unroll
    for (int k = 0; k < kDepth; ++k) {
#pragma unroll
      for (int i = 1; i < kArrays; ++i) word[k][0] = add(word[k][0], word[k][i]);
      if (first + k * width < n) store(first + k * width, word[k][0]);
    }
  }
}
__device__ float4 load_past_cache(const float4* from) {
  float4 word;
  asm volatile("ld.relaxed.sys.global.v4.f32 {%0,%1,%2,%3}, [%4];"
               : "=f"(word.x), "=f"(word.y), "=f"(word.z), "=f"(word.w)
               : "l"(from)
               : "memory");
  return word;
}
template <int kPes>
__global__ void __launch_bounds__(kThreads)
    by_hand(Op op, Peers all, int me, size_t n, unsigned number, bool one_shot) {
  const size_t each = n / kPes;
  const auto source = [&](int pe) { return reinterpret_cast<const float4*>(all.source[pe]); };
  const auto dest = [&](int pe) { return reinterpret_cast<float4*>(all.dest[pe]); };
  const auto after = [&](int k) { return (me + k) % kPes; };
  tell_and_wait(all, me, kPes, number, false);
  if (op == kAllreduce && one_shot) {
    stream_words<kPes>(
        n, [&](int i, size_t at) { return load_past_cache(source(i) + at); },
        [&](size_t at, float4 word) { dest(me)[at] = word; });
  } else if (op == kAllreduce) {
    const size_t first = each * me;
    stream_words<kPes>(
        each, [&](int i, size_t at) { return load_past_cache(source(i) + first + at); },
        [&](size_t at, float4 word) {
#pragma unroll
          for (int k = 0; k < kPes; ++k) dest(after(k))[first + at] = word;
        });
  } else if (op == kReducescatter) {
    stream_words<kPes>(
        each, [&](int i, size_t at) { return load_past_cache(source(i) + each * me + at); },
        [&](size_t at, float4 word) { dest(me)[at] = word; });
  } else if (op == kAllgather) {
    stream_words<1>(
        each, [&](int, size_t at) { return source(me)[at]; },
        [&](size_t at, float4 word) {
#pragma unroll
          for (int k = 0; k < kPes; ++k) dest(after(k))[each * me + at] = word;
        });
  } else if (op == kAlltoall) {
    for (int k = 0; k < kPes; ++k) {
      const int to = after(k);
      stream_words<1>(
          each, [&](int, size_t at) { return source(me)[each * to + at]; },
          [&](size_t at, float4 word) { dest(to)[each * me + at] = word; });
    }
  } else {
    stream_words<1>(
        n, [&](int, size_t at) { return load_past_cache(source(0) + at); },
        [&](size_t at, float4 word) { dest(me)[at] = word; });
  }
  tell_and_wait(all, me, kPes, number + 1, true);
}
bool call_by_hand(Op op, size_t n, int blocks) {
  static unsigned number = 1;
  if (n % (4 * static_cast<size_t>(job.n)) != 0) return false;
  const auto kernel = job.n == 2   ? by_hand<2>
                      : job.n == 4 ? by_hand<4>
                      : job.n == 8 ? by_hand<8>
                                   : nullptr;
  if (!kernel) return false;
  const bool one_shot = n * sizeof(float) <= 256u << 10;
  kernel<<<blocks, kThreads, 0, job.stream>>>(op, peers, job.me, n / 4, number, one_shot);
  REQUIRE(cudaGetLastError());
  number += 2;
  return true;
}

int call_ours(Op op, const Arrays& at, size_t n, size_t each) {
  switch (op) {
    case kAllreduce:
      return gshmemx_float_sum_reduce_on_stream(GSHMEM_TEAM_WORLD, at.dest, at.source, n,
                                                job.stream);
    case kAllgather:
      return gshmemx_float_fcollect_on_stream(GSHMEM_TEAM_WORLD, at.dest, at.source, each,
                                              job.stream);
    case kAlltoall:
      return gshmemx_float_alltoall_on_stream(GSHMEM_TEAM_WORLD, at.dest, at.source, each,
                                              job.stream);
    case kBroadcast:
      return gshmemx_float_broadcast_on_stream(GSHMEM_TEAM_WORLD, at.dest, at.source, n, 0,
                                               job.stream);
    default:
      return gshmemx_float_sum_reducescatter_on_stream(GSHMEM_TEAM_WORLD, at.dest, at.source, each,
                                                       job.stream);
  }
}
ncclResult_t exchange(const Arrays& at, size_t each) {
  REQUIRE(ncclGroupStart());
  for (int pe = 0; pe < job.n; ++pe) {
    REQUIRE(ncclSend(at.source + pe * each, each, ncclFloat, pe, job.comm, job.stream));
    REQUIRE(ncclRecv(at.dest + pe * each, each, ncclFloat, pe, job.comm, job.stream));
  }
  return ncclGroupEnd();
}
ncclResult_t call_nccl(Op op, const Arrays& at, size_t n, size_t each) {
  switch (op) {
    case kAllreduce:
      return ncclAllReduce(at.source, at.dest, n, ncclFloat, ncclSum, job.comm, job.stream);
    case kAllgather:
      return ncclAllGather(at.source, at.dest, each, ncclFloat, job.comm, job.stream);
    case kAlltoall:
      return exchange(at, each);
    case kBroadcast:
      return ncclBroadcast(at.source, at.dest, n, ncclFloat, 0, job.comm, job.stream);
    default:
      return ncclReduceScatter(at.source, at.dest, each, ncclFloat, ncclSum, job.comm, job.stream);
  }
}
/// Makes the call. Returns false if this library has no such call. `n` is the number of elements of
/// the message.
bool call(Way way, Op op, size_t n, int blocks) {
  const Arrays& at = arrays[way];
  const size_t each = n / static_cast<size_t>(job.n);
  if (!at.source) return false;
  if (way == kHand) return call_by_hand(op, n, blocks);
  if (way == kOurs) {
    REQUIRE(call_ours(op, at, n, each) == 0, "the call failed");
  } else {
    REQUIRE(call_nccl(op, at, n, each));
  }
  return true;
}

bool is_right(Way way, Op op, size_t n, unsigned seed) {
  const size_t each = n / static_cast<size_t>(job.n), length = op == kReducescatter ? each : n;
  unsigned long long count = 0;
  REQUIRE(cudaMemsetAsync(job.wrong, 0, sizeof(count), job.stream));
  check<<<264, kThreads, 0, job.stream>>>(arrays[way].dest, length, op, each, job.me, job.n, seed,
                                          job.wrong);
  REQUIRE(cudaMemcpyAsync(&count, job.wrong, sizeof(count), cudaMemcpyDeviceToHost, job.stream));
  REQUIRE(cudaStreamSynchronize(job.stream));
  return most_of_all(static_cast<double>(count)) == 0;
}

/// Microseconds of one call; -1: not available.
struct Result {
  double us = -1;
  bool right = true;
};
Result measure(Way way, Op op, size_t n, int blocks, int rounds, bool graph) {
  const size_t bytes = n * sizeof(float);
  const auto seed = static_cast<unsigned>(std::rand() % 1000);  // the same on all PEs
  if (!arrays[way].source) return {};
  // NCCL has no kernel of its own for broadcasts between windows, and 2.28.9 hung at 2 MiB when one
  // communicator made them after ordinary ones.
  if (way == kWindows && op == kBroadcast) return {};
  fill<<<264, kThreads, 0, job.stream>>>(arrays[way].source, n, job.me, seed);
  REQUIRE(cudaMemsetAsync(arrays[way].dest, 0xff, bytes, job.stream));
  (void)most_of_all(0);  // all PEs have filled their arrays
  if (!call(way, op, n, blocks)) return {};
  Result result{0, is_right(way, op, n, seed)};
  const int calls = bytes <= 64u << 10 ? 50 : bytes <= 4u << 20 ? 20 : 5;
  const auto make_calls = [&] {
    for (int i = 0; i < calls; ++i) call(way, op, n, blocks);
  };
  cudaGraph_t made = nullptr;
  cudaGraphExec_t run = nullptr;
  if (graph && way != kHand) {  // its syncs have numbers, which a graph would repeat
    REQUIRE(cudaStreamBeginCapture(job.stream, cudaStreamCaptureModeThreadLocal));
    make_calls();
    REQUIRE(cudaStreamEndCapture(job.stream, &made));
    REQUIRE(cudaGraphInstantiate(&run, made, 0));
  }
  cudaEvent_t begin, end;
  REQUIRE(cudaEventCreate(&begin));
  REQUIRE(cudaEventCreate(&end));
  std::vector<double> times;
  constexpr int kWarmUps = 2;
  for (int round = 0; round < rounds + kWarmUps; ++round) {
    (void)most_of_all(0);
    REQUIRE(cudaEventRecord(begin, job.stream));
    if (run) {
      REQUIRE(cudaGraphLaunch(run, job.stream));
    } else {
      make_calls();
    }
    REQUIRE(cudaEventRecord(end, job.stream));
    REQUIRE(cudaStreamSynchronize(job.stream));
    float ms = 0;
    REQUIRE(cudaEventElapsedTime(&ms, begin, end));
    const double us = most_of_all(ms * 1e3 / calls);
    if (round >= kWarmUps) times.push_back(us);
  }
  if (run) {
    REQUIRE(cudaGraphExecDestroy(run));
    REQUIRE(cudaGraphDestroy(made));
  }
  REQUIRE(cudaEventDestroy(begin));
  REQUIRE(cudaEventDestroy(end));
  result.right = is_right(way, op, n, seed) && result.right;
  std::nth_element(times.begin(), times.begin() + rounds / 2, times.end());
  result.us = times[static_cast<size_t>(rounds / 2)];
  return result;
}
/// Returns the result of a library. Without a library it is the best of several numbers of blocks.
Result best(Way way, Op op, size_t n, int rounds, bool graph) {
  if (way != kHand) return measure(way, op, n, 1, rounds, graph);
  Result found;
  for (const int blocks : {1, 8, 32, 64}) {
    if (blocks > 1 && n * sizeof(float) / blocks < 4096) break;
    const Result one = measure(way, op, n, blocks, rounds, graph);
    if (one.us < 0) return one;
    found.right = found.right && one.right;
    if (found.us < 0 || one.us < found.us) found.us = one.us;
  }
  return found;
}

void make_arrays(size_t most) {
  arrays[kOurs] = {static_cast<float*>(gshmem_malloc(most)),
                   static_cast<float*>(gshmem_malloc(most))};
  REQUIRE(arrays[kOurs].source && arrays[kOurs].dest, "raise GSHMEM_SYMMETRIC_SIZE");
  arrays[kHand] = arrays[kOurs];
  REQUIRE(cudaMalloc(&arrays[kNccl].source, most));
  REQUIRE(cudaMalloc(&arrays[kNccl].dest, most));
#if NCCL_VERSION_CODE >= 22700
  void* made[2] = {};
  bool good = true;
  for (void*& memory : made) {
    ncclWindow_t window;
    good = good && ncclMemAlloc(&memory, most) == ncclSuccess;
    good = most_of_all(good ? 0 : 1) == 0;
    good = good && ncclCommWindowRegister(job.comm, memory, most, &window,
                                          NCCL_WIN_COLL_SYMMETRIC) == ncclSuccess;
    good = most_of_all(good ? 0 : 1) == 0;
  }
  if (good) arrays[kWindows] = {static_cast<float*>(made[0]), static_cast<float*>(made[1])};
#endif
  auto* const flags =
      static_cast<unsigned*>(gshmem_calloc(1, sizeof(unsigned) * kMostBlocks * kMostPes));
  for (int pe = 0; pe < job.n && pe < kMostPes; ++pe) {
    peers.source[pe] = static_cast<float*>(gshmem_ptr(arrays[kHand].source, pe));
    peers.dest[pe] = static_cast<float*>(gshmem_ptr(arrays[kHand].dest, pe));
    peers.flags[pe] = static_cast<unsigned*>(gshmem_ptr(flags, pe));
  }
  gshmem_barrier_all();
}

void open_job(int gpu) {
  REQUIRE(cudaSetDevice(gpu));
  gshmem_init();
  job.me = gshmem_my_pe();
  job.n = gshmem_n_pes();
  REQUIRE(cudaStreamCreateWithFlags(&job.stream, cudaStreamNonBlocking));
  ncclUniqueId id;
  void* const place = gshmem_malloc(sizeof(id));
  if (job.me == 0) {
    REQUIRE(ncclGetUniqueId(&id));
    REQUIRE(cudaMemcpy(place, &id, sizeof(id), cudaMemcpyHostToDevice));
  }
  gshmem_barrier_all();
  gshmem_getmem(&id, place, sizeof(id), 0);
  REQUIRE(ncclCommInitRank(&job.comm, job.n, id, job.me));
  REQUIRE(cudaMalloc(&job.number, sizeof(*job.number)));
  REQUIRE(cudaMalloc(&job.wrong, sizeof(*job.wrong)));
}

}  // namespace

/// Arguments: minimum and maximum bytes, factor, rounds, 1 for graphs, the number of the GPU, and
/// optional names of operations.
int main(int argc, char** argv) {
  if (argc < 7) return 2;
  const size_t least = std::strtoull(argv[1], nullptr, 0),
               most = std::strtoull(argv[2], nullptr, 0),
               factor = std::strtoull(argv[3], nullptr, 0);
  const int rounds = std::atoi(argv[4]);
  const bool graph = std::atoi(argv[5]) != 0;
  const std::string only = argc > 7 ? argv[7] : "";
  open_job(std::atoi(argv[6]));
  make_arrays(most);
  // Prints rows for the script: operation, bytes, then for each library the microseconds and
  // whether the result was right.
  int wrong = 0;
  for (int op = 0; op < kOps; ++op) {
    if (!only.empty() && only.find(kOpNames[op]) == std::string::npos) continue;
    for (size_t bytes = least; bytes <= most; bytes *= factor) {
      const auto pes = static_cast<size_t>(job.n);
      const size_t n = std::max(bytes / sizeof(float) / pes, size_t{1}) * pes;
      if (job.me == 0) std::printf("%s,%zu", kOpNames[op], n * sizeof(float));
      for (int way = 0; way < kWays; ++way) {
        const Result result = best(static_cast<Way>(way), static_cast<Op>(op), n, rounds, graph);
        if (!result.right) {
          ++wrong;
          std::fprintf(stderr, "collectives: wrong data: %s of %zu bytes by %s\n", kOpNames[op],
                       bytes, kWayNames[way]);
        }
        if (job.me == 0) std::printf(",%.3f", result.us);
      }
      if (job.me == 0) std::printf("\n");
      std::fflush(stdout);
    }
  }
  gshmem_barrier_all();
  ncclCommDestroy(job.comm);
  gshmem_finalize();
  return wrong == 0 ? 0 : 1;
}
