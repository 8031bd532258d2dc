// PEs as threads of this process over GSHMEM_NIC=ofi, with a queue from each to each. After
// construction all of them are driven by the test's own thread: a Nic needs none of its user.
#pragma once

#include "tests/ofi/busy_double.h"
#include "tests/ofi/client.h"

#include "bootstrap/bootstrap.h"
#include "host/base/gpu_mapping.h"
#include "tests/patience.h"

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
  [[nodiscard]] std::string name() const {
    return provider + (gdr == "off" ? " staged" : " RMA") + (mapped ? " by a mapping" : "") +
           (busy ? " while busy" : "");
  }
};
/// Both providers and both paths.
[[nodiscard]] std::vector<Leg> legs();
/// Staging by a mapping, too, and a busy provider: for what depends on how bytes get into the heap.
[[nodiscard]] std::vector<Leg> data_legs();
/// Says "skipped: ..." and is false where the tests have no libfabric.
[[nodiscard]] bool have_libfabric();

[[nodiscard]] Config config_of(const Leg& leg, double timeout_seconds,
                               std::vector<std::pair<std::string, std::string>> more = {});

inline constexpr std::uint64_t kHeapBytes = 4 << 20;
inline constexpr std::uint32_t kDepth = 256;

/// One PE: its heap, its queues, its NIC.
class Pe {
 public:
  Pe(bootstrap::Bootstrap& boot, const Config& config, std::uint32_t depth = kDepth,
     const Leg& leg = {});
  ~Pe();
  Pe(const Pe&) = delete;

  [[nodiscard]] std::uint8_t* heap() { return heap_; }
  template <class T>
  [[nodiscard]] T& at(std::uint64_t offset) {
    return *reinterpret_cast<T*>(heap_ + offset);
  }
  Client& to(int pe) { return clients_.at(static_cast<std::size_t>(pe)); }
  [[nodiscard]] nic::Nic& nic() { return *nic_; }
  /// PE and text of every on_error so far.
  [[nodiscard]] std::vector<std::pair<int, std::string>> errors();

 private:
  std::vector<std::uint8_t> memory_;  ///< heap, then queues
  std::unique_ptr<GpuMapping> mapping_;
  std::uint8_t* heap_ = nullptr;
  std::uint8_t* queues_ = nullptr;
  std::mutex mutex_;
  std::vector<std::pair<int, std::string>> errors_;
  std::unique_ptr<nic::Nic> nic_;
  std::deque<Client> clients_;
};

class Job {
 public:
  Job(int size, const Leg& leg, double timeout_seconds = 20 * kPatience,
      std::uint32_t depth = kDepth);
  Pe& operator[](int pe) { return *pes_.at(static_cast<std::size_t>(pe)); }

 private:
  std::optional<BusyDouble> busy_;
  std::vector<std::unique_ptr<bootstrap::Bootstrap>> boots_;
  std::vector<std::unique_ptr<Pe>> pes_;
};

}  // namespace gshmem::test
