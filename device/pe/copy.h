// Copies bytes by a group of threads between two addresses that are both mapped here. It uses
// 16-byte accesses if the alignments of source and destination agree, otherwise the widest common
// word, with several loads in flight per thread. It orders nothing: the caller decides what
// completes when.
//
// The depth (loads in flight per thread) was chosen on 2 H200s over NVLink, where a load takes 0.15
// us from local L2 and 0.88 us from a peer. So one thread or warp needs many in flight to keep the
// link busy: one thread, 4 KiB put+quiet / get: 12.8 / 60 us with 4, 5.2 / 16 with 16, 4.9 / 13.7
// with 20. A block of 1024 has enough threads with 4, and may not use more than 64 registers. 64
// registers hold a depth of 8. GSHMEM_COPY_DEPTH, 1 to 4 or a multiple of 4, sets the depth of
// threads and warps: use 20 if bulk copies matter more.
#pragma once

#include "../core/coop.h"
#include "../core/machine.h"
#include "smem.h"

#include <type_traits>

#ifndef GSHMEM_COPY_DEPTH
#define GSHMEM_COPY_DEPTH 8
#endif

namespace gshmem::device {

/// Where the source is. A peer's memory must not be read from this SM's L1 cache, which no peer's
/// store invalidates: a program may poll the same words until they change.
enum class Source { kLocal, kPeer };

/// How words are read: cached, or past the L1 cache. Only a block gains from caching (16 MiB put:
/// 369 against 399 us); threads and warps always read past it, so that put and get share their
/// code.
enum class Read { kCached, kFresh };
template <class Coop, Source kSource>
inline constexpr Read kCopyRead =
    std::is_same_v<Coop, Block>&& kSource == Source::kLocal ? Read::kCached : Read::kFresh;

#if defined(__CUDA_ARCH__)

/// How a group copies: loads in flight per thread, and the number of threads (0 = known at run time
/// only). The last one is the size from which it checks whether its block has given shared memory
/// (0: never).
template <class Coop>
struct CopyShape;
template <>
struct CopyShape<Thread> {
  static constexpr int depth = GSHMEM_COPY_DEPTH, width = 1;
  static constexpr std::size_t smem_from = 1024;
};
inline constexpr int kLeanDepth = GSHMEM_COPY_DEPTH < 4 ? GSHMEM_COPY_DEPTH : 4;
template <>
struct CopyShape<LeanThread> {
  static constexpr int depth = kLeanDepth, width = 1;
  static constexpr std::size_t smem_from = 0;
};
template <>
struct CopyShape<LeanWarp> {
  static constexpr int depth = kLeanDepth, width = 32;
  static constexpr std::size_t smem_from = 0;
};
template <>
struct CopyShape<Warp> {
  static constexpr int depth = GSHMEM_COPY_DEPTH, width = 32;
  static constexpr std::size_t smem_from = 32 * 1024;
};
template <>
struct CopyShape<Block> {
  static constexpr int depth = 4, width = 0;
  static constexpr std::size_t smem_from = 64 * 1024;
};

template <Read kRead, class W>
GSHMEM_FN W copy_load(const W* p) {
  if constexpr (kRead == Read::kFresh) {
    return load_relaxed(p);
  } else {
    return load_bulk(p);
  }
}

/// Returns this thread's next word, `step` bytes further. A step known to the compiler becomes an
/// offset in the instruction.
template <int kWidth, class W>
GSHMEM_FN W* next_word(W* p, std::uint32_t step) {
  if constexpr (kWidth > 0) {
    return p + kWidth;
  } else {
    return advance(p, step);
  }
}

/// Copies the first `left / step` words, rounded up, kMost at most: all loads, then all stores, so
/// that a short copy costs one latency. (It is nested because the registers of an array whose words
/// are loaded under a condition stay allocated for the whole kernel, see tests/device/registers.)
template <int kMost, Read kRead, class W>
GSHMEM_FN void copy_rest(W* dst, const W* src, int left, std::uint32_t step) {
  if constexpr (kMost > 0) {
    if (left <= 0) return;
    const W word = copy_load<kRead>(src);
    copy_rest<kMost - 1, kRead>(advance(dst, step), advance(src, step),
                                left - static_cast<int>(step), step);
    store_bulk(dst, word);
  }
}

template <int kMost>
inline constexpr int kFloorOfTwo = kMost < 2 ? kMost : 2 * kFloorOfTwo<kMost / 2>;
template <>
inline constexpr int kFloorOfTwo<0> = 0;

/// Copies `count` words, at most kMost, and with `more` one word after them, by halving. It has a
/// branch per binary digit instead of one per word. (With one per word, a put of 512 B by one
/// thread, which ends with 12 words, takes 2.03 us.) `count` is the same in all lanes of a warp:
/// lanes that diverge here would wait for one latency each.
template <int kMost, Read kRead, int kWidth, class W>
GSHMEM_FN void copy_halves(W* dst, const W* src, int count, bool more) {
  if constexpr (kMost == 0) {
    if (more) store_bulk(dst, copy_load<kRead>(src));
  } else {
    constexpr int kHalf = kFloorOfTwo<kMost>;
    if (count >= kHalf) {
      W word[kHalf];
#pragma unroll
      for (int k = 0; k < kHalf; ++k) word[k] = copy_load<kRead>(src + k * kWidth);
      copy_halves<kMost - kHalf, kRead, kWidth>(dst + kHalf * kWidth, src + kHalf * kWidth,
                                                count - kHalf, more);
#pragma unroll
      for (int k = 0; k < kHalf; ++k) store_bulk(dst + k * kWidth, word[k]);
    } else {
      copy_halves<kHalf - 1, kRead, kWidth>(dst, src, count, more);
    }
  }
}

/// Copies the words of one thread: one every `step` bytes, as long as they begin within `left`
/// bytes. kDepth loads are in flight. More than four are kept in groups of four: when the oldest
/// group has been stored, its registers take the next loads. (Warp, 256 KiB put: 11.1 us; loading
/// 16 and then storing 16: 15.6.) The lanes of a warp execute the same number of whole rounds.
template <class Shape, Read kRead, class W>
GSHMEM_OUTLINE void copy_words(W* dst, const W* src, std::ptrdiff_t left, std::uint32_t step) {
  constexpr int kDepth = Shape::depth, kWidth = Shape::width;
  constexpr int kGroup = kDepth < 4 ? kDepth : 4;
  constexpr int kGroups = kDepth / kGroup;
  static_assert(kGroup * kGroups == kDepth, "GSHMEM_COPY_DEPTH: 1 to 4, or a multiple of 4");
  const int round = static_cast<int>(step) * kDepth;
  int lower = 0;  // bytes of this round that belong to other lanes, before this one's
  if constexpr (kWidth > 1) lower = Warp{}.thread_rank() * static_cast<int>(sizeof(W));
  // If more than this is left, a whole round is left: for all lanes of a warp, or for this thread
  // of a block.
  const int short_of_round = kWidth > 0 ? round - 1 - lower : static_cast<int>(step) * (kDepth - 1);
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
  left -= short_of_round;
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
  const int rest = static_cast<int>(left) + short_of_round;
  if constexpr (kWidth == 0) {
    copy_rest<kDepth - 1, kRead>(dst, src, rest, step);
  } else {
    constexpr unsigned kStep = kWidth * sizeof(W);
    const unsigned all = static_cast<unsigned>(rest + lower);  // the same in all lanes
    copy_halves<kDepth - 1, kRead, kWidth>(dst, src, static_cast<int>(all / kStep),
                                           all % kStep > static_cast<unsigned>(lower));
  }
}

template <Read kRead, class W>
GSHMEM_FN void copy_word(char* dst, const char* src) {
  store_bulk(reinterpret_cast<W*>(dst), copy_load<kRead>(reinterpret_cast<const W*>(src)));
}

/// Copies fewer than 16 bytes by one thread, where `dst` and `src` agree modulo the word of the
/// copy: naturally aligned words, the largest that fit at each step.
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

/// Returns the lowest bit that is set in `all`, which is not 0.
GSHMEM_FN std::uintptr_t lowest_bit(std::uintptr_t all) { return all & (~all + 1); }

/// The range of the whole words of a copy: bytes [begin, end) of it.
struct WholeWords {
  std::size_t begin, end;
};
GSHMEM_FN WholeWords whole_words(const char* dst, std::size_t bytes, std::size_t word) {
  std::size_t begin = -reinterpret_cast<std::uintptr_t>(dst) % word;
  if (begin > bytes) begin = bytes;
  return {begin, bytes - (bytes - begin) % word};
}

/// A copy that is not only words of 16 bytes. It is in memory, because it lives across a call.
struct Unaligned {
  char* dst;
  const char* src;
  std::size_t bytes;
};

/// Copies the bytes before the first and after the last whole word. Each thread of a group takes a
/// unit, the largest that can contain all elements of a put. An element of up to 8 bytes that is
/// aligned at both ends is never torn, because others may wait for it. `dst` and `src` agree modulo
/// `word`.
template <Read kRead, class Coop>
GSHMEM_OUTLINE void copy_edges(Coop coop, const Unaligned& copy, std::uint32_t word) {
  char* dst = copy.dst;
  const char* src = copy.src;
  const std::size_t bytes = copy.bytes;
  const WholeWords whole = whole_words(dst, bytes, word);
  const int head = static_cast<int>(whole.begin), tail = static_cast<int>(bytes - whole.end);
  if constexpr (CopyShape<Coop>::width == 1) {
    copy_edge<kRead>(dst, src, head);
    copy_edge<kRead>(dst + whole.end, src + whole.end, tail);
  } else {
    const int unit = static_cast<int>(lowest_bit(
        reinterpret_cast<std::uintptr_t>(dst) | reinterpret_cast<std::uintptr_t>(src) | bytes | 8));
#pragma unroll 1
    for (int at = coop.thread_rank() * unit; at < head + tail; at += coop.size() * unit) {
      const std::size_t offset = at < head ? at : whole.end + static_cast<std::size_t>(at - head);
      if (unit == 8) copy_word<kRead, std::uint64_t>(dst + offset, src + offset);
      if (unit == 4) copy_word<kRead, std::uint32_t>(dst + offset, src + offset);
      if (unit == 2) copy_word<kRead, std::uint16_t>(dst + offset, src + offset);
      if (unit == 1) copy_word<kRead, std::uint8_t>(dst + offset, src + offset);
    }
  }
}

inline constexpr std::size_t kLineBytes = 128;
/// Below this size, one more round costs a block more than unaligned cache lines do.
inline constexpr std::size_t kLineCopyBytes = 64 * 1024;

/// Copies the whole words. `dst` and `src` agree modulo sizeof(W).
template <class Shape, Read kRead, class W>
GSHMEM_FN void copy_aligned(char* dst, const char* src, std::size_t bytes, int rank, int width) {
  auto [begin, end] = whole_words(dst, bytes, sizeof(W));
  if constexpr (Shape::width == 0) {
    // A block's rounds begin at cache lines of the target: 9 blocks over NVLink write 318 GB/s from
    // slices that begin inside lines. One word per thread reaches the next line, if there are
    // enough threads.
    if (bytes >= kLineCopyBytes && width * sizeof(W) >= kLineBytes) {
      const std::size_t to_line = -(reinterpret_cast<std::uintptr_t>(dst) + begin) % kLineBytes;
      const std::size_t mine = static_cast<std::size_t>(rank) * sizeof(W);
      if (mine < to_line) copy_word<kRead, W>(dst + begin + mine, src + begin + mine);
      begin += to_line;
    }
  }
  const std::size_t first = begin + static_cast<std::size_t>(rank) * sizeof(W);
  copy_words<Shape, kRead>(reinterpret_cast<W*>(dst + first),
                           reinterpret_cast<const W*>(src + first),
                           static_cast<std::ptrdiff_t>(end) - static_cast<std::ptrdiff_t>(first),
                           static_cast<std::uint32_t>(width) * sizeof(W));
}

/// Copies at most one 8-byte word per thread: small copies are latency-bound.
template <Read kRead, class Coop>
GSHMEM_FN bool copy_small(Coop coop, void* dst, const void* src, std::size_t bytes) {
  const std::uintptr_t all =
      reinterpret_cast<std::uintptr_t>(dst) | reinterpret_cast<std::uintptr_t>(src) | bytes;
  if (all % 8 != 0 || bytes > 8 * static_cast<std::size_t>(coop.size())) return false;
  // The offset has unsigned 32 bits: it is added to `src`, where a signed index would take
  // registers.
  const std::uint32_t at = static_cast<std::uint32_t>(coop.thread_rank()) * 8;
  if (at < static_cast<std::uint32_t>(bytes)) {
    copy_word<kRead, std::uint64_t>(static_cast<char*>(dst) + at,
                                    static_cast<const char*>(src) + at);
  }
  return true;
}

/// Copies words of 16 bytes only, at most two per thread. Each instruction counts: a block of 1024
/// has 8 warps for each of the units that issue them. (Block, 32 KiB put, both PEs on one
/// H200: 1.68 us; by copy_words 1.88.)
template <Read kRead, class Coop>
GSHMEM_FN bool copy_two_words(Coop coop, char* dst, const char* src, std::size_t bytes) {
  const std::uintptr_t all =
      reinterpret_cast<std::uintptr_t>(dst) | reinterpret_cast<std::uintptr_t>(src) | bytes;
  if (all % sizeof(Word16) != 0) return false;
  const std::uint32_t step = static_cast<std::uint32_t>(coop.size()) * sizeof(Word16);
  if (bytes > 2 * step) return false;
  const std::uint32_t left = static_cast<std::uint32_t>(bytes);
  const std::uint32_t at = static_cast<std::uint32_t>(coop.thread_rank()) * sizeof(Word16);
  if (at >= left) return true;
  Word16* const to = reinterpret_cast<Word16*>(dst + at);
  const Word16* const from = reinterpret_cast<const Word16*>(src + at);
  // Both are loaded before either is stored: each load takes 0.9 us from a peer.
  if (at + step < left) {
    const Word16 first = copy_load<kRead>(from);
    const Word16 second = copy_load<kRead>(advance(from, step));
    store_bulk(to, first);
    store_bulk(advance(to, step), second);
  } else {
    store_bulk(to, copy_load<kRead>(from));
  }
  return true;
}

/// Most copies consist of words of 16 bytes only.
template <class Shape, Read kRead>
GSHMEM_FN void copy_all_words(char* dst, const char* src, std::size_t bytes, int rank, int width) {
  const std::size_t first = static_cast<std::size_t>(rank) * sizeof(Word16);
  copy_words<Shape, kRead>(reinterpret_cast<Word16*>(dst + first),
                           reinterpret_cast<const Word16*>(src + first),
                           static_cast<std::ptrdiff_t>(bytes - first),
                           static_cast<std::uint32_t>(width) * sizeof(Word16));
}

template <Read kRead, class Coop>
GSHMEM_OUTLINE void copy_on_gpu(Coop coop, char* dst, const char* src, std::size_t bytes) {
  using Shape = CopyShape<Coop>;
  if (std::is_same_v<Coop, Block> && copy_two_words<kRead>(coop, dst, src, bytes)) return;
  if (std::is_same_v<Coop, Block> && copy_small<kRead>(coop, dst, src, bytes)) return;
#if __CUDA_ARCH__ >= 900
  if constexpr (kHasEngine && Shape::smem_from != 0) {
    if (bytes >= Shape::smem_from) {
      const std::size_t done = copy_by_smem(coop, dst, src, bytes);
      dst += done, src += done, bytes -= done;
      if (bytes == 0) return;
    }
  }
#endif
  const std::uintptr_t to = reinterpret_cast<std::uintptr_t>(dst);
  const std::uintptr_t from = reinterpret_cast<std::uintptr_t>(src);
  if (((to | from | bytes) % sizeof(Word16)) == 0 &&
      (Shape::width != 0 || to % kLineBytes == 0 || bytes < kLineCopyBytes)) {
    copy_all_words<Shape, kRead>(dst, src, bytes, coop.thread_rank(), coop.size());
    return;
  }
  const auto word = static_cast<std::uint32_t>(lowest_bit((to ^ from) | sizeof(Word16)));
  Unaligned copy{dst, src, bytes};
  keep_in_memory(copy);
  copy_edges<kRead>(coop, copy, word);
  keep_in_memory(copy);
  dst = copy.dst, src = copy.src, bytes = copy.bytes;
  const int rank = coop.thread_rank(), width = coop.size();
  if (word == 16) {
    copy_aligned<Shape, kRead, Word16>(dst, src, bytes, rank, width);
  } else if (word == 8) {
    copy_aligned<Shape, kRead, std::uint64_t>(dst, src, bytes, rank, width);
  } else if (word == 4) {
    copy_aligned<Shape, kRead, std::uint32_t>(dst, src, bytes, rank, width);
  } else if (word == 2) {
    copy_aligned<Shape, kRead, std::uint16_t>(dst, src, bytes, rank, width);
  } else {
    copy_aligned<Shape, kRead, std::uint8_t>(dst, src, bytes, rank, width);
  }
}

#endif

#if !defined(__CUDA_ARCH__)
/// Stores `bytes` bytes in words W.
template <class W>
inline void store_flags(char* dst, const char* src, std::size_t bytes) {
  for (std::size_t at = 0; at < bytes; at += sizeof(W)) {
    W word;
    memcpy(&word, src + at, sizeof(W));
    store_flag(reinterpret_cast<W*>(dst + at), word);
  }
}
/// Copies contiguous slices, one per thread. A few aligned words are stored as flags, because
/// programs put flags for which other threads wait.
template <class Coop>
inline void copy_on_cpu(Coop coop, char* dst, const char* src, std::size_t bytes) {
  const std::size_t rank = static_cast<std::size_t>(coop.thread_rank());
  const std::size_t width = static_cast<std::size_t>(coop.size());
  const std::uintptr_t all = reinterpret_cast<std::uintptr_t>(dst) | bytes | 8;
  const std::uintptr_t unit = all & (~all + 1);
  if (bytes <= 64 && (unit != 1 || bytes == 1)) {
    if (rank != 0) return;
    // `unit` divides `bytes`. Compilers that do not see it warn about programs that copy less.
    if (unit == 8 && bytes >= 8) return store_flags<std::uint64_t>(dst, src, bytes);
    if (unit == 4 && bytes >= 4) return store_flags<std::uint32_t>(dst, src, bytes);
    if (unit == 2 && bytes >= 2) return store_flags<std::uint16_t>(dst, src, bytes);
    store_flags<std::uint8_t>(dst, src, bytes);
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

/// Copies `bytes` bytes (0 is allowed) from `src` to `dst`, which do not overlap unless they are
/// equal.
template <Source kSource, class Coop>
GSHMEM_FN void copy(Coop coop, void* dst, const void* src, std::size_t bytes) {
#if defined(__CUDA_ARCH__)
  // Blocks do not use it: their rank and size would take registers of the caller.
  if (!std::is_same_v<Coop, Block> && copy_small<kCopyRead<Coop, kSource>>(coop, dst, src, bytes))
    return;
  copy_on_gpu<kCopyRead<Coop, kSource>>(coop, static_cast<char*>(dst),
                                        static_cast<const char*>(src), bytes);
#else
  copy_on_cpu(coop, static_cast<char*>(dst), static_cast<const char*>(src), bytes);
#endif
}

}  // namespace gshmem::device
