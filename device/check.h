// Argument checks of the API: always on the host and in CPU mode, on GPUs when compiled with
// GSHMEM_DEVICE_CHECKS=1. A failed check is a fault that names call, argument and value; the call
// then has no effect.
#pragma once

#include <gshmem/constants.h>

#include "p2p.h"

#ifndef GSHMEM_DEVICE_CHECKS
#define GSHMEM_DEVICE_CHECKS 0
#endif

namespace gshmem::device {

#if defined(__CUDA_ARCH__)
inline constexpr bool kChecks = GSHMEM_DEVICE_CHECKS != 0;
#else
inline constexpr bool kChecks = true;
#endif

/// `count` elements of `size` bytes.
struct Elements {
  std::size_t count, size;
  GSHMEM_FN std::size_t bytes() const { return count * size; }
};

GSHMEM_FN bool check_pe(const State& state, const char* call, int pe) {
  if (!kChecks || (pe >= 0 && pe < state.n_pes)) return true;
  fault(state, {GSHMEMX_ERROR_INVALID_VALUE, call, "pe", static_cast<std::uint64_t>(pe),
                static_cast<std::uint64_t>(state.n_pes), pe});
  return false;
}

GSHMEM_FN bool check_count(const State& state, const char* call, Elements n) {
  if (!kChecks || n.count <= SIZE_MAX / n.size) return true;
  fault(state, {GSHMEMX_ERROR_INVALID_VALUE, call, "nelems", n.count, SIZE_MAX / n.size});
  return false;
}

GSHMEM_FN bool check_symmetric(const State& state, const char* call, const char* argument,
                               const void* p, std::size_t bytes) {
  if (!kChecks || bytes == 0 || is_symmetric(state, p, bytes)) return true;
  fault(state,
        {GSHMEMX_ERROR_INVALID_VALUE, call, argument, reinterpret_cast<std::uintptr_t>(p), bytes});
  return false;
}

/// The remote side of a transfer: PE, element count and symmetric object.
GSHMEM_FN bool check_remote(const State& state, const char* call, const char* argument,
                            const void* p, Elements n, int pe) {
  return check_pe(state, call, pe) && check_count(state, call, n) &&
         check_symmetric(state, call, argument, p, n.bytes());
}

GSHMEM_FN bool check_stride(const State& state, const char* call, const char* argument,
                            std::ptrdiff_t stride) {
  if (!kChecks || stride >= 1) return true;
  fault(state,
        {GSHMEMX_ERROR_INVALID_VALUE, call, argument, static_cast<std::uint64_t>(stride), 1});
  return false;
}

/// The remote side of a strided transfer, whose stride is good: the bytes from the first to the
/// last element.
GSHMEM_FN bool check_strided(const State& state, const char* call, const char* argument,
                             const void* p, std::ptrdiff_t stride, Elements n) {
  if (!kChecks || n.count == 0) return true;
  const std::size_t step = static_cast<std::size_t>(stride);
  if (n.count > SIZE_MAX / n.size / step) {
    fault(state, {GSHMEMX_ERROR_INVALID_VALUE, call, "nelems", n.count, SIZE_MAX / n.size / step});
    return false;
  }
  return check_symmetric(state, call, argument, p, ((n.count - 1) * step + 1) * n.size);
}

GSHMEM_FN bool check_signal_op(const State& state, const char* call, int op) {
  if (!kChecks || op == GSHMEM_SIGNAL_SET || op == GSHMEM_SIGNAL_ADD) return true;
  fault(state, {GSHMEMX_ERROR_INVALID_VALUE, call, "sig_op", static_cast<std::uint64_t>(op),
                GSHMEM_SIGNAL_ADD});
  return false;
}

GSHMEM_FN bool check_cmp(const State& state, const char* call, int cmp) {
  if (!kChecks || (cmp >= GSHMEM_CMP_EQ && cmp <= GSHMEM_CMP_GE)) return true;
  fault(state,
        {GSHMEMX_ERROR_INVALID_VALUE, call, "cmp", static_cast<std::uint64_t>(cmp), GSHMEM_CMP_GE});
  return false;
}

}  // namespace gshmem::device
