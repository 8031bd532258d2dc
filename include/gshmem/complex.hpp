// How functions of reductions take complex numbers in C++: a pointer to gshmem_complexd_t, to C's
// double _Complex, to std::complex<double>, or to a class of that shape, such as cuda::std::complex
// or thrust::complex. All have a real and an imaginary part, in this order. In C it is a pointer to
// double _Complex, and a call is the same for the machine. Included by types.h.
#pragma once

#include <type_traits>
#include <utility>

#if defined(__CUDACC__)
#define GSHMEM_COMPLEX_FN __host__ __device__
#else
#define GSHMEM_COMPLEX_FN
#endif

namespace gshmem::detail {

__extension__ typedef float _Complex FloatOfC;
__extension__ typedef double _Complex DoubleOfC;

/// C is a complex number of two Reals.
template <class C, class Real, class = void>
inline constexpr bool kIsComplexOf = false;
template <>
inline constexpr bool kIsComplexOf<FloatOfC, float> = true;
template <>
inline constexpr bool kIsComplexOf<DoubleOfC, double> = true;
template <class C, class Real>
inline constexpr bool
    kIsComplexOf<C, Real,
                 std::void_t<typename C::value_type, decltype(std::declval<const C&>().real()),
                             decltype(std::declval<const C&>().imag())>> =
        std::is_same_v<typename C::value_type, Real> && sizeof(C) == 2 * sizeof(Real);

/// A pointer to `Own`, the library's type of such numbers, or to const ones.
template <class Own, class Real>
struct ComplexPointer {
  Own* at;
  ComplexPointer() = default;
  GSHMEM_COMPLEX_FN constexpr ComplexPointer(Own* p) : at(p) {}
  template <class C, std::enable_if_t<kIsComplexOf<std::remove_const_t<C>, Real> &&
                                          (std::is_const_v<Own> || !std::is_const_v<C>),
                                      int> = 0>
  GSHMEM_COMPLEX_FN ComplexPointer(C* p) : at(reinterpret_cast<Own*>(p)) {}
};

template <class Own, class Real>
GSHMEM_COMPLEX_FN Own* pointer_of(ComplexPointer<Own, Real> p) {
  return p.at;
}
template <class Own>
GSHMEM_COMPLEX_FN Own* pointer_of(Own* p) {
  return p;
}

}  // namespace gshmem::detail

#undef GSHMEM_COMPLEX_FN
