// Bounds the registers of kernels in relocatable code (-rdc=true, -dc). There ptxas compiles a
// function without the kernels that call it. The function takes as many registers as it likes,
// unless a kernel of its unit that calls it has a bound. nvlink then gives every kernel as many
// registers as the functions that it calls have. With one put a kernel would have 92, with a
// reduction 148, and a block of 1024 threads could not be launched. Therefore this file defines
// kernels that are never launched. They call the out-of-line functions, and have a bound.
// tests/device/registers checks linked code.
//
// This file has the kernels for functions that few programs call; each is instantiated where the
// function is called. Those for all other functions are in register_bound_kernels.h.
//
// GSHMEM_FIT_REGISTERS=0 leaves them out. It is for units without kernels of their own, since these
// kernels take 3 seconds to compile, and for builds where nvcc does not optimize (-G, which it
// detects itself; --Ofast-compile). There functions stay out of line that ptxas cannot limit to a
// bound.
#pragma once

#ifndef GSHMEM_FIT_REGISTERS
#if defined(__CUDACC_DEBUG__)
#define GSHMEM_FIT_REGISTERS 0
#else
#define GSHMEM_FIT_REGISTERS 1
#endif
#endif

#if defined(__CUDACC_RDC__) && GSHMEM_FIT_REGISTERS

namespace gshmem::device {

/// Calls kCall(group, arguments...), where the arguments point to memory whose contents the
/// compiler does not know. The bound is 64 registers: a block of 1024 threads on an SM with 65,536.
template <auto kCall, class Coop, class Argument, class... More>
static __global__ void __launch_bounds__(1024)
    fit_call(const Argument* argument, long long* result, More... more) {
  *result = static_cast<long long>(kCall(Coop{}, *argument, more...));
}

}  // namespace gshmem::device

#endif

/// GSHMEM_FIT(&call<Coop>, Coop, Argument, More...) goes where the call is made. The host does not
/// use it: if host code names some kernels of a unit, nvlink drops those that it does not name.
#if defined(__CUDACC_RDC__) && GSHMEM_FIT_REGISTERS && defined(__CUDA_ARCH__)
#define GSHMEM_FIT(...) static_cast<void>(&::gshmem::device::fit_call<__VA_ARGS__>)
#else
#define GSHMEM_FIT(...) static_cast<void>(0)
#endif
