// Memory that delays stores as far as a GPU may. A store waits in its thread's buffer, is then seen
// by all threads of the GPU, and later by the system (a NIC that reads host memory). Which store
// goes when is random. Only stores to the same bytes keep their order, a release follows all
// earlier stores of its thread, and a fence waits. An atomic without a result moves like a store,
// and is executed when it leaves the buffer. Loads are executed in program order:
// tests/model/queue.pml (SPLIT_POLL) and ThreadSanitizer cover reordered loads.
#pragma once

#include "tests/model/store_buffer/random.h"

#include <cstddef>
#include <cstdint>
#include <vector>

namespace gshmem::model {

/// Which observers see a store.
enum class View { kGpu, kSystem };
enum class Order { kRelaxed, kReleaseGpu, kReleaseSystem };
/// How a store changes the old value. All but the first have 4 or 8 bytes.
enum class Update { kReplace, kAdd, kMax, kAnd, kOr, kXor };

/// Bytes are in the process's memory after the system sees them, and pending until then.
class Memory {
 public:
  Memory(std::size_t buffers, Random& random) : random_(random), buffers_(buffers) {}
  [[nodiscard]] std::size_t buffers() const { return buffers_.size(); }

  /// Loads what a thread sees: its own stores, and those that have left their buffers. At most 64
  /// bytes.
  void load(std::size_t buffer, const void* p, void* to, std::size_t bytes);
  void store(std::size_t buffer, void* p, const void* from, std::size_t bytes, Order order,
             Update update = Update::kReplace);
  /// Lets the thread's own stores to these bytes leave the buffer, so that an atomic may be
  /// executed.
  void settle(std::size_t buffer, const void* p, std::size_t bytes);
  /// Stores the result of an atomic, which the GPU sees at once.
  void store_for_gpu(void* p, const void* from, std::size_t bytes);

  /// Lets the GPU see some store of the buffer; returns false if there is none.
  bool leave_one(std::size_t buffer);
  /// Lets the system see some store that the GPU sees.
  bool arrive_one();
  /// Counts stores that the GPU sees; passed() counts those up to which the system has seen all.
  [[nodiscard]] std::uint64_t left() const { return left_; }
  [[nodiscard]] bool passed(std::uint64_t left) const;
  [[nodiscard]] bool settled() const;

  /// Accesses of a NIC. Its stores are not delayed.
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
