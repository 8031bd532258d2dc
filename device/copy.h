// Copying bytes by a group of threads between two places that are both mapped here: 16-byte
// accesses where the alignment of source and destination agree, the widest common word otherwise,
// several loads in flight per thread. No ordering: whoever calls decides what completes when.
//
// Depth (loads in flight per thread) was chosen on 2 H200s over NVLink: one load costs 0.15 us from
// local L2 and 0.88 us from a peer, so one thread or warp needs many in flight to keep the wire
// busy (one thread, 4 KiB put+quiet / get: 12.8 / 60 us with 4, 5.2 / 16 with 16, 4.9 / 13.7 with
// 20), while a block of 1024 has enough threads with 4, and may not use more than 64 registers.
// GSHMEM_COPY_DEPTH, a multiple of 4, lowers the former for kernels that are short of registers.
#pragma once

#include "coop.h"
#include "machine.h"

#include <type_traits>

#ifndef GSHMEM_COPY_DEPTH
#define GSHMEM_COPY_DEPTH 20
#endif

namespace gshmem::device {

/// Where the source lies. A peer's memory must not come from this SM's L1 cache, which no peer's
/// store invalidates: a program may get the same words again and again until they change.
enum class Source { kLocal, kPeer };

/// How words are read: cached, or past the L1 cache. Only a block gains from the former (16 MiB
/// put: 369 against 399 us); threads and warps always use the latter, so that put and get share
/// their code.
enum class Read { kCached, kFresh };
template <class Coop, Source kSource>
inline constexpr Read kCopyRead =
    std::is_same_v<Coop, Block>&& kSource == Source::kLocal ? Read::kCached : Read::kFresh;

#if defined(__CUDA_ARCH__)

/// How a group copies: loads in flight per thread, and its number of threads (0 = known at run
/// time only).
template <class Coop>
struct CopyShape;
template <>
struct CopyShape<Thread> {
  static constexpr int depth = GSHMEM_COPY_DEPTH, width = 1;
};
template <>
struct CopyShape<LeanThread> {
  static constexpr int depth = GSHMEM_COPY_DEPTH < 4 ? GSHMEM_COPY_DEPTH : 4, width = 1;
};
template <>
struct CopyShape<Warp> {
  static constexpr int depth = GSHMEM_COPY_DEPTH, width = 32;
};
template <>
struct CopyShape<Block> {
  static constexpr int depth = 4, width = 0;
};

template <Read kRead, class W>
GSHMEM_FN W copy_load(const W* p) {
  if constexpr (kRead == Read::kFresh) {
    return load_relaxed(p);
  } else {
    return load_bulk(p);
  }
}

/// The next word of this thread, `step` bytes on. A step known to the compiler becomes an offset in
/// the instruction.
template <int kWidth, class W>
GSHMEM_FN W* next_word(W* p, std::uint32_t step) {
  if constexpr (kWidth > 0) {
    return p + kWidth;
  } else {
    return advance(p, step);
  }
}

/// The first `left / step` words, rounded up, kMost at most: all loads, then all stores, so that a
/// short copy costs one latency. (Nested because the registers of an array whose words are loaded
/// under a condition stay taken for the whole kernel: 64 instead of 48 in tests/device/registers.)
template <int kMost, Read kRead, int kWidth, class W>
GSHMEM_FN void copy_rest(W* dst, const W* src, int left, std::uint32_t step) {
  if constexpr (kMost > 0) {
    if (left <= 0) return;
    const W word = copy_load<kRead>(src);
    copy_rest<kMost - 1, kRead, kWidth>(next_word<kWidth>(dst, step), next_word<kWidth>(src, step),
                                        left - static_cast<int>(step), step);
    store_bulk(dst, word);
  }
}

/// The words of one thread: every `step` bytes one, as long as they begin within `left` bytes.
/// kDepth loads are in flight. More than four are kept in groups of four: as soon as the oldest
/// group has been stored its registers take the next loads. (Warp, 256 KiB put: 11.1 us; loading 16
/// and then storing 16: 15.6.)
template <class Shape, Read kRead, class W>
GSHMEM_OUTLINE void copy_words(W* dst, const W* src, std::ptrdiff_t left, std::uint32_t step) {
  constexpr int kDepth = Shape::depth, kWidth = Shape::width;
  constexpr int kGroup = kDepth < 4 ? kDepth : 4;
  constexpr int kGroups = kDepth / kGroup;
  static_assert(kGroup * kGroups == kDepth, "GSHMEM_COPY_DEPTH: 1 to 4, or a multiple of 4");
  const int round = static_cast<int>(step) * kDepth;
  const int last = static_cast<int>(step) * (kDepth - 1);
  W word[kGroups][kGroup];
  const auto load = [&](int g) {
#pragma unroll
    for (int k = 0; k < kGroup; ++k) {
      word[g][k] = copy_load<kRead>(src);
      src = next_word<kWidth>(src, step);
    }
  };
  const auto store = [&](int g) {
#pragma unroll
    for (int k = 0; k < kGroup; ++k) {
      store_bulk(dst, word[g][k]);
      dst = next_word<kWidth>(dst, step);
    }
  };
  left -= last;  // > 0: a whole round is there
  if constexpr (kGroups == 1) {
#pragma unroll 1
    for (; left > 0; left -= round) {
      load(0);
      store(0);
    }
  } else if (left > 0) {
#pragma unroll
    for (int g = 0; g < kGroups; ++g) load(g);
#pragma unroll 1
    while ((left -= round) > 0) {
#pragma unroll
      for (int g = 0; g < kGroups; ++g) {
        store(g);
        load(g);
      }
    }
#pragma unroll
    for (int g = 0; g < kGroups; ++g) store(g);
  }
  copy_rest<kDepth - 1, kRead, kWidth>(dst, src, static_cast<int>(left) + last, step);
}

template <Read kRead, class W>
GSHMEM_FN void copy_word(char* dst, const char* src) {
  store_bulk(reinterpret_cast<W*>(dst), copy_load<kRead>(reinterpret_cast<const W*>(src)));
}

/// Fewer than 16 bytes by one thread, where `dst` and `src` agree modulo the word of the copy:
/// naturally aligned words, the largest that fit at each step.
template <Read kRead>
GSHMEM_OUTLINE void copy_edge(char* dst, const char* src, int bytes) {
#pragma unroll 1
  while (bytes > 0) {
    const int at = static_cast<int>(reinterpret_cast<std::uintptr_t>(dst));
    int step = 1;
    if (at % 8 == 0 && bytes >= 8) {
      copy_word<kRead, std::uint64_t>(dst, src);
      step = 8;
    } else if (at % 4 == 0 && bytes >= 4) {
      copy_word<kRead, std::uint32_t>(dst, src);
      step = 4;
    } else if (at % 2 == 0 && bytes >= 2) {
      copy_word<kRead, std::uint16_t>(dst, src);
      step = 2;
    } else {
      copy_word<kRead, std::uint8_t>(dst, src);
    }
    dst += step;
    src += step;
    bytes -= step;
  }
}

inline constexpr std::size_t kLineBytes = 128;
/// Below this, a round more costs a block more than broken lines do.
inline constexpr std::size_t kLineCopyBytes = 64 * 1024;

/// Copies the bytes before the first and after the last whole word, then the words between.
/// `dst` and `src` agree modulo sizeof(W).
template <class Shape, Read kRead, class W>
GSHMEM_FN void copy_aligned(char* dst, const char* src, std::size_t bytes, int rank, int width) {
  const std::size_t misaligned = reinterpret_cast<std::uintptr_t>(dst) % sizeof(W);
  std::size_t head = misaligned ? sizeof(W) - misaligned : 0;
  if (head > bytes) head = bytes;
  const std::size_t tail_begin = bytes - (bytes - head) % sizeof(W);
  const std::size_t tail = bytes - tail_begin;
  if constexpr (Shape::width == 1) {
    copy_edge<kRead>(dst, src, static_cast<int>(head));
    copy_edge<kRead>(dst + tail_begin, src + tail_begin, static_cast<int>(tail));
  } else {  // fewer bytes than most groups have threads
#pragma unroll 1
    for (int e = rank; e < static_cast<int>(head + tail); e += width) {
      const std::size_t at =
          e < static_cast<int>(head) ? static_cast<std::size_t>(e) : tail_begin + (e - head);
      copy_word<kRead, std::uint8_t>(dst + at, src + at);
    }
  }
  if constexpr (Shape::width == 0) {
    // A block's rounds begin at lines of the target: 9 blocks over NVLink write 318 GB/s from
    // slices that begin inside lines.
    if (bytes >= kLineCopyBytes) {
      const std::size_t to_line = -(reinterpret_cast<std::uintptr_t>(dst) + head) % kLineBytes;
      const std::size_t mine = static_cast<std::size_t>(rank) * sizeof(W);
      if (mine < to_line) copy_word<kRead, W>(dst + head + mine, src + head + mine);
      head += to_line;
    }
  }
  const std::size_t first = head + static_cast<std::size_t>(rank) * sizeof(W);
  copy_words<Shape, kRead>(
      reinterpret_cast<W*>(dst + first), reinterpret_cast<const W*>(src + first),
      static_cast<std::ptrdiff_t>(tail_begin) - static_cast<std::ptrdiff_t>(first),
      static_cast<std::uint32_t>(width) * static_cast<std::uint32_t>(sizeof(W)));
}

/// A copy of at most one 8-byte word per thread: what latency is made of.
template <Read kRead, class Coop>
GSHMEM_FN bool copy_small(Coop coop, void* dst, const void* src, std::size_t bytes) {
  const std::uintptr_t all =
      reinterpret_cast<std::uintptr_t>(dst) | reinterpret_cast<std::uintptr_t>(src) | bytes;
  if (all % 8 != 0 || bytes > 8 * static_cast<std::size_t>(coop.size())) return false;
  // An unsigned 32-bit offset: added to `src` where a signed index would want it in registers.
  const std::uint32_t at = static_cast<std::uint32_t>(coop.thread_rank()) * 8;
  if (at < static_cast<std::uint32_t>(bytes)) {
    copy_word<kRead, std::uint64_t>(static_cast<char*>(dst) + at,
                                    static_cast<const char*>(src) + at);
  }
  return true;
}
template <Read kRead, class Coop>
GSHMEM_OUTLINE void copy_on_gpu(Coop coop, char* dst, const char* src, std::size_t bytes) {
  using Shape = CopyShape<Coop>;
  if (std::is_same_v<Coop, Block> && copy_small<kRead>(coop, dst, src, bytes)) return;
  const int rank = coop.thread_rank(), width = coop.size();
  const std::uintptr_t differ =
      reinterpret_cast<std::uintptr_t>(dst) ^ reinterpret_cast<std::uintptr_t>(src);
  if (differ % 16 == 0) {
    copy_aligned<Shape, kRead, Word16>(dst, src, bytes, rank, width);
  } else if (differ % 8 == 0) {
    copy_aligned<Shape, kRead, std::uint64_t>(dst, src, bytes, rank, width);
  } else if (differ % 4 == 0) {
    copy_aligned<Shape, kRead, std::uint32_t>(dst, src, bytes, rank, width);
  } else {
    copy_aligned<Shape, kRead, std::uint8_t>(dst, src, bytes, rank, width);
  }
}

#endif

#if !defined(__CUDA_ARCH__)
/// Contiguous slices, one per thread. A single aligned word is stored as a flag, because programs
/// put flags that others wait for.
template <class Coop>
inline void copy_on_cpu(Coop coop, char* dst, const char* src, std::size_t bytes) {
  const std::size_t rank = static_cast<std::size_t>(coop.thread_rank());
  const std::size_t width = static_cast<std::size_t>(coop.size());
  const auto store_word = [&](auto word) {
    memcpy(&word, src, sizeof(word));
    store_flag(reinterpret_cast<decltype(word)*>(dst), word);
  };
  const std::uintptr_t at = reinterpret_cast<std::uintptr_t>(dst);
  if (bytes == 8 && at % 8 == 0) {
    if (rank == 0) store_word(std::uint64_t{});
  } else if (bytes == 4 && at % 4 == 0) {
    if (rank == 0) store_word(std::uint32_t{});
  } else {
    const std::size_t slice = (bytes / width + 63) / 64 * 64;
    const std::size_t first = slice * rank;
    const std::size_t begin =
        slice == 0 ? (rank == 0 ? 0 : bytes) : (first < bytes ? first : bytes);
    const std::size_t end =
        rank + 1 == width || slice == 0 ? bytes : (begin + slice < bytes ? begin + slice : bytes);
    if (begin < end) memcpy(dst + begin, src + begin, end - begin);
  }
}
#endif

/// Copies `bytes` bytes (0 is fine) from `src` to `dst`, which do not overlap unless they are
/// equal.
template <Source kSource, class Coop>
GSHMEM_FN void copy(Coop coop, void* dst, const void* src, std::size_t bytes) {
#if defined(__CUDA_ARCH__)
  // Not for blocks: their rank and size would be registers of the caller (48 instead of 40).
  if (!std::is_same_v<Coop, Block> && copy_small<kCopyRead<Coop, kSource>>(coop, dst, src, bytes))
    return;
  copy_on_gpu<kCopyRead<Coop, kSource>>(coop, static_cast<char*>(dst),
                                        static_cast<const char*>(src), bytes);
#else
  copy_on_cpu(coop, static_cast<char*>(dst), static_cast<const char*>(src), bytes);
#endif
}

}  // namespace gshmem::device
