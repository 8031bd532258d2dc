#include "transport/nic/mlx5/events.h"

#include "host/base/system_call.h"
#include "host/base/thread.h"

#include <fcntl.h>
#include <sys/eventfd.h>

#include <cerrno>
#include <cstring>

namespace gshmem::nic::mlx5 {
namespace {

// Event types of the device: linux include/linux/mlx5/device.h enum mlx5_event.
constexpr std::uint16_t kCqError = 0x04, kQueueFatal = 0x05, kInvalidRequest = 0x10,
                        kAccessError = 0x11;

void set_non_blocking(int fd) {
  const long flags = check_errno(fcntl(fd, F_GETFL), "fcntl(F_GETFL)");
  check_errno(fcntl(fd, F_SETFL, static_cast<int>(flags) | O_NONBLOCK), "fcntl(O_NONBLOCK)");
}

const char* device_event_words(std::uint16_t event) {
  switch (event) {
    case kCqError:
      return "its completion queue broke: the device could not write a completion";
    case kQueueFatal:
      return "the device broke it off: it could not read an entry or a doorbell record";
    case kInvalidRequest:
      return "the other end sent a request that is not valid here";
    case kAccessError:
      return "the other end asked for memory that it may not touch (a stale key?)";
    default:
      return "an event that gshmem does not know";
  }
}

}  // namespace

std::optional<Event> event_of(ibv_event_type type, const std::string& device) {
  using Kind = Event::Kind;
  switch (type) {
    case IBV_EVENT_PORT_ERR:
      return Event{.kind = Kind::kPortDown};
    case IBV_EVENT_PORT_ACTIVE:
      return Event{.kind = Kind::kPortUp};
    case IBV_EVENT_LID_CHANGE:
      return Event{.kind = Kind::kPortChange, .text = "got another LID"};
    case IBV_EVENT_GID_CHANGE:
      return Event{.kind = Kind::kPortChange, .text = "got other GIDs"};
    case IBV_EVENT_PKEY_CHANGE:
      return Event{.kind = Kind::kPortChange, .text = "got other partition keys"};
    case IBV_EVENT_SM_CHANGE:
      return Event{.kind = Kind::kPortChange, .text = "got another subnet manager"};
    case IBV_EVENT_DEVICE_FATAL:
      return Event{.text = device + ": the device failed and is being reset; see dmesg"};
    case IBV_EVENT_CQ_ERR:
      return Event{.text = device + ": a completion queue broke (overrun, or its memory is gone)"};
    case IBV_EVENT_QP_FATAL:
      return Event{.text = device + ": a queue pair failed; the completions of its queue say why"};
    case IBV_EVENT_QP_REQ_ERR:
    case IBV_EVENT_QP_ACCESS_ERR:
      // The only queue pair of verbs that answers is the target of dynamic connections.
      return Event{.kind = Kind::kRefusal,
                   .text = device +
                           ": another PE asked for memory that it may not touch (a stale "
                           "key?)"};
    default:
      return {};
  }
}

EventThread::EventThread(const Device& device, Callback on_event)
    : device_(device), on_event_(std::move(on_event)) {
  wake_ = Fd(static_cast<int>(check_errno(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK), "eventfd")));
  set_non_blocking(device.context->async_fd);
  const VerbsApi& api = device.api;
  if (!api.create_event_channel || !api.destroy_event_channel || !api.subscribe_event ||
      !api.get_event) {
    return;
  }
  mlx5dv_devx_event_channel* channel = api.create_event_channel(
      device.context.get(), MLX5DV_DEVX_CREATE_EVENT_CHANNEL_FLAGS_OMIT_EV_DATA);
  if (channel == nullptr) {
    GSHMEM_DEBUG("%s: no DevX events: %s", device.name.c_str(), std::strerror(errno));
    return;
  }
  channel_ = own(channel, api.destroy_event_channel, "mlx5dv_devx_destroy_event_channel");
  set_non_blocking(channel->fd);
}

void EventThread::watch(int queue, mlx5dv_devx_obj* qp, mlx5dv_devx_obj* cq) noexcept {
  if (channel_ == nullptr) return;
  for (const std::uint16_t event : {kQueueFatal, kInvalidRequest, kAccessError}) {
    subscribe(qp, event, queue);
  }
  subscribe(cq, kCqError, queue);
}

void EventThread::subscribe(mlx5dv_devx_obj* object, std::uint16_t event, int queue) {
  // The cookie is all that an event carries: queue and event type.
  const std::uint64_t cookie = static_cast<std::uint64_t>(queue) << 16 | event;
  std::uint16_t events[] = {event};
  const int result =
      device_.api.subscribe_event(channel_.get(), object, sizeof(events), events, cookie);
  if (result != 0) {
    GSHMEM_DEBUG("queue %d: event 0x%x cannot be watched: error %d", queue, event, result);
  }
}

void EventThread::start() {
  if (!thread_.joinable()) thread_ = start_thread([this] { run(); });
}

void EventThread::stop() noexcept {
  if (!thread_.joinable()) return;
  const std::uint64_t one = 1;
  if (write(wake_.get(), &one, sizeof(one)) < 0) GSHMEM_WARN("eventfd: %s", std::strerror(errno));
  thread_.join();
}

void EventThread::run() noexcept {
  // When the device is gone, the descriptor of DevX stays readable for ever, and POLLRDHUP, which
  // must be requested, shows it (linux drivers/infiniband/hw/mlx5/devx.c devx_async_event_poll).
  // The descriptor of verbs has POLLERR (core/uverbs_main.c ib_uverbs_event_poll).
  constexpr short kEvents = POLLIN | POLLRDHUP;
  pollfd fds[3] = {{wake_.get(), POLLIN, 0},
                   {device_.context->async_fd, kEvents, 0},
                   {channel_ != nullptr ? channel_->fd : -1, kEvents, 0}};
  bool gone = false;
  for (;;) {
    try {
      poll_once(fds, -1);
    } catch (const Error& error) {
      GSHMEM_WARN("events of %s: %s", device_.name.c_str(), error.what());
      return;
    }
    if (fds[0].revents != 0) return;
    try {
      if ((fds[1].revents & POLLIN) != 0) read_verbs_events();
      if ((fds[2].revents & POLLIN) != 0) read_device_events();
    } catch (const std::exception& error) {
      GSHMEM_WARN("events of %s: %s", device_.name.c_str(), error.what());
    }
    for (pollfd& each : fds) {
      if ((each.revents & (POLLRDHUP | POLLERR | POLLHUP | POLLNVAL)) == 0) continue;
      each.fd = -1;
      if (!gone)
        on_event_({.text = device_.name + ": the device is gone or being reset; see dmesg"});
      gone = true;
    }
  }
}

void EventThread::read_verbs_events() {
  ibv_async_event event{};
  while (device_.api.get_async_event(device_.context.get(), &event) == 0) {
    const ibv_event_type type = event.event_type;
    const std::optional<Event> meaning =
        event_of(type, strprintf("%s port %d", device_.name.c_str(), device_.port));
    const bool ours = meaning && (!meaning->of_port() || event.element.port_num == device_.port);
    device_.api.ack_async_event(&event);
    if (ours) {
      Event told = *meaning;
      if (type == IBV_EVENT_LID_CHANGE) told.text = lid_text();
      on_event_(told);
    } else {
      GSHMEM_DEBUG("%s: event %d", device_.name.c_str(), static_cast<int>(type));
    }
  }
}

std::string EventThread::lid_text() const {
  const int lid = query_port(device_.api, device_.context.get(), device_.port).lid;
  return strprintf("got LID %d, and had %d when it was opened", lid, device_.port_attributes.lid);
}

void EventThread::read_device_events() {
  mlx5dv_devx_async_event_hdr header{};
  while (device_.api.get_event(channel_.get(), &header, sizeof(header)) > 0) {
    const auto event = static_cast<std::uint16_t>(header.cookie);
    const bool refusal = event == kInvalidRequest || event == kAccessError;
    on_event_({.kind = refusal ? Event::Kind::kRefusal : Event::Kind::kFault,
               .text = device_event_words(event),
               .queue = static_cast<int>(header.cookie >> 16)});
  }
}

}  // namespace gshmem::nic::mlx5
