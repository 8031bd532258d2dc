// The network path of a PE: it reaches the PEs that load/store does not reach, by NICs whose queues
// device code writes to. Included by Pe. Invariant: this object owns everything that the PE's state
// says about queues, and removes it from the state before it is destroyed.
#pragma once

#include <gshmem/abi/state.h>

#include "host/base/config.h"
#include "host/base/gpu_mapping.h"
#include "host/control/plane.h"
#include "host/runtime/gpu/gpu.h"
#include "host/runtime/faults.h"
#include "host/runtime/paths.h"
#include "transport/nic/first_use.h"
#include "transport/nic/queue_set.h"

#include <sys/mman.h>

#include <atomic>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

namespace gshmem {

class Network {
 public:
  /// The object reaches no PE before open(). All arguments outlive it.
  Network(const Config& config, abi::DeviceState& state, Faults& faults)
      : config_(config), state_(state), faults_(faults) {}

  /// These outlive stop().
  struct Outside {
    control::Plane& plane;
    Gpu* gpu;  ///< null in CPU mode
    const Paths& paths;
    const GpuMapping* heap_mapping;
  };
  /// Collective, with heaps mapped: opens the path to the PEs that are not mapped, if there are
  /// any. Errors: those of Nic, GSHMEMX_ERROR_NIC when a queue does not process entries.
  void open(const Outside& outside);
  /// Accepts the request of PE `from` to connect a queue. Called on the plane's thread, at any
  /// time.
  void take(int from, net::ByteView message);
  /// After this no requests are sent to other PEs; messages that arrive later are ignored.
  void stop_first_use() noexcept;
  void stop() noexcept;

  /// Null: all PEs of the job are mapped.
  [[nodiscard]] nic::QueueSet* queues() noexcept { return queues_.get(); }
  /// Does some PE of the job need the network path? Threads: any, at any time.
  [[nodiscard]] bool in_use() const noexcept { return in_use_.load(std::memory_order_relaxed); }
  // For memory of the program, which this PE has mapped at `offset` from its heap. Nothing happens
  // if all PEs are mapped.
  /// Local: makes the memory accessible to its NICs. Errors: those of Nic; then it is not
  /// accessible.
  void register_memory(std::uint64_t offset, std::size_t bytes);
  /// Collective, after register_memory on all PEs: returns the keys by which device code accesses
  /// the memory.
  [[nodiscard]] nic::MemoryKeys::OfRange exchange_keys(std::uint64_t offset);
  /// Returns the size of such keys.
  [[nodiscard]] std::size_t key_bytes() const;
  /// Local: the memory is no longer accessible.
  void unregister_memory(std::uint64_t offset) noexcept;
  // For local memory, while there are queues. Local.
  /// Makes it accessible to the NICs of this PE, and stores their keys. Errors: those of Nic;
  /// GSHMEMX_ERROR_NOT_SUPPORTED for managed memory.
  void register_local(const void* addr, std::size_t bytes, abi::Be32* keys);
  void unregister_local(const void* addr) noexcept;
  /// The queues for GSHMEM_CONTEXTS.
  [[nodiscard]] const std::vector<nic::ContextQueues>& context_queues() const noexcept {
    return context_queues_;
  }
  /// Returns the consumer of the work queues, as a word of GSHMEM_NIC; "none" if all PEs are
  /// mapped.
  [[nodiscard]] std::string name() const;
  /// Returns one line about the path, which must exist.
  [[nodiscard]] std::string text() const;
  /// Returns what the Nic knows about a fault that device code has recorded, or an empty text.
  /// Threads: any.
  [[nodiscard]] std::string explain(const abi::FaultRecord& record) const;

 private:
  [[nodiscard]] control::HostCollectives& ranks() const { return plane_->collectives(); }
  [[nodiscard]] const control::HostGroup& group() const { return plane_->group(); }
  [[nodiscard]] bool open_nics(const nic::Region& heap, bool for_atomics_only, const char* links);
  [[nodiscard]] nic::MemorySource memory_source();
  /// Returns memory of this PE, in its heap or outside.
  [[nodiscard]] nic::Region region_at(std::uint64_t offset, std::uint64_t bytes) const;
  [[nodiscard]] std::uint64_t offset_of(const void* addr) const;
  [[nodiscard]] void* host_pages(std::size_t bytes);
  [[nodiscard]] bool inbound_trails() const;
  /// Tests each Nic with a NOP, first rung by device code, then by the agent. Errors:
  /// GSHMEMX_ERROR_NIC if neither is processed.
  void prove();
  [[nodiscard]] std::string try_queues();
  void start_first_use();

  const Config& config_;
  abi::DeviceState& state_;
  Faults& faults_;
  control::Plane* plane_ = nullptr;
  Gpu* gpu_ = nullptr;
  /// For CPU mode: work queues and their views.
  struct Unmap {
    std::size_t bytes;
    void operator()(void* memory) const noexcept { ::munmap(memory, bytes); }
  };
  std::vector<std::unique_ptr<void, Unmap>> memory_;
  /// Guards the two members that other threads use while this one destroys them.
  mutable std::mutex mutex_;
  nic::Rails nics_;  ///< ... to explain faults; empty: all PEs are mapped
  std::unique_ptr<nic::QueueSet> queues_;
  std::atomic<bool> in_use_{false};
  std::unique_ptr<nic::FirstUse> first_use_;  ///< ... for messages; null: init creates all queues
  std::vector<nic::ContextQueues> context_queues_;
};

}  // namespace gshmem
