#include "host/control/monitor.h"

#include "host/base/error.h"
#include "host/base/system_call.h"
#include "host/base/thread.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/eventfd.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace gshmem::control {
namespace {

using net::Frame;
using net::FrameKind;
using Clock = UnexplainedDisconnects::Time::clock;

constexpr double kLeaveSeconds = 1;
/// Delays until the departure or the death of a PE is reported. In this time the end of another PE,
/// which is the cause, may be detected.
constexpr std::chrono::milliseconds kDepartureTime{500}, kDeathTime{100};
/// How long to wait for the death of the PE that a fault names.
constexpr double kCauseSeconds = 0.1;
/// Time limit for telling other PEs why this PE ends.
constexpr std::chrono::milliseconds kReportTime{1000};
/// Number of detected ends that are sent to other PEs. More are not needed: one of them is the
/// first.
constexpr std::size_t kMaxSeen = 4;

/// A reset shows that the process has ended, as a close does. Any other error comes from the
/// network.
PeerEvent end_event(const net::Stream& stream, bool other_host) {
  const int error = stream.error();
  const bool closed = stream.state() == net::Stream::State::kClosed;
  const bool process = closed && (error == 0 || error == ECONNRESET || error == EPIPE);
  return process || !other_host ? PeerEvent::kDied : PeerEvent::kUnreachable;
}

/// Returns the seconds since the peer last acknowledged data (tcp(7), TCP_INFO).
int silent_seconds(const Fd& fd) {
  tcp_info info{};
  socklen_t bytes = sizeof(info);
  if (::getsockopt(fd.get(), IPPROTO_TCP, TCP_INFO, &info, &bytes) != 0) return 0;
  return static_cast<int>(info.tcpi_last_ack_recv / 1000);
}

}  // namespace

Monitor::Monitor(const HostGroup& group, std::vector<Link> links, Callbacks callbacks)
    : callbacks_(std::move(callbacks)),
      me_(group.me()),
      tree_(group, callbacks_.missing_here),
      wake_(static_cast<int>(check_errno(eventfd(0, EFD_CLOEXEC), "eventfd"))) {
  for (Link& link : links) {
    net::Stream stream(std::move(link.fd),
                       {FrameKind::kContribution, FrameKind::kResult, FrameKind::kGoodbye,
                        FrameKind::kExpired, FrameKind::kMissing, FrameKind::kNews,
                        FrameKind::kEnded, FrameKind::kPart, FrameKind::kMessage});
    peers_.push_back({.pe = link.pe, .other_host = link.other_host, .stream = std::move(stream)});
  }
  thread_ = start_thread([this] { run(); });
}

Monitor::~Monitor() {
  post([this] { ended_ = true; });
  if (thread_.joinable()) thread_.join();
}

void Monitor::contribute(const Frame& contribution) {
  post([this, contribution] { tree_.contribute(contribution); });
}

void Monitor::expired(std::uint64_t number) {
  post([this, number] { tree_.expired(number); });
}

void Monitor::tick_every(std::chrono::milliseconds interval) {
  const auto ms = static_cast<int>(interval.count());
  if (std::this_thread::get_id() == thread_.get_id()) {
    tick_ms_ = ms;
    return;
  }
  post([this, ms] { tick_ms_ = ms; });
}

void Monitor::stopped(const std::string& why) {
  post([this, why] { tree_.announce({me_, PeerEvent::kStopped, why}); });
}

void Monitor::finalizes() {
  post([this] { tree_.announce({me_, PeerEvent::kFinalizes}); });
}

void Monitor::ending(const PeerNews& mine, int about) noexcept {
  if (std::this_thread::get_id() == thread_.get_id()) {
    start_ending(mine, about);
    return run_until_reported();
  }
  post([this, mine, about] { start_ending(mine, about); });
  std::unique_lock lock(mutex_);
  reported_.wait_for(lock, kReportTime, [&] { return has_reported_; });
}

void Monitor::leave(Others others) noexcept {
  post([this, others] { start_leaving(others); });
  if (thread_.joinable()) thread_.join();
}

void Monitor::post(Request request) {
  {
    const std::lock_guard lock(mutex_);
    requests_.push_back(std::move(request));
  }
  const std::uint64_t one = 1;
  (void)!::write(wake_.get(), &one, sizeof(one));
}

void Monitor::run() try {
  std::vector<pollfd> entries;
  while (!has_left()) {
    wait(entries, wake_.get());
    if (tick_ms_ > 0) callbacks_.on_tick();
    if (entries[0].revents != 0) take_requests();
    if (ended_) return;
    serve(entries);
    if (has_reported()) {
      const std::lock_guard lock(mutex_);
      has_reported_ = true;
      reported_.notify_all();
    }
  }
} catch (const Error& error) {
  callbacks_.on_failure(error.what());
}

/// Runs on the monitor thread, inside of a callback.
void Monitor::run_until_reported() try {
  const Clock::time_point end = Clock::now() + kReportTime;
  std::vector<pollfd> entries;
  while (!has_reported() && Clock::now() < end) {
    wait(entries, -1);  // requests are no longer processed
    serve(entries);
  }
} catch (const Error&) {
  // The other PEs detect that the connection ends.
}

void Monitor::serve(const std::vector<pollfd>& entries) {
  for (std::size_t i = 0; i < peers_.size(); ++i) {
    if ((entries[i + 1].revents & ~POLLOUT) != 0) read(peers_[i]);
  }
  step_ending();
  report_ends(false);
  pump();
}

void Monitor::wait(std::vector<pollfd>& entries, int wake) {
  entries.assign(1, polled(wake, POLLIN));
  for (const Peer& peer : peers_) {
    const int fd = peer.finished ? -1 : peer.stream.fd().get();
    entries.push_back(polled(fd, peer.stream.poll_events()));
  }
  int limit_ms = ending_ ? 10 : tick_ms_ > 0 ? tick_ms_ : -1;
  if (const auto due = ends_.next_due()) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(*due - Clock::now()).count();
    limit_ms = sooner_ms(limit_ms, static_cast<int>(std::max<long>(left, 0)));
  }
  if (leaving_) limit_ms = sooner_ms(limit_ms, leaving_->poll_ms());
  poll_once(entries, limit_ms);
}

void Monitor::take_requests() {
  std::uint64_t count = 0;
  (void)!::read(wake_.get(), &count, sizeof(count));
  std::vector<Request> requests;
  {
    const std::lock_guard lock(mutex_);
    requests.swap(requests_);
  }
  for (const Request& request : requests) request();
}

void Monitor::start_ending(const PeerNews& mine, int about) {
  if (ending_) return;
  // The other PEs know the cause already. An exit on purpose is always reported, since no other PE
  // has reported it.
  const bool reported = cause_known_ && mine.event != PeerEvent::kExited;
  ending_ = {.mine = mine, .about = about, .until = Deadline(kCauseSeconds), .reported = reported};
}

void Monitor::step_ending() {
  if (!ending_ || ending_->reported) return;
  const int about = ending_->about;
  const bool explained = about >= 0 && (cause_known_ || ends_.has_death(about));
  if (about >= 0 && !explained && !ending_->until.passed()) return;
  ending_->reported = true;
  if (explained) return report_ends(true);
  send_to_all(news_frame(ending_->mine));
}

bool Monitor::has_reported() const {
  return ending_ && ending_->reported && std::ranges::all_of(peers_, [](const Peer& peer) {
           return peer.finished || peer.stream.flushed();
         });
}

void Monitor::send_to_all(const Frame& frame) {
  for (Peer& peer : peers_) {
    if (peer.finished) continue;
    peer.stream.queue(frame);
    peer.stream.send_some();
  }
}

void Monitor::start_leaving(Others others) {
  others_ = others;
  if (others == Others::kLeaveToo) ends_.drop_departures();
  report_ends(true);
  pump();  // sends first what was queued before
  leaving_.emplace(kLeaveSeconds);
  send_to_all(net::make_frame({.kind = FrameKind::kGoodbye}));
}

/// A PE of another host closes its end as soon as it has read the goodbye. If this PE closed
/// earlier, with bytes unread, the connection would be reset and the goodbye would be lost.
bool Monitor::has_left() const {
  if (!leaving_) return false;
  return leaving_->passed() || std::ranges::all_of(peers_, [](const Peer& peer) {
           return peer.finished || (!peer.other_host && peer.stream.flushed());
         });
}

void Monitor::read(Peer& peer) {
  if (peer.finished) return;
  while (const Frame frame = peer.stream.receive()) {
    if (net::header_of(frame).kind == FrameKind::kGoodbye) {
      peer_gone(peer, PeerEvent::kLeft);
      return;
    }
    switch (net::header_of(frame).kind) {
      case FrameKind::kEnded:
        note_seen(net::header_of(frame));
        break;
      case FrameKind::kNews:
        on_news(peer, frame);
        break;
      case FrameKind::kPart:
      case FrameKind::kMessage:
        tree_.take(peer.pe, frame);
        break;
      default:
        if (tree_.is_neighbour(peer.pe)) tree_.take(peer.pe, frame);
    }
  }
  if (peer.stream.state() == net::Stream::State::kOpen) return;
  // Other hosts answer a goodbye by closing the connection.
  peer_gone(peer, leaving_ ? PeerEvent::kLeft : end_event(peer.stream, peer.other_host));
}

void Monitor::peer_gone(Peer& peer, PeerEvent event) {
  peer.finished = true;
  peer.stream.drop_outgoing();
  if (peer.other_host) (void)::shutdown(peer.stream.fd().get(), SHUT_RDWR);
  const Clock::time_point now = Clock::now();
  if (event != PeerEvent::kLeft) {
    const int seconds = event == PeerEvent::kUnreachable ? silent_seconds(peer.stream.fd()) : 0;
    ends_.add({peer.pe, event, now + kDeathTime, seconds});
    // When a job ends as a whole, the number of messages has to stay small.
    if (cause_known_ || ends_.size() > kMaxSeen) return;
    send_to_all(net::make_frame({.kind = FrameKind::kEnded,
                                 .number = static_cast<std::uint64_t>(seconds),
                                 .rank = peer.pe,
                                 .detail = static_cast<std::uint32_t>(event)}));
    // Only a neighbour of that PE notifies the PEs that are not neighbours.
  } else if (tree_.is_neighbour(peer.pe)) {
    if (leaving_) return others_ == Others::kStay ? tree_.gone(peer.pe, event) : void();
    ends_.add({peer.pe, event, now + kDepartureTime});
  }
}

/// Notes that a peer has detected the end of another PE. This PE may detect it soon, too, or the
/// peer sends an explanation.
void Monitor::note_seen(const net::FrameHeader& header) {
  if (header.rank == me_ || leaving_) return;
  ends_.add({header.rank, static_cast<PeerEvent>(header.detail), Clock::now() + kDeathTime,
             static_cast<int>(header.number)});
}

/// News of PEs that have left arrive over the tree, in the order of the root. All other news may
/// arrive from any PE.
void Monitor::on_news(const Peer& from, const Frame& news) {
  const auto event = static_cast<PeerEvent>(net::header_of(news).detail);
  if (!is_end_of_one(event) || tree_.is_neighbour(from.pe)) tree_.take(from.pe, news);
}

/// Reports the ends that are due, or all. The first one is sent to the other PEs before the
/// callback runs.
void Monitor::report_ends(bool all) {
  for (;;) {
    const auto end = ends_.take_due(all ? Clock::time_point::max() : Clock::now());
    if (!end) return;
    tree_.gone(end->pe, end->event, end->seconds);
    pump();
  }
}

void Monitor::deliver(const Frame& frame) {
  if (net::header_of(frame).kind != FrameKind::kNews) return callbacks_.on_frame(frame);
  const PeerNews news = news_of(frame);
  if (news.event != PeerEvent::kFinalizes) ends_.drop(news.pe);
  cause_known_ = cause_known_ || !is_end_of_one(news.event);
  const bool ends_job = ending_ && ending_->mine.event == PeerEvent::kExited;
  if (ends_job && news.event != PeerEvent::kExited) return;  // the other PEs end because of this PE
  callbacks_.on_event(news);
}

void Monitor::pump() {
  for (const auto& [pe, frame] : tree_.take_outgoing()) {
    const auto peer =
        std::ranges::find_if(peers_, [to = pe](const Peer& entry) { return entry.pe == to; });
    if (peer != peers_.end() && !peer->finished) peer->stream.queue(frame);
  }
  // Sends the frames before the callbacks run, which may end the process.
  for (Peer& peer : peers_) {
    if (!peer.finished) peer.stream.send_some();
  }
  for (const Frame& frame : tree_.take_deliveries()) deliver(frame);
}

}  // namespace gshmem::control
