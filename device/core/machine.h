// The machine: what differs between a GPU and a CPU, and nothing else. Memory accesses with a named
// order, fences, atomics, time, pause, trap. Everything above is written once for both. Here is
// what they share; all raw PTX of the device library is in machine_gpu.h, what stands for it on the
// CPU in machine_cpu.h.
//
// Orders. Scope is the system: partners are other GPUs, other processes or the host. A release
// makes everything the calling thread has observed visible to a thread that acquires the stored
// value: its own accesses, and those of threads it has synchronized with (PTX ISA, "Memory
// Consistency Model"; C++17 [atomics.order] on the CPU).
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#if defined(__CUDACC__)
#define GSHMEM_FN __host__ __device__ inline
// Functions of the calling translation unit: with -rdc=true, ptxas fits only such to the registers
// of the kernels that call them. It refuses a kernel with fewer registers than any other has.
#define GSHMEM_OUTLINE static __host__ __device__ __noinline__ inline
#else
#define GSHMEM_FN inline
#define GSHMEM_OUTLINE [[gnu::noinline]] inline
#endif

// Stands before a loop of a slow path, which would cost callers registers when unrolled.
#if defined(__CUDA_ARCH__)
#define GSHMEM_NO_UNROLL _Pragma("unroll 1")
#else
#define GSHMEM_NO_UNROLL
#endif

namespace gshmem::device {

/// 16 bytes moved by one access.
struct alignas(16) Word16 {
  std::uint32_t x, y, z, w;
};

/// By halves of 8 bytes.
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

/// Same bytes, other type.
template <class To, class From>
GSHMEM_FN To bits(const From& from) {
  static_assert(sizeof(To) == sizeof(From));
  To to;
  memcpy(static_cast<void*>(&to), static_cast<const void*>(&from), sizeof(To));
  return to;
}

/// Number of the highest bit that is set; one is.
GSHMEM_FN std::uint32_t highest_bit(std::uint32_t bits) {
#if defined(__CUDA_ARCH__)
  return 31u - static_cast<std::uint32_t>(__clz(static_cast<int>(bits)));
#else
  return 31u - static_cast<std::uint32_t>(__builtin_clz(bits));
#endif
}

}  // namespace gshmem::device

#if defined(__CUDA_ARCH__)
#include "machine_gpu.h"
#elif defined(GSHMEM_MACHINE)  // a CPU whose memory is that of a test (tests/model)
#include GSHMEM_MACHINE
#else
#include "machine_cpu.h"
#endif
