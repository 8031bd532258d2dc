// Tests a monitor whose peers are played by the test: which news it sends to which peer, and when,
// after what they send and after their connections end.
#include "host/base/deadline.h"
#include "host/base/net/socket.h"
#include "host/control/monitor.h"
#include "tests/patience.h"

#include <catch2/catch.hpp>

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <future>
#include <map>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

using namespace gshmem;
using namespace gshmem::control;
using namespace gshmem::test;
using net::Frame;
using net::FrameKind;

namespace {

constexpr double kSeconds = 30 * kPatience;
using Clock = std::chrono::steady_clock;

Frame of_kind(FrameKind kind, int rank = -1, std::uint32_t detail = 0) {
  return net::make_frame({.kind = kind, .number = 1, .rank = rank, .detail = detail});
}
Frame news(int pe, PeerEvent event, const std::string& why = "") {
  return news_frame({.pe = pe, .event = event, .why = why, .status = 0});
}
Frame ended(int pe, PeerEvent event) {
  return of_kind(FrameKind::kEnded, pe, static_cast<std::uint32_t>(event));
}

/// A connection with both ends in this process.
enum class Kind { kUnix, kTcp, kNoSocket };

std::pair<Fd, Fd> connection(Kind kind) {
  if (kind == Kind::kNoSocket) {  // an error that the end of a process does not cause
    int ends[2];
    check_errno(pipe2(ends, O_NONBLOCK | O_CLOEXEC), "pipe2");
    return {Fd(ends[0]), Fd(ends[1])};
  }
  if (kind == Kind::kUnix) {
    int ends[2];
    check_errno(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends), "pair");
    return {Fd(ends[0]), Fd(ends[1])};
  }
  const Fd listener(::socket(AF_INET, SOCK_STREAM, 0));
  sockaddr_in at{};
  socklen_t length = sizeof(at);
  at.sin_family = AF_INET;
  at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  auto* const address = reinterpret_cast<sockaddr*>(&at);
  check_errno(::bind(listener.get(), address, length), "bind");
  check_errno(::listen(listener.get(), 1), "listen");
  check_errno(::getsockname(listener.get(), address, &length), "getsockname");
  Fd mine(::socket(AF_INET, SOCK_STREAM, 0));
  check_errno(::connect(mine.get(), address, length), "connect");
  Fd theirs(::accept(listener.get(), nullptr, nullptr));
  for (const Fd* end : {&mine, &theirs})
    check_errno(::fcntl(end->get(), F_SETFL, O_NONBLOCK), "fcntl");
  return {std::move(mine), std::move(theirs)};
}

/// PE `me` of PEs on the named hosts.
class Rig {
 public:
  Rig(const std::vector<std::string>& hosts, int me, Kind to_others = Kind::kTcp)
      : group_(group_hosts(hosts, me)) {
    const Neighbours near = neighbours_of(group_);
    std::vector<Link> links;
    for (const auto& some : {std::vector{near.parent}, near.children, near.across}) {
      for (const int pe : some) {
        if (pe < 0) continue;
        const bool other = group_.node_of[static_cast<std::size_t>(pe)] != group_.node;
        auto [mine, theirs] = connection(other ? to_others : Kind::kUnix);
        links.push_back({pe, other, std::move(mine)});
        peers_.emplace(
            pe, net::Stream(std::move(theirs),
                            {FrameKind::kContribution, FrameKind::kResult, FrameKind::kGoodbye,
                             FrameKind::kExpired, FrameKind::kMissing, FrameKind::kNews,
                             FrameKind::kEnded, FrameKind::kPart, FrameKind::kMessage}));
      }
    }
    monitor_ = std::make_unique<Monitor>(
        group_, std::move(links),
        Monitor::Callbacks{.on_event = [this](const PeerNews& event) { note(event); },
                           .on_frame =
                               [this](const Frame& frame) {
                                 if (net::header_of(frame).kind == FrameKind::kPart)
                                   return note_marker();
                                 const std::lock_guard lock(mutex_);
                                 frames_.push_back(net::header_of(frame).kind);
                               },
                           .on_tick =
                               [this] {
                                 ++ticks;
                                 if (in_tick) in_tick();
                               },
                           .on_failure = [](const std::string&) {},
                           .missing_here = [](std::uint64_t) { return -1; }});
  }
  Monitor& operator*() { return *monitor_; }
  Monitor* operator->() { return monitor_.get(); }

  void say(int pe, const Frame& frame) {
    (void)::send(peers_.at(pe).fd().get(), frame->data(), frame->size(), MSG_NOSIGNAL);
  }
  /// Closes the connection of PE `pe`, by a reset if `resets`.
  void close(int pe, bool resets = false) {
    const linger at_once{1, 0};
    const Fd fd = std::move(peers_.at(pe)).take_fd();
    if (resets) (void)setsockopt(fd.get(), SOL_SOCKET, SO_LINGER, &at_once, sizeof(at_once));
    peers_.erase(pe);
  }
  /// Returns the next frame for PE `pe`; null when its connection has ended.
  Frame hears(int pe) {
    net::Stream& stream = peers_.at(pe);
    const Deadline deadline(kSeconds);
    for (;;) {
      if (Frame frame = stream.receive()) return frame;
      if (stream.state() != net::Stream::State::kOpen) return nullptr;
      if (!net::wait_for(stream.fd(), POLLIN, deadline)) throw std::runtime_error("silence");
    }
  }
  /// Returns the next frame for PE `pe` as text.
  std::string heard(int pe) {
    const Frame frame = hears(pe);
    if (!frame) return "end";
    const net::FrameHeader header = net::header_of(frame);
    if (header.kind == FrameKind::kGoodbye) return "goodbye";
    if (header.kind == FrameKind::kPart) return "nothing";
    const PeerNews told = news_of(frame);
    const std::string what = header.kind == FrameKind::kEnded  ? "ended "
                             : header.kind == FrameKind::kNews ? "news "
                                                               : "kind ";
    return what + text_of(told);
  }
  /// Returns the frames for PE `pe` after everything so far has been sent.
  std::string heard_now(int pe) {
    monitor_->contribute(of_kind(FrameKind::kPart, group_.me(), static_cast<std::uint32_t>(pe)));
    return heard(pe);
  }
  /// Returns all events so far, after the frames of PE `from` have been read.
  std::string events_after(int from) {
    {
      const std::lock_guard lock(mutex_);
      markers_ = 0;
    }
    say(from, of_kind(FrameKind::kPart, from, static_cast<std::uint32_t>(group_.me())));
    std::unique_lock lock(mutex_);
    if (!changed_.wait_for(lock, std::chrono::duration<double>(kSeconds),
                           [&] { return markers_ > 0; }))
      throw std::runtime_error("no marker");
    return events_;
  }
  /// Returns all events as soon as there is one.
  std::string events() {
    std::unique_lock lock(mutex_);
    (void)changed_.wait_for(lock, std::chrono::duration<double>(kSeconds),
                            [&] { return !events_.empty(); });
    return events_;
  }
  std::string events_so_far() {
    const std::lock_guard lock(mutex_);
    return events_;
  }
  std::vector<FrameKind> frames() {
    const std::lock_guard lock(mutex_);
    return frames_;
  }

  std::atomic<int> ticks{0};
  std::function<void()> in_tick;  ///< set before the first tick

 private:
  static std::string text_of(const PeerNews& told) {
    static const char* const names[] = {"died", "left", "unreachable", "stopped", "exited"};
    return std::to_string(told.pe) + " " + names[static_cast<int>(told.event)] + told.why;
  }
  void note(const PeerNews& told) {
    const std::lock_guard lock(mutex_);
    events_ += text_of(told) + ";";
    changed_.notify_all();
  }
  void note_marker() {
    const std::lock_guard lock(mutex_);
    ++markers_;
    changed_.notify_all();
  }

  HostGroup group_;
  std::map<int, net::Stream> peers_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::string events_;
  std::vector<FrameKind> frames_;
  int markers_ = 0;
  std::unique_ptr<Monitor> monitor_;
};

const std::vector<std::string> kOneHost{"a", "a", "a", "a"};

}  // namespace

TEST_CASE("an_end_is_an_event_at_once_and_news_a_moment_later") {
  Rig rig(kOneHost, 0);
  rig.close(1);
  for (const int pe : {2, 3}) CHECK(rig.heard(pe) == "ended 1 died");
  CHECK(rig.events_after(2).empty());  // other PEs may still send news
  for (const int pe : {2, 3}) CHECK(rig.heard(pe) == "news 1 died");
  CHECK(rig.events() == "1 died;");
  // A later end may be a consequence: it is an event here, but no news for others.
  rig.close(2);
  rig.say(3, ended(2, PeerEvent::kDied));
  const Deadline deadline(kSeconds);
  while (rig.events_after(3) == "1 died;" && !deadline.passed()) {
  }
  CHECK(rig.events() == "1 died;2 died;");
  while (rig.heard_now(3) != "nothing") FAIL("PE 3 gets news");
}

namespace {

/// Retries, because a round can be slow on a busy machine.
template <class Round>
bool holds_once(const Round& round) {
  for (int i = 0; i < 50; ++i)
    if (round()) return true;
  return false;
}

}  // namespace

TEST_CASE("the_end_of_a_connection_shows_how_the_peer_ended") {
  const std::vector<std::string> two_hosts{"a", "b", "a"};
  const Frame garbage = std::make_shared<net::Bytes>(64);
  struct End {
    int pe;
    bool resets;
    Frame last;
    std::string event;
  };
  const End end =
      GENERATE_COPY(End{1, false, nullptr, "1 died;"}, End{1, true, nullptr, "1 died;"},
                    End{1, false, garbage, "1 unreachable;"}, End{2, false, nullptr, "2 died;"},
                    End{2, false, garbage, "2 died;"});
  Rig rig(two_hosts, 0);
  if (end.last) rig.say(end.pe, end.last);
  if (!end.last) rig.close(end.pe, end.resets);
  CHECK(rig.events() == end.event);

  Rig failing(two_hosts, 0, Kind::kNoSocket);
  failing.close(1);
  CHECK(failing.events() == "1 unreachable;");
}

TEST_CASE("a_pe_that_ends_notifies_all_unless_they_know_the_cause") {
  Rig rig(kOneHost, 0);
  rig->ending({0, PeerEvent::kStopped, ": out of order"});
  for (const int pe : {1, 2, 3}) CHECK(rig.heard(pe) == "news 0 stopped: out of order");
  rig->ending({0, PeerEvent::kStopped, ": again"});
  CHECK(rig.heard_now(1) == "nothing");
  rig.say(2, news(2, PeerEvent::kStopped));
  CHECK(rig.events_after(2) == "2 stopped;");  // faults of others are reported nevertheless

  Rig told(kOneHost, 0);
  told.say(1, news(1, PeerEvent::kStopped));
  CHECK(told.events() == "1 stopped;");
  for (const int pe : {2, 3}) CHECK(told.heard(pe) == "news 1 stopped");
  told->ending({0, PeerEvent::kStopped, ": for PE 1's sake"});
  CHECK(told.heard_now(2) == "nothing");

  Rig exits(kOneHost, 0);
  exits.say(1, news(1, PeerEvent::kStopped));
  CHECK(exits.events() == "1 stopped;");
  exits->ending({0, PeerEvent::kExited, ""});
  CHECK(exits.heard(1) == "news 0 exited");
  exits.say(2, news(2, PeerEvent::kStopped));
  exits.say(3, news(3, PeerEvent::kExited));
  CHECK(exits.events_after(3) == "1 stopped;3 exited;");
}

TEST_CASE("a_fault_about_a_peer_waits_a_moment_for_its_death") {
  Rig rig(kOneHost, 0);
  rig.close(1);
  CHECK(rig.heard(2) == "ended 1 died");
  rig->ending({0, PeerEvent::kStopped, ": PE 1 does not answer"}, 1);
  CHECK(rig.heard_now(2) == "news 1 died");  // now that this PE ends
  CHECK(rig.heard(2) == "nothing");

  Rig first(kOneHost, 2);
  first.close(0);
  CHECK(first.heard(1) == "ended 0 died");
  first->ending({2, PeerEvent::kStopped, ": PE 0 does not answer"}, 0);
  CHECK(first.heard(1) == "news 0 died");

  Rig lives(kOneHost, 0);
  lives->ending({0, PeerEvent::kStopped, ": PE 1 does not answer"}, 1);
  for (const int pe : {1, 2}) CHECK(lives.heard(pe) == "news 0 stopped: PE 1 does not answer");

  Rig later(kOneHost, 0);
  auto ends = std::async(std::launch::async, [&] {
    later->ending({0, PeerEvent::kStopped, ": PE 1 does not answer"}, 1);
  });
  later.say(2, news(1, PeerEvent::kUnreachable));
  ends.get();
  CHECK(later.heard(3) == "news 1 unreachable");
  CHECK(later.heard_now(3) == "nothing");
}

TEST_CASE("a_pe_that_leaves_says_goodbye_after_all_its_news_and_waits_for_other_hosts") {
  Rig rig({"a", "a", "b"}, 0);
  rig.close(1);
  CHECK(rig.heard(2) == "ended 1 died");
  auto left = std::async(std::launch::async, [&] { rig->leave(); });
  CHECK(rig.heard(2) == "news 1 died");
  CHECK(rig.heard(2) == "goodbye");
  CHECK(left.wait_for(std::chrono::milliseconds(50)) == std::future_status::timeout);
  rig.close(2);
  left.get();
  CHECK(rig.events().find("2 died") == std::string::npos);

  CHECK(holds_once([] {  // PEs of this host need no wait
    Rig here(kOneHost, 0);
    const auto begin = Clock::now();
    here->leave();
    const auto took = Clock::now() - begin;
    for (const int pe : {1, 2, 3}) CHECK(here.heard(pe) == "goodbye");
    return took < std::chrono::milliseconds(500);
  }));
}
