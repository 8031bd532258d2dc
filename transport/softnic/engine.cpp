// Objects and their state machines: the control path of engine.h. The data path is core.cpp.
#include "transport/softnic/engine.h"

#include "host/base/config.h"
#include "host/base/error.h"
#include "transport/softnic/core.h"
#include "transport/softnic/engine_checks.h"
#include "transport/softnic/profile.h"

#include <fcntl.h>
#include <strings.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string_view>

namespace gshmem::soft {
namespace {

std::string variable(const char* name) {
  const char* value = env_lookup(name);
  return value != nullptr ? value : "";
}

/// Configures the log of this library, which is separate, by the settings of gshmem
/// (host/base/config.def).
void obey_log_settings() {
  const std::string word = variable("GSHMEM_LOG"), file = variable("GSHMEM_LOG_FILE");
  const auto& levels = choices_of(LogLevel{}).values;
  const auto level = std::ranges::find_if(levels, [&](LogLevel each) {
    return ::strcasecmp(word_of(each).c_str(), word.c_str()) == 0;
  });
  check(word.empty() || level != levels.end(), kBadParameter,
        strprintf("GSHMEM_LOG=\"%s\": expected none, error, warn, info or debug", word.c_str()));
  try {
    log_configure(level == levels.end() ? LogLevel::kWarn : *level, file);
  } catch (const Error& error) {
    check(false, kBadParameter, error.what());
  }
}

bool aligned(const void* address, std::uintptr_t alignment) {
  return address != nullptr && reinterpret_cast<std::uintptr_t>(address) % alignment == 0;
}

void check_receives(const ReceiveAttributes& attributes) {
  check(aligned(attributes.entries, 16), kBadParameter, "a receive queue is misaligned");
  check(attributes.log_entries <= DeviceAttributes{}.max_log_qp_entries &&
            attributes.log_entry_bytes >= (attributes.order == ReceiveOrder::kRing ? 4 : 5) &&
            attributes.log_entry_bytes <= 11,
        kBadParameter, "a receive queue has entries of 16 bytes to 2 KiB, and at most 2^15");
  check(aligned(attributes.record, 4), kBadParameter,
        "a receive queue's doorbell record is misaligned");
  check(gpu_memory(attributes.entries) == nullptr, kBadParameter,
        "the soft NIC has no queues in GPU memory");
}

constexpr int kMostDevices = Engine::kMostDevices;

}  // namespace

EngineOptions EngineOptions::from_env() {
  EngineOptions options{.strict = Strictness::kCard};
  options.fabric = variable("GSHNIC_FABRIC");
  options.adversary = variable("GSHNIC_ADVERSARY");
  options.rules = variable("GSHNIC_RULES");
  if (const std::string seed = variable("GSHNIC_SEED"); !seed.empty()) {
    char* end = nullptr;
    errno = 0;
    options.seed = std::strtoull(seed.c_str(), &end, 0);
    check(*end == '\0' && errno == 0 && seed[0] != '-', kBadParameter,
          strprintf("GSHNIC_SEED=\"%s\": expected a number", seed.c_str()));
  }
  if (const std::string strict = variable("GSHNIC_STRICT"); !strict.empty()) {
    check(strict == "0" || strict == "1", kBadParameter,
          strprintf("GSHNIC_STRICT=\"%s\": expected 0 or 1", strict.c_str()));
    options.strict = strict == "1" ? Strictness::kStrict : Strictness::kLoose;
  }
  if (const std::string devices = variable("GSHNIC_DEVICES"); !devices.empty()) {
    const bool good = devices.size() == 1 && devices[0] >= '1' && devices[0] <= '0' + kMostDevices;
    check(good, kBadParameter,
          strprintf("GSHNIC_DEVICES=\"%s\": expected a number from 1 to %d", devices.c_str(),
                    kMostDevices));
    options.devices = devices[0] - '0';
  }
  return options;
}

/// Starts one engine for each device of the process, in one fabric.
std::vector<std::unique_ptr<Engine>> Engine::start_all() {
  obey_log_settings();
  const EngineOptions options = EngineOptions::from_env();
  const std::vector<Profile> profiles = parse_profiles(variable("GSHNIC_PROFILE"));
  std::vector<std::unique_ptr<Engine>> engines;
  for (int i = 0; i < options.devices; ++i) {
    EngineOptions own = options;
    own.device = i;
    own.profile = profiles[std::min(static_cast<std::size_t>(i), profiles.size() - 1)];
    engines.push_back(std::make_unique<Engine>(own));
  }
  if (options.devices > 1 && options.fabric.empty()) {
    const Fd own = Fabric::make();
    for (const auto& engine : engines) {
      const Core::Lock lock(*engine->impl_);
      engine->impl_->use_fabric(own.get());
    }
  }
  return engines;
}

const std::vector<std::unique_ptr<Engine>>& Engine::all() {
  try {
    // The engines are never destroyed: threads of a process that exits may still use them.
    static const auto& engines = *new const std::vector<std::unique_ptr<Engine>>(start_all());
    check(engines.front()->impl_->runs_here(), kBadResourceState,
          "the soft NIC does not survive a fork; open it in the child only");
    return engines;
  } catch (const EngineError& error) {
    GSHMEM_ERROR("soft NIC: %s", error.what());
    throw;
  }
}

Engine& Engine::get(int device) {
  const auto& engines = all();
  check(device >= 0 && device < static_cast<int>(engines.size()), kBadParameter,
        strprintf("there is no device %d", device));
  return *engines[static_cast<std::size_t>(device)];
}

int Engine::devices() { return static_cast<int>(all().size()); }

Engine::Engine(const EngineOptions& options) : impl_(std::make_unique<Impl>(options)) {}
Engine::~Engine() {
  // A child that was forked after the start has no thread, and the node belongs to the parent.
  if (impl_ != nullptr && !impl_->runs_here()) static_cast<void>(impl_.release());
}

int Engine::make_fabric() {
  Fd file = Fabric::make();
  const int own = ::fcntl(file.get(), F_DUPFD_CLOEXEC, 0);
  check(own >= 0, kNoResource, strprintf("descriptor of a fabric: %s", std::strerror(errno)));
  return own;
}

void Engine::join_fabric(int fd) {
  const Core::Lock lock(*impl_);
  if (impl_->joined) {
    check(impl_->context.fabric->same_file(fd), kBadResourceState, "another fabric is joined");
    return;
  }
  check(impl_->context.qps.empty() && impl_->context.targets.empty() &&
            impl_->context.regions.empty(),
        kBadResourceState, "a fabric must be joined before the first queue pair and region");
  impl_->use_fabric(fd);
  impl_->joined = true;
}

void Engine::model_costs(bool staged) {
  const Core::Lock lock(*impl_);
  impl_->context.costs.load(variable("GSHNIC_COSTS"), staged);
}

std::optional<CostModel::Time> Engine::model_time() {
  const Core::Lock lock(*impl_);
  if (!impl_->context.costs.is_on()) return {};
  return impl_->context.costs.read();
}

DeviceAttributes Engine::device() const {
  const Core::Lock lock(*impl_);
  impl_->check_present();
  const Fabric& fabric = impl_->fabric();
  const EngineOptions& options = impl_->context.options;
  DeviceAttributes attributes;
  attributes.profile = options.profile;
  attributes.port_up =
      !impl_->context.port_down && !impl_->context.costs.fails(Costs::Fails::kPort);
  attributes.guid = guid_of(fabric.lid_of(fabric.node()));
  const Port& port = impl_->context.port;
  attributes.lid = port.lid;
  attributes.mac = port.mac;
  attributes.gids = port.gids;
  return attributes;
}

bool Engine::gone() const {
  const Core::Lock lock(*impl_);
  return impl_->context.gone;
}

std::uint32_t Engine::create_pd() {
  const Core::Lock lock(*impl_);
  impl_->check_present();
  return impl_->pds.emplace(++impl_->last_pd, 0).first->first;
}

void Engine::destroy_pd(std::uint32_t pd) {
  const Core::Lock lock(*impl_);
  const auto found = impl_->pds.find(pd);
  check(found != impl_->pds.end(), kBadResource, strprintf("there is no protection domain %u", pd));
  bool used = found->second > 0 || impl_->context.regions.uses(pd);
  for (const auto& [number, queue] : impl_->context.shared_receives)
    used |= queue->attributes().pd == pd;
  check(!used, kBadResourceState, strprintf("protection domain %u is in use", pd));
  impl_->pds.erase(found);
}

std::uint32_t Engine::create_uar(void** page, std::uint32_t count) {
  const std::size_t bytes = count * Core::kUarBytes;
  // A memfd like the pages of a device file, not anonymous memory: it is what a program that looks
  // into /proc/self/maps sees.
  const Fd file(::memfd_create("gshnic_uar", MFD_CLOEXEC));
  check(file && ::ftruncate(file.get(), static_cast<off_t>(bytes)) == 0, kNoResource,
        "memory of a UAR");
  void* first = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file.get(), 0);
  check(first != MAP_FAILED, kNoResource, "memory of a UAR");
  const std::shared_ptr<void> memory(first, [bytes](void* mapped) { ::munmap(mapped, bytes); });
  std::memset(first, 0xff, bytes);  // no doorbell
  const Core::Lock lock(*impl_);
  impl_->check_present();
  const std::uint32_t number = impl_->last_uar + 1;
  for (std::size_t at = 0; at < bytes; at += Core::kUarBytes) {
    auto uar = std::make_unique<Uar>();
    uar->number = ++impl_->last_uar;
    uar->memory = memory;
    uar->page = static_cast<std::uint8_t*>(first) + at;
    impl_->uars.emplace(uar->number, std::move(uar));
  }
  *page = first;
  return number;
}

void Engine::destroy_uar(std::uint32_t uar) {
  const Core::Lock lock(*impl_);
  check(find(impl_->uars, uar, "UAR").users.empty(), kBadResourceState,
        strprintf("UAR %u is in use", uar));
  impl_->uars.erase(uar);
}

std::uint32_t Engine::create_region(const RegionAttributes& attributes) {
  const Core::Lock lock(*impl_);
  impl_->check_present();
  check(impl_->pds.count(attributes.pd) != 0, kBadResource,
        strprintf("there is no protection domain %u", attributes.pd));
  check(!impl_->context.costs.fails(Costs::Fails::kGpu), kBadParameter,
        "GSHNIC_COSTS: this device cannot register GPU memory");
  impl_->fabric();
  return impl_->context.regions.create(attributes);
}

void Engine::destroy_region(std::uint32_t key) {
  const Core::Lock lock(*impl_);
  impl_->context.regions.destroy(key);
}

std::uint32_t Engine::create_cq(const CqAttributes& attributes) {
  check(attributes.entry_bytes == 64 || attributes.entry_bytes == 128, kBadParameter,
        "entries of a completion queue have 64 or 128 bytes");
  check(aligned(attributes.buffer, 64), kBadParameter, "a completion queue's buffer is misaligned");
  check(attributes.log_entries <= DeviceAttributes{}.max_log_cq_entries, kBadParameter,
        "a completion queue is too long");
  check(
      aligned(attributes.record, 8) || (attributes.record == nullptr && attributes.ignore_overrun),
      kBadParameter, "a completion queue's doorbell record is misaligned");
  check(gpu_memory(attributes.buffer) == nullptr, kBadParameter,
        "the soft NIC has no queues in GPU memory");
  const Core::Lock lock(*impl_);
  impl_->check_present();
  const std::uint32_t number = ++impl_->last_cq;
  impl_->context.cqs.emplace(number, std::make_unique<CompletionQueue>(number, attributes));
  return number;
}

void Engine::destroy_cq(std::uint32_t cqn) {
  const Core::Lock lock(*impl_);
  check(find(impl_->context.cqs, cqn, "completion queue").users == 0, kBadResourceState,
        strprintf("completion queue 0x%x is in use", cqn));
  auto& watched = impl_->context.watched;
  std::erase(watched, impl_->context.cqs.at(cqn).get());
  impl_->context.cqs.erase(cqn);
}

void Engine::watch_cq(std::uint32_t cqn) {
  const Core::Lock lock(*impl_);
  CompletionQueue& cq = find(impl_->context.cqs, cqn, "completion queue");
  auto& watched = impl_->context.watched;
  find(impl_->uars, cq.uar(), "UAR");
  if (std::ranges::find(watched, &cq) == watched.end()) watched.push_back(&cq);
}

std::uint32_t Engine::create_receives(const ReceiveAttributes& attributes) {
  check_receives(attributes);
  const Core::Lock lock(*impl_);
  impl_->check_present();
  check(impl_->pds.count(attributes.pd) != 0, kBadResource,
        strprintf("there is no protection domain %u", attributes.pd));
  const std::uint32_t number = ++impl_->last_receives;
  impl_->context.shared_receives.emplace(number, std::make_unique<ReceiveQueue>(attributes));
  return number;
}

void Engine::destroy_receives(std::uint32_t number) {
  const Core::Lock lock(*impl_);
  check(find(impl_->context.shared_receives, number, "receive queue").users == 0, kBadResourceState,
        strprintf("receive queue 0x%x is in use", number));
  impl_->context.shared_receives.erase(number);
}

std::uint32_t Engine::create_qp(const QpAttributes& attributes) {
  if (attributes.receives.entries != nullptr) check_receives(attributes.receives);
  check(aligned(attributes.send_queue, 64), kBadParameter, "a send queue is misaligned");
  check(attributes.log_send_entries <= DeviceAttributes{}.max_log_qp_entries, kBadParameter,
        "a send queue is too long");
  check(aligned(attributes.record, 8), kBadParameter,
        "a queue pair's doorbell record is misaligned");
  check(gpu_memory(attributes.send_queue) == nullptr, kBadParameter,
        "the soft NIC has no queues in GPU memory");
  const Core::Lock lock(*impl_);
  impl_->check_present();
  Context& context = impl_->context;
  check(impl_->pds.count(attributes.pd) != 0, kBadResource,
        strprintf("there is no protection domain %u", attributes.pd));
  Uar& uar = find(impl_->uars, attributes.uar, "UAR");
  CompletionQueue& send = find(context.cqs, attributes.send_cq, "completion queue");
  CompletionQueue& receive = find(context.cqs, attributes.receive_cq, "completion queue");

  auto qp = std::make_unique<QueuePair>();
  qp->number = impl_->next_number();
  qp->ordinal = impl_->created_qps++;
  qp->attributes = attributes;
  qp->send_cq = &send;
  qp->receive_cq = &receive;
  if (attributes.receives.entries != nullptr) {
    qp->own_receives = std::make_unique<ReceiveQueue>(attributes.receives);
    qp->receives = qp->own_receives.get();
  } else if (attributes.shared_receives != 0) {
    qp->receives = &find(context.shared_receives, attributes.shared_receives, "receive queue");
    ++qp->receives->users;
  }
  uar.users.push_back(qp.get());
  ++impl_->pds[attributes.pd], ++send.users, ++receive.users;
  const std::uint32_t number = qp->number;
  if (!qp->at_rest()) context.wake(*qp);
  context.qps.emplace(number, std::move(qp));
  return number;
}

void Engine::destroy_qp(std::uint32_t qpn) {
  const Core::Lock lock(*impl_);
  QueuePair& qp = find(impl_->context.qps, qpn, "queue pair");
  impl_->take_doorbells(qp.attributes.uar);
  impl_->requester.end_rescue(qp);
  impl_->requester.leave(qp);
  impl_->responder.abandon(qp);
  std::erase(find(impl_->uars, qp.attributes.uar, "UAR").users, &qp);
  --impl_->pds[qp.attributes.pd];
  --find(impl_->context.cqs, qp.attributes.send_cq, "completion queue").users;
  --find(impl_->context.cqs, qp.attributes.receive_cq, "completion queue").users;
  if (qp.shares_receives()) --qp.receives->users;
  if (qp.busy) std::erase(impl_->context.busy, &qp);
  impl_->context.qps.erase(qpn);
}

void Engine::modify_to_init(std::uint32_t qpn, const QpInit& init) {
  const Core::Lock lock(*impl_);
  impl_->check_present();
  QueuePair& qp = find(impl_->context.qps, qpn, "queue pair");
  check(qp.state == QpState::kReset || qp.state == QpState::kInit, kBadQpState,
        strprintf("queue pair 0x%x: to init from state %u", qpn, static_cast<unsigned>(qp.state)));
  qp.init = init;
  qp.state = QpState::kInit;
}

void Engine::modify_to_rtr(std::uint32_t qpn, const QpRtr& rtr) {
  const Core::Lock lock(*impl_);
  impl_->check_present();
  QueuePair& qp = find(impl_->context.qps, qpn, "queue pair");
  check(qp.state == QpState::kInit, kBadQpState,
        strprintf("queue pair 0x%x: to rtr from state %u", qpn, static_cast<unsigned>(qp.state)));
  check_mtu(rtr.mtu, impl_->context.options.profile);
  check(rtr.remote_qpn < 0xffffff && rtr.log_message_max <= 31 && rtr.log_responder_reads <= 7 &&
            rtr.receive_psn <= kPsnMask && rtr.min_rnr_timer <= 31,
        kBadParameter, "a field of the queue pair context is out of its range");
  check(addresses_of(impl_->context.port, rtr.route).has_value(), kBadParameter,
        strprintf("there is no GID %u", unsigned{rtr.route.gid_index}));
  qp.rtr = rtr;
  qp.state = QpState::kRtr;
}

void Engine::modify_to_rts(std::uint32_t qpn, const QpRts& rts) {
  const Core::Lock lock(*impl_);
  impl_->check_present();
  QueuePair& qp = find(impl_->context.qps, qpn, "queue pair");
  check(qp.state == QpState::kRtr || qp.state == QpState::kRts, kBadQpState,
        strprintf("queue pair 0x%x: to rts from state %u", qpn, static_cast<unsigned>(qp.state)));
  check(rts.retries <= 7 && rts.rnr_retries <= 7 && rts.ack_timeout <= 31 &&
            rts.log_initiator_reads <= 7 && rts.send_psn <= kPsnMask &&
            rts.min_rnr_timer.value_or(0) <= 31,
        kBadParameter, "a field of the queue pair context is out of its range");
  qp.rts = rts;
  qp.state = QpState::kRts;
}

void Engine::set_key(std::uint32_t qpn, std::uint32_t key) {
  const Core::Lock lock(*impl_);
  impl_->check_present();
  find(impl_->context.qps, qpn, "queue pair").init.key = key;
}

void Engine::modify_to_error(std::uint32_t qpn) {
  const Core::Lock lock(*impl_);
  impl_->check_present();
  QueuePair& qp = find(impl_->context.qps, qpn, "queue pair");
  check(qp.state != QpState::kReset, kBadQpState, strprintf("queue pair 0x%x is in reset", qpn));
  qp.state = QpState::kError;
}

void Engine::modify_to_reset(std::uint32_t qpn) {
  const Core::Lock lock(*impl_);
  impl_->check_present();
  QueuePair& qp = find(impl_->context.qps, qpn, "queue pair");
  impl_->take_doorbells(qp.attributes.uar);
  impl_->reset(qp);
}

QpState Engine::state(std::uint32_t qpn) const {
  const Core::Lock lock(*impl_);
  return find(impl_->context.qps, qpn, "queue pair").state;
}

int Engine::listen(EventListener listener) {
  const Core::Lock lock(*impl_);
  const int number = ++impl_->last_listener;
  impl_->context.listeners.emplace(number, std::move(listener));
  return number;
}

void Engine::ignore_events(int listener) {
  const Core::Lock lock(*impl_);
  impl_->context.listeners.erase(listener);
}

void Engine::add_rules(const std::string& rules) {
  const std::vector<Rule> parsed = parse_rules(rules);
  const Core::Lock lock(*impl_);
  impl_->context.rules.add(parsed);
}

std::string Engine::violations() const {
  return impl_->context.checker.text(Checker::Kind::kViolation);
}

std::string Engine::remarks() const { return impl_->context.checker.text(Checker::Kind::kRemark); }

void Engine::remark(const std::string& what) { impl_->context.checker.remark(what); }

Counters Engine::counters() const {
  const Core::Lock lock(*impl_);
  Counters counters = impl_->context.counters;
  counters.violations = impl_->context.checker.count(Checker::Kind::kViolation);
  counters.queue_pairs = impl_->context.qps.size();
  counters.remarks = impl_->context.checker.count(Checker::Kind::kRemark);
  return counters;
}

}  // namespace gshmem::soft
