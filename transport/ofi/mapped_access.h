// Accesses GPU memory by a CPU mapping for a few bytes, and by the copy engine for many; the size
// decides. Included by memory_access.cpp and by tests. Invariant: a copy that is done, by either
// path, is in GPU memory. So other PEs that are notified of it see the data on every path.
#pragma once

#include "host/base/gpu_mapping.h"
#include "transport/ofi/memory_access.h"

namespace gshmem::ofi {

class MappedAccess final : public MemoryAccess {
 public:
  // The limit is well below the size at which both paths cost the same, by the figures that GDRCopy
  // publishes for its copylat (write: 0.1 us for a word, 0.8 us for 8 KiB, 6.4 us for 64 KiB; read:
  // 1.8 us for a word, 3.6 us for 1 KiB, 10.5 us for 4 KiB). A copy engine takes 7 us, but leaves
  // the executor's thread free for other work.
  static constexpr std::size_t kMaxWrite = 8 * 1024;
  static constexpr std::size_t kMaxRead = 1024;

  /// `mapping` is of the same heap and outlives this object. Memory outside of it is accessed by
  /// `engine`.
  MappedAccess(std::unique_ptr<MemoryAccess> engine, const GpuMapping& mapping)
      : engine_(std::move(engine)), mapping_(mapping) {}

  void attach_thread() override { engine_->attach_thread(); }
  Staging allocate(std::size_t bytes) override { return engine_->allocate(bytes); }
  Ticket start_write(std::uint64_t offset, const void* from, std::size_t bytes) override;
  Ticket start_read(std::uint64_t offset, void* to, std::size_t bytes) override;
  void poll() override { engine_->poll(); }
  bool done(Ticket ticket) override;
  /// Reads, modifies and writes the word. This is atomic to all other atomics of this executor,
  /// which executes one at a time, and not to those of the GPU. The read also pushes a NIC's
  /// earlier writes into memory.
  Ticket start_atomic(std::uint64_t offset, const nic::Wqe& wqe, std::uint64_t* old) override;
  bool coherent() const override { return false; }

 private:
  /// Ensures that all writes through the mapping are in GPU memory. This costs one round trip, for
  /// any number of writes.
  void settle();

  std::unique_ptr<MemoryAccess> engine_;
  const GpuMapping& mapping_;
  bool unsettled_ = false;
  std::uint64_t last_written_ = 0;
};

}  // namespace gshmem::ofi
