#include "perftest/common/bench.h"

#include "perftest/common/gpu.h"

#include <sys/resource.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <set>

namespace perftest {
namespace {

/// Both clocks (device::now_ns) are read once before and once after all iterations. The GPU's
/// global timer may advance in steps of up to 1.024 us, so a measurement is wrong by one step at
/// most.
constexpr double kGpuClockStepUs = 1.1, kHostClockStepUs = 0.1;

/// The duration of one measurement: long compared with the clock's step, and so short that a whole
/// table takes seconds.
constexpr double kGpuTargetUs = 3000, kHostTargetUs = 3000;
constexpr unsigned kLeastIters = 10, kMostIters = 20000;

double cpu_time_us() {
  rusage used{};
  (void)getrusage(RUSAGE_SELF, &used);
  const auto us = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) * 1e6 + static_cast<double>(time.tv_usec);
  };
  return us(used.ru_utime) + us(used.ru_stime);
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const std::size_t half = values.size() / 2;
  return values.size() % 2 ? values[half] : (values[half - 1] + values[half]) / 2;
}

/// Fills the gaps between elements. If the poison in a gap is untouched, it is replaced by the
/// pattern, otherwise by a value that differs from the pattern.
void fill_gaps(std::vector<std::byte>& image, std::size_t bytes, Exchange::Elements elements,
               const PatternKey& key) {
  std::vector<std::byte> wanted(bytes);
  fill_pattern(wanted, key);
  for (std::size_t at = 0; at < bytes; ++at) {
    if (at / elements.bytes % elements.stride == 0) continue;
    image[at] = image[at] == kPoison ? wanted[at] : ~wanted[at];
  }
}

}  // namespace

Role role_of(const Options& options, int my_pe, int n_pes) {
  if (n_pes == 1) return {0, 0};
  if (options.pattern == "ring") return {(my_pe + 1) % n_pes, (my_pe + n_pes - 1) % n_pes};
  const int half = n_pes / 2;
  if (my_pe >= 2 * half) return {};
  const int partner = my_pe < half ? my_pe + half : my_pe - half;
  if (options.bidir) return {partner, partner};
  return my_pe < half ? Role{partner, -1} : Role{-1, partner};
}

Bench::Bench(gshmem::Runtime& runtime, const Options& options)
    : options_(options),
      my_pe_(runtime.my_pe()),
      n_pes_(runtime.n_pes()),
      on_gpu_(runtime.on_gpu()),
      board_(static_cast<std::size_t>(n_pes_)),
      stamps_(2 * std::max<std::size_t>(options.ctas, 1)),
      path_(find_path()) {}

Path Bench::find_path() {
  if (gshmem_team_n_pes(GSHMEM_TEAM_SHARED) < n_pes_) return Path::kNetwork;
  if (!on_gpu_) return Path::kHost;
  const std::vector<double> gpus = gather(static_cast<double>(gpu_identity()));
  const bool shared = std::set<double>(gpus.begin(), gpus.end()).size() < gpus.size();
  return shared || n_pes_ == 1 ? Path::kSameGpu : Path::kPeerGpu;
}

gshmem::LaunchShape Bench::full_shape(const std::string& scope) const {
  const unsigned warp = on_gpu_ ? 32 : static_cast<unsigned>(gshmem::device::kHostWarpSize);
  const unsigned threads = options_.threads_per_cta;
  const auto refuse = [&](const std::string& accepted) {
    throw UsageError("--threads_per_cta: " + not_accepted(std::to_string(threads), accepted));
  };
  if (scope == "warp" && threads > warp && threads % warp != 0) {
    refuse("multiples of a warp, " + std::to_string(warp));
  }
  if (on_gpu_ && threads > 1024) refuse("1 to 1024 on GPUs");
  return {.blocks = options_.ctas, .threads = scope == "warp" ? std::max(threads, warp) : threads};
}

gshmem::LaunchShape Bench::shape_of(const std::string& scope) const {
  if (scope == "thread") return {.blocks = 1, .threads = 1};
  if (scope == "warp") {
    return {.blocks = 1,
            .threads = on_gpu_ ? 32 : static_cast<unsigned>(gshmem::device::kHostWarpSize)};
  }
  return {.blocks = 1, .threads = full_shape(scope).threads};
}

std::vector<double> Bench::gather(double mine) {
  for (int pe = 0; pe < n_pes_; ++pe) {
    board_.write(std::span(&mine, 1), pe, static_cast<std::size_t>(my_pe_));
  }
  barrier();
  std::vector<double> all = board_.to_vector(my_pe_);
  barrier();
  return all;
}

void Bench::agree(const std::string& problem) {
  if (!problem.empty()) std::fprintf(stderr, "PE %d: %s\n", my_pe_, problem.c_str());
  for (const double failed : gather(problem.empty() ? 0 : 1)) {
    if (failed != 0) throw Failed{1};
  }
}

std::uint64_t Bench::take_iterations(std::uint64_t count) {
  const std::uint64_t first = next_iteration_;
  next_iteration_ += count;
  return first;
}

unsigned Bench::choose_iters(const Run& run) {
  if (options_.iters) return options_.iters;
  const unsigned probe = std::max(options_.warmup_iters, 1u);
  const double ns = run(take_iterations(2 * probe), probe, probe);
  const std::vector<double> all = gather(ns);
  const double slowest_us = *std::max_element(all.begin(), all.end()) * 1e-3 / probe;
  const double fit = (on_gpu_ ? kGpuTargetUs : kHostTargetUs) / std::max(slowest_us, 1e-3);
  return static_cast<unsigned>(std::clamp(fit, double{kLeastIters}, double{kMostIters}));
}

/// PEs that are threads share one process, whose time is that of them all.
double Bench::cpu_of_all_us(double mine_us) {
  if (path_ != Path::kNetwork) return 0;
  const std::vector<double> all = gather(mine_us);
  return options_.pes ? all[0] : std::accumulate(all.begin(), all.end(), 0.0);
}

Measurement Bench::repeat(const Run& run) {
  Measurement result;
  result.iters = choose_iters(run);
  std::vector<double> means, cpu;
  for (unsigned repetition = 0; repetition < options_.repetitions; ++repetition) {
    const unsigned warmup = options_.warmup_iters;
    const double cpu_begin = cpu_time_us();
    double ns = run(take_iterations(warmup + result.iters), warmup, result.iters);
    cpu.push_back(cpu_of_all_us((cpu_time_us() - cpu_begin) / (warmup + result.iters)));
    if (options_.inject_fast_clock && ns != 0) ns = 1e-3;
    double sum = 0;
    result.active_pes = 0;
    for (const double other_ns : gather(ns)) {
      if (other_ns == 0) continue;
      const double us = other_ns * 1e-3 / result.iters;
      result.fastest_us = result.fastest_us == 0 ? us : std::min(result.fastest_us, us);
      sum += us;
      ++result.active_pes;
    }
    means.push_back(result.active_pes ? sum / result.active_pes : 0);
  }
  result.min_us = *std::min_element(means.begin(), means.end());
  result.median_us = median(means);
  result.cpu_us = median(cpu);
  return result;
}

void Bench::add_row(Row row, const Measurement& measured, Trip trip, std::size_t wire_bytes) {
  row.min_us = measured.min_us;
  row.median_us = measured.median_us;
  row.iters = measured.iters;
  row.senders = measured.active_pes;
  row.cpu_us = measured.cpu_us;
  const double step = on_gpu_ ? kGpuClockStepUs : kHostClockStepUs;
  const Claim claim{.path = path_,
                    .trip = trip,
                    .us = measured.fastest_us,
                    .clock_error_us = step / std::max(measured.iters, 1u),
                    .bytes = wire_bytes,
                    .senders = row.blocks * row.threads};
  row.floor_us = floor_us(claim);
  const auto problem = below_floor(claim);
  // The measurement is the same on all PEs, so all of them end here with the same result.
  if (problem) {
    if (report_) std::fprintf(stderr, "%s %s\n", row.name.c_str(), problem->c_str());
    throw Failed{1};
  }
  if (report_) report_->add(row);
}

void Bench::add_summary(const std::string& key, const std::string& text) {
  if (report_) report_->add_summary(key, text);
}

double Bench::elapsed_ns(unsigned blocks) const {
  std::vector<std::uint64_t> times(2 * std::size_t{blocks});
  stamps_.read(times, my_pe_);
  std::uint64_t start = times[0], end = times[1];
  for (std::size_t i = 0; i < times.size(); i += 2) {
    start = std::min(start, times[i]);
    end = std::max(end, times[i + 1]);
  }
  // Returns one tick if the clock did not advance: 0 means "took no part".
  return std::max(static_cast<double>(end - start), 1.0);
}

Exchange::Exchange(Bench& bench, std::size_t max_bytes)
    : bench_(bench), source_(max_bytes + kGuardBytes), dest_(max_bytes + kGuardBytes) {}

PatternKey Exchange::key(std::size_t bytes, int pe) const {
  return {.size = bytes, .round = round_, .pe = pe};
}

void Exchange::prepare(std::size_t bytes, std::size_t source_bytes) {
  ++round_;
  std::vector<std::byte> image(std::max(bytes + kGuardBytes, source_bytes), kPoison);
  dest_.write(std::span(image).first(bytes + kGuardBytes), bench_.my_pe());
  image.resize(source_bytes);
  fill_pattern(image, key(bytes, bench_.my_pe()));
  source_.write(image, bench_.my_pe());
  bench_.barrier();
}

void Exchange::check(std::size_t bytes, int from, Elements elements) {
  bench_.barrier();
  std::string problem;
  if (from >= 0) {
    std::vector<std::byte> image(bytes + kGuardBytes);
    dest_.read(image, bench_.my_pe());
    if (bench_.options().inject_corruption) image[0] ^= std::byte{0x10};
    if (elements.stride > 1) fill_gaps(image, bytes, elements, key(bytes, from));
    if (const auto wrong = find_mismatch(image, bytes, key(bytes, from))) {
      problem = "FAIL: wrong data: " + *wrong;
    }
  }
  bench_.agree(problem);
}

}  // namespace perftest
