#include "host/runtime/process.h"

#include "host/base/at_fork.h"
#include "host/base/log.h"
#include "host/runtime/fault.h"

#include <gshmem/device/core/host_block.h>
#include <gshmem/device/core/order_check.h>
#include <gshmem/device/core/registrar.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <new>
#include <thread>
#include <utility>
#include <vector>

namespace gshmem {
namespace {

constexpr char kForkedFrom[] = "this process was forked from PE %d and is no part of its job";

struct Member {
  std::unique_ptr<Pe> pe;
  Ownership ownership;
  std::uint64_t id;  ///< never 0 and never reused, unlike the PE's address
  int inits = 1;     ///< number of inits without a finalize
};

struct Process {
  std::mutex founding;  ///< held while a thread creates the PE of the whole process
  /// Held by a thread that changes what kernels see. Threads that register units do not take it:
  /// they hold the dynamic loader's lock, and a copy to a GPU may wait for that lock.
  std::mutex turn;
  std::mutex mutex;  ///< guards all members below; never held while CUDA is called
  std::vector<Member> members;
  std::vector<Pe*> joining;  ///< PEs in init: kernels know them, host threads do not
  std::vector<const gshmemi_unit*> units;
  bool is_by_nvshmem = false, notes_calls = false;
  std::vector<const gshmemi_unit*> uploading;  ///< pending calls
  int registering = 0;           ///< number of registering units that may use any of these GPUs
  std::uint64_t changes = 0;     ///< number of changes of members and joining
  std::condition_variable idle;  ///< for changes of `uploading` and `registering`
  std::uint64_t last_id = 0;
  Pe* only = nullptr;  ///< the PE of all threads that are not bound to a PE
  ForkedFrom forked_from;
  Pe* abandoned = nullptr;  ///< PEs of this process's parents
  char why_none[96] = "";   ///< Ambient::why_none in a forked process
};

/// The number of the current set of members. A new number invalidates the PE that threads have
/// cached. It is a global variable, because access to the Process has a guard, which every device
/// call in CPU mode would have to pass.
constinit std::atomic<std::uint64_t> generation{1};

void leave_parents_job() noexcept;

/// Returns the process object, which is never destroyed: translation units unregister while the
/// process ends.
Process& process() {
  static Process* const instance = [] {
    auto* made = new Process;
    hold_over_forks(made->mutex, leave_parents_job);
    return made;
  }();
  return *instance;
}

std::atomic<bool> departed{false};

/// Returns the PEs of a process that exits. If the exit interrupted the thread that holds the
/// mutex, for example in a signal handler, it returns none.
std::vector<Pe*> pes_at_exit() {
  Process& p = process();
  std::unique_lock lock(p.mutex, std::try_to_lock);
  for (int i = 0; i < 100 && !lock; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
    (void)lock.try_lock();
  }
  std::vector<Pe*> pes;
  if (!lock) return pes;
  for (const Member& member : p.members) pes.push_back(member.pe.get());
  return pes;
}

/// An exit handler. The first init registers it. So it runs before the exit handlers of the
/// libraries that init has loaded, which a network needs.
void flush_at_exit() {
  for (Pe* pe : pes_at_exit()) pe->flush();
}

/// Notifies the peers of PEs of a process that ends normally without gshmem_finalize. It is created
/// when the library is loaded, so it is destroyed after objects that are created later: exit
/// handlers and objects of the program may still finalize.
struct Departure {
  /// Creates the process object now. A forked child must not wait for a thread of its parent that
  /// is creating it.
  Departure() { (void)process(); }
  ~Departure() {
    const std::vector<Pe*> pes = pes_at_exit();
    departed.store(!pes.empty(), std::memory_order_release);
    for (Pe* pe : pes) pe->depart();
  }
};
[[maybe_unused]] const Departure departure;

/// It is one struct, because each thread-local variable needs its own address computation.
struct Self {
  device::Ambient ambient;
  std::uint64_t bound_id = 0;  ///< id of a member; 0: bound to none
  Pe* pe = nullptr;            ///< the thread's PE, for that generation
  std::uint64_t generation = 0;
};
thread_local constinit Self self;
thread_local std::unique_ptr<gshmemx_fault_t> init_error;

void set_ambient(Pe* pe) {
  self.ambient.state = pe ? &pe->state() : nullptr;
  self.ambient.ops = pe ? pe->ops() : nullptr;
  self.ambient.region = pe ? &pe->region() : nullptr;
  self.ambient.checks = pe ? &pe->checks() : nullptr;
  log_set_pe(pe ? pe->state().my_pe : -1);
  GSHMEM_ORDER(if (pe) checker->join(pe->state());)
}

/// Requires the mutex.
void update(Process& p) {
  const bool single = p.members.size() == 1 && p.members[0].ownership == Ownership::kProcess;
  p.only = single ? p.members[0].pe.get() : nullptr;
  ++p.changes;
  generation.fetch_add(1, std::memory_order_release);
}

std::vector<Member>::iterator member_of(Process& p, const void* pe) {
  return std::ranges::find_if(p.members,
                              [&](const Member& member) { return member.pe.get() == pe; });
}

std::vector<Pe*> pes_with_gpu(const Process& p) {
  std::vector<Pe*> pes = p.joining;
  for (const Member& member : p.members) pes.push_back(member.pe.get());
  std::erase_if(pes, [](const Pe* pe) { return pe->gpu() == nullptr; });
  return pes;
}

/// Returns the state that the kernels of GPU `device` see: that of its PE, or an empty one, or one
/// that says that two PEs share the GPU.
abi::DeviceState state_for(const Process& p, int device) {
  abi::DeviceState state;
  for (const Pe* pe : pes_with_gpu(p)) {
    if (pe->gpu()->device() != device) continue;
    if (state.magic != 0) {
      abi::Control* const control = state.control;  // for the fault
      state = {};
      state.magic = abi::kStateAmbiguous;
      state.control = control;
      return state;
    }
    state = pe->state();
  }
  return state;
}

void check_layout(const gshmemi_unit& unit) {
  require(unit.state_bytes == sizeof(abi::DeviceState) && unit.abi == abi::kStateAbi,
          GSHMEMX_ERROR_NOT_SUPPORTED,
          strprintf("a part of this program was compiled with headers of another gshmem (device "
                    "state of %lu bytes, number %u; this library's has %zu, number %u); compile it "
                    "again with this one's",
                    unit.state_bytes, unit.abi, sizeof(abi::DeviceState), abi::kStateAbi));
}

/// Sets the state of one unit on a GPU. It releases the mutex, which `lock` holds, during the copy.
void upload(std::unique_lock<std::mutex>& lock, Process& p, const gshmemi_unit* unit, Gpu& gpu) {
  if (std::ranges::find(p.units, unit) == p.units.end()) return;  // it was unloaded
  const abi::DeviceState state = state_for(p, gpu.device());
  p.uploading.push_back(unit);
  lock.unlock();
  int error = 0;
  std::exception_ptr thrown;
  try {
    gpu.with_context([&] { error = unit->upload(&state, sizeof(state)); });
  } catch (...) {
    thrown = std::current_exception();
  }
  lock.lock();
  p.uploading.erase(std::ranges::find(p.uploading, unit));
  p.idle.notify_all();
  if (thrown) std::rethrow_exception(thrown);
  if (error != 0) {
    GSHMEM_WARN("device state of a translation unit not updated on GPU %d (CUDA error %d)",
                gpu.device(), error);
  }
}

/// Requires `turn`. A unit that registers in the meantime uploads its own state.
void upload_all(std::unique_lock<std::mutex>& lock, Process& p, Gpu& gpu) {
  const std::vector<const gshmemi_unit*> units = p.units;
  for (const gshmemi_unit* unit : units) upload(lock, p, unit, gpu);
}

/// Waits until no registering unit uses a GPU that is released.
void await_registering(std::unique_lock<std::mutex>& lock, Process& p) {
  p.idle.wait(lock, [&] { return p.registering == 0; });
}

void register_unit(const gshmemi_unit* unit) {
  Process& p = process();
  std::unique_lock lock(p.mutex);
  p.units.push_back(unit);
  if (pes_with_gpu(p).empty()) return;
  check_layout(*unit);
  ++p.registering;
  std::uint64_t seen = p.changes - 1;
  while (seen != p.changes) {
    seen = p.changes;
    for (Pe* pe : pes_with_gpu(p)) {
      try {
        upload(lock, p, unit, *pe->gpu());
      } catch (const Error& error) {
        GSHMEM_WARN("device state of a translation unit: %s", error.what());
      }
    }
  }
  --p.registering;
  p.idle.notify_all();
}

/// Looks up the calling thread's PE again, with the mutex held. Another thread may have removed the
/// PE that it was bound to.
void look_up(const Process& p) {
  const auto bound = std::ranges::find(p.members, self.bound_id, &Member::id);
  self.ambient.bound = bound != p.members.end();
  if (!self.ambient.bound) self.bound_id = 0;
  const Pe* const before = self.pe;
  self.pe = self.ambient.bound ? bound->pe.get() : p.only;
  if (self.pe && self.pe != before) self.pe->waits().count_thread();
  self.generation = generation.load(std::memory_order_relaxed);
  self.ambient.why_none = !self.pe && p.forked_from.pe >= 0 ? p.why_none : nullptr;
  if (!self.ambient.lane) set_ambient(self.pe);  // a lane uses the state of its launch
}

/// Runs in the child of a fork, which has no PE. The parent's PEs are neither destroyed, which
/// would remove them from their job, nor used again; the memory that they have mapped stays mapped.
void leave_parents_job() noexcept {
  Process& p = process();
  if (!p.members.empty()) {
    look_up(p);
    const Pe& from = self.pe ? *self.pe : *p.members.front().pe;
    p.forked_from = {from.state().my_pe, from.gpu() != nullptr};
    std::snprintf(p.why_none, sizeof(p.why_none), kForkedFrom, p.forked_from.pe);
  }
  for (Member& member : p.members) {
    Pe* const pe = member.pe.release();
    pe->abandon_in_child(std::exchange(p.abandoned, pe));
  }
  p.members.clear();
  p.joining.clear();
  // These calls belong to threads that do not exist here.
  p.uploading.clear();
  p.registering = 0;
  new (&p.idle) std::condition_variable;
  new (&p.founding) std::mutex;
  new (&p.turn) std::mutex;
  update(p);
  self.ambient = {};
  self.bound_id = 0;
  look_up(p);
}

}  // namespace

bool process_departed() noexcept { return departed.load(std::memory_order_acquire); }

Pe* current_pe() noexcept {
  if (self.generation != generation.load(std::memory_order_acquire)) {  // pairs with update
    Process& p = process();
    const std::lock_guard lock(p.mutex);
    look_up(p);
  }
  return self.pe;
}

Pe& require_pe(const char* call) {
  Pe* pe = current_pe();
  require(pe != nullptr && !process_departed(), GSHMEMX_ERROR_NOT_INITIALIZED, no_pe_text(call));
  return *pe;
}

std::string no_pe_text(const char* call) {
  const int forked_from = process_forked_from().pe;
  if (forked_from < 0) {
    return strprintf(
        "%s: the library is not initialized on this thread (call it between gshmem_init and "
        "gshmem_finalize)",
        call);
  }
  return std::string(call) + ": " + strprintf(kForkedFrom, forked_from);
}

ForkedFrom process_forked_from() noexcept {
  Process& p = process();
  const std::lock_guard lock(p.mutex);
  return p.forked_from;
}

bool process_has_kernels() noexcept {
  Process& p = process();
  const std::lock_guard lock(p.mutex);
  return !p.units.empty();
}

const gshmemi_cuda* process_cuda_of(const void* func) {
  Process& p = process();
  std::unique_lock lock(p.mutex);
  const std::vector<const gshmemi_unit*> units = p.units;
  lock.unlock();
  for (const gshmemi_unit* unit : units) {
    if (unit->cuda && unit->cuda->knows(func) == 0) return unit->cuda;
  }
  return nullptr;
}

bool process_notes_calls() noexcept {
  Process& p = process();
  const std::lock_guard lock(p.mutex);
  return p.notes_calls;
}

bool process_is_by_nvshmem() noexcept {
  Process& p = process();
  const std::lock_guard lock(p.mutex);
  return p.is_by_nvshmem;
}

Pe* pe_of_state(const abi::DeviceState* state) noexcept {
  Process& p = process();
  const std::lock_guard lock(p.mutex);
  for (const Member& member : p.members) {
    // The address is not compared, because contexts have their own states.
    if (member.pe->state().control == state->control) return member.pe.get();
  }
  return nullptr;
}

void process_publish_state(Pe& pe) {
  Process& p = process();
  const std::lock_guard turn(p.turn);
  std::unique_lock lock(p.mutex);
  ++p.changes;
  if (pe.state().magic == abi::kStateMagic) {
    for (const gshmemi_unit* unit : p.units) check_layout(*unit);
    p.joining.push_back(&pe);
  } else {
    if (std::erase(p.joining, &pe) == 0) return;  // its init had failed before it was added
    await_registering(lock, p);
  }
  if (pe.gpu()) upload_all(lock, p, *pe.gpu());
}

void process_add(std::unique_ptr<Pe> pe, Ownership ownership) {
  [[maybe_unused]] static const int registered = std::atexit(flush_at_exit);
  Process& p = process();
  const std::lock_guard lock(p.mutex);
  std::erase(p.joining, pe.get());
  p.members.push_back({.pe = std::move(pe), .ownership = ownership, .id = ++p.last_id});
  update(p);
  self.bound_id = p.last_id;
  look_up(p);
}

std::unique_lock<std::mutex> process_founding() { return std::unique_lock(process().founding); }

bool process_init_again() {
  const Pe* pe = current_pe();
  Process& p = process();
  const std::lock_guard lock(p.mutex);
  const auto found = member_of(p, pe);
  if (found == p.members.end()) return false;
  ++found->inits;
  return true;
}

std::unique_ptr<Pe> process_take_current() {
  Pe* pe = current_pe();
  Process& p = process();
  const std::lock_guard turn(p.turn);
  std::unique_lock lock(p.mutex);
  const auto found = member_of(p, pe);
  if (found == p.members.end() || --found->inits > 0) return nullptr;
  std::unique_ptr<Pe> taken = std::move(found->pe);
  p.members.erase(found);
  update(p);
  look_up(p);
  await_registering(lock, p);
  try {
    if (taken->gpu()) upload_all(lock, p, *taken->gpu());
  } catch (const Error& error) {
    GSHMEM_WARN("finalize: kernels may still see the PE: %s", error.what());
  }
  return taken;
}

bool process_bind_thread(const void* handle) {
  Process& p = process();
  const std::lock_guard lock(p.mutex);
  const auto found = member_of(p, handle);
  if (handle != nullptr && found == p.members.end()) return false;
  self.bound_id = handle != nullptr ? found->id : 0;
  look_up(p);
  return true;
}

void set_init_error(const Error& error) {
  init_error = std::make_unique<gshmemx_fault_t>();
  init_error->code = error.code();
  init_error->pe = -1;
  std::snprintf(init_error->message, sizeof(init_error->message), "%s", error.what());
}

void get_init_error(gshmemx_fault_t* info) {
  if (init_error) *info = *init_error;
}

}  // namespace gshmem

extern "C" {

gshmem::device::Ambient* gshmemi_ambient(void) {
  gshmem::device::Ambient& ambient = gshmem::self.ambient;
  if (!ambient.lane) (void)gshmem::current_pe();  // the lanes of a launch have theirs already
  return &ambient;
}

void gshmemi_host_fault(const gshmem::abi::DeviceState* state) {
  if (gshmem::Pe* pe = gshmem::pe_of_state(state)) pe->faults().end_job();
  gshmem::abi::FaultRecord record;
  if (const int pe = gshmem::process_forked_from().pe; pe >= 0) {
    gshmem::log_last_line("a context of PE %d is used in a process that was forked from it", pe);
  } else if (gshmem::fault_read(state->control, &record)) {
    gshmem::log_last_line("%s", gshmem::fault_message(record).c_str());
  }
  std::abort();
}

GSHMEM_EXPORT unsigned gshmemi_abi_number(void) { return gshmem::abi::kStateAbi; }

GSHMEM_EXPORT void gshmemi_by_nvshmem(void) {
  gshmem::Process& p = gshmem::process();
  const std::lock_guard lock(p.mutex);
  p.is_by_nvshmem = true;
}

GSHMEM_EXPORT int gshmemi_note_calls(void) {
  gshmem::Process& p = gshmem::process();
  const std::lock_guard lock(p.mutex);
  p.notes_calls = true;
  return 0;
}

void gshmemi_register_unit(const gshmemi_unit* unit) {
  try {
    gshmem::register_unit(unit);
  } catch (const std::exception& error) {
    GSHMEM_ERROR("%s", error.what());
  }
}

void gshmemi_unregister_unit(const gshmemi_unit* unit) {
  gshmem::Process& p = gshmem::process();
  std::unique_lock lock(p.mutex);
  std::erase(p.units, unit);
  p.idle.wait(lock, [&] { return std::ranges::find(p.uploading, unit) == p.uploading.end(); });
}

}  // extern "C"
