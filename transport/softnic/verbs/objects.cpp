#include "transport/softnic/verbs/objects.h"

#include "host/base/log.h"

#include <fcntl.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <new>

namespace gshmem::soft {
namespace {

/// Destroys all objects of a kind. If the engine refuses one, the others are destroyed
/// nevertheless.
template <class Destroy>
void destroy_all(Resources& resources, Resource kind, Destroy destroy) {
  for (const std::uint32_t number : resources.take(kind)) {
    try {
      destroy(number);
    } catch (const EngineError& error) {
      GSHMEM_WARN("soft NIC: closing the device: object 0x%x: %s", number, error.what());
    }
  }
}

/// Requires the engine's lock and the context's.
void tell_channel(SoftCq& cq) {
  auto* channel = reinterpret_cast<SoftCompChannel*>(cq.verbs.channel);
  const std::lock_guard lock(channel->mutex);
  channel->waiting.push_back(&cq);
  const std::uint64_t one = 1;
  (void)!::write(channel->events.get(), &one, sizeof one);
}

ibv_event_type qp_event(DeviceEvent::Kind kind) {
  if (kind == DeviceEvent::Kind::kQueueFatal) return IBV_EVENT_QP_FATAL;
  if (kind == DeviceEvent::Kind::kLastReceive) return IBV_EVENT_QP_LAST_WQE_REACHED;
  return kind == DeviceEvent::Kind::kAccessError ? IBV_EVENT_QP_ACCESS_ERR : IBV_EVENT_QP_REQ_ERR;
}

}  // namespace

ContextState::ContextState(Engine& of) : engine(of), uars(of, resources), firmware(of, resources) {
  int ends[2];
  require_call(::pipe2(ends, O_CLOEXEC) == 0, errno);
  events_read = Fd(ends[0]);
  events_write = Fd(ends[1]);
  require_call(::fcntl(events_write.get(), F_SETFL, O_NONBLOCK) == 0, errno);
  listener = engine.listen([this](const DeviceEvent& event) { take(event); });
}

/// Receives events of the port and of verbs objects. Events of DevX come by its event channels.
void ContextState::take(const DeviceEvent& event) {
  const std::lock_guard lock(mutex);
  const auto qp = qps.find(event.number);
  const auto cq = cqs.find(event.number);
  ibv_async_event told{};
  switch (event.kind) {
    case DeviceEvent::Kind::kPortDown:
      told.event_type = IBV_EVENT_PORT_ERR;
      told.element.port_num = 1;
      break;
    case DeviceEvent::Kind::kPortUp:
      told.event_type = IBV_EVENT_PORT_ACTIVE;
      told.element.port_num = 1;
      break;
    case DeviceEvent::Kind::kDeviceGone:
      told.event_type = IBV_EVENT_DEVICE_FATAL;
      break;
    case DeviceEvent::Kind::kCompletion:
      if (cq != cqs.end()) tell_channel(*cq->second);
      return;
    case DeviceEvent::Kind::kCqError:
      if (cq == cqs.end()) return;
      told.event_type = IBV_EVENT_CQ_ERR;
      told.element.cq = ibv_cq_ex_to_cq(&cq->second->verbs);
      break;
    case DeviceEvent::Kind::kKeyViolation:
      return;  // no event of verbs
    case DeviceEvent::Kind::kLastReceive:
    case DeviceEvent::Kind::kQueueFatal:
    case DeviceEvent::Kind::kInvalidRequest:
    case DeviceEvent::Kind::kAccessError:
      if (qp == qps.end()) return;
      told.event_type = qp_event(event.kind);
      told.element.qp = &qp->second->verbs.qp_base;
      break;
  }
  (void)!::write(events_write.get(), &told, sizeof(told));  // full: the client does not listen
  if (event.kind == DeviceEvent::Kind::kDeviceGone) events_write = Fd();
}

ContextState::~ContextState() {
  engine.ignore_events(listener);
  destroy_all(resources, Resource::kQp, [&](std::uint32_t n) { engine.destroy_qp(n); });
  destroy_all(resources, Resource::kDct, [&](std::uint32_t n) { engine.destroy_target(n); });
  destroy_all(resources, Resource::kSrq, [&](std::uint32_t n) { engine.destroy_receives(n); });
  destroy_all(resources, Resource::kCq, [&](std::uint32_t n) { engine.destroy_cq(n); });
  destroy_all(resources, Resource::kRegion, [&](std::uint32_t n) { engine.destroy_region(n); });
  destroy_all(resources, Resource::kUar, [&](std::uint32_t n) { engine.destroy_uar(n); });
  destroy_all(resources, Resource::kPd, [&](std::uint32_t n) { engine.destroy_pd(n); });
}

QueueMemory::QueueMemory(std::size_t entry_bytes) : record_offset_(entry_bytes) {
  constexpr std::size_t kPageBytes = 4096, kRecordBytes = 2 * sizeof(std::uint32_t);
  const std::size_t bytes = entry_bytes + kRecordBytes;
  void* memory = nullptr;
  if (::posix_memalign(&memory, kPageBytes, bytes) != 0) throw std::bad_alloc();
  memory_.reset(memory);
  std::memset(memory, 0, bytes);
}

int errno_of(std::uint8_t status) {
  switch (static_cast<Status>(status)) {
    case Status::kOk:
      return 0;
    case Status::kExceedsLimit:
      return ENOMEM;
    case Status::kNoResource:
      return EAGAIN;
    case Status::kBadOperation:
    case Status::kBadParameter:
    case Status::kBadResource:
    case Status::kBadResourceState:
    case Status::kBadIndex:
    case Status::kBadQpState:
      return EINVAL;
    case Status::kInternal:
    case Status::kBadInputLength:
    case Status::kBadOutputLength:
      break;
  }
  return EIO;
}

}  // namespace gshmem::soft
