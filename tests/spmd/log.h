// The code that tests of tests/spmd use inside kernels: the log that collects failures there,
// patterns and random numbers. Included by spmd.h and by functors of every test; it is GPU and CPU
// code. Invariant: the log is in the PE's own symmetric heap, so that a kernel can write and the
// host can read it in both modes.
#pragma once

#include <gshmem/gshmem.hpp>

namespace gshmem::spmd {

/// Bits of any value of up to 8 bytes, as failures show them.
template <class T>
GSHMEM_FN std::uint64_t raw(const T& value) {
  return static_cast<std::uint64_t>(device::bits<device::Word<T>>(value));
}

/// Returns a number that every type of the table represents exactly.
template <class T>
GSHMEM_FN T numeric(float value) {
  if constexpr (std::is_arithmetic_v<T>) {
    return static_cast<T>(value);
  } else {
    T narrow{};
    device::narrow(value, narrow);
    return narrow;
  }
}

/// One failed check of a kernel; `tag` is chosen by the test (an index, a type's number).
struct LogEntry {
  std::uint64_t actual, expected, tag;
  std::uint32_t line, thread;
};

struct LogArea {
  static constexpr std::uint32_t kEntries = 16;
  std::uint32_t count;  ///< number of failures, including those for which there was no space
  std::uint32_t reserved;
  LogEntry entries[kEntries];
};

/// Takes failures of device code. Threads: any.
struct Log {
  LogArea* area;

  template <class T>
  GSHMEM_FN void equal(int line, T actual, std::type_identity_t<T> expected,
                       std::uint64_t tag = 0) const {
    if (raw(actual) != raw(expected)) add(line, raw(actual), raw(expected), tag);
  }
  GSHMEM_FN void add(int line, std::uint64_t actual, std::uint64_t expected,
                     std::uint64_t tag) const {
    const std::uint32_t at = device::atomic_fetch_add(&area->count, 1u);
    if (at >= LogArea::kEntries) return;
    area->entries[at] = {actual, expected, tag, static_cast<std::uint32_t>(line),
                         static_cast<std::uint32_t>(Block{}.thread_rank())};
  }
};

/// This is splitmix64: it mixes a 64-bit value.
GSHMEM_FN std::uint64_t mix(std::uint64_t x) {
  x += 0x9e3779b97f4a7c15u;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}
GSHMEM_FN std::uint64_t mix(std::uint64_t a, std::uint64_t b) { return mix(mix(a) ^ b); }

/// Sequence of random numbers, the same on every PE for the same seed.
struct Random {
  std::uint64_t state;
  GSHMEM_FN std::uint64_t next() { return mix(state++); }
  /// 0 .. bound-1
  GSHMEM_FN std::uint64_t below(std::uint64_t bound) { return next() % bound; }
};

/// Returns byte `i` of the data for `seed`.
GSHMEM_FN std::uint8_t pattern(std::uint64_t seed, std::size_t i) {
  return static_cast<std::uint8_t>(mix(seed, i / 8) >> (8 * (i % 8)));
}

/// The caller of a function in a kernel.
enum class Scope { kThread, kWarp, kBlock };

/// The groups of a launch share work: group `index` of `count` takes every count-th part.
struct Share {
  int index, count;
  bool first_thread;  ///< of its group; it makes the calls of one thread
};

GSHMEM_FN Share share_of(const LaunchContext& ctx, Scope scope) {
  const int size = ctx.block_size(), rank = ctx.thread_rank();
  switch (scope) {
    case Scope::kThread:
      return {ctx.block_rank() * size + rank, ctx.grid_size() * size, true};
    case Scope::kWarp: {
      // Only full warps count: ctx.warp().size() is smaller in the last warp of an odd block.
      const int warp = ctx.warp().size();
      return {ctx.block_rank() * (size / warp) + rank / warp, ctx.grid_size() * (size / warp),
              ctx.warp().thread_rank() == 0};
    }
    case Scope::kBlock:
      break;
  }
  return {ctx.block_rank(), ctx.grid_size(), rank == 0};
}

/// Calls `work(group)` with the group object that `scope` means.
template <class Work>
GSHMEM_FN void with_group(const LaunchContext& ctx, Scope scope, const Work& work) {
  switch (scope) {
    case Scope::kThread:
      return work(ctx.thread());
    case Scope::kWarp:
      return work(ctx.warp());
    case Scope::kBlock:
      return work(ctx.block());
  }
}

}  // namespace gshmem::spmd

/// Checks for equality in a kernel (`where` = the Log) or on the host (`where` = the Pe). It
/// reports line, PE, values and an optional tag, and continues, because the PEs must stay in step.
#define SPMD_EQ(where, ...) (where).equal(__LINE__, __VA_ARGS__)
#define SPMD_CHECK(where, condition) (where).equal(__LINE__, static_cast<bool>(condition), true)
