// One thread of the PE in the model: random calls of device/network/network_path.h. Each is checked
// against the memory when the call, a signal or a quiet guarantees it.
#pragma once

#define GSHMEM_MACHINE <tests/model/store_buffer/machine.h>

#include "tests/model/store_buffer/nic.h"

#include <gshmem/device/api/burst.h>
#include <gshmem/device/ops/order.h>

#include <array>
#include <cstdint>
#include <deque>
#include <string>
#include <vector>

namespace gshmem::model {

// A thread's part of every heap: sources of its puts, destinations of its gets, words for its
// atomics, and a signal for each put.
inline constexpr std::uint64_t kSlots = 8, kSlotBytes = 512;
inline constexpr std::uint64_t kLanding = kSlots * kSlotBytes;
inline constexpr std::uint64_t kWords = kLanding + kSlotBytes;
inline constexpr std::uint64_t kSignals = kWords + 64;
inline constexpr std::uint64_t kPartBytes = 8192;

/// Data that must be at the target before a signal.
struct Payload {
  std::uint64_t at, bytes;
  /// If it used another queue than its signal: that queue, and the position after it.
  std::size_t queue = 0;
  std::uint64_t position = 0;
};
/// The data that a thread has put to a PE, and what its signals guarantee.
struct Shadow {
  std::array<char, kPartBytes> part{};
  /// The payloads before the next updates of each signal.
  std::array<std::deque<std::vector<Payload>>, kSlots> signalled;
};

/// Shared by the threads of a run.
struct Job {
  /// Two states of the same queues; a thread changes from one to the other when all that it posted
  /// is done.
  std::array<device::State*, 2> states;
  Heaps* heaps;
  Nic* nic;
  std::vector<std::vector<Shadow>> shadows;           ///< by thread and PE
  std::vector<std::vector<std::uint64_t>> announced;  ///< additions issued, by thread and PE
  std::uint32_t calls;
  bool small_only;  ///< only calls that lanes of a warp make together
  bool crowded;     ///< few entries, and all threads on one queue
  bool scarce;      ///< one scratch slot for all threads
  bool fails;
  std::uint64_t start = 0;  ///< first count of the queues
  std::uint64_t met = 0;    ///< threads, over all synchronizations

  [[nodiscard]] static std::uint64_t part_of(std::size_t thread) {
    return abi::kInternalBytes + thread * kPartBytes;
  }
  [[nodiscard]] char* remote(std::size_t thread, int pe) const {
    return heaps->remote[static_cast<std::size_t>(pe)].data() + thread * kPartBytes;
  }
  /// Called before the NIC updates the word: if it is a signal, its payload must have arrived.
  void check_signal(int pe, std::uint64_t offset);
};

class Producer {
 public:
  Producer(Job& job, std::size_t self) : job_(job), state_(job.states[0]), self_(self) {}
  void run();

 private:
  using Bytes = std::vector<char>;
  enum class Source { kAny, kHeap };
  void call();
  void synchronize();
  void small_call();
  void crowded_call();
  void put_from_heap();
  void put_from_stack();
  void put_waiting();
  void p();
  template <class T>
  void p_of();
  void put_signal(Source source);
  void burst();
  std::uint64_t expect_update(bool adds, const std::vector<Payload>& behind);
  void put_fence_signal();
  void put_before_get();
  void get();
  void get_one();
  void add_and_announce();
  void atomic8();
  void atomic4();
  template <class T>
  void amo_of(std::uint64_t at);
  void amo();
  void quiet();

  Shadow& shadow() { return job_.shadows[self_][static_cast<std::size_t>(pe_)]; }
  [[nodiscard]] char* local(std::uint64_t at) const {
    return state_->heap + Job::part_of(self_) + at;
  }
  Bytes pattern(std::uint32_t bytes);
  std::uint64_t next_slot();
  void fill(std::uint64_t at, const Bytes& bytes);
  void expect(std::uint64_t at, const char* bytes, std::size_t n);
  void check(std::uint64_t at, std::size_t n, const char* call);
  void check_got(const char* got, std::uint64_t at, std::size_t n, const char* call);
  [[nodiscard]] bool over() const { return device::load_relaxed(&state_->control->stop) != 0; }

  Job& job_;
  const device::State* state_;  ///< the current one
  std::size_t self_;
  int pe_ = 0;              ///< of the current call
  std::uint64_t slot_ = 0;  ///< the last one used
  std::uint64_t used_ = 0;  ///< slots since the last quiet
  std::uint8_t pattern_ = 0;
};

}  // namespace gshmem::model
