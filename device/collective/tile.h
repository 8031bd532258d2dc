// Tiles: rows of elements with strides on both sides. A tile is copied to or from a PE, combined
// over a team, or put to all its members. The names are NVSHMEM's (gshmem/tile.hpp). For mapped PEs
// all threads of the group load and store, with several words in flight each. For other PEs a put
// moves a row, or an element if rows have gaps. Words are as wide as all rows of both sides allow.
#pragma once

#include <gshmem/tensor.hpp>

#include "collective.h"

namespace gshmem::device {

/// A side of a tile: its first element, and the bytes from row to row and from element to element.
struct TileSide {
  char* first;
  std::ptrdiff_t row, element;
};
struct Tile {
  TileSide dst, src;
  std::size_t rows, elements;  ///< number of rows, and of elements of a row
  std::uint32_t size;          ///< size of an element
  bool dense;                  ///< the elements of a row are contiguous on both sides
  GSHMEM_FN std::size_t row_bytes() const { return elements * size; }
  /// Returns a number whose lowest set bit is the alignment of all rows, of both sides and of the
  /// length of a row.
  GSHMEM_FN std::uintptr_t alignment() const {
    const auto all = [](auto value) { return static_cast<std::uintptr_t>(value); };
    const std::uintptr_t first =
        reinterpret_cast<std::uintptr_t>(dst.first) | reinterpret_cast<std::uintptr_t>(src.first);
    return first | all(row_bytes()) | (rows > 1 ? all(dst.row) | all(src.row) : 0);
  }
};

/// The words of `unit` bytes of a tile that one thread takes, row by row. The other threads of its
/// group take the words between them. A tile that is not dense has a word for each element. Numbers
/// have 32 bits, to save registers in the loops.
class TileWalk {
 public:
  template <class Coop>
  GSHMEM_FN TileWalk(Coop coop, const Tile& tile, std::size_t unit)
      : words_(static_cast<std::uint32_t>(tile.dense ? tile.row_bytes() / unit : tile.elements)),
        step_(tile.dense ? static_cast<std::uint32_t>(unit) : 0),
        width_(static_cast<std::uint32_t>(coop.size())),
        end_(static_cast<std::uint32_t>(tile.rows) * words_) {
    begin(static_cast<std::uint32_t>(coop.thread_rank()));
  }
  /// Keeps only this member's share of all words.
  GSHMEM_FN void keep_share(const abi::Team& team) {
    const Share mine(Result::kForAll, end_, team);
    end_ = static_cast<std::uint32_t>(mine.end);
    begin(static_cast<std::uint32_t>(mine.first) + at_);
  }
  GSHMEM_FN bool more() const { return at_ < end_; }
  GSHMEM_FN void next() {
    at_ += width_;
    row_ += width_ / words_;
    word_ += width_ % words_;
    if (word_ < words_) return;
    word_ -= words_;
    ++row_;
  }
  GSHMEM_FN char* of(const TileSide& side) const {
    return side.first + static_cast<std::ptrdiff_t>(row_) * side.row +
           static_cast<std::ptrdiff_t>(word_) *
               (step_ != 0 ? static_cast<std::ptrdiff_t>(step_) : side.element);
  }

 private:
  GSHMEM_FN void begin(std::uint32_t at) { at_ = at, row_ = at / words_, word_ = at % words_; }
  std::uint32_t words_;  ///< per row
  std::uint32_t step_, width_, end_, at_ = 0, row_ = 0, word_ = 0;
};
inline constexpr std::size_t kMostTileBytes = std::size_t{1} << 31;

/// Calls `work(W{})` with the widest word type W that the rows of the tile allow, of at least
/// kLeast bytes.
template <std::size_t kLeast, class Work>
GSHMEM_FN void by_tile_words(const Tile& tile, const Work& work) {
  const std::uintptr_t all = tile.dense ? tile.alignment() : kLeast;
  if (all % 16 == 0) return work(Word16{});
  if constexpr (kLeast < 8) {
    if (all % 8 == 0) return work(std::uint64_t{});
  }
  if constexpr (kLeast < 4) {
    if (all % 4 == 0) return work(std::uint32_t{});
  }
  if constexpr (kLeast < 2) {
    if (all % 2 == 0) return work(std::uint16_t{});
  }
  work(typename WordOf<kLeast>::type{});
}

template <Source kSource, class W, class Coop>
GSHMEM_OUTLINE void copy_tile_words(Coop coop, const Tile& tile) {
  constexpr int kDepth = 4;
  TileWalk walk(coop, tile, sizeof(W));
  GSHMEM_NO_UNROLL
  while (walk.more()) {
    W word[kDepth] = {};
    char* to[kDepth];
    for (int k = 0; k < kDepth; ++k, walk.next()) {
      to[k] = walk.more() ? walk.of(tile.dst) : nullptr;
      if (!to[k]) continue;
      const W* const from = reinterpret_cast<const W*>(walk.of(tile.src));
      word[k] = kSource == Source::kPeer ? load_relaxed(from) : load_bulk(from);
    }
    for (int k = 0; k < kDepth; ++k) {
      if (to[k]) store_bulk(reinterpret_cast<W*>(to[k]), word[k]);
    }
  }
}
template <Source kSource, class Coop>
GSHMEM_OUTLINE void copy_tile(Coop coop, const Tile& tile) {
  if (tile.dense) {
    by_tile_words<1>(tile,
                     [&](auto word) { copy_tile_words<kSource, decltype(word)>(coop, tile); });
    return;
  }
  for (TileWalk walk(coop, tile, tile.size); walk.more(); walk.next())
    copy_element<kSource>(walk.of(tile.dst), walk.of(tile.src), tile.size);
}

/// A put or get that is complete at quiet. The object is in memory, to save registers of the
/// caller.
struct TileMove {
  const State* state;
  Tile tile;
  int pe;
};
template <bool kPut, class Coop>
GSHMEM_OUTLINE void move_by_network(Coop coop, const TileMove& move) {
  const std::size_t bytes = move.tile.dense ? move.tile.row_bytes() : move.tile.size;
  TileWalk walk(coop, move.tile, bytes);
  GSHMEM_NO_UNROLL
  for (; walk.more(); walk.next()) {
    char *const to = walk.of(move.tile.dst), *const from = walk.of(move.tile.src);
    if constexpr (kPut) {
      nic::put(Thread{}, *move.state, to, from, bytes, move.pe, nic::Reuse::kAtQuiet);
    } else {
      nic::get(Thread{}, *move.state, to, from, bytes, move.pe, nic::Arrival::kAtQuiet);
    }
    keep_in_memory(walk);
  }
}
template <bool kPut, class Coop>
GSHMEM_OUTLINE int move_tile(Coop coop, const TileMove& move) {
  sync_lanes(coop);
  coop.sync();
  if (is_mapped_or_self(*move.state, move.pe)) {
    Tile tile = move.tile;
    char*& there = kPut ? tile.dst.first : tile.src.first;
    there = peer_address(*move.state, there, move.pe);
    copy_tile<kPut ? Source::kLocal : Source::kPeer>(coop, tile);
  } else {
    move_by_network<kPut>(coop, move);
  }
  sync_lanes(coop);
  coop.sync();
  return GSHMEMX_SUCCESS;
}

/// The arguments of collectives.
struct TileCall {
  const State* state;
  const char* name;
  const abi::Team* team;
  Tile tile;
  enum class Part {
    kNone,
    kAll,   ///< this member combines everything
    kShare  ///< each member combines its share
  } part;
  bool for_all;  ///< the result goes to all members; otherwise to this one
  bool ends;     ///< the result has arrived when the call returns
  GSHMEM_FN TeamCall team_call() const { return {state, name, team, nullptr, nullptr, 0}; }
};

/// Puts the tile to all members.
template <class Coop>
GSHMEM_OUTLINE int put_tile_to_members(Coop coop, const TileCall& call) {
  for_members(*call.team, [&](int, int pe) {
    if (pe == call.state->my_pe && call.tile.dst.first == call.tile.src.first) return;
    (void)move_tile<true>(coop, TileMove{call.state, call.tile, pe});
  });
  return GSHMEMX_SUCCESS;
}

/// Combines words of all members' tiles, one per thread at a time: two would take more than 64
/// registers. kMapped: all members map each other.
template <bool kMapped, class W, class Coop, class Reducer>
GSHMEM_OUTLINE void combine_tile_words(Coop coop, const TileCall& call, Reducer reducer) {
  const State& state = *call.state;
  const auto load = [&](const W* from, int pe) {
    if (kMapped || is_mapped_or_self(state, pe)) return load_relaxed(peer_address(state, from, pe));
    return g(state, from, pe);
  };
  TileWalk walk(coop, call.tile, sizeof(W));
  if (call.part == TileCall::Part::kShare) walk.keep_share(*call.team);
  keep_in_memory(walk);
  GSHMEM_NO_UNROLL
  for (; walk.more(); walk.next()) {
    const W* const from = reinterpret_cast<const W*>(walk.of(call.tile.src));
    W sum = load(from, team_pe(*call.team, 0));
    GSHMEM_NO_UNROLL
    for (int i = 1; i < call.team->n_pes; ++i) {
      const W more = load(from, team_pe(*call.team, i));
      if constexpr (!kMapped) keep_in_memory(sum);
      sum = reducer(sum, more);
    }
    W* const to = reinterpret_cast<W*>(walk.of(call.tile.dst));
    if (!call.for_all) {
      store_relaxed(to, sum);
    } else {
      GSHMEM_NO_UNROLL
      for (int i = 0; i < call.team->n_pes; ++i) {
        const int pe = team_pe(*call.team, i);
        if (kMapped || is_mapped_or_self(state, pe)) {
          store_relaxed(peer_address(state, to, pe), sum);
        } else {
          p(state, to, sum, pe);
        }
      }
    }
    keep_in_memory(walk);
  }
}

/// Synchronizes. Afterwards the stores of members to each other are visible.
template <class Coop>
GSHMEM_OUTLINE int end_tiles(Coop coop, const TileCall& call) {
  return end_collective(coop, call.team_call());
}

/// Combines the tiles of all members, with elements of kSize bytes, in the order of the members. It
/// begins with a sync, because all members must have written their tiles.
template <std::size_t kSize, class Coop, class Reducer>
GSHMEM_OUTLINE int reduce_tile(Coop coop, const TileCall& call, Reducer reducer) {
  TeamCall team = call.team_call();
  keep_in_memory(team);
  const int status = sync_call_members(coop, team);
  if (status != 0 || call.part == TileCall::Part::kNone) return status;
  by_tile_words<kSize>(call.tile, [&](auto word) {
    using W = decltype(word);
    if (call.team->mapped != 0) {
      combine_tile_words<true, W>(coop, call, reducer);
    } else {
      combine_tile_words<false, W>(coop, call, reducer);
    }
  });
  sync_lanes(coop);
  if (call.ends) return end_tiles(coop, call);
  coop.sync();
  return GSHMEMX_SUCCESS;
}

}  // namespace gshmem::device
