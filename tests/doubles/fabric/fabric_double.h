// The other side of a libfabric.so.1 that moves data between endpoints of one process, as adverse
// as providers may be (wire.cpp), for tests and perftests of the executor without a network: what
// it shall do, and what it saw. Programs without tests in them set rules by FABRIC_DOUBLE:
//
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
  std::atomic<std::int64_t> rtt{0};  ///< of every operation; arrivals are half of it after the call
  std::atomic<std::int64_t> jitter{0};  ///< up to so much more, drawn for each: they pass others
  /// A completion does not wait until what was written is visible, which takes up to so much more.
  /// Whatever arrives later by the same NIC makes it visible, as PCIe has it: entries of queues in
  /// host memory what is in host memory, reads everything.
  std::atomic<std::int64_t> trail{0};
  std::atomic<unsigned> busy{0};  ///< percent of calls that post which get -FI_EAGAIN
  std::atomic<unsigned> seed{1};
  std::atomic<int> no_atomics_of{0};   ///< words of so many bytes
  std::atomic<int> nics{1};            ///< that fi_getinfo offers of each provider
  std::atomic<std::size_t> places{0};  ///< of operations at an endpoint; 0: as many as usual
  std::atomic<bool> hmem{true};        ///< providers with FI_HMEM have it
  std::atomic<std::uint64_t> register_at_most{~std::uint64_t{0}};          ///< bytes of GPU memory
  std::atomic<std::uint64_t> register_at_most_of_host{~std::uint64_t{0}};  ///< the same
  std::atomic<bool> knows_inject_of_rma{true};  ///< efa has FI_OPT_INJECT_RMA_SIZE
  std::atomic<bool> permits_cuda{true};         ///< FI_OPT_CUDA_API_PERMITTED may be set to false
  std::atomic<bool> no_memory{false};           ///< for a fi_info
  /// What arrives at the endpoint whose domain has registered this address waits until it is null.
  std::atomic<const void*> held{nullptr};
  std::atomic<std::int64_t> hold{-1};  ///< not for ever, but so long
  /// The next operations but receives end with this error, so many.
  std::atomic<int> error{0}, errors{0};
  static constexpr int kNoNumber = -1;  ///< an error whose number is 0
  static constexpr const char* kDetail = "the double's error";
  std::atomic<const char*> detail{kDetail};  ///< what the provider has to say of an error
  std::atomic<int> refusal{0};          ///< the next call that is no receive returns this error
  std::atomic<int> receive_refusal{0};  ///< the next receive
  std::atomic<int> broken{0};    ///< the error that completion queues have themselves; 0: none
  std::atomic<int> no_error{0};  ///< the next look at an error of an operation returns this one
  /// By which memory of a GPU is read and written; null: by its address.
  std::atomic<void* (*)(void*)> gpu_view{nullptr};

  /// Whether calls are written down (calls, sent).
  std::atomic<bool> journals{false};

  // Records.
  std::array<std::atomic<std::uint64_t>, kCalls> taken{}, refused{};
  std::atomic<std::uint64_t> more{0}, injected{0}, immediate{0};  ///< calls with these flags
  std::atomic<std::uint64_t> doorbells{0};   ///< calls after which nothing waits for FI_MORE
  std::atomic<std::uint64_t> cuda_calls{0};  ///< that such a provider would make from data calls
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
  /// What nobody may do: memory that is not registered, receives that are too few, queues that
  /// overflow. Each once.
  [[nodiscard]] std::vector<std::string> violations() {
    const std::lock_guard lock(mutex_);
    return violations_;
  }
  void violation(const std::string& what) {
    const std::lock_guard lock(mutex_);
    const auto known = std::find(violations_.begin(), violations_.end(), what);
    if (known == violations_.end()) violations_.push_back(what);
  }
  /// Calls with their arguments, and messages that were sent, since these were asked for.
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
  /// No rules, no records.
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
