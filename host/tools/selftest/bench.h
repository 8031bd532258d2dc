// A job of one PE whose only path to itself is the network, for one check of --nic-selftest, with
// the contents of its memory. Included by the checks. Invariant: nothing that a check provokes
// outlives its Bench.
#pragma once

#include "host/tools/selftest/selftest.h"
#include "host/runtime/pe.h"

#include <gshmem/device/core/call_record.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace gshmem::selftest {

/// Thrown when a check has failed, with the reason.
struct CheckFailed {
  std::string why;
};

using Bytes = std::vector<std::uint8_t>;

class Bench {
 public:
  /// Errors: those of init.
  explicit Bench(const Config& config);

  [[nodiscard]] const abi::DeviceState& state() const { return pe_->state(); }
  [[nodiscard]] bool on_gpu() const { return pe_->gpu() != nullptr; }
  [[nodiscard]] bool is_card() const { return pe_->config().nic != NicKind::kSoft; }
  [[nodiscard]] std::string network() const { return pe_->network().text(); }
  /// Returns the address of zeroed symmetric memory, as calls take it.
  [[nodiscard]] char* at(std::uint64_t offset) const;
  static constexpr std::uint64_t kBytes = 8 << 20;

  /// Executes the call like the first thread of a kernel. Throws CheckFailed with its fault.
  std::uint64_t run(const device::Call& call);
  void put(void* dest, const void* source, std::size_t bytes);
  void get(void* dest, const void* source, std::size_t bytes);
  void quiet();
  /// The result of error_of(): the error completion of the first queue after `provoke`, and the
  /// message. error_of() throws CheckFailed when there is no error.
  struct Met {
    abi::CompletionEntry completion;
    std::string message;
  };
  [[nodiscard]] Met error_of(const std::function<void()>& provoke);
  /// Changes the view of the first queue, which later calls use.
  void change_queue(const std::function<void(abi::QueueView&)>& change);

  void store(std::uint64_t offset, const Bytes& bytes);
  [[nodiscard]] Bytes load(std::uint64_t offset, std::size_t bytes) const;
  [[nodiscard]] std::uint64_t load_word(std::uint64_t offset) const;

 private:
  void look_for_fault(const char* call) const;
  void copy(void* to, const void* from, std::size_t bytes) const;
  std::unique_ptr<Pe> pe_;
};

/// Two offsets in its symmetric memory, for 2 MiB each.
inline constexpr std::uint64_t kSource = 1 << 20, kDest = 3 << 20;

/// Returns bytes that differ from their neighbours and from those of another seed.
[[nodiscard]] Bytes pattern(std::size_t bytes, unsigned seed);
/// Throws CheckFailed, which says where the bytes begin to differ.
void expect_equal(const std::string& what, const Bytes& got, const Bytes& expected);
/// Does what expect_equal does, for a value. The error says if its bytes are in reverse order.
void expect_word(const std::string& what, std::uint64_t got, std::uint64_t expected,
                 std::uint32_t width);

/// Returns the text of a check that succeeds.
using Check = std::string (*)(Bench& bench);

// After each of these checks its Bench may be unusable.
[[nodiscard]] std::string check_transfers(Bench& bench);
[[nodiscard]] std::string check_inline(Bench& bench);
[[nodiscard]] std::string check_atomics_4(Bench& bench);
[[nodiscard]] std::string check_atomics_8(Bench& bench);
[[nodiscard]] std::string check_signals(Bench& bench);
[[nodiscard]] std::string check_wrap(Bench& bench);
[[nodiscard]] std::string check_doorbell_alone(Bench& bench);
[[nodiscard]] std::string check_record_first(Bench& bench);
[[nodiscard]] std::string check_order(Bench& bench);
[[nodiscard]] std::string check_beyond_the_heap(Bench& bench);
[[nodiscard]] std::string check_bad_remote_key(Bench& bench);
[[nodiscard]] std::string check_bad_local_key(Bench& bench);
[[nodiscard]] std::string check_unaligned_atomic(Bench& bench);
[[nodiscard]] std::string check_entries_after_an_error(Bench& bench);
[[nodiscard]] std::string measure_latency(Bench& bench);
[[nodiscard]] std::string measure_rate(Bench& bench);
[[nodiscard]] std::string measure_bandwidth(Bench& bench);

}  // namespace gshmem::selftest
