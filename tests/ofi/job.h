// PEs as threads of this process over GSHMEM_NIC=ofi, with a queue from each to each. After
// construction all of them are driven by the test's own thread: a Nic needs none of its user.
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

/// What a test runs over.
struct Leg {
  std::string provider, gdr;
  bool mapped = false;  ///< heaps as a GPU's, with a mapping by the double of GDRCopy
  bool busy = false;    ///< the provider refuses about every second call for now
  /// Makes heaps of GPU memory, where the process has a double of the CUDA driver.
  void* (*gpu_memory)(std::size_t bytes) = nullptr;
  bool adverse = false;   ///< operations pass each other
  bool trailing = false;  ///< writes complete before what they have written is visible
  int nics = 1;
  bool by_hand = false;  ///< the test's thread is that of all executors (Pe::round)
  [[nodiscard]] std::string name() const {
    return provider + (gdr == "off" ? " staged" : " RMA") + (mapped ? " by a mapping" : "") +
           (busy ? " while busy" : "") + (adverse ? " in any order" : "") +
           (trailing ? " with data that trails" : "") + (nics > 1 ? " by several NICs" : "");
  }
};
/// tcp, or the providers that the double plays; over RMA and staged.
[[nodiscard]] std::vector<Leg> legs();
/// Staging by a mapping, too, and what the double can make difficult: for what depends on how bytes
/// get into the heap.
[[nodiscard]] std::vector<Leg> data_legs();
/// These, and writes that complete early: for what looks at data after a signal only.
[[nodiscard]] std::vector<Leg> order_legs();
/// The libfabric of this process, when it is the double; else null.
[[nodiscard]] FabricDouble* fabric_double();
/// Says "skipped: ..." and is false where the tests have no libfabric.
[[nodiscard]] bool have_libfabric();
/// The same, and where it is, or is not, the double.
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
  /// Two pages behind its queues, which nobody has registered.
  [[nodiscard]] nic::Region beside() { return beside_; }
  /// One more queue to itself, of a leg by hand, once.
  Client& add_queue();
  [[nodiscard]] nic::Nic& nic() { return *nic_; }
  /// One round of the executor, of a leg by hand, at that time. True when there was something to
  /// do.
  bool round(std::chrono::steady_clock::time_point now = std::chrono::steady_clock::now());
  /// PE and text of every on_error so far.
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
