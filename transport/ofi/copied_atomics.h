// Atomics on memory that can only be copied: the words are read, modified and written back.
// Requests that arrive while copies are pending wait for them and are then executed together. So a
// copy engine blocks no thread, and many atomics cost as much as one. Used by
// memory_access_cuda.cpp and by tests.
#pragma once

#include "transport/ofi/memory_access.h"

#include <array>
#include <deque>
#include <map>
#include <vector>

namespace gshmem::ofi {

class CopiedAtomics {
 public:
  /// `copies` outlives this object. Its start_atomic is not called.
  explicit CopiedAtomics(MemoryAccess& copies);

  /// Implements MemoryAccess::start_atomic. Its tickets are not those of `copies`.
  [[nodiscard]] Ticket start(std::uint64_t offset, const nic::Wqe& wqe, std::uint64_t* old);
  [[nodiscard]] static bool is_own(Ticket ticket) { return ticket <= kFirst; }
  /// Call it after a poll() of the copies.
  void poll();
  [[nodiscard]] bool done(Ticket ticket);

 private:
  static constexpr Ticket kFirst = kNoTicket - 1;  ///< tickets count down
  static constexpr std::size_t kMost = 64;         ///< number of words at a time
  struct Request {
    Ticket ticket;
    std::uint64_t offset;
    nic::Wqe wqe;
    std::uint64_t* old;
  };
  struct Word {
    std::uint64_t offset = 0, bytes = 0, value = 0;
    /// Known without a read: the first request sets the word, and no request wants the old value.
    bool known = false;
    bool changed = false;
    Ticket copy = kNoTicket;
  };
  enum class State { kIdle, kReading, kWriting };

  void begin();
  [[nodiscard]] Word* word_of(const Request& request);
  void change();
  void end();
  [[nodiscard]] bool copied();
  [[nodiscard]] std::uint8_t* slot(std::size_t word) const { return staging_.get() + 8 * word; }

  MemoryAccess& copies_;
  Staging staging_;  ///< 8 bytes for each word
  State state_ = State::kIdle;
  std::deque<Request> waiting_;
  std::vector<Request> requests_;  ///< pending requests
  std::vector<Word> words_;
  Ticket next_ = kFirst, ended_ = kFirst;  ///< all tickets above it have ended
  std::map<Ticket, Error> failed_;         ///< errors of tickets that have ended
};

}  // namespace gshmem::ofi
