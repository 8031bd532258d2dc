// A PE dies or leaves while the others need it: within a time limit they learn which one it was,
// finalize returns, and nothing of the dead PE is left.
#include "tests/sanitizers/sanitizers.h"
#include "tests/spmd/bad_input/children.h"

#include <catch2/catch.hpp>

#include <sys/resource.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <optional>
#include <random>
#include <regex>
#include <set>
#include <sstream>
#include <thread>

using namespace gshmem;
using namespace gshmem::spmd;

// The declaration of collective_launch.h, which needs CUDA.
extern "C" int gshmemi_agree_status(const char* call, int mine, const char* why);

namespace {

constexpr int kVictim = 1;

/// A word of each PE, and a team of all of them.
struct Place {
  int* word = static_cast<int*>(gshmem_calloc(1, sizeof(int)));
  int* words = static_cast<int*>(gshmem_calloc(16, sizeof(int)));
  gshmem_team_t team = GSHMEM_TEAM_INVALID;
  Place() {
    (void)gshmem_team_split_strided(GSHMEM_TEAM_WORLD, gshmem_n_pes() - 1, -1, gshmem_n_pes(),
                                    nullptr, 0, &team);
    gshmem_barrier_all();
  }
};
using Wait = void (*)(const Place& place);

/// The calls that the other PEs are in when PE 1 leaves.
const std::map<std::string, Wait> kWaits{
    {"barrier_all", [](const Place&) { gshmem_barrier_all(); }},
    {"malloc", [](const Place&) { (void)gshmem_malloc(64); }},
    {"team_sync", [](const Place& place) { (void)gshmem_team_sync(place.team); }},
    {"reduce",
     [](const Place& place) {
       (void)gshmem_int_sum_reduce(place.team, place.words, place.words, 1);
     }},
    {"fcollect",
     [](const Place& place) { (void)gshmem_int_fcollect(place.team, place.words, place.word, 1); }},
    {"team_split",
     [](const Place& place) {
       gshmem_team_t part = GSHMEM_TEAM_INVALID;
       (void)gshmem_team_split_strided(place.team, 0, 1, 1, nullptr, 0, &part);
     }},
    {"team_init",
     [](const Place&) {
       gshmem_team_config_t config = GSHMEM_TEAM_CONFIG_INITIALIZER;
       (void)gshmemx_team_get_uniqueid(&config.uniqueid);
       gshmem_team_t team = GSHMEM_TEAM_INVALID;
       (void)gshmemx_team_init(&team, &config, GSHMEMX_TEAM_UNIQUEID, 2, 0);
     }},
    {"wait_until",
     [](const Place& place) { gshmem_int_wait_until(place.word, GSHMEM_CMP_EQ, 1); }}};

/// Returns the abstract socket names of gshmem that this process holds.
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

/// Returns those of `names` that still exist.
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

enum How { kIsKilled, kExits, kFinalizes };
void run_victim_job(int rank, Wait wait, How how) {
  {
    const Runtime runtime;
    const Place place;
    for (const std::string& name : own_sockets()) std::printf("socket %s\n", name.c_str());
    std::fflush(stdout);
    if (rank == kVictim) {
      if (how == kIsKilled) (void)raise(SIGKILL);
      if (how == kExits) std::exit(0);
      return;  // finalize
    }
    wait(place);
    print_fault();
  }
  std::puts("finalized");
}

/// Returns the PEs that the lines of `output` blame for the end of the job.
std::set<int> blamed(const std::string& output) {
  static const std::regex kBlame(
      "(PE|rank) ([0-9]+) (died|left|was stopped|cannot|closed|aborted|"
      "in a host barrier)");
  std::set<int> pes;
  for (auto it = std::sregex_iterator(output.begin(), output.end(), kBlame);
       it != std::sregex_iterator(); ++it)
    pes.insert(std::stoi((*it)[2]));
  return pes;
}

/// Waits until process `pid` is in one of the states of proc(5).
void await_state(pid_t pid, const std::string& states) {
  for (;;) {
    std::ifstream file("/proc/" + std::to_string(pid) + "/stat");
    std::string text;
    std::getline(file, text);
    const std::size_t name_end = text.rfind(')');
    if (name_end == std::string::npos || contains(states, text.substr(name_end + 2, 1))) return;
    usleep(1000);
  }
}

/// A process that continues `stopped` when all other PEs have ended. It must be started before this
/// one has connections.
class Waker {
 public:
  Waker() {
    if (pipe(ends_) != 0) throw std::runtime_error("pipe");
    if (fork() != 0) return;
    close(ends_[1]);
    std::vector<pid_t> pids;
    for (pid_t pid = 0; read(ends_[0], &pid, sizeof(pid)) == sizeof(pid);) pids.push_back(pid);
    for (std::size_t i = 1; i < pids.size(); ++i) await_state(pids[i], "ZX");
    kill(pids[0], SIGCONT);
    _exit(0);
  }
  void start(pid_t stopped, const std::vector<pid_t>& others) {
    (void)!write(ends_[1], &stopped, sizeof(stopped));
    for (const pid_t pid : others) (void)!write(ends_[1], &pid, sizeof(pid));
  }

 private:
  int ends_[2];
};

}  // namespace

TEST_CASE("dead_pe_is_named_and_finalize_returns_under_report") {
  for (const auto& [name, wait] : kWaits) {
    const auto outcomes =
        in_children(3, quick(), [wait = wait](int rank) { run_victim_job(rank, wait, kIsKilled); });
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

TEST_CASE("a_member_that_dies_inside_a_sync_or_split_of_a_team_ends_it_on_all_others") {
  using Call = int (*)(gshmem_team_t team);
  const Call split_and_destroy = [](gshmem_team_t team) {
    gshmem_team_t made = GSHMEM_TEAM_INVALID;
    const int status = gshmem_team_split_strided(team, 0, 1, 4, nullptr, 0, &made);
    gshmem_team_destroy(made);
    return status;
  };
  for (const Call call : {Call{gshmem_barrier}, Call{gshmem_team_sync}, split_and_destroy}) {
    const auto outcomes = in_children(4, quick(), [&](int rank) {
      {
        const Runtime runtime;
        const Place place;
        if (rank == kVictim) {
          std::thread([] {
            usleep(20'000);
            (void)raise(SIGKILL);
          }).detach();
        }
        int status = 0;
        while (status == 0) status = call(place.team);
        std::printf("status %d\n", status);
        print_fault();
      }
      std::puts("finalized");
    });
    for (int rank = 0; rank < 4; ++rank) {
      const Outcome& outcome = outcomes[static_cast<std::size_t>(rank)];
      INFO("PE " << rank << ": " << outcome.output);
      if (rank == kVictim) {
        CHECK(outcome.code == 128 + SIGKILL);
        continue;
      }
      CHECK(outcome.code == 0);
      CHECK(contains(outcome.output, "status 12"));
      CHECK(contains(outcome.output, "fault 12 1 PE 1 died"));
      CHECK(contains(outcome.output, "finalized"));
    }
  }
}

// Its puts may be missing.
TEST_CASE("a_pe_that_a_fault_has_stopped_enters_no_collective_over_the_network") {
  for (const bool network : {false, true}) {
    Environment environment = quick({{"GSHMEM_P2P", "0"}, {"GSHMEM_NIC", "soft"}});
    if (!network) environment = quick();
    const Outcome outcome = in_child(environment, [] {
      const Runtime runtime;
      int* const word = static_cast<int*>(gshmem_malloc(sizeof(int)));
      gshmem_int_p(word, 1, 7);
      std::printf("%s\n", gshmem_malloc(64) == nullptr ? "none" : "some");
      std::printf("agreed %d\n", gshmemi_agree_status("launch", 0, "no reason"));
    });
    INFO(outcome.output);
    CHECK(outcome.code == 0);
    CHECK(contains(outcome.output, network ? "none\n" : "some\n"));
    CHECK(contains(outcome.output, network ? "agreed 1\n" : "agreed 0\n"));
    for (const char* begin : {"ERROR: gshmem_malloc: ", "ERROR: "}) {
      CHECK(contains(outcome.output,
                     std::string(begin) +
                         "this PE is stopped by a fault: gshmem_int_p: argument pe = 7 is out of "
                         "range [0, 1)") == network);
    }
  }
}

TEST_CASE("a_fault_is_logged_though_its_pe_does_not_ask_for_it") {
  const Outcome outcome = in_child(quick(), [] {
    const Runtime runtime;
    int* const word = static_cast<int*>(gshmem_malloc(sizeof(int)));
    await_line("gshmem[0] ERROR: gshmem_int_p: argument pe = 7", [&] { gshmem_int_p(word, 1, 7); });
  });
  INFO(outcome.output);
  CHECK(outcome.code == 0);
}

TEST_CASE("a_fault_that_ends_waits_is_logged_once_by_each_pe_and_reported_by_its_own") {
  if (kUnderTsan) skip("TSan does not see what orders two processes");
  const Environment soft =
      quick({{"GSHMEM_P2P", "0"}, {"GSHMEM_NIC", "soft"}, {"GSHMEM_LOG", "info"}});
  for (const bool dies : {false, true}) {
    int told[2];
    REQUIRE(pipe(told) == 0);
    const auto outcomes = in_children(3, soft, [&](int rank) {
      const Runtime runtime;
      auto* const word = static_cast<int*>(gshmem_calloc(1, sizeof(int)));
      gshmem_barrier_all();
      if (rank == kVictim && dies) (void)raise(SIGKILL);
      if (rank == kVictim) gshmem_int_p(word, 1, 77);
      gshmem_int_wait_until(word, GSHMEM_CMP_EQ, 1);
      if (rank != kVictim) (void)!write(told[1], "", 1);
      char byte = 0;
      for (int i = 0; rank == kVictim && i < 2; ++i) (void)!read(told[0], &byte, 1);
      std::puts("all have been told");
      std::fflush(stdout);
      usleep(350'000);  // during which all check several times
    });
    for (const int end : told) close(end);
    for (int rank = 0; rank < 3; ++rank) {
      const std::string& output = outcomes[static_cast<std::size_t>(rank)].output;
      INFO("PE " << rank << ": " << output);
      const std::string fault = "gshmem_int_p: argument pe = 77 is out of range [0, 3)\n";
      if (rank == kVictim) {
        CHECK(times(output, "gshmem[1] ERROR: " + fault) == (dies ? 0u : 1u));
        CHECK(output.find("ERROR: ") <= output.find("all have been told"));
      } else {
        const std::string error = "gshmem[" + std::to_string(rank) + "] ERROR: PE 1 ";
        CHECK(times(output, "ERROR: ") == 1);
        CHECK(times(output, error + (dies ? "died" : "was stopped by a fault: " + fault)) == 1);
        CHECK(times(output, "PE 1 was stopped") == (dies ? 0u : 1u));
      }
      CHECK(times(output, "PE 0 was stopped") + times(output, "PE 2 was stopped") == 0);
      CHECK_FALSE(contains(output, "WARN"));
    }
  }
}

TEST_CASE("a_pe_that_can_no_longer_receive_news_has_a_fault") {
  if (kSanitized) skip("sanitizers need descriptors themselves");
  const auto outcomes = in_children(2, quick(), [](int rank) {
    {
      const Runtime runtime;
      auto* const word = static_cast<int*>(gshmem_calloc(1, sizeof(int)));
      gshmem_barrier_all();
      rlimit limit{};
      getrlimit(RLIMIT_NOFILE, &limit);
      const rlimit little{1, limit.rlim_max};  // poll(2) accepts as many entries
      if (rank == kVictim) setrlimit(RLIMIT_NOFILE, &little);
      gshmem_int_wait_until(word, GSHMEM_CMP_EQ, 1);
      setrlimit(RLIMIT_NOFILE, &limit);
      print_fault();
    }
    std::puts("finalized");
  });
  for (const Outcome& outcome : outcomes) {
    INFO(outcome.output);
    CHECK(outcome.code == 0);
    CHECK(contains(outcome.output, "finalized"));
  }
  CHECK(contains(outcomes[kVictim].output, "-1 poll of 2 descriptors: Invalid argument"));
  CHECK(contains(outcomes[0].output, "fault 12 1 PE 1 "));
}

TEST_CASE("a_pe_that_leaves_because_of_a_death_is_not_blamed_for_it") {
  // PE 2 is stopped by a fault of its own and leaves; the victim dies 50 ms later. PE 2 may detect
  // the death first: then it must notify PE 0 of it.
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
                    [wait = wait](int rank) { run_victim_job(rank, wait, kIsKilled); });
    for (const int rank : {0, 2}) {
      const Outcome& outcome = outcomes[static_cast<std::size_t>(rank)];
      INFO(name << " on PE " << rank << ": " << outcome.output);
      CHECK(outcome.code == 1);
      CHECK_FALSE(contains(outcome.output, "finalized"));
    }
    // The PE that detects it first reports it; the other may be notified by its abort.
    CHECK((contains(outcomes[0].output, "PE 1 died") || contains(outcomes[2].output, "PE 1 died")));
  }
}

TEST_CASE("each_of_many_kills_is_blamed_on_its_victim_only") {
  const unsigned seed = std::random_device()();
  INFO("seed " << seed);
  std::mt19937 random(seed);
  for (int round = 0; round < 24; ++round) {
    const int n = std::uniform_int_distribution(4, 8)(random);
    const int victim = std::uniform_int_distribution(0, n - 1)(random);
    const std::string policy = random() % 2 ? "abort" : "report";
    const auto wait = *std::next(kWaits.begin(), static_cast<long>(random() % kWaits.size()));
    const auto outcomes = in_children(n, quick({{"GSHMEM_FAULT", policy}}), [&](int rank) {
      const Runtime runtime;
      const Place place;
      if (rank == victim) (void)raise(SIGKILL);
      wait.second(place);
      // It exits without finalize, so it looks as if it had died, too.
      if (random() % 2 == static_cast<unsigned>(rank) % 2) std::exit(1);
    });
    for (int rank = 0; rank < n; ++rank) {
      const Outcome& outcome = outcomes[static_cast<std::size_t>(rank)];
      INFO("round " << round << ", " << policy << ", " << wait.first << " on PE " << rank << " of "
                    << n << ", PE " << victim << " killed: " << outcome.output);
      CHECK(outcome.code == (rank == victim      ? 128 + SIGKILL
                             : policy == "abort" ? 1
                                                 : outcome.code));
      if (rank != victim) CHECK(blamed(outcome.output) == std::set{victim});
    }
  }
}

TEST_CASE("a_pe_that_sees_all_others_ended_blames_the_first") {
  constexpr int kPes = 5;
  for (const std::string policy : {"abort", "report"}) {
    for (int victim = 0; victim < kPes; ++victim) {
      const int slow = (victim + 2) % kPes;
      const auto outcomes = in_children(kPes, quick({{"GSHMEM_FAULT", policy}}), [&](int rank) {
        std::optional<Waker> waker;
        if (rank == victim) waker.emplace();
        const Runtime runtime;
        const SymmetricArray<int> array(kPes);
        int* const pids = array.data();
        for (int pe = 0; pe < kPes; ++pe) gshmem_int_p(&pids[rank], getpid(), pe);
        gshmem_barrier_all();
        if (rank == victim) {
          kill(pids[slow], SIGSTOP);
          await_state(pids[slow], "T");
          std::vector<pid_t> others;
          for (int pe = 0; pe < kPes; ++pe) {
            if (pe != slow && pe != victim) others.push_back(pids[pe]);
          }
          waker->start(pids[slow], others);
          (void)raise(SIGKILL);
        }
        gshmem_barrier_all();
        // It does not finalize, which would say goodbye.
        if (rank % 2 == 0) std::_Exit(1);
      });
      const Outcome& outcome = outcomes[static_cast<std::size_t>(slow)];
      INFO(policy << ", PE " << victim << " killed, PE " << slow << ": " << outcome.output);
      CHECK(blamed(outcome.output) == std::set{victim});
    }
  }
}

TEST_CASE("a_fault_that_ends_the_job_is_blamed_on_its_pe") {
  const auto outcomes = in_children(4, quick({{"GSHMEM_FAULT", "abort"}}), [](int rank) {
    const Runtime runtime;
    auto* word = static_cast<int*>(gshmem_calloc(1, sizeof(int)));
    gshmem_barrier_all();
    if (rank == 2) gshmem_int_p(word, 1, 77);
    gshmem_barrier_all();
  });
  for (int rank = 0; rank < 4; ++rank) {
    const Outcome& outcome = outcomes[static_cast<std::size_t>(rank)];
    INFO("PE " << rank << ": " << outcome.output);
    CHECK(outcome.code == 1);
    CHECK(contains(outcome.output, "gshmem_int_p"));
    CHECK(blamed(outcome.output) == (rank == 2 ? std::set<int>{} : std::set{2}));
  }
}

TEST_CASE("wait_for_a_pe_that_finalizes_or_has_left_ends_at_once_and_names_it") {
  for (const bool exits : {false, true}) {
    for (const auto& [name, wait] : kWaits) {
      // These two wait for no PE in particular. Missing members are not a fault of the job.
      const bool for_members = name == "team_init", for_word = name == "wait_until";
      const bool by_time = for_members || for_word;
      const auto outcomes =
          in_children(3, quick(by_time ? Environment{{"GSHMEM_TIMEOUT", "2"}} : Environment{}),
                      [exits, wait = wait](int rank) {
                        run_victim_job(rank, wait, exits ? kExits : kFinalizes);
                      });
      CHECK(outcomes[kVictim].code == 0);
      for (const int rank : {0, 2}) {
        const Outcome& outcome = outcomes[static_cast<std::size_t>(rank)];
        INFO(name << " on PE " << rank << (exits ? ", exits: " : ": ") << outcome.output);
        CHECK(outcome.code == 0);
        const std::string fault = for_members ? "fault 0 "
                                  : for_word  ? "fault 11 -1"
                                              : "fault 12 1 ";
        // It is compared with finalize, which all call.
        const bool met = name == "malloc" && !exits;
        CHECK(contains(outcome.output, met ? "PE 1 called gshmem_finalize" : fault));
        const std::string why =
            for_members        ? "not all 2 members have called it within"
            : for_word         ? "it waited for the word at heap offset 0x0 to be = 1, and it is 0"
            : !exits           ? "PE 1"
            : name == "malloc" ? "PE 1 left the job"
                               : "PE 1, which left the job";
        CHECK(contains(outcome.output, why));
        CHECK(contains(outcome.output, "finalized"));
      }
    }
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
      if (word == "socket" && lines >> name) sockets.insert(name);  // other lines belong to the log
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
  const unsigned seed = std::random_device()();
  INFO("seed " << seed);
  std::mt19937 random(seed);
  for (int round = 0; round < 16; ++round) {
    const int n = std::uniform_int_distribution(2, 8)(random);
    const int caller = std::uniform_int_distribution(0, n - 1)(random);
    const int status = round % 4 == 0 ? 0 : 42;
    const std::string policy = random() % 2 ? "abort" : "report";
    const auto wait = *std::next(kWaits.begin(), static_cast<long>(random() % kWaits.size()));
    const auto outcomes = in_children(n, quick({{"GSHMEM_FAULT", policy}}), [&](int rank) {
      {
        const Runtime runtime;
        const Place place;
        if (rank == caller) gshmem_global_exit(status);
        if (rank % 3 != 0) wait.second(place);  // the others are in finalize
      }
      std::puts("still here");
    });
    for (int rank = 0; rank < n; ++rank) {
      const Outcome& outcome = outcomes[static_cast<std::size_t>(rank)];
      INFO("round " << round << ", " << policy << ", PE " << rank << " of " << n << ", PE "
                    << caller << " exits: " << outcome.output);
      CHECK(outcome.code == status);
      CHECK(blamed(outcome.output).empty());
      CHECK_FALSE(contains(outcome.output, "ERROR"));
      CHECK_FALSE(contains(outcome.output, "still here"));
      if (rank != caller)
        CHECK(contains(outcome.output, "PE " + std::to_string(caller) + " ends the job with"));
    }
  }
}
