#include "host/runtime/process.h"

#include "host/base/log.h"

#include <gshmem/device/host_group.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <vector>

extern "C" typedef int (*gshmemi_upload_t)(const void* state, unsigned long bytes);

namespace gshmem {
namespace {

struct Member {
  std::unique_ptr<Pe> pe;
  Ownership ownership;
  std::uint64_t id;  ///< never 0, never used again, unlike the PE's address
};

struct Process {
  std::mutex mutex;
  std::vector<Member> members;
  std::vector<gshmemi_upload_t> uploads;
  std::uint64_t last_id = 0;
  Pe* only = nullptr;  ///< the PE of threads that are bound to none
};

/// Changes with the members; invalidates what threads have cached. Not one of Process's, whose
/// guard every device call in CPU mode would have to pass.
constinit std::atomic<std::uint64_t> generation{1};

/// Never destroyed: translation units unregister while the process ends.
Process& process() {
  static auto* instance = new Process;
  return *instance;
}

/// In one struct, because each thread-local variable has its address asked for on its own.
struct Self {
  device::Ambient ambient;
  std::uint64_t bound_id = 0;  ///< of a member; 0: bound to none
  Pe* pe = nullptr;            ///< the thread's, in that generation
  std::uint64_t generation = 0;
};
thread_local constinit Self self;
thread_local std::unique_ptr<gshmemx_fault_t> init_error;

void set_ambient(Pe* pe) {
  self.ambient.state = pe ? &pe->state() : nullptr;
  self.ambient.ops = pe ? pe->ops() : nullptr;
  log_set_pe(pe ? pe->state().my_pe : -1);
}

/// With the mutex held.
void update(Process& p) {
  const bool single = p.members.size() == 1 && p.members[0].ownership == Ownership::kProcess;
  p.only = single ? p.members[0].pe.get() : nullptr;
  generation.fetch_add(1, std::memory_order_release);
}

/// What the kernels of GPU `device` see: its PE, nothing, or that there are two.
abi::DeviceState state_for(const Process& p, int device) {
  abi::DeviceState state;
  for (const Member& member : p.members) {
    if (!member.pe->gpu() || member.pe->gpu()->device() != device) continue;
    if (state.magic != 0) {
      state = {};
      state.magic = abi::kStateAmbiguous;
      return state;
    }
    state = member.pe->state();
  }
  return state;
}

void upload(gshmemi_upload_t function, Gpu& gpu, const abi::DeviceState& state) {
  gpu.with_context([&] {
    const int error = function(&state, sizeof(state));
    if (error != 0) {
      GSHMEM_WARN("device state of a translation unit not updated on GPU %d (CUDA error %d)",
                  gpu.device(), error);
    }
  });
}

/// With the mutex held.
void upload_all(Process& p, Gpu& gpu) {
  const abi::DeviceState state = state_for(p, gpu.device());
  for (const gshmemi_upload_t function : p.uploads) upload(function, gpu, state);
}

/// The calling thread's PE anew, with the mutex held. Another thread may have taken away the one it
/// was bound to.
void look_up(const Process& p) {
  const auto bound = std::find_if(p.members.begin(), p.members.end(),
                                  [](const Member& member) { return member.id == self.bound_id; });
  self.ambient.bound = bound != p.members.end();
  if (!self.ambient.bound) self.bound_id = 0;
  self.pe = self.ambient.bound ? bound->pe.get() : p.only;
  self.generation = generation.load(std::memory_order_relaxed);
  set_ambient(self.pe);
}

}  // namespace

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
  require(pe != nullptr, GSHMEMX_ERROR_NOT_INITIALIZED,
          strprintf(
              "%s: the library is not initialized on this thread (call it between gshmem_init and "
              "gshmem_finalize)",
              call));
  return *pe;
}

Pe* pe_of_state(const abi::DeviceState* state) noexcept {
  Process& p = process();
  const std::lock_guard lock(p.mutex);
  for (const Member& member : p.members) {
    // Not by its address: contexts have states of their own.
    if (member.pe->state().control == state->control) return member.pe.get();
  }
  return nullptr;
}

void process_add(std::unique_ptr<Pe> pe, Ownership ownership) {
  Process& p = process();
  const std::lock_guard lock(p.mutex);
  p.members.push_back({std::move(pe), ownership, ++p.last_id});
  update(p);
  self.bound_id = p.last_id;
  look_up(p);
  if (self.pe->gpu()) upload_all(p, *self.pe->gpu());
}

std::unique_ptr<Pe> process_take_current() {
  Pe* pe = current_pe();
  Process& p = process();
  const std::lock_guard lock(p.mutex);
  const auto found = std::find_if(p.members.begin(), p.members.end(),
                                  [&](const Member& member) { return member.pe.get() == pe; });
  if (found == p.members.end()) return nullptr;
  std::unique_ptr<Pe> taken = std::move(found->pe);
  p.members.erase(found);
  update(p);
  look_up(p);
  if (taken->gpu()) upload_all(p, *taken->gpu());
  return taken;
}

bool process_bind_thread(const void* handle) {
  Process& p = process();
  const std::lock_guard lock(p.mutex);
  const auto found = std::find_if(p.members.begin(), p.members.end(),
                                  [&](const Member& member) { return member.pe.get() == handle; });
  if (handle != nullptr && found == p.members.end()) return false;
  self.bound_id = handle != nullptr ? found->id : 0;
  look_up(p);
  return true;
}

void set_init_error(const Error& error) {
  init_error = std::make_unique<gshmemx_fault_t>();
  init_error->code = error.code();
  init_error->pe = -1;
  std::strncpy(init_error->message, error.what(), sizeof(init_error->message) - 1);
}

bool get_init_error(gshmemx_fault_t* info) {
  if (!init_error) return false;
  *info = *init_error;
  return true;
}

}  // namespace gshmem

extern "C" {

gshmem::device::Ambient* gshmemi_ambient(void) {
  gshmem::device::Ambient& ambient = gshmem::self.ambient;
  if (!ambient.lane) (void)gshmem::current_pe();  // the lanes of a launch have been given theirs
  return &ambient;
}

void gshmemi_host_fault(const gshmem::abi::DeviceState* state) {
  if (gshmem::Pe* pe = gshmem::pe_of_state(state)) pe->end_job();
  std::abort();
}

__attribute__((visibility("default"))) void gshmemi_register_upload(gshmemi_upload_t upload) {
  gshmem::Process& p = gshmem::process();
  const std::lock_guard lock(p.mutex);
  p.uploads.push_back(upload);
  for (const gshmem::Member& member : p.members) {
    if (gshmem::Gpu* gpu = member.pe->gpu()) {
      gshmem::upload(upload, *gpu, gshmem::state_for(p, gpu->device()));
    }
  }
}

__attribute__((visibility("default"))) void gshmemi_unregister_upload(gshmemi_upload_t upload) {
  gshmem::Process& p = gshmem::process();
  const std::lock_guard lock(p.mutex);
  std::erase(p.uploads, upload);
}

}  // extern "C"
