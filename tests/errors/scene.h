// A job in which one thing goes wrong, in children of this process: PE 0 posts and meets the error,
// the last PE is its target, PE 1 is neither and waits for PE 0. Every case of tests/errors is one
// Play; the same body runs with PEs as threads and as processes, over every NIC that can produce
// the error. Included by the tests of this folder only.
#pragma once

#include <gshmem/gshmem.hpp>
#include <gshmem/launch.hpp>

#include "tests/spmd/bad_input/children.h"

#include <sys/types.h>

#include <atomic>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace gshmem::errors {

inline constexpr int kActor = 0, kBystander = 1, kTarget = 2, kPes = 3;
/// Bytes of one put: more than travel inside an entry, so that it needs both keys.
inline constexpr std::size_t kBytes = 64;
inline constexpr int kSlots = 64;  ///< places for puts; the first ones for those that succeed

/// Symmetric memory of every PE.
struct Area {
  std::uint64_t word;   ///< nobody ever writes it
  std::uint64_t count;  ///< what atomics and signals would update that fail
  alignas(128) std::uint8_t source[kSlots][kBytes];
  std::uint8_t dest[kSlots][kBytes];
  std::uint8_t landing[kBytes];  ///< of the actor's gets
};

/// What a PE saw, for the process of the test; in memory shared with all children.
struct Account {
  gshmemx_fault_t fault;  ///< after its wait
  bool finalized;
};
struct Shared {
  std::atomic<int> acted;      ///< the actor is through with what goes wrong
  std::atomic<int> verified;   ///< the target has looked at its memory
  std::atomic<int> accounted;  ///< PEs that are through with everything but finalize
  std::atomic<pid_t> pids[kPes];
  int good_rounds;             ///< puts in front of the error
  std::uint32_t queue_number;  ///< of the actor's queue to the target
  int status, status_again;    ///< of quiet_status after the error
  gshmemx_fault_t fault;       ///< of the actor, right behind it
  int claimed;                 ///< puts of which quiet_status said that they are there
  int missing;                 ///< of these, those that are not, by the target
  int leaked;                  ///< slots behind them, and `count`, that hold data, by the target
  Account accounts[kPes];
};

enum class How { kThreads, kProcesses };
enum class Mapping { kNone, kPairs };  ///< GSHMEM_P2P=0, or PEs 0 and 1 map each other

struct Leg {
  std::string nic;
  How how = How::kThreads;
  Mapping mapping = Mapping::kNone;
  [[nodiscard]] std::string name() const;
};

/// What the actor does wrong: puts of slots from `first` on, so that quiet_status reports an error.
struct Actor {
  Area& area;
  int first;
  Shared& shared;
  void put(int slot) const;
  /// By a thread of that block: by the queue of its number.
  void put_by_block(int slot, int block) const;
};

/// How the bystander waits for a PE that does not come.
enum class Wait { kBarrier, kSync, kWord, kMalloc };

struct Play {
  std::function<void(const Actor&)> provoke;
  spmd::Environment environment = {};
  Wait wait = Wait::kBarrier;
  /// The bystander begins to wait when the error is there; else before.
  bool wait_behind = false;
  bool target_survives = true;
};

/// Runs the play; throws std::runtime_error with the output of all when a child did not end as it
/// should. Its memory is valid until the next one.
const Shared& perform(const Leg& leg, const Play& play, std::uint64_t seed);

/// Legs of this build: threads and processes, over the given NICs ("soft", "ofi").
[[nodiscard]] std::vector<Leg> legs(const std::vector<std::string>& nics);
[[nodiscard]] std::vector<Leg> process_legs(const std::vector<std::string>& nics);
/// The environment of a leg's children.
[[nodiscard]] spmd::Environment environment_of(const Leg& leg, const spmd::Environment& more);
/// GSHMEM_TEST_SEED, or 1.
[[nodiscard]] std::uint64_t base_seed();

/// Where children meet without the library. Made before they are.
class Meeting {
 public:
  Meeting();
  ~Meeting();
  Meeting(const Meeting&) = delete;
  /// Returns when `n` have come.
  void arrive_and_wait(int n) const;

 private:
  std::atomic<int>* arrived_;
};

// Ways to provoke, on the actor.
/// From now on the actor's entries of a kind ("op" of the soft NIC's rules,
/// transport/softnic/rules.h) to the target by the nth queue meet an action of these rules.
void inject(const std::string& action, std::uint32_t nth = 0, const std::string& op = "write");
/// The keys that the actor's entries to the target carry become wrong: those by `ctx`.
enum class Key { kLocal, kRemote };
void spoil_key(Key key, gshmem_ctx_t ctx = GSHMEM_CTX_DEFAULT);
/// What the actor reads may trail its completion from now on, as on some GPUs: a DUMP follows.
void demand_dumps();
/// A put of `kBytes` to the first bytes behind the target's heap.
void put_behind_heap(const Actor& actor);
/// `count` puts of the slots from `actor.first` on by a burst, on the queue of all others.
void put_burst(const Actor& actor, int count);
/// Returns when the queue to the target shows an error completion; takes no part in what it says.
/// Throws when there is none in half a minute.
void await_error_completion();

/// A process that does not run, none of its threads, as long as this lives.
class StoppedProcess {
 public:
  explicit StoppedProcess(pid_t pid);
  ~StoppedProcess();
  StoppedProcess(const StoppedProcess&) = delete;

 private:
  pid_t pid_;
};

}  // namespace gshmem::errors
