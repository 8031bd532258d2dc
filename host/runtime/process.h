// The state of this process: its PEs, which of them a host thread belongs to, and the translation
// units whose kernels need a device state. This is the library's ambient state; everything else is
// a parameter.
#pragma once

#include <gshmem/device/core/registrar.h>

#include "host/runtime/pe.h"

#include <memory>
#include <mutex>
#include <string>

namespace gshmem {

/// Returns the calling thread's PE: the one it is bound to, or the only PE of the process; null =
/// none.
[[nodiscard]] Pe* current_pe() noexcept;
/// Returns the calling thread's PE. Errors: GSHMEMX_ERROR_NOT_INITIALIZED with the text of
/// no_pe_text.
[[nodiscard]] Pe& require_pe(const char* call);
/// Returns why `call` finds no PE on the calling thread.
[[nodiscard]] std::string no_pe_text(const char* call);

/// Describes the process from which this one was forked.
struct ForkedFrom {
  int pe = -1;  ///< the forking thread's PE, or the first of its process; -1 = it had none
  bool on_gpu = false;
};
[[nodiscard]] ForkedFrom process_forked_from() noexcept;

/// Have units with kernels registered?
[[nodiscard]] bool process_has_kernels() noexcept;
/// The CUDA runtime that knows the kernel `func`, of the units that have registered; null = none.
[[nodiscard]] const gshmemi_cuda* process_cuda_of(const void* func);
/// Has a unit been compiled with -DGSHMEM_CHECK_ORDER (gshmemi_note_calls)?
[[nodiscard]] bool process_notes_calls() noexcept;
/// Was init called by NVSHMEM's name (gshmemi_by_nvshmem)?
[[nodiscard]] bool process_is_by_nvshmem() noexcept;

/// Returns the PE that `state`, or a context with that state, belongs to; null when it is none of
/// this process.
[[nodiscard]] Pe* pe_of_state(const abi::DeviceState* state) noexcept;

enum class Ownership { kProcess, kThread };
/// Called in init, or when init fails: uploads the state of `pe` to the kernels of this process, or
/// (with magic 0) removes it. Errors: GSHMEMX_ERROR_NOT_SUPPORTED when a unit was compiled with
/// other headers, GSHMEMX_ERROR_CUDA.
void process_publish_state(Pe& pe);
/// Makes `pe`, which kernels know, available to host threads. kProcess: all threads that are bound
/// to no PE belong to it, as long as it is the only PE.
void process_add(std::unique_ptr<Pe> pe, Ownership ownership);
/// A thread holds this lock from checking whether the process has a PE until it has created it.
[[nodiscard]] std::unique_lock<std::mutex> process_founding();
/// Counts one more init of the calling thread's PE. False = it has none.
[[nodiscard]] bool process_init_again();
/// Ends one init of the calling thread's PE. The last call removes the PE and returns it, and
/// kernels trap with a message from then on. Null = there is no PE, or others still use it.
[[nodiscard]] std::unique_ptr<Pe> process_take_current();
/// Is the process ending, and have its PEs left their jobs? Then calls do nothing.
[[nodiscard]] bool process_departed() noexcept;
/// Binds the calling thread to the PE `handle` (null: to none), until any thread removes that PE.
/// False when it is not a PE of this process.
[[nodiscard]] bool process_bind_thread(const void* handle);

/// Stores why init failed last on this thread, for gshmemx_last_fault. `info` is not changed if
/// none did.
void set_init_error(const Error& error);
void get_init_error(gshmemx_fault_t* info);

}  // namespace gshmem
