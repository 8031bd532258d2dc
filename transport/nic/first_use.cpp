#include "transport/nic/first_use.h"

#include "host/base/log.h"
#include "host/base/thread.h"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <ctime>

namespace gshmem::nic {
namespace {

constexpr long kShortestNs = 20'000, kLongestNs = 1'000'000;

}  // namespace

FirstUse::FirstUse(QueueSet& queues, Outside outside)
    : queues_(queues), outside_(std::move(outside)), thread_(start_thread([this] { run(); })) {}

FirstUse::~FirstUse() {
  stop_.store(true, std::memory_order_release);  // pairs with run
  wake();
  thread_.join();
}

void FirstUse::take(int from, std::span<const std::byte> message) {
  {
    const std::lock_guard lock(mutex_);
    messages_.emplace_back(from, Message(message.begin(), message.end()));
  }
  wake();
}

void FirstUse::wake() {
  __atomic_store_n(outside_.asked, 1u, __ATOMIC_RELEASE);
  ::syscall(SYS_futex, outside_.asked, FUTEX_WAKE_PRIVATE, 1);
}

/// Without wake-ups the thread polls at least once per millisecond.
void FirstUse::run() {
  long nap_ns = kShortestNs;
  while (!stop_.load(std::memory_order_acquire)) {
    // Acquire pairs with the store of queue_connect (device/network/queue.h), which comes after its
    // request.
    if (__atomic_exchange_n(outside_.asked, 0u, __ATOMIC_ACQ_REL) != 0) {
      nap_ns = kShortestNs;
      serve();
      continue;
    }
    const timespec limit{0, nap_ns};
    nap_ns = std::min(nap_ns * 2, kLongestNs);
    ::syscall(SYS_futex, outside_.asked, FUTEX_WAIT_PRIVATE, 0,
              outside_.is_woken ? nullptr : &limit);
  }
}

void FirstUse::serve() {
  int pe = -1;  // the peer it concerns
  try {
    std::deque<std::pair<int, Message>> messages;
    {
      const std::lock_guard lock(mutex_);
      messages.swap(messages_);
    }
    for (const auto& [from, message] : messages) {
      pe = from;
      read(from, message);
    }
    for (const Pair& pair : queues_.asked()) {
      pe = pair.pe;
      begin(pair);
    }
  } catch (const std::exception& error) {
    const auto* const known = dynamic_cast<const Error*>(&error);
    outside_.on_error(Error(known != nullptr ? known->code() : GSHMEMX_ERROR_INTERNAL,
                            strprintf("no connection to PE %d: %s", pe, error.what())),
                      pe);
  }
}

void FirstUse::begin(const Pair& pair) {
  Stage& stage = stages_[pair];
  if (stage != Stage::kNothing) return;  // the connection is already in progress
  stage = Stage::kOffered;
  const QueueSet::QueueInfos mine = queues_.create(pair);
  if (pair.pe != outside_.my_pe) return send(Kind::kOffer, pair, mine);
  queues_.connect(pair, mine);
  queues_.release(pair);
}

void FirstUse::read(int from, std::span<const std::byte> message) {
  Header header{};
  QueueSet::QueueInfos theirs;
  const std::size_t bytes = message.size() - std::min(message.size(), sizeof(header));
  require(message.size() >= sizeof(header) && bytes % sizeof(theirs[0]) == 0,
          GSHMEMX_ERROR_INTERNAL, strprintf("a message of %zu bytes", message.size()));
  std::memcpy(&header, message.data(), sizeof(header));
  theirs.resize(bytes / sizeof(theirs[0]));
  std::ranges::copy(message.subspan(sizeof(header)),
                    std::as_writable_bytes(std::span(theirs)).begin());

  const Pair pair{header.context, from};
  Stage& stage = stages_[pair];
  if (header.kind == Kind::kOffer && stage == Stage::kNothing) {
    const QueueSet::QueueInfos mine = queues_.create(pair);
    queues_.connect(pair, theirs);
    stage = Stage::kConnected;
    return send(Kind::kAnswer, pair, mine);
  }
  if (header.kind != Kind::kConfirm && stage == Stage::kOffered) {
    queues_.connect(pair, theirs);
    stage = Stage::kConnected;
    send(Kind::kConfirm, pair, {});
    if (header.kind == Kind::kOffer) return;  // both have sent an offer: the other PE confirms, too
  } else {
    require(header.kind == Kind::kConfirm && stage == Stage::kConnected, GSHMEMX_ERROR_INTERNAL,
            strprintf("a message of kind %u at stage %d", static_cast<unsigned>(header.kind),
                      static_cast<int>(stage)));
  }
  queues_.release(pair);
  stage = Stage::kReleased;
}

void FirstUse::send(Kind kind, const Pair& pair, const QueueSet::QueueInfos& infos) {
  const Header header{kind, pair.context};
  Message message(sizeof(header));
  std::memcpy(message.data(), &header, sizeof(header));
  const std::span<const std::byte> told = std::as_bytes(std::span(infos));
  message.insert(message.end(), told.begin(), told.end());
  outside_.send(pair.pe, message);
}

}  // namespace gshmem::nic
