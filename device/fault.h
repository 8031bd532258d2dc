// Faults in device code: record the first one where the host can read it, then trap or return,
// as GSHMEM_FAULT says. Everything here is out of line: it costs callers one predictable branch.
#pragma once

#include <gshmem/abi/fault.h>
#include <gshmem/abi/state.h>
#include <gshmem/status.h>

#include "host_group.h"
#include "machine.h"

#include <cstdio>

namespace gshmem::device {

using State = abi::DeviceState;

/// What went wrong, for fault(): everything but who and where.
struct FaultInfo {
  gshmemx_status code;
  const char* call;
  const char* argument;
  std::uint64_t value = 0;
  std::uint64_t limit = 0;
  int pe = -1;
  std::uint32_t queue = 0, wqe_index = 0, opcode = 0, syndrome = 0;  ///< network path
};

GSHMEM_FN void copy_text(char* to, const char* from, int capacity) {
  GSHMEM_NO_UNROLL
  for (; *from != '\0' && capacity > 1; --capacity) *to++ = *from++;
  *to = '\0';
}

/// A fault is on record: ends the kernel or process under FaultPolicy::kAbort, else returns.
GSHMEM_OUTLINE void stop_here(const State& state) {
  if (state.fault_policy != abi::FaultPolicy::kAbort) return;
#if defined(__CUDA_ARCH__)
  fence_system();  // the record must outlive the trap
  trap();
#else
  gshmemi_host_fault(&state);
#endif
}

/// Records `info` unless an earlier fault is there, and stops every wait of this PE. The record is
/// complete before `published` is seen (pairs with host/runtime/fault.cpp). Threads: any.
GSHMEM_OUTLINE void fault(const State& state, const FaultInfo& info) {
  abi::FaultRecord& record = state.control->fault;
  if (atomic_compare_swap(&record.claimed, 0u, 1u) == 0u) {
    record.code = info.code;
    record.pe = info.pe;
    record.value = info.value;
    record.limit = info.limit;
    record.queue = info.queue;
    record.wqe_index = info.wqe_index;
    record.opcode = info.opcode;
    record.syndrome = info.syndrome;
    copy_text(record.call, info.call, sizeof(record.call));
    copy_text(record.argument, info.argument, sizeof(record.argument));
    fence_system();
    store_flag(&record.published, 1u);
  }
  store_flag(&state.control->stop, 1u);
  stop_here(state);
}

/// A call that found no initialized PE. There is no record to write to.
GSHMEM_OUTLINE void bad_state(const char* call, std::uint32_t magic) {
  if (magic == abi::kStateAmbiguous) {
    printf(
        "gshmem: %s: two PEs of this process share this GPU, so a plain kernel cannot know its PE; "
        "use gshmem::launch or one PE per GPU\n",
        call);
  } else {
    printf(
        "gshmem: %s: the library is not initialized (call it between gshmem_init and "
        "gshmem_finalize)\n",
        call);
  }
#if !defined(__CUDA_ARCH__)
  fflush(stdout);
#endif
  trap();
}

}  // namespace gshmem::device
