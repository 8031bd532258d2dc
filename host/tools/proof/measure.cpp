#include "host/tools/proof/measure.h"

#include "host/base/error.h"
#include "host/control/host_group.h"
#include "host/runtime/execute.h"
#include "host/runtime/pe.h"
#include "transport/nic/model_time.h"

#include <sys/resource.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <numeric>
#include <thread>

namespace gshmem::proof {
namespace {

using device::Call, device::CallKind;

constexpr char kName[] = "gshmem-info --gdr-proof";
constexpr int kPair = 2;
/// All pairs send so many bytes that small differences between their starts do not matter.
constexpr std::uint64_t kLonger = 4, kPairBytes = 4u << 20;

/// A view of the launcher's bootstrap, for one job of several.
class Borrowed final : public bootstrap::Bootstrap {
 public:
  explicit Borrowed(Bootstrap& base) : base_(base) {}
  [[nodiscard]] int rank() const noexcept override { return base_.rank(); }
  [[nodiscard]] int size() const noexcept override { return base_.size(); }
  [[nodiscard]] const char* name() const noexcept override { return base_.name(); }
  void allgather(const void* send, void* recv, std::size_t bytes) override {
    base_.allgather(send, recv, bytes);
  }
  void on_lost(std::function<void(const std::string& why)> lost) override {
    base_.on_lost(std::move(lost));
  }
  void abort(int code, std::string_view reason) noexcept override { base_.abort(code, reason); }

 private:
  Bootstrap& base_;
};

struct Stamp {
  double seconds = 0, cpu_seconds = 0;
};
/// The time of one PE in a measurement by all.
using Share = Stamp;

/// Thrown when another PE has reported that it failed.
struct OtherFailed : Error {
  OtherFailed() : Error(GSHMEMX_ERROR_INTERNAL, "another PE has failed") {}
};
/// Returns on no PE before every PE has called it.
void await_all(Pe& pe) {
  if (pe.agree_status(kName, 0) != 0) throw OtherFailed();
}

double cpu_seconds() {
  rusage used{};
  check_errno(getrusage(RUSAGE_SELF, &used), "getrusage");
  const auto seconds = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + 1e-6 * static_cast<double>(time.tv_usec);
  };
  return seconds(used.ru_utime) + seconds(used.ru_stime);
}

/// A PE of a job, which sends to PE `target`; to none if that is -1.
class Sender {
 public:
  Sender(Pe& pe, void* source, void* dest, int target, int blocks)
      : pe_(pe),
        source_(source),
        dest_(dest),
        target_(target),
        blocks_(blocks),
        modelled_(nic::model_time(pe.config().nic).has_value()) {}

  [[nodiscard]] bool modelled() const { return modelled_; }
  [[nodiscard]] bool on_gpu() const { return pe_.gpu() != nullptr; }

  /// Fills the figures of the series for one repeat.
  void measure(const Plan& plan, const Series& series, Figures& figures) {
    switch (series.quantity) {
      case Quantity::kLatency:
        figures.values.push_back(latency_us(series.caller, series.bytes, plan.calls));
        break;
      case Quantity::kBandwidth: {
        const std::uint64_t most = plan.volume / series.bytes;
        const auto count = static_cast<unsigned>(std::clamp<std::uint64_t>(most, 1, 1024));
        const Stamp took = stream(series.caller, series.bytes, count, blocks_);
        const double gigabytes = static_cast<double>(series.bytes) * count * 1e-9;
        figures.values.push_back(gigabytes / took.seconds);
        figures.cpu.push_back(took.cpu_seconds / gigabytes);
        break;
      }
      case Quantity::kRate: {
        const Stamp took = stream(series.caller, series.bytes, plan.messages, 0);
        figures.values.push_back(plan.messages * 1e-6 / took.seconds);
        figures.cpu.push_back(took.cpu_seconds / (plan.messages * 1e-6));
        break;
      }
      case Quantity::kLoad:
        figures.values.push_back(load_us(plan.calls));
        break;
      case Quantity::kStore:
        figures.values.push_back(latency_us(Caller::kHost, series.bytes, plan.calls));
        break;
      case Quantity::kOnePair:
      case Quantity::kAllPairs:
        break;  // take_share
    }
  }

  /// Collective. Sends `count` messages if it `sends`, while other PEs may send, too. When the time
  /// of a model is read, nothing is pending at both ends.
  Share take_share(const Series& series, unsigned count, bool sends) {
    if (sends) (void)stream(series.caller, series.bytes, 1, blocks_);
    await_all(pe_);
    const Stamp quiet = now();
    await_all(pe_);
    const Stamp begin = modelled_ ? quiet : now();
    double seconds = 0;
    if (sends) {
      seconds = run_stream(series.caller, series.bytes, count, blocks_);
      if (series.caller == Caller::kHost && !modelled_) seconds = now().seconds - begin.seconds;
    }
    await_all(pe_);
    const Stamp end = now();
    if (sends && modelled_) seconds = end.seconds - begin.seconds;
    return {seconds, end.cpu_seconds - begin.cpu_seconds};
  }

 private:
  [[nodiscard]] Stamp now() const {
    if (modelled_) {
      const nic::ModelTime time = nic::model_time(pe_.config().nic).value();
      return {time.seconds, time.cpu_seconds};
    }
    const auto time = std::chrono::steady_clock::now().time_since_epoch();
    return {std::chrono::duration<double>(time).count(), cpu_seconds()};
  }
  std::uint64_t run(const Call& call) {
    const std::uint64_t answer = on_gpu()
                                     ? pe_.ops()->run(call)
                                     : device::execute(device::Thread{}, pe_.state(), kName, call);
    gshmemx_fault_t fault{};
    if (pe_.faults().last(&fault)) throw Error(GSHMEMX_ERROR_NIC, fault.message);
    return answer;
  }
  [[nodiscard]] Call put_of(std::size_t bytes) const {
    return Call::transfer(CallKind::kPut, kName, dest_, source_, bytes, target_, false);
  }
  /// Measures on the GPU. One thread of a kernel makes all calls, or blocks of threads make each
  /// call together (host/runtime/execute_selftest.h, execute_timed and execute_timed_in_parts).
  double seconds_on_gpu(std::size_t bytes, unsigned count, bool each_waits, int blocks) {
    Call call = put_of(bytes);
    call.blocks = blocks;
    call.kind = CallKind::kTimed;
    call.cond = static_cast<std::uint64_t>(CallKind::kPut);
    call.operand = count;
    call.waits = each_waits ? 1 : 0;
    return static_cast<double>(run(call)) * 1e-9;
  }

  double latency_us(Caller caller, std::size_t bytes, unsigned calls) {
    const auto once = [&] {
      run(put_of(bytes));
      run(Call::quiet(kName));
    };
    if (caller == Caller::kGpu) {
      (void)seconds_on_gpu(bytes, 1, true, 0);
      return seconds_on_gpu(bytes, calls, true, 0) * 1e6 / calls;
    }
    once();
    const Stamp begin = now();
    for (unsigned i = 0; i < calls; ++i) {
      once();
      if (modelled_) (void)now();  // the model has waited for this one, too
    }
    return (now().seconds - begin.seconds) * 1e6 / calls;
  }

  /// Returns the seconds on the GPU.
  double run_stream(Caller caller, std::size_t bytes, unsigned count, int blocks) {
    if (caller == Caller::kGpu) return seconds_on_gpu(bytes, count, false, blocks);
    for (unsigned i = 0; i < count; ++i) run(put_of(bytes));
    run(Call::quiet(kName));
    return 0;
  }
  Stamp stream(Caller caller, std::size_t bytes, unsigned count, int blocks) {
    (void)run_stream(caller, bytes, 1, blocks);
    const Stamp begin = now();
    const double on_gpu = run_stream(caller, bytes, count, blocks);
    const Stamp end = now();
    return {caller == Caller::kGpu ? on_gpu : end.seconds - begin.seconds,
            end.cpu_seconds - begin.cpu_seconds};
  }

  double load_us(unsigned calls) {
    const Call load = Call::load(dest_, sizeof(std::uint64_t));
    run(load);
    const Stamp begin = now();
    for (unsigned i = 0; i < calls; ++i) run(load);
    return (now().seconds - begin.seconds) * 1e6 / calls;
  }

  Pe& pe_;
  void *source_, *dest_;
  int target_, blocks_;
  bool modelled_;
};

struct Side {
  const Config& config;
  Leg& leg;
  Figures Series::*figures;
};

using Work = std::function<void(Pe&, void* source, void* dest)>;

/// Runs one PE of a job. `work` is called when all PEs have started.
void take_part(std::unique_ptr<bootstrap::Bootstrap> boot, const PeOptions& options,
               std::size_t bytes, const Work& work) {
  Pe pe(std::move(boot), options);
  void* const source = pe.heap().allocate(kName, bytes, 4096, true);
  void* const dest = pe.heap().allocate(kName, bytes, 4096, true);
  require(source != nullptr && dest != nullptr, GSHMEMX_ERROR_OUT_OF_MEMORY,
          "the heap is too small for the largest message");
  (void)pe.agree_status(kName, 0);
  std::string error;
  try {
    work(pe, source, dest);
  } catch (const OtherFailed&) {
    throw;  // that one takes part in no more agreement
  } catch (const std::exception& caught) {
    error = caught.what();
  }
  // A PE with a fault takes part in no agreement, but the other PE is notified.
  int status = 0;
  try {
    status = pe.agree_status(kName, error.empty() ? 0 : GSHMEMX_ERROR_INTERNAL);
  } catch (const Error& caught) {
    if (error.empty()) error = caught.what();
  }
  if (error.empty() && status != 0) throw OtherFailed();
  require(error.empty(), GSHMEMX_ERROR_INTERNAL, error);
}

/// Runs the PEs of this process. Returns the error of the first that has one, or an empty text.
std::string run_job(const Jobs& jobs, int pes, const PeOptions& options, std::size_t bytes,
                    const Work& work) {
  auto boots = jobs.next(options.config.bootstrap_timeout, pes);
  std::vector<std::string> errors(boots.size());
  const auto one = [&](std::size_t index) {
    try {
      take_part(std::move(boots[index]), options, bytes, work);
    } catch (const std::exception& error) {
      errors[index] = error.what();
    }
  };
  std::vector<std::thread> others;
  for (std::size_t i = 1; i < boots.size(); ++i) others.emplace_back(one, i);
  one(0);
  for (std::thread& other : others) other.join();
  const auto found = std::ranges::find_if(errors, [](const auto& e) { return !e.empty(); });
  return found == errors.end() ? "" : *found;
}

/// Returns work for a job in which only PE 0 works.
Work by_first(const Work& work) {
  return [work](Pe& pe, void* source, void* dest) {
    if (pe.state().my_pe == 0) work(pe, source, dest);
  };
}

std::string network_of(const Pe& pe) {
  return pe.network().in_use() ? pe.network().text() : "load/store";
}

/// Notes facts of PE 0 about the measurement.
void describe(Pe& pe, const Sender& sender, const Side& side, Comparison& result) {
  side.leg.network = network_of(pe);
  result.modelled = sender.modelled();
  if (result.modelled && side.config.gdr == Switch::kOff)
    side.leg.network += "; staged through host memory, in the model";
  if (sender.on_gpu()) result.gpu = pe.gpu()->device();
}

void measure_side(const Jobs& jobs, const Plan& plan, const Side& side, std::size_t most,
                  Comparison& result) {
  const PeOptions options{.config = side.config, .cuda_device_id = plan.gpu};
  const int target = jobs.targets(kPair)[0];
  side.leg.error =
      run_job(jobs, kPair, options, most, by_first([&](Pe& pe, void* source, void* dest) {
                Sender sender(pe, source, dest, target, plan.blocks);
                describe(pe, sender, side, result);
                for (Series& series : result.series) {
                  if (series.caller == Caller::kHost || sender.on_gpu())
                    sender.measure(plan, series, series.*side.figures);
                }
              }));
}

/// Computes the figures of one repeat: the data of all senders, in the time of the slowest one.
void add_shares(const Series& series, unsigned count, const Comparison& result,
                const std::vector<Share>& shares, Figures& figures) {
  const int senders = series.quantity == Quantity::kAllPairs ? result.pairs : 1;
  const double gigabytes = static_cast<double>(series.bytes) * count * senders * 1e-9;
  Share whole;
  for (const Share& share : shares) {
    whole.seconds = std::max(whole.seconds, share.seconds);
    whole.cpu_seconds += share.cpu_seconds;
  }
  figures.values.push_back(gigabytes / whole.seconds);
  figures.cpu.push_back(whole.cpu_seconds / gigabytes);
}

void measure_pairs(const Jobs& jobs, const Plan& plan, int pes, const Side& side, std::size_t bytes,
                   Comparison& result) {
  const PeOptions options{.config = side.config, .cuda_device_id = plan.gpu};
  const std::vector<int> targets = jobs.targets(pes);
  const std::uint64_t most = kLonger * plan.volume / bytes;
  const auto count = static_cast<unsigned>(std::clamp<std::uint64_t>(most, 1, 4096));
  // The first index is the PE of this process, the second the series.
  std::vector<std::vector<Share>> shares(static_cast<std::size_t>(pes));
  side.leg.error = run_job(jobs, pes, options, bytes, [&](Pe& pe, void* source, void* dest) {
    const auto me = static_cast<std::size_t>(pe.state().my_pe);
    Sender sender(pe, source, dest, targets[me], plan.blocks);
    if (me == 0) describe(pe, sender, side, result);
    for (const Series& series : result.series) {
      const bool all = series.quantity == Quantity::kAllPairs;
      const bool counts = series.caller == Caller::kHost || sender.on_gpu();
      const bool sends = targets[me] >= 0 && (all || me == 0);
      shares[me].push_back(counts ? sender.take_share(series, count, sends) : Share());
    }
  });
  if (!jobs.all(side.leg.error.empty())) {
    if (side.leg.error.empty()) side.leg.error = OtherFailed().what();
    return;
  }
  for (std::size_t i = 0; i < result.series.size(); ++i) {
    std::vector<Share> all;
    for (std::size_t pe = 0; pe < shares.size(); ++pe) {
      // The clock of a process has the CPU time of all its PEs.
      if (pe > 0 && jobs.one_process()) shares[pe][i].cpu_seconds = 0;
      if (!shares[pe].empty()) all.push_back(shares[pe][i]);
    }
    if (!jobs.one_process()) all = jobs.gather(all.at(0));
    Series& series = result.series[i];
    if (all[0].seconds > 0) add_shares(series, count, result, all, series.*side.figures);
  }
}

/// Runs both sides in each repeat, until one has failed.
void take_turns(const Plan& plan, const Config& on, const Config& off, Comparison& result,
                const std::function<void(const Side&)>& measure) {
  const Side sides[] = {{on, result.on, &Series::on}, {off, result.off, &Series::off}};
  for (int repeat = 0; repeat < plan.repeats; ++repeat) {
    // The two sides take turns to be first.
    for (const int turn : {repeat % 2, 1 - repeat % 2})
      if (sides[turn].leg.error.empty()) measure(sides[turn]);
  }
  std::erase_if(result.series, [](const Series& each) {
    return each.on.values.empty() && each.off.values.empty();
  });
}

Comparison compare_series(const Jobs& jobs, const Plan& plan, const Config& on, const Config& off,
                          std::vector<Series> series) {
  Comparison result;
  result.blocks = plan.blocks;
  result.series = std::move(series);
  std::size_t most = sizeof(std::uint64_t);
  for (const Series& each : result.series) most = std::max(most, each.bytes);
  take_turns(plan, on, off, result,
             [&](const Side& side) { measure_side(jobs, plan, side, most, result); });
  return result;
}

std::uint64_t heap_for(std::size_t most) {
  constexpr std::uint64_t kBeside = 16u << 20;
  return 2 * most + kBeside;
}

/// Returns the settings for a size. Other PEs wait while one sends, and each size has a volume of
/// several largest messages.
Config of_size(Config config, std::size_t most) {
  config.symmetric_size = heap_for(most);
  config.timeout += static_cast<double>(most >> 20);
  return config;
}

}  // namespace

std::vector<std::size_t> bandwidth_sizes(std::size_t largest) {
  std::vector<std::size_t> sizes;
  for (std::size_t bytes = 64u << 10; bytes < largest; bytes *= 4) sizes.push_back(bytes);
  sizes.push_back(largest);
  return sizes;
}

std::vector<int> targets_of(const std::vector<std::size_t>& hosts) {
  std::vector<std::size_t> seen, order(hosts.size());
  for (const std::size_t host : hosts)
    if (std::ranges::find(seen, host) == seen.end()) seen.push_back(host);
  std::iota(order.begin(), order.end(), 0);
  std::ranges::stable_sort(
      order, {}, [&](std::size_t pe) { return std::ranges::find(seen, hosts[pe]) - seen.begin(); });
  std::vector<int> targets(hosts.size(), -1);
  const std::size_t pairs = hosts.size() / 2;
  for (std::size_t i = 0; i < pairs; ++i) targets[order[i]] = static_cast<int>(order[pairs + i]);
  return targets;
}

Jobs::Jobs(const Config& config, bool launched) {
  if (!launched) return;
  base_ = bootstrap::create(config);
  const int size = base_->size();
  if (size == 1) base_ = nullptr;
  require(size == 1 || size % 2 == 0, GSHMEMX_ERROR_NOT_SUPPORTED,
          strprintf("%s: %d processes; start one, or an even number", kName, size));
  if (base_ == nullptr) return;
  hosts_ = gather(std::hash<std::string>{}(control::host_identity()));
  const std::size_t mine = hosts_[static_cast<std::size_t>(base_->rank())];
  one_host_ = std::ranges::count(hosts_, mine) == size;
  local_rank_ =
      static_cast<std::size_t>(std::count(hosts_.begin(), hosts_.begin() + base_->rank(), mine));
}
Jobs::~Jobs() = default;

bool Jobs::is_first() const { return one_process() || base_->rank() == 0; }

bool Jobs::alike(const std::string& mine) const {
  const std::vector<std::size_t> texts = gather(std::hash<std::string>{}(mine));
  return std::ranges::count(texts, texts[0]) == std::ssize(texts);
}

bool Jobs::all(bool mine) const { return std::ranges::count(gather(mine ? 1 : 0), 0) == 0; }

int Jobs::pes_of_all(std::size_t gpus) const {
  return one_process() ? static_cast<int>(gpus / 2 * 2) : base_->size();
}

std::vector<int> Jobs::targets(int pes) const {
  if (one_process()) return targets_of(std::vector<std::size_t>(static_cast<std::size_t>(pes)));
  return targets_of(hosts_);
}

std::vector<std::unique_ptr<bootstrap::Bootstrap>> Jobs::next(double timeout, int pes) const {
  if (one_process()) return bootstrap::create_threads(pes, timeout);
  std::vector<std::unique_ptr<bootstrap::Bootstrap>> mine;
  mine.push_back(std::make_unique<Borrowed>(*base_));
  return mine;
}

Config proof_config(const Config& given, bool one_host) {
  Config config = given;
  config.p2p = false;
  config.fabric = Switch::kOff;
  config.fault = abi::FaultPolicy::kReport;
  config.check = CheckChoice::kOff;
  config.timeout = 120;  // PE 1 waits for PE 0
  config.ib_timeout = std::min(config.ib_timeout, 14);
  config.ib_retry_count = std::min(config.ib_retry_count, 3);
  if (one_host) config.max_pes_per_gpu = std::max(config.max_pes_per_gpu, 2);
  return config;
}

std::uint64_t heap_bytes(const Plan& plan) {
  return heap_for(std::ranges::max(plan.bandwidth_bytes));
}

Leg start_once(const Jobs& jobs, const Plan& plan, const Config& config) {
  Leg leg;
  const std::size_t most = std::ranges::max(plan.bandwidth_bytes);
  const PeOptions options{.config = of_size(config, most), .cuda_device_id = plan.gpu};
  leg.error = run_job(jobs, kPair, options, most,
                      by_first([&](Pe& pe, void*, void*) { leg.network = network_of(pe); }));
  return leg;
}

Comparison compare(const Jobs& jobs, const Plan& plan, const Config& on, const Config& off) {
  std::vector<Series> series;
  for (const Caller caller : {Caller::kHost, Caller::kGpu}) {
    const auto add = [&](Quantity quantity, std::size_t bytes) {
      series.push_back(
          {.quantity = quantity, .caller = caller, .bytes = bytes, .on = {}, .off = {}});
    };
    for (const std::size_t bytes : plan.latency_bytes) add(Quantity::kLatency, bytes);
    for (const std::size_t bytes : plan.bandwidth_bytes) add(Quantity::kBandwidth, bytes);
    add(Quantity::kRate, 8);
  }
  const std::size_t most = std::ranges::max(plan.bandwidth_bytes);
  return compare_series(jobs, plan, of_size(on, most), of_size(off, most), std::move(series));
}

Comparison compare_pairs(const Jobs& jobs, const Plan& plan, int pes, const Config& on,
                         const Config& off) {
  const std::size_t bytes =
      std::min<std::size_t>(kPairBytes, std::ranges::max(plan.bandwidth_bytes));
  Comparison result;
  result.blocks = plan.blocks;
  result.pairs = pes / 2;
  for (const Caller caller : {Caller::kHost, Caller::kGpu})
    for (const Quantity quantity : {Quantity::kOnePair, Quantity::kAllPairs})
      result.series.push_back(
          {.quantity = quantity, .caller = caller, .bytes = bytes, .on = {}, .off = {}});
  take_turns(plan, of_size(on, bytes), of_size(off, bytes), result,
             [&](const Side& side) { measure_pairs(jobs, plan, pes, side, bytes, result); });
  return result;
}

Comparison compare_words(const Jobs& jobs, const Plan& plan, Quantity quantity, const Config& on,
                         const Config& off) {
  return compare_series(
      jobs, plan, of_size(on, 4096), of_size(off, 4096),
      {{.quantity = quantity, .caller = Caller::kHost, .bytes = 8, .on = {}, .off = {}}});
}

}  // namespace gshmem::proof
