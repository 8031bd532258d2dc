// A job with one error, in children of this process: PE 0 posts and gets the error, the last PE is
// its target, PE 1 is neither and waits for PE 0. Every case of tests/errors is one Play; the same
// body runs with PEs as threads and as processes, over every NIC that can produce the error.
// Included by the tests of this folder only.
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
/// Bytes of one put: more than fit inside an entry, so that it needs both keys.
inline constexpr std::size_t kBytes = 64;
inline constexpr int kSlots = 64;  ///< slots for puts; the first ones for those that succeed

/// Symmetric memory of every PE.
struct Area {
  std::uint64_t word;   ///< never written
  std::uint64_t count;  ///< the target of atomics and signals that fail
  alignas(128) std::uint8_t source[kSlots][kBytes];
  std::uint8_t dest[kSlots][kBytes];
  std::uint8_t landing[kBytes];  ///< for the actor's gets
};

/// The observations of a PE, for the process of the test. It is in memory shared with all children.
struct Account {
  gshmemx_fault_t fault;  ///< after its wait
  bool finalized;
};
struct Shared {
  std::atomic<int> acted;      ///< the actor has made the error
  std::atomic<int> verified;   ///< the target has checked its memory
  std::atomic<int> accounted;  ///< PEs that have only finalize left
  std::atomic<pid_t> pids[kPes];
  int good_rounds;             ///< puts before the error
  std::uint32_t queue_number;  ///< the actor's queue to the target
  int status, status_again;    ///< results of quiet_status after the error
  gshmemx_fault_t fault;       ///< the actor's fault, right after it
  int claimed;                 ///< puts that quiet_status reports as complete
  int missing;                 ///< those of them that the target does not find
  int leaked;                  ///< later slots, and `count`, in which the target finds data
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

/// Makes the error of the actor: puts of slots from `first` on, so that quiet_status reports an
/// error.
struct Actor {
  Area& area;
  int first;
  Shared& shared;
  void put(int slot) const;
  /// Puts as a thread of that block, on the queue with its number.
  void put_by_block(int slot, int block) const;
};

/// How the bystander waits for a PE that does not come.
enum class Wait { kBarrier, kSync, kWord, kMalloc };

struct Play {
  std::function<void(const Actor&)> provoke;
  spmd::Environment environment = {};
  Wait wait = Wait::kBarrier;
  /// the bystander begins to wait after the error, otherwise before it
  bool wait_behind = false;
  bool target_survives = true;
};

/// Runs the play. Throws std::runtime_error with all output if a child did not end as expected. Its
/// memory is valid until the next call.
const Shared& perform(const Leg& leg, const Play& play, std::uint64_t seed);

/// Returns the legs of this build: threads and processes, over the given NICs ("soft", "ofi").
[[nodiscard]] std::vector<Leg> legs(const std::vector<std::string>& nics);
[[nodiscard]] std::vector<Leg> process_legs(const std::vector<std::string>& nics);
/// Returns the environment of a leg's children.
[[nodiscard]] spmd::Environment environment_of(const Leg& leg, const spmd::Environment& more);
/// Returns GSHMEM_TEST_SEED, or 1.
[[nodiscard]] std::uint64_t base_seed();

/// Lets children synchronize without the library. Created before they are.
class Rendezvous {
 public:
  Rendezvous();
  ~Rendezvous();
  Rendezvous(const Rendezvous&) = delete;
  /// Returns when `n` have arrived.
  void arrive_and_wait(int n) const;

 private:
  std::atomic<int>* arrived_;
};

// Ways to provoke errors, on the actor. Applies an action of the soft NIC's rules to the actor's
// next entries of a kind ("op" in transport/softnic/rules.h) to the target on its nth queue.
void inject(const std::string& action, std::uint32_t nth = 0, const std::string& op = "write");
/// Makes a key wrong that the actor's entries to the target carry, for those by `ctx`.
enum class Key { kLocal, kRemote };
void spoil_key(Key key, gshmem_ctx_t ctx = GSHMEM_CTX_DEFAULT);
/// Makes the key wrong in the address vector of the target.
void spoil_vector();
/// From now on data that the actor reads may arrive after its completion, as on some GPUs: a DUMP
/// follows.
void demand_dumps();
/// Puts `kBytes` to the first bytes after the target's heap.
void put_behind_heap(const Actor& actor);
/// Puts the `count` slots from `actor.first` on by a burst, on the queue of all others.
void put_burst(const Actor& actor, int count);
/// Returns when the queue to the target shows an error completion, without a call that would report
/// it. Throws if there is none within half a minute.
void await_error_completion();

/// A process whose threads are all stopped as long as this object exists.
class StoppedProcess {
 public:
  explicit StoppedProcess(pid_t pid);
  ~StoppedProcess();
  StoppedProcess(const StoppedProcess&) = delete;

 private:
  pid_t pid_;
};

}  // namespace gshmem::errors
