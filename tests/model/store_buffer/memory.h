// Memory that delays stores as far as a GPU may: a store waits in its thread's buffer, then is seen
// by all threads of the GPU, later by the system (a NIC that reads host memory). Which store goes
// when is random; only stores to the same bytes keep their order, a release stays behind all that
// its thread stored before, and a fence waits. An atomic without a result goes as a store does, and
// is made when it leaves. Loads are made in program order: what reordered
// loads do is left to tests/model/queue.pml (SPLIT_POLL) and ThreadSanitizer.
#pragma once

#include "tests/model/store_buffer/random.h"

#include <cstddef>
#include <cstdint>
#include <vector>

namespace gshmem::model {

/// Who sees a store.
enum class View { kGpu, kSystem };
enum class Order { kRelaxed, kReleaseGpu, kReleaseSystem };
/// What a store makes of the value that is there. All but the first are of 4 or 8 bytes.
enum class Update { kReplace, kAdd, kMax, kAnd, kOr, kXor };

/// Bytes are in the process's memory once the system sees them, on the way until then.
class Memory {
 public:
  Memory(std::size_t buffers, Random& random) : random_(random), buffers_(buffers) {}
  [[nodiscard]] std::size_t buffers() const { return buffers_.size(); }

  /// What a thread sees: its own stores, and those that have left their buffers. At most 64 bytes.
  void load(std::size_t buffer, const void* p, void* to, std::size_t bytes);
  void store(std::size_t buffer, void* p, const void* from, std::size_t bytes, Order order,
             Update update = Update::kReplace);
  /// Own stores to these bytes have left the buffer: an atomic may be made.
  void settle(std::size_t buffer, const void* p, std::size_t bytes);
  /// The result of an atomic, which the GPU sees at once.
  void store_for_gpu(void* p, const void* from, std::size_t bytes);

  /// Some store of the buffer is now seen by the GPU; false: there is none.
  bool leave_one(std::size_t buffer);
  /// Some store that the GPU sees is now seen by the system.
  bool arrive_one();
  /// Counts stores that the GPU sees; passed() those up to which the system has seen all.
  [[nodiscard]] std::uint64_t left() const { return left_; }
  [[nodiscard]] bool passed(std::uint64_t left) const;
  [[nodiscard]] bool settled() const;

  /// A NIC's accesses. Its stores are not delayed.
  void nic_load(View view, const void* p, void* to, std::size_t bytes) const;
  void nic_store(void* p, const void* from, std::size_t bytes);

 private:
  struct Store {
    std::uintptr_t at;
    std::size_t bytes;
    Order order;
    Update update;
    std::uint64_t number;
    std::uint8_t data[64];
  };
  using Stores = std::vector<Store>;
  static Store make(void* p, const void* from, std::size_t bytes, Order order, Update update);
  static bool overlap(const Store& store, std::uintptr_t at, std::size_t bytes);
  static void overlay(const Stores& stores, const void* p, void* to, std::size_t bytes);
  void settle_updates(std::size_t buffer, const void* p, std::size_t bytes);
  void apply(Store& store) const;
  static std::size_t first_to_go(const Stores& stores, std::size_t wanted);
  void leave(Stores& stores, std::size_t at);
  void arrive(std::size_t at);

  Random& random_;
  std::vector<Stores> buffers_;
  Stores gpu_;
  std::uint64_t left_ = 0;
};

}  // namespace gshmem::model
