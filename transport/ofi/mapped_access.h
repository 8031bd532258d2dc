// GPU memory by a CPU mapping for a few bytes, by the copy engine for many: which one is a matter
// of size. Included by memory_access.cpp and by tests. Invariant: a copy that is done, by either
// way, is in GPU memory. So what is told to other PEs about it is true whichever way they look.
#pragma once

#include "host/base/gpu_mapping.h"
#include "transport/ofi/memory_access.h"

namespace gshmem::ofi {

class MappedAccess final : public MemoryAccess {
 public:
  // Where the two ways cost the same, by the figures that GDRCopy publishes for its copylat (write:
  // 0.1 us for a word, 0.8 us for 8 KiB, 6.4 us for 64 KiB; read: 1.8 us for a word, 3.6 us for 1
  // KiB, 10.5 us for 4 KiB). A copy engine takes 7 us, but leaves the executor's thread free for
  // other work: so well below the lines' crossing.
  static constexpr std::size_t kMaxWrite = 8 * 1024;
  static constexpr std::size_t kMaxRead = 1024;

  /// `mapping`, of the same heap, lives longer. What is beyond it is the engine's.
  MappedAccess(std::unique_ptr<MemoryAccess> engine, const GpuMapping& mapping)
      : engine_(std::move(engine)), mapping_(mapping) {}

  void attach_thread() override { engine_->attach_thread(); }
  Staging allocate(std::size_t bytes) override { return engine_->allocate(bytes); }
  Ticket start_write(std::uint64_t offset, const void* from, std::size_t bytes) override;
  Ticket start_read(std::uint64_t offset, void* to, std::size_t bytes) override;
  void poll() override { engine_->poll(); }
  bool done(Ticket ticket) override;
  /// Read, change, write: atomic to all others of this executor, which does one at a time, and not
  /// to those of the GPU. The read also pushes what a NIC has written before into memory.
  Ticket start_atomic(std::uint64_t offset, const nic::Wqe& wqe, std::uint64_t* old) override;
  bool coherent() const override { return false; }

 private:
  /// All writes by the mapping are in GPU memory. One round trip, for however many there were.
  void settle();

  std::unique_ptr<MemoryAccess> engine_;
  const GpuMapping& mapping_;
  bool unsettled_ = false;
  std::uint64_t last_written_ = 0;
};

}  // namespace gshmem::ofi
