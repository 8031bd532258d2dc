// One work queue as its user sees it: writes entries by hand, rings the doorbell word, waits for
// completions. One thread at a time.
#pragma once

#include "transport/nic/nic.h"

#include <gshmem/abi/mlx5.h>

#include <array>
#include <cstdint>
#include <stdexcept>
#include <vector>

namespace gshmem::test {

enum Flag : unsigned { kPlain = 0, kSignalled = 1, kFenced = 2 };

/// The content of the completion: 0, or the syndrome.
struct Outcome {
  bool timed_out = false;
  std::uint8_t syndrome = 0, vendor = 0;
  std::uint8_t opcode = 0;  ///< of the entry that failed
  std::uint16_t index = 0;
  [[nodiscard]] bool ok() const { return !timed_out && syndrome == 0; }
};

class Client {
 public:
  Client() = default;
  /// `memory` is the region of queues. Fills the completion with 0xff.
  Client(std::uint8_t* memory, const nic::QueuePlace& place, const nic::CreatedQueue& queue,
         std::uint32_t local_key, std::uint32_t remote_key);

  // Each posts one WQE, waits for a free slot if there is none, and returns the number of its first
  // entry. Addresses are offsets.
  std::uint64_t write(std::uint64_t remote, std::uint64_t local, std::uint32_t bytes,
                      unsigned flags = kSignalled);
  std::uint64_t write_inline(std::uint64_t remote, const std::vector<std::uint8_t>& payload,
                             unsigned flags = kSignalled);
  struct Piece {
    std::uint64_t local;
    std::uint32_t bytes;
  };
  /// Writes 12 bytes of the entry, and more that it points to.
  std::uint64_t write_both(std::uint64_t remote, const std::array<std::uint8_t, 12>& payload,
                           const Piece& piece);
  std::uint64_t gather(abi::Opcode opcode, std::uint64_t remote, const std::vector<Piece>& pieces,
                       unsigned flags = kSignalled);
  std::uint64_t read(std::uint64_t remote, std::uint64_t local, std::uint32_t bytes,
                     unsigned flags = kSignalled);
  std::uint64_t nop(unsigned flags = kSignalled);
  std::uint64_t fetch_add(std::uint64_t remote, std::uint64_t local, std::uint64_t add,
                          unsigned flags = kSignalled);
  std::uint64_t compare_swap(std::uint64_t remote, std::uint64_t local, std::uint64_t compare,
                             std::uint64_t swap, unsigned flags = kSignalled);
  struct Masks {
    std::uint64_t swap = 0, compare = 0, swap_mask = 0, compare_mask = 0;
  };
  std::uint64_t masked_swap(std::uint32_t bytes, std::uint64_t remote, std::uint64_t local,
                            const Masks& masks, unsigned flags = kSignalled);
  std::uint64_t masked_add(std::uint32_t bytes, std::uint64_t remote, std::uint64_t local,
                           std::uint64_t add, std::uint64_t boundary, unsigned flags = kSignalled);
  /// Posts any bytes as one WQE; `patch` sets index, number and ds first.
  std::uint64_t raw(std::vector<std::uint8_t> wqe, bool patch = true);

  void ring();
  void ring(std::uint64_t value);  ///< what the doorbell gets, as it is
  /// Until a completion says that the WQE at `index` has ended, or an error came.
  Outcome wait(std::uint64_t index, double seconds = 30);
  Outcome ring_and_wait(std::uint64_t index) {
    ring();
    return wait(index);
  }
  /// The WQE at `index` has completed, as far as is known now.
  bool has_ended(std::uint64_t index) {
    const Outcome outcome = look();
    if (outcome.syndrome != 0) throw std::runtime_error("an entry failed");
    return done_ > index;
  }
  [[nodiscard]] std::uint64_t next() const { return next_; }
  [[nodiscard]] std::uint32_t number() const { return number_; }

  std::uint32_t local_key = 0, remote_key = 0;

 private:
  class Builder;
  Outcome look();
  Builder begin(abi::Opcode opcode, unsigned flags, std::uint8_t opmod = 0);
  std::uint64_t put(const Builder& builder);

  std::uint8_t* entries_ = nullptr;
  std::uint8_t* completion_ = nullptr;
  std::uint64_t* doorbell_ = nullptr;
  std::uint32_t depth_ = 0, number_ = 0;
  std::uint64_t next_ = 0, done_ = 0;
};

}  // namespace gshmem::test
