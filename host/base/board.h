// Memory that some ranks share, in which each brings a piece of data and all read it: collectives
// of threads of one process, and of the PEs of a host. Included by what offers those. Microseconds
// where every rank has a core; ranks that wait longer sleep. Invariant: a rank is at most one piece
// ahead of the slowest, so the place into which it writes is one that nobody reads any more.
#pragma once

#include "host/base/deadline.h"

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

namespace gshmem {

class Board {
 public:
  static constexpr std::size_t kPieceBytes = 2048;
  static constexpr std::size_t kAlignment = 128;
  /// Of memory for `size` ranks, with room for `result_bytes` that come from outside.
  [[nodiscard]] static std::size_t bytes_of(int size, std::size_t result_bytes = 0);
  /// The layout of that memory (layout.h).
  [[nodiscard]] static std::uint64_t layout();
  /// `memory` is zero before the first rank comes, and outlives this object.
  Board(void* memory, int rank, int size);

  /// Enters the next piece, which is the first of `left` bytes at `data`.
  void bring(const void* data, std::size_t left);

  enum class Waited { kDone, kInterrupted, kTimeout };
  /// Until all ranks have brought theirs. `interrupted` is asked every few milliseconds.
  [[nodiscard]] Waited await_all(const Deadline& deadline,
                                 const std::function<bool()>& interrupted) const;
  struct Piece {
    const char* data;
    std::size_t bytes;
    std::size_t left;  ///< this piece and those after it
  };
  /// What a rank has brought; may be read until this one brings its next.
  [[nodiscard]] Piece of(int rank) const;
  /// The piece that this rank has brought last.
  [[nodiscard]] std::uint64_t number() const { return number_; }
  /// Of all ranks, those that have not brought piece `number`. Threads: any.
  [[nodiscard]] std::vector<int> missing(std::uint64_t number) const;

  // What comes from outside, for all. Threads: any, one at a time on one of the ranks.
  [[nodiscard]] char* result() const { return result_; }
  /// The result of piece `number` is there.
  void release(std::uint64_t number);
  [[nodiscard]] Waited await_release(const Deadline& deadline,
                                     const std::function<bool()>& interrupted) const;
  /// Somebody outside is missing in piece `number`. A number of the caller's that is not negative.
  void tell_missing(std::uint64_t number, int who);
  /// What was told of the piece that this rank has brought last; -1 = nothing.
  [[nodiscard]] int told_missing() const;

  /// This rank brings no more.
  void depart();
  [[nodiscard]] bool departed(int rank) const;

 private:
  struct Head;
  struct Slot;
  [[nodiscard]] Waited wait(const std::atomic<std::uint32_t>& word, const Deadline& deadline,
                            const std::function<bool()>& interrupted) const;
  void wake(const std::atomic<std::uint32_t>& word) const;
  [[nodiscard]] Slot& slot(int rank) const;

  Head& head_;
  char* slots_;
  char* result_;
  int rank_, size_;
  std::uint64_t number_ = 0;
  unsigned yields_;  ///< before a rank that waits sleeps
};

}  // namespace gshmem
