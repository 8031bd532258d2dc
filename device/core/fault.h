// Faults in device code. A fault is recorded where the host can read it, unless there is an earlier
// one; then the code traps or returns, as GSHMEM_FAULT says. All of it is out of line: callers pay
// for one branch, which is predictable.
#pragma once

#include <gshmem/abi/fault.h>
#include <gshmem/abi/state.h>
#include <gshmem/status.h>

#include "host_block.h"
#include "machine.h"

#include <cstdio>

namespace gshmem::device {

using State = abi::DeviceState;

/// The arguments of fault(): everything but the PE and the position in the grid.
struct FaultInfo {
  gshmemx_status code;
  const char* call;
  const char* argument;
  std::uint64_t value = 0;
  std::uint64_t limit = 0;
  int pe = -1;
  std::uint32_t queue = 0, wqe_index = 0, opcode = 0, syndrome = 0;  ///< for the network path
  abi::Rule rule = abi::Rule::kNone;  ///< the rule of device/pe/check.h that was violated
};

GSHMEM_FN void copy_text(char* to, const char* from, int capacity) {
  GSHMEM_NO_UNROLL
  for (; *from != '\0' && capacity > 1; --capacity) *to++ = *from++;
  *to = '\0';
}

/// Runs after a fault was recorded: ends the kernel or process with FaultPolicy::kAbort, and
/// otherwise returns.
GSHMEM_OUTLINE void stop_here(const State& state) {
  if (state.fault_policy != abi::FaultPolicy::kAbort) return;
#if defined(__CUDA_ARCH__)
  store_flag(&state.control->returned, 0u);
  fence_system();  // the record must outlive the trap
  trap();
#else
  gshmemi_host_fault(&state);
#endif
}

/// How a fault is reported: it ends the job with FaultPolicy::kAbort, or the caller receives its
/// code.
enum class ReportBy : std::uint32_t { kByPolicy, kByStatus };

/// Records `info` unless an earlier fault is recorded, and stops every wait of this PE. The record
/// is complete before `published` is set (pairs with host/runtime/fault.cpp). Threads: any.
GSHMEM_FN void record_fault(const State& state, const FaultInfo& info, ReportBy report_by) {
  abi::FaultRecord& record = state.control->fault;
  if (load_relaxed(&state.control->host_fault.claimed) == 0u &&
      atomic_compare_swap(&record.claimed, 0u, 1u) == 0u) {
    if (report_by == ReportBy::kByStatus) store_flag(&state.control->returned, 1u);
    record.code = info.code;
    record.pe = info.pe;
    record.value = info.value;
    record.limit = info.limit;
    record.queue = info.queue;
    record.wqe_index = info.wqe_index;
    record.opcode = info.opcode;
    record.syndrome = info.syndrome;
    record.rule = info.rule;
    copy_text(record.call, info.call, sizeof(record.call));
    copy_text(record.argument, info.argument, sizeof(record.argument));
    fence_system();
    store_flag(&record.published, 1u);
  }
  store_flag(&state.control->stop, 1u);
}

/// Reports a fault in a call without a status.
GSHMEM_OUTLINE void fault(const State& state, const FaultInfo& info) {
  record_fault(state, info, ReportBy::kByPolicy);
  stop_here(state);
}

/// Records a fault that the caller reports by a status.
GSHMEM_OUTLINE void note_fault(const State& state, const FaultInfo& info) {
  record_fault(state, info, ReportBy::kByStatus);
}

/// Returns the code of the recorded fault of a stopped PE. It waits for the record, because the
/// thread that records it may not have published it yet.
GSHMEM_OUTLINE int fault_code(const State& state) {
  const abi::Control& control = *state.control;
  constexpr unsigned kPolls = 1u << 24;  // reached only if the recording thread was killed
  GSHMEM_NO_UNROLL
  for (unsigned polls = 1; polls < kPolls; ++polls) {
    if (load_acquire(&control.fault.published) != 0) return control.fault.code;
    if (load_acquire(&control.host_fault.published) != 0) return control.host_fault.code;
    pause(polls % 64);  // does not sleep
  }
  return GSHMEMX_ERROR_INTERNAL;
}

/// Reports a call that found no PE. In kernels it traps without a text unless arguments are
/// checked. A kernel that can reach printf is slower at every fence, including those of the program
/// (ptxas of CUDA 13.0 emits four loads and a fence of the block before each).
GSHMEM_OUTLINE void bad_state(const char* call, [[maybe_unused]] const State* state) {
  constexpr const char* kNoInit =
      "the library is not initialized (call it between gshmem_init and gshmem_finalize)";
#if defined(__CUDA_ARCH__)
  if (state->magic == abi::kStateAmbiguous) {
    FaultInfo info{GSHMEMX_ERROR_INVALID_VALUE, call, ""};
    info.rule = abi::Rule::kOnePe;
    record_fault(*state, info, ReportBy::kByPolicy);
    fence_system();  // the record must outlive the trap
    trap();
  }
#if defined(GSHMEM_DEVICE_CHECKS) && GSHMEM_DEVICE_CHECKS
  printf("gshmem[-] ERROR: %s: %s\n", call, kNoInit);
#else
  (void)kNoInit;
#endif
#else
  const char* const why = gshmemi_ambient()->why_none;
  printf("gshmem[-] ERROR: %s: %s\n", call, why != nullptr ? why : kNoInit);
  fflush(stdout);
#endif
  trap();
}

}  // namespace gshmem::device
