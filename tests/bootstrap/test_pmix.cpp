// Tests the PMIx bootstrap over a double of libpmix: its requests to the server, and its reaction
// to answers that no real server gives on demand.
#include "tests/bootstrap/conformance.h"
#include "tests/doubles/pmix_double.h"
#include "tests/bootstrap/run_ranks.h"
#include "tests/lifeline.h"
#include "tests/patience.h"

#include <catch2/catch.hpp>

#include <dlfcn.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <cstdlib>
#include <future>
#include <string>
#include <tuple>
#include <vector>

using namespace gshmem;
using namespace gshmem::test;

namespace {

template <class Function>
Function* of_double(const char* name) {
  void* const library = ::dlopen("libpmix.so.2", RTLD_NOW);
  void* const found = library ? ::dlsym(library, name) : nullptr;
  REQUIRE(found != nullptr);
  return reinterpret_cast<Function*>(found);
}

bool pmix_answers_late() { return of_double<bool()>("pmix_double_answers")(); }

PmixDouble& fresh() {
  PmixDouble& one = *of_double<PmixDouble*()>("pmix_double")();
  one.size = 2;
  one.theirs = {1};
  one.fence = one.get = one.sized = PMIX_SUCCESS;
  one.type = PMIX_BYTE_OBJECT;
  one.calls_back = one.aborts = true;
  one.of_another_key = one.is_short = one.is_late = one.fence_is_late = one.is_nothing = false;
  one.has_mine = true;
  one.fences = 0;
  one.code = 0;
  return one;
}

std::unique_ptr<bootstrap::Bootstrap> join(double seconds = 60 * kPatience) {
  Config config;
  config.bootstrap_timeout = seconds;
  return bootstrap::create_pmix(config);
}

}  // namespace

// This case comes first: the process that it forks has had no bootstrap before.
TEST_CASE("pmix_is_left_once_by_the_process_that_joined_and_not_by_its_child", "[pmix]") {
  PmixDouble& pmix = fresh();
  void* const shared =
      ::mmap(nullptr, sizeof(int), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  REQUIRE(shared != MAP_FAILED);
  pmix.finalizes = static_cast<int*>(shared);
  CHECK(run_processes(1, [&](int) {
          join().reset();
          const pid_t child = ::fork();
          if (child == 0) {
            no_leak_check = true;
            expect_error(GSHMEMX_ERROR_NOT_SUPPORTED,
                         "this process was forked from rank 0 of a PMIx job", [] { (void)join(); });
            std::exit(0);
          }
          int status = -1;
          expect(::waitpid(child, &status, 0) == child && status == 0, "the child ends well");
          expect(*pmix.finalizes == 0, "the child says no goodbye");
        }) == "");
  CHECK(*pmix.finalizes == 1);
  pmix.finalizes = nullptr;
  ::munmap(shared, sizeof(int));
}

TEST_CASE("pmix_exchanges_the_data_of_a_collecting_fence", "[pmix]") {
  PmixDouble& pmix = fresh();
  const auto boot = join(2.5);
  CHECK(boot->size() == 2);
  CHECK(boot->rank() == 0);
  CHECK(pmix.fences == 1);  // ranks synchronize first
  CHECK(pmix.collects);
  CHECK(pmix.seconds == 3);
  pmix.theirs = {'c', 'd'};
  std::array<char, 5> all{};
  for (const bool at_once : {false, true}) {
    pmix.calls_back = !at_once;
    pmix.fence = at_once ? PMIX_OPERATION_SUCCEEDED : PMIX_SUCCESS;
    boot->allgather("ab", all.data(), 2);
    CHECK(std::string(all.data()) == "abcd");
  }
  CHECK(pmix.fences == 3);
  for (std::size_t i = 1; i < pmix.keys.size(); ++i) CHECK(pmix.keys[i] != pmix.keys[i - 1]);
  pmix.theirs = {1};
  pmix.calls_back = true;
  pmix.fence = PMIX_SUCCESS;
  join(0)->barrier();
  CHECK(pmix.collects);
  CHECK(pmix.seconds == -1);
}

TEST_CASE("pmix_alone_asks_for_no_exchange", "[pmix]") {
  PmixDouble& pmix = fresh();
  pmix.size = 1;
  const auto boot = join();
  char byte = 0;
  boot->allgather("x", &byte, 1);
  boot->barrier();
  CHECK(byte == 'x');
  CHECK(pmix.fences == 0);
}

TEST_CASE("pmix_errors_are_permanent", "[pmix]") {
  struct Row {
    pmix_status_t status;
    gshmemx_status code;
    std::string text;
  };
  const std::string other = "what PMIx says (another rank or the launcher ended)";
  const Row row =
      GENERATE_COPY(Row{PMIX_ERR_PARTIAL_SUCCESS, GSHMEMX_ERROR_PEER_FAILED, other},
                    Row{PMIX_ERR_PROC_TERM_WO_SYNC, GSHMEMX_ERROR_PEER_FAILED, other},
                    Row{PMIX_ERR_LOST_CONNECTION, GSHMEMX_ERROR_PEER_FAILED, other},
                    Row{PMIX_ERR_TIMEOUT, GSHMEMX_ERROR_TIMEOUT, ""},
                    Row{PMIX_ERR_NOT_FOUND, GSHMEMX_ERROR_BOOTSTRAP, ": what PMIx says"});
  for (const int of : {0, 1, 2}) {  // of the fence: by callback, or at once; of the data
    PmixDouble& pmix = fresh();
    const auto boot = join();
    (of == 2 ? pmix.get : pmix.fence) = row.status;
    pmix.calls_back = of != 1;
    const bool late = row.status == PMIX_ERR_TIMEOUT;
    const std::string what = late      ? "bootstrap barrier timed out"
                             : of == 2 ? "bootstrap barrier: reading the data of rank 1"
                                       : "bootstrap barrier: PMIx_Fence";
    const Error error = expect_error([&] { boot->barrier(); });
    const std::string text = error.what();
    CHECK(error.code() == row.code);
    CHECK(text.find(what) == 0);
    CHECK(text.find(row.text) != std::string::npos);
    if (late)
      CHECK_THAT(text, Catch::Contains(of == 2 ? "rank 1 did not" : "another rank did not"));
    CHECK((text.find("another rank or the launcher") != std::string::npos) ==
          (row.code == GSHMEMX_ERROR_PEER_FAILED));
    const int fences = pmix.fences;
    expect_error(row.code, text, [&] { boot->barrier(); });
    CHECK(pmix.fences == fences);
  }
  fresh();
  // Data that was put before a failed fence is not put again, and must be unchanged.
  join()->barrier();
}

TEST_CASE("pmix_without_the_size_of_the_job_is_an_error", "[pmix]") {
  PmixDouble& pmix = fresh();
  const std::string what = "asking the PMIx server for the job size: what PMIx says";
  const std::string other = what + " (another rank or the launcher ended)";
  for (const auto& [status, code, text] :
       {std::tuple{PMIX_ERR_TIMEOUT, GSHMEMX_ERROR_TIMEOUT, what},
        {PMIX_ERR_LOST_CONNECTION, GSHMEMX_ERROR_PEER_FAILED, other},
        {PMIX_ERR_NOT_FOUND, GSHMEMX_ERROR_BOOTSTRAP, what}}) {
    pmix.sized = status;
    const Error error = expect_error([] { (void)join(); });
    CHECK(error.code() == code);
    CHECK(error.what() == text);
  }
  CHECK(pmix.fences == 0);
  fresh();
}

/// PMIx 5.0.1 does this: the fence is complete, but the value does not arrive.
TEST_CASE("pmix_rank_whose_data_is_late_is_waited_for_again", "[pmix]") {
  PmixDouble& pmix = fresh();
  const auto boot = join(), again = join();
  pmix.get = PMIX_ERR_TIMEOUT;
  const std::size_t put = pmix.keys.size();
  expect_error(GSHMEMX_ERROR_TIMEOUT, "rank 1 did not take part", [&] { boot->barrier(); });
  pmix.get = PMIX_SUCCESS;
  again->barrier();
  CHECK(pmix.keys.size() == put + 1);  // under the name that the late rank knows
}

TEST_CASE("pmix_names_the_rank_that_has_not_come_to_a_fence", "[pmix]") {
  PmixDouble& pmix = fresh();
  const auto boot = join(), again = join(), alone = join();
  pmix.fence = PMIX_ERR_TIMEOUT;
  pmix.get = PMIX_ERR_NOT_FOUND;
  const Error error = expect_error([&] { boot->barrier(); });
  CHECK_THAT(error.what(), Catch::EndsWith(": rank 1 did not take part"));
  CHECK(pmix.get_seconds == 1);
  // A server that does not know this rank's data either says nothing about the others.
  pmix.has_mine = false;
  expect_error(GSHMEMX_ERROR_TIMEOUT, ": another rank did not", [&] { alone->barrier(); });
  fresh();
  again->barrier();
}

TEST_CASE("pmix_may_read_its_arguments_until_a_late_answer", "[pmix]") {
  PmixDouble& pmix = fresh();
  const auto with_data = join(0.2), with_fence = join(0.2);
  pmix.is_late = true;
  expect_error(GSHMEMX_ERROR_TIMEOUT, "rank 1 did not take part", [&] { with_data->barrier(); });
  CHECK(pmix_answers_late());
  pmix.fence_is_late = true;
  expect_error(GSHMEMX_ERROR_TIMEOUT, "rank 1 did not take part", [&] { with_fence->barrier(); });
  CHECK(pmix_answers_late());
  fresh();
  join()->barrier();  // the data that was put is used
}

/// Each case runs in a process of its own, which joins once.
TEST_CASE("pmix_of_versions_that_share_wrong_values_is_asked_for_its_other_store", "[pmix]") {
  struct Row {
    const char *version, *chosen, *store;
  };
  for (const Row& row : {Row{"OpenPMIx 5.0.1a1 (PMIx Standard: 4.2)", nullptr, "hash"},
                         Row{"OpenPMIx 5.0.0", nullptr, "hash"}, Row{"OpenPMIx 5.0.2 ", "x", "x"},
                         Row{"OpenPMIx 5.0.1 (PMIx Standard: 4.2)", nullptr, "hash"},
                         Row{"OpenPMIx 5.0.3", nullptr, ""}, Row{"OpenPMIx 5.0.10", nullptr, ""},
                         Row{"OpenPMIx 5.0.19", nullptr, ""},
                         Row{"OpenPMIx 4.2.2 (PMIx Standard: 4.1)", nullptr, ""}}) {
    INFO(row.version);
    CHECK(run_processes(1, [&](int) {
            PmixDouble& pmix = fresh();
            pmix.version = row.version;
            ::unsetenv("PMIX_MCA_gds");
            if (row.chosen) ::setenv("PMIX_MCA_gds", row.chosen, 1);
            join().reset();
            expect(pmix.store == row.store, pmix.store);
          }) == "");
  }
}

TEST_CASE("pmix_values_of_another_key_are_errors_and_no_data", "[pmix]") {
  PmixDouble& pmix = fresh();
  const auto boot = join();
  pmix.of_another_key = GENERATE(false, true);
  pmix.is_short = !pmix.of_another_key;
  std::array<char, 2> all{};
  expect_error(GSHMEMX_ERROR_BOOTSTRAP,
               "allgather: PMIx gives another value of rank 1 than was asked for (double)",
               [&] { boot->allgather("a", all.data(), 1); });
  fresh();
}

TEST_CASE("pmix_takes_no_other_value_after_a_fence_that_failed", "[pmix]") {
  PmixDouble& pmix = fresh();
  const auto boot = join(), other = join();
  std::array<char, 5> all{};
  pmix.fence = PMIX_ERR_NOT_FOUND;
  expect_error(GSHMEMX_ERROR_BOOTSTRAP, "PMIx_Fence",
               [&] { boot->allgather("ab", all.data(), 2); });
  pmix.fence = PMIX_SUCCESS;
  expect_error(GSHMEMX_ERROR_BOOTSTRAP, "an earlier init failed on some ranks only",
               [] { (void)join(); });
  const std::size_t put = pmix.keys.size();
  pmix.theirs = {'c', 'd'};
  other->allgather("ab", all.data(), 2);
  CHECK(std::string(all.data()) == "abcd");
  CHECK(pmix.keys.size() == put);
  pmix.theirs = {1};
  join()->barrier();  // another value under another name
  CHECK(pmix.keys.size() == put + 2);
}

TEST_CASE("pmix_exchanges_no_more_bytes_than_its_limit", "[pmix]") {
  PmixDouble& pmix = fresh();
  const auto boot = join();
  const std::vector<char> mine(bootstrap::kMaxBytes + 1, 'm');
  std::vector<char> all(2 * bootstrap::kMaxBytes);
  expect_error(GSHMEMX_ERROR_INVALID_VALUE, "allgather of 65537 bytes per rank; at most 65536",
               [&] { boot->allgather(mine.data(), nullptr, mine.size()); });
  pmix.theirs.assign(bootstrap::kMaxBytes, 't');
  boot->allgather(mine.data(), all.data(), bootstrap::kMaxBytes);
  CHECK(std::count(all.begin(), all.end(), 'm') == std::ptrdiff_t{bootstrap::kMaxBytes});
  CHECK(all.back() == 't');
}

TEST_CASE("pmix_values_of_another_kind_or_size_are_errors", "[pmix]") {
  PmixDouble& pmix = fresh();
  const auto boot = join();
  std::array<char, 8> all{};
  const auto gather = [&] { boot->allgather("ab", all.data(), 2); };
  pmix.theirs = {};
  expect_error(GSHMEMX_ERROR_SYMMETRY, "allgather of 2 bytes, but rank 1 passes 0", gather);
  pmix.theirs = {1, 2, 3};
  expect_error(GSHMEMX_ERROR_SYMMETRY, "allgather of 2 bytes, but rank 1 passes 3", gather);
  pmix.type = PMIX_INT;
  expect_error(GSHMEMX_ERROR_BOOTSTRAP, "reading the data of rank 1: what PMIx says", gather);
  fresh().is_nothing = true;
  expect_error(GSHMEMX_ERROR_BOOTSTRAP, "reading the data of rank 1: what PMIx says",
               [] { (void)join(); });
  fresh().size = 0;
  expect_error(GSHMEMX_ERROR_BOOTSTRAP, "PMIx gives rank 0 in a job of 0", [] { (void)join(); });
}

TEST_CASE("pmix_abort_names_the_rank_and_the_reason_and_returns", "[pmix]") {
  PmixDouble& pmix = fresh();
  join()->abort(7, "the reason");
  CHECK(pmix.code == 7);
  CHECK(pmix.message == "rank 0 aborted the job (code 7): the reason");
  pmix.aborts = false;
  const auto begin = std::chrono::steady_clock::now();
  join(0.2)->abort(8, "no answer");
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
  CHECK(pmix.code == 8);
  CHECK(took.count() >= 0.2);
  CHECK(took.count() < 4);
}

TEST_CASE("loss_of_the_launcher_is_reported_on_request", "[pmix]") {
  (void)fresh();
  const auto lose = of_double<bool()>("pmix_double_loses_its_server");
  std::promise<std::string> heard;
  {
    const auto boot = join();
    boot->on_lost([&](const std::string& why) { heard.set_value(why); });
    REQUIRE(lose());
    CHECK(heard.get_future().get() == "the launcher has ended: its PMIx server is gone");
  }
  CHECK(lose());  // the process has no job: a second call would end it
}
