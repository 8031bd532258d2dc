// The engine's functions without an engine: numbers and states, so that the firmware's own checks
// can be told from the engine's, and run as fast as a fuzzer wants. Linked instead of libgshnic.
#include "transport/nic/soft/engine.h"

#include <cstring>
#include <map>
#include <mutex>

namespace gshmem::soft {

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

DeviceAttributes Engine::device() const {
  DeviceAttributes attributes;
  attributes.lid = 7;
  attributes.guid = 0x0002c90300000007;
  attributes.gids.push_back({{0xfe, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 7}, {}});
  return attributes;
}

std::uint32_t Engine::create_pd() { return impl_->next(); }
void Engine::destroy_pd(std::uint32_t) {}
std::uint32_t Engine::create_uar(void** page, std::uint32_t) {
  alignas(4096) static char page_bytes[4096];  // one page for all: nothing reads it
  *page = page_bytes;
  return impl_->next();
}
void Engine::destroy_uar(std::uint32_t) {}
std::uint32_t Engine::create_receives(const ReceiveAttributes&) { return impl_->next(); }
void Engine::destroy_receives(std::uint32_t) {}
std::uint32_t Engine::create_region(const RegionAttributes&) { return impl_->next(); }
void Engine::destroy_region(std::uint32_t) {}
std::uint32_t Engine::create_cq(const CqAttributes&) { return impl_->next(); }
void Engine::destroy_cq(std::uint32_t) {}
std::uint32_t Engine::create_qp(const QpAttributes&) {
  const std::uint32_t number = impl_->next();
  const std::lock_guard lock(impl_->mutex);
  impl_->queue_pairs[number] = QpState::kReset;
  return number;
}
void Engine::destroy_qp(std::uint32_t qpn) {
  const std::lock_guard lock(impl_->mutex);
  impl_->queue_pairs.erase(qpn);
}
void Engine::modify_to_init(std::uint32_t qpn, const QpInit&) { impl_->move(qpn, QpState::kInit); }
void Engine::modify_to_rtr(std::uint32_t qpn, const QpRtr&) { impl_->move(qpn, QpState::kRtr); }
void Engine::modify_to_rts(std::uint32_t qpn, const QpRts&) { impl_->move(qpn, QpState::kRts); }
void Engine::modify_to_error(std::uint32_t qpn) { impl_->move(qpn, QpState::kError); }
void Engine::modify_to_reset(std::uint32_t qpn) { impl_->move(qpn, QpState::kReset); }
QpState Engine::state(std::uint32_t qpn) const {
  const std::lock_guard lock(impl_->mutex);
  return impl_->queue_pairs.at(qpn);
}
std::string Engine::violations() const { return {}; }
void Engine::remark(const std::string&) {}

}  // namespace gshmem::soft
