// Tests the uid bootstrap when all goes well, and when ranks are missing, leave, die or abort. A
// test case forks before it starts threads (run it alone, as ctest does): a child of a process with
// threads may do little, and nothing under TSan.
#include "host/base/net/interfaces.h"
#include "bootstrap/uid/root.h"
#include "tests/bootstrap/run_ranks.h"
#include "tests/bootstrap/uid_fixture.h"
#include "tests/lifeline.h"
#include "tests/sanitizers/sanitizers.h"
#include "tests/capture.h"

#include <signal.h>
#include <sys/resource.h>
#include <sys/time.h>
#include <time.h>

#include <array>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <filesystem>
#include <thread>

using namespace gshmem;
using namespace gshmem::test;
using bootstrap::Bootstrap;

namespace {

using Runner = std::string (*)(int, const std::function<void(int)>&);
std::string run_forked(int size, const std::function<void(int)>& body) {
  return run_processes(size, body);
}

bool have_ipv6() {
  for (const auto& interface : net::list_interfaces()) {
    if (interface.loopback && interface.address.family == net::Endpoint::Family::kIpv6) return true;
  }
  std::puts("skipped: no IPv6 loopback");
  return false;
}

/// Runs `body` on every rank of a new job.
std::string run_job(Runner run, int size, const Config& config,
                    const std::function<void(std::unique_ptr<Bootstrap>)>& body) {
  IdChannel channel;
  return run(size, [&](int rank) { body(channel.join(rank, size, config)); });
}

void conforms(Runner run, int size, AddressFamily family) {
  IdChannel lives[2];
  CHECK(run(size, [&](int rank) {
          int life = 0;
          conformance([&] { return lives[life++].join(rank, size, uid_config(60, family)); });
        }) == "");
}

/// Prints "skipped: ..." and returns true if descriptors cannot be limited.
bool lacks_descriptors() {
  if (kSanitized) std::puts("skipped: sanitizers need descriptors themselves");
  return kSanitized;
}

}  // namespace

TEST_CASE("uid_conforms_in_threads", "[uid]") {
  conforms(run_threads, GENERATE(1, 2, 3, 7), AddressFamily::kIpv4);
}

TEST_CASE("uid_conforms_in_processes", "[uid]") {
  conforms(run_forked, GENERATE(1, 2, 4), AddressFamily::kIpv4);
}

TEST_CASE("uid_conforms_over_ipv6", "[uid]") {
  if (!have_ipv6()) return;
  conforms(run_forked, 2, AddressFamily::kIpv6);
  conforms(run_threads, 3, AddressFamily::kIpv6);
}

TEST_CASE("uid_conforms_at_a_fixed_address", "[uid]") {
  const Runner run = GENERATE(Runner{run_forked}, Runner{run_threads});
  const int size = GENERATE(1, 3);
  const std::string address = free_address();
  CHECK(run(size, [&](int rank) {
          const Config config = address_config(address, rank, size, 60);
          conformance([&] { return bootstrap::create(config); });
        }) == "");
}

TEST_CASE("uid_fixed_address_may_be_a_name_or_ipv6", "[uid]") {
  std::string address = free_address();
  address.replace(0, address.find(':'), "localhost");
  const auto body = [&](int rank) {
    bootstrap::create(address_config(address, rank, 2, 60))->barrier();
  };
  CHECK(run_threads(2, body) == "");
  if (!have_ipv6()) return;
  address = free_address("[::1]");
  CHECK(run_threads(2, body) == "");
}

TEST_CASE("uid_survives_signals_everywhere", "[uid]") {
  CHECK(run_job(run_forked, 3, uid_config(), [](std::unique_ptr<Bootstrap> boot) {
          struct sigaction action {};
          action.sa_handler = [](int) {};  // without SA_RESTART: system calls end with EINTR
          sigaction(SIGALRM, &action, nullptr);
          const itimerval every_ms{{0, 1000}, {0, 1000}};
          setitimer(ITIMER_REAL, &every_ms, nullptr);
          small_allgathers_do_not_mix(*boot, 100);
          allgather_moves_every_byte(*boot, bootstrap::kMaxBytes);
          boot->barrier();
        }) == "");
}

TEST_CASE("uid_missing_rank_is_named_to_ranks_that_joined", "[uid]") {
  IdChannel channel;
  const Config config = uid_config(2);
  CHECK(run_threads(4, [&](int rank) {
          const gshmemx_uniqueid id = channel.share(rank, 4, config);
          if (rank == 1 || rank == 3) return;
          expect_error(GSHMEMX_ERROR_TIMEOUT, "init timed out after 2 s",
                       [&] { (void)bootstrap::create_uid(id, rank, 4, config); });
          if (rank != 0) return;
          // The service stays for a while, so that a late rank learns it, too.
          expect_error(GSHMEMX_ERROR_TIMEOUT, "ranks 1, 3 did not take part",
                       [&] { (void)bootstrap::create_uid(id, 3, 4, config); });
        }) == "");
}

TEST_CASE("uid_timeouts_name_addresses_interfaces_and_the_variable", "[uid]") {
  const auto expect_texts = [](const std::vector<std::string>& texts, const auto& call) {
    try {
      (void)call();
      FAIL("a rank is missing");
    } catch (const Error& error) {
      CHECK(error.code() == GSHMEMX_ERROR_TIMEOUT);
      for (const std::string& text : texts) CHECK_THAT(error.what(), Catch::Contains(text));
    }
  };
  gshmemx_uniqueid id;
  bootstrap::make_uniqueid(&id, uid_config(2));
  const net::Endpoint root = bootstrap::decode_uniqueid(id).value().roots.front().endpoint;
  expect_texts({"rank 1 did not take part", "listens at " + net::endpoint_text(root),
                "set GSHMEM_UID_INTERFACE where the unique id is made"},
               [&] { return bootstrap::create_uid(id, 0, 2, uid_config(2)); });
  const std::string address = free_address();
  expect_texts({"rank 1 did not take part", "listens at " + address + " (GSHMEM_UID_ADDRESS)",
                "this host has ", "lo 127.0.0.1"},
               [&] { return bootstrap::create(address_config(address, 0, 2, 2)); });
  const std::string nobody = free_address();
  expect_texts(
      {"no root service at " + nobody + ": Connection refused for 0.3 s", "this host has ",
       "lo 127.0.0.1", "GSHMEM_UID_ADDRESS has to be an address of rank 0 that it reaches"},
      [&] { return bootstrap::create(address_config(nobody, 1, 2, 0.3)); });
}

TEST_CASE("uid_root_that_no_rank_joins_ends", "[uid]") {
  const auto start = [](double alone) {
    std::vector<net::Listener> listeners;
    listeners.push_back(
        net::listen_on(net::choose_address(net::list_interfaces(), "=lo", AddressFamily::kIpv4)));
    const bootstrap::UniqueId unique{{{listeners[0].endpoint}}, net::random_cookie()};
    bootstrap::RootRegistry::get().start_when_called(
        std::move(listeners),
        {.secret = secret_of(unique), .alone = Deadline(alone), .alone_seconds = alone});
    gshmemx_uniqueid id;
    encode_uniqueid(unique, &id);
    return id;
  };
  const auto join = [](const gshmemx_uniqueid& id) {
    return bootstrap::create_uid(id, 0, 1, uid_config());
  };
  const gshmemx_uniqueid joined = start(2), left_alone = start(0.2), patient = start(0);
  StderrCapture log;
  const auto rank = join(joined);
  // Past the two seconds of the root that a rank has joined, which stays.
  std::this_thread::sleep_for(std::chrono::milliseconds(2500));
  const std::vector<std::string> said = log.writes();
  REQUIRE(said.size() == 1);
  CHECK_THAT(said[0],
             Catch::Contains("ERROR: no rank has connected with a unique id of this process "
                             "for 0.2 s: the id is no longer valid\n"));
  expect_error(GSHMEMX_ERROR_PEER_FAILED, "has no rank connected for an hour",
               [&] { (void)join(left_alone); });
  rank->barrier();
  join(patient)->barrier();
}

TEST_CASE("uid_missing_rank_is_named_in_a_collective", "[uid]") {
  IdChannel channel;
  std::vector<std::unique_ptr<Bootstrap>> ranks(3);
  CHECK(run_threads(3, [&](int rank) {
          auto& mine = ranks[static_cast<std::size_t>(rank)];  // stays connected until the end
          mine = channel.join(rank, 3, uid_config(3));  // all of them join within that time, too
          if (rank == 1) return;
          expect_error(GSHMEMX_ERROR_TIMEOUT, "barrier timed out after 3 s",
                       [&] { mine->barrier(); });
          expect_error(GSHMEMX_ERROR_TIMEOUT, "rank 1 did not take part", [&] { mine->barrier(); });
        }) == "");
}

TEST_CASE("uid_leaving_while_others_wait_is_an_error_that_names_the_rank", "[uid]") {
  CHECK(run_job(run_forked, 3, uid_config(), [](std::unique_ptr<Bootstrap> boot) {
          boot->barrier();
          if (boot->rank() == 2) return boot.reset();
          expect_error(GSHMEMX_ERROR_PEER_FAILED, "rank 2 left", [&] { boot->barrier(); });
        }) == "");
}

TEST_CASE("uid_killed_rank_is_named_to_ranks_in_an_allgather", "[uid]") {
  const int victim = GENERATE(0, 2);  // 0 runs the root service
  IdChannel channel, ready;
  const auto body = [&](int rank) {
    const auto boot = channel.join(rank, 3, uid_config());
    // All must have started: a root service that dies while it sends the welcome is another case.
    if (rank != victim) ready.signal();
    if (rank == victim) ready.await(2);
    if (rank == victim) (void)raise(SIGKILL);
    const std::string who = "rank " + std::to_string(victim) + " died";
    expect_error(GSHMEMX_ERROR_PEER_FAILED, who,
                 [&] { allgather_moves_every_byte(*boot, bootstrap::kMaxBytes); });
    expect_error(GSHMEMX_ERROR_PEER_FAILED, who, [&] { boot->barrier(); });
  };
  CHECK(run_processes(3, body, {victim}) == "");
}

TEST_CASE("uid_root_service_that_ends_with_its_process_reports_it", "[uid]") {
  IdChannel channel, ready;
  const bool by_address = GENERATE(false, true);
  const std::string address = free_address();
  const auto body = [&](int rank) {
    const auto boot = by_address
                          ? bootstrap::create(address_config(address, rank, 3, 60 * kPatience))
                          : channel.join(rank, 3, uid_config());
    if (rank != 0) ready.signal();
    if (rank == 0) {
      ready.await(2);
      no_leak_check = true;
      std::exit(0);  // without leaving the job
    }
    expect_error(GSHMEMX_ERROR_PEER_FAILED, "rank 0 ended, and with it the root service",
                 [&] { boot->barrier(); });
  };
  CHECK(run_processes(3, body) == "");
}

TEST_CASE("uid_root_service_that_cannot_go_on_reports_it", "[uid]") {
  if (lacks_descriptors()) return;
  IdChannel channel, ready;
  const auto body = [&](int rank) {
    const auto boot = channel.join(rank, 3, uid_config());
    boot->barrier();
    if (rank != 0) {
      ready.await(1);
    } else {
      rlimit limit{};
      check_errno(getrlimit(RLIMIT_NOFILE, &limit), "getrlimit");
      limit.rlim_cur = 1;  // poll(2): EINVAL if there are more descriptors than that
      check_errno(setrlimit(RLIMIT_NOFILE, &limit), "setrlimit");
      for (int other = 1; other < 3; ++other) ready.signal();
    }
    expect_error(GSHMEMX_ERROR_SYSTEM, "bootstrap root service: poll of 4 descriptors: Invalid",
                 [&] {
                   // A wait that the service is in may still succeed.
                   for (int i = 0; i < 10; ++i) boot->barrier();
                 });
  };
  CHECK(run_processes(3, body) == "");
}

TEST_CASE("uid_root_service_without_descriptors_reports_it_to_waiting_ranks", "[uid]") {
  if (lacks_descriptors()) return;
  IdChannel channel, ready, over;
  const auto body = [&](int rank) {
    const Config config = uid_config(2);
    const gshmemx_uniqueid id = channel.share(rank, 2, config);
    if (rank == 0) {  // has the service, with room for one connection, and never joins
      const auto lowest = static_cast<rlim_t>(Fd(dup(0)).get());
      const rlimit limit{lowest + 1, lowest + 1};
      check_errno(setrlimit(RLIMIT_NOFILE, &limit), "setrlimit");
      ready.signal();
      over.await(1);
      return;
    }
    ready.await(1);
    std::atomic<bool> ended{false};
    std::thread others([&] {
      try {
        for (std::deque<RawClient> connected; !ended; usleep(20'000)) connected.emplace_back(id);
      } catch (const std::exception&) {  // the service has ended
      }
    });
    expect_error(GSHMEMX_ERROR_TIMEOUT,
                 "the root service has no descriptors left: accept4: Too many open files; this "
                 "process may have",
                 [&] { (void)bootstrap::create_uid(id, rank, 2, config); });
    ended = true;
    others.join();
    over.signal();
  };
  CHECK(run_processes(2, body) == "");
}

TEST_CASE("uid_rank_killed_before_all_have_joined_is_named", "[uid]") {
  IdChannel channel;
  const auto body = [&](int rank) {
    const Config config = uid_config();
    const gshmemx_uniqueid id = channel.share(rank, 3, config);
    if (rank == 1) {
      RawClient client(id);  // the service takes it for a rank until its end
      client.join(1, 3);
      (void)raise(SIGKILL);
    }
    if (rank == 2) return;
    expect_error(GSHMEMX_ERROR_PEER_FAILED, "rank 1 died",
                 [&] { (void)bootstrap::create_uid(id, rank, 3, config); });
  };
  CHECK(run_processes(3, body, {1}) == "");
}

TEST_CASE("uid_last_results_arrive_although_the_root_process_exits", "[uid]") {
  for (int round = 0; round < 5; ++round) {
    CHECK(run_job(run_forked, 4, uid_config(), [](std::unique_ptr<Bootstrap> boot) {
            allgather_moves_every_byte(*boot, bootstrap::kMaxBytes);
          }) == "");
  }
}

TEST_CASE("uid_exit_of_the_root_process_is_reported_to_the_remaining_ranks", "[uid]") {
  CHECK(run_job(run_forked, 3, uid_config(), [](std::unique_ptr<Bootstrap> boot) {
          boot->barrier();
          if (boot->rank() == 0) return;
          expect_error(GSHMEMX_ERROR_PEER_FAILED, "rank 0", [&] { boot->barrier(); });
        }) == "");
}

TEST_CASE("uid_rank_that_has_finished_does_not_need_the_others", "[uid]") {
  CHECK(run_job(run_forked, 3, uid_config(), [](std::unique_ptr<Bootstrap> boot) {
          boot->barrier();
          boot->finish();
          boot->finish();
          expect_error(GSHMEMX_ERROR_BOOTSTRAP, "the ranks have met", [&] { boot->barrier(); });
        }) == "");
}

TEST_CASE("uid_ranks_that_disagree_get_an_error", "[uid]") {
  CHECK(run_job(run_threads, 2, uid_config(), [](std::unique_ptr<Bootstrap> boot) {
          expect_error(GSHMEMX_ERROR_SYMMETRY, "ranks disagree", [&] {
            std::array<std::byte, 64> buffer{};
            boot->allgather("12345678", buffer.data(), boot->rank() == 0 ? 4 : 8);
          });
        }) == "");
}

TEST_CASE("uid_id_of_a_job_that_is_over_fails_at_once", "[uid]") {
  gshmemx_uniqueid id;
  bootstrap::make_uniqueid(&id, uid_config());
  (void)bootstrap::create_uid(id, 0, 1, uid_config());
  expect_error(GSHMEMX_ERROR_PEER_FAILED, "no root service",
               [&] { (void)bootstrap::create_uid(id, 0, 1, uid_config()); });
}

TEST_CASE("uid_bad_arguments_are_named", "[uid]") {
  gshmemx_uniqueid none{};
  expect_error(GSHMEMX_ERROR_INVALID_VALUE, "not a unique id",
               [&] { (void)bootstrap::create_uid(none, 0, 1, uid_config()); });
  for (const auto& job : {std::pair{2, 2}, {-1, 2}, {0, 0}, {0, -1}}) {
    const int rank = job.first, size = job.second;
    expect_error(GSHMEMX_ERROR_INVALID_VALUE, strprintf("rank %d in a job of %d", rank, size),
                 [&] { (void)bootstrap::create_uid(none, rank, size, uid_config()); });
    expect_error(GSHMEMX_ERROR_CONFIG,
                 strprintf("GSHMEM_UID_SIZE); they are %d and %d", rank, size),
                 [&] { (void)bootstrap::create(address_config("127.0.0.1:1", rank, size, 1)); });
  }
  Config config = address_config("", 0, 2, 1);
  expect_error(GSHMEMX_ERROR_CONFIG,
               "GSHMEM_BOOTSTRAP=uid needs GSHMEM_UID_ADDRESS, GSHMEM_UID_RANK",
               [&] { (void)bootstrap::create(config); });
}

TEST_CASE("uid_missing_rank_0_at_a_fixed_address_times_out_without_busy_waiting", "[uid]") {
  const auto worked = [] {
    timespec now{};
    (void)clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9;
  };
  const double before = worked();
  expect_error(GSHMEMX_ERROR_TIMEOUT, "rank 0",
               [] { (void)bootstrap::create(address_config(free_address(), 1, 2, 0.3)); });
  CHECK(worked() - before < 0.05);  // it sleeps between its attempts
}

TEST_CASE("uid_rank_0_names_an_address_that_is_in_use_or_of_another_host", "[uid]") {
  net::Endpoint loopback;
  loopback.ip = {127, 0, 0, 1};
  net::Listener other = net::listen_on(loopback);
  const std::string address = net::endpoint_text(other.endpoint);
  const auto join = [](const std::string& at, double seconds) {
    bootstrap::create(address_config(at, 0, 1, seconds))->barrier();
  };
  expect_error(GSHMEMX_ERROR_BOOTSTRAP, "GSHMEM_UID_ADDRESS: another process listens on " + address,
               [&] { join(address, 0.05); });
  std::thread ends([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    other.fd = Fd();
  });
  join(address, 60 * kPatience);
  ends.join();
  expect_error(GSHMEMX_ERROR_SYSTEM, "listening on 192.0.2.1:4711: Cannot assign requested address",
               [&] { join("192.0.2.1:4711", 60); });
}

TEST_CASE("uid_rank_0_says_that_another_process_had_its_port", "[uid]") {
  net::Endpoint loopback;
  loopback.ip = {127, 0, 0, 1};
  net::Listener other = net::listen_on(loopback);
  const std::string address = net::endpoint_text(other.endpoint);
  StderrCapture log;
  std::string said;
  CHECK(run_threads(2, [&](int thread) {
          if (thread == 0) {
            const std::string why =
                "rank 1 did not take part; the root service listens at " + address +
                " (GSHMEM_UID_ADDRESS), where another process listened for the first ";
            return expect_error(GSHMEMX_ERROR_TIMEOUT, why,
                                [&] { (void)bootstrap::create(address_config(address, 0, 2, 4)); });
          }
          const Deadline deadline(3);  // rank 0 still tries
          while (said.empty() && !deadline.passed()) {
            usleep(10'000);
            said += log.text();
          }
          other.fd = Fd();
        }) == "");
  said += log.text();
  CHECK_THAT(said, Catch::Contains("WARN: GSHMEM_UID_ADDRESS: another process listens on " +
                                   address + ", and rank 0 tries again until"));
  CHECK(std::count(said.begin(), said.end(), '\n') == 1);
}

TEST_CASE("uid_rank_tries_every_address_of_an_id_and_names_all_of_them", "[uid]") {
  const auto at = [](std::uint8_t last) {
    net::Endpoint endpoint;
    endpoint.ip = {127, 0, 0, last};
    return endpoint;
  };
  gshmemx_uniqueid id, other;
  bootstrap::make_uniqueid(&id, uid_config());
  bootstrap::UniqueId unique = bootstrap::decode_uniqueid(id).value();
  // These are an address that both the creator and others have on their own host (docker0), where
  // another job's root listens or no process does, and a network without a partner.
  net::Endpoint nobody = net::listen_on(at(3)).endpoint;
  net::Listener foreign = net::listen_on(at(2));
  unique.roots.insert(unique.roots.begin(), {{foreign.endpoint, 8}, {nobody, 8}});
  encode_uniqueid(unique, &other);
  const bootstrap::UniqueId theirs{{{foreign.endpoint, 8}}, net::random_cookie()};
  std::vector<net::Listener> listeners;
  listeners.push_back(std::move(foreign));
  bootstrap::RootRegistry::get().start_when_called(std::move(listeners),
                                                   {.secret = secret_of(theirs)});
  bootstrap::create_uid(other, 0, 1, uid_config())->barrier();
  unique.roots = {{nobody, 8}, {net::listen_on(at(4)).endpoint, 8}};
  encode_uniqueid(unique, &other);
  try {
    (void)bootstrap::create_uid(other, 0, 1, uid_config());
    FAIL("the port is closed");
  } catch (const Error& error) {
    for (const net::Endpoint& endpoint : {unique.roots[0].endpoint, unique.roots[1].endpoint})
      CHECK_THAT(error.what(),
                 Catch::Contains(net::endpoint_text(endpoint) + ": Connection refused"));
    CHECK_THAT(error.what(), Catch::Contains("this host has ") && Catch::Contains("lo 127.0.0.1") &&
                                 Catch::Contains("choose the network with GSHMEM_UID_INTERFACE"));
  }
}

TEST_CASE("uid_unused_ids_share_one_thread", "[uid]") {
  const auto threads = [] {
    return std::distance(std::filesystem::directory_iterator("/proc/self/task"), {});
  };
  std::vector<gshmemx_uniqueid> ids(20);
  bootstrap::make_uniqueid(&ids[0], uid_config());
  const auto with_one = threads();
  for (std::size_t i = 1; i < ids.size(); ++i) bootstrap::make_uniqueid(&ids[i], uid_config());
  CHECK(threads() == with_one);
  for (const gshmemx_uniqueid& id : ids) bootstrap::create_uid(id, 0, 1, uid_config())->barrier();
}

TEST_CASE("uid_job_leaves_no_thread_or_descriptor_behind", "[uid]") {
  const auto count = [](const char* folder) {
    return std::distance(std::filesystem::directory_iterator(folder), {});
  };
  // The first job may open descriptors that stay open (sanitizers, the registry).
  CHECK(run_job(run_threads, 3, uid_config(), [](auto boot) { boot->barrier(); }) == "");
  gshmemx_uniqueid id;
  const auto one_job = [&] {
    bootstrap::make_uniqueid(&id, uid_config());  // removes ended services from the list
    bootstrap::create_uid(id, 0, 1, uid_config())->barrier();
  };
  one_job();
  const auto descriptors = count("/proc/self/fd");
  for (int i = 0; i < 50; ++i) one_job();
  // A service ends a moment after its last rank; ctest's time limit is the bound.
  while (count("/proc/self/fd") > descriptors + 3) {
    one_job();
    std::this_thread::yield();
  }
  while (count("/proc/self/task") > 4) std::this_thread::yield();
}
