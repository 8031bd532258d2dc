// Memory that ranks share. Each rank contributes a chunk of data and all ranks read it. It
// implements collectives between threads of one process, and between the PEs of a host. Included by
// the code that offers those. A collective takes microseconds if every rank has a core; ranks that
// wait longer sleep. Invariant: a rank is at most one chunk ahead of the slowest. So no rank still
// reads the buffer that it writes.
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
  /// Returns the size in bytes of the memory for `size` ranks, with space for a result of
  /// `result_bytes` from outside.
  [[nodiscard]] static std::size_t bytes_of(int size, std::size_t result_bytes = 0);
  /// Returns a hash of the layout of that memory (layout.h).
  [[nodiscard]] static std::uint64_t layout();
  /// `memory` is zero before the first rank uses it, and outlives this object.
  Board(void* memory, int rank, int size);

  /// Contributes the next chunk: the first bytes of the `left` bytes at `data`.
  void bring(const void* data, std::size_t left);

  enum class Waited { kDone, kInterrupted, kTimeout };
  /// Waits until all ranks have contributed their chunk. It calls `interrupted` every few
  /// milliseconds.
  [[nodiscard]] Waited await_all(const Deadline& deadline,
                                 const std::function<bool()>& interrupted) const;
  struct Piece {
    const char* data;
    std::size_t bytes;
    std::size_t left;  ///< bytes of this chunk and of those after it
  };
  /// Returns the chunk that a rank has contributed. It may be read until this rank contributes its
  /// next chunk.
  [[nodiscard]] Piece of(int rank) const;
  /// Returns the number of the last chunk that this rank has contributed.
  [[nodiscard]] std::uint64_t number() const { return number_; }
  /// Returns the ranks that have not contributed chunk `number`. Threads: any.
  [[nodiscard]] std::vector<int> missing(std::uint64_t number) const;

  // The buffer for a result from outside, which all ranks read. Threads: any, one at a time on one
  // of the ranks.
  [[nodiscard]] char* result() const { return result_; }
  /// Announces that the result of chunk `number` is in the buffer.
  void release(std::uint64_t number);
  [[nodiscard]] Waited await_release(const Deadline& deadline,
                                     const std::function<bool()>& interrupted) const;
  /// Announces that `who` is missing in chunk `number`. `who` is outside of this board, and not
  /// negative; the caller defines its meaning.
  void report_missing(std::uint64_t number, int who);
  /// Returns the `who` that was announced for this rank's last chunk, or -1.
  [[nodiscard]] int reported_missing() const;

  /// Announces that this rank contributes no more chunks.
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
  unsigned yields_;  ///< number of yields before a waiting rank sleeps
};

}  // namespace gshmem
