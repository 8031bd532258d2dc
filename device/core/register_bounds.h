// Registers of kernels in relocatable code (-rdc=true, -dc). ptxas compiles a function there
// without the kernels that call it: the function takes as many registers as it likes, unless a
// kernel of its unit that calls it has a bound. nvlink then gives every kernel as many registers as
// what it calls has: with one put a kernel would have 92, with a reduction 148, and no block of
// 1024 threads could be launched. So there are kernels that nobody launches. They call what is out
// of line, and have a bound. Checked on linked code by tests/device/registers.
//
// Here are those of what few programs call, each made where it is called. Those of all the rest are
// in fit_kernels.h.
//
// GSHMEM_FIT_REGISTERS=0 leaves them out: for units without kernels of their own, since they take 3
// seconds to compile, and where nvcc does not optimize (-G, which says so itself; --Ofast-compile).
// There functions stay out of line that ptxas cannot fit to a bound.
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

/// Calls kCall(group, arguments...), where what the arguments point to is in memory: the compiler
/// knows nothing about it. 64 registers: a block of 1024 threads on an SM of 65,536.
template <auto kCall, class Coop, class Argument, class... More>
static __global__ void __launch_bounds__(1024)
    fit_call(const Argument* argument, long long* result, More... more) {
  *result = static_cast<long long>(kCall(Coop{}, *argument, more...));
}

}  // namespace gshmem::device

#endif

/// GSHMEM_FIT(&call<Coop>, Coop, Argument, More...), where the call is made. Not by the host:
/// nvlink drops kernels of a unit that its host code does not name where it names some.
#if defined(__CUDACC_RDC__) && GSHMEM_FIT_REGISTERS && defined(__CUDA_ARCH__)
#define GSHMEM_FIT(...) static_cast<void>(&::gshmem::device::fit_call<__VA_ARGS__>)
#else
#define GSHMEM_FIT(...) static_cast<void>(0)
#endif
