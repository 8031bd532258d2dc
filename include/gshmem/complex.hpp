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

/// Is C a complex number of two Reals? Units of C++14 compile this, too.
template <class C, class Real, class = void>
struct IsComplexOf : std::false_type {};
template <>
struct IsComplexOf<FloatOfC, float> : std::true_type {};
template <>
struct IsComplexOf<DoubleOfC, double> : std::true_type {};
template <class C, class Real>
struct IsComplexOf<C, Real,
                   std::enable_if_t<std::is_same<typename C::value_type, Real>::value &&
                                    sizeof(std::declval<const C&>().real()) == sizeof(Real) &&
                                    sizeof(std::declval<const C&>().imag()) == sizeof(Real)>>
    : std::integral_constant<bool, sizeof(C) == 2 * sizeof(Real)> {};

/// A pointer to `Own`, the library's type of such numbers, or to const ones.
template <class Own, class Real>
struct ComplexPointer {
  Own* at;
  ComplexPointer() = default;
  GSHMEM_COMPLEX_FN constexpr ComplexPointer(Own* p) : at(p) {}
  template <class C, std::enable_if_t<IsComplexOf<std::remove_const_t<C>, Real>::value &&
                                          (std::is_const<Own>::value || !std::is_const<C>::value),
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
