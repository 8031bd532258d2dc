#include "bootstrap/uid/root.h"

#include "host/base/at_fork.h"
#include "host/base/fd.h"
#include "host/base/log.h"
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

constexpr double kStopSeconds = 5;  // for ranks to take what they are owed
constexpr std::size_t kOtherDescriptors = 256;

struct Rank {
  Stream stream;
  int number;
  bool left = false;  ///< said goodbye
  bool done = false;  ///< to be dropped
};

/// The loop that the thread runs; nothing in it is shared.
class RootLoop {
 public:
  RootLoop(std::vector<Fd> listeners, const Job& job, const RootService::Limits& limits, int wake)
      : job_(job),
        reception_(
            std::move(listeners), [this](const Stream&, const Frame& hello) { return join(hello); },
            [this](Stream stream, const FrameHeader& hello) { take(std::move(stream), hello); }),
        limits_(limits),
        wake_(wake) {}

  void run() {
    while (!finished()) {
      try {
        wait();
        serve_all();
      } catch (const std::exception& error) {
        // Such as more connections than the process may have descriptors. It would go on for ever.
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
    if (by_number_.empty() && alone_deadline_.passed()) {
      GSHMEM_ERROR("no rank has come with a unique id of this process for %g s: it is void",
                   limits_.alone);
      return true;
    }
    if (!job_.deserted()) return false;
    if (!reception_.listens() || limits_.linger <= 0) return true;
    if (!lingering_) linger_deadline_ = Deadline(limits_.linger);
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
    if (by_number_.empty()) shorten(alone_deadline_);
    if (stopping_) shorten(stop_deadline_);
    if (lingering_) shorten(linger_deadline_);
    return least;
  }

  JobFailure join(const Frame& hello) {
    JobFailure why = job_.join(hello);
    // Before anyone is welcomed: a welcomed rank may start the next job on the same port.
    if (!why && job_.complete()) reception_.close();
    return why;
  }

  void take(Stream stream, const FrameHeader& hello) {
    stream.accept_only({FrameKind::kContribution, FrameKind::kGoodbye, FrameKind::kExpired});
    // One each, and what a process has open beside them.
    raise_descriptor_limit(hello.number + kOtherDescriptors);
    ranks_.push_back(std::make_unique<Rank>(Rank{std::move(stream), hello.rank}));
    by_number_.resize(hello.number);
    by_number_[static_cast<std::size_t>(hello.rank)] = ranks_.back().get();
    serve(*ranks_.back());  // it may have said more at once
  }

  /// Whatever one rank's bytes lead to stays with that rank and its job.
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
      default:  // kGoodbye: the stream takes nothing else
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
    // Its own process last: it may end at once, and with it what the others are to be told.
    const int last = job_.root_rank();
    for (const bool own : {false, true}) {
      for (const auto& rank : ranks_) {
        if ((rank->number == last) == own) rank->stream.send_some();
      }
    }
  }

  Job job_;
  net::Reception reception_;
  RootService::Limits limits_;
  int wake_;
  std::vector<std::unique_ptr<Rank>> ranks_;
  std::vector<Rank*> by_number_;  ///< of ranks_; null = not joined or gone
  std::vector<pollfd> polled_;
  std::size_t polled_ranks_ = 0;
  bool stopping_ = false, lingering_ = false;
  Deadline stop_deadline_{0}, linger_deadline_{0}, alone_deadline_{limits_.alone};
};

}  // namespace

RootService::RootService(std::vector<net::Listener> listeners, const net::Cookie& cookie,
                         const Limits& limits)
    : cookie_(cookie),
      wake_(static_cast<int>(check_errno(eventfd(0, EFD_CLOEXEC), "eventfd"))),
      forks_(fork_count()) {
  std::vector<Fd> fds;
  for (net::Listener& listener : listeners) fds.push_back(std::move(listener.fd));
  auto loop = std::make_unique<RootLoop>(std::move(fds), Job(cookie), limits, wake_.get());
  thread_ = std::make_unique<std::thread>(start_thread([this, loop = std::move(loop)]() mutable {
    try {
      std::exchange(loop, nullptr)->run();  // closes every socket before anyone can see ended_
    } catch (const std::exception&) {
      // Out of memory outside any job: the ranks see their connections close.
    }
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

bool RootService::serves(const net::Cookie& cookie) const {
  return cookie == cookie_ && forks_ == fork_count();
}

RootRegistry::RootRegistry() { hold_over_forks(mutex_); }

RootRegistry& RootRegistry::get() {
  static RootRegistry registry;
  return registry;
}
/// A child must not wait for a thread that it lacks to make it.
[[maybe_unused]] static const RootRegistry& made_at_load = RootRegistry::get();

void RootRegistry::start(std::vector<net::Listener> listeners, const net::Cookie& cookie,
                         const RootService::Limits& limits) {
  const std::lock_guard lock(mutex_);
  std::erase_if(services_, [](const auto& service) { return service->ended(); });
  services_.push_back(std::make_unique<RootService>(std::move(listeners), cookie, limits));
}

bool RootRegistry::serves(const net::Cookie& cookie) {
  const std::lock_guard lock(mutex_);
  return std::ranges::any_of(services_,
                             [&](const auto& service) { return service->serves(cookie); });
}

}  // namespace gshmem::bootstrap
