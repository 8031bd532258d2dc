// Copying bytes by a group of threads between two places that are both mapped here: 16-byte
// accesses where the alignment of source and destination agree, the widest common word otherwise,
// several loads in flight per thread. No ordering: whoever calls decides what completes when.
//
// Depth (loads in flight per thread) was chosen on 2 H200s over NVLink: one load costs 0.15 us from
// local L2 and 0.88 us from a peer, so one thread or warp needs many in flight to keep the wire busy
// (one thread, 4 KiB put+quiet / get: 12.8 / 60 us with 4, 5.2 / 16 with 16, 4.9 / 13.7 with 20), while a
// block of 1024 has enough threads with 4, and may not use more than 64 registers. GSHMEM_COPY_DEPTH, a
// multiple of 4, lowers the former for kernels that are short of registers.
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

template <class Coop>
struct CopyDepth {
  static constexpr int value = GSHMEM_COPY_DEPTH;
};
template <>
struct CopyDepth<Block> {
  static constexpr int value = 4;
};

template <Read kRead, class W>
GSHMEM_FN W copy_load(const W* p) {
  if constexpr (kRead == Read::kFresh) {
    return load_relaxed(p);
  } else {
    return load_bulk(p);
  }
}

/// A pointer that steps from word to word of one thread.
template <class W>
class Walk {
 public:
  GSHMEM_FN Walk(W* first, int step) : at_(first), step_(step) {}
  GSHMEM_FN W* next() {
    W* here = at_;
    at_ = opaque(at_ + step_);
    return here;
  }

 private:
  W* at_;
  int step_;
};

/// Copies `count` words; word i goes to thread i % width.
/// The body keeps kDepth loads in flight in groups of four: as soon as the oldest group has been
/// stored its registers take the next loads. (Warp, 256 KiB put: 11.1 us; loading 16 and then
/// storing 16: 15.6.) The rest, less than one round, is one group of guarded loads, so that a short
/// copy costs one latency.
template <int kDepth, Read kRead, class W>
GSHMEM_FN void copy_words(W* dst, const W* src, std::size_t count, int rank, int width) {
  constexpr int kGroup = kDepth < 4 ? kDepth : 4;
  const std::ptrdiff_t round = static_cast<std::ptrdiff_t>(width) * kDepth;
  // Words from this thread's first on.
  std::ptrdiff_t left = static_cast<std::ptrdiff_t>(count) - rank;
  if (left <= 0) return;
  Walk<const W> from(src + rank, width);
  Walk<W> to(dst + rank, width);
  // A full round is one in which this thread has all its words. (No division before this is known:
  // it would cost a short copy as much as its loads.)
  const std::ptrdiff_t full = round - width;
  if (left > full) {
    W word[kDepth];
#pragma unroll
    for (int k = 0; k < kDepth; ++k) word[k] = copy_load<kRead>(from.next());
    // Counted rounds: with 16 loads ptxas needs 80 registers for this loop, 127 for one over `left`.
    std::ptrdiff_t more = (left - full - 1) / round;
    left -= round * (more + 1);
#pragma unroll 1
    for (; more > 0; --more) {
#pragma unroll
      for (int first = 0; first < kDepth; first += kGroup) {
#pragma unroll
        for (int k = first; k < first + kGroup; ++k) store_bulk(to.next(), word[k]);
#pragma unroll
        for (int k = first; k < first + kGroup; ++k) word[k] = copy_load<kRead>(from.next());
      }
    }
#pragma unroll
    for (int k = 0; k < kDepth; ++k) store_bulk(to.next(), word[k]);
  }
  const int rest = static_cast<int>(left);
  if (rest <= 0) return;
  W word[kDepth];
#pragma unroll
  for (int k = 0; k < kDepth; ++k) {
    const W* p = from.next();
    if (k * width < rest) word[k] = copy_load<kRead>(p);
  }
#pragma unroll
  for (int k = 0; k < kDepth; ++k) {
    W* p = to.next();
    if (k * width < rest) store_bulk(p, word[k]);
  }
}

template <Read kRead, class W>
GSHMEM_FN void copy_word(char* dst, const char* src) {
  store_bulk(reinterpret_cast<W*>(dst), copy_load<kRead>(reinterpret_cast<const W*>(src)));
}

/// Fewer than 16 bytes by one thread, where `dst` and `src` agree modulo the word of the copy:
/// naturally aligned words, the largest that fit at each step.
template <Read kRead>
GSHMEM_FN void copy_edge(char* dst, const char* src, std::size_t bytes) {
  while (bytes > 0) {
    const std::size_t at = reinterpret_cast<std::uintptr_t>(dst);
    std::size_t step = 8;
    while (at % step != 0 || bytes < step) step /= 2;
    switch (step) {
      case 8:
        copy_word<kRead, std::uint64_t>(dst, src);
        break;
      case 4:
        copy_word<kRead, std::uint32_t>(dst, src);
        break;
      case 2:
        copy_word<kRead, std::uint16_t>(dst, src);
        break;
      default:
        copy_word<kRead, std::uint8_t>(dst, src);
        break;
    }
    dst += step;
    src += step;
    bytes -= step;
  }
}

/// Copies the bytes before the first and after the last whole word, then the words between.
/// `dst` and `src` agree modulo sizeof(W).
template <int kDepth, Read kRead, class W>
GSHMEM_FN void copy_aligned(char* dst, const char* src, std::size_t bytes, int rank, int width) {
  const std::size_t misaligned = reinterpret_cast<std::uintptr_t>(dst) % sizeof(W);
  std::size_t head = misaligned ? sizeof(W) - misaligned : 0;
  if (head > bytes) head = bytes;
  const std::size_t words = (bytes - head) / sizeof(W);
  const std::size_t tail_begin = head + words * sizeof(W);
  const std::size_t tail = bytes - tail_begin;
  if (head + tail > 0) {
    if (rank == 0) copy_edge<kRead>(dst, src, head);
    // Another thread where there is one, so that the two latencies overlap.
    if (rank == width - 1) copy_edge<kRead>(dst + tail_begin, src + tail_begin, tail);
  }
  copy_words<kDepth, kRead>(reinterpret_cast<W*>(dst + head),
                            reinterpret_cast<const W*>(src + head), words, rank, width);
}

template <Read kRead, class Coop>
GSHMEM_OUTLINE void copy_on_gpu(Coop coop, char* dst, const char* src, std::size_t bytes) {
  constexpr int kDepth = CopyDepth<Coop>::value;
  const int rank = coop.thread_rank(), width = coop.size();
  const std::uintptr_t differ =
      reinterpret_cast<std::uintptr_t>(dst) ^ reinterpret_cast<std::uintptr_t>(src);
  if (differ % 16 == 0) {
    copy_aligned<kDepth, kRead, Word16>(dst, src, bytes, rank, width);
  } else if (differ % 8 == 0) {
    copy_aligned<kDepth, kRead, std::uint64_t>(dst, src, bytes, rank, width);
  } else if (differ % 4 == 0) {
    copy_aligned<kDepth, kRead, std::uint32_t>(dst, src, bytes, rank, width);
  } else {
    copy_aligned<kDepth, kRead, std::uint8_t>(dst, src, bytes, rank, width);
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

#if defined(__CUDA_ARCH__)
/// A copy of at most one 8-byte word per thread, inline: what latency is made of.
template <Read kRead, class Coop>
GSHMEM_FN bool copy_small(Coop coop, void* dst, const void* src, std::size_t bytes) {
  const std::uintptr_t all =
      reinterpret_cast<std::uintptr_t>(dst) | reinterpret_cast<std::uintptr_t>(src) | bytes;
  if (all % 8 != 0 || bytes > 8 * static_cast<std::size_t>(coop.size())) return false;
  const int rank = coop.thread_rank();
  if (rank < static_cast<int>(bytes / 8)) {
    copy_word<kRead, std::uint64_t>(static_cast<char*>(dst) + rank * 8,
                                    static_cast<const char*>(src) + rank * 8);
  }
  return true;
}
#endif

/// Copies `bytes` bytes (0 is fine) from `src` to `dst`, which do not overlap unless they are
/// equal.
template <Source kSource, class Coop>
GSHMEM_FN void copy(Coop coop, void* dst, const void* src, std::size_t bytes) {
#if defined(__CUDA_ARCH__)
  if (copy_small<kCopyRead<Coop, kSource>>(coop, dst, src, bytes)) return;
  copy_on_gpu<kCopyRead<Coop, kSource>>(coop, static_cast<char*>(dst),
                                        static_cast<const char*>(src), bytes);
#else
  copy_on_cpu(coop, static_cast<char*>(dst), static_cast<const char*>(src), bytes);
#endif
}

}  // namespace gshmem::device
