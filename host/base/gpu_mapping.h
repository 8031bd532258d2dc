// GPU memory that the CPU accesses by loads and stores, through GDRCopy's write-combining mapping
// of the GPU's window on PCI. A few bytes cost a microsecond, where the copy engine takes ten.
// Included by the runtime, which maps the PE's heap, and by code that moves bytes in it. Invariant:
// a GpuMapping is mapped from construction to destruction, and leaves nothing pinned. Order: stores
// go to a write-combining buffer and from there, posted, over PCIe. Each write() ends with a store
// fence, which empties the buffer. So bytes that a thread has written are stored before anything
// that it stores later, such as a signal. A write has reached the GPU when a read after it has
// returned (PCI Express base specification, 2.4.1: a read does not pass a posted write); settle()
// is that read. The copy engine and other paths into the GPU are ordered after a write only then.
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
  /// Maps memory of a GPU of this process; address and size are multiples of 64 KiB. Errors:
  /// GSHMEMX_ERROR_SYSTEM with the call that failed and its code; GSHMEMX_ERROR_NOT_SUPPORTED
  /// without the kernel module.
  GpuMapping(gdr::Library library, void* base, std::uint64_t bytes);
  ~GpuMapping();
  GpuMapping(const GpuMapping&) = delete;

  // Threads: any, several at a time, as with memory: of two writes to the same bytes one wins.
  // Offsets are relative to `base` and in range; callers check that. Aligned words of 2, 4 and 8
  // bytes are stored and loaded without tearing, because kernels and hosts poll them.
  /// Errors: GSHMEMX_ERROR_SYSTEM.
  void write(std::uint64_t offset, const void* from, std::size_t bytes) const;
  /// This is slow: at most 64 bytes are read per round trip over PCIe. Errors:
  /// GSHMEMX_ERROR_SYSTEM.
  void read(std::uint64_t offset, void* to, std::size_t bytes) const;
  /// Loads an aligned word of `width` bytes (1, 2, 4, 8), zero-extended.
  [[nodiscard]] std::uint64_t load(std::uint64_t offset, std::size_t width) const noexcept;
  /// After this call, earlier writes of this thread are in GPU memory. `offset` is that of a
  /// written byte.
  void settle(std::uint64_t offset) const noexcept;

  [[nodiscard]] std::uint64_t bytes() const noexcept { return bytes_; }
  /// Is the whole object inside of the mapping? If so, sets its offset.
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
  void* mapped_ = nullptr;  ///< result of gdr_map
  std::uint64_t mapped_bytes_ = 0;
  std::uint8_t* cpu_ = nullptr;  ///< CPU address of base_
};

/// Maps the memory of a PE according to GSHMEM_GDRCOPY; null means that the copy engine is used.
/// With `auto` nothing is logged when there is no GDRCopy, and a warning once per process when
/// GDRCopy is present and fails. With `on` both throw. Errors of `on` name the variable and what is
/// missing.
[[nodiscard]] std::unique_ptr<GpuMapping> map_gpu_memory(Switch policy, void* base,
                                                         std::uint64_t bytes,
                                                         const std::string& soname = gdr::kSoname);

}  // namespace gshmem
