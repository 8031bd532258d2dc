// The ambient device state: the only way for device code to find its PE without a parameter.
// Internal functions take `const State&`; only the C API (device/api/api.h) calls ambient_state().
//
// Without -rdc each translation unit owns a private __constant__ copy with a fixed name. A static
// registrar passes the library a function that writes it (device/core/registrar.h). With -rdc the
// copies would clash, so there is one weak definition for the program.
#pragma once

#include <gshmem/abi/state.h>

#include "fault.h"
#include "machine.h"

#if defined(__CUDACC__)
#if defined(__CUDACC_RDC__)
inline __constant__ __align__(32) gshmem::abi::StateSymbol gshmemi_device_state;
#else
extern "C" {
static __constant__ __align__(32) gshmem::abi::StateSymbol gshmemi_device_state;
}
#endif
#endif

namespace gshmem::device {

/// Returns the state of the PE that the calling thread belongs to. A call before init traps. So
/// does a call after finalize, or from a plain kernel on a GPU that two PEs of the process share.
GSHMEM_FN const State& ambient_state(const char* call) {
#if defined(__CUDA_ARCH__)
  const State& state = *reinterpret_cast<const State*>(gshmemi_device_state.state);
  if (state.magic != abi::kStateMagic) bad_state(call, &state);
  return state;
#else
  const State* state = gshmemi_ambient()->state;
  if (!state) bad_state(call, nullptr);
  return *state;
#endif
}

}  // namespace gshmem::device
