// Copying bytes by a group of threads between two places that are both mapped here: 16-byte
// accesses where the alignment of source and destination agree, the widest common word otherwise,
// several loads in flight per thread. No ordering: whoever calls decides what completes when.
//
// Depth (loads in flight per thread) was chosen on 2 H200s over NVLink: one load costs 0.15 us from
// local L2 and 0.88 us from a peer, so one thread or warp needs 16 in flight to keep the wire busy
// (get, 1 thread, 32 KiB: 459 us with 4, 236 with 8, 126 with 16), while a block of 1024 has enough
// threads with 4 (and may not use more than 64 registers). GSHMEM_COPY_DEPTH lowers the former for
// kernels that are short of registers.
#pragma once

#include "coop.h"
#include "machine.h"

#ifndef GSHMEM_COPY_DEPTH
#define GSHMEM_COPY_DEPTH 16
#endif

namespace gshmem::device {

#if defined(__CUDA_ARCH__)

template <class Coop>
struct CopyDepth {
  static constexpr int value = GSHMEM_COPY_DEPTH;
};
template <>
struct CopyDepth<Block> {
  static constexpr int value = 4;
};

/// Copies `count` words; word i goes to thread i % width.
/// The body keeps kDepth loads in flight in groups of four: as soon as the oldest group has been
/// stored its registers take the next loads. The rest, less than one round, is one group of guarded
/// loads, so that a short copy costs one latency.
template <int kDepth, class W>
GSHMEM_FN void copy_words(W* dst, const W* src, std::size_t count, int rank, int width) {
  constexpr int kGroup = kDepth < 4 ? kDepth : 4;
  constexpr int kGroups = kDepth / kGroup;
  const std::size_t step = static_cast<std::size_t>(width);
  const std::size_t round = step * kDepth;
  std::size_t i = static_cast<std::size_t>(rank);
  const std::size_t rounds = count / round;
  if (rounds > 0) {
    W word[kGroups][kGroup];
#pragma unroll
    for (int g = 0; g < kGroups; ++g) {
#pragma unroll
      for (int k = 0; k < kGroup; ++k) word[g][k] = load_bulk(src + i + step * (g * kGroup + k));
    }
    for (std::size_t r = 1; r < rounds; ++r, i += round) {
#pragma unroll
      for (int g = 0; g < kGroups; ++g) {
#pragma unroll
        for (int k = 0; k < kGroup; ++k) {
          store_bulk(dst + i + step * (g * kGroup + k), word[g][k]);
        }
#pragma unroll
        for (int k = 0; k < kGroup; ++k) {
          word[g][k] = load_bulk(src + i + round + step * (g * kGroup + k));
        }
      }
    }
#pragma unroll
    for (int g = 0; g < kGroups; ++g) {
#pragma unroll
      for (int k = 0; k < kGroup; ++k) store_bulk(dst + i + step * (g * kGroup + k), word[g][k]);
    }
    i += round;
  }
  if (i >= count) return;
  W word[kDepth];
#pragma unroll
  for (int k = 0; k < kDepth; ++k) {
    if (i + step * k < count) word[k] = load_bulk(src + i + step * k);
  }
#pragma unroll
  for (int k = 0; k < kDepth; ++k) {
    if (i + step * k < count) store_bulk(dst + i + step * k, word[k]);
  }
}

/// Copies the bytes before the first and after the last whole word, then the words between.
/// `dst` and `src` agree modulo sizeof(W).
template <int kDepth, class W>
GSHMEM_FN void copy_aligned(char* dst, const char* src, std::size_t bytes, int rank, int width) {
  const std::size_t misaligned = reinterpret_cast<std::uintptr_t>(dst) % sizeof(W);
  std::size_t head = misaligned ? sizeof(W) - misaligned : 0;
  if (head > bytes) head = bytes;
  const std::size_t words = (bytes - head) / sizeof(W);
  const std::size_t tail_begin = head + words * sizeof(W);
  const std::size_t edge = head + (bytes - tail_begin);  // at most 2 * (sizeof(W) - 1) bytes
  for (std::size_t e = static_cast<std::size_t>(rank); e < edge;
       e += static_cast<std::size_t>(width)) {
    const std::size_t at = e < head ? e : tail_begin + (e - head);
    store_bulk(reinterpret_cast<std::uint8_t*>(dst + at),
               load_bulk(reinterpret_cast<const std::uint8_t*>(src + at)));
  }
  copy_words<kDepth>(reinterpret_cast<W*>(dst + head), reinterpret_cast<const W*>(src + head),
                     words, rank, width);
}

template <class Coop>
GSHMEM_OUTLINE void copy_on_gpu(Coop coop, char* dst, const char* src, std::size_t bytes) {
  constexpr int kDepth = CopyDepth<Coop>::value;
  const int rank = coop.thread_rank(), width = coop.size();
  const std::uintptr_t differ =
      reinterpret_cast<std::uintptr_t>(dst) ^ reinterpret_cast<std::uintptr_t>(src);
  if (differ % 16 == 0) {
    copy_aligned<kDepth, Word16>(dst, src, bytes, rank, width);
  } else if (differ % 8 == 0) {
    copy_aligned<kDepth, std::uint64_t>(dst, src, bytes, rank, width);
  } else if (differ % 4 == 0) {
    copy_aligned<kDepth, std::uint32_t>(dst, src, bytes, rank, width);
  } else {
    copy_aligned<kDepth, std::uint8_t>(dst, src, bytes, rank, width);
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
template <class Coop>
GSHMEM_FN void copy(Coop coop, void* dst, const void* src, std::size_t bytes) {
#if defined(__CUDA_ARCH__)
  copy_on_gpu(coop, static_cast<char*>(dst), static_cast<const char*>(src), bytes);
#else
  copy_on_cpu(coop, static_cast<char*>(dst), static_cast<const char*>(src), bytes);
#endif
}

}  // namespace gshmem::device
