#include "transport/softnic/core.h"

#include "host/base/error.h"
#include "host/base/log.h"
#include "host/base/thread.h"
#include "transport/softnic/profile.h"

#include <sched.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <climits>
#include <iterator>

namespace gshmem::soft {
namespace {

/// Means that there is no doorbell: queue pair number 0xffffff is never assigned.
constexpr std::uint64_t kNoDoorbell = ~std::uint64_t{0};
/// The registers of a UAR: four that take 8 bytes, or two BlueFlame windows of two halves each
/// (rdma-core providers/mlx5/verbs.c mlx5_insert_dyn_uuars; qp.c toggles between halves). The last
/// one is for queue pairs without doorbell records.
constexpr std::size_t kRegisters[] = {0x800, 0x900, 0xa00, 0xb00, 0x600};
constexpr std::size_t kNoRecordRegister = 4;  ///< its index
/// The register by which completion queues are armed (mlx5dv.h, MLX5_CQ_DOORBELL).
constexpr std::size_t kArmRegister = 0x20;
constexpr int kPacketsPerVisit = 64;
/// The number of UARs and records that one pass checks. Jobs of many PEs have tens of thousands of
/// each, and a pass that checked all would have no time for anything else.
constexpr int kUarsPerPass = 256, kRecordsPerPass = 64;

// An idle engine spins while an answer is likely, then yields, then sleeps for longer and longer
// times. An engine without doorbells waits until it is woken.
constexpr std::int64_t kSpinNs = 15'000, kYieldNs = 100'000;
constexpr std::int64_t kShortestSleepNs = 5'000, kLongestSleepNs = 50'000;
constexpr int kYields = 16;  // to control calls
// Sleeps of 50 us cost 9 % of a core (nic_fabric_test prints it). After this time without work, a
// delay of microseconds does not matter.
constexpr std::int64_t kLongIdleNs = 1'000'000'000, kLongIdleSleepNs = 250'000;

void sleep_ns(std::int64_t ns) {
  const timespec length = {.tv_sec = 0, .tv_nsec = ns};
  ::clock_nanosleep(CLOCK_MONOTONIC, 0, &length, nullptr);
}

void pause_cpu() {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#endif
}

}  // namespace

Core::Lock::Lock(Core& core) : core_(core) {
  core_.waiting_.fetch_add(1, std::memory_order_relaxed);
  core_.mutex_.lock();
  core_.waiting_.fetch_sub(1, std::memory_order_relaxed);
}

Core::Lock::~Lock() {
  core_.mutex_.unlock();
  core_.wake_.notify_one();
}

Core::Core(const EngineOptions& options)
    : context(options), requester(context), responder(context), process_(::getpid()) {
  AtomicWords::of_process();  // lives longer than the engine
  if (!options.fabric.empty()) {
    use_fabric(Fabric::open_named(options.fabric.c_str()).get());
    joined = true;
  }
  if (parse_adversary(options.adversary).any()) {
    GSHMEM_WARN("soft NIC: adversary \"%s\", GSHNIC_SEED=%lu", options.adversary.c_str(),
                options.seed);
  }
  thread_ = start_thread([this] { run(); });
}

Core::~Core() {
  {
    const Lock lock(*this);
    stop_.store(true, std::memory_order_relaxed);
  }
  thread_.join();
}

bool Core::runs_here() const { return process_ == ::getpid(); }

std::uint32_t Core::next_number() {
  constexpr std::uint32_t kFirst = 0x40;  // 0 and 1 are management queue pairs
  constexpr std::uint32_t kEnd = (1u << kLocalBits) - 1;
  if (kFirst + last_qp >= kEnd) throw EngineError{0xf, "all queue pair numbers are used"};
  return fabric().node() << kLocalBits | (kFirst + last_qp++);
}

void Core::reset(QueuePair& qp) {
  requester.leave(qp);
  responder.abandon(qp);
  requester.reset(qp);
  qp.state = QpState::kReset;
}

void Core::take_doorbells(std::uint32_t number) {
  const auto uar = uars.find(number);
  if (uar == uars.end() || context.gone) return;
  for (std::size_t at = 0; at < std::size(kRegisters); ++at) look_at(*uar->second, at, now_ns());
}

void Core::use_fabric(int fd) {
  context.fabric = std::make_unique<Fabric>(fd);
  context.port = port_of(context.options.profile, context.options.device,
                         context.fabric->lid_of(context.fabric->node()));
  context.regions.set_node(context.fabric->node());
}

void Core::check_present() const {
  if (context.gone) throw EngineError{0x1, "the device is gone"};
}

Fabric& Core::fabric() {
  if (context.fabric == nullptr) use_fabric(Fabric::make().get());
  return *context.fabric;
}

void Core::run() {
  ::prctl(PR_SET_NAME, "gshnic");
  ::prctl(PR_SET_TIMERSLACK, 1000);  // sleeps of microseconds, not of 50 more
  std::int64_t idle_since = now_ns();
  while (!stop_.load(std::memory_order_relaxed)) {
    bool moved = false;
    {
      std::unique_lock lock(mutex_);
      if (context.qps.empty() && context.targets.empty() &&
          !stop_.load(std::memory_order_relaxed)) {
        wake_.wait_for(lock, std::chrono::milliseconds(100));
      }
      moved = pass();
    }
    // A mutex is not fair: without this loop the next pass would take it again at once. While many
    // threads create queue pairs, one of them always waits.
    for (int looks = 0; waiting_.load(std::memory_order_relaxed) > 0; ++looks)
      looks < kYields ? static_cast<void>(::sched_yield()) : sleep_ns(kShortestSleepNs);
    if (moved) {
      idle_since = 0;
    } else if (next_uar_ == 0) {  // a pass has checked all of them
      const std::int64_t now = now_ns();
      if (idle_since == 0) idle_since = now;
      rest(now - idle_since);
    }
  }
}

void Core::rest(std::int64_t idle_ns) {
  if (idle_ns < kSpinNs) return pause_cpu();
  if (idle_ns < kYieldNs) {
    ::sched_yield();
    return;
  }
  const std::int64_t longest = idle_ns < kLongIdleNs ? kLongestSleepNs : kLongIdleSleepNs;
  sleep_ns(std::clamp(idle_ns / 16, kShortestSleepNs, longest));
}

/// Runs one pass. A reply that was sent before a request is processed before it, and its completion
/// is written first, as on one wire. Clients rely on this order: a send is complete before its
/// answer arrives.
bool Core::pass() {
  const std::int64_t now = now_ns();
  if (context.port_up_ns != 0 && now >= context.port_up_ns) {
    context.port_up_ns = 0;
    context.port_down = false;
    context.tell({DeviceEvent::Kind::kPortUp});
  }
  bool moved = !context.gone && look_at_doorbells(now);
  std::uint64_t senders = 0;  // senders whose requests have been read
  if (context.fabric != nullptr) {
    senders = look_at_requests();
    moved |= receive_replies(now);
  }
  if (!context.gone) look_at_records(now);
  for (std::size_t i = 0; i < context.busy.size() && !context.gone; ++i) {
    QueuePair& qp = *context.busy[i];
    ++context.counters.visits;
    moved |= requester.progress(qp, now);
    if (qp.reset_due) reset(qp);
  }
  if (context.fabric != nullptr) moved |= receive_requests(senders, now);
  std::erase_if(context.busy, [](QueuePair* qp) {
    qp->busy = !qp->at_rest();
    return !qp->busy;
  });
  if (!context.watched.empty()) moved |= look_at_arming();
  return moved;
}

/// Processes completion queues whose clients want an event for the next entry.
bool Core::look_at_arming() {
  bool moved = false;
  for (const CompletionQueue* cq : context.watched) {
    const auto uar = uars.find(cq->uar());
    if (uar == uars.end()) continue;
    auto* word = reinterpret_cast<std::uint64_t*>(static_cast<std::uint8_t*>(uar->second->page) +
                                                  kArmRegister);
    if (__atomic_load_n(word, __ATOMIC_RELAXED) == kNoDoorbell) continue;
    // Pairs with the client's store of the doorbell, after that of the record.
    const std::uint64_t value = __atomic_exchange_n(word, kNoDoorbell, __ATOMIC_ACQ_REL);
    const auto number = static_cast<std::uint32_t>(__builtin_bswap64(value)) & 0xffffff;
    for (CompletionQueue* other : context.watched) {
      if (other->uar() == cq->uar()) other->arm(other->number() == number);
    }
  }
  for (CompletionQueue* cq : context.watched) {
    if (!cq->take_event()) continue;
    context.tell({DeviceEvent::Kind::kCompletion, cq->number()});
    moved = true;
  }
  return moved;
}

/// Checks some of the records; the next passes continue there. It checks all if a moved record
/// counts as a doorbell.
void Core::look_at_records(std::int64_t now) {
  auto at = context.qps.lower_bound(next_record_);
  int left = context.options.strict == Strictness::kLoose ? INT_MAX : kRecordsPerPass;
  for (; at != context.qps.end() && left > 0; ++at, --left)
    requester.check_record(*at->second, now);
  next_record_ = at == context.qps.end() ? 0 : at->first;
}

/// Checks the doorbells of some UARs; the next passes continue there.
bool Core::look_at_doorbells(std::int64_t now) {
  bool moved = false;
  auto next = uars.lower_bound(next_uar_);
  for (int left = kUarsPerPass; next != uars.end() && left > 0; ++next, --left) {
    const auto& [number, uar] = *next;
    for (std::size_t at = 0; at < std::size(kRegisters); ++at) {
      if (__atomic_load_n(uar->bell(kRegisters[at]), __ATOMIC_RELAXED) == kNoDoorbell) continue;
      // The doorbell is left unread once, for a limited time. Meanwhile a newer one may replace it,
      // as in a write-combining buffer.
      if (uar->leave_until_ns == 0) {
        uar->leave_until_ns =
            now + context.adversary.delay_ns(Behaviour::kCoalesce, number, ++uar->doorbells);
      }
      if (now < uar->leave_until_ns) continue;
      uar->leave_until_ns = 0;
      moved |= look_at(*uar, at, now);
    }
  }
  next_uar_ = next == uars.end() ? 0 : next->first;
  return moved;
}

bool Core::look_at(Uar& uar, std::size_t at, std::int64_t now) {
  // Pairs with the client's store of the doorbell: entries and payload that it wrote before are
  // visible from here on.
  const std::uint64_t value =
      __atomic_exchange_n(uar.bell(kRegisters[at]), kNoDoorbell, __ATOMIC_ACQ_REL);
  if (value == kNoDoorbell) return false;
  ++context.counters.doorbells;
  constexpr std::uint64_t kHalf = 0xffffffff;
  if ((value & kHalf) == kHalf || value >> 32 == kHalf) {
    context.checker.violation(
        strprintf("UAR %u: doorbell 0x%016lx was stored in parts; it must be one store of 8 bytes",
                  uar.number, value));
    return true;
  }
  const nic::Doorbell doorbell = nic::decode_doorbell(value);
  QueuePair* qp = context.find_qp(doorbell.number);
  if (qp == nullptr) {
    context.checker.violation(strprintf("UAR %u: doorbell of queue pair 0x%x, which does not exist",
                                        uar.number, doorbell.number));
  } else if (qp->attributes.uar != uar.number) {
    context.checker.violation(strprintf("UAR %u: doorbell of queue pair 0x%x, which belongs to %u",
                                        uar.number, qp->number, qp->attributes.uar));
  } else if (qp->attributes.no_record != (at == kNoRecordRegister)) {
    context.checker.violation(strprintf(
        "UAR %u: doorbell of queue pair 0x%x at 0x%zx, but it %s a doorbell record", uar.number,
        qp->number, kRegisters[at], qp->attributes.no_record ? "does without" : "has"));
  } else {
    qp->bells |= 1u << at;
    requester.ring(*qp, doorbell.producer);
  }
  // Hardware sees every store to a register, but memory keeps only the last one. If queue pairs
  // share the register, this doorbell may have replaced another one.
  if (uar.users.size() > 1) {
    for (QueuePair* other : uar.users) {
      const bool shares = other->bells == 0 || (other->bells >> at & 1) != 0;
      ++context.counters.visits;
      if (shares) requester.rescue(*other, now);
    }
  }
  return true;
}

std::uint64_t Core::look_at_requests() {
  const std::uint64_t senders = context.fabric->senders();
  for (std::uint64_t left = senders; left != 0; left &= left - 1) {
    context.fabric->request_from(static_cast<std::uint32_t>(__builtin_ctzll(left))).look();
  }
  return senders;
}

bool Core::receive_requests(std::uint64_t senders, std::int64_t now) {
  bool moved = false;
  for (std::uint64_t left = senders; left != 0; left &= left - 1) {
    const auto node = static_cast<std::uint32_t>(__builtin_ctzll(left));
    Ring& requests = context.fabric->request_from(node);
    for (int i = 0; i < kPacketsPerVisit; ++i) {
      const Packet* packet = requests.seen();
      if (packet == nullptr || !responder.on_request(*packet, Ring::payload(packet), now)) break;
      requests.pop(*packet);
      moved = true;
    }
  }
  moved |= responder.settle();
  for (std::size_t i = 0; i < context.busy.size() && !context.gone; ++i)
    moved |= responder.progress(*context.busy[i], now);
  return moved;
}

/// Is a reply dropped before it reaches its queue pair? A reply that means silence has no
/// addresses.
bool Core::drops(const QueuePair& qp, const Packet& reply) const {
  if (reply.is_silence()) return false;
  const char* const why = refusal_of(context.port, qp.rtr.route, reply.addresses);
  if (why != nullptr)
    GSHMEM_INFO("soft NIC: queue pair 0x%x: an answer is dropped: it is %s", qp.number, why);
  return why != nullptr;
}

bool Core::receive_replies(std::int64_t now) {
  bool moved = false;
  for (std::uint64_t left = context.fabric->senders(); left != 0; left &= left - 1) {
    const auto node = static_cast<std::uint32_t>(__builtin_ctzll(left));
    Ring& replies = context.fabric->reply_from(node);
    for (int i = 0; i < kPacketsPerVisit; ++i) {
      const Packet* packet = replies.front();
      if (packet == nullptr) break;
      QueuePair* qp = context.find_qp(packet->target);
      if (qp != nullptr && (context.port_down || drops(*qp, *packet))) {
        requester.on_lost(*qp, *packet, now);
      } else if (qp != nullptr) {
        requester.on_reply(*qp, *packet, Ring::payload(packet), now);
      }
      replies.pop(*packet);
      moved = true;
    }
  }
  requester.settle(now);
  return moved;
}

}  // namespace gshmem::soft
