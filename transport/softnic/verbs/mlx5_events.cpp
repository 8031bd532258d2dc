// DevX event channels of libmlx5.so.1 (Linux drivers/infiniband/hw/mlx5/devx.c, devx async event
// files): a client subscribes to events of its queues and reads the cookies that it gave. Only
// channels without event data (MLX5DV_DEVX_CREATE_EVENT_CHANNEL_FLAGS_OMIT_EV_DATA).
#include "transport/softnic/verbs/objects.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <vector>

namespace gshmem::soft {
namespace {

struct Subscription {
  std::uint16_t made_by;  ///< opcode that made the object
  std::uint32_t number;
  std::uint16_t event;
  std::uint64_t cookie;
};

/// Completion queues have numbers of their own; queue pairs and DC targets share theirs.
bool is_maker(std::uint16_t opcode, const DeviceEvent& event) {
  return (opcode == kCreateCq) == (event.kind == DeviceEvent::Kind::kCqError);
}

struct SoftChannel {
  mlx5dv_devx_event_channel verbs{};  ///< first: its address is that of the whole
  Fd read_end, write_end;
  std::mutex mutex;
  std::vector<Subscription> subscriptions;
  Engine& engine;
  int listener = 0;

  explicit SoftChannel(Engine& of) : engine(of) {
    int ends[2];
    require_call(::pipe2(ends, O_CLOEXEC) == 0, errno);
    read_end = Fd(ends[0]);
    write_end = Fd(ends[1]);
    require_call(::fcntl(write_end.get(), F_SETFL, O_NONBLOCK) == 0, errno);
    verbs.fd = read_end.get();
    listener = engine.listen([this](const DeviceEvent& event) { take(event); });
  }
  ~SoftChannel() { engine.ignore_events(listener); }
  SoftChannel(const SoftChannel&) = delete;

 private:
  void take(const DeviceEvent& event) {
    const std::lock_guard lock(mutex);
    if (event.kind == DeviceEvent::Kind::kDeviceGone) write_end = Fd();
    for (const Subscription& one : subscriptions) {
      if (one.event != static_cast<std::uint16_t>(event.kind) || one.number != event.number ||
          !is_maker(one.made_by, event)) {
        continue;
      }
      (void)!::write(write_end.get(), &one.cookie, sizeof(one.cookie));  // full: nobody listens
    }
  }
};

}  // namespace
}  // namespace gshmem::soft

using namespace gshmem::soft;

extern "C" {

mlx5dv_devx_event_channel* mlx5dv_devx_create_event_channel(
    ibv_context* context, mlx5dv_devx_create_event_channel_flags flags) {
  return pointer_call([&] {
    require_call(flags == MLX5DV_DEVX_CREATE_EVENT_CHANNEL_FLAGS_OMIT_EV_DATA, EOPNOTSUPP);
    return &std::make_unique<SoftChannel>(engine_of(context)).release()->verbs;
  });
}

void mlx5dv_devx_destroy_event_channel(mlx5dv_devx_event_channel* channel) {
  delete whole<SoftChannel>(channel);
}

int mlx5dv_devx_subscribe_devx_event(mlx5dv_devx_event_channel* channel, mlx5dv_devx_obj* obj,
                                     std::uint16_t events_bytes, std::uint16_t events[],
                                     std::uint64_t cookie) {
  return errno_call([&] {
    require_call(obj != nullptr && events_bytes > 0 && events_bytes % sizeof(*events) == 0, EINVAL);
    const std::uint16_t maker = obj->created_by;
    require_call(maker == kCreateCq || maker == kCreateQp || maker == kCreateDct, EOPNOTSUPP);
    auto* soft = whole<SoftChannel>(channel);
    const std::lock_guard lock(soft->mutex);
    for (std::size_t i = 0; i < events_bytes / sizeof(*events); ++i) {
      soft->subscriptions.push_back({obj->created_by, obj->number, events[i], cookie});
    }
  });
}

// It blocks until something happens, unless the client has made the descriptor non-blocking.
ssize_t mlx5dv_devx_get_event(mlx5dv_devx_event_channel* channel,
                              mlx5dv_devx_async_event_hdr* header, std::size_t bytes) {
  if (bytes < sizeof(header->cookie)) {
    errno = EINVAL;
    return -1;
  }
  const ssize_t got = ::read(channel->fd, &header->cookie, sizeof(header->cookie));
  if (got == 0) errno = EIO;  // as of a device that is gone
  return got == static_cast<ssize_t>(sizeof(header->cookie)) ? got : -1;
}

}  // extern "C"
