// Tests syncs of teams as one member sees them: which members it signals, which it waits for, and
// that it changes nothing else. The test plays the other members, or has a thread for each, of
// which some come late.
#include <gshmem/device/ops/sync.h>

#include "tests/patience.h"
#include "tests/unit/no_launch.h"

#include <catch2/catch.hpp>

#include <sched.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

namespace gshmem::device {
namespace {

using abi::SyncSlot;
using Pes = std::vector<int>;

// A wait whose condition already holds needs no time.
constexpr std::uint64_t kShort = 1'000'000, kLong = 30'000'000'000ull * test::kPatience;
constexpr int kPes = 12;
constexpr std::uint32_t kAllToo = 6;  ///< as if predefined
/// List from which teams take members: random numbers would find the same bugs.
const std::vector<std::int32_t> kList{11, 3, 7, 2, 0, 9, 5, 1, 8, 4, 6, 10};

/// A team, and the index of its entry.
struct Shape {
  const char* name;
  std::uint32_t handle;
  abi::Team entry;
  [[nodiscard]] Pes pes() const {
    Pes all;
    for (int i = 0; i < entry.n_pes; ++i) {
      const int at = entry.start + i * entry.stride;
      all.push_back(entry.members ? kList[static_cast<std::size_t>(at)] : at);
    }
    return all;
  }
  [[nodiscard]] std::uint32_t index() const { return handle & 0xffff; }
};

std::vector<Shape> shapes(std::uint32_t flat) {
  const std::int32_t* list = kList.data();
  return {{"all", 0, {nullptr, 0, 1, kPes, 0, 0, flat}},
          {"every third", 0x10001, {nullptr, 1, 3, 4, 0, 0x10001, flat}},
          {"backwards", 0x50002, {nullptr, 10, -2, 5, 0, 0x50002, flat}},
          {"listed", 0x30003, {list, 2, 2, 3, 0, 0x30003, flat}},
          {"list backwards", 0x20004, {list, 9, -1, 9, 0, 0x20004, flat}},
          {"alone", 5, {nullptr, 7, 1, 1, 0, 5, flat}},
          {"all, too", kAllToo, {nullptr, 0, 1, kPes, 0, kAllToo, flat}}};
}

/// PEs that map each other, each with the same teams.
class Job {
 public:
  explicit Job(std::uint32_t flat, std::uint64_t timeout_ns = kShort) : shapes_(shapes(flat)) {
    slots_ = std::vector<SyncSlot>(kPes * shapes_.size());
    for (int pe = 0; pe < kPes; ++pe) {
      pes_.push_back(std::make_unique<Pe>());
      Pe& one = *pes_.back();
      for (const Shape& shape : shapes_) {
        one.entries.push_back(shape.entry);
        const Pes members = shape.pes();
        for (std::size_t i = 0; i < members.size(); ++i) {
          if (members[i] == pe) one.entries.back().my_pe = static_cast<std::int32_t>(i);
        }
      }
      one.state.my_pe = pe;
      one.state.n_pes = one.state.mapped_count = kPes;
      one.state.stride = static_cast<std::int64_t>(sizeof(SyncSlot) * shapes_.size());
      one.state.control = &one.control;
      one.state.fault_policy = abi::FaultPolicy::kReport;
      one.state.timeout_ns = timeout_ns;
      one.state.host_teams = one.entries.data();
      one.state.n_teams = static_cast<std::uint32_t>(one.entries.size());
      one.state.team_slots = &slot(pe, 0);
      one.state.all_pes = 1u | 1u << kAllToo | (flat != 0 ? abi::kAllPesFlat : 0);
    }
  }

  [[nodiscard]] const std::vector<Shape>& teams() const { return shapes_; }
  [[nodiscard]] State& state(int pe) { return pes_[static_cast<std::size_t>(pe)]->state; }
  [[nodiscard]] abi::Control& control(int pe) {
    return pes_[static_cast<std::size_t>(pe)]->control;
  }
  [[nodiscard]] SyncSlot& slot(int pe, std::uint32_t team) {
    return slots_[static_cast<std::size_t>(pe) * shapes_.size() + team];
  }
  int sync(int pe, const Shape& team) {
    return team_sync(Thread{}, state(pe), "test", static_cast<int>(team.handle));
  }

  /// The words of all slots, by PE and team.
  using Memory = std::vector<SyncSlot>;
  [[nodiscard]] const Memory& memory() const { return slots_; }
  [[nodiscard]] static SyncSlot& in(Memory& memory, const Job& job, int pe, std::uint32_t team) {
    return memory[static_cast<std::size_t>(pe) * job.shapes_.size() + team];
  }
  /// Returns the first word that differs; empty = none.
  [[nodiscard]] std::string difference(const Memory& expected) const {
    return difference(slots_, expected, shapes_);
  }
  static std::string difference(const Memory& found, const Memory& expected,
                                const std::vector<Shape>& teams) {
    constexpr std::size_t kWords = sizeof(SyncSlot) / 4;
    for (std::size_t i = 0; i < found.size(); ++i) {
      std::uint32_t is[kWords], should[kWords];
      std::memcpy(is, &found[i], sizeof(is));
      std::memcpy(should, &expected[i], sizeof(should));
      for (std::size_t word = 0; word < kWords; ++word) {
        if (is[word] == should[word]) continue;
        return "PE " + std::to_string(i / teams.size()) + ", team " + teams[i % teams.size()].name +
               ", word " + std::to_string(word) + " is " + std::to_string(is[word]) + ", not " +
               std::to_string(should[word]);
      }
    }
    return "";
  }

 private:
  struct Pe {
    abi::Control control{};
    State state{};
    std::vector<abi::Team> entries;
  };
  std::vector<Shape> shapes_;
  std::vector<SyncSlot> slots_;
  std::vector<std::unique_ptr<Pe>> pes_;
};

/// Member `me` of a team, and its flags to and from the others. In rounds, word `round` belongs to
/// the member 2^round before.
struct View {
  const Shape& team;
  int me;
  bool flat;

  [[nodiscard]] int n() const { return team.entry.n_pes; }
  [[nodiscard]] int pe(int member) const { return team.pes()[static_cast<std::size_t>(member)]; }
  struct Flag {
    int from, to;
    std::size_t word;
  };
  [[nodiscard]] std::vector<Flag> told() const {
    std::vector<Flag> flags;
    if (flat) {
      for (int i = 0; i < n(); ++i) {
        if (i != me) flags.push_back({me, i, static_cast<std::size_t>(me)});
      }
      return flags;
    }
    for (int distance = 1, round = 0; distance < n(); distance *= 2, ++round) {
      flags.push_back({me, (me + distance) % n(), static_cast<std::size_t>(round)});
    }
    return flags;
  }
  [[nodiscard]] std::vector<Flag> awaited() const {
    std::vector<Flag> flags;
    if (flat) {
      for (int i = 0; i < n(); ++i) {
        if (i != me) flags.push_back({i, me, static_cast<std::size_t>(i)});
      }
      return flags;
    }
    for (int distance = 1, round = 0; distance < n(); distance *= 2, ++round) {
      flags.push_back({(me + n() - distance) % n(), me, static_cast<std::size_t>(round)});
    }
    return flags;
  }
  void tell(Job::Memory& memory, const Job& job, const Flag& flag, std::uint64_t sync) const {
    Job::in(memory, job, pe(flag.to), team.index()).arrived[sync % 2][flag.word] =
        static_cast<std::uint32_t>(sync);
  }
  /// Lets the other members enter sync `number`, except for the one that writes `missing`.
  void others_enter(Job& job, std::uint64_t number, const Flag* missing = nullptr) const {
    for (const Flag& flag : awaited()) {
      if (missing && flag.from == missing->from && flag.word == missing->word) continue;
      job.slot(pe(me), team.index()).arrived[number % 2][flag.word] =
          static_cast<std::uint32_t>(number);
    }
  }
};

template <class Body>
void for_every_member(const Body& body) {
  for (const bool flat : {true, false}) {
    const std::vector<Shape> teams = shapes(flat ? 1 : 0);
    for (const Shape& team : teams) {
      for (int me = 0; me < team.entry.n_pes; ++me) {
        INFO((flat ? "flat, " : "in rounds, ") << team.name << ", member " << me);
        body(View{team, me, flat});
      }
    }
  }
}

/// Runs syncs `first`, `first` + 1, ... in which the other members are always one ahead.
void follow_each_other(const View& view, std::uint64_t first) {
  Job job(view.flat ? 1 : 0);
  SyncSlot& own = job.slot(view.pe(view.me), view.team.index());
  own.epoch = first - 1;
  view.others_enter(job, first - 1);
  view.others_enter(job, first);
  for (std::uint64_t number = first; number < first + 5; ++number) {
    Job::Memory expected = job.memory();
    for (const View::Flag& flag : view.told()) view.tell(expected, job, flag, number);
    Job::in(expected, job, view.pe(view.me), view.team.index()).epoch = number;
    CHECK(job.sync(view.pe(view.me), view.team) == GSHMEMX_SUCCESS);
    CHECK(job.difference(expected) == "");
    view.others_enter(job, number + 1);
  }
}

/// Runs a sync without the member that writes `missing`, which is still in the sync two before.
void waits_for(const View& view, const View::Flag& missing, std::uint64_t number) {
  Job job(view.flat ? 1 : 0);
  const int pe = view.pe(view.me);
  job.slot(pe, view.team.index()).epoch = number - 1;
  view.others_enter(job, number - 2);
  view.others_enter(job, number - 1);
  view.others_enter(job, number, &missing);
  Job::Memory expected = job.memory();
  for (const View::Flag& flag : view.told()) {
    if (view.flat || flag.word <= missing.word) view.tell(expected, job, flag, number);
  }
  CHECK(job.sync(pe, view.team) == GSHMEMX_ERROR_TIMEOUT);
  CHECK(job.control(pe).fault.code == GSHMEMX_ERROR_TIMEOUT);
  CHECK(job.control(pe).fault.pe == view.pe(missing.from));
  CHECK(job.difference(expected) == "");
}

/// One of two threads of a group, and the memory at its synchronizations.
struct Lane {
  int rank;
  const std::function<void()>* syncs;
  [[nodiscard]] int thread_rank() const { return rank; }
  [[nodiscard]] static int size() { return 2; }
  void sync() const { (*syncs)(); }
  [[nodiscard]] bool any(bool mine) const {
    sync();
    return mine;
  }
};

/// A thread that sometimes comes late.
class Member {
 public:
  Member(std::uint64_t seed, int number)
      : random_(seed * 977 + static_cast<std::uint64_t>(number)) {}
  void dawdle() {
    random_ = random_ * 6364136223846793005ull + 1442695040888963407ull;
    const std::uint64_t kind = random_ >> 61;
    if (kind > 2) return;
    if (kind == 0) {
      std::this_thread::sleep_for(std::chrono::microseconds(300));
    } else {
      for (int i = 0; i < 3; ++i) sched_yield();
    }
  }

 private:
  std::uint64_t random_;
};

}  // namespace

TEST_CASE("a_member_signals_those_that_wait_for_it_and_writes_nothing_else") {
  for_every_member([](const View& view) { follow_each_other(view, 1); });
}

TEST_CASE("numbers_of_syncs_continue_when_flags_wrap_around") {
  for_every_member([](const View& view) { follow_each_other(view, (1ull << 32) - 2); });
}

TEST_CASE("a_member_waits_for_every_other_one_and_names_a_missing_one") {
  for_every_member([](const View& view) {
    for (const View::Flag& missing : view.awaited()) {
      for (const std::uint64_t number : {3ull, (1ull << 32) + 1}) waits_for(view, missing, number);
    }
  });
}

TEST_CASE("a_stopped_member_signals_no_other_if_puts_may_be_missing") {
  for_every_member([](const View& view) {
    if (view.n() == 1) return;
    Job job(view.flat ? 1 : 0);
    const int pe = view.pe(view.me);
    const abi::QueueView queue{};
    job.state(pe).nic.queues = &queue;  // all members are mapped: it is not used
    job.control(pe).stop = 1;
    job.control(pe).fault.code = GSHMEMX_ERROR_NIC;
    job.control(pe).fault.claimed = job.control(pe).fault.published = 1;
    view.others_enter(job, 1);
    const Job::Memory expected = job.memory();
    CHECK(job.sync(pe, view.team) == GSHMEMX_ERROR_NIC);
    CHECK(job.difference(expected) == "");
  });
}

TEST_CASE("a_group_synchronizes_before_it_signals_and_after_all_members_have_signaled") {
  for_every_member([](const View& view) {
    for (const int rank : {0, 1}) {
      Job job(view.flat ? 1 : 0);
      const int pe = view.pe(view.me);
      view.others_enter(job, 1);
      std::vector<Job::Memory> seen;
      const std::function<void()> syncs = [&] { seen.push_back(job.memory()); };
      const Job::Memory before = job.memory();
      const int status =
          team_sync(Lane{rank, &syncs}, job.state(pe), "test", static_cast<int>(view.team.handle));
      CHECK(status == GSHMEMX_SUCCESS);
      REQUIRE(seen.size() >= 2);
      CHECK(Job::difference(seen.front(), before, job.teams()) == "");
      CHECK(job.difference(seen.back()) == "");
    }
  });
}

TEST_CASE("a_stale_handle_is_no_team") {
  Job job(1);
  const Job::Memory expected = job.memory();
  for (const int handle : {0x20001, 4, 0x10002, 7, 0x10006, 0x7fff0000, -2}) {
    job.control(1) = {};
    CHECK(team_sync(Thread{}, job.state(1), "test", handle) == GSHMEMX_ERROR_INVALID_VALUE);
    CHECK(job.control(1).fault.code == GSHMEMX_ERROR_INVALID_VALUE);
  }
  job.control(1) = {};
  CHECK(team_sync(Thread{}, job.state(1), "test", GSHMEM_TEAM_INVALID) ==
        GSHMEMX_ERROR_INVALID_VALUE);
  CHECK(job.control(1).stop == 0);
  CHECK(job.difference(expected) == "");
}

TEST_CASE("late_members_hold_all_of_their_team_and_no_other_pe") {
  constexpr std::uint64_t kRounds = 60;
  for (const std::uint32_t flat : {1u, 0u}) {
    Job job(flat, kLong);
    // Data that members exchange, by the parity of the round. It is plain memory, which only the
    // syncs order.
    std::vector<std::uint64_t> left(job.teams().size() * 2 * kPes);
    std::atomic<int> wrong{0}, failed{0};
    std::vector<std::thread> threads;
    for (const Shape& team : job.teams()) {
      const Pes pes = team.pes();
      for (std::size_t me = 0; me < pes.size(); ++me) {
        threads.emplace_back([&, pes, me, team] {
          Member member(team.handle, static_cast<int>(me));
          for (std::uint64_t round = 1; round <= kRounds; ++round) {
            std::uint64_t* words = &left[(team.index() * 2 + round % 2) * kPes];
            member.dawdle();
            words[me] = round;
            if (job.sync(pes[me], team) != GSHMEMX_SUCCESS) {
              ++failed;
              return;
            }
            for (std::size_t i = 0; i < pes.size(); ++i) {
              if (words[i] != round) ++wrong;
            }
          }
        });
      }
    }
    for (std::thread& thread : threads) thread.join();
    CHECK(failed == 0);
    CHECK(wrong == 0);
  }
}

}  // namespace gshmem::device
