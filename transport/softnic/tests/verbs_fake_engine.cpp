// The engine's functions without an engine: numbers and states, so that tests see the firmware's
// own checks, at the speed of a fuzzer. Linked instead of libgshnic.
#include "transport/softnic/tests/verbs_fake_engine.h"

#include "host/base/error.h"

#include <cstring>
#include <map>
#include <mutex>

namespace verbs_test {

gshmem::soft::DeviceAttributes& fake_device() {
  static gshmem::soft::DeviceAttributes attributes = [] {
    gshmem::soft::DeviceAttributes made;
    made.lid = 7;
    made.guid = 0x0002c90300000007;
    made.gids.push_back({{0xfe, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 7}, {}});
    return made;
  }();
  return attributes;
}

std::vector<std::string>* told = nullptr;

}  // namespace verbs_test

namespace gshmem::soft {
namespace {

template <class... Values>
void tell(const char* format, Values... values) {
  if (verbs_test::told != nullptr) verbs_test::told->push_back(strprintf(format, values...));
}

void tell(const char* call, std::uint32_t number) {
  if (verbs_test::told != nullptr) verbs_test::told->push_back(strprintf("%s %u", call, number));
}

std::string text_of(const ReceiveAttributes& queue) {
  return strprintf("pd %u entries %p log %u of log %u record %p order %d", queue.pd, queue.entries,
                   queue.log_entries, queue.log_entry_bytes, queue.record,
                   static_cast<int>(queue.order));
}

std::string text_of(const QpInit& access) {
  return strprintf("write %d read %d atomic %d mode %d", access.remote_write, access.remote_read,
                   access.remote_atomic, static_cast<int>(access.atomic_mode));
}

}  // namespace

struct Engine::Impl {
  std::mutex mutex;
  std::uint32_t last = 0x40;
  std::map<std::uint32_t, QpState> queue_pairs;

  std::uint32_t next() {
    const std::lock_guard lock(mutex);
    return ++last;
  }
  void move(std::uint32_t qpn, QpState to) {
    const std::lock_guard lock(mutex);
    queue_pairs.at(qpn) = to;
  }
};

Engine::Engine(const EngineOptions&) : impl_(new Impl) {}
Engine::~Engine() = default;
Engine& Engine::get(int) {
  static Engine engine{EngineOptions{}};
  return engine;
}

DeviceAttributes Engine::device() const { return verbs_test::fake_device(); }

std::uint32_t Engine::create_pd() { return impl_->next(); }
void Engine::destroy_pd(std::uint32_t pd) { tell("destroy_pd", pd); }
std::uint32_t Engine::create_uar(void** page, std::uint32_t) {
  alignas(4096) static char page_bytes[4096];  // one page for all: nothing reads it
  *page = page_bytes;
  return impl_->next();
}
void Engine::destroy_uar(std::uint32_t uar) { tell("destroy_uar", uar); }
std::uint32_t Engine::create_receives(const ReceiveAttributes& queue) {
  tell("create_receives %s", text_of(queue).c_str());
  return impl_->next();
}
void Engine::destroy_receives(std::uint32_t number) { tell("destroy_receives", number); }
std::uint32_t Engine::create_region(const RegionAttributes& region) {
  tell("create_region pd %u bytes %llu access %x", region.pd,
       static_cast<unsigned long long>(region.bytes), region.access);
  return impl_->next();
}
void Engine::destroy_region(std::uint32_t key) { tell("destroy_region", key); }
std::uint32_t Engine::create_cq(const CqAttributes& cq) {
  tell("create_cq buffer %p log %u of %u collapsed %d oi %d record %p uar %u", cq.buffer,
       cq.log_entries, cq.entry_bytes, cq.collapsed, cq.ignore_overrun, cq.record, cq.uar);
  return impl_->next();
}
void Engine::destroy_cq(std::uint32_t cqn) { tell("destroy_cq", cqn); }
std::uint32_t Engine::create_qp(const QpAttributes& qp) {
  tell(
      "create_qp st %d pd %u queue %p log %u record %p cqs %u %u uar %u index %u srq %u no_record "
      "%d",
      static_cast<int>(qp.service), qp.pd, qp.send_queue, qp.log_send_entries, qp.record,
      qp.send_cq, qp.receive_cq, qp.uar, qp.user_index, qp.shared_receives, qp.no_record);
  if (qp.receives.entries != nullptr) tell("receives %s", text_of(qp.receives).c_str());
  const std::uint32_t number = impl_->next();
  const std::lock_guard lock(impl_->mutex);
  impl_->queue_pairs[number] = QpState::kReset;
  return number;
}
void Engine::destroy_qp(std::uint32_t qpn) {
  tell("destroy_qp", qpn);
  const std::lock_guard lock(impl_->mutex);
  impl_->queue_pairs.erase(qpn);
}
std::uint32_t Engine::create_target(const TargetAttributes& target) {
  tell("create_target pd %u srq %u cq %u index %u key %llx mtu %u timer %u gid %d hops %d %s",
       target.pd, target.receives, target.cq, target.user_index,
       static_cast<unsigned long long>(target.access_key), target.mtu, target.min_rnr_timer,
       target.gid_index, target.hop_limit, text_of(target.access).c_str());
  return impl_->next();
}
void Engine::destroy_target(std::uint32_t number) { tell("destroy_target", number); }
std::uint32_t Engine::key_violations(std::uint32_t) const { return 9; }
void Engine::modify_to_init(std::uint32_t qpn, const QpInit& init) {
  tell("init %s", text_of(init).c_str());
  impl_->move(qpn, QpState::kInit);
}
void Engine::modify_to_rtr(std::uint32_t qpn, const QpRtr& rtr) {
  tell("rtr to %u lid %u mac %llx mtu %u message %u reads %u psn %u timer %u %s", rtr.remote_qpn,
       rtr.route.lid, static_cast<unsigned long long>(rtr.route.mac), rtr.mtu, rtr.log_message_max,
       rtr.log_responder_reads, rtr.receive_psn, rtr.min_rnr_timer,
       rtr.access ? text_of(*rtr.access).c_str() : "");
  impl_->move(qpn, QpState::kRtr);
}
void Engine::modify_to_rts(std::uint32_t qpn, const QpRts& rts) {
  tell("rts retries %u rnr %u timeout %u reads %u psn %u timer %d", rts.retries, rts.rnr_retries,
       rts.ack_timeout, rts.log_initiator_reads, rts.send_psn,
       rts.min_rnr_timer ? static_cast<int>(*rts.min_rnr_timer) : -1);
  impl_->move(qpn, QpState::kRts);
}
void Engine::modify_to_error(std::uint32_t qpn) { impl_->move(qpn, QpState::kError); }
void Engine::modify_to_reset(std::uint32_t qpn) {
  tell("reset", qpn);
  impl_->move(qpn, QpState::kReset);
}
QpState Engine::state(std::uint32_t qpn) const {
  const std::lock_guard lock(impl_->mutex);
  return impl_->queue_pairs.at(qpn);
}
void Engine::watch_cq(std::uint32_t cqn) { tell("watch_cq", cqn); }
int Engine::listen(EventListener) { return static_cast<int>(impl_->next()); }
void Engine::ignore_events(int) {}
int Engine::devices() { return 1; }
bool Engine::gone() const { return false; }
std::string Engine::violations() const { return {}; }
void Engine::remark(const std::string& what) { tell("remark %s", what.c_str()); }

}  // namespace gshmem::soft
