// One PE of the tests that drive the mlx5 transport end to end: heap, queues to every PE and
// itself, and a simple encoder of its own, which writes entries, rings and waits.
#pragma once

#include "host/base/collectives.h"
#include "host/base/config.h"
#include "tests/patience.h"
#include "transport/nic/nic.h"

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

namespace gshmem::nic {

/// Page-aligned zeroed memory.
class Pages {
 public:
  explicit Pages(std::size_t bytes);
  ~Pages();
  Pages(const Pages&) = delete;
  [[nodiscard]] char* data() const { return data_; }
  [[nodiscard]] std::size_t size() const { return bytes_; }

 private:
  std::size_t bytes_;
  char* data_;
};

/// How a wait ended; no value if it succeeded.
struct Failure {
  int syndrome = 0;
  std::uint16_t counter = 0;
};

class TestPe {
 public:
  static constexpr std::size_t kHeapBytes = 1 << 16;
  static constexpr std::uint32_t kDepth = 64;
  static constexpr int kPerPe = 2;

  /// Collective: opens the soft NIC, makes and connects the queues, starts.
  TestPe(const Config& config, Collectives& boot, bool node_root = false,
         std::function<int(int)> share_fd = {});

  /// The time limit of a wait for a completion.
  std::chrono::milliseconds patience = std::chrono::seconds(60 * gshmem::test::kPatience);

  [[nodiscard]] Nic& nic() { return *nic_; }
  [[nodiscard]] char* heap() const { return heap_.data(); }
  [[nodiscard]] std::vector<std::string> errors();

  // Each returns when the entry is complete; addresses are offsets into the heaps.
  std::optional<Failure> write(int pe, int which, std::uint64_t from, std::uint64_t to,
                               std::uint32_t bytes);
  std::optional<Failure> read(int pe, int which, std::uint64_t to, std::uint64_t from,
                              std::uint32_t bytes);
  std::optional<Failure> fetch_add(int pe, int which, std::uint64_t at, std::uint64_t add,
                                   std::uint64_t result);
  std::optional<Failure> compare_swap(int pe, int which, std::uint64_t at, std::uint64_t compare,
                                      std::uint64_t swap, std::uint64_t result);
  /// Posts several reads of 8 bytes at once; returns how the last one ends.
  std::optional<Failure> reads(int pe, int which, int count);
  /// Writes with a key that was never registered.
  std::optional<Failure> write_with_bad_key(int pe);

 private:
  struct Queue {
    CreatedQueue created;
    QueuePlace place;
    std::uint32_t remote_key = 0;
    std::uint16_t next = 0;
  };
  Queue& queue(int pe, int which) { return queues_[static_cast<std::size_t>(pe * kPerPe + which)]; }
  /// Stores an entry with `segments` segments after the control segment, rings, and waits for it.
  /// Equal entries are rung at once.
  std::optional<Failure> post(Queue& queue, abi::Opcode opcode, const void* segments,
                              std::size_t bytes, int count = 1);
  std::optional<Failure> transfer(Queue& queue, abi::Opcode opcode, std::uint64_t local,
                                  std::uint64_t remote, std::uint32_t bytes, std::uint32_t key,
                                  int count = 1);
  std::optional<Failure> atomic(Queue& queue, abi::Opcode opcode, std::uint64_t at,
                                std::uint64_t swap_or_add, std::uint64_t compare,
                                std::uint64_t result);

  Pages heap_{kHeapBytes};
  Pages memory_;
  Keys keys_;
  std::vector<Queue> queues_;
  std::mutex mutex_;
  std::vector<std::string> errors_;
  std::unique_ptr<Nic> nic_;  // last: destroyed before the memory that it reads
};

}  // namespace gshmem::nic
