#include "tests/errors/scene.h"
#include "tests/patience.h"

#include <gshmem/device/api/burst.h>
#include <gshmem/device/network/network_path.h>

#include <dlfcn.h>
#include <linux/futex.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <climits>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <random>
#include <stdexcept>

namespace gshmem::errors {
namespace {

/// The value of a slot in the target's area after the claimed puts; the other slots stay unchanged.
std::uint8_t value_of(int slot) { return static_cast<std::uint8_t>(slot + 1); }

// Counters that threads and processes wait for without using the cores of those that work.
long futex(std::atomic<int>& counter, int operation, int value) {
  return syscall(SYS_futex, &counter, operation, value, nullptr, nullptr, 0);
}
/// It has no time limit: the child has an alarm.
void await(std::atomic<int>& counter, int value = 1) {
  for (int seen = counter.load(); seen < value; seen = counter.load())
    futex(counter, FUTEX_WAIT, seen);
}
void raise(std::atomic<int>& counter) {
  ++counter;
  futex(counter, FUTEX_WAKE, INT_MAX);
}

const abi::DeviceState& state() { return *gshmemi_ambient()->state; }

const abi::QueueView& queue_view(std::uint32_t nth = 0, gshmem_ctx_t ctx = GSHMEM_CTX_DEFAULT) {
  const abi::NicView& nic = device::find_context(state(), "test", "ctx", ctx)->nic;
  return nic.queues[static_cast<std::uint32_t>(kTarget) * nic.per_pe + nth];
}

struct PutByBlock {
  GSHMEM_FN void operator()(const LaunchContext& ctx, const std::uint8_t* source,
                            std::uint8_t* dest, int block) const {
    if (ctx.block_rank() == block) ctx.put_nbi(Thread{}, dest, source, kBytes, kTarget);
  }
};

void act(Area& area, Shared& shared, const Play& play) {
  for (int slot = 0; slot < kSlots; ++slot) std::memset(area.source[slot], value_of(slot), kBytes);
  shared.queue_number = queue_view().number;
  const Actor actor{area, shared.good_rounds, shared};
  for (int slot = 0; slot < shared.good_rounds; ++slot) {
    actor.put(slot);
    if (gshmemx_quiet_status() != GSHMEMX_SUCCESS) break;
    ++shared.claimed;
  }
  play.provoke(actor);
  shared.status = gshmemx_quiet_status();
  if (shared.status == GSHMEMX_SUCCESS) shared.claimed = kSlots;  // the status claims it
  gshmemx_last_fault(&shared.fault);
  // Later puts must not reset the error.
  actor.put(kSlots - 1);
  shared.status_again = gshmemx_quiet_status();
  raise(shared.acted);
  if (play.target_survives) await(shared.verified);
}

void verify(const Area& area, Shared& shared) {
  for (int slot = 0; slot < kSlots; ++slot) {
    const auto all = [&](std::uint8_t value) {
      return std::all_of(area.dest[slot], area.dest[slot] + kBytes,
                         [=](std::uint8_t byte) { return byte == value; });
    };
    if (slot < shared.claimed) {
      shared.missing += !all(value_of(slot));
    } else {
      shared.leaked += !all(0);
    }
  }
  shared.leaked += area.count != 0;
  raise(shared.verified);
}

void wait_for_actor(Area& area, Wait wait) {
  switch (wait) {
    case Wait::kBarrier:
      return gshmem_barrier_all();
    case Wait::kSync:
      return gshmem_sync_all();
    case Wait::kWord:
      gshmem_uint64_wait_until(&area.word, GSHMEM_CMP_NE, 0);
      return;
    case Wait::kMalloc:
      (void)gshmem_malloc(64);
      return;
  }
}

/// Runs the part of one PE.
void play_part(Shared& shared, const Play& play) {
  const int me = gshmem_my_pe();
  shared.pids[me].store(getpid());
  auto* area = static_cast<Area*>(gshmem_calloc(1, sizeof(Area)));
  if (area == nullptr) throw std::runtime_error("no memory");
  gshmem_barrier_all();
  if (me == kActor) act(*area, shared, play);
  if (me == kTarget || play.wait_behind) await(shared.acted);
  if (me == kTarget) verify(*area, shared);
  wait_for_actor(*area, play.wait);  // it returns on all PEs, the actor included
  gshmemx_last_fault(&shared.accounts[me].fault);
  // The other PEs learn that a PE leaves, too.
  raise(shared.accounted);
  await(shared.accounted, play.target_survives ? kPes : kPes - 1);
}

Shared& fresh_memory() {
  static void* memory = nullptr;
  if (memory != nullptr) munmap(memory, sizeof(Shared));
  memory = mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) throw std::runtime_error("mmap");
  return *new (memory) Shared{};
}

void as_threads(Shared& shared, const Play& play) {
  run_threads(kPes, [&](const Runtime& runtime) {
    play_part(shared, play);
    shared.accounts[runtime.my_pe()].finalized = true;  // otherwise the child ends with an error
  });
}

void as_process(Shared& shared, const Play& play) {
  int me = -1;
  {
    const Runtime runtime;
    me = runtime.my_pe();
    play_part(shared, play);
  }
  shared.accounts[me].finalized = true;
}

}  // namespace

void Actor::put(int slot) const {
  gshmem_putmem_nbi(area.dest[slot], area.source[slot], kBytes, kTarget);
}

void Actor::put_by_block(int slot, int block) const {
  const auto blocks = static_cast<unsigned>(block) + 1;
  launch({.blocks = blocks}, PutByBlock{}, &area.source[slot][0], &area.dest[slot][0], block);
  synchronize();
}

std::string Leg::name() const {
  return nic + (how == How::kThreads ? ", threads" : ", processes") +
         (mapping == Mapping::kPairs ? ", two PEs mapped" : "");
}

namespace {

bool is_built(const std::string& nic) {
#if !defined(GSHMEM_TEST_OFI)
  if (nic == "ofi") return false;
#endif
#if !defined(GSHMEM_TEST_SOFT)
  if (nic == "soft") return false;
#endif
  return nic == "soft" || nic == "ofi";
}

std::vector<Leg> legs_of(const std::vector<std::string>& nics, How how, Mapping mapping) {
  std::vector<Leg> all;
  for (const std::string& nic : nics) {
    if (is_built(nic)) all.push_back({nic, how, mapping});
  }
  // A case without a leg would pass.
  if (all.empty()) spmd::skip("this build has no NIC that the case is about");
  return all;
}

}  // namespace

std::vector<Leg> process_legs(const std::vector<std::string>& nics) {
#if defined(GSHMEM_TEST_THREADS_ONLY)
  spmd::skip("TSan cannot see what orders the accesses of several processes");
#endif
  return legs_of(nics, How::kProcesses, Mapping::kNone);
}

std::vector<Leg> legs(const std::vector<std::string>& nics) {
  std::vector<Leg> all = legs_of(nics, How::kThreads, Mapping::kPairs);
#if !defined(GSHMEM_TEST_THREADS_ONLY)
  for (const Leg& leg : process_legs(nics)) all.push_back(leg);
#endif
  return all;
}

spmd::Environment environment_of(const Leg& leg, const spmd::Environment& more) {
  spmd::Environment all = spmd::quick({{"GSHMEM_NIC", leg.nic},
                                       {"GSHMEM_OFI_INTERFACE", "127.0.0.1"},
                                       // libfabric need not load all other providers in every
                                       // child.
                                       {"FI_PROVIDER", "tcp,ofi_rxm"},
                                       {"GSHMEM_LOG", "error"},
                                       {"GSHMEM_QP_DEPTH", "64"}});
  if (leg.mapping == Mapping::kNone) all.emplace("GSHMEM_P2P", "0");
  if (leg.mapping == Mapping::kPairs) all.emplace("GSHMEM_P2P_GROUP", "2");
  for (const auto& [name, value] : more) all[name] = value;
  return all;
}

std::uint64_t base_seed() {
  const char* seed = std::getenv("GSHMEM_TEST_SEED");
  return seed != nullptr ? std::strtoull(seed, nullptr, 0) : 1;
}

const Shared& perform(const Leg& leg, const Play& play, std::uint64_t seed) {
  Shared& shared = fresh_memory();
  shared.good_rounds = static_cast<int>(std::mt19937_64(seed)() % 40);
  const spmd::Environment environment = environment_of(leg, play.environment);
  std::vector<spmd::Outcome> outcomes;
  if (leg.how == How::kThreads) {
    outcomes.push_back(spmd::in_child(environment, [&] { as_threads(shared, play); }));
  } else {
    outcomes = spmd::in_children(kPes, environment, [&](int) { as_process(shared, play); });
  }
  std::string output;
  bool good = true;
  for (std::size_t i = 0; i < outcomes.size(); ++i) {
    const bool victim = !play.target_survives && static_cast<int>(i) == kTarget;
    good = good && outcomes[i].code == (victim ? 128 + SIGKILL : 0);
    output += "child " + std::to_string(i) + " ended with " + std::to_string(outcomes[i].code) +
              ": " + outcomes[i].output + "\n";
  }
  if (!good) throw std::runtime_error(output);
  return shared;
}

Rendezvous::Rendezvous() {
  void* memory =
      mmap(nullptr, sizeof(*arrived_), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) throw std::runtime_error("mmap");
  arrived_ = new (memory) std::atomic<int>(0);
}
Rendezvous::~Rendezvous() { munmap(arrived_, sizeof(*arrived_)); }
void Rendezvous::arrive_and_wait(int n) const {
  raise(*arrived_);
  await(*arrived_, n);
}

void inject(const std::string& action, std::uint32_t nth, const std::string& op) {
  // The rule is for this queue only: PEs that are threads share a NIC.
  const std::string rule =
      "qp=" + std::to_string(queue_view(nth).number) + ":op=" + op + ":" + action;
  // This is the one that the library has loaded.
  void* library = dlopen(GSHNIC_FOLDER "/libgshnic.so", RTLD_NOW | RTLD_NOLOAD);
  using Function = int (*)(const char*);
  const auto function =
      library != nullptr ? reinterpret_cast<Function>(dlsym(library, "gshnic_inject")) : nullptr;
  if (function == nullptr || function(rule.c_str()) != 0)
    throw std::runtime_error("the soft NIC does not take the rule " + rule);
}

void spoil_key(Key key, gshmem_ctx_t ctx) {
  auto& view = const_cast<abi::QueueView&>(queue_view(0, ctx));
  const auto spoil = [](abi::Be32& field) { field = abi::Be32(field.get() ^ 0x00f0f0f0); };
  if (key == Key::kLocal) return spoil(view.local_key);
  spoil(view.remote_key);
  spoil(view.atomic_key);
}

void spoil_vector() { const_cast<abi::AddressVector*>(state().nic.vectors)[kTarget].words[0] ^= 1; }

void demand_dumps() { const_cast<abi::DeviceState&>(state()).nic.flags |= abi::kNicReadNeedsDump; }

void put_behind_heap(const Actor& actor) {
  const abi::DeviceState& own = state();
  device::nic::put(device::Thread{}, own, own.heap + own.heap_bytes, actor.area.source[0], kBytes,
                   kTarget, device::nic::Reuse::kAtQuiet);
}

void put_burst(const Actor& actor, int count) {
  abi::DeviceState own = state();
  own.nic.traits |= abi::QueueTraits::kExclusive;  // only the actor uses it
  device::Burst<device::Thread> burst(device::Thread{}, own, kTarget, true);
  for (int i = 0; i < count; ++i) {
    const int slot = actor.first + i % (kSlots - actor.first);
    burst.put(actor.area.dest[slot], actor.area.source[slot], {kBytes, 1});
  }
  burst.end();
}

void await_error_completion() {
  device::Wait wait;
  device::begin_wait(wait, gshmemi_ambient()->state, &queue_view(), "test");
  const auto end =
      std::chrono::steady_clock::now() + std::chrono::seconds(30 * gshmem::test::kPatience);
  while (device::queue_poll(wait) != device::kQueueFailed) {
    if (std::chrono::steady_clock::now() > end) throw std::runtime_error("no error completion");
    sched_yield();
  }
}

namespace {

/// proc(5), stat: the state follows the name, which may contain anything.
bool all_threads_stopped(pid_t pid) {
  const std::filesystem::path tasks = "/proc/" + std::to_string(pid) + "/task";
  for (const auto& task : std::filesystem::directory_iterator(tasks)) {
    std::ifstream file(task.path() / "stat");
    std::string text;
    std::getline(file, text);
    const std::size_t name_end = text.rfind(')');
    if (name_end == std::string::npos || text.compare(name_end, 3, ") T") != 0) return false;
  }
  return true;
}

}  // namespace

StoppedProcess::StoppedProcess(pid_t pid) : pid_(pid) {
  kill(pid, SIGSTOP);  // takes effect later
  while (!all_threads_stopped(pid)) sched_yield();
}
StoppedProcess::~StoppedProcess() { kill(pid_, SIGCONT); }

}  // namespace gshmem::errors
