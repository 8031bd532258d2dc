// Completion queues that verbs has created, and their channels. verbs_poll.cpp reads the queues.
#include "transport/softnic/verbs/verbs_calls.h"

#include "host/base/log.h"

#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <ctime>

namespace gshmem::soft {
namespace {

/// op_own of an entry that nothing has been written to: opcode 15.
constexpr unsigned char kInvalidEntry = MLX5_CQE_INVALID << 4;
/// How long a completion queue waits for ibv_ack_cq_events before it refuses to be destroyed.
constexpr int kAckSeconds = 10;

SoftCompChannel* channel_of(const ibv_cq* cq) {
  return reinterpret_cast<SoftCompChannel*>(cq->channel);
}

/// Waits, as rdma-core does, until the client has acknowledged the events that it has got.
bool wait_for_acks(SoftCq& cq) {
  timespec deadline{};
  ::clock_gettime(CLOCK_REALTIME, &deadline);
  deadline.tv_sec += kAckSeconds;
  ibv_cq_ex& verbs = cq.verbs;
  pthread_mutex_lock(&verbs.mutex);
  int code = 0;
  while (code == 0 && verbs.comp_events_completed != cq.events_taken)
    code = pthread_cond_timedwait(&verbs.cond, &verbs.mutex, &deadline);
  pthread_mutex_unlock(&verbs.mutex);
  return code == 0;
}

/// Drops the events of the queue that the client has not read.
void leave_channel(SoftCq& cq) {
  SoftCompChannel* channel = channel_of(ibv_cq_ex_to_cq(&cq.verbs));
  if (channel == nullptr) return;
  const std::lock_guard lock(channel->mutex);
  std::erase(channel->waiting, &cq);
  --channel->verbs.refcnt;
}

/// Refuses flags and completion fields that this NIC does not support.
void check_wanted(const ibv_cq_init_attr_ex& wanted) {
  constexpr std::uint32_t known = IBV_CQ_INIT_ATTR_MASK_FLAGS | IBV_CQ_INIT_ATTR_MASK_PD;
  constexpr std::uint32_t known_flags =
      IBV_CREATE_CQ_ATTR_SINGLE_THREADED | IBV_CREATE_CQ_ATTR_IGNORE_OVERRUN;
  require_call((wanted.comp_mask & ~known) == 0, EOPNOTSUPP);
  require_call((wanted.flags & ~known_flags) == 0, EOPNOTSUPP);
  require_call((wanted.wc_flags & ~std::uint64_t{IBV_WC_STANDARD_FLAGS}) == 0, EOPNOTSUPP);
  require_call(wanted.comp_vector < kEventQueues, EINVAL);
}

void publish(SoftCq& cq, ibv_context* context, const ibv_cq_init_attr_ex& wanted) {
  ibv_cq_ex& verbs = cq.verbs;
  verbs.context = context;
  verbs.cq_context = wanted.cq_context;
  verbs.channel = wanted.channel;
  verbs.cqe = (1 << cq.log_entries) - 1;
  init_waiting(verbs);
  fill_poll_calls(verbs);
  if (SoftCompChannel* channel = channel_of(ibv_cq_ex_to_cq(&verbs))) {
    const std::lock_guard lock(channel->mutex);
    ++channel->verbs.refcnt;
  }
  ContextState& state = state_of(context);
  const std::lock_guard lock(state.mutex);
  state.cqs[verbs.handle] = &cq;
}

}  // namespace

ibv_cq_ex* create_cq(ibv_context* context, const ibv_cq_init_attr_ex& wanted,
                     std::uint32_t entry_bytes) {
  return pointer_call([&] {
    check_wanted(wanted);
    ContextState& state = state_of(context);
    Engine& engine = state.engine;
    require_call(wanted.cqe > 0 && wanted.cqe < 1u << engine.device().max_log_cq_entries, EINVAL);
    const std::uint32_t log = log2_ceil(wanted.cqe + 1);
    const std::size_t bytes = std::size_t{entry_bytes} << log;
    auto cq = std::make_unique<SoftCq>(bytes);
    cq->log_entries = log;
    cq->entry_bytes = entry_bytes;
    auto* first = static_cast<unsigned char*>(cq->memory.entries());
    for (std::size_t end = entry_bytes; end <= bytes; end += entry_bytes)
      first[end - 1] = kInvalidEntry;
    cq->uar = engine.create_uar(&cq->page);
    state.resources.add(Resource::kUar, cq->uar);
    cq->verbs.handle =
        engine.create_cq({.buffer = cq->memory.entries(),
                          .log_entries = log,
                          .entry_bytes = entry_bytes,
                          .ignore_overrun = (wanted.flags & IBV_CREATE_CQ_ATTR_IGNORE_OVERRUN) != 0,
                          .record = cq->memory.record(),
                          .uar = cq->uar});
    state.resources.add(Resource::kCq, cq->verbs.handle);
    if (wanted.channel != nullptr) engine.watch_cq(cq->verbs.handle);
    publish(*cq, context, wanted);
    return &cq.release()->verbs;
  });
}

}  // namespace gshmem::soft

using namespace gshmem::soft;

extern "C" {

ibv_cq* ibv_create_cq(ibv_context* context, int entries, void* cq_context,
                      ibv_comp_channel* channel, int vector) {
  ibv_cq_init_attr_ex wanted{};
  wanted.cqe = static_cast<std::uint32_t>(entries);
  wanted.cq_context = cq_context;
  wanted.channel = channel;
  wanted.comp_vector = static_cast<std::uint32_t>(vector);
  ibv_cq_ex* cq = create_cq(context, wanted, kCqeBytes);
  return cq == nullptr ? nullptr : ibv_cq_ex_to_cq(cq);
}

int ibv_destroy_cq(ibv_cq* verbs) {
  return errno_call([&] {
    auto* cq = whole<SoftCq>(verbs);
    ContextState& state = state_of(verbs->context);
    if (!wait_for_acks(*cq)) {
      GSHMEM_WARN(
          "soft NIC: ibv_destroy_cq: %u events of completion queue 0x%x are not acknowledged",
          cq->events_taken - verbs->comp_events_completed, verbs->handle);
      throw CallError{EBUSY};
    }
    require_call(
        state.resources.remove(Resource::kCq, verbs->handle) == Resources::Removal::kRemoved,
        EBUSY);
    {
      const std::lock_guard lock(state.mutex);
      state.cqs.erase(verbs->handle);
    }
    state.engine.destroy_cq(verbs->handle);
    static_cast<void>(state.resources.remove(Resource::kUar, cq->uar));
    state.engine.destroy_uar(cq->uar);
    leave_channel(*cq);
    destroy_waiting(*verbs);
    delete cq;
  });
}

int ibv_resize_cq(ibv_cq*, int) { return ENOSYS; }

ibv_comp_channel* ibv_create_comp_channel(ibv_context* context) {
  return pointer_call([&] {
    auto channel = std::make_unique<SoftCompChannel>();
    channel->events = gshmem::Fd(::eventfd(0, EFD_CLOEXEC | EFD_SEMAPHORE));
    require_call(static_cast<bool>(channel->events), errno);
    channel->verbs = {context, channel->events.get(), 0};
    return &channel.release()->verbs;
  });
}

int ibv_destroy_comp_channel(ibv_comp_channel* verbs) {
  auto* channel = reinterpret_cast<SoftCompChannel*>(verbs);
  {
    const std::lock_guard lock(channel->mutex);
    if (verbs->refcnt != 0) return EBUSY;
  }
  delete channel;
  return 0;
}

// It blocks until there is an event, unless the client has made the descriptor non-blocking. An
// event whose queue is gone is skipped.
int ibv_get_cq_event(ibv_comp_channel* verbs, ibv_cq** out, void** cq_context) {
  auto* channel = reinterpret_cast<SoftCompChannel*>(verbs);
  for (;;) {
    std::uint64_t one = 0;
    if (::read(channel->events.get(), &one, sizeof one) != sizeof one) return -1;
    SoftCq* cq = nullptr;
    {
      const std::lock_guard lock(channel->mutex);
      if (channel->waiting.empty()) continue;
      cq = channel->waiting.front();
      channel->waiting.pop_front();
    }
    pthread_mutex_lock(&cq->verbs.mutex);
    ++cq->events_taken;
    pthread_mutex_unlock(&cq->verbs.mutex);
    {
      const std::lock_guard lock(cq->mutex);
      ++cq->sequence;
    }
    *out = ibv_cq_ex_to_cq(&cq->verbs);
    *cq_context = cq->verbs.cq_context;
    return 0;
  }
}

void ibv_ack_cq_events(ibv_cq* cq, unsigned count) {
  pthread_mutex_lock(&cq->mutex);
  cq->comp_events_completed += count;
  pthread_cond_signal(&cq->cond);
  pthread_mutex_unlock(&cq->mutex);
}

}  // extern "C"
