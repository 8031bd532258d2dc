// The differences between a GPU and a CPU, and nothing else: memory accesses with a named order,
// fences, atomics, time, pause and trap. All other code is written once for both. This file has the
// part that both share. All raw PTX of the device library is in machine_gpu.h, and the equivalent
// for the CPU in machine_cpu.h.
//
// The scope of an order is the system unless its name says otherwise, since the partners are other
// GPUs, other processes or the host. A release makes accesses visible to a thread that acquires the
// stored value: the accesses of the calling thread, and those of threads with which it has
// synchronized (PTX ISA, "Memory Consistency Model"; C++17 [atomics.order] on the CPU).
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#if defined(__CUDACC__)
#define GSHMEM_FN __host__ __device__ inline
// Marks functions that are local to the calling translation unit. With -rdc=true, ptxas limits only
// such functions to the registers of the kernels that call them. It refuses a kernel with fewer
// registers than any other function that the kernel calls.
#define GSHMEM_OUTLINE static __host__ __device__ __noinline__ inline
// Marks functions that have to be inlined even where the compiler is set to save compile time.
#define GSHMEM_INLINE __host__ __device__ __forceinline__
#else
#define GSHMEM_FN inline
#define GSHMEM_OUTLINE [[gnu::noinline]] inline
#define GSHMEM_INLINE inline
#endif

// Marks a loop of a slow path. Unrolled, the loop would cost the callers registers.
#if defined(__CUDA_ARCH__)
#define GSHMEM_NO_UNROLL _Pragma("unroll 1")
#define GSHMEM_UNROLL _Pragma("unroll")
#else
#define GSHMEM_NO_UNROLL
#define GSHMEM_UNROLL
#endif

namespace gshmem::device {

/// 16 bytes that one access moves.
struct alignas(16) Word16 {
  std::uint32_t x, y, z, w;
};

/// Splits a Word16 into, or makes it from, halves of 8 bytes.
GSHMEM_FN std::uint64_t low_of(Word16 word) { return std::uint64_t{word.y} << 32 | word.x; }
GSHMEM_FN std::uint64_t high_of(Word16 word) { return std::uint64_t{word.w} << 32 | word.z; }
GSHMEM_FN Word16 word16(std::uint64_t low, std::uint64_t high) {
  return {static_cast<std::uint32_t>(low), static_cast<std::uint32_t>(low >> 32),
          static_cast<std::uint32_t>(high), static_cast<std::uint32_t>(high >> 32)};
}

/// The unsigned integer of `kBytes` bytes.
template <std::size_t kBytes>
struct WordOf;
template <>
struct WordOf<1> {
  using type = std::uint8_t;
};
template <>
struct WordOf<2> {
  using type = std::uint16_t;
};
template <>
struct WordOf<4> {
  using type = std::uint32_t;
};
template <>
struct WordOf<8> {
  using type = std::uint64_t;
};
template <>
struct WordOf<16> {
  using type = Word16;
};
template <class T>
using Word = typename WordOf<sizeof(T)>::type;

/// Reinterprets the bytes as another type.
template <class To, class From>
GSHMEM_FN To bits(const From& from) {
  static_assert(sizeof(To) == sizeof(From));
  To to;
  memcpy(static_cast<void*>(&to), static_cast<const void*>(&from), sizeof(To));
  return to;
}

/// Two words that one load reads, from an address that is a multiple of 16. The compiler
/// understands this load: it replaces loads from a constant state by constants.
struct TwoWords {
  std::uint64_t first, second;
};
GSHMEM_FN TwoWords load_two(const void* p) {
#if defined(__CUDA_ARCH__)
  const ulonglong2 words = *static_cast<const ulonglong2*>(p);
  return {words.x, words.y};
#else
  TwoWords words;
  std::memcpy(&words, p, sizeof(words));
  return words;
#endif
}

/// Returns the number of the highest bit that is set; at least one must be set.
GSHMEM_FN std::uint32_t highest_bit(std::uint32_t bits) {
#if defined(__CUDA_ARCH__)
  return 31u - static_cast<std::uint32_t>(__clz(static_cast<int>(bits)));
#else
  return 31u - static_cast<std::uint32_t>(__builtin_clz(bits));
#endif
}
/// Returns the number of the lowest bit that is set; at least one must be set.
GSHMEM_FN std::uint32_t lowest_bit_number(std::uint32_t bits) {
  return highest_bit(bits & (0u - bits));
}

}  // namespace gshmem::device

#if defined(__CUDA_ARCH__)
#include "machine_gpu.h"
#elif defined(GSHMEM_MACHINE)  // a CPU with the simulated memory of a test (tests/model)
#include GSHMEM_MACHINE
#else
#include "machine_cpu.h"
#endif
