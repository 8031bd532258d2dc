// Tests all PEs of a job on one host, as threads and as processes: collectives pass the conformance
// suite of bootstraps, and errors name a PE that dies, leaves or does not come. Init uses these
// collectives. tests/hosts has jobs on several hosts.
#include "host/base/deadline.h"
#include "host/base/run_phase.h"
#include "host/runtime/pe.h"
#include "tests/bootstrap/counting.h"
#include "tests/bootstrap/connected.h"
#include "tests/bootstrap/run_ranks.h"
#include "tests/bootstrap/uid_fixture.h"
#include "tests/sanitizers/sanitizers.h"
#include "tests/capture.h"

#include <signal.h>
#include <sys/resource.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <filesystem>
#include <fstream>
#include <functional>
#include <future>
#include <mutex>
#include <set>
#include <span>
#include <string>
#include <thread>
#include <vector>

using namespace gshmem;
using namespace gshmem::test;

namespace {

using Ranks = std::vector<std::unique_ptr<bootstrap::Bootstrap>>;

std::unique_ptr<Connected> connect_ranks(Ranks& ranks, int rank, double seconds = 60 * kPatience) {
  return std::make_unique<Connected>(std::move(ranks[static_cast<std::size_t>(rank)]),
                                     uid_config(seconds));
}

using Runner = std::string (*)(int, const std::function<void(int)>&);
std::string run_forked(int size, const std::function<void(int)>& body) {
  return run_processes(size, body);
}

/// Runs `body` on every PE of a job that was connected by a unique id.
std::string run_job(Runner run, int size, const std::function<void(Connected&)>& body) {
  IdChannel channel;
  return run(size, [&](int rank) {
    Connected ranks(channel.join(rank, size, uid_config()), uid_config());
    body(ranks);
  });
}

/// PE size-1 ends the job while the others wait; they learn which PE ended and why.
void end_reaches_the_others(Connected& ranks) {
  const int last = ranks.size() - 1;
  ranks.barrier();
  if (ranks.rank() == last) return ranks.end("the reason given");
  const std::string who = "PE " + std::to_string(last) + " was stopped by a fault";
  expect_error(GSHMEMX_ERROR_PEER_FAILED, who, [&] { ranks.barrier(); });
  expect_error(GSHMEMX_ERROR_PEER_FAILED, "the reason given", [&] { ranks.barrier(); });
}

}  // namespace

constexpr std::size_t kMost = std::size_t{5} << 20;

TEST_CASE("pes_that_are_threads_conform") {
  const int size = GENERATE(1, 2, 5);
  Ranks lives[2] = {bootstrap::create_threads(size, 60), bootstrap::create_threads(size, 60)};
  CHECK(run_threads(size, [&](int rank) {
          int life = 0;
          conformance([&] { return connect_ranks(lives[life++], rank); }, kMost);
        }) == "");
}

TEST_CASE("pes_that_are_processes_conform") {
  const int size = GENERATE(1, 2, 4);
  IdChannel lives[2];
  CHECK(run_processes(size, [&](int rank) {
          int life = 0;
          conformance(
              [&] {
                return std::make_unique<Connected>(lives[life++].join(rank, size, uid_config()),
                                                   uid_config());
              },
              kMost);
        }) == "");
}

TEST_CASE("news_of_a_pe_tell_how_it_ended") {
  Ranks boots = bootstrap::create_threads(1, 60 * kPatience);
  Config config = uid_config();
  config.heartbeat = 7;
  const control::Plane plane(*boots[0], config, {});
  using control::PeerEvent;
  const auto text = [&](PeerEvent event) { return plane.text_of({0, event, "the reason", 7}); };
  CHECK(text(PeerEvent::kDied) == "PE 0 died: its process ended without gshmem_finalize");
  CHECK(text(PeerEvent::kLeft) ==
        "PE 0 left the job: its process has ended, or gave up gshmem_finalize");
  CHECK(text(PeerEvent::kFinalizes) == "PE 0 is in gshmem_finalize, and makes no other call");
  CHECK(text(PeerEvent::kStopped) == "PE 0 was stopped by a fault: the reason");
  CHECK(text(PeerEvent::kExited) == "PE 0 ends the job");
  CHECK(text(PeerEvent::kUnreachable) == "PE 0 cannot be reached: its host " +
                                             control::host_identity() +
                                             " has not answered for 7 s (GSHMEM_HEARTBEAT)");
}

TEST_CASE("a_pe_that_does_not_connect_is_named_before_the_others_end_their_report") {
  constexpr double kSeconds = 2 * kPatience;
  Ranks boots = bootstrap::create_threads(2, 60 * kPatience);
  Config config = uid_config(kSeconds);
  std::string said[2];
  const auto begin = std::chrono::steady_clock::now();
  CHECK(run_threads(2, [&](int rank) {
          bootstrap::Bootstrap& boot = *boots[static_cast<std::size_t>(rank)];
          control::LocalPeers local;
          struct {  // the greeting between PEs
            net::Cookie host;
            control::LocalPeers::Contact contact;
          } mine{net::cookie_of(control::host_identity()), local.open()};
          try {
            if (rank == 0) (void)control::Plane(boot, config, {});
            run_phase(boot, [&] { (void)allgather(boot, mine); });
          } catch (const Error& error) {
            said[rank] = error.what();
          }
          if (rank == 1) boot.barrier();
        }) == "");
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
  for (const std::string& what : said)
    CHECK_THAT(what, Catch::Contains("timed out waiting for 1 higher-ranked PEs to connect"));
  CHECK(took.count() >= kSeconds / 2);
}

TEST_CASE("collectives_survive_signals") {
  CHECK(run_job(run_forked, 3, [](Connected& ranks) {
          struct sigaction action {};
          action.sa_handler = [](int) {};  // without SA_RESTART: system calls end with EINTR
          sigaction(SIGALRM, &action, nullptr);
          const itimerval every_ms{{0, 1000}, {0, 1000}};
          setitimer(ITIMER_REAL, &every_ms, nullptr);
          small_allgathers_do_not_mix(ranks, 100);
          allgather_moves_every_byte(ranks, kMost);
          ranks.barrier();
        }) == "");
}

TEST_CASE("missing_pe_is_named_after_the_timeout_and_again") {
  Ranks boots = bootstrap::create_threads(4, 60 * kPatience);
  CHECK(run_threads(4, [&](int rank) {
          const auto ranks = connect_ranks(boots, rank);
          ranks->barrier();
          if (rank == 1 || rank == 3) return;
          ranks->plane().collectives().set_timeout(0.2);
          for (int i = 0; i < 2; ++i) {
            const Error error = expect_error([&] { ranks->barrier(); });
            // That PE leaves at once, which the others may learn before their time is up.
            const std::string what = error.what();
            expect(what.find("PE 1 ") == 0 || what.find("PE 3 ") == 0, what);
          }
        }) == "");
}

TEST_CASE("pe_that_dies_is_named") {
  IdChannel channel;
  CHECK(run_processes(3, [&](int rank) {
          Connected ranks(channel.join(rank, 3, uid_config()), uid_config());
          ranks.barrier();
          if (rank == 2) _exit(0);
          for (int i = 0; i < 2; ++i)
            expect_error(GSHMEMX_ERROR_PEER_FAILED, "PE 2 died", [&] { ranks.barrier(); });
        }) == "");
}

// If it did not, the next call to fail would report a fault of its own, which names no PE.
TEST_CASE("pe_that_leaves_is_reported_as_left") {
  Ranks boots = bootstrap::create_threads(2, 60 * kPatience);
  CHECK(run_threads(2, [&](int rank) {
          const auto ranks = connect_ranks(boots, rank);
          ranks->barrier();
          if (rank == 1) return;
          const std::string why = expect_error([&] { ranks->barrier(); }).what();
          expect(why.find("PE 1 left the job") == 0, why);
        }) == "");
}

TEST_CASE("owner_receives_an_event_before_a_wait_ends_for_it") {
  Ranks boots = bootstrap::create_threads(2, 60 * kPatience);
  const Config config = uid_config();
  std::atomic<bool> heard = false;
  CHECK(run_threads(2, [&](int rank) {
          control::Plane::Callbacks callbacks;
          if (rank == 0) {
            callbacks.on_event = [&](const control::PeerNews&) {
              std::this_thread::sleep_for(std::chrono::milliseconds(200));
              heard = true;
            };
          }
          control::Plane plane(*boots[static_cast<std::size_t>(rank)], config, callbacks);
          plane.watch();
          if (rank == 1) return;
          expect_error(GSHMEMX_ERROR_PEER_FAILED, "PE 1", [&] { plane.collectives().barrier(); });
          expect(heard, "the owner has the event");
        }) == "");
}

TEST_CASE("death_of_a_pe_ends_the_wait_for_its_segment") {
  const int dies = GENERATE(1, 0);
  IdChannel channel;
  CHECK(run_processes(2,
                      [&](int rank) {
                        Connected ranks(channel.join(rank, 2, uid_config()), uid_config());
                        ranks.barrier();
                        if (rank == dies) (void)raise(SIGKILL);
                        control::LocalPeers& local = ranks.plane().local();
                        expect_error(GSHMEMX_ERROR_PEER_FAILED, "PE " + std::to_string(dies), [&] {
                          (void)(dies == 1 ? local.exchange(STDIN_FILENO).size()
                                           : local.from_root(-1).get() >= 0);
                        });
                      },
                      {dies}) == "");
}

TEST_CASE("end_of_a_job_reaches_the_others") {
  CHECK(run_job(run_forked, 3, end_reaches_the_others) == "");
  CHECK(run_job(run_threads, 3, end_reaches_the_others) == "");
  CHECK(run_job(run_threads, 1, end_reaches_the_others) == "");
}

TEST_CASE("pe_that_ends_the_job_on_purpose_gets_no_news_of_the_others_deaths") {
  IdChannel channel;
  CHECK(run_processes(2, [&](int rank) {
          const Config config = uid_config();
          const auto boot = channel.join(rank, 2, config);
          std::atomic<bool> heard = false;
          control::Plane plane(*boot, config, {.on_event = [&](const control::PeerNews&) {
            heard = true;
            if (rank == 1) _exit(0);
          }});
          plane.watch();
          if (rank == 1) pause();
          plane.monitor().ending({0, control::PeerEvent::kExited, "on purpose"});
          std::this_thread::sleep_for(std::chrono::milliseconds(400));
          expect(!heard, "PE 0 gets no news of a death");
        }) == "");
}

TEST_CASE("a_pe_that_can_no_longer_watch_the_others_reports_it_and_ends_its_waits") {
  if (kSanitized) {
    std::puts("skipped: sanitizers need descriptors themselves");
    return;
  }
  int ends[2];
  REQUIRE(pipe(ends) == 0);
  IdChannel channel;
  CHECK(run_processes(2, [&](int rank) {
          const Config config = uid_config();
          const auto boot = channel.join(rank, 2, config);
          std::promise<std::string> failure;
          control::Plane plane(*boot, config, {.on_failure = [&](const std::string& why) {
            failure.set_value(why);
          }});
          plane.watch();
          char byte = 0;
          if (rank == 0) {  // does not come
            check_errno(read(ends[0], &byte, 1), "read");
            return;
          }
          rlimit limit{};
          (void)getrlimit(RLIMIT_NOFILE, &limit);
          limit.rlim_cur = 1;  // poll(2) takes no more descriptors than that
          (void)setrlimit(RLIMIT_NOFILE, &limit);
          plane.monitor().tick_every(std::chrono::milliseconds(100));  // wakes it
          const std::string why = failure.get_future().get();
          expect(why.find("poll of 2 descriptors: ") == 0, why);
          expect_error(GSHMEMX_ERROR_PEER_FAILED,
                       "the other PEs are not watched any more: poll of 2 descriptors: ", [&] {
                         plane.collectives().barrier();
                       });
          check_errno(write(ends[1], &byte, 1), "write");
        }) == "");
  for (const int end : ends) close(end);
}

TEST_CASE("messages_arrive_in_order_from_every_pe") {
  constexpr int kPes = 3, kMessages = 20;
  IdChannel channel;
  CHECK(run_processes(kPes, [&](int rank) {
          const Config config = uid_config();
          const auto boot = channel.join(rank, kPes, config);
          std::mutex mutex;
          std::condition_variable came;
          std::vector<int> read(kPes, 0);  // by sender
          bool right = true;
          control::Plane plane(
              *boot, config,
              {.on_message = [&](int from, control::Plane::Topic topic, net::ByteView message) {
                const std::lock_guard lock(mutex);
                int& number = read[static_cast<std::size_t>(from)];
                const auto bytes = std::as_bytes(std::span(&number, 1));
                right = right && topic == control::Plane::Topic::kRendezvous &&
                        std::equal(message.begin(), message.end(), bytes.begin(), bytes.end());
                ++number;
                came.notify_all();
              }});
          for (int i = 0; i < kMessages; ++i) {
            for (int to = 0; to < kPes; ++to)
              plane.send(to, control::Plane::Topic::kRendezvous, std::as_bytes(std::span(&i, 1)));
          }
          std::unique_lock lock(mutex);
          const bool all = came.wait_for(lock, std::chrono::seconds(20 * kPatience), [&] {
            return std::count(read.begin(), read.end(), kMessages) == kPes;
          });
          lock.unlock();
          expect(all && right, "all messages, in order");
          plane.collectives().barrier();
        }) == "");
}

TEST_CASE("news_during_init_are_delivered_after_it") {
  IdChannel channel;
  CHECK(run_processes(2, [&](int rank) {
          const Config config = uid_config();
          const auto boot = channel.join(rank, 2, config);
          std::promise<void> message;
          std::vector<std::string> heard;
          control::Plane plane(
              *boot, config,
              {.on_event = [&](const control::PeerNews& news) { heard.push_back(news.why); },
               .on_message = [&](int, control::Plane::Topic,
                                 net::ByteView) { message.set_value(); }});
          const auto write = [&] {
            plane.send(1 - rank, control::Plane::Topic::kRendezvous, net::Bytes(1));
          };
          if (rank == 1) {
            plane.monitor().stopped("a fault");
            write();  // arrives after the fault
            return message.get_future().wait();
          }
          message.get_future().wait();
          expect(heard.empty(), "init goes on");
          plane.watch();
          expect(heard == std::vector<std::string>{"a fault"}, "told once");
          write();
          plane.monitor().leave();
        }) == "");
}

TEST_CASE("a_pe_whose_init_fails_alone_makes_the_launcher_end_the_job") {
  struct Broken final : bootstrap::Bootstrap {
    Broken(std::string& said, int size) : said_(said), size_(size) {}
    int rank() const noexcept override { return 1; }
    int size() const noexcept override { return size_; }
    const char* name() const noexcept override { return "broken"; }
    void allgather(const void*, void*, std::size_t) override {
      throw Error(GSHMEMX_ERROR_PEER_FAILED, "rank 0 is gone");
    }
    void abort(int code, std::string_view reason) noexcept override {
      said_ += std::to_string(code) + ": " + std::string(reason);
    }
    std::string& said_;
    int size_;
  };
  std::string said;
  PeOptions options{.config = Config::from_env()};
  options.config.device = DeviceChoice::kCpu;
  for (const int size : {2, 65536}) {
    said.clear();
    StderrCapture capture;
    expect_error(GSHMEMX_ERROR_PEER_FAILED, "rank 0 is gone",
                 [&] { Pe(std::make_unique<Broken>(said, size), options); });
    CHECK(capture.writes() == std::vector<std::string>{
                                  "gshmem[1] ERROR: ending the job, because PEs may be waiting for "
                                  "this one: rank 0 is gone\n"});
    CHECK(said == "1: PE 1 failed during init: rank 0 is gone");
  }
  // A launcher that starts more PEs learns that all of them end.
  expect_error(GSHMEMX_ERROR_NOT_SUPPORTED, "a job of 65537 PEs; this version takes up to 65536",
               [&] { Pe(std::make_unique<Broken>(said, 65537), options); });
}
