// PEs as threads of this process over GSHMEM_NIC=ofi, with a queue from each to each. After
// construction the test's own thread drives all of them: a Nic needs no thread of its user.
#pragma once

#include "tests/ofi/client.h"
#include "tests/doubles/fabric/fabric_double.h"

#include "bootstrap/bootstrap.h"
#include "host/base/gpu_mapping.h"
#include "tests/patience.h"

#include <chrono>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace gshmem::test {

/// The configuration that a test runs with.
struct Leg {
  std::string provider, gdr;
  bool mapped = false;  ///< heaps as a GPU's, with a mapping by the double of GDRCopy
  bool busy = false;    ///< the provider refuses about every second call for now
  /// Makes heaps of GPU memory, where the process has a double of the CUDA driver.
  void* (*gpu_memory)(std::size_t bytes) = nullptr;
  bool adverse = false;   ///< operations overtake each other
  bool trailing = false;  ///< writes complete before their data is visible
  int nics = 1;
  bool by_hand = false;  ///< the test's thread runs all executors (Pe::round)
  [[nodiscard]] std::string name() const {
    return provider + (gdr == "off" ? " staged" : " RMA") + (mapped ? " by a mapping" : "") +
           (busy ? " while busy" : "") + (adverse ? " in any order" : "") +
           (trailing ? " with data that trails" : "") + (nics > 1 ? " by several NICs" : "");
  }
};
/// Returns tcp, or the providers that the double plays; over RMA and staged.
[[nodiscard]] std::vector<Leg> legs();
/// Adds staging by a mapping, and the difficulties of the double, for tests that depend on how
/// bytes get into the heap.
[[nodiscard]] std::vector<Leg> data_legs();
/// Adds writes that complete early, for tests that read data only after a signal.
[[nodiscard]] std::vector<Leg> order_legs();
/// Returns the libfabric of this process if it is the double; otherwise null.
[[nodiscard]] FabricDouble* fabric_double();
/// Prints "skipped: ..." and returns false if there is no libfabric.
[[nodiscard]] bool have_libfabric();
/// Also requires that it is, or is not, the double.
[[nodiscard]] bool have_double();
[[nodiscard]] bool have_real_libfabric();

[[nodiscard]] Config config_of(const Leg& leg, double timeout_seconds,
                               std::vector<std::pair<std::string, std::string>> more = {});

inline constexpr std::uint64_t kHeapBytes = 4 << 20;
inline constexpr std::uint32_t kDepth = 256;

/// One PE: its heap, its queues, its NIC.
class Pe {
 public:
  Pe(bootstrap::Bootstrap& boot, const Config& config, std::uint32_t depth = kDepth,
     const Leg& leg = {});
  Pe(const Pe&) = delete;

  [[nodiscard]] std::uint8_t* heap() { return heap_; }
  template <class T>
  [[nodiscard]] T& at(std::uint64_t offset) {
    return *reinterpret_cast<T*>(heap_ + offset);
  }
  Client& to(int pe) { return clients_.at(static_cast<std::size_t>(pe)); }
  /// Returns two pages after its queues, which are not registered.
  [[nodiscard]] nic::Region beside() { return beside_; }
  /// Adds one more queue to itself, once, if the test runs the executors.
  Client& add_queue();
  [[nodiscard]] nic::Nic& nic() { return *nic_; }
  /// Runs one round of the executor at that time. Returns true if there was something to do.
  bool round(std::chrono::steady_clock::time_point now = std::chrono::steady_clock::now());
  /// Returns PE and text of every on_error so far.
  [[nodiscard]] std::vector<std::pair<int, std::string>> errors();

 private:
  std::vector<std::uint8_t> memory_;  ///< heap, then queues
  std::unique_ptr<GpuMapping> mapping_;
  std::uint8_t* heap_ = nullptr;
  std::uint8_t* queues_ = nullptr;
  nic::QueuePlace spare_;
  nic::Region beside_;
  std::mutex mutex_;
  std::vector<std::pair<int, std::string>> errors_;
  std::unique_ptr<nic::Nic> nic_;
  std::deque<Client> clients_;
};

class Job {
 public:
  Job(int size, const Leg& leg, double timeout_seconds = 20 * kPatience,
      std::uint32_t depth = kDepth, std::vector<std::pair<std::string, std::string>> more = {});
  ~Job();
  Job(const Job&) = delete;
  Pe& operator[](int pe) { return *pes_.at(static_cast<std::size_t>(pe)); }

 private:
  std::vector<std::unique_ptr<bootstrap::Bootstrap>> boots_;
  std::vector<std::unique_ptr<Pe>> pes_;
};

}  // namespace gshmem::test
