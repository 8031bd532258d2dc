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
  GSHMEM_FN std::size_t most() const { return PTRDIFF_MAX / size; }  // no object is larger
};

/// Records that `value` of `argument` violates `rule`, whose parameter is `limit`. Returns false.
GSHMEM_OUTLINE bool bad_argument(const State& state, const char* call, const char* argument,
                                 abi::Rule rule, std::uint64_t value, std::uint64_t limit = 0) {
  const int pe = rule == abi::Rule::kPe ? static_cast<int>(value) : -1;
  FaultInfo info{GSHMEMX_ERROR_INVALID_VALUE, call, argument, value, limit, pe};
  info.rule = rule;
  fault(state, info);
  return false;
}
GSHMEM_FN std::uint64_t as_value(int number) {
  return static_cast<std::uint64_t>(static_cast<std::int64_t>(number));
}
GSHMEM_FN std::uint64_t as_value(const void* p) { return reinterpret_cast<std::uintptr_t>(p); }

// The kinds of arguments. Each defines which values are valid, and records the first invalid one.

struct ToPe {
  int pe;
  GSHMEM_FN bool good(const State& state, const char* call) const {
    if (pe >= 0 && pe < state.n_pes) return true;
    return bad_argument(state, call, "pe", abi::Rule::kPe, as_value(pe),
                        as_value(static_cast<int>(state.n_pes)));
  }
};

/// Memory that is accessed by words of `alignment` bytes. With no elements any address is valid.
struct Memory {
  const char* name;
  const void* p;
  Elements n;
  std::size_t alignment = 1;
  GSHMEM_FN bool is_fit(const State& state, const char* call) const {
    if (n.count > n.most())
      return bad_argument(state, call, "nelems", abi::Rule::kOverflow, n.count, n.most());
    if (n.count == 0 || as_value(p) % alignment == 0) return true;
    return bad_argument(state, call, name, abi::Rule::kAligned, as_value(p), alignment);
  }
};
struct Symmetric : Memory {
  GSHMEM_FN bool good(const State& state, const char* call) const {
    if (n.count == 0) return true;
    if (!is_fit(state, call)) return false;
    if (!is_symmetric(state, p, n.bytes()))
      return bad_argument(state, call, name, abi::Rule::kSymmetric, as_value(p), n.bytes());
#if !defined(__CUDA_ARCH__)
    if (HostChecks* checks = gshmemi_ambient()->checks)
      return checks->is_one_allocation(state, call, name, p, n.bytes());
#endif
    return true;
  }
};
/// Any memory of the caller: only null can be detected as invalid.
struct Local : Memory {
  GSHMEM_FN bool good(const State& state, const char* call) const {
    if (n.count != 0 && !p)
      return bad_argument(state, call, name, abi::Rule::kNotNull, 0, n.bytes());
    return is_fit(state, call);
  }
};
/// Memory that may be null.
struct Optional : Memory {
  GSHMEM_FN bool good(const State& state, const char* call) const { return is_fit(state, call); }
};
/// An object of a type that the caller has named.
template <class T>
GSHMEM_FN Symmetric element(const char* name, const T* p) {
  return {{name, p, {1, sizeof(T)}, alignof(T)}};
}
/// A word that is updated, waited for or read as a whole.
template <class T>
GSHMEM_FN Symmetric word(const char* name, const T* p) {
  return {{name, p, {1, sizeof(T)}, sizeof(T)}};
}

/// A side of a strided transfer, from its first to its last element: Side is Symmetric or Local. It
/// has `n` elements for each of `parts`, or `n` blocks of `block` elements.
template <class Side>
struct Strided {
  const char *name, *stride_name;
  const void* p;
  std::ptrdiff_t stride;
  Elements n;
  std::size_t parts = 1, block = 1;
  const char* count_name = "nelems";
  GSHMEM_FN bool good(const State& state, const char* call) const {
    if (n.count == 0 || block == 0) return true;
    const std::size_t step = static_cast<std::size_t>(stride);
    if (stride < 1 || step < block) {
      return bad_argument(state, call, stride_name, abi::Rule::kStride,
                          static_cast<std::uint64_t>(stride), block);
    }
    const std::size_t most = n.most() / step / parts;
    if (n.count > most)
      return bad_argument(state, call, count_name, abi::Rule::kOverflow, n.count, most);
    return Side{{name, p, {(n.count * parts - 1) * step + block, n.size}}}.good(state, call);
  }
};

struct SignalOp {
  int op;
  GSHMEM_FN bool good(const State& state, const char* call) const {
    if (op == GSHMEM_SIGNAL_SET || op == GSHMEM_SIGNAL_ADD) return true;
    return bad_argument(state, call, "sig_op", abi::Rule::kSignalOp, as_value(op));
  }
};

struct Comparison {
  int cmp;
  GSHMEM_FN bool good(const State& state, const char* call) const {
    if (cmp >= GSHMEM_CMP_EQ && cmp <= GSHMEM_CMP_GE) return true;
    return bad_argument(state, call, "cmp", abi::Rule::kCmp, as_value(cmp));
  }
};

/// A signal word outside of the payload (OpenSHMEM 1.5, section 9.8). Both are symmetric.
struct Apart {
  const std::uint64_t* sig_addr;
  const void* dest;
  Elements n;
  GSHMEM_FN bool good(const State& state, const char* call) const {
    const std::uint64_t at = as_value(sig_addr), first = as_value(dest);
    if (at + sizeof(*sig_addr) <= first || at >= first + n.bytes() || n.count == 0) return true;
    return bad_argument(state, call, "sig_addr", abi::Rule::kApart, at, first);
  }
};

/// Are all arguments valid? They are checked in order.
template <class... Arguments>
GSHMEM_FN bool check_arguments([[maybe_unused]] const State& state,
                               [[maybe_unused]] const char* call, const Arguments&... arguments) {
  if constexpr (kChecks) {
    return (arguments.good(state, call) && ...);
  } else {
    return ((static_cast<void>(arguments), true) && ...);
  }
}

}  // namespace gshmem::device
