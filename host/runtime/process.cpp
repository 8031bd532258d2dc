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
};

struct Process {
  std::mutex mutex;
  std::vector<Member> members;
  std::vector<gshmemi_upload_t> uploads;
  Pe* only = nullptr;                        ///< the PE of threads that are bound to none
  std::atomic<std::uint64_t> generation{1};  ///< changes with `only`; invalidates cached ambients
};

/// Never destroyed: translation units unregister while the process ends.
Process& process() {
  static auto* instance = new Process;
  return *instance;
}

thread_local device::Ambient ambient;
thread_local Pe* bound_pe = nullptr;
thread_local Pe* cached_pe = nullptr;
thread_local std::uint64_t cached_generation = 0;
thread_local std::unique_ptr<gshmemx_fault_t> init_error;

void set_ambient(Pe* pe) {
  ambient.state = pe ? &pe->state() : nullptr;
  ambient.ops = pe ? pe->ops() : nullptr;
  log_set_pe(pe ? pe->state().my_pe : -1);
}

/// With the mutex held.
void update_only(Process& p) {
  const bool single = p.members.size() == 1 && p.members[0].ownership == Ownership::kProcess;
  p.only = single ? p.members[0].pe.get() : nullptr;
  p.generation.fetch_add(1, std::memory_order_release);
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

}  // namespace

Pe* current_pe() noexcept {
  if (bound_pe) return bound_pe;
  Process& p = process();
  const std::uint64_t generation = p.generation.load(std::memory_order_acquire);
  if (cached_generation != generation) {
    const std::lock_guard lock(p.mutex);
    cached_pe = p.only;
    cached_generation = p.generation.load(std::memory_order_relaxed);
    set_ambient(cached_pe);
  }
  return cached_pe;
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
  Pe* added = pe.get();
  {
    const std::lock_guard lock(p.mutex);
    p.members.push_back({std::move(pe), ownership});
    update_only(p);
    if (added->gpu()) upload_all(p, *added->gpu());
  }
  process_bind_thread(added);
}

std::unique_ptr<Pe> process_take_current() {
  Pe* pe = current_pe();
  Process& p = process();
  std::unique_ptr<Pe> taken;
  {
    const std::lock_guard lock(p.mutex);
    const auto found = std::find_if(p.members.begin(), p.members.end(),
                                    [&](const Member& member) { return member.pe.get() == pe; });
    if (found == p.members.end()) return nullptr;
    taken = std::move(found->pe);
    p.members.erase(found);
    update_only(p);
    if (taken->gpu()) upload_all(p, *taken->gpu());
  }
  process_bind_thread(nullptr);
  return taken;
}

void process_bind_thread(Pe* pe) {
  bound_pe = pe;
  ambient.bound = pe != nullptr;
  cached_generation = 0;
  set_ambient(pe);
}

bool process_has(const void* handle) noexcept {
  Process& p = process();
  const std::lock_guard lock(p.mutex);
  return std::any_of(p.members.begin(), p.members.end(),
                     [&](const Member& member) { return member.pe.get() == handle; });
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
  if (!gshmem::ambient.bound) (void)gshmem::current_pe();
  return &gshmem::ambient;
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
