// Lists of pieces: puts and gets of many ranges of one PE by one call, and one signal after them.
// It is an extension of gshmem. Other interfaces with lists are NIXL's descriptor lists, UCX's IOV
// data type and ARMCI's vectors. Included by device/api/api_pieces.h and the library's kernels.
//
// Order. That of device/ops/rma.h, for all pieces of a list; pieces have no order among each other.
// The signal is never visible before a piece of its list (device/ops/signal.h).
#pragma once

#include "../network/list_path.h"
#include "rma.h"
#include "signal.h"

namespace gshmem::device {

/// The size from which on all threads of a block copy one piece. Smaller pieces are copied by its
/// warps side by side, so that they wait for their loads at the same time.
inline constexpr std::size_t kWidePiece = 256 * 1024;

template <Source kSource, class Coop>
GSHMEM_FN void copy_piece(Coop coop, const ListCall& call, const Piece& piece) {
  if constexpr (kSource == Source::kLocal) {
    copy<kSource>(coop, peer_address(*call.state, piece.dest, call.pe), piece.source, piece.bytes);
  } else {
    copy<kSource>(coop, piece.dest, peer_address(*call.state, piece.source, call.pe), piece.bytes);
  }
}

/// Copies the pieces of a list to or from a mapped PE.
template <Source kSource, class Coop>
GSHMEM_OUTLINE void copy_pieces(Coop coop, const ListCall& call) {
  GSHMEM_NO_UNROLL
  for (std::size_t i = 0; i < call.count; ++i) copy_piece<kSource>(coop, call, call.list[i]);
}
#if defined(__CUDA_ARCH__)
/// Copies the pieces of at least `wide` bytes, each by the whole block.
template <Source kSource>
GSHMEM_OUTLINE void copy_wide_pieces(Block block, const ListCall& call, std::size_t wide) {
  const std::size_t size = static_cast<std::size_t>(block.size());
  GSHMEM_NO_UNROLL
  for (std::size_t first = 0; first < call.count; first += size) {
    const std::size_t mine = first + static_cast<std::size_t>(block.thread_rank());
    if (!block.any(mine < call.count && call.list[mine].bytes >= wide)) continue;
    GSHMEM_NO_UNROLL
    for (std::size_t i = first; i < call.count && i < first + size; ++i)
      if (call.list[i].bytes >= wide) copy_piece<kSource>(block, call, call.list[i]);
  }
}
template <Source kSource>
GSHMEM_OUTLINE void copy_pieces(Block block, const ListCall& call) {
  const std::size_t warps = static_cast<std::size_t>(block.size()) / 32;  // those that are full
  const std::size_t wide = call.count < warps || warps == 0 ? 0 : kWidePiece;
  GSHMEM_NO_UNROLL
  for (std::size_t i = thread_number() / 32; i < call.count && thread_number() / 32 < warps;
       i += warps)
    if (call.list[i].bytes < wide) copy_piece<kSource>(LeanWarp{}, call, call.list[i]);
  copy_wide_pieces<kSource>(block, call, wide);
}
#else
/// Copies the pieces of a list. Each thread copies different pieces.
template <Source kSource>
inline void copy_pieces(Block block, const ListCall& call) {
  for (std::size_t i = static_cast<std::size_t>(block.thread_rank()); i < call.count;
       i += static_cast<std::size_t>(block.size()))
    copy_piece<kSource>(Thread{}, call, call.list[i]);
}
#endif

/// The alignment of shares. All warps get equal shares of the bytes of a list. Within a piece a
/// share begins at a multiple of this, so that words are not split.
inline constexpr std::uint64_t kShareStep = 128;

/// Copies share `mine` of `shares` of a list to or from a mapped PE. In this list `bytes` of a
/// piece includes the bytes of the pieces before it, and no piece is empty.
template <Source kSource, class Coop>
GSHMEM_OUTLINE void copy_share(Coop coop, const ListCall& call, std::uint64_t mine,
                               std::uint64_t shares) {
  const Piece* const list = call.list;
  const std::uint64_t total = list[call.count - 1].bytes;
  const std::uint64_t share = (total / shares + kShareStep) / kShareStep * kShareStep;
  const std::uint64_t begin = mine * share, end = begin + share;
  if (begin >= total) return;
  std::size_t low = 0, high = call.count - 1;  // the first piece that ends after `begin`
  GSHMEM_NO_UNROLL
  while (low < high) {
    const std::size_t middle = (low + high) / 2;
    if (list[middle].bytes > begin) {
      high = middle;
    } else {
      low = middle + 1;
    }
  }
  GSHMEM_NO_UNROLL
  for (std::size_t i = low; i < call.count; ++i) {
    const std::uint64_t first = i == 0 ? 0 : list[i - 1].bytes, last = list[i].bytes;
    const std::uint64_t from = begin > first ? (begin - first) / kShareStep * kShareStep : 0;
    const std::uint64_t to = end >= last ? last - first : (end - first) / kShareStep * kShareStep;
    copy_piece<kSource>(coop, call,
                        {static_cast<char*>(list[i].dest) + from,
                         static_cast<const char*>(list[i].source) + from, to - from});
    if (end <= last) break;
  }
}

/// Updates the word of the call's signal. It comes after all stores with which the calling thread
/// has synchronized.
GSHMEM_OUTLINE void update_after_list(const ListCall& call) {
  fence_release_system();
  signal_op(*call.state,
            {call.word, call.value, call.op == AmoOp::kSet ? GSHMEM_SIGNAL_SET : GSHMEM_SIGNAL_ADD},
            call.pe);
}

/// Moves the pieces of a list. The result has no meaning (GSHMEM_FIT needs one).
template <class Coop>
GSHMEM_OUTLINE int move_list(Coop coop, const ListCall& call) {
  sync_lanes(coop);
  coop.sync();
  const bool mapped = is_mapped(*call.state, call.pe);
  if (!mapped) {
    nic::post_list(coop, call);
    sync_lanes(coop);
    coop.sync();  // a quiet of any thread covers the entries of all
    if (call.blocking) nic::quiet(coop, *call.state, call.name);
  } else if (call.is_put) {
    copy_pieces<Source::kLocal>(coop, call);
  } else {
    copy_pieces<Source::kPeer>(coop, call);
  }
  sync_lanes(coop);
  coop.sync();
  if (!call.has_signal || (call.is_put && !mapped)) return 0;
  // After a fault pieces may be missing that the signal would announce.
  if (coop.thread_rank() == 0 && load_acquire(&call.state->control->stop) == 0)
    update_after_list(call);
  coop.sync();
  return 0;
}

}  // namespace gshmem::device
