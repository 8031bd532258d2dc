#include "host/tools/proof/measure.h"

#include "host/base/error.h"
#include "host/control/host_group.h"
#include "host/runtime/execute.h"
#include "host/runtime/pe.h"
#include "transport/nic/nic.h"

#include <sys/resource.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <thread>

namespace gshmem::proof {
namespace {

using device::Call, device::CallKind;

constexpr char kName[] = "gshmem-info --gdr-proof";

/// A view of the launcher's bootstrap for one job of several.
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

double cpu_seconds() {
  rusage used{};
  check_errno(getrusage(RUSAGE_SELF, &used), "getrusage");
  const auto seconds = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + 1e-6 * static_cast<double>(time.tv_usec);
  };
  return seconds(used.ru_utime) + seconds(used.ru_stime);
}

/// PE 0 of a job, which sends to PE 1.
class Sender {
 public:
  Sender(Pe& pe, void* source, void* dest, int blocks)
      : pe_(pe),
        source_(source),
        dest_(dest),
        blocks_(blocks),
        modelled_(pe.config().nic == NicKind::kSoft && nic::soft_model_time().has_value()) {}

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
    }
  }

 private:
  [[nodiscard]] Stamp now() const {
    if (modelled_) {
      const nic::ModelTime time = nic::soft_model_time().value();
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
    return Call::transfer(CallKind::kPut, kName, dest_, source_, bytes, 1, false);
  }
  /// One thread of a kernel makes all calls, or blocks of threads make each together
  /// (host/runtime/execute_selftest.h, execute_timed and execute_timed_in_parts).
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

  Stamp stream(Caller caller, std::size_t bytes, unsigned count, int blocks) {
    const auto all = [&](unsigned n) {
      if (caller == Caller::kGpu) return seconds_on_gpu(bytes, n, false, blocks);
      for (unsigned i = 0; i < n; ++i) run(put_of(bytes));
      run(Call::quiet(kName));
      return 0.0;
    };
    all(1);
    const Stamp begin = now();
    const double on_gpu = all(count);
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
  int blocks_;
  bool modelled_;
};

struct Side {
  const Config& config;
  Leg& leg;
  Figures Series::*figures;
};

/// Runs one PE of a job. `work` is called on PE 0, with all PEs there.
void take_part(std::unique_ptr<bootstrap::Bootstrap> boot, const PeOptions& options,
               std::size_t bytes, const std::function<void(Pe&, void* source, void* dest)>& work) {
  const bool first = boot->rank() == 0;
  Pe pe(std::move(boot), options);
  void* const source = pe.heap().allocate(kName, bytes, 4096, true);
  void* const dest = pe.heap().allocate(kName, bytes, 4096, true);
  require(source != nullptr && dest != nullptr, GSHMEMX_ERROR_OUT_OF_MEMORY,
          "the heap is too small for the largest message");
  (void)pe.agree_status(kName, 0);
  std::string error;
  if (first) {
    try {
      work(pe, source, dest);
    } catch (const std::exception& caught) {
      error = caught.what();
    }
  }
  // A PE with a fault takes part in no agreement, which the other one is told.
  int status = 0;
  try {
    status = pe.agree_status(kName, error.empty() ? 0 : GSHMEMX_ERROR_INTERNAL);
  } catch (const Error& caught) {
    if (error.empty()) error = caught.what();
  }
  if (error.empty() && status != 0) error = "PE 0 has failed";
  require(error.empty(), GSHMEMX_ERROR_INTERNAL, error);
}

/// Runs the PEs of this process. Returns the error of the first that has one, or an empty text.
std::string run_job(const Jobs& jobs, const PeOptions& options, std::size_t bytes,
                    const std::function<void(Pe&, void*, void*)>& work) {
  auto boots = jobs.next(options.config.bootstrap_timeout);
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

std::string network_of(const Pe& pe) {
  return pe.network().in_use() ? pe.network().text() : "load/store";
}

void measure_side(const Jobs& jobs, const Plan& plan, const Side& side, std::size_t most,
                  Comparison& result) {
  if (!side.leg.error.empty()) return;
  const PeOptions options{.config = side.config, .cuda_device_id = plan.gpu};
  side.leg.error = run_job(jobs, options, most, [&](Pe& pe, void* source, void* dest) {
    side.leg.network = network_of(pe);
    Sender sender(pe, source, dest, plan.blocks);
    result.modelled = sender.modelled();
    if (result.modelled && side.config.gdr == Switch::kOff)
      side.leg.network += "; staged through host memory, in the model";
    if (sender.on_gpu()) result.gpu = pe.gpu()->device();
    for (Series& series : result.series) {
      if (series.caller == Caller::kHost || sender.on_gpu())
        sender.measure(plan, series, series.*side.figures);
    }
  });
}

Comparison compare_series(const Jobs& jobs, const Plan& plan, const Config& on, const Config& off,
                          std::vector<Series> series) {
  Comparison result;
  result.blocks = plan.blocks;
  result.series = std::move(series);
  std::size_t most = sizeof(std::uint64_t);
  for (const Series& each : result.series) most = std::max(most, each.bytes);
  const Side sides[] = {{on, result.on, &Series::on}, {off, result.off, &Series::off}};
  for (int repeat = 0; repeat < plan.repeats; ++repeat) {
    // Neither side is always the first one.
    for (const int turn : {repeat % 2, 1 - repeat % 2})
      measure_side(jobs, plan, sides[turn], most, result);
  }
  std::erase_if(result.series, [](const Series& each) {
    return each.on.values.empty() && each.off.values.empty();
  });
  return result;
}

std::uint64_t heap_for(std::size_t most) {
  constexpr std::uint64_t kBeside = 16u << 20;
  return 2 * most + kBeside;
}

Config of_size(Config config, std::size_t most) {
  config.symmetric_size = heap_for(most);
  return config;
}

}  // namespace

std::vector<std::size_t> bandwidth_sizes(std::size_t largest) {
  std::vector<std::size_t> sizes;
  for (std::size_t bytes = 64u << 10; bytes < largest; bytes *= 4) sizes.push_back(bytes);
  sizes.push_back(largest);
  return sizes;
}

Jobs::Jobs(const Config& config, bool launched) {
  if (!launched) return;
  base_ = bootstrap::create(config);
  const int size = base_->size();
  if (size == 1) base_ = nullptr;
  require(size <= 2, GSHMEMX_ERROR_NOT_SUPPORTED,
          strprintf("%s: %d processes; start one, or two on the hosts to compare", kName, size));
  if (base_ == nullptr) return;
  one_host_ = alike(control::host_identity());
}
Jobs::~Jobs() = default;

bool Jobs::is_first() const { return one_process() || base_->rank() == 0; }

bool Jobs::alike(const std::string& mine) const {
  if (one_process()) return true;
  const std::vector<std::size_t> texts = allgather(*base_, std::hash<std::string>{}(mine));
  return texts[0] == texts[1];
}

bool Jobs::all(bool mine) const {
  if (one_process()) return mine;
  const std::vector<int> answers = allgather(*base_, mine ? 1 : 0);
  return std::ranges::count(answers, 0) == 0;
}

std::vector<std::unique_ptr<bootstrap::Bootstrap>> Jobs::next(double timeout) const {
  if (one_process()) return bootstrap::create_threads(2, timeout);
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
  leg.error =
      run_job(jobs, options, most, [&](Pe& pe, void*, void*) { leg.network = network_of(pe); });
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

Comparison compare_loads(const Jobs& jobs, const Plan& plan, const Config& on, const Config& off) {
  return compare_series(
      jobs, plan, of_size(on, 4096), of_size(off, 4096),
      {{.quantity = Quantity::kLoad, .caller = Caller::kHost, .bytes = 8, .on = {}, .off = {}}});
}

}  // namespace gshmem::proof
