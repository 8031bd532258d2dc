// Tests peers that die or stop answering: an error completion within the time limit, on_error with
// the PE's number, and a stop() that returns. The peer is a process of its own (rank_main.cpp).
#include "tests/ofi/job.h"
#include "tests/patience.h"

#include <gshmem/uniqueid.h>

#include <catch2/catch.hpp>

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstring>
#include <optional>

extern char** environ;

using namespace gshmem;
using namespace gshmem::test;

namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

/// Rank 1 of 2 in a child process, killed at the latest with this object.
class Child {
 public:
  Child(const gshmemx_uniqueid& id, const Leg& leg) {
    std::string hex;
    std::uint8_t bytes[sizeof(id)];
    std::memcpy(bytes, &id, sizeof(id));
    for (const std::uint8_t byte : bytes) hex += strprintf("%02x", byte);
    std::string words[] = {OFI_RANK, hex, "1", "2", leg.provider, leg.gdr};
    char* arguments[] = {words[0].data(), words[1].data(), words[2].data(), words[3].data(),
                         words[4].data(), words[5].data(), nullptr};
    int ends[2];
    check_errno(pipe2(ends, O_CLOEXEC), "pipe2");
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, ends[0], STDIN_FILENO);
    const int result = posix_spawn(&pid_, OFI_RANK, &actions, nullptr, arguments, environ);
    posix_spawn_file_actions_destroy(&actions);
    close(ends[0]);
    input_ = ends[1];
    require(result == 0, GSHMEMX_ERROR_SYSTEM, std::string("posix_spawn: ") + strerror(result));
  }
  ~Child() {
    send(SIGKILL);
    close(input_);
  }
  Child(const Child&) = delete;
  void send(int signal) {
    if (pid_ <= 0) return;
    kill(pid_, signal);
    // kill() returns before the process has stopped; its threads may answer until then.
    if (signal == SIGSTOP) waitpid(pid_, nullptr, WUNTRACED);
    if (signal != SIGKILL) return;
    waitpid(pid_, nullptr, 0);
    pid_ = -1;
  }

 private:
  pid_t pid_ = -1;
  int input_ = -1;
};

struct Pair {
  Pair(const Leg& leg, double timeout_seconds) : config(config_of(leg, timeout_seconds)) {
    gshmemx_uniqueid id{};
    bootstrap::make_uniqueid(&id, config);
    child.emplace(id, leg);
    boot = bootstrap::create_uid(id, 0, 2, config);
    me = std::make_unique<Pe>(*boot, config);
    REQUIRE(me->to(1).ring_and_wait(me->to(1).write(0, 64, 8)).ok());
  }
  void stop_in_time() {
    const auto begin = Clock::now();
    me.reset();
    CHECK(seconds_since(begin) < 10 * gshmem::test::kPatience);
  }
  Config config;
  std::optional<Child> child;
  std::unique_ptr<bootstrap::Bootstrap> boot;
  std::unique_ptr<Pe> me;
};

void check_loss(Pair& pair, std::uint64_t index, double limit) {
  const auto begin = Clock::now();
  const Outcome outcome = pair.me->to(1).wait(index, limit);
  std::printf("  error after %.2f s\n", seconds_since(begin));
  REQUIRE_FALSE(outcome.timed_out);
  CHECK(int(outcome.syndrome) == 0x15);
  CHECK(int(outcome.vendor) == 0x81);
}

void check_reported(Pair& pair) {
  const auto begin = Clock::now();
  while (pair.me->errors().empty() && seconds_since(begin) < 20 * gshmem::test::kPatience)
    usleep(1000);
  const auto errors = pair.me->errors();
  REQUIRE(errors.size() == 1);
  INFO(errors[0].second);
  std::printf("  %s\n", errors[0].second.c_str());
  CHECK(errors[0].first == 1);
  // Its other queues fail, too; those to others still work.
  CHECK(pair.me->to(0).ring_and_wait(pair.me->to(0).write(0, 64, 8)).ok());
}

}  // namespace

TEST_CASE("a peer that was killed is an error at the next operation", "[ofi]") {
  if (!have_real_libfabric()) return;
  const Leg leg = GENERATE(from_range(legs()));
  const bool atomic = GENERATE(false, true);
  INFO(leg.name() << (atomic ? " atomic" : " write"));
  std::printf("%s%s\n", leg.name().c_str(), atomic ? " atomic" : " write");
  Pair pair(leg, 20);
  pair.child->send(SIGKILL);
  Client& client = pair.me->to(1);
  const std::uint64_t index = atomic ? client.fetch_add(0, 64, 1) : client.write(0, 64, 8);
  client.ring();
  check_loss(pair, index, 25);
  check_reported(pair);
  pair.stop_in_time();
}

TEST_CASE("a peer that is killed with operations in flight is an error", "[ofi]") {
  if (!have_real_libfabric()) return;
  const Leg leg = GENERATE(from_range(legs()));
  const int kind = GENERATE(0, 1, 2);
  INFO(leg.name() << " kind " << kind);
  std::printf("%s kind %d\n", leg.name().c_str(), kind);
  Pair pair(leg, 20);
  pair.child->send(SIGSTOP);
  Client& client = pair.me->to(1);
  std::uint64_t index = 0;
  for (int i = 0; i < 10; ++i) {
    if (kind == 0) index = client.write(0, 64, 100000);
    if (kind == 1) index = client.read(0, 64, 100000);
    if (kind == 2) index = client.fetch_add(0, 64, 1);
    client.ring();
  }
  CHECK(client.wait(index, 0.3).timed_out);
  pair.child->send(SIGKILL);
  check_loss(pair, index, 25);
  check_reported(pair);
  pair.stop_in_time();
}

TEST_CASE("a peer that does not answer is an error before waits of GSHMEM_TIMEOUT end", "[ofi]") {
  if (!have_real_libfabric()) return;
  const Leg leg = GENERATE(from_range(legs()));
  INFO(leg.name());
  std::printf("%s\n", leg.name().c_str());
  Pair pair(leg, 8);  // long enough for the peer's first answer on a busy machine
  pair.child->send(SIGSTOP);
  Client& client = pair.me->to(1);
  const std::uint64_t index = client.write(0, 64, 1000000);
  client.ring();
  check_loss(pair, index, 20);
  CHECK(pair.me->errors().empty());  // the waiter learns it first
  check_reported(pair);              // the PE reports it, although no thread waits
  const std::string text = pair.me->errors().at(0).second;
  CHECK_THAT(text, Catch::Contains("WRITE of 1000000 bytes to PE 1 did not end within 7 s "
                                   "(GSHMEM_TIMEOUT = 8 s)"));
  const bool staged = leg.gdr == "off";
  CHECK_THAT(text, Catch::Contains(staged ? "4 message(s) "
                                          : "1 call(s) that the provider did not complete"));
  pair.stop_in_time();
}

TEST_CASE("stop returns with operations in flight to a dead peer", "[ofi]") {
  if (!have_real_libfabric()) return;
  const Leg leg = GENERATE(from_range(legs()));
  INFO(leg.name());
  Pair pair(leg, 0);
  pair.child->send(SIGSTOP);
  for (int i = 0; i < 20; ++i) (void)pair.me->to(1).write(0, 64, 100000);
  pair.me->to(1).ring();
  usleep(100000);
  pair.child->send(SIGKILL);
  pair.stop_in_time();
}

TEST_CASE("a thread that waits for an overdue operation gets the error before its PE does",
          "[ofi][double]") {
  if (!have_double()) return;
  Leg leg{.provider = "efa/efa", .gdr = "auto"};
  leg.by_hand = true;
  Job job(2, leg, 10);
  for (int i = 0; i < 3; ++i) job[0].round();  // greetings
  fabric_double()->rtt = 3600ll * 1'000'000'000;
  Client& client = job[0].to(1);
  const std::uint64_t write = client.write(0, 64, 8);
  client.ring();
  const auto begun = Clock::now();
  const auto round_at = [&](int ms) { job[0].round(begun + std::chrono::milliseconds(ms)); };
  round_at(0);
  round_at(8750);
  round_at(8769);  // it probes every 20 ms
  CHECK(client.wait(write, 0).timed_out);
  for (const int ms : {8770, 8790, 8810, 8830, 8850, 8869}) {
    round_at(ms);
    CHECK(int(client.wait(write, 0).syndrome) == (ms == 8770 ? 0 : 0x15));  // at its next probe
  }
  CHECK(job[0].errors().empty());
  round_at(8870);
  CHECK(job[0].errors().size() == 1);
  fabric_double()->rtt = 0;
}

TEST_CASE("without GSHMEM_TIMEOUT nothing is overdue", "[ofi][double]") {
  if (!have_double()) return;
  Leg leg{.provider = "efa/efa", .gdr = "auto"};
  leg.by_hand = true;
  Job job(2, leg, 0);
  for (int i = 0; i < 3; ++i) job[0].round();  // greetings
  fabric_double()->rtt = 3600ll * 1'000'000'000;
  const std::uint64_t write = job[0].to(1).write(0, 64, 8);
  job[0].to(1).ring();
  const auto begun = Clock::now();
  for (int i = 0; i < 3; ++i) job[0].round(begun + std::chrono::hours(i));
  CHECK(job[0].to(1).wait(write, 0).timed_out);
  CHECK(job[0].errors().empty());
  fabric_double()->rtt = 0;
}

TEST_CASE("a peer for which the provider has no slot left is an error", "[ofi][double]") {
  if (!have_double()) return;
  Leg leg{.provider = "efa/efa-direct", .gdr = "auto"};
  leg.by_hand = true;
  Job job(2, leg, GENERATE(20, 0));  // or without GSHMEM_TIMEOUT
  Client& client = job[0].to(1);
  const auto limit = Clock::now() + std::chrono::seconds(20 * gshmem::test::kPatience);
  const auto ends = [&](std::uint64_t write) {
    fabric_double()->busy = 0;
    while (!client.has_ended(write)) {
      REQUIRE(Clock::now() < limit);
      job[0].round();
      job[1].round();
    }
  };
  auto now = Clock::now();  // the time of the executor
  const auto busy_for = [&](int tenths) {
    fabric_double()->busy = 100;
    const std::uint64_t write = client.write(0, 64, 8);
    client.ring();
    for (int i = 0; i < tenths && job[0].errors().empty();
         ++i, now += std::chrono::milliseconds(100))
      job[0].round(now);
    return write;
  };
  const std::uint64_t first = client.write(0, 64, 8);
  client.ring();
  ends(first);
  // Each period is short enough, with answers between them.
  for (int i = 0; i < 3; ++i) ends(busy_for(40));
  CHECK(job[0].errors().empty());
  // Half a second, then 5.
  const std::uint64_t second = busy_for(62);
  job[0].round(now);
  const auto errors = job[0].errors();
  REQUIRE(errors.size() == 1);
  CHECK(errors[0].first == 1);
  CHECK_THAT(errors[0].second, Catch::Contains("PE 1: no connection can be made since 5 s"));
  const Outcome outcome = client.wait(second, 0);
  CHECK_FALSE(outcome.timed_out);
  CHECK(int(outcome.syndrome) == 0x15);
  fabric_double()->busy = 0;
}
