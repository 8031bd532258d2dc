// What listens for the processes of a job: whom it lets in, what it tells others, and until when it
// waits. Callers are connections that the test has made.
#include "host/base/net/reception.h"

#include "host/base/net/socket.h"
#include "tests/patience.h"
#include "tests/sanitizers/sanitizers.h"

#include <catch2/catch.hpp>

#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

using namespace gshmem;
using namespace gshmem::net;

namespace {

constexpr double kSeconds = 20 * test::kPatience;

Endpoint loopback() {
  Endpoint endpoint;
  endpoint.ip = {127, 0, 0, 1};
  return endpoint;
}

/// Two listeners, and a reception that lets in who calls with the right cookie.
struct Rig {
  Rig() {
    std::vector<Fd> listeners;
    for (Endpoint& endpoint : at) {
      Listener listener = listen_on(loopback());
      endpoint = listener.endpoint;
      listeners.push_back(std::move(listener.fd));
    }
    reception = std::make_unique<Reception>(
        std::move(listeners),
        [this](const Stream&, const Frame& hello) -> JobFailure {
          const ByteView theirs = payload_of(hello);
          ++judged;
          if (Bytes(theirs.begin(), theirs.end()) == cookie) return {};
          return {GSHMEMX_ERROR_BOOTSTRAP, "who are you?"};
        },
        [this](Stream caller, const FrameHeader& hello) {
          taken.push_back(hello.rank);
          streams.push_back(std::move(caller));
          if (taken.size() == wanted) reception->close();
        });
  }
  /// A caller that says this at once: TCP_DEFER_ACCEPT holds back those that say nothing.
  Stream call(const Endpoint& endpoint, ByteView says) const {
    Attempt attempt = connect_to(endpoint, Deadline(kSeconds));
    REQUIRE(attempt.fd);
    REQUIRE(::send(attempt.fd.get(), says.data(), says.size(), MSG_NOSIGNAL) ==
            static_cast<ssize_t>(says.size()));
    return {std::move(attempt.fd), {FrameKind::kFail, FrameKind::kWelcome}};
  }
  [[nodiscard]] Frame hello(int rank) const {
    return make_frame({.kind = FrameKind::kHello, .rank = rank}, cookie);
  }
  /// What the caller is told; null when it is hung up on.
  Frame answer(Stream& caller) const {
    const Deadline deadline(kSeconds);
    for (waits = 0;; ++waits) {
      if (Frame frame = caller.receive()) return frame;
      if (caller.state() != Stream::State::kOpen) return nullptr;
      REQUIRE_FALSE(deadline.passed());
      (void)reception->wait(Deadline(0.01));
    }
  }
  /// Some of which nothing comes.
  void rounds() const {
    for (int round = 0; round < 10; ++round) (void)reception->wait(Deadline(0.005));
  }
  void until_taken(std::size_t count) const {
    const Deadline deadline(kSeconds);
    while (taken.size() < count) {
      REQUIRE_FALSE(deadline.passed());
      (void)reception->wait(deadline);
    }
  }

  const Bytes cookie = Bytes(16, std::byte{0x5A});
  std::vector<Endpoint> at = std::vector<Endpoint>(2);
  std::size_t wanted = 3;
  int judged = 0;
  mutable int waits = 0;  ///< for the last answer
  std::vector<int> taken;
  std::vector<Stream> streams;
  std::unique_ptr<Reception> reception;
};

}  // namespace

TEST_CASE("callers_of_a_job_come_in_by_any_address_until_all_are_there") {
  Rig rig;
  std::vector<Stream> callers;
  for (const int rank : {4, 7}) {
    callers.push_back(rig.call(rig.at[rank == 4 ? 0 : 1], *rig.hello(rank)));
    rig.until_taken(callers.size());
  }
  CHECK(rig.reception->listens());
  callers.push_back(rig.call(rig.at[0], *rig.hello(9)));
  rig.until_taken(3);
  CHECK(rig.taken == std::vector<int>{4, 7, 9});
  CHECK_FALSE(rig.reception->listens());
  CHECK(connect_to(rig.at[1], Deadline(kSeconds)).error != 0);
  // The streams go on where the greeting ended.
  rig.streams[2].queue(make_frame({.kind = FrameKind::kWelcome}));
  rig.streams[2].send_some();
  const Frame welcome = rig.answer(callers[2]);
  REQUIRE(welcome != nullptr);
  CHECK(header_of(welcome).kind == FrameKind::kWelcome);
  CHECK(rig.reception->poll_ms() == -1);
}

TEST_CASE("who_is_refused_is_told_why_once_and_hung_up_on_when_it_goes_on") {
  Rig rig;
  const Bytes wrong(16, std::byte{1});
  const Frame hello = make_frame({.kind = FrameKind::kHello, .rank = 4}, wrong);
  Stream caller = rig.call(rig.at[0], *hello);
  const Deadline deadline(kSeconds);
  while (rig.judged == 0 && !deadline.passed()) (void)rig.reception->wait(deadline);
  // It is told at once: there may be no further wait.
  REQUIRE(wait_for(caller.fd(), POLLIN, deadline));
  Frame answer = caller.receive();
  REQUIRE(answer != nullptr);
  CHECK(header_of(answer).kind == FrameKind::kFail);
  CHECK(header_of(answer).detail == GSHMEMX_ERROR_BOOTSTRAP);
  CHECK(text_of(answer) == "who are you?");
  CHECK(caller.receive() == nullptr);
  CHECK(caller.state() == Stream::State::kOpen);  // it reads in its own time
  caller.queue(rig.hello(4));                     // the right one comes too late
  caller.send_some();
  CHECK(rig.answer(caller) == nullptr);
  CHECK(rig.waits < 100);  // at once, no matter how long a greeting may take
  CHECK(rig.taken.empty());

  Bytes other = *rig.hello(4);
  other[5] = std::byte{FrameHeader::kVersion + 1};
  Stream newer = rig.call(rig.at[0], other);
  answer = rig.answer(newer);
  REQUIRE(answer != nullptr);
  CHECK(header_of(answer).detail == GSHMEMX_ERROR_BOOTSTRAP);
  CHECK(text_of(answer) == "refused: the caller's protocol has version " +
                               std::to_string(FrameHeader::kVersion + 1) + ", this process's " +
                               std::to_string(FrameHeader::kVersion));
  const std::string browser = "GET / HTTP/1.1";
  Stream stranger = rig.call(rig.at[0], std::as_bytes(std::span(browser)));
  CHECK(rig.answer(stranger) == nullptr);
  CHECK(rig.waits < 100);
  CHECK(rig.reception->listens());
}

TEST_CASE("who_has_said_half_is_waited_for_and_hung_up_on_when_all_others_are_there") {
  Rig rig;
  rig.wanted = 1;
  const Frame hello = rig.hello(5), wrong = make_frame({.kind = FrameKind::kHello}, Bytes(16));
  Stream refused = rig.call(rig.at[0], *wrong);
  REQUIRE(rig.answer(refused) != nullptr);
  Stream half = rig.call(rig.at[0], ByteView(*hello).first(20));
  const Deadline deadline(kSeconds);
  while (rig.reception->poll_ms() < 0 && !deadline.passed()) (void)rig.reception->wait(deadline);
  // The first of both whose time is up has at most so much.
  CHECK(rig.reception->poll_ms() <= static_cast<int>(kHandshakeSeconds * 1000));
  CHECK(rig.taken.empty());
  Stream whole = rig.call(rig.at[0], *rig.hello(6));
  rig.until_taken(1);
  CHECK(rig.answer(half) == nullptr);
  CHECK(rig.taken == std::vector<int>{6});
  CHECK(refused.receive() == nullptr);
  CHECK(refused.state() == Stream::State::kOpen);
}

TEST_CASE("halves_of_greetings_are_completed_in_any_order") {
  Rig rig;
  const Frame hellos[] = {rig.hello(1), rig.hello(2), rig.hello(3)};
  std::vector<Stream> callers;
  for (const Frame& hello : hellos)
    callers.push_back(rig.call(rig.at[0], ByteView(*hello).first(30)));
  rig.rounds();
  for (const std::size_t at : {2u, 1u, 0u}) {
    CHECK(rig.taken.size() == 2 - at);
    const ByteView rest = ByteView(*hellos[at]).subspan(30);
    REQUIRE(::send(callers[at].fd().get(), rest.data(), rest.size(), 0) ==
            static_cast<ssize_t>(rest.size()));
    rig.until_taken(3 - at);
  }
  CHECK(rig.taken == std::vector<int>{3, 2, 1});
}

namespace {

/// This process gets no descriptor more, except those that it gives back.
class NoDescriptors {
 public:
  NoDescriptors() {
    check_errno(getrlimit(RLIMIT_NOFILE, &before_), "getrlimit");
    rlimit none = before_;
    none.rlim_cur = static_cast<rlim_t>(Fd(::dup(STDIN_FILENO)).get());
    check_errno(setrlimit(RLIMIT_NOFILE, &none), "setrlimit");
  }
  ~NoDescriptors() { (void)setrlimit(RLIMIT_NOFILE, &before_); }
  NoDescriptors(const NoDescriptors&) = delete;

 private:
  rlimit before_{};
};

}  // namespace

TEST_CASE("without_descriptors_it_pauses_and_says_so_until_there_are_some") {
  if (kUnderAsan) return;  // UBSan, which is built in with ASan, needs descriptors
  Rig rig;
  const Stream caller = rig.call(rig.at[0], *rig.hello(5));
  const Deadline deadline(kSeconds);
  {
    const NoDescriptors limit;
    while (rig.reception->shortage().empty() && !deadline.passed())
      (void)rig.reception->wait(Deadline(0.1));
    CHECK_THAT(rig.reception->shortage(), Catch::StartsWith("accept4: Too many open files; "));
    std::vector<pollfd> entries;
    rig.reception->add_to(entries);
    REQUIRE(entries.size() == 2);
    for (const pollfd& entry : entries) CHECK(entry.fd < 0);
    CHECK(rig.reception->poll_ms() > 0);
    CHECK(rig.taken.empty());
  }
  rig.until_taken(1);
  CHECK(rig.reception->shortage().empty());
  CHECK(rig.reception->poll_ms() == -1);
}

TEST_CASE("without_descriptors_who_has_said_half_for_longest_makes_room") {
  if (kUnderAsan) return;
  Rig rig;
  std::vector<Stream> halves;
  for (const int rank : {1, 2, 3}) {
    halves.push_back(rig.call(rig.at[0], ByteView(*rig.hello(rank)).first(8)));
    rig.rounds();
  }
  const Stream caller = rig.call(rig.at[1], *rig.hello(5));
  const NoDescriptors limit;
  while (rig.taken.empty()) {
    (void)rig.reception->wait(Deadline(kSeconds));
    REQUIRE(rig.reception->shortage().empty());
  }
  // Where there is no descriptor Linux does not tell whether there is another caller: the second
  // may have to go for that.
  for (const std::size_t at : {0u, 2u}) {
    CHECK(halves[at].receive() == nullptr);
    CHECK(halves[at].state() == (at == 0 ? Stream::State::kClosed : Stream::State::kOpen));
  }
}

TEST_CASE("of_those_who_have_said_half_as_many_are_kept_as_may_be") {
  Rig rig;
  const Bytes whole = *rig.hello(5);
  std::vector<Stream> callers;
  for (std::size_t i = 0; i < stranger_limit() + 2; ++i)
    callers.push_back(rig.call(rig.at[0], ByteView(whole).first(20)));
  for (const std::size_t oldest : {0u, 1u}) CHECK(rig.answer(callers[oldest]) == nullptr);
  rig.rounds();
  const ByteView rest = ByteView(whole).subspan(20);
  REQUIRE(::send(callers[2].fd().get(), rest.data(), rest.size(), MSG_NOSIGNAL) ==
          static_cast<ssize_t>(rest.size()));
  rig.until_taken(1);
  CHECK(rig.taken == std::vector<int>{5});
}

TEST_CASE("who_has_said_half_is_kept_when_many_of_the_job_come_at_once") {
  Rig rig;
  rig.wanted = stranger_limit() + 3;
  const Bytes whole = *rig.hello(5);
  const Stream half = rig.call(rig.at[0], ByteView(whole).first(20));
  rig.rounds();
  std::vector<Stream> callers;
  for (std::size_t i = 0; i < stranger_limit() + 2; ++i)
    callers.push_back(rig.call(rig.at[0], *rig.hello(static_cast<int>(i) + 6)));
  rig.until_taken(callers.size());
  const ByteView rest = ByteView(whole).subspan(20);
  REQUIRE(::send(half.fd().get(), rest.data(), rest.size(), MSG_NOSIGNAL) ==
          static_cast<ssize_t>(rest.size()));
  rig.until_taken(callers.size() + 1);
  CHECK(rig.taken.back() == 5);
}

TEST_CASE("a_wait_ends_for_its_deadline_and_for_what_else_is_to_be_read") {
  Rig rig;
  CHECK_FALSE(rig.reception->wait(Deadline(0.01)));
  CHECK(rig.reception->poll_ms() == -1);
  int ends[2];
  REQUIRE(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) == 0);
  const Fd mine(ends[0]), theirs(ends[1]);
  CHECK_FALSE(rig.reception->wait(Deadline(0.01), mine));
  REQUIRE(::send(theirs.get(), "?", 1, 0) == 1);
  CHECK(rig.reception->wait(Deadline(kSeconds), mine));
  // A caller and that at the same time.
  const Stream caller = rig.call(rig.at[1], *rig.hello(8));
  const Deadline deadline(kSeconds);
  while (rig.taken.empty() && !deadline.passed()) CHECK(rig.reception->wait(Deadline(0.01), mine));
  CHECK(rig.taken == std::vector<int>{8});
  CHECK(rig.reception->shortage().empty());
}
