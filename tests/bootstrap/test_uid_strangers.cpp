// Tests the root service among strangers and ranks that break the rules: the job goes on, and a
// refused client learns the reason.
#include "bootstrap/uid/root.h"
#include "host/base/fd.h"
#include "tests/bootstrap/run_ranks.h"
#include "tests/bootstrap/uid_fixture.h"
#include "tests/patience.h"
#include "tests/sanitizers/sanitizers.h"

#include <sys/eventfd.h>
#include <sys/resource.h>

#include <chrono>
#include <cstdlib>
#include <deque>
#include <filesystem>
#include <random>
#include <thread>

using namespace gshmem;
using namespace gshmem::test;
using bootstrap::Bootstrap;
using net::Bytes;
using net::ByteView;
using net::Frame;
using net::FrameKind;

namespace {

/// Returns the first `bytes` of `frame`.
ByteView part(const Frame& frame, std::size_t bytes) { return ByteView(*frame).first(bytes); }

Frame contribution(ByteView data) {
  return net::make_frame({.kind = FrameKind::kContribution, .number = 1}, data);
}
const Frame kGoodbye = net::make_frame({.kind = FrameKind::kGoodbye});

Bytes random_bytes(std::size_t count, unsigned seed) {
  std::mt19937 random(seed);
  Bytes bytes(count);
  for (auto& b : bytes) b = static_cast<std::byte>(random());
  return bytes;
}

void run_good_job(const gshmemx_uniqueid& id, int size) {
  CHECK(run_threads(size, [&](int rank) {
          const auto boot = bootstrap::create_uid(id, rank, size, uid_config());
          small_allgathers_do_not_mix(*boot, 20);
          boot->barrier();
        }) == "");
}

}  // namespace

TEST_CASE("uid_garbage_does_not_disturb_the_job", "[uid]") {
  gshmemx_uniqueid id;
  bootstrap::make_uniqueid(&id, uid_config());
  const std::string http = "GET / HTTP/1.0\r\n\r\n";
  std::deque<RawClient> strangers;  // stay connected while the job runs
  for (unsigned i = 0; i < 20; ++i) {
    strangers.emplace_back(id);  // connects and sends nothing
    strangers.emplace_back(id).send(random_bytes(i * 13, i));
    strangers.emplace_back(id).send(std::as_bytes(std::span(http)));
    const Frame hello = strangers.back().hello(0, 3);
    strangers.emplace_back(id).send(part(hello, i));  // stops halfway
    RawClient(id).send(part(hello, i));               // and hangs up
    // Frames that only a rank may send, and a length that would fill the memory.
    strangers.emplace_back(id).send(contribution({}));
    Bytes huge = *hello;
    huge[12] = std::byte{0xFF};
    strangers.emplace_back(id).send(huge);
  }
  run_good_job(id, 3);
}

TEST_CASE("uid_sender_of_garbage_is_disconnected", "[uid]") {
  gshmemx_uniqueid id;
  bootstrap::make_uniqueid(&id, uid_config());
  RawClient client(id);
  client.send(random_bytes(64, 1));
  CHECK(client.receive() == nullptr);
  run_good_job(id, 1);
}

TEST_CASE("uid_bytes_may_arrive_one_by_one", "[uid]") {
  gshmemx_uniqueid id;
  bootstrap::make_uniqueid(&id, uid_config());
  const Bytes mine{std::byte{'x'}, std::byte{'y'}};
  CHECK(run_threads(2, [&](int rank) {
          if (rank == 0) {
            const auto boot = bootstrap::create_uid(id, 0, 2, uid_config());
            std::array<char, 5> all{};
            boot->allgather("ab", all.data(), 2);
            expect(std::string(all.data()) == "abxy", "dribbled bytes arrive");
            return;
          }
          RawClient client(id);
          client.step = 1;
          client.join(1, 2);
          client.expect_kind(FrameKind::kWelcome);
          client.send(contribution(mine), 1);
          client.expect_kind(FrameKind::kResult);
          client.send(kGoodbye, 1);
        }) == "");
}

TEST_CASE("uid_wrong_cookie_is_refused_and_the_job_goes_on", "[uid]") {
  gshmemx_uniqueid id;
  bootstrap::make_uniqueid(&id, uid_config());
  auto unique = bootstrap::decode_uniqueid(id).value();
  unique.cookie[3] ^= std::byte{1};
  gshmemx_uniqueid forged;
  encode_uniqueid(unique, &forged);
  expect_error(GSHMEMX_ERROR_BOOTSTRAP, "the unique id belongs to another job",
               [&] { (void)bootstrap::create_uid(forged, 0, 2, uid_config()); });
  RawClient liar(id);  // does not require a proof of the root service
  liar.send(liar.hello(0, 2));
  liar.expect_kind(FrameKind::kChallenge);
  liar.send(net::make_frame({.kind = FrameKind::kProof}, random_bytes(32, 3)));
  CHECK_THAT(liar.receive_failure(), Catch::Contains("refused: the unique id belongs to another"));
  run_good_job(id, 2);
}

TEST_CASE("uid_same_rank_twice_is_refused", "[uid]") {
  gshmemx_uniqueid id;
  bootstrap::make_uniqueid(&id, uid_config());
  RawClient first(id);
  first.join(1, 2);
  RawClient probe(
      id);  // answered after `first`, whose proof was sent before: one thread serves both
  probe.join(1, 2);
  CHECK(probe.receive_failure() == "refused: rank 1 is in the job already");
  expect_error(GSHMEMX_ERROR_BOOTSTRAP, "rank 1 is in the job already",
               [&] { (void)bootstrap::create_uid(id, 1, 2, uid_config()); });
  expect_error(GSHMEMX_ERROR_BOOTSTRAP, "rank 0 says the job has 3 ranks, another says 2",
               [&] { (void)bootstrap::create_uid(id, 0, 3, uid_config()); });
  const auto boot = bootstrap::create_uid(id, 0, 2, uid_config());
  first.expect_kind(FrameKind::kWelcome);
  first.send(kGoodbye);
}

TEST_CASE("uid_ranks_that_wait_learn_why_a_caller_was_refused", "[uid]") {
  struct Caller {
    int rank, size;
    std::string why;
  };
  const auto caller = GENERATE(
      Caller{0, 2, "that calls itself rank 0 was refused: rank 0 is in the job already"},
      Caller{1, 3,
             "that calls itself rank 1 was refused: rank 1 says the job has 3 ranks, another "
             "says 2 (is GSHMEM_UID_SIZE, "});
  gshmemx_uniqueid id;
  bootstrap::make_uniqueid(&id, uid_config());
  RawClient first(id);
  first.join(0, 2);
  expect_error(GSHMEMX_ERROR_BOOTSTRAP, "refused: ", [&] {
    (void)bootstrap::create_uid(id, caller.rank, caller.size, uid_config());
  });
  first.send(net::make_frame({.kind = FrameKind::kExpired, .number = 0, .detail = 2000}));
  CHECK_THAT(first.receive_failure(), Catch::Contains("rank 1 did not take part; a process at ") &&
                                          Catch::Contains(caller.why));
}

TEST_CASE("uid_other_versions_are_refused_with_the_reason", "[uid]") {
  gshmemx_uniqueid id;
  bootstrap::make_uniqueid(&id, uid_config());
  RawClient client(id);
  Bytes hello = *client.hello(0, 2);
  hello[5] = std::byte{9};
  client.send(hello);
  CHECK(client.receive_failure() ==
        "refused: the caller's protocol has version 9, this process's 5");
  run_good_job(id, 2);
}

TEST_CASE("uid_rank_that_sends_garbage_counts_as_dead", "[uid]") {
  const Bytes garbage = GENERATE(
      random_bytes(64, 7), *net::make_frame({.kind = FrameKind::kWelcome}), *hello_frame(1, 2));
  gshmemx_uniqueid id;
  bootstrap::make_uniqueid(&id, uid_config());
  CHECK(run_threads(2, [&](int rank) {
          if (rank == 0) {
            const auto boot = bootstrap::create_uid(id, 0, 2, uid_config());
            expect_error(GSHMEMX_ERROR_PEER_FAILED, "rank 1 died", [&] { boot->barrier(); });
            return;
          }
          RawClient client(id);
          client.join(1, 2);
          client.expect_kind(FrameKind::kWelcome);
          client.send(garbage);
          while (client.receive()) {
          }
        }) == "");
}

TEST_CASE("uid_something_else_on_the_port_or_a_root_that_breaks_the_rules_is_named", "[uid]") {
  struct Root {
    Bytes says;  ///< then it closes the connection
    gshmemx_status code;
    std::string text;
    bool greets = true;  ///< and proves that it belongs to the job
  };
  const auto welcome = [](std::uint64_t size, int root) {
    return *net::make_frame({.kind = FrameKind::kWelcome, .number = size, .rank = root});
  };
  const auto result = [](std::uint64_t number, std::size_t bytes) {
    return *net::make_frame({.kind = FrameKind::kResult, .number = number}, Bytes(bytes));
  };
  const auto after = [](Bytes first, const Bytes& second) {
    first.insert(first.end(), second.begin(), second.end());
    return first;
  };
  const Bytes no_failure = *net::make_frame({.kind = FrameKind::kFail}, "all is well");
  const ByteView banner = std::as_bytes(std::span("SSH-2.0-OpenSSH_9.2\r\n"));
  const std::string stranger = "is not the root service of this job";
  const Root root = GENERATE_COPY(
      Root{{banner.begin(), banner.end()}, GSHMEMX_ERROR_BOOTSTRAP, stranger, false},
      Root{welcome(3, 0), GSHMEMX_ERROR_BOOTSTRAP, stranger},
      Root{result(0, 0), GSHMEMX_ERROR_BOOTSTRAP, stranger},
      Root{result(2, 0), GSHMEMX_ERROR_BOOTSTRAP, stranger},
      Root{after(welcome(2, 0), result(2, 4)), GSHMEMX_ERROR_BOOTSTRAP, stranger},
      Root{after(welcome(2, 0), result(1, 3)), GSHMEMX_ERROR_BOOTSTRAP, stranger},
      Root{after(welcome(2, 0), no_failure), GSHMEMX_ERROR_BOOTSTRAP, stranger},
      Root{welcome(2, -1), GSHMEMX_ERROR_PEER_FAILED,
           "the process that made the unique id died: the connection to its root service at 127."},
      Root{welcome(2, 0), GSHMEMX_ERROR_PEER_FAILED, "rank 0 died: the connection to its"});
  net::Endpoint loopback;
  loopback.ip = {127, 0, 0, 1};
  const auto listener = net::listen_on(loopback);
  CHECK(run_threads(2, [&](int rank) {
          if (rank == 0) {
            (void)net::wait_for(listener.fd, POLLIN, Deadline(30 * gshmem::test::kPatience));
            net::Stream rank(net::accept_from(listener.fd), {FrameKind::kHello});
            Frame hello;
            while (root.greets && !hello) {
              (void)net::wait_for(rank.fd(), POLLIN, Deadline(30 * kPatience));
              hello = rank.receive();
            }
            const Fd server = std::move(rank).take_fd();
            if (root.greets) {
              const Frame challenge = net::challenge_to(hello, secret_of({}), {});
              (void)!::send(server.get(), challenge->data(), challenge->size(), MSG_NOSIGNAL);
            }
            (void)!::send(server.get(), root.says.data(), root.says.size(), MSG_NOSIGNAL);
            (void)shutdown(server.get(), SHUT_WR);
            char byte = 0;
            while (net::wait_for(server, POLLIN, Deadline(30 * gshmem::test::kPatience)) &&
                   recv(server.get(), &byte, 1, 0) > 0) {
            }
            return;
          }
          gshmemx_uniqueid id;
          encode_uniqueid(bootstrap::UniqueId{{{listener.endpoint}}, {}}, &id);
          std::unique_ptr<Bootstrap> boot;
          std::array<char, 4> all{};
          expect_error(root.code, root.text, [&] {
            boot = bootstrap::create_uid(id, 1, 2, uid_config());
            boot->allgather("ab", all.data(), 2);
          });
          if (boot) expect_error(root.code, root.text, [&] { boot->barrier(); });
        }) == "");
}

/// An id whose root service is started by the test.
struct LocalId {
  std::vector<net::Listener> listeners;
  bootstrap::UniqueId unique;
  gshmemx_uniqueid id;
  LocalId() {
    net::Endpoint loopback;
    loopback.ip = {127, 0, 0, 1};
    listeners.push_back(net::listen_on(loopback));
    unique.roots = {{listeners.front().endpoint}};
    encode_uniqueid(unique, &id);
  }
  [[nodiscard]] bootstrap::RootService start(double linger) {
    return {std::move(listeners),
            {.secret = secret_of(unique), .linger = linger},
            Fd(static_cast<int>(check_errno(eventfd(0, EFD_CLOEXEC), "eventfd")))};
  }
};

TEST_CASE("uid_root_of_a_failed_job_sends_late_ranks_the_reason_for_a_while_and_ends", "[uid]") {
  const double linger = GENERATE(0.0, 0.3);
  LocalId local;
  const bootstrap::RootService service = local.start(linger);
  {
    RawClient early(local.id);
    early.join(0, 2);
    early.leave();
    CHECK(early.receive() == nullptr);
  }
  if (linger > 0) {
    for (int rank : {0, 1}) {
      RawClient late(local.id);
      late.join(rank, 2);
      CHECK(late.receive_failure() == "rank 0 left before all had joined");
    }
  }
  const Deadline deadline(30 * kPatience);
  while (!service.ended() && !deadline.passed()) std::this_thread::yield();
  CHECK(service.ended());
  CHECK(net::connect_to(local.unique.roots[0].endpoint, deadline).error == ECONNREFUSED);
}

TEST_CASE("uid_root_at_a_fixed_address_answers_no_rank_after_a_failed_job", "[uid]") {
  Config config = address_config(free_address(), 0, 4, 60 * kPatience);
  config.uid_secret = "secret";
  const net::Endpoint root = net::resolve(config.uid_address, AddressFamily::kIpv4).front();
  std::thread rank_0([&] {
    expect_error(GSHMEMX_ERROR_PEER_FAILED, "rank 1 left before all had joined",
                 [&] { (void)bootstrap::create(config); });
  });
  while (!net::connect_to(root, Deadline(1)).fd) std::this_thread::yield();
  RawClient first(root, {config.uid_secret}), last(root, {config.uid_secret});
  last.join(2, 4);
  first.join(1, 4);
  first.leave();
  CHECK(last.receive_failure() == "rank 1 left before all had joined");
  rank_0.join();
  last.leave();
  CHECK(last.receive() == nullptr);
  bool answered = false;
  try {
    RawClient late(root, {config.uid_secret});
    late.send(late.hello(3, 4));
    answered = late.receive() != nullptr;
  } catch (const std::exception&) {  // the port is closed
  }
  CHECK_FALSE(answered);
}

TEST_CASE("uid_root_answers_the_rank_of_its_own_process_last", "[uid]") {
  constexpr int kRanks = 64;
  IdChannel channel;
  CHECK(run_processes(2, [&](int process) {
          const gshmemx_uniqueid id = channel.share(process, 2, uid_config());
          if (process == 0) {
            bootstrap::create_uid(id, 0, kRanks, uid_config())->barrier();
            std::_Exit(0);  // this ends the root service, too
          }
          std::deque<RawClient> others;
          for (int rank = 1; rank < kRanks; ++rank) others.emplace_back(id).join(rank, kRanks);
          for (RawClient& rank : others) rank.expect_kind(FrameKind::kWelcome);
          for (RawClient& rank : others) rank.send(contribution({}));
          for (RawClient& rank : others) rank.expect_kind(FrameKind::kResult);
        }) == "");
}

TEST_CASE("uid_root_service_that_ends_names_its_process", "[uid]") {
  for (const bool hosts_root : {false, true}) {
    LocalId local;
    RawClient joined(local.id), probe(local.id);
    std::chrono::steady_clock::time_point begin;
    {
      const bootstrap::RootService service = local.start(0);
      joined.join(1, 2, hosts_root);
      probe.join(1, 2);
      CHECK_FALSE(probe.receive_failure().empty());  // so the service has read the other one
      begin = std::chrono::steady_clock::now();
    }
    // It waits only for clients that do not read what they are sent, and only for 5 s.
    CHECK(std::chrono::steady_clock::now() - begin < std::chrono::seconds(4));
    CHECK(joined.receive_failure() ==
          (hosts_root ? std::string("rank 1") : "the process that made the unique id") +
              " ended, and with it the root service");
  }
}

TEST_CASE("uid_process_with_another_root_service_is_not_mistaken_for_that_of_its_job", "[uid]") {
  gshmemx_uniqueid others;
  bootstrap::make_uniqueid(&others, uid_config());
  LocalId local;
  RawClient other(local.id);
  std::unique_ptr<Bootstrap> boot;
  {
    const bootstrap::RootService service = local.start(0);
    other.join(1, 2);
    boot = bootstrap::create_uid(local.id, 0, 2, uid_config());
  }
  expect_error(GSHMEMX_ERROR_PEER_FAILED,
               "the process that made the unique id ended, and with it the root service",
               [&] { boot->barrier(); });
  bootstrap::create_uid(others, 0, 1, uid_config())->barrier();
}

TEST_CASE("uid_root_hangs_up_on_a_rank_that_has_left_and_serves_the_others", "[uid]") {
  LocalId local;
  const bootstrap::RootService service = local.start(0);
  RawClient leaver(local.id), other(local.id);
  leaver.join(0, 2);
  other.join(1, 2);
  leaver.expect_kind(FrameKind::kWelcome);
  other.expect_kind(FrameKind::kWelcome);
  leaver.leave();
  CHECK(leaver.receive() == nullptr);
  other.send(contribution({}));
  CHECK(other.receive_failure() == "rank 0 left the job while others wait in bootstrap barrier");
}

TEST_CASE("uid_root_makes_room_for_its_ranks_and_256_descriptors_of_the_process", "[uid]") {
  constexpr rlim_t kRanks = 8;
  rlimit was{};
  check_errno(getrlimit(RLIMIT_NOFILE, &was), "getrlimit");
  REQUIRE(was.rlim_max > kRanks + 256);
  for (const rlim_t soft : {kRanks + 255, kRanks + 256}) {
    const rlimit limit{soft, was.rlim_max};
    LocalId local;
    std::deque<RawClient> ranks;
    check_errno(setrlimit(RLIMIT_NOFILE, &limit), "setrlimit");
    const bootstrap::RootService service = local.start(0);
    for (int rank = 0; rank < static_cast<int>(kRanks); ++rank)
      ranks.emplace_back(local.id).join(rank, kRanks);
    ranks.front().expect_kind(FrameKind::kWelcome);
    CHECK(descriptor_limit() == (soft < kRanks + 256 ? was.rlim_max : soft));
    check_errno(setrlimit(RLIMIT_NOFILE, &was), "setrlimit");
  }
}

TEST_CASE("uid_silent_clients_use_up_no_descriptors", "[uid]") {
  // More strangers than the process of rank 0 may have descriptors.
  constexpr int kStrangers = 300;
  constexpr rlim_t kDescriptors = 64;
  IdChannel channel, called, done;
  CHECK(run_processes(3, [&](int rank) {
          rlimit limit{};
          check_errno(getrlimit(RLIMIT_NOFILE, &limit), "getrlimit");
          if (rank == 0) limit = {kDescriptors, kDescriptors};
          check_errno(setrlimit(RLIMIT_NOFILE, &limit), "setrlimit");
          const gshmemx_uniqueid id = channel.share(rank, 3, uid_config());
          if (rank == 2) {
            std::deque<RawClient> strangers;
            for (int i = 0; i < kStrangers; ++i) strangers.emplace_back(id);
            for (int i = 0; i < 2; ++i) called.signal();
            done.await(1);
            return;
          }
          called.await(1);
          const auto boot = bootstrap::create_uid(id, rank, 2, uid_config());
          boot->barrier();
          if (rank == 0) {
            const auto open =
                std::distance(std::filesystem::directory_iterator("/proc/self/fd"), {});
            expect(open < 20, "the strangers are gone: " + std::to_string(open));
          }
          boot->barrier();
          if (rank == 0) done.signal();
        }) == "");
}

TEST_CASE("uid_root_has_a_descriptor_for_every_rank_or_reports_that_it_lacks_one", "[uid]") {
  constexpr int kRanks = 48;
  constexpr rlim_t kDescriptors = 32;
  for (const bool may_raise : {true, false}) {
    if (!may_raise && kUnderAsan) continue;  // UBSan uses descriptors itself
    IdChannel channel, called, answered;
    // The process that has the root, and all ranks.
    CHECK(run_processes(2, [&](int process) {
            if (process == 0) {
              rlimit limit{};
              check_errno(getrlimit(RLIMIT_NOFILE, &limit), "getrlimit");
              limit = {kDescriptors, may_raise ? limit.rlim_max : kDescriptors};
              check_errno(setrlimit(RLIMIT_NOFILE, &limit), "setrlimit");
            }
            const gshmemx_uniqueid id = channel.share(process, 2, uid_config());
            if (process == 0) {
              while (!may_raise && Fd(dup(0))) std::this_thread::yield();
              called.signal();
              return answered.await(1);
            }
            std::deque<RawClient> ranks;
            for (int rank = 0; rank < kRanks; ++rank) {
              ranks.emplace_back(id);
              ranks.back().begin(rank, kRanks);
            }
            for (RawClient& rank : ranks) {
              if (!may_raise && !rank.answers_within(kPatience)) break;
              rank.finish();
            }
            called.await(1);
            if (may_raise) {
              for (RawClient& rank : ranks) rank.expect_kind(FrameKind::kWelcome);
            } else {
              ranks[0].send(net::make_frame({.kind = FrameKind::kExpired, .detail = 1000}));
              const std::string text = ranks[0].receive_failure();
              expect(text.find("the root service has no descriptors left: accept4: Too many "
                               "open files; this process may have 32 descriptors open") !=
                         std::string::npos,
                     text);
            }
            answered.signal();
          }) == "");
  }
}

TEST_CASE("uid_root_that_lacks_a_descriptor_for_the_first_rank_takes_more", "[uid]") {
  if (kSanitized) return;  // sanitizers need descriptors themselves
  constexpr rlim_t kDescriptors = 32;
  IdChannel channel, full, welcomed;
  CHECK(run_processes(2, [&](int process) {
          const gshmemx_uniqueid id = channel.share(process, 2, uid_config());
          if (process == 1) {
            full.await(1);
            RawClient rank(id);
            rank.join(0, 1);
            rank.expect_kind(FrameKind::kWelcome);
            return welcomed.signal();
          }
          rlimit limit{};
          check_errno(getrlimit(RLIMIT_NOFILE, &limit), "getrlimit");
          limit.rlim_cur = kDescriptors;
          check_errno(setrlimit(RLIMIT_NOFILE, &limit), "setrlimit");
          std::deque<Fd> all;
          do all.emplace_back(dup(0));
          while (all.back());
          full.signal();
          welcomed.await(1);
        }) == "");
}

TEST_CASE("uid_rank_that_has_sent_its_greeting_makes_no_room_for_strangers", "[uid]") {
  LocalId local;
  // All of them connect before the service can accept the first.
  RawClient rank(local.id);
  const Frame hello = rank.hello(0, 1);
  rank.send(hello);
  std::deque<RawClient> strangers;
  for (std::size_t i = 0; i <= stranger_limit(); ++i)
    strangers.emplace_back(local.id).send(part(hello, 9));
  const bootstrap::RootService service = local.start(0);
  rank.expect_kind(FrameKind::kChallenge);
}
