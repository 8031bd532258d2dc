// What this process holds: its PEs, which of them a host thread belongs to, and the translation
// units whose kernels need a device state. The library's ambient state; everything else is a
// parameter.
#pragma once

#include "host/runtime/pe.h"

#include <memory>
#include <mutex>
#include <string>

namespace gshmem {

/// The calling thread's PE: the one it is bound to, else the only PE of the process; null = none.
[[nodiscard]] Pe* current_pe() noexcept;
/// The calling thread's PE. Errors: GSHMEMX_ERROR_NOT_INITIALIZED with the text of no_pe_text.
[[nodiscard]] Pe& require_pe(const char* call);
/// Why `call` finds no PE on the calling thread.
[[nodiscard]] std::string no_pe_text(const char* call);

/// What this process was forked from.
struct ForkedFrom {
  int pe = -1;  ///< the forking thread's, or the first of its process; -1 = of none
  bool on_gpu = false;
};
[[nodiscard]] ForkedFrom process_forked_from() noexcept;

/// Units with kernels have registered.
[[nodiscard]] bool process_has_kernels() noexcept;
/// Init was called by NVSHMEM's name (gshmemi_by_nvshmem).
[[nodiscard]] bool process_is_by_nvshmem() noexcept;

/// The PE that `state` is of, or of a context of it; null when it is none of this process.
[[nodiscard]] Pe* pe_of_state(const abi::DeviceState* state) noexcept;

enum class Ownership { kProcess, kThread };
/// In init, or when that fails: gives the state of `pe` to the kernels of this process, or (with
/// magic 0) takes it back. Errors: GSHMEMX_ERROR_NOT_SUPPORTED when a unit was compiled with other
/// headers, GSHMEMX_ERROR_CUDA.
void process_tell_kernels(Pe& pe);
/// Makes `pe`, which kernels know, findable. kProcess: all threads that are bound to nothing belong
/// to it, as long as it is the only PE.
void process_add(std::unique_ptr<Pe> pe, Ownership ownership);
/// Held by a thread from the question whether the process has a PE until it has made it.
[[nodiscard]] std::unique_lock<std::mutex> process_founding();
/// Counts one more init of the calling thread's PE. False = it has none.
[[nodiscard]] bool process_init_again();
/// Answers one init of the calling thread's PE. The last takes it out, and kernels trap with a
/// message from then on. Null = none, or others still use it.
[[nodiscard]] std::unique_ptr<Pe> process_take_current();
/// The process ends, and its PEs have left their jobs: calls do nothing.
[[nodiscard]] bool process_departed() noexcept;
/// Binds the calling thread to the PE `handle` (null: to none), until that is taken out, by
/// whatever thread. False when it is no PE of this process.
[[nodiscard]] bool process_bind_thread(const void* handle);

/// Why init failed last on this thread, for gshmemx_last_fault. `info` stays as it is if none did.
void set_init_error(const Error& error);
void get_init_error(gshmemx_fault_t* info);

}  // namespace gshmem
