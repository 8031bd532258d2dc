// A PE dies or leaves while the others need it: they learn which one in bounded time, finalize
// returns, and the dead leave nothing behind.
#include "tests/spmd/bad_input/children.h"

#include <catch2/catch.hpp>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>

using namespace gshmem;
using namespace gshmem::spmd;

namespace {

constexpr int kVictim = 1;

/// What the others do when PE 1 goes.
const std::map<std::string, void (*)(int* word)> kWaits{
    {"barrier_all", [](int*) { gshmem_barrier_all(); }},
    {"malloc", [](int*) { (void)gshmem_malloc(64); }},
    {"wait_until", [](int* word) { gshmem_int_wait_until(word, GSHMEM_CMP_EQ, 1); }}};

/// Abstract socket names of gshmem that this process holds.
std::set<std::string> own_sockets() {
  std::set<std::string> inodes, names;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    std::error_code error;
    const std::string target = std::filesystem::read_symlink(entry.path(), error).string();
    if (target.rfind("socket:[", 0) == 0) inodes.insert(target.substr(8, target.size() - 9));
  }
  std::ifstream table("/proc/net/unix");
  for (std::string line; std::getline(table, line);) {
    std::istringstream fields(line);
    std::string field, inode, name;
    for (int i = 0; i < 7 && fields >> field; ++i) inode = field;
    fields >> name;
    if (inodes.count(inode) && name.rfind("@gshmem.", 0) == 0) names.insert(name);
  }
  return names;
}

/// Of `names`, those that still exist.
std::set<std::string> left_of(const std::set<std::string>& names) {
  std::ifstream file("/proc/net/unix");
  std::ostringstream table;
  table << file.rdbuf();
  std::set<std::string> left;
  for (const std::string& name : names) {
    if (contains(table.str(), name)) left.insert(name);
  }
  return left;
}

std::set<std::string> shared_memory() {
  std::set<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator("/dev/shm"))
    names.insert(entry.path().filename().string());
  return names;
}

void run_victim_job(int rank, void (*wait)(int*), bool by_signal) {
  {
    const Runtime runtime;
    auto* word = static_cast<int*>(gshmem_calloc(1, sizeof(int)));
    gshmem_barrier_all();
    for (const std::string& name : own_sockets()) std::printf("socket %s\n", name.c_str());
    std::fflush(stdout);
    if (rank == kVictim) {
      if (by_signal) (void)raise(SIGKILL);
      return;  // finalize
    }
    wait(word);
    print_fault();
  }
  std::puts("finalized");
}

}  // namespace

TEST_CASE("dead_pe_is_named_and_finalize_returns_under_report") {
  for (const auto& [name, wait] : kWaits) {
    const auto outcomes =
        in_children(3, quick(), [wait = wait](int rank) { run_victim_job(rank, wait, true); });
    for (int rank = 0; rank < 3; ++rank) {
      const Outcome& outcome = outcomes[static_cast<std::size_t>(rank)];
      INFO(name << " on PE " << rank << ": " << outcome.output);
      if (rank == kVictim) {
        CHECK(outcome.code == 128 + SIGKILL);
        continue;
      }
      CHECK(outcome.code == 0);
      CHECK(contains(outcome.output, "fault 12 1 PE 1 died"));
      CHECK(contains(outcome.output, "finalized"));
    }
  }
}

TEST_CASE("who_leaves_because_of_a_death_is_not_taken_for_its_cause") {
  // PE 2 is stopped by a fault of its own and leaves; the victim dies 50 ms later. To PE 0 that is
  // what it is when PE 2 hears of the death first: it must be told of the death.
  const auto outcomes = in_children(3, quick(), [](int rank) {
    {
      const Runtime runtime;
      auto* word = static_cast<int*>(gshmem_calloc(1, sizeof(int)));
      gshmem_barrier_all();
      if (rank == 2) {
        gshmem_int_p(word, 1, 77);
        return;  // finalize
      }
      if (rank == kVictim) {
        usleep(50'000);
        (void)raise(SIGKILL);
      }
      gshmem_int_wait_until(word, GSHMEM_CMP_EQ, 1);
      print_fault();
    }
    std::puts("finalized");
  });
  INFO(outcomes[0].output);
  CHECK(contains(outcomes[0].output, "fault 12 1 PE 1 died"));
  CHECK(contains(outcomes[0].output, "finalized"));
}

TEST_CASE("dead_pe_ends_the_job_under_abort") {
  for (const auto& [name, wait] : kWaits) {
    const auto outcomes =
        in_children(3, quick({{"GSHMEM_FAULT", "abort"}}),
                    [wait = wait](int rank) { run_victim_job(rank, wait, true); });
    for (const int rank : {0, 2}) {
      const Outcome& outcome = outcomes[static_cast<std::size_t>(rank)];
      INFO(name << " on PE " << rank << ": " << outcome.output);
      CHECK(outcome.code == 1);
      CHECK_FALSE(contains(outcome.output, "finalized"));
    }
    // Who learns of it first says it; the other may be told by its abort.
    CHECK((contains(outcomes[0].output, "PE 1 died") || contains(outcomes[2].output, "PE 1 died")));
  }
}

TEST_CASE("wait_for_a_pe_in_finalize_is_an_error") {
  for (const auto& [name, wait] : kWaits) {
    // The leaver itself waits in finalize for the others, which live.
    const auto outcomes = in_children(3, quick({{"GSHMEM_TIMEOUT", "5"}}), [wait = wait](int rank) {
      run_victim_job(rank, wait, false);
    });
    for (const int rank : {0, 2}) {
      const Outcome& outcome = outcomes[static_cast<std::size_t>(rank)];
      INFO(name << " on PE " << rank << ": " << outcome.output);
      CHECK(outcome.code == 0);
      CHECK_FALSE(contains(outcome.output, "fault 0 "));
      CHECK(contains(outcome.output, "finalized"));
    }
    CHECK(outcomes[kVictim].code == 0);
  }
}

TEST_CASE("killed_pes_leave_no_socket_or_shared_memory_behind") {
  const std::set<std::string> before = shared_memory();
  const auto outcomes = in_children(3, quick(), [](int) {
    const Runtime runtime;
    gshmem_barrier_all();
    for (const std::string& name : own_sockets()) std::printf("socket %s\n", name.c_str());
    std::fflush(stdout);
    gshmem_barrier_all();
    (void)raise(SIGKILL);
  });
  std::set<std::string> sockets;
  for (const Outcome& outcome : outcomes) {
    CHECK(outcome.code == 128 + SIGKILL);
    std::istringstream lines(outcome.output);
    for (std::string word, name; lines >> word;) {
      if (word == "socket" && lines >> name) sockets.insert(name);  // other lines are the log's
    }
  }
  CHECK(!sockets.empty());
  CHECK(left_of(sockets) == std::set<std::string>{});
  for (const std::string& name : shared_memory()) {
    INFO(name);
    CHECK((before.count(name) || !contains(name, "gshmem")));
  }
}

TEST_CASE("global_exit_ends_every_pe_with_its_status") {
  const auto outcomes = in_children(3, quick(), [](int rank) {
    const Runtime runtime;
    gshmem_barrier_all();
    if (rank == 2) gshmem_global_exit(42);
    gshmem_barrier_all();
    print_fault();
  });
  CHECK(outcomes[2].code == 42);
  for (const int rank : {0, 1}) {
    INFO(outcomes[static_cast<std::size_t>(rank)].output);
    CHECK(contains(outcomes[static_cast<std::size_t>(rank)].output, "PE 2"));
  }
}
