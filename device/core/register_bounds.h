// Bounds the registers of kernels in relocatable code (-rdc=true, -dc). There ptxas compiles a
// function without the kernels that call it. The function may then take any number of registers,
// unless a kernel of its unit that calls it has a bound. nvlink gives every kernel as many
// registers as the functions that it calls take. A kernel with one put would have 92 registers, and
// one with a reduction 148: a block of 1024 threads could not be launched. Therefore this file
// defines kernels that are never launched. They call the out-of-line functions, and have a bound.
// tests/device/registers checks linked code.
//
// This file has the kernels for functions of the C API and for those that few programs call; each
// is instantiated where the function is called. Those of the C++ API are in
// register_bound_kernels.h.
//
// GSHMEM_FIT_REGISTERS=0 omits them. It is for units without kernels of their own, since these
// kernels take 3 seconds to compile. It is also for builds in which nvcc does not optimize (-G,
// which this file detects itself; --Ofast-compile). In such builds more functions stay out of line,
// and ptxas cannot limit them to a bound.
#pragma once

#ifndef GSHMEM_FIT_REGISTERS
#if defined(__CUDACC_DEBUG__)
#define GSHMEM_FIT_REGISTERS 0
#else
#define GSHMEM_FIT_REGISTERS 1
#endif
#endif

#if defined(__CUDACC_RDC__) && GSHMEM_FIT_REGISTERS

#include "machine.h"

#include <type_traits>

namespace gshmem::device {

/// Calls kCall(group, arguments...), where the arguments point to memory whose contents the
/// compiler does not know. The bound is 64 registers: a block of 1024 threads on an SM with 65,536.
template <auto kCall, class Coop, class Argument, class... More>
static __global__ void __launch_bounds__(1024)
    fit_call(const Argument* argument, long long* result, More... more) {
  *result = static_cast<long long>(kCall(Coop{}, *argument, more...));
}

GSHMEM_FN constexpr bool has_part(const char* text, const char* part) {
  for (; *text != '\0'; ++text) {
    int i = 0;
    while (part[i] != '\0' && text[i] == part[i]) ++i;
    if (part[i] == '\0') return true;
  }
  return false;
}
/// Returns the registers for a function of the C API and the functions that it calls: 40 for waits,
/// 48 for most. Copies by one thread or warp get 64, because they keep many words in flight
/// (GSHMEM_COPY_DEPTH). Collectives get 0: they use GSHMEM_FIT instead.
GSHMEM_FN constexpr int registers_for(const char* name) {
  for (const char* part : {"_reduce", "scan", "collect", "alltoall", "broadcast"})
    if (has_part(name, part)) return 0;
  if (has_part(name, "wait_until")) return 40;
  for (const char* part : {"_block", "iput", "iget", "_ctx_", "_qp_"})
    if (has_part(name, part)) return 48;
  return has_part(name, "put") || has_part(name, "get") ? 64 : 48;
}
/// Calls the function with arguments whose values the compiler does not know.
template <auto kFunction, int kRegisters, class Result, class... Arguments>
static __global__ void __launch_bounds__(kRegisters == 40   ? 768
                                         : kRegisters == 48 ? 640
                                                            : 1024,
                                         kRegisters == 64 ? 1 : 2)
    fit_function(Result* result, Arguments... arguments) {
  if constexpr (std::is_void_v<Result>) {
    kFunction(arguments...);
  } else {
    *result = kFunction(arguments...);
  }
}
/// It is for device code alone: if host code of a unit names kernels, nvlink keeps only these.
template <auto kFunction, int kRegisters, class Result, class... Arguments>
__device__ inline void fit(Result (*)(Arguments...)) {
  if constexpr (kRegisters != 0)
    static_cast<void>(&fit_function<kFunction, kRegisters, Result, Arguments...>);
}

}  // namespace gshmem::device

#endif

/// GSHMEM_FIT(&call<Coop>, Coop, Argument, More...) goes where the call is made. The host does not
/// use it: if host code names some kernels of a unit, nvlink drops those that it does not name.
/// GSHMEM_FIT_FUNCTION(NAME) goes into a function of the C API. With GSHMEM_PLAIN_FUNCTIONS neither
/// does: a unit would compile such kernels for all functions, and collectives have no bound.
#if defined(__CUDACC_RDC__) && GSHMEM_FIT_REGISTERS && defined(__CUDA_ARCH__) && \
    !(defined(GSHMEM_PLAIN_FUNCTIONS) && GSHMEM_PLAIN_FUNCTIONS)
#define GSHMEM_FIT(...) static_cast<void>(&::gshmem::device::fit_call<__VA_ARGS__>)
#define GSHMEM_FIT_FUNCTION(NAME) \
  ::gshmem::device::fit<&NAME<0>, ::gshmem::device::registers_for(GSHMEM_TEXT(NAME))>(&NAME<0>)
#else
#define GSHMEM_FIT(...) static_cast<void>(0)
#define GSHMEM_FIT_FUNCTION(NAME) static_cast<void>(0)
#endif
