// The network path of a PE: what reaches the PEs that load/store does not, by NICs whose queues
// device code writes to. Included by Pe. Invariant: what device code finds in the PE's state about
// queues is owned here, and is gone from the state before it goes.
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

#include <memory>
#include <mutex>
#include <string>
#include <vector>

namespace gshmem {

class Network {
 public:
  /// Reaches no PE yet. All outlive this object.
  Network(const Config& config, abi::DeviceState& state, Faults& faults)
      : config_(config), state_(state), faults_(faults) {}

  /// Outlive stop().
  struct Outside {
    control::Plane& plane;
    Gpu* gpu;  ///< null in CPU mode
    const Paths& paths;
    const GpuMapping* heap_mapping;
  };
  /// Collective, with heaps mapped: the way to the PEs that are not mapped, where there are some.
  /// Errors: what the Nic throws, GSHMEMX_ERROR_NIC when a queue is not worked off.
  void open(const Outside& outside);
  /// Another PE asks for a queue. On the plane's thread, at any time.
  void take(int from, net::ByteView letter);
  /// Nothing is asked of other PEs any more; letters that come later find nobody.
  void stop_first_use() noexcept;
  void stop() noexcept;

  /// Null: all PEs of the job are mapped.
  [[nodiscard]] nic::QueueSet* queues() noexcept { return queues_.get(); }
  /// Some PE of the job needs it.
  [[nodiscard]] bool in_use() const noexcept { return queues_ != nullptr; }
  // Memory of the program, which this PE has mapped at `offset` from its heap. Nothing happens
  // where all PEs are mapped.
  /// Local: its NICs reach it. Errors: what the Nic throws; then they do not.
  void register_memory(std::uint64_t offset, std::size_t bytes);
  /// Collective, after that on all PEs: the keys by which device code reaches it, into the row.
  void exchange_keys(std::uint64_t offset, abi::RegisteredRange& row);
  /// Local: nothing reaches it any more.
  void unregister_memory(std::uint64_t offset) noexcept;
  /// Those of GSHMEM_CONTEXTS.
  [[nodiscard]] const std::vector<nic::ContextQueues>& context_queues() const noexcept {
    return context_queues_;
  }
  /// The consumer of the work queues, as a word of GSHMEM_NIC; "none" where all PEs are mapped.
  [[nodiscard]] std::string name() const;
  /// One line about the way; there is one.
  [[nodiscard]] std::string text() const;
  /// What the Nic knows about a fault that device code has recorded, or empty. Any thread.
  [[nodiscard]] std::string explain(const abi::FaultRecord& record) const;

 private:
  [[nodiscard]] control::HostCollectives& ranks() const { return plane_->collectives(); }
  [[nodiscard]] const control::HostGroup& group() const { return plane_->group(); }
  [[nodiscard]] bool open_nics(const nic::Region& heap, bool for_atomics_only, const char* links);
  [[nodiscard]] nic::MemorySource memory_source();
  /// Memory of this PE, its heap's or beside it.
  [[nodiscard]] nic::Region region_at(std::uint64_t offset, std::uint64_t bytes) const;
  [[nodiscard]] void* host_pages(std::size_t bytes);
  void warn_of_order() const;
  /// A NOP by each Nic, as device code rings, else as the agent does. Errors: GSHMEMX_ERROR_NIC
  /// where neither is worked off.
  void prove();
  [[nodiscard]] std::string try_queues();
  void start_first_use();

  const Config& config_;
  abi::DeviceState& state_;
  Faults& faults_;
  control::Plane* plane_ = nullptr;
  Gpu* gpu_ = nullptr;
  /// CPU mode: work queues and their views.
  struct Unmap {
    std::size_t bytes;
    void operator()(void* memory) const noexcept { ::munmap(memory, bytes); }
  };
  std::vector<std::unique_ptr<void, Unmap>> memory_;
  mutable std::mutex mutex_;  ///< of the two that other threads use while this one ends them
  nic::Rails nics_;           ///< ... to explain faults; empty: all PEs are mapped
  std::unique_ptr<nic::QueueSet> queues_;
  std::unique_ptr<nic::FirstUse> first_use_;  ///< ... with letters; null: init makes all queues
  std::vector<nic::ContextQueues> context_queues_;
};

}  // namespace gshmem
