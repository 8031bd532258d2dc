// The interface of a libfabric.so.1 that moves data between endpoints of one process, in the most
// adverse order that providers may have (wire.cpp). Tests and perftests of the executor use it
// without a network: it has the rules that a test sets, and the record of calls. Programs without
// test code set rules by FABRIC_DOUBLE:
//   LD_LIBRARY_PATH=build/release/lib/fabric_double FABRIC_DOUBLE=rtt=15us,jitter=5us
//   GSHMEM_NIC=ofi ...
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

namespace gshmem::test {

struct FabricDouble {
  enum Call { kReceive, kSend, kRead, kWrite, kFetchAtomic, kCompareAtomic, kCalls };

  // Rules. Times are nanoseconds.
  std::atomic<std::int64_t> rtt{0};     ///< of every operation; it arrives after half of it
  std::atomic<std::int64_t> jitter{0};  ///< random extra time: operations overtake each other
  /// A completion may come before the data is visible, by up to this time. Any later arrival by the
  /// same NIC makes it visible, as on PCIe: queue entries in host memory flush data in host memory,
  /// reads flush everything.
  std::atomic<std::int64_t> trail{0};
  std::atomic<unsigned> busy{0};  ///< percent of posting calls that return -FI_EAGAIN
  std::atomic<unsigned> seed{1};
  std::atomic<int> no_atomics_of{0};   ///< words of this many bytes
  std::atomic<int> nics{1};            ///< NICs that fi_getinfo offers for each provider
  std::atomic<std::size_t> places{0};  ///< operations at an endpoint; 0: the usual number
  std::atomic<bool> hmem{true};        ///< providers with FI_HMEM have it
  std::atomic<std::uint64_t> register_at_most{~std::uint64_t{0}};          ///< bytes of GPU memory
  std::atomic<std::uint64_t> register_at_most_of_host{~std::uint64_t{0}};  ///< bytes of host memory
  std::atomic<bool> knows_inject_of_rma{true};  ///< efa has FI_OPT_INJECT_RMA_SIZE
  std::atomic<bool> permits_cuda{true};         ///< FI_OPT_CUDA_API_PERMITTED may be set to false
  std::atomic<bool> no_memory{false};           ///< no memory for a fi_info
  /// Arrivals at the endpoint whose domain has registered this address wait until it is null.
  std::atomic<const void*> held{nullptr};
  std::atomic<std::int64_t> hold{-1};  ///< the longest time that they wait; -1: no limit
  /// The next `errors` operations, except receives, end with this error.
  std::atomic<int> error{0}, errors{0};
  static constexpr int kNoNumber = -1;  ///< an error whose number is 0
  static constexpr const char* kDetail = "the double's error";
  std::atomic<const char*> detail{kDetail};  ///< the provider's text for an error
  std::atomic<int> refusal{0};               ///< the next call except receives returns this error
  std::atomic<int> receive_refusal{0};       ///< the next receive returns this error
  std::atomic<int> broken{0};    ///< the error of the completion queues themselves; 0: none
  std::atomic<int> no_error{0};  ///< the next read of an operation's error returns this one
  /// Returns the address by which memory of a GPU is accessed; null: its own address.
  std::atomic<void* (*)(void*)> gpu_view{nullptr};

  /// Are calls recorded (calls, sent)?
  std::atomic<bool> journals{false};

  // Records.
  std::array<std::atomic<std::uint64_t>, kCalls> taken{}, refused{};
  std::atomic<std::uint64_t> more{0}, injected{0}, immediate{0};  ///< calls with these flags
  std::atomic<std::uint64_t> doorbells{0};   ///< calls after which no call waits for FI_MORE
  std::atomic<std::uint64_t> cuda_calls{0};  ///< that the provider would make from data calls
  /// First operations of an endpoint to a peer, at which providers make connections.
  std::atomic<std::uint64_t> connections{0};
  std::atomic<std::uint64_t> universe{0};  ///< FI_UNIVERSE_SIZE when a domain was opened, 0: none

  /// Providers that fi_getinfo offers, best first: names of profiles.cpp.
  [[nodiscard]] std::vector<std::string> offered() {
    const std::lock_guard lock(mutex_);
    return providers_;
  }
  void offer(std::vector<std::string> providers) {
    const std::lock_guard lock(mutex_);
    providers_ = std::move(providers);
  }
  /// Returns the violations, each once: unregistered memory, missing receives, queues that
  /// overflow.
  [[nodiscard]] std::vector<std::string> violations() {
    const std::lock_guard lock(mutex_);
    return violations_;
  }
  void violation(const std::string& what) {
    const std::lock_guard lock(mutex_);
    const auto known = std::find(violations_.begin(), violations_.end(), what);
    if (known == violations_.end()) violations_.push_back(what);
  }
  /// Returns calls with their arguments, and sent messages, since the last call.
  [[nodiscard]] std::vector<std::string> calls() {
    const std::lock_guard lock(mutex_);
    return std::exchange(calls_, {});
  }
  [[nodiscard]] std::vector<std::vector<std::uint8_t>> sent() {
    const std::lock_guard lock(mutex_);
    return std::exchange(sent_, {});
  }
  void note(const std::string& call) {
    if (!journals) return;
    const std::lock_guard lock(mutex_);
    calls_.push_back(call);
  }
  void note_sent(const std::vector<std::uint8_t>& message) {
    if (!journals) return;
    const std::lock_guard lock(mutex_);
    sent_.push_back(message);
  }
  /// Clears rules and records.
  void reset() {
    rtt = jitter = trail = 0;
    busy = 0;
    seed = 1;
    nics = 1;
    places = 0;
    no_atomics_of = 0;
    hmem = permits_cuda = true;
    register_at_most = register_at_most_of_host = ~std::uint64_t{0};
    knows_inject_of_rma = true;
    no_memory = false;
    held = nullptr;
    hold = -1;
    error = errors = refusal = receive_refusal = broken = no_error = 0;
    detail = kDetail;
    gpu_view = nullptr;
    journals = false;
    for (auto* const counts : {&taken, &refused})
      for (auto& count : *counts) count = 0;
    more = injected = immediate = doorbells = cuda_calls = connections = universe = 0;
    offer({"efa"});
    const std::lock_guard lock(mutex_);
    violations_.clear();
    calls_.clear();
    sent_.clear();
  }

 private:
  std::mutex mutex_;
  std::vector<std::string> providers_, violations_, calls_;
  std::vector<std::vector<std::uint8_t>> sent_;
};

/// Exported by the double.
using FabricDoubleRecord = FabricDouble*();

}  // namespace gshmem::test
