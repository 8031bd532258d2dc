// GPU memory as the CPU reaches it by loads and stores, through GDRCopy's write-combining mapping
// of the GPU's window on PCI: a few bytes cost a microsecond, where the copy engine takes ten.
// Included by the runtime, which maps the PE's heap, and by what moves bytes in it. Invariant: a
// GpuMapping is mapped from construction to destruction, and leaves nothing pinned. Order. Stores
// go to a write-combining buffer and from there, posted, over PCIe. Each write() ends with a store
// fence, which empties the buffer: what one thread has written it stores before anything that it
// stores later, a signal say. A write is at its target when a read after it has returned (PCI
// Express base specification, 2.4.1: a read does not pass a posted write); settle() is that read.
// The copy engine and other ways into the GPU come after a write only then.
#pragma once

#include "host/base/config.h"
#include "host/base/gdrapi.h"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

namespace gshmem {

class GpuMapping {
 public:
  /// Memory of a GPU of this process, both in whole pages of 64 KiB. Errors: GSHMEMX_ERROR_SYSTEM
  /// with the call that failed and its code; GSHMEMX_ERROR_NOT_SUPPORTED without the kernel module.
  GpuMapping(gdr::Library library, void* base, std::uint64_t bytes);
  ~GpuMapping();
  GpuMapping(const GpuMapping&) = delete;

  // Threads: any, several at a time, as with memory: what two write to the same bytes is one or the
  // other. Offsets are from `base` and in range: callers check. Aligned words of 2, 4 and 8 bytes
  // are stored and loaded in one piece, because kernels and hosts poll them.
  /// Errors: GSHMEMX_ERROR_SYSTEM.
  void write(std::uint64_t offset, const void* from, std::size_t bytes) const;
  /// Slow: each 64 bytes at most are a round trip over PCIe. Errors: GSHMEMX_ERROR_SYSTEM.
  void read(std::uint64_t offset, void* to, std::size_t bytes) const;
  /// An aligned word of `width` bytes (1, 2, 4, 8), zero-extended.
  [[nodiscard]] std::uint64_t load(std::uint64_t offset, std::size_t width) const noexcept;
  /// Earlier writes of this thread are in GPU memory; `offset` is of one of the bytes.
  void settle(std::uint64_t offset) const noexcept;

  [[nodiscard]] std::uint64_t bytes() const noexcept { return bytes_; }
  /// Whether a whole object is in it, and where.
  [[nodiscard]] bool holds(const void* address, std::size_t bytes, std::uint64_t* offset) const;

 private:
  void map();
  void release() noexcept;

  gdr::Library library_;
  std::uintptr_t base_;
  std::uint64_t bytes_;
  gdr::Session* session_ = nullptr;
  gdr::Pin pin_;
  bool pinned_ = false;
  void* mapped_ = nullptr;  ///< what gdr_map gave
  std::uint64_t mapped_bytes_ = 0;
  std::uint8_t* cpu_ = nullptr;  ///< of base_
};

/// GSHMEM_GDRCOPY for the memory of a PE: null means copy engine. `auto` says nothing when there is
/// no GDRCopy, and warns once per process when it is there and fails; `on` throws in both cases.
/// Errors: of `on`, naming the variable and what is missing.
[[nodiscard]] std::unique_ptr<GpuMapping> map_gpu_memory(Switch policy, void* base,
                                                         std::uint64_t bytes,
                                                         const std::string& soname = gdr::kSoname);

}  // namespace gshmem
