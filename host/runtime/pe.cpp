#include "host/runtime/pe.h"

#include <gshmem/abi/order_shadow.h>

#include "host/base/log.h"
#include "host/base/memory_limit.h"
#include "host/base/reminder.h"
#include "host/base/thread.h"
#include "host/base/run_phase.h"
#include "host/runtime/fault.h"
#include "host/runtime/gpu/grid_kernels.h"
#include "host/runtime/order_checker.h"
#include "host/runtime/same_build.h"
#include "host/runtime/same_call.h"

#include <gshmem/device/ops/order.h>
#include <gshmem/device/pe/p2p.h>

#include <sys/mman.h>

#include <algorithm>
#include <chrono>
#include <fstream>
#include <string_view>
#include <system_error>
#include <thread>

namespace gshmem {
namespace {

/// Intervals between checks of conditions that have no descriptor to poll. kIdleTick applies while
/// nothing needs frequent checks.
constexpr std::chrono::milliseconds kTick{100}, kIdleTick{1000};
/// Time limit for a process that ends to complete what it has posted.
constexpr double kFlushSeconds = 2;

}  // namespace

Pe::Pe(std::unique_ptr<bootstrap::Bootstrap> boot, PeOptions options)
    : options_(std::move(options)),
      boot_(std::move(boot)),
      faults_(state_, *boot_,
              [this](const abi::FaultRecord& record) { return fault_text(record); }),
      rendezvous_({.my_pe = boot_->rank(),
                   .n_pes = boot_->size(),
                   .timeout = options_.config.timeout,
                   .send =
                       [this](int pe, net::ByteView message) {
                         plane_->send(pe, control::Plane::Topic::kRendezvous, message);
                       },
                   .require_running =
                       [this] {
                         if (faults_.ends_waits())
                           faults_.require_complete(GSHMEMX_ERROR_PEER_FAILED);
                       }}),
      waits_(state_, {.send =
                          [this](int pe, net::ByteView message) {
                            if (plane_) plane_->send(pe, control::Plane::Topic::kWhere, message);
                          },
                      .raise = [this](const Error& error, int pe) { faults_.raise(error, pe); },
                      .collective = [this]() -> Waits::Outside::Collective {
                        if (!plane_) return {};
                        return {ranks().waits_in(), ranks().come_to()};
                      },
                      .lag =
                          [this](int pe) {
                            return device::is_mapped(state_, pe) ? 0 : options_.config.heartbeat;
                          }}),
      network_(options_.config, state_, faults_) {
  require(boot_->size() <= abi::kMaxPes, GSHMEMX_ERROR_NOT_SUPPORTED,
          strprintf("a job of %d PEs; this version takes up to %d", boot_->size(), abi::kMaxPes));
  state_.my_pe = boot_->rank();
  state_.n_pes = boot_->size();
  log_set_pe(state_.my_pe);
  try {
    init();
  } catch (const PhaseError&) {
    network_.stop_first_use();  // it sends by the plane, which is destroyed first
    unpublish();
    if (plane_) wait_for_reports();
    throw;
  } catch (const std::exception& error) {
    // A peer may wait for this PE in a call that it will never make. This is logged now, because a
    // launcher may end this process before it returns.
    GSHMEM_ERROR("ending the job, because PEs may be waiting for this one: %s", error.what());
    network_.stop_first_use();
    unpublish();
    const std::string why = strprintf("PE %d failed during init: %s", state_.my_pe, error.what());
    if (plane_) plane_->monitor().ending({state_.my_pe, control::PeerEvent::kStopped, why});
    boot_->abort(1, why);
    throw;
  }
  GSHMEM_INFO("PE %d of %d, bootstrap %s, %s, heap of %s; gshmem %d.%d.%d, ABI %u", state_.my_pe,
              state_.n_pes, boot_->name(), gpu_ ? gpu_->name() : "CPU mode",
              size_text(heap_->capacity()).c_str(), GSHMEM_VENDOR_MAJOR_VERSION,
              GSHMEM_VENDOR_MINOR_VERSION, GSHMEM_VENDOR_PATCH_VERSION, abi::kStateAbi);
}

/// A launcher may end the job with the first PE that ends. So no PE leaves before all have received
/// the error.
void Pe::wait_for_reports() noexcept {
  try {
    ranks().barrier();
  } catch (const Error& error) {
    GSHMEM_DEBUG("after a failed init: %s", error.what());
  }
}

void Pe::init() {
  try {
    connect_job();
  } catch (const Error&) {
    if (options_.warns_of_variables) config_warn();  // the warnings may name the reason
    throw;
  }
  warn_of_variables();
  control::LocalPeers& local = plane_->local();
  run_phase(ranks(), [&] {
    if (options_.bad_config) throw Error(*options_.bad_config);
    choose_gpu();
    paths_ = std::make_unique<Paths>(options_.config, *plane_, gpu_.get(), state_);
  });
  const std::shared_ptr<void> in_gpu = gpu_ ? gpu_->enter() : nullptr;
  std::uint64_t host_room = 0;
  run_phase(ranks(), [&] {
    host_room = agree_on_mode();
    agree_on_config();
    start_order_check();
  });
  run_phase(ranks(), [&] { hang_up_on_error(local, [&] { make_memory(host_room); }); });
  run_phase(ranks(), [&] {
    hang_up_on_error(local, [&] {
      network_.open({*plane_, gpu_.get(), *paths_, heap_mapping_.get()});
    });
  });
  run_phase(ranks(), [&] {
    publish();
    note_order_check();
  });
  ranks().set_timeout(options_.config.timeout);
  local.set_timeout(options_.config.timeout);
  watching_.store(true, std::memory_order_release);
  boot_->on_lost([this](const std::string& why) {
    log_set_pe(state_.my_pe);
    faults_.raise(Error(GSHMEMX_ERROR_BOOTSTRAP, why));
  });
  plane_->watch();
}

/// Logs the warnings about variables. Of PEs with equal warnings only the first one logs.
void Pe::warn_of_variables() {
  const std::uint64_t mine =
      options_.warns_of_variables ? config_warnings_hash(config_warnings_from_env()) : 0;
  const std::vector<std::uint64_t> all = allgather(ranks(), mine);
  const bool is_first = std::ranges::find(all, mine) - all.begin() == state_.my_pe;
  if (options_.warns_of_variables && is_first) config_warn();
}

void Pe::connect_job() {
  require_same_build(*boot_);
  plane_ = std::make_unique<control::Plane>(
      *boot_, options_.config,
      control::Plane::Callbacks{
          .on_event = [this](const control::PeerNews& news) { on_peer_news(news); },
          .on_tick = [this] { tick(); },
          .on_message =
              [this](int from, control::Plane::Topic topic, net::ByteView message) {
                if (topic == control::Plane::Topic::kRendezvous)
                  return rendezvous_.take(from, message);
                if (topic == control::Plane::Topic::kWhere) return waits_.take(from, message);
                network_.take(from, message);
              },
          .on_failure =
              [this](const std::string& why) {
                if (!watching_.load(std::memory_order_acquire)) return;
                faults_.raise(Error(GSHMEMX_ERROR_SYSTEM, why));
              },
          .on_long_wait = [this](double seconds, int pe) { wait_long(seconds, pe); },
          .stopped = [this] { return faults_.ends_waits(); }});
  faults_.set_plane(*plane_);
}

/// Runs on the monitor's thread.
void Pe::tick() noexcept {
  faults_.poll_record(gpu_ != nullptr);
  const bool busy = waits_.look() || gpu_ || network_.in_use() ||
                    state_.fault_policy == abi::FaultPolicy::kReport;
  plane_->monitor().tick_every(busy ? kTick : kIdleTick);
}

/// Runs on the monitor's thread.
void Pe::on_peer_news(const control::PeerNews& news) noexcept {
  if (!control::is_end_of_one(news.event)) return faults_.on_peer_news(news);
  log_set_pe(state_.my_pe);
  GSHMEM_INFO("%s", plane_->text_of(news).c_str());
  waits_.on_peer_news(news);
  plane_->monitor().tick_every(kTick);
}

void Pe::raise(const Error& error) noexcept {
  faults_.raise(error, error.code() == GSHMEMX_ERROR_PEER_FAILED ? plane_->absent_pe() : -1);
}

/// Called in a host collective that waits. The other PEs are notified late that this PE finalizes,
/// because most of them finalize at about the same time.
void Pe::wait_long(double seconds, int pe) {
  if (seconds >= Reminder::kSeconds) return waits_.warn(seconds, pe);
  if (in_finalize_) plane_->monitor().finalizes();
}

void Pe::choose_gpu() {
  const DeviceChoice choice = options_.config.device;
  if (choice == DeviceChoice::kCpu) return;
  if (const std::string why = why_no_gpu(); !why.empty()) {
    require(choice == DeviceChoice::kAuto, GSHMEMX_ERROR_NOT_SUPPORTED,
            "GSHMEM_DEVICE=cuda: " + why);
    if (options_.has_kernels) warn_kernels_lack_gpu(why);
    GSHMEM_INFO("CPU mode: %s", why.c_str());
    return;
  }
  gpu_ = open_gpu(options_.cuda_device_id, group().index);
}

/// Warns that kernels have no GPU. CUDA refuses to launch them, and programs that do not check for
/// errors do not notice it. Errors: GSHMEMX_ERROR_NOT_SUPPORTED where NVSHMEM would fail.
void Pe::warn_kernels_lack_gpu(const std::string& why) const {
  const std::string no_gpu = "this program has kernels, and there is no GPU for them: " + why;
  constexpr const char* kWaysOut =
      "make the GPU visible (gshmem-info --doctor), or set GSHMEM_DEVICE=cpu where CPU mode is "
      "wanted";
  require(!options_.by_nvshmem, GSHMEMX_ERROR_NOT_SUPPORTED, no_gpu + "; " + kWaysOut);
  if (state_.my_pe == 0) GSHMEM_WARN("%s; the PEs run in CPU mode; %s", no_gpu.c_str(), kWaysOut);
}

/// Returns how large heaps in host memory may become, which is the same on all PEs. Errors: the
/// same on all PEs, as in the next function.
std::uint64_t Pe::agree_on_mode() {
  struct Mode {
    std::uint64_t on_gpu, host_room, notes_calls;
  };
  Mode mine{gpu_ ? 1u : 0u, 0, options_.notes_calls ? 1u : 0u};
  if (!gpu_) {
    const auto neighbours = static_cast<std::uint64_t>(group().size());
    mine.host_room = machine_memory() / neighbours;  // growth asks the cgroup, too
    // Every PE of the host reserves the addresses of all, and many other things need some, too.
    if (const auto limit = address_limit())
      mine.host_room = std::min(mine.host_room, *limit / neighbours / 16);
    // Under ThreadSanitizer a process has far fewer addresses.
    constexpr std::uint64_t kChecked = std::uint64_t{256} << 30;
    if (checks_order()) mine.host_room = std::min(mine.host_room, kChecked / neighbours);
  }
  const std::vector<Mode> all = allgather(ranks(), mine);
  std::uint64_t room = mine.host_room;
  for (std::size_t pe = 0; pe < all.size(); ++pe) {
    require(all[pe].on_gpu == all[0].on_gpu, GSHMEMX_ERROR_GPU_NOT_SELECTED, [&] {
      return strprintf("PE 0 runs %s, PE %zu %s; set GSHMEM_DEVICE the same on all PEs",
                       all[0].on_gpu != 0 ? "on a GPU" : "in CPU mode", pe,
                       all[pe].on_gpu != 0 ? "on a GPU" : "in CPU mode");
    });
    room = std::min(room, all[pe].host_room);
    if (all[pe].notes_calls != 0) noted_bytes_ = abi::kOrderBytes;
  }
  return room;
}

bool Pe::checks_order() const {
  const CheckChoice check = options_.config.check;
  return check == CheckChoice::kOrder || check == CheckChoice::kFences;
}

void Pe::start_order_check() {
  if (!checks_order()) return;
  constexpr gshmemx_status kNot = GSHMEMX_ERROR_NOT_SUPPORTED;
#if defined(GSHMEM_HAS_ORDER_CHECK)
  require(!gpu_, kNot, "GSHMEM_CHECK=order: in CPU mode alone; set GSHMEM_DEVICE=cpu");
  require(state_.n_pes == 1 || std::string_view(boot_->name()) == "threads", kNot,
          "GSHMEM_CHECK=order: with PEs as threads of one process alone (gshmem::run_threads, or "
          "gshmem-check)");
  require(options_.config.p2p, kNot, "GSHMEM_CHECK=order: not with GSHMEM_P2P=0");
  order_check_start(static_cast<std::uint64_t>(options_.config.check_seed),
                    options_.config.check == CheckChoice::kFences);
#else
  throw Error(kNot, "GSHMEM_CHECK=order: this library was built without -DGSHMEM_SANITIZE=thread");
#endif
}

/// Errors: GSHMEMX_ERROR_CONFIG.
void Pe::note_order_check() const {
  const std::string& name = options_.config.check_file;
  if (!checks_order() || name.empty()) return;
  std::ofstream file(name, std::ios::app);
  file << "PE " + std::to_string(state_.my_pe) + "\n" << std::flush;
  require(file.good(), GSHMEMX_ERROR_CONFIG,
          "GSHMEM_CHECK_FILE=\"" + name + "\": the file cannot be written");
}

void Pe::forget_calls() noexcept {
  abi::Control* const control = state_.control;
  if (!control || !control->order) return;
  const std::uint32_t epoch = __atomic_add_fetch(&control->order_epoch, 1, __ATOMIC_RELAXED);
  if (!gpu_) return __atomic_store_n(&control->order->epoch, epoch, __ATOMIC_RELEASE);
  try {
    gpu_->copy(&control->order->epoch, &epoch, sizeof(epoch));
  } catch (const Error& error) {
    faults_.raise(error);
  }
}

void Pe::agree_on_config() {
  const std::vector<std::uint64_t> mine = config_same_values(options_.config);
  std::vector<std::uint64_t> all(mine.size() * static_cast<std::size_t>(state_.n_pes));
  ranks().allgather(mine.data(), all.data(), mine.size() * sizeof(mine[0]));
  config_require_same(all);
}

void Pe::make_memory(std::uint64_t host_room) {
  const std::uint64_t symmetric_size = options_.config.symmetric_size;
  require(symmetric_size <= UINT64_MAX / 4, GSHMEMX_ERROR_OUT_OF_MEMORY,
          "symmetric heap of " + size_text(symmetric_size) + " is larger than any address space");
  constexpr std::uint64_t kAddresses = std::uint64_t{1} << 47;
  require(options_.config.registered_size < kAddresses, GSHMEMX_ERROR_OUT_OF_MEMORY,
          strprintf("GSHMEM_REGISTERED_SIZE=%lu: a process has 128T of addresses at most",
                    options_.config.registered_size));
  paths_->open(symmetric_size, host_room, noted_bytes_);
  const p2p::PeerWindow& window = paths_->window();
  heap_ = std::make_unique<SymmetricHeap>(
      SymmetricHeap::Memory{state_.heap, state_.heap_bytes, window.alignment(), gpu_.get()},
      growth(), ranks(), [this] {
        faults_.require_running();
        GSHMEM_ORDER(checker->quiet(state_, -1);)  // such calls are barriers, too
        forget_calls();
      });
  const CheckChoice check = options_.config.check;
  if (check == CheckChoice::kOn || (check != CheckChoice::kOff && !gpu_))
    checks_.check_allocations();
  make_registered();
  if (!gpu_) host_control_ = std::make_unique<abi::Control>();

  state_.control = gpu_ ? gpu_->control() : host_control_.get();
  if (noted_bytes_ != 0) {
    state_.control->order = reinterpret_cast<abi::OrderShadow*>(
        state_.heap + state_.heap_bytes + Teams::bytes_at_end(options_.config.teams));
  }
  state_.timeout_ns = static_cast<std::uint64_t>(options_.config.timeout * 1e9);
  state_.fault_policy = options_.config.fault;
  if (gpu_) {
    gpu_->set_callbacks(
        [this](const char* call, gshmem_team_t team) { return host_sync(call, team); },
        [this](const Error& e) { faults_.raise(e); });
    gpu_->complete_memory_calls_on(state_.heap);
    gpu_->zero(state_.heap, abi::kInternalBytes);
    gpu_->zero(state_.heap + state_.heap_bytes,
               Teams::bytes_at_end(options_.config.teams) + noted_bytes_);
    heap_mapping_ = map_gpu_memory(options_.config.gdrcopy, window.heap(), window.bytes());
    gpu_->set_heap_mapping(heap_mapping_.get());
  }
}

void Pe::publish() {
  plane_->monitor().tick_every(kTick);
  registered_->make_rows(network_.key_bytes());
  open_local_ranges();
  make_teams();
  make_contexts();
  state_.magic = abi::kStateMagic;
  contexts_->start(state_);
  contexts_->add(network_.context_queues());
  if (gpu_) {
    gpu_->set_state(state_);
    gpu_->set_most_blocks(std::min(static_cast<unsigned>(options_.config.collective_blocks),
                                   paths_->blocks_that_fit(kGridBlocksPerSm, kGridCallsAtOnce)));
  }
  options_.publish_state(*this);
}

/// Kernels no longer know a PE whose init has failed.
void Pe::unpublish() noexcept {
  if (state_.magic != abi::kStateMagic) return;
  state_.magic = 0;
  try {
    options_.publish_state(*this);
  } catch (const Error& error) {
    GSHMEM_WARN("after a failed init: %s", error.what());
  }
}

Pe::~Pe() {
  log_set_pe(state_.my_pe);
  boot_->on_lost({});
  faults_.leave();
  const Waits::Call call(waits_, "gshmem_finalize");
  auto others = control::Monitor::Others::kStay;
  if (state_.magic == abi::kStateMagic) {
    if (gpu_) gpu_->await_collectives();  // they use everything that is destroyed below
    GSHMEM_ORDER(checker->finish(state_);)
    try {
      quiet_network();
      complete_contexts();
      ranks().set_timeout(0);  // there is no time limit for a PE that has not ended
      in_finalize_ = true;
      plane_->enter_finalize();
      if (!faults_.stopped()) {
        require_same_call(ranks(), "gshmem_finalize");
        others = control::Monitor::Others::kLeaveToo;
      }
    } catch (const Error& error) {
      GSHMEM_WARN("finalize continues without the other PEs: %s", error.what());
    }
    network_.stop();  // all PEs have finished, so no PE accesses this one any more
    if (const unsigned bad = state_.control->bad_completions) {
      GSHMEM_WARN("finalize: %u times a queue's completion was stale or wrong, and ignored", bad);
    }
    faults_.notify_peers();
    plane_->monitor().leave(others);
  }
  network_.stop();
  plane_.reset();      // before the objects that its callbacks use
  faults_.log_once();  // logs faults that came last
  if (gpu_) gpu_->set_heap_mapping(nullptr);
  const auto release = [&] {
    heap_mapping_.reset();  // the driver does not unmap memory that is pinned
    if (paths_) paths_->close();
  };
  if (gpu_) {
    try {
      gpu_->with_context(release);
    } catch (const Error& error) {
      GSHMEM_WARN("finalize: %s", error.what());
      release();
    }
  }
  log_set_pe(-1);
}

/// Completes what host threads have posted. A barrier returns when its own messages are posted, and
/// they must not be lost when the process ends.
void Pe::flush() noexcept {
  if (gpu_ || !network_.queues() || faults_.stopped()) return;
  try {
    const auto done = std::make_shared<std::atomic<bool>>(false);
    start_thread([this, done] {
      (void)device::quiet_status(device::Thread{}, state_, "exit");
      done->store(true);
    }).detach();
    const Deadline deadline(kFlushSeconds);
    while (!done->load() && !deadline.passed())
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
  } catch (const std::system_error& error) {
    GSHMEM_DEBUG("no thread to complete what is posted: %s", error.what());
  }
}

void Pe::depart() noexcept {
  faults_.leave();
  plane_->monitor().leave();
}

void Pe::quiet_network() {
  if (!faults_.stopped() && (gpu_ || network_.queues())) complete(state_);
}

std::string Pe::fault_text(const abi::FaultRecord& record) const {
  std::string text = fault_message(record);
  if (record.code == GSHMEMX_ERROR_TIMEOUT) {
    if (const std::string aim = waits_.explain(record); !aim.empty()) text += "; " + aim;
  }
  if (record.code != GSHMEMX_ERROR_NIC && record.code != GSHMEMX_ERROR_TIMEOUT) return text;
  const std::string why = network_.explain(record);
  return why.empty() ? text : text + "; " + why;
}

/// An object that still refers to this PE (gshmem::Context) finds no PE, no symmetric object, no
/// open context and no queue. The counters of barriers are in private memory of this process.
void Pe::abandon_in_child(Pe* other) noexcept {
  abandoned_ = other;
  constexpr std::size_t kEntries = abi::kMaxContexts * sizeof(abi::ContextEntry);
  void* const none =
      ::mmap(nullptr, abi::kInternalBytes + kEntries + sizeof(abi::Control), PROT_READ | PROT_WRITE,
             MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  const abi::DeviceState was = state_;
  state_ = {};
  if (none == MAP_FAILED) return;
  state_.my_pe = was.my_pe;
  state_.fault_policy = was.fault_policy;
  state_.heap = static_cast<char*>(none);
  state_.team_slots = reinterpret_cast<abi::SyncSlot*>(state_.heap);
  void* const entries = state_.heap + abi::kInternalBytes;
  state_.contexts = state_.host_contexts = static_cast<const abi::ContextEntry*>(entries);
  void* const control = state_.heap + abi::kInternalBytes + kEntries;
  state_.control = static_cast<abi::Control*>(control);
  state_.control->stop = 1;
}

int Pe::host_sync(const char* call, gshmem_team_t team) noexcept {
  try {
    faults_.require_running();  // its puts may be missing, so it must not enter
    const Waits::Call here(waits_, call);
    if (team == GSHMEM_TEAM_WORLD) {
      require_same_call(ranks(), "a barrier");  // under any of its names
    } else {
      teams_->sync(call, team);
    }
    return GSHMEMX_SUCCESS;
  } catch (const Error& error) {
    raise(error);
    return error.code();
  }
}

int Pe::agree_status(const char* call, int mine) {
  faults_.require_running();
  const std::vector<int> all = allgather(ranks(), mine);
  for (std::size_t pe = 0; pe < all.size(); ++pe) {
    if (all[pe] == GSHMEMX_SUCCESS) continue;
    if (mine == GSHMEMX_SUCCESS) {
      GSHMEM_ERROR("%s: failed on PE %zu: %s", call, pe, status_text(all[pe]));
    }
    return all[pe];
  }
  return GSHMEMX_SUCCESS;
}

}  // namespace gshmem
