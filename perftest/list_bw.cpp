// Bandwidth of lists of pieces (gshmemx_putv, gshmemx_getv): on a stream by the copy engine and by
// a few blocks, by a host thread, and by the blocks of a kernel. Pieces are in shuffled order, so
// that no two neighbours in a list are adjacent in memory. The first row is one large put on a
// stream, with which summaries compare the others. Summaries also have the time until a call
// returns in an idle stream, the shortest of all repetitions. In CPU mode there are no streams, and
// fewer pieces.
#include "perftest/common/gpu.h"
#include "perftest/common/run.h"

#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace perftest {
namespace {

constexpr int kBlocksOfKernel = 8, kBlocksOfStreams[] = {0, 2, 8};
constexpr std::size_t kLargeOnGpu = 64 << 20, kLargeOnCpu = 1 << 20;

/// Each block moves a part of the list.
struct MovePart {
  GSHMEM_FN void operator()(const gshmem::LaunchContext& ctx, const gshmemx_piece_t* list,
                            std::size_t count, int pe, bool gets) const {
    const std::size_t blocks = static_cast<std::size_t>(ctx.grid_size());
    const std::size_t mine = static_cast<std::size_t>(ctx.block_rank());
    const std::size_t first = count * mine / blocks, end = count * (mine + 1) / blocks;
    if (gets) {
      ctx.getv_nbi(ctx.block(), list + first, end - first, pe);
    } else {
      ctx.putv_nbi(ctx.block(), list + first, end - first, pe);
    }
  }
};

class Lists {
 public:
  Lists(Bench& bench, std::size_t count, std::size_t bytes, Exchange& exchange)
      : bench_(bench),
        count_(count),
        bytes_(bytes),
        exchange_(exchange),
        list_(make_list(count, bytes, exchange)),
        symmetric_(count),
        stream_(gpu_stream(bench.on_gpu())) {
    symmetric_.write(list_, bench.my_pe());
  }

  void measure_stream(bool gets, int num_blocks) {
    const auto call = gets ? gshmemx_getv_nbi_on_stream : gshmemx_putv_nbi_on_stream;
    measure(gets, num_blocks == 0 ? "copies" : "stream", std::max(num_blocks, 1),
            [&] { call(list_.data(), count_, pe(), num_blocks, stream_.get()); });
  }
  void measure_host(bool gets) {
    measure(gets, "host", 1, [&] {
      if (gets) {
        gshmemx_getv_nbi(list_.data(), count_, pe());
      } else {
        gshmemx_putv_nbi(list_.data(), count_, pe());
      }
    });
  }
  void measure_kernel(bool gets) {
    const gshmem::LaunchShape shape{.blocks = kBlocksOfKernel,
                                    .threads = bench_.on_gpu() ? 1024u : 1u,
                                    .stream = stream_.get()};
    measure(gets, "kernel", kBlocksOfKernel,
            [&] { gshmem::launch(shape, MovePart{}, symmetric_.data(), count_, pe(), gets); });
  }
  /// Returns the bandwidth of one large put on a stream.
  double measure_large(std::size_t bytes) {
    return measure_calls("put", bytes, 1, "copies", 1, false, [&] {
      gshmemx_putmem_nbi_on_stream(exchange_.dest(), exchange_.source(), bytes, pe(),
                                   stream_.get());
    });
  }
  void set_reference(double us_per_byte) { reference_ = us_per_byte; }

 private:
  static std::vector<gshmemx_piece_t> make_list(std::size_t count, std::size_t bytes,
                                                const Exchange& exchange) {
    std::vector<gshmemx_piece_t> list(count);
    for (std::size_t i = 0; i < count; ++i)
      list[i] = {exchange.dest() + i * bytes, exchange.source() + i * bytes, bytes};
    std::uint64_t random = 0x9e3779b97f4a7c15;  // an LCG, the same in each run
    for (std::size_t i = count; i > 1; --i) {
      random = random * 6364136223846793005 + 1442695040888963407;
      std::swap(list[i - 1], list[(random >> 33) % i]);
    }
    return list;
  }
  [[nodiscard]] int pe() const { return bench_.role().target; }

  template <class Call>
  void measure(bool gets, const std::string& scope, int blocks, const Call& call) {
    const std::string name = gets ? "getv" : "putv";
    const double us_per_byte = measure_calls(name, bytes_, count_, scope, blocks, gets, call);
    const double call_us = bench_.gather(shortest_call_us_)[0];
    if (us_per_byte == 0 || reference_ == 0) return;
    const std::string key = name + " " + std::to_string(bytes_) + " B, " + scope +
                            (scope == "stream" ? " of " + std::to_string(blocks) + " blocks" : "");
    bench_.add_summary(key, std::to_string(static_cast<int>(100 * reference_ / us_per_byte + 0.5)) +
                                " % of the large put, " +
                                std::to_string(static_cast<int>(call_us + 0.5)) +
                                " us until a call returns");
  }
  /// Returns microseconds per byte.
  template <class Call>
  double measure_calls(const std::string& name, std::size_t bytes, std::size_t count,
                       const std::string& scope, int blocks, bool gets, const Call& call) {
    exchange_.prepare(bytes * count);
    shortest_call_us_ = 0;
    const Measurement measured =
        bench_.repeat([&](std::uint64_t, unsigned warmup, unsigned iters) -> double {
          if (!bench_.role().is_active()) return 0;
          for (unsigned i = 0; i < warmup; ++i) call();
          finish();
          const std::uint64_t start = gshmem::device::now_ns();
          for (unsigned i = 0; i < iters; ++i) {
            call();
            if (i == 0) note_call(static_cast<double>(gshmem::device::now_ns() - start) / 1000);
          }
          finish();
          return static_cast<double>(gshmem::device::now_ns() - start);
        });
    exchange_.check(bytes * count, gets ? bench_.role().target : bench_.role().source);
    bench_.add_row({.name = name,
                    .size = bytes,
                    .scope = scope,
                    .blocks = static_cast<unsigned>(blocks),
                    .bytes = bytes * count,
                    .operations = count},
                   measured, Trip::kStream, bytes * count);
    return measured.median_us / static_cast<double>(bytes * count);
  }
  void note_call(double us) {
    shortest_call_us_ = shortest_call_us_ == 0 ? us : std::min(shortest_call_us_, us);
  }
  void finish() {
    gshmemx_quiet_on_stream(stream_.get());
    gshmem::synchronize(stream_.get());
    gshmem_quiet();
  }

  Bench& bench_;
  std::size_t count_, bytes_;
  Exchange& exchange_;
  std::vector<gshmemx_piece_t> list_;
  gshmem::SymmetricArray<gshmemx_piece_t> symmetric_;
  Stream stream_;
  double reference_ = 0, shortest_call_us_ = 0;
};

void run(Bench& bench) {
  const std::size_t count = bench.options().pieces;
  const std::size_t large = bench.on_gpu() ? kLargeOnGpu : kLargeOnCpu;
  const std::vector<std::size_t> sizes = sizes_of(bench.options(), 16);
  Exchange exchange(bench, std::max(large, count * sizes.back()));
  double reference = 0;
  for (const std::size_t bytes : sizes) {
    Lists lists(bench, count, bytes, exchange);
    if (reference == 0) reference = lists.measure_large(large);
    lists.set_reference(reference);
    for (const bool gets : {false, true}) {
      for (const int num_blocks : kBlocksOfStreams) lists.measure_stream(gets, num_blocks);
      lists.measure_kernel(gets);
      lists.measure_host(gets);
    }
  }
}

}  // namespace
}  // namespace perftest

int main(int argc, char** argv) {
  using namespace perftest;
  const Program program{
      .name = "list_bw",
      .summary = "bandwidth of lists of pieces",
      .groups = kSizes | kBandwidth | kPattern | kList,
      .shows = Shows::kBandwidth,
      .gpu = {.min_size = 4096, .max_size = 46080, .increment = 46080 - 4096, .pieces = 10000},
      .cpu = {.min_size = 4096, .max_size = 46080, .increment = 46080 - 4096, .pieces = 50},
      .run = run};
  return run_program(program, argc, argv);
}
