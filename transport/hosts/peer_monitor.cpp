#include "transport/hosts/peer_monitor.h"

#include "host/base/thread.h"

#include <sys/eventfd.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>

namespace gshmem::hosts {
namespace {

constexpr double kLeaveSeconds = 1;
/// Until a PE that has left is told of as such.
constexpr double kDepartureSeconds = 0.5;

/// A reset says that the process is gone as well as a close does; anything else comes from the
/// network in between.
PeerEvent end_event(const FrameStream& stream, bool other_host) {
  const int error = stream.error();
  const bool process = error == 0 || error == ECONNRESET || error == EPIPE;
  return process || !other_host ? PeerEvent::kDied : PeerEvent::kUnreachable;
}

}  // namespace

PeerMonitor::PeerMonitor(const p2p::PeerSockets& sockets, std::vector<Link> links,
                         Callbacks callbacks)
    : callbacks_(std::move(callbacks)),
      links_(std::move(links)),
      wake_(static_cast<int>(check_errno(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK), "eventfd"))) {
  const p2p::HostGroup& group = sockets.group();
  me_ = group.me();
  for (int i = 0; i < sockets.size(); ++i) {
    if (i != group.index)
      peers_.push_back({.pe = group.pe(i), .stream = FrameStream(sockets.socket(i))});
  }
  for (const Link& link : links_)
    peers_.push_back({.pe = link.pe, .other_host = true, .stream = FrameStream(link.fd.get())});
  if (group.n_nodes() > 1) {
    relay_.emplace(group.me(), static_cast<int>(group.node_of.size()), tree_neighbours(group));
  }
  thread_ = start_thread([this] { run(); });
}

PeerMonitor::~PeerMonitor() {
  post({.kind = Request::Kind::kStop});
  if (thread_.joinable()) thread_.join();
}

void PeerMonitor::contribute(std::uint64_t sequence, std::span<const char> data) {
  post({Request::Kind::kContribute, sequence, {data.begin(), data.end()}});
}

void PeerMonitor::expired(std::uint64_t sequence) { post({Request::Kind::kExpired, sequence, {}}); }

void PeerMonitor::stopped(const std::string& why) {
  post({Request::Kind::kStopped, 0, {why.begin(), why.end()}});
}

void PeerMonitor::leave() noexcept {
  post({.kind = Request::Kind::kLeave});
  if (thread_.joinable()) thread_.join();
}

void PeerMonitor::post(Request request) {
  {
    const std::lock_guard lock(mutex_);
    requests_.push_back(std::move(request));
  }
  const std::uint64_t one = 1;
  (void)!::write(wake_.get(), &one, sizeof(one));
}

void PeerMonitor::run() {
  std::vector<pollfd> entries;
  while (!has_left()) {
    const int ready = wait(entries);
    if (ready < 0 && errno != EINTR) return;
    if (callbacks_.on_tick) callbacks_.on_tick();
    if (ready <= 0) {
      tell_departures(false);
      continue;
    }
    if (entries[0].revents != 0 && !take_requests()) return;
    for (std::size_t i = 0; i < peers_.size(); ++i) {
      if ((entries[i + 1].revents & ~POLLOUT) != 0) read(peers_[i]);
    }
    tell_departures(false);
    pump();
  }
}

int PeerMonitor::wait(std::vector<pollfd>& entries) {
  entries.assign(1, pollfd{wake_.get(), POLLIN, 0});
  for (const Peer& peer : peers_) {
    const int events = peer.stream.flushed() ? POLLIN : POLLIN | POLLOUT;
    entries.push_back({peer.finished ? -1 : peer.stream.fd(), static_cast<short>(events), 0});
  }
  int limit_ms = callbacks_.on_tick ? 100 : -1;
  if (!departures_.empty()) {
    const int left_ms = departures_.front().until.poll_ms();
    limit_ms = limit_ms < 0 ? left_ms : std::min(limit_ms, left_ms);
  }
  if (leaving_) limit_ms = std::min(leaving_->poll_ms(), 100);
  return ::poll(entries.data(), entries.size(), limit_ms);
}

bool PeerMonitor::take_requests() {
  std::uint64_t count = 0;
  (void)!::read(wake_.get(), &count, sizeof(count));
  std::vector<Request> requests;
  {
    const std::lock_guard lock(mutex_);
    requests.swap(requests_);
  }
  for (const Request& request : requests) {
    switch (request.kind) {
      case Request::Kind::kContribute:
        if (relay_) relay_->contribute(request.sequence, request.data);
        break;
      case Request::Kind::kExpired:
        if (relay_) relay_->expired(request.sequence);
        break;
      case Request::Kind::kStopped:
        tell_stopped(request.data);
        break;
      case Request::Kind::kLeave:
        start_leaving();
        break;
      case Request::Kind::kStop:
        return false;
    }
  }
  return true;
}

void PeerMonitor::tell_stopped(std::span<const char> why) {
  if (relay_) return relay_->stopped(why);
  const Frame news = stopped_news(me_, why);
  for (Peer& peer : peers_) {
    if (!peer.finished) peer.stream.queue(news);
  }
}

void PeerMonitor::start_leaving() {
  tell_departures(true);
  pump();  // what came before goes out before
  leaving_.emplace(kLeaveSeconds);
  const Frame goodbye = make_frame({.kind = FrameKind::kGoodbye});
  for (Peer& peer : peers_) {
    if (peer.finished) continue;
    peer.stream.queue(goodbye);
    peer.stream.send_some();
  }
}

/// Another host's PE closes its end as soon as it has read the goodbye. To close ours before, with
/// bytes unread, would reset the connection and take the goodbye back.
bool PeerMonitor::has_left() const {
  if (!leaving_) return false;
  return leaving_->passed() || std::all_of(peers_.begin(), peers_.end(), [](const Peer& peer) {
           return peer.finished || (!peer.other_host && peer.stream.flushed());
         });
}

void PeerMonitor::read(Peer& peer) {
  if (peer.finished) return;
  while (const Frame frame = peer.stream.receive()) {
    if (header_of(frame).kind == FrameKind::kGoodbye) {
      peer_gone(peer, PeerEvent::kLeft);
      return;
    }
    if (!relay_) {
      // One host: every PE speaks for itself.
      if (header_of(frame).kind == FrameKind::kNews && header_of(frame).pe == peer.pe)
        deliver(frame);
    } else if (relay_->is_neighbour(peer.pe)) {
      relay_->take(peer.pe, frame);
    }
  }
  if (!peer.stream.ended()) return;
  // Other hosts answer a goodbye by closing.
  peer_gone(peer, leaving_ ? PeerEvent::kLeft : end_event(peer.stream, peer.other_host));
}

void PeerMonitor::peer_gone(Peer& peer, PeerEvent event) {
  peer.finished = true;
  peer.stream.drop_outgoing();
  if (peer.other_host) (void)::shutdown(peer.stream.fd(), SHUT_RDWR);
  if (!relay_ && event == PeerEvent::kLeft && !leaving_) {
    departures_.push_back({peer.pe, bootstrap::Deadline(kDepartureSeconds)});
  } else if (!relay_) {
    callbacks_.on_event(peer.pe, event, {});
  } else if (event != PeerEvent::kLeft || relay_->is_neighbour(peer.pe)) {
    relay_->gone(peer.pe, event);
  }
}

void PeerMonitor::tell_departures(bool all) {
  while (!departures_.empty() && (all || departures_.front().until.passed())) {
    const int pe = departures_.front().pe;
    departures_.erase(departures_.begin());
    callbacks_.on_event(pe, PeerEvent::kLeft, {});
  }
}

void PeerMonitor::deliver(const Frame& frame) {
  const FrameHeader header = header_of(frame);
  if (header.kind == FrameKind::kNews) {
    const std::span<const char> why = payload_of(frame);
    callbacks_.on_event(header.pe, static_cast<PeerEvent>(header.detail),
                        std::string(why.begin(), why.end()));
  } else {
    callbacks_.on_frame(frame);
  }
}

void PeerMonitor::pump() {
  if (relay_) {
    for (const auto& [pe, frame] : relay_->take_outgoing()) {
      const auto peer = std::find_if(peers_.begin(), peers_.end(),
                                     [to = pe](const Peer& entry) { return entry.pe == to; });
      if (peer != peers_.end() && !peer->finished) peer->stream.queue(frame);
    }
    // Out before the callbacks, which may end the process.
    for (Peer& peer : peers_) {
      if (!peer.finished) peer.stream.send_some();
    }
    for (const Frame& frame : relay_->take_deliveries()) deliver(frame);
    return;
  }
  for (Peer& peer : peers_) {
    if (!peer.finished) peer.stream.send_some();
  }
}

}  // namespace gshmem::hosts
