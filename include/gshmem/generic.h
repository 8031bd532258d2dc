// OpenSHMEM's names without a type (1.5, C11 generic selection): gshmem_put(dest, source, nelems,
// pe) is gshmem_T_put for the T that `dest` points to, and gshmem_put(ctx, dest, source, nelems,
// pe) is the same on a context. generic.def lists them all; functions.def documents them. Another
// type does not compile.
//
// In C they are macros, which gshmem.h includes. In C++ they are objects whose calls are overloads
// of the C functions: include this header. They are for host code; kernels have gshmem.hpp.
#pragma once

#if defined(__CUDACC__)
#error "gshmem/generic.h is for C and C++ units; with nvcc there is gshmem/gshmem.hpp"
#endif

#include "gshmem.h"

#include <gshmem/generic_names.h>

// M(NAME, T, ...) for each C type that has sum and product.
#define GSHMEM_TYPES_SUM(M, ...)              \
  GSHMEM_TYPES_NUM(M, __VA_ARGS__)            \
  M(complexf, gshmem_complexf_t, __VA_ARGS__) \
  M(complexd, gshmem_complexd_t, __VA_ARGS__)

#if !defined(__cplusplus)

#define GSHMEM_GENERIC_CASE(NAME, T, BEFORE, AFTER) , T : BEFORE##NAME##AFTER
// Selects the function for the type of *POINTER. The first case has no type; it is there for the
// commas.
#define GSHMEM_GENERIC_OF(TYPES, BEFORE, AFTER, POINTER) \
  _Generic(*(POINTER), void (*)(void) : 0 TYPES(GSHMEM_GENERIC_CASE, BEFORE, AFTER))
#define GSHMEM_GENERIC_FIRST(TYPES, OP, POINTER, ...) GSHMEM_GENERIC_OF(TYPES, gshmem_, OP, POINTER)
#define GSHMEM_GENERIC_SECOND(TYPES, OP, TEAM, POINTER, ...) \
  GSHMEM_GENERIC_OF(TYPES, gshmem_, OP, POINTER)
#define GSHMEM_GENERIC_CONTEXT(TYPES, OP, CTX, POINTER, ...) \
  GSHMEM_GENERIC_OF(TYPES, gshmem_ctx_, OP, POINTER)
// The one of two macros that stands after COUNT arguments and a context, or after COUNT arguments.
#define GSHMEM_GENERIC_2(a, b, c, OF, ...) OF
#define GSHMEM_GENERIC_3(a, b, c, d, OF, ...) OF
#define GSHMEM_GENERIC_4(a, b, c, d, e, OF, ...) OF
#define GSHMEM_GENERIC_5(a, b, c, d, e, f, OF, ...) OF
#define GSHMEM_GENERIC_6(a, b, c, d, e, f, g, OF, ...) OF
#define GSHMEM_GENERIC_7(a, b, c, d, e, f, g, h, OF, ...) OF

#define GSHMEM_GENERIC_CTX(COUNT, TYPES, OP, ...)                                      \
  GSHMEM_GENERIC_##COUNT(__VA_ARGS__, GSHMEM_GENERIC_CONTEXT, GSHMEM_GENERIC_FIRST, )( \
      TYPES, OP, __VA_ARGS__)(__VA_ARGS__)
#define GSHMEM_GENERIC_NONE(COUNT, TYPES, OP, ...) \
  GSHMEM_GENERIC_FIRST(TYPES, OP, __VA_ARGS__)(__VA_ARGS__)
#define GSHMEM_GENERIC_TEAM(COUNT, TYPES, OP, ...) \
  GSHMEM_GENERIC_SECOND(TYPES, OP, __VA_ARGS__)(__VA_ARGS__)

#else

namespace gshmem::generic {

/// The C function, as a base of the object that is called by types.
template <auto kFunction>
struct Typed;
template <class Result, class... Arguments, Result (*kFunction)(Arguments...)>
struct Typed<kFunction> {
  Result operator()(Arguments... arguments) const { return kFunction(arguments...); }
};
/// It is there for the commas.
struct None {
  void operator()(None) const = delete;
};
template <class... Each>
struct Overloads : Each... {
  using Each::operator()...;
};

}  // namespace gshmem::generic

#define GSHMEM_GENERIC_TYPED(NAME, T, BEFORE, AFTER) \
  , ::gshmem::generic::Typed<&BEFORE##NAME##AFTER>
#define GSHMEM_GENERIC_NONE(TYPES, OP)
#define GSHMEM_GENERIC_TEAM(TYPES, OP)
#define GSHMEM_GENERIC_CTX(TYPES, OP) TYPES(GSHMEM_GENERIC_TYPED, gshmem_ctx_, _##OP)
#define GSHMEM_GENERIC(FIRST, TYPES, COUNT, OP)                                                \
  inline constexpr ::gshmem::generic::Overloads< ::gshmem::generic::None GSHMEM_TYPES_##TYPES( \
      GSHMEM_GENERIC_TYPED, gshmem_, _##OP) GSHMEM_GENERIC_##FIRST(GSHMEM_TYPES_##TYPES, OP)>  \
      gshmem_##OP{};
#include "generic.def"
#undef GSHMEM_GENERIC_CTX
#undef GSHMEM_GENERIC_TEAM
#undef GSHMEM_GENERIC_NONE
#undef GSHMEM_GENERIC_TYPED

#endif
