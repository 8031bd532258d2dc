// One benchmark source for two libraries: it uses NVSHMEM names only, so it compiles unchanged with
// gshmem's <nvshmem.h> and with NVSHMEM's. perftest/peer/run builds and runs both and prints
// ratios. Usage: same_source RANK SIZE ID_FILE [ROWS]; each rank has a GPU, which may be shared.
// Rank 0 prints "name,microseconds" for rows whose name contains ROWS. Every row checks the data it
// transferred; a wrong byte ends the program.
#include <nvshmem.h>
#include <nvshmemx.h>

#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#define CHECK_CUDA(call)                                                                         \
  do {                                                                                           \
    const cudaError_t e = (call);                                                                \
    if (e != cudaSuccess) {                                                                      \
      std::fprintf(stderr, "%s:%d: %s: %s\n", __FILE__, __LINE__, #call, cudaGetErrorString(e)); \
      std::exit(1);                                                                              \
    }                                                                                            \
  } while (0)

enum Scope { kThread, kWarp, kBlock };
constexpr int kPeer = 1;
constexpr int kWarmup = 10;
constexpr size_t kSignalBytes = 512 * 128;  // one cache line for each of up to 512 dependent gets

struct Buffers {
  char* dst;
  char* src;
  uint64_t* signal;
  long long* clocks;  // [0] duration in clocks of rank 0's first thread, [1] keeps results alive
};

template <Scope kScope>
__global__ void put_quiet(Buffers b, size_t bytes, int iterations) {
  long long start = 0;
  for (int i = -kWarmup; i < iterations; ++i) {
    if (i == 0) start = clock64();
    if (kScope == kThread) nvshmem_putmem(b.dst, b.src, bytes, kPeer);
    if (kScope == kWarp) nvshmemx_putmem_warp(b.dst, b.src, bytes, kPeer);
    if (kScope == kBlock) nvshmemx_putmem_block(b.dst, b.src, bytes, kPeer);
    if (threadIdx.x == 0) nvshmem_quiet();
    if (kScope == kWarp) __syncwarp();
    if (kScope == kBlock) __syncthreads();
  }
  if (threadIdx.x == 0) b.clocks[0] = clock64() - start;
}

/// Returns a different offset for every iteration; the last iteration gets offset 0. A library may
/// serve a repeated get from this SM's L1 cache, and then the time says nothing about the link.
__device__ size_t fresh_offset(int iterations_left, size_t bytes) {
  return static_cast<size_t>(iterations_left - 1) * ((bytes + 127) / 128 * 128);
}

template <Scope kScope>
__global__ void get(Buffers b, size_t bytes, int iterations) {
  long long start = 0;
  for (int i = -kWarmup; i < iterations; ++i) {
    if (i == 0) start = clock64();
    const char* src = b.src + fresh_offset(iterations - i, bytes);
    if (kScope == kThread) nvshmem_getmem(b.dst, src, bytes, kPeer);
    if (kScope == kWarp) nvshmemx_getmem_warp(b.dst, src, bytes, kPeer);
    if (kScope == kBlock) nvshmemx_getmem_block(b.dst, src, bytes, kPeer);
  }
  if (threadIdx.x == 0) b.clocks[0] = clock64() - start;
}

__global__ void put_blocks(Buffers b, size_t bytes) {
  const size_t part = bytes / gridDim.x;
  nvshmemx_putmem_nbi_block(b.dst + blockIdx.x * part, b.src + blockIdx.x * part, part, kPeer);
}

__global__ void get_blocks(Buffers b, size_t bytes) {
  const size_t part = bytes / gridDim.x;
  nvshmemx_getmem_nbi_block(b.dst + blockIdx.x * part, b.src + blockIdx.x * part, part, kPeer);
}

__global__ void p_elements(Buffers b, size_t count) {
  const size_t step = size_t{gridDim.x} * blockDim.x;
  for (size_t i = blockIdx.x * size_t{blockDim.x} + threadIdx.x; i < count; i += step) {
    nvshmem_double_p(reinterpret_cast<double*>(b.dst) + i, reinterpret_cast<double*>(b.src)[i],
                     kPeer);
  }
}

__global__ void g_elements(Buffers b, size_t count) {
  const size_t step = size_t{gridDim.x} * blockDim.x;
  for (size_t i = blockIdx.x * size_t{blockDim.x} + threadIdx.x; i < count; i += step) {
    reinterpret_cast<double*>(b.dst)[i] =
        nvshmem_double_g(reinterpret_cast<double*>(b.src) + i, kPeer);
  }
}

// Each operation depends on the result of the previous one, so that none overlap.
__global__ void fetch_add(Buffers b, int iterations) {
  uint64_t last = 0;
  const long long start = clock64();
  for (int i = 0; i < iterations; ++i) {
    last = nvshmem_uint64_atomic_fetch_add(b.signal + (last >> 60), 1, kPeer);
  }
  b.clocks[0] = clock64() - start;
  b.clocks[1] = static_cast<long long>(last);
}

__global__ void dependent_g(Buffers b, int iterations) {
  uint64_t last = 0;
  const long long start = clock64();
  for (int i = 0; i < iterations; ++i) {
    last = nvshmem_uint64_g(b.signal + 16 * i + (last >> 60), kPeer);
  }
  b.clocks[0] = clock64() - start;
  b.clocks[1] = static_cast<long long>(last);
}

/// Returns one of many signals in turn. The time of a poll depends on the slice of the L2 cache
/// that holds the word, and the address of the word differs between the libraries.
__device__ uint64_t* signal_of(Buffers b, int i) { return b.signal + 16 * (i % 256); }

__global__ void signal_ping_pong(Buffers b, int iterations, int me) {
  long long start = 0;
  for (int i = 1; i <= iterations + kWarmup; ++i) {
    if (i == kWarmup + 1) start = clock64();
    const uint64_t value = static_cast<uint64_t>(i);
    if (me == 0) nvshmemx_signal_op(signal_of(b, i), value, NVSHMEM_SIGNAL_SET, 1);
    nvshmem_signal_wait_until(signal_of(b, i), NVSHMEM_CMP_EQ, value);
    if (me == 1) nvshmemx_signal_op(signal_of(b, i), value, NVSHMEM_SIGNAL_SET, 0);
  }
  b.clocks[0] = clock64() - start;
}

__global__ void put_signal_ping_pong(Buffers b, int iterations, int me) {
  long long start = 0;
  uint64_t* dst = reinterpret_cast<uint64_t*>(b.dst);
  const uint64_t* src = reinterpret_cast<const uint64_t*>(b.src);
  for (int i = 1; i <= iterations + kWarmup; ++i) {
    if (i == kWarmup + 1) start = clock64();
    const uint64_t value = static_cast<uint64_t>(i);
    if (me == 0)
      nvshmem_uint64_put_signal(dst, src, 1, signal_of(b, i), value, NVSHMEM_SIGNAL_SET, 1);
    nvshmem_signal_wait_until(signal_of(b, i), NVSHMEM_CMP_EQ, value);
    if (me == 1)
      nvshmem_uint64_put_signal(dst, src, 1, signal_of(b, i), value, NVSHMEM_SIGNAL_SET, 0);
  }
  b.clocks[0] = clock64() - start;
}

enum Meeting { kSync, kBarrier, kTeamSync };
template <Meeting kMeeting, Scope kScope>
__global__ void meet(Buffers b, int iterations) {
  long long start = 0;
  for (int i = -kWarmup; i < iterations; ++i) {
    if (i == 0) start = clock64();
    if (kMeeting == kSync && kScope == kThread) nvshmem_sync_all();
    if (kMeeting == kSync && kScope == kBlock) nvshmemx_sync_all_block();
    if (kMeeting == kTeamSync && kScope == kThread) nvshmem_team_sync(NVSHMEM_TEAM_SHARED);
    if (kMeeting == kTeamSync && kScope == kBlock) nvshmemx_team_sync_block(NVSHMEM_TEAM_SHARED);
    if (kMeeting == kBarrier && kScope == kThread) nvshmem_barrier_all();
    if (kMeeting == kBarrier && kScope == kBlock) nvshmemx_barrier_all_block();
  }
  if (threadIdx.x == 0) b.clocks[0] = clock64() - start;
}

enum Collective { kAlltoall, kBroadcast, kFcollect, kReduce, kReducescatter };
constexpr const char* kCollectives[] = {"alltoall", "broadcast", "fcollect", "reduce",
                                        "reducescatter"};

/// `count` is the number of elements of each PE that are put to one other, reduced, or received.
template <Collective kWhat, Scope kScope>
__device__ void collective(Buffers b, size_t count) {
  int* const dst = reinterpret_cast<int*>(b.dst);
  const int* const src = reinterpret_cast<const int*>(b.src);
  const nvshmem_team_t team = NVSHMEM_TEAM_WORLD;
  if (kScope == kThread) {
    if (kWhat == kAlltoall) nvshmem_int32_alltoall(team, dst, src, count);
    if (kWhat == kBroadcast) nvshmem_int32_broadcast(team, dst, src, count, 0);
    if (kWhat == kFcollect) nvshmem_int32_fcollect(team, dst, src, count);
    if (kWhat == kReduce) nvshmem_int32_sum_reduce(team, dst, src, count);
    if (kWhat == kReducescatter) nvshmem_int32_sum_reducescatter(team, dst, src, count);
  } else if (kScope == kWarp) {
    if (kWhat == kAlltoall) nvshmemx_int32_alltoall_warp(team, dst, src, count);
    if (kWhat == kBroadcast) nvshmemx_int32_broadcast_warp(team, dst, src, count, 0);
    if (kWhat == kFcollect) nvshmemx_int32_fcollect_warp(team, dst, src, count);
    if (kWhat == kReduce) nvshmemx_int32_sum_reduce_warp(team, dst, src, count);
    if (kWhat == kReducescatter) nvshmemx_int32_sum_reducescatter_warp(team, dst, src, count);
  } else {
    if (kWhat == kAlltoall) nvshmemx_int32_alltoall_block(team, dst, src, count);
    if (kWhat == kBroadcast) nvshmemx_int32_broadcast_block(team, dst, src, count, 0);
    if (kWhat == kFcollect) nvshmemx_int32_fcollect_block(team, dst, src, count);
    if (kWhat == kReduce) nvshmemx_int32_sum_reduce_block(team, dst, src, count);
    if (kWhat == kReducescatter) nvshmemx_int32_sum_reducescatter_block(team, dst, src, count);
  }
}
template <Collective kWhat, Scope kScope>
__global__ void __launch_bounds__(1024) collectives(Buffers b, size_t count, int iterations) {
  long long start = 0;
  for (int i = -kWarmup; i < iterations; ++i) {
    if (i == 0) start = clock64();
    collective<kWhat, kScope>(b, count);
  }
  if (threadIdx.x == 0) b.clocks[0] = clock64() - start;
}

class Bench {
 public:
  Bench(int me, int n, const char* only, Buffers b) : me_(me), n_(n), only_(only), b_(b) {
    int khz = 0;
    CHECK_CUDA(cudaDeviceGetAttribute(&khz, cudaDevAttrClockRate, 0));
    clocks_per_us_ = khz / 1000.0;
    CHECK_CUDA(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking));
    CHECK_CUDA(cudaEventCreate(&begin_));
    CHECK_CUDA(cudaEventCreate(&end_));
  }

  /// Returns the median of `kRepeats` launches on the first `ranks` ranks. The others wait for them
  /// in the barrier.
  template <class Launch>
  void clocks(const std::string& name, int iterations, int ranks, const Launch& launch) {
    if (!is_wanted(name)) return;
    std::vector<double> us;
    for (int r = 0; r < kRepeats; ++r) {
      reset();
      if (me_ < ranks) {
        launch(stream_);
        CHECK_CUDA(cudaGetLastError());
        CHECK_CUDA(cudaStreamSynchronize(stream_));
        long long clocks = 0;
        CHECK_CUDA(cudaMemcpy(&clocks, b_.clocks, sizeof(clocks), cudaMemcpyDeviceToHost));
        us.push_back(clocks / clocks_per_us_ / iterations);
      }
      nvshmem_barrier_all();
    }
    print(name, us);
  }

  template <class Launch>
  void bandwidth(const std::string& name, size_t bytes, int launches, const Launch& launch) {
    if (!is_wanted(name)) return;
    std::vector<double> us;
    for (int r = 0; r < kRepeats; ++r) {
      reset();
      if (me_ == 0) {
        launch(stream_);
        CHECK_CUDA(cudaEventRecord(begin_, stream_));
        for (int i = 0; i < launches; ++i) launch(stream_);
        CHECK_CUDA(cudaEventRecord(end_, stream_));
        CHECK_CUDA(cudaGetLastError());
        CHECK_CUDA(cudaStreamSynchronize(stream_));
        float ms = 0;
        CHECK_CUDA(cudaEventElapsedTime(&ms, begin_, end_));
        us.push_back(ms * 1000.0 / launches);
      }
      nvshmem_barrier_all();
    }
    if (me_ == 0) {
      std::sort(us.begin(), us.end());
      std::printf("%s,%.1f\n", name.c_str(), static_cast<double>(bytes) / us[us.size() / 2] / 1e3);
    }
  }

  /// Fills the sources with a pattern of this rank and the destination with other data.
  void reset() {
    ++round_;
    std::vector<unsigned char> pattern(kChecked);
    for (size_t i = 0; i < kChecked; ++i) pattern[i] = byte(me_, i);
    CHECK_CUDA(cudaMemcpy(b_.src, pattern.data(), kChecked, cudaMemcpyHostToDevice));
    CHECK_CUDA(cudaMemset(b_.dst, 0xee, kChecked));
    CHECK_CUDA(cudaMemset(b_.signal, 0, kSignalBytes));
    CHECK_CUDA(cudaDeviceSynchronize());
    nvshmem_barrier_all();
  }

  /// Checks that the first bytes (up to kChecked) of `dst` are those of rank `from`'s source.
  void check(const std::string& name, int on_rank, int from, size_t bytes) {
    if (!is_wanted(name)) return;
    if (me_ == on_rank) {
      const size_t n = std::min(bytes, kChecked);
      std::vector<unsigned char> got(n);
      CHECK_CUDA(cudaMemcpy(got.data(), b_.dst, n, cudaMemcpyDeviceToHost));
      for (size_t i = 0; i < n; ++i) {
        if (got[i] == byte(from, i)) continue;
        std::fprintf(stderr, "%s: byte %zu is %u, not %u\n", name.c_str(), i, got[i],
                     byte(from, i));
        std::exit(1);
      }
    }
    nvshmem_barrier_all();
  }

  /// On all ranks: checks that `dst` has the result of the collective.
  void check(const std::string& name, Collective what, size_t count) {
    if (!is_wanted(name)) return;
    const size_t mine = static_cast<size_t>(me_) * count;
    const bool has_parts = what == kAlltoall || what == kFcollect;
    std::vector<int> got(has_parts ? count * static_cast<size_t>(n_) : count);
    CHECK_CUDA(cudaMemcpy(got.data(), b_.dst, got.size() * 4, cudaMemcpyDeviceToHost));
    for (size_t i = 0; i < got.size(); ++i) {
      unsigned expected = 0;
      if (has_parts) {
        expected = word(static_cast<int>(i / count), i % count + (what == kAlltoall ? mine : 0));
      } else if (what == kBroadcast) {
        expected = word(0, i);
      } else {
        for (int rank = 0; rank < n_; ++rank)
          expected += word(rank, i + (what == kReducescatter ? mine : 0));
      }
      if (static_cast<unsigned>(got[i]) == expected) continue;
      std::fprintf(stderr, "%s: element %zu is %u, not %u\n", name.c_str(), i,
                   static_cast<unsigned>(got[i]), expected);
      std::exit(1);
    }
    nvshmem_barrier_all();
  }
  [[nodiscard]] int ranks() const { return n_; }
  [[nodiscard]] bool is_wanted(const std::string& name) const {
    return name.find(only_) != std::string::npos;
  }

  static constexpr size_t kChecked = 2 << 20;

 private:
  unsigned word(int rank, size_t i) const {
    unsigned value = 0;
    for (size_t k = 4; k-- > 0;) value = value << 8 | byte(rank, i * 4 + k);
    return value;
  }
  static constexpr int kRepeats = 5;
  unsigned char byte(int rank, size_t i) const {
    return static_cast<unsigned char>(i * 7 + i / 251 + static_cast<size_t>(rank) * 101 +
                                      round_ * 13);
  }
  void print(const std::string& name, std::vector<double>& us) {
    if (me_ != 0) return;
    std::sort(us.begin(), us.end());
    std::printf("%s,%.3f\n", name.c_str(), us[us.size() / 2]);
    std::fflush(stdout);
  }

  int me_, n_;
  std::string only_;
  Buffers b_;
  size_t round_ = 0;
  double clocks_per_us_ = 0;
  cudaStream_t stream_ = nullptr;
  cudaEvent_t begin_ = nullptr, end_ = nullptr;
};

template <Scope kScope>
void put_and_get(Bench& bench, Buffers b, const char* scope, int threads,
                 std::vector<size_t> sizes) {
  for (const size_t bytes : sizes) {
    const int iterations = bytes > 100000 ? 50 : 200;
    std::string name = std::string("put+quiet ") + scope + " " + std::to_string(bytes);
    bench.clocks(name, iterations, 1, [&](cudaStream_t s) {
      put_quiet<kScope><<<1, threads, 0, s>>>(b, bytes, iterations);
    });
    bench.check(name, kPeer, 0, bytes);
    name = std::string("get ") + scope + " " + std::to_string(bytes);
    bench.clocks(name, iterations, 1,
                 [&](cudaStream_t s) { get<kScope><<<1, threads, 0, s>>>(b, bytes, iterations); });
    bench.check(name, 0, kPeer, bytes);
  }
}

template <Collective kWhat, Scope kScope>
void collectives_of(Bench& bench, Buffers b, const char* scope, int threads,
                    std::vector<size_t> sizes) {
  for (const size_t bytes : sizes) {
    if (bytes * static_cast<size_t>(bench.ranks()) > Bench::kChecked) continue;
    const int iterations = bytes > 100000 ? 20 : 200;
    const std::string name =
        std::string(kCollectives[kWhat]) + " " + scope + " " + std::to_string(bytes);
    bench.clocks(name, iterations, bench.ranks(), [&](cudaStream_t s) {
      collectives<kWhat, kScope><<<1, threads, 0, s>>>(b, bytes / 4, iterations);
    });
    bench.check(name, kWhat, bytes / 4);
  }
}
template <Collective kWhat>
void collectives_of(Bench& bench, Buffers b) {
  collectives_of<kWhat, kThread>(bench, b, "thread", 1, {8, 512});
  collectives_of<kWhat, kWarp>(bench, b, "warp", 32, {8, 4096});
  collectives_of<kWhat, kBlock>(bench, b, "block", 512, {8, 512, 4096, 32768, 262144, 1 << 20});
}

void join(int rank, int size, const char* file) {
  nvshmemx_uniqueid_t id = NVSHMEMX_UNIQUEID_INITIALIZER;
  const std::string ready = std::string(file) + ".ready";
  if (rank == 0) {
    nvshmemx_get_uniqueid(&id);
    FILE* f = std::fopen(file, "wb");
    if (!f || std::fwrite(&id, sizeof(id), 1, f) != 1) std::exit(1);
    std::fclose(f);
    std::rename(file, ready.c_str());
  }
  while (access(ready.c_str(), R_OK) != 0) usleep(1000);
  FILE* f = std::fopen(ready.c_str(), "rb");
  if (!f || std::fread(&id, sizeof(id), 1, f) != 1) std::exit(1);
  std::fclose(f);
  nvshmemx_init_attr_t attr = NVSHMEMX_INIT_ATTR_INITIALIZER;
  nvshmemx_set_attr_uniqueid_args(rank, size, &id, &attr);
  if (nvshmemx_init_attr(NVSHMEMX_INIT_WITH_UNIQUEID, &attr) != 0) std::exit(1);
}

int main(int argc, char** argv) {
  if (argc != 4 && argc != 5) {
    std::fprintf(stderr, "usage: same_source RANK SIZE ID_FILE [ROWS]\n");
    return 2;
  }
  const int me = std::atoi(argv[1]), n = std::atoi(argv[2]);
  int gpus = 0;
  CHECK_CUDA(cudaGetDeviceCount(&gpus));
  CHECK_CUDA(cudaSetDevice(me % gpus));
  CHECK_CUDA(cudaFree(nullptr));
  join(me, n, argv[3]);
  constexpr size_t kBytes = 64 << 20;
  Buffers b{};
  b.dst = static_cast<char*>(nvshmem_malloc(kBytes));
  b.src = static_cast<char*>(nvshmem_malloc(kBytes));
  b.signal = static_cast<uint64_t*>(nvshmem_malloc(kSignalBytes));
  CHECK_CUDA(cudaMalloc(&b.clocks, 64));
  Bench bench(me, n, argc == 5 ? argv[4] : "", b);

  put_and_get<kThread>(bench, b, "thread", 1, {8, 512, 4096, 32768});
  put_and_get<kWarp>(bench, b, "warp", 32, {8, 4096, 32768, 262144});
  put_and_get<kBlock>(bench, b, "block", 1024, {8, 32768, 262144});
  for (const int blocks : {1, 4, 8, 9, 16, 32}) {
    const size_t bytes = blocks == 1 ? 16 << 20 : kBytes;
    std::string name = "put GB/s " + std::to_string(blocks) + " blocks";
    bench.bandwidth(name, bytes, 10,
                    [&](cudaStream_t s) { put_blocks<<<blocks, 1024, 0, s>>>(b, bytes); });
    bench.check(name, kPeer, 0, bytes / blocks);
    name = "get GB/s " + std::to_string(blocks) + " blocks";
    bench.bandwidth(name, bytes, 10,
                    [&](cudaStream_t s) { get_blocks<<<blocks, 1024, 0, s>>>(b, bytes); });
    bench.check(name, 0, kPeer, bytes / blocks);
  }
  constexpr size_t kElements = (4 << 20) / sizeof(double);
  bench.bandwidth("p GB/s 4 MiB", 4 << 20, 20,
                  [&](cudaStream_t s) { p_elements<<<64, 1024, 0, s>>>(b, kElements); });
  bench.check("p GB/s 4 MiB", kPeer, 0, 4 << 20);
  bench.bandwidth("g GB/s 4 MiB", 4 << 20, 20,
                  [&](cudaStream_t s) { g_elements<<<64, 1024, 0, s>>>(b, kElements); });
  bench.check("g GB/s 4 MiB", 0, kPeer, 4 << 20);
  bench.clocks("fetch_add", 500, 1, [&](cudaStream_t s) { fetch_add<<<1, 1, 0, s>>>(b, 500); });
  bench.clocks("g dependent", 500, 1, [&](cudaStream_t s) { dependent_g<<<1, 1, 0, s>>>(b, 500); });
  bench.clocks("signal round trip", 500, 2,
               [&](cudaStream_t s) { signal_ping_pong<<<1, 1, 0, s>>>(b, 500, me); });
  bench.clocks("put_signal 8 round trip", 500, 2,
               [&](cudaStream_t s) { put_signal_ping_pong<<<1, 1, 0, s>>>(b, 500, me); });
  bench.check("put_signal 8 round trip", kPeer, 0, 8);
  bench.clocks("sync thread", 500, bench.ranks(),
               [&](cudaStream_t s) { meet<kSync, kThread><<<1, 1, 0, s>>>(b, 500); });
  bench.clocks("sync block", 500, bench.ranks(),
               [&](cudaStream_t s) { meet<kSync, kBlock><<<1, 1024, 0, s>>>(b, 500); });
  bench.clocks("team_sync thread", 500, bench.ranks(),
               [&](cudaStream_t s) { meet<kTeamSync, kThread><<<1, 1, 0, s>>>(b, 500); });
  bench.clocks("team_sync block", 500, bench.ranks(),
               [&](cudaStream_t s) { meet<kTeamSync, kBlock><<<1, 1024, 0, s>>>(b, 500); });
  bench.clocks("barrier thread", 500, bench.ranks(),
               [&](cudaStream_t s) { meet<kBarrier, kThread><<<1, 1, 0, s>>>(b, 500); });
  bench.clocks("barrier block", 500, bench.ranks(),
               [&](cudaStream_t s) { meet<kBarrier, kBlock><<<1, 1024, 0, s>>>(b, 500); });
  collectives_of<kAlltoall>(bench, b);
  collectives_of<kBroadcast>(bench, b);
  collectives_of<kFcollect>(bench, b);
  collectives_of<kReduce>(bench, b);
  collectives_of<kReducescatter>(bench, b);
  nvshmem_free(b.dst);
  nvshmem_free(b.src);
  nvshmem_free(b.signal);
  nvshmem_finalize();
  return 0;
}
