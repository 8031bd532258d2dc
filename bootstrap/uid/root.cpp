#include "bootstrap/uid/root.h"

#include "bootstrap/uid/connection.h"
#include "host/base/at_fork.h"
#include "host/base/descriptors.h"
#include "host/base/log.h"
#include "host/base/thread.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace gshmem::bootstrap {
namespace {

constexpr double kStopSeconds = 5;  // for ranks to take what they are owed
constexpr std::size_t kOtherDescriptors = 256;
constexpr double kAcceptPauseSeconds = 0.1;  // when the process is out of descriptors

struct Peer {
  explicit Peer(Fd fd) : connection(std::move(fd), {FrameType::kHello}) {}
  Connection connection;
  int rank = -1;                          ///< -1 = a stranger
  Deadline handshake{kHandshakeSeconds};  ///< of a stranger or one that is refused
  bool refused = false;                   ///< has been told why; stays until it hangs up
  bool left = false;                      ///< said goodbye
  bool done = false;                      ///< to be dropped
};

/// The loop that the thread runs; nothing in it is shared.
class RootLoop {
 public:
  RootLoop(std::vector<Listener> listeners, const Job& job, const RootService::Limits& limits,
           int wake)
      : job_(job), limits_(limits), wake_(wake) {
    for (Listener& listener : listeners) listeners_.push_back(std::move(listener.fd));
  }

  void run() {
    while (!finished()) {
      wait();
      if (!stopping_ && (polled_[0].revents & POLLIN) != 0) stop();
      for (std::size_t i = 0; i < polled_peers_; ++i) {
        if (polled_[1 + polled_listeners_ + i].revents != 0) serve(*peers_[i]);
      }
      for (std::size_t i = 0; i < listeners_.size(); ++i) {  // serve may have closed them
        if ((polled_[1 + i].revents & POLLIN) != 0) accept_all(i);
      }
      deliver();
      drop_done();
    }
  }

 private:
  [[nodiscard]] bool finished() {
    if (stopping_) {
      const bool flushed = std::all_of(peers_.begin(), peers_.end(),
                                       [](const auto& p) { return p->connection.flushed(); });
      return flushed || stop_deadline_.passed();
    }
    if (ranks_.empty() && alone_deadline_.passed()) {
      GSHMEM_ERROR("no rank has come with a unique id of this process for %g s: it is void",
                   limits_.alone);
      return true;
    }
    if (!job_.deserted()) return false;
    if (listeners_.empty() || limits_.linger <= 0) return true;
    if (!lingering_) linger_deadline_ = Deadline(limits_.linger);
    lingering_ = true;
    return linger_deadline_.passed();
  }

  void wait() {
    const bool accepting = !stopping_ && !accept_pause_;
    polled_.clear();
    polled_.push_back({wake_, POLLIN, 0});
    for (const Fd& listener : listeners_)
      polled_.push_back({accepting ? listener.get() : -1, POLLIN, 0});
    if (stopping_) polled_[0].fd = -1;
    for (const auto& peer : peers_)
      polled_.push_back({peer->connection.fd().get(), peer->connection.poll_events(), 0});
    polled_listeners_ = listeners_.size();
    polled_peers_ = peers_.size();
    const int ready = poll(polled_.data(), polled_.size(), wait_ms());
    if (ready < 0 && errno != EINTR) {
      // Such as more connections than the process may have descriptors. It would go on for ever.
      job_.fail(
          {GSHMEMX_ERROR_SYSTEM, strprintf("bootstrap root service: poll of %zu descriptors: %s",
                                           polled_.size(), std::strerror(errno))});
      stop();
    }
    if (ready <= 0) {
      for (pollfd& entry : polled_) entry.revents = 0;
    }
    accept_pause_ = false;
  }

  [[nodiscard]] int wait_ms() const {
    int least = -1;
    const auto shorten = [&least](const Deadline& deadline) {
      const int ms = deadline.poll_ms();
      if (ms >= 0 && (least < 0 || ms < least)) least = ms;
    };
    for (const auto& peer : peers_) {
      if (peer->rank < 0) shorten(peer->handshake);
    }
    if (ranks_.empty()) shorten(alone_deadline_);
    if (stopping_) shorten(stop_deadline_);
    if (lingering_) shorten(linger_deadline_);
    if (accept_pause_) shorten(Deadline(kAcceptPauseSeconds));
    return least;
  }

  /// `listener`: one of listeners_, which may be none afterwards.
  void accept_all(std::size_t listener) {
    while (true) {
      Fd fd = accept_from(listeners_[listener]);
      if (!fd) {
        if (!is_shortage(errno)) return;
        if (drop_oldest_stranger() || raise_descriptor_limit(descriptor_limit() + 1)) return;
        accept_pause_ = true;
        job_.note("the root service has no descriptors left: " + descriptor_limit_text());
        return;
      }
      // A rank is one at once, before it could make room for others.
      peers_.push_back(std::make_unique<Peer>(std::move(fd)));
      serve(*peers_.back());
      if (listeners_.empty()) return;  // that was the last one
      const auto strangers =
          std::count_if(peers_.begin(), peers_.end(), [](const auto& p) { return p->rank < 0; });
      if (static_cast<std::size_t>(strangers) > stranger_limit()) drop_oldest_stranger();
    }
  }

  bool drop_oldest_stranger() {
    const auto oldest = std::find_if(peers_.begin(), peers_.end(),
                                     [](const auto& p) { return p->rank < 0 && !p->done; });
    if (oldest == peers_.end()) return false;
    peers_.erase(oldest);
    return true;
  }

  /// Whatever one peer's bytes lead to stays with that peer and its job.
  void serve(Peer& peer) try {
    peer.connection.send_some();
    while (auto incoming = peer.connection.receive()) {
      if (!(peer.rank < 0 ? greet(peer, *incoming) : obey(peer, *incoming))) break;
    }
    if (!peer.done && peer.connection.state() != Connection::State::kOpen) part(peer);
  } catch (const std::exception& error) {
    job_.fail({GSHMEMX_ERROR_INTERNAL, std::string("bootstrap root service: ") + error.what()});
  }

  /// A stranger's first frame; false = it gets no other.
  bool greet(Peer& peer, const Connection::Incoming& incoming) {
    const auto hello = decode_hello(incoming.payload);
    if (!hello || peer.refused) {
      peer.done = true;
      return false;
    }
    if (const Failure failure = job_.join(*hello)) {
      refuse(peer, failure);
      return true;
    }
    peer.rank = static_cast<int>(hello->rank);
    // One each, and what a process has open beside them.
    raise_descriptor_limit(hello->size + kOtherDescriptors);
    ranks_.resize(hello->size);
    ranks_[hello->rank] = &peer;
    peer.connection.accept_only(
        {FrameType::kGather, FrameType::kLeave, FrameType::kAbort, FrameType::kExpired});
    // Before anyone is welcomed: a welcomed rank may start the next job on the same port.
    if (job_.complete()) listeners_.clear();
    return true;
  }

  void refuse(Peer& peer, const Failure& failure) {
    peer.refused = true;
    peer.connection.queue(encode(Fail{static_cast<std::uint32_t>(failure.code), failure.text}));
  }

  /// A rank's frame; false = it was malformed and the rank counts as dead.
  bool obey(Peer& peer, const Connection::Incoming& incoming) {
    switch (incoming.type) {
      case FrameType::kGather:
        if (const auto gather = decode_gather(incoming.payload))
          return job_.gather(peer.rank, *gather), true;
        break;
      case FrameType::kAbort:
        if (const auto abort = decode_abort(incoming.payload))
          return job_.abort(peer.rank, *abort), true;
        break;
      case FrameType::kExpired:
        if (const auto expired = decode_expired(incoming.payload))
          return job_.expired(*expired), true;
        break;
      case FrameType::kLeave:
        peer.left = true;
        job_.leave(peer.rank);
        return true;
      default:
        break;
    }
    job_.lost(peer.rank, "it sent a malformed frame");
    peer.done = true;
    return false;
  }

  /// The connection has come to its end, one way or the other.
  void part(Peer& peer) {
    if (peer.rank < 0 && peer.connection.state() == Connection::State::kOtherVersion &&
        !peer.refused) {
      const int version = peer.connection.other_version();
      return refuse(peer, {GSHMEMX_ERROR_BOOTSTRAP,
                           strprintf("refused: this rank's bootstrap has version %d, the root "
                                     "service version %d",
                                     version, int{FrameHeader::kVersion})});
    }
    peer.done = true;
    if (peer.rank < 0 || peer.left) return;
    const bool closed = peer.connection.state() == Connection::State::kClosed;
    job_.lost(peer.rank, closed ? peer.connection.reason() : "it sent what is no frame");
  }

  void stop() {
    stopping_ = true;
    stop_deadline_ = Deadline(kStopSeconds);
    if (job_.deserted()) return;
    const int rank = job_.root_rank();
    const std::string who =
        rank < 0 ? "the process that made the unique id" : "rank " + std::to_string(rank);
    job_.fail({GSHMEMX_ERROR_PEER_FAILED, who + " ended, and with it the root service"});
  }

  void deliver() {
    for (auto& [rank, frame] : job_.take_outgoing()) {
      if (Peer* peer = ranks_[static_cast<std::size_t>(rank)])
        peer->connection.queue(std::move(frame));
    }
    // Its own process last: it may end at once, and with it what the others are to be told.
    const int last = job_.root_rank();
    for (const bool own : {false, true}) {
      for (const auto& peer : peers_) {
        const bool is_own = last >= 0 && peer->rank == last;
        if (is_own == own && !peer->connection.flushed()) peer->connection.send_some();
      }
    }
  }

  void drop_done() {
    std::erase_if(peers_, [this](const auto& peer) {
      if (peer->done && peer->rank >= 0) ranks_[static_cast<std::size_t>(peer->rank)] = nullptr;
      const bool stranger = peer->rank < 0;
      const bool late = stranger && job_.complete() && !peer->refused;
      return peer->done || late || (stranger && peer->handshake.passed());
    });
  }

  std::vector<Fd> listeners_;
  Job job_;
  RootService::Limits limits_;
  int wake_;
  std::vector<std::unique_ptr<Peer>> peers_;
  std::vector<Peer*> ranks_;  ///< of peers_, by rank; null = not joined or gone
  std::vector<pollfd> polled_;
  std::size_t polled_listeners_ = 0, polled_peers_ = 0;
  bool stopping_ = false, lingering_ = false, accept_pause_ = false;
  Deadline stop_deadline_{0}, linger_deadline_{0}, alone_deadline_{limits_.alone};
};

}  // namespace

RootService::RootService(std::vector<Listener> listeners, const Cookie& cookie, CookieKind kind,
                         const Limits& limits)
    : cookie_(cookie),
      wake_(static_cast<int>(check_errno(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK), "eventfd"))),
      forks_(fork_count()) {
  auto loop =
      std::make_unique<RootLoop>(std::move(listeners), Job(cookie, kind), limits, wake_.get());
  thread_ = std::make_unique<std::thread>(start_thread([this, loop = std::move(loop)]() mutable {
    try {
      loop->run();
    } catch (const std::exception&) {
      // Out of memory outside any job: the ranks see their connections close.
    }
    loop.reset();  // closes every socket before anyone can see ended_
    ended_.store(true, std::memory_order_release);
  }));
}

RootService::~RootService() {
  if (forks_ != fork_count()) {
    (void)thread_.release();  // forked child: the thread exists in the parent only
    return;
  }
  const std::uint64_t one = 1;
  (void)!write(wake_.get(), &one, sizeof one);
  thread_->join();
}

bool RootService::serves(const Cookie& cookie) const {
  return cookie == cookie_ && forks_ == fork_count() && !ended();
}

RootRegistry::RootRegistry() { hold_over_forks(mutex_); }

RootRegistry& RootRegistry::get() {
  static RootRegistry registry;
  return registry;
}

void RootRegistry::start(std::vector<Listener> listeners, const Cookie& cookie, CookieKind kind,
                         const RootService::Limits& limits) {
  const std::lock_guard lock(mutex_);
  std::erase_if(services_, [](const auto& service) { return service->ended(); });
  services_.push_back(std::make_unique<RootService>(std::move(listeners), cookie, kind, limits));
}

bool RootRegistry::serves(const Cookie& cookie) {
  const std::lock_guard lock(mutex_);
  return std::any_of(services_.begin(), services_.end(),
                     [&](const auto& service) { return service->serves(cookie); });
}

}  // namespace gshmem::bootstrap
