#include "bootstrap/uid/root.h"

#include "host/base/at_fork.h"
#include "host/base/fd.h"
#include "host/base/log.h"
#include "host/base/net/owner.h"
#include "host/base/net/reception.h"
#include "host/base/system_call.h"
#include "host/base/thread.h"

#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace gshmem::bootstrap {
namespace {

using net::Frame;
using net::FrameHeader;
using net::FrameKind;
using net::Stream;

constexpr double kStopSeconds = 5;  // time limit for ranks to read the frames queued for them
constexpr std::size_t kOtherDescriptors = 256;

struct Rank {
  Stream stream;
  int number;
  bool left = false;  ///< it said goodbye
  bool done = false;  ///< it is to be dropped
};

Fd new_wake() { return Fd(static_cast<int>(check_errno(eventfd(0, EFD_CLOEXEC), "eventfd"))); }
void wake(const Fd& waker) {
  const std::uint64_t one = 1;
  (void)!write(waker.get(), &one, sizeof one);
}

/// The loop that the thread runs; nothing in it is shared.
class RootLoop {
 public:
  RootLoop(std::vector<Fd> listeners, const RootService::Setup& setup, int wake)
      : setup_(setup),
        job_(setup.where),
        reception_(
            std::move(listeners),
            [this](const Stream& caller, const Frame& hello) { return join(caller, hello); },
            [this](Stream stream, const FrameHeader& hello) { take(std::move(stream), hello); },
            net::Reception::Guard{
                setup.secret,
                [this](const Stream& caller, const FrameHeader& hello) { doubt(caller, hello); }}),
        wake_(wake) {}

  void run() {
    while (!finished()) {
      try {
        wait();
        serve_all();
      } catch (const std::exception& error) {
        // An example is more connections than the process may have descriptors. The error would
        // repeat for ever.
        job_.fail({GSHMEMX_ERROR_SYSTEM, std::string("bootstrap root service: ") + error.what()});
        stop();
      }
      deliver();
      std::erase_if(ranks_, [this](const auto& rank) {
        if (rank->done) by_number_[static_cast<std::size_t>(rank->number)] = nullptr;
        return rank->done;
      });
    }
  }

 private:
  [[nodiscard]] bool finished() {
    if (stopping_) {
      const bool flushed =
          std::ranges::all_of(ranks_, [](const auto& rank) { return rank->stream.flushed(); });
      return flushed || stop_deadline_.passed();
    }
    if (by_number_.empty() && setup_.alone.passed()) {
      GSHMEM_ERROR(
          "no rank has connected with a unique id of this process for %g s: the id is no longer "
          "valid",
          setup_.alone_seconds);
      return true;
    }
    if (!job_.deserted()) return false;
    if (!reception_.listens() || setup_.linger <= 0) return true;
    if (!lingering_) linger_deadline_ = Deadline(setup_.linger);
    lingering_ = true;
    return linger_deadline_.passed();
  }

  void wait() {
    polled_.assign(1, polled(stopping_ ? -1 : wake_, POLLIN));
    for (const auto& rank : ranks_)
      polled_.push_back(polled(rank->stream.fd().get(), rank->stream.poll_events()));
    polled_ranks_ = ranks_.size();
    reception_.add_to(polled_);
    poll_once(polled_, wait_ms());
  }

  void serve_all() {
    if (polled_[0].revents != 0) stop();
    for (std::size_t i = 0; i < polled_ranks_; ++i) {
      if (polled_[1 + i].revents != 0) serve(*ranks_[i]);
    }
    reception_.serve(polled_.data() + 1 + polled_ranks_);
    if (!reception_.shortage().empty() && !raise_descriptor_limit(descriptor_limit() + 1))
      job_.note("the root service has no descriptors left: " + reception_.shortage());
  }

  [[nodiscard]] int wait_ms() const {
    int least = reception_.poll_ms();
    const auto shorten = [&least](const Deadline& deadline) {
      const int ms = deadline.poll_ms();
      if (ms >= 0 && (least < 0 || ms < least)) least = ms;
    };
    if (by_number_.empty()) shorten(setup_.alone);
    if (stopping_) shorten(stop_deadline_);
    if (lingering_) shorten(linger_deadline_);
    return least;
  }

  /// Without a secret, any user of this host could join.
  JobFailure check_user(const Stream& caller) const {
    const auto user = setup_.one_user ? net::peer_user(caller.fd()) : std::nullopt;
    if (!user || *user == geteuid()) return {};
    return {GSHMEMX_ERROR_BOOTSTRAP,
            strprintf("refused: a process of user %u called, and this job is of user %u; set "
                      "GSHMEM_UID_SECRET on all PEs to let both in",
                      unsigned{*user}, unsigned{geteuid()})};
  }

  /// Other ranks wait for a rank that may be this caller, whose secret is wrong.
  void doubt(const Stream& caller, const FrameHeader& hello) {
    job_.note(
        strprintf("a process at %s that calls itself rank %d has another unique id or "
                  "GSHMEM_UID_SECRET, and was refused",
                  net::peer_text(caller.fd()).c_str(), hello.rank));
  }

  JobFailure join(const Stream& caller, const Frame& hello) {
    if (JobFailure stranger = check_user(caller)) {
      job_.note(stranger.text);
      return stranger;
    }
    const bool failed = static_cast<bool>(job_.failure());
    JobFailure why = job_.join(hello);
    // Other ranks may wait for this caller, whose rank or size is wrong.
    if (why && !failed)
      job_.note(strprintf("a process at %s that calls itself rank %d was %s",
                          net::peer_text(caller.fd()).c_str(), net::header_of(hello).rank,
                          why.text.c_str()));
    // The listeners are closed before any rank is welcomed: a welcomed rank may start the next job
    // on the same port.
    if (!why && job_.complete()) reception_.close();
    return why;
  }

  void take(Stream stream, const FrameHeader& hello) {
    stream.accept_only({FrameKind::kContribution, FrameKind::kGoodbye, FrameKind::kExpired});
    // One descriptor per rank, and those that the process has open for other purposes.
    raise_descriptor_limit(hello.number + kOtherDescriptors);
    ranks_.push_back(std::make_unique<Rank>(Rank{std::move(stream), hello.rank}));
    by_number_.resize(hello.number);
    by_number_[static_cast<std::size_t>(hello.rank)] = ranks_.back().get();
    serve(*ranks_.back());  // it may have sent more already
  }

  /// Errors caused by one rank's bytes affect only that rank and its job.
  void serve(Rank& rank) {
    while (const Frame frame = rank.stream.receive()) obey(rank, frame);
    if (rank.stream.state() == Stream::State::kOpen) return;
    rank.done = true;
    if (!rank.left) job_.lost(rank.number, rank.stream.reason());
  }

  void obey(Rank& rank, const Frame& frame) {
    const FrameHeader header = net::header_of(frame);
    switch (header.kind) {
      case FrameKind::kContribution:
        return job_.contribute(rank.number, frame);
      case FrameKind::kExpired:
        return job_.expired(header.number, static_cast<double>(header.detail) / 1e3);
      default:  // kGoodbye: the stream accepts no other kind
        rank.left = true;
        job_.leave(rank.number);
    }
  }

  void stop() {
    if (std::exchange(stopping_, true)) return;
    stop_deadline_ = Deadline(kStopSeconds);
    reception_.close();
    const int rank = job_.root_rank();
    const std::string who =
        rank < 0 ? "the process that made the unique id" : "rank " + std::to_string(rank);
    job_.fail({GSHMEMX_ERROR_PEER_FAILED, who + " ended, and with it the root service"});
  }

  void deliver() {
    for (auto& [number, frame] : job_.take_outgoing()) {
      if (Rank* rank = by_number_[static_cast<std::size_t>(number)])
        rank->stream.queue(std::move(frame));
    }
    // The rank in the root's own process is served last. That process may end at once, and with it
    // the frames for the others.
    const int last = job_.root_rank();
    for (const bool own : {false, true}) {
      for (const auto& rank : ranks_) {
        if ((rank->number == last) == own) rank->stream.send_some();
      }
    }
  }

  RootService::Setup setup_;
  Job job_;
  net::Reception reception_;
  int wake_;
  std::vector<std::unique_ptr<Rank>> ranks_;
  std::vector<Rank*> by_number_;  ///< points into ranks_; null = has not joined, or has left
  std::vector<pollfd> polled_;
  std::size_t polled_ranks_ = 0;
  bool stopping_ = false, lingering_ = false;
  Deadline stop_deadline_{0}, linger_deadline_{0};
};

}  // namespace

RootService::RootService(std::vector<net::Listener> listeners, const Setup& setup, Fd wake)
    : secret_(setup.secret), wake_(std::move(wake)), forks_(fork_count()) {
  std::vector<Fd> fds;
  for (net::Listener& listener : listeners) fds.push_back(std::move(listener.fd));
  auto loop = std::make_unique<RootLoop>(std::move(fds), setup, wake_.get());
  thread_ = std::make_unique<std::thread>(start_thread([this, loop = std::move(loop)]() mutable {
    try {
      std::exchange(loop, nullptr)->run();  // closes every socket before ended_ can be seen
    } catch (const std::exception&) {
      // The process is out of memory outside of any job: the ranks see their connections close.
    }
    ended_.store(true, std::memory_order_release);
  }));
}

RootService::~RootService() {
  if (forks_ != fork_count()) {
    (void)thread_.release();  // in a forked child: the thread exists in the parent only
    return;
  }
  wake(wake_);
  thread_->join();
}

bool RootService::serves(const net::Secret& secret) const {
  return secret == secret_ && forks_ == fork_count();
}

RootRegistry::RootRegistry() { hold_over_forks(mutex_); }

RootRegistry& RootRegistry::get() {
  static RootRegistry registry;
  return registry;
}
/// Runs when the library is loaded. If the first use did it, a fork could happen meanwhile, and its
/// child would wait for a thread that it does not have.
[[maybe_unused]] static const RootRegistry& made_at_load = RootRegistry::get();

RootRegistry::~RootRegistry() {
  if (forks_ != fork_count()) {
    (void)watcher_.release();
    return;
  }
  {
    const std::lock_guard lock(mutex_);
    ending_ = true;
  }
  if (wake_) wake(wake_);
  if (watcher_) watcher_->join();
}

void RootRegistry::start(std::vector<net::Listener> listeners, const RootService::Setup& setup) {
  const std::lock_guard lock(mutex_);
  std::erase_if(services_, [](const auto& service) { return service->ended(); });
  services_.push_back(std::make_unique<RootService>(std::move(listeners), setup, new_wake()));
}

void RootRegistry::start_when_called(std::vector<net::Listener> listeners,
                                     const RootService::Setup& setup) {
  Fd wake_of_service = new_wake();
  const std::lock_guard lock(mutex_);
  std::erase_if(services_, [](const auto& service) { return service->ended(); });
  if (forks_ != fork_count()) {  // the ids and the thread belong to the parent
    (void)watcher_.release();
    unused_.clear();
    watching_ = false;
    wake_ = {};
    forks_ = fork_count();
  }
  if (!wake_) wake_ = new_wake();
  unused_.push_back({std::move(listeners), setup, std::move(wake_of_service)});
  wake(wake_);
  if (watching_) return;
  if (watcher_) watcher_->join();
  watcher_ = std::make_unique<std::thread>(start_thread([this] { watch(); }));
  watching_ = true;
}

/// Runs until no id is left that waits for its first caller.
void RootRegistry::watch() {
  std::vector<pollfd> entries;
  for (;;) {
    {
      const std::lock_guard lock(mutex_);
      if (unused_.empty() || ending_) {
        watching_ = false;
        return;
      }
    }
    try {
      watch_once(entries);
    } catch (const std::exception& error) {
      GSHMEM_ERROR(
          "unique ids of this process with which no rank has connected are no longer valid: %s",
          error.what());
      const std::lock_guard lock(mutex_);
      unused_.clear();
    }
  }
}

void RootRegistry::watch_once(std::vector<pollfd>& entries) {
  int milliseconds = -1;
  {
    const std::lock_guard lock(mutex_);
    entries.assign(1, polled(wake_.get(), POLLIN));
    for (const Unused& unused : unused_) {
      for (const net::Listener& listener : unused.listeners)
        entries.push_back(polled(listener.fd.get(), POLLIN));
      milliseconds = sooner_ms(milliseconds, unused.setup.alone.poll_ms());
    }
  }
  poll_once(entries, milliseconds);
  const std::lock_guard lock(mutex_);
  std::uint64_t count = 0;
  if (entries[0].revents != 0) (void)!read(wake_.get(), &count, sizeof count);
  start_called(entries);
}

/// `entries` has the poll results of the first ids; the remaining ids were made in the meantime.
void RootRegistry::start_called(const std::vector<pollfd>& entries) {
  std::vector<Unused> left;
  std::size_t next = 1;
  for (Unused& unused : std::exchange(unused_, {})) {
    bool due = next < entries.size() && unused.setup.alone.passed();
    for (std::size_t i = 0; i < unused.listeners.size() && next < entries.size(); ++i)
      due |= entries[next++].revents != 0;
    if (due)
      services_.push_back(std::make_unique<RootService>(std::move(unused.listeners), unused.setup,
                                                        std::move(unused.wake)));
    else
      left.push_back(std::move(unused));
  }
  unused_ = std::move(left);
}

bool RootRegistry::serves(const net::Secret& secret) {
  const std::lock_guard lock(mutex_);
  return std::ranges::any_of(services_,
                             [&](const auto& service) { return service->serves(secret); }) ||
         (forks_ == fork_count() && std::ranges::any_of(unused_, [&](const Unused& unused) {
            return unused.setup.secret == secret;
          }));
}

}  // namespace gshmem::bootstrap
