// The list of the symmetric memory beyond the first parts of the heaps: registered memory of the
// program, and the parts by which heaps have grown. It has their offsets in the symmetric address
// range, and the tables by which device code and checks find them. Included by Pe. It accesses no
// memory but the tables. Invariant: all PEs register, unregister and grow in the same order, so the
// offsets of all PEs are the same. Each PE has its own buffers.
#pragma once

#include <gshmem/abi/state.h>

#include "host/runtime/context_table.h"
#include "host/runtime/heap/allocator.h"
#include "transport/nic/memory_keys.h"

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <vector>

namespace gshmem {

class RegisteredMemory {
 public:
  /// Offsets are relative to the heap's first byte. `begin` and `granularity` are multiples of
  /// abi::kGranuleBytes, and no range ends after `stride`, DeviceState::stride.
  struct Place {
    std::uint64_t begin, bytes, granularity, stride;
  };
  /// Kernels read tables in `memory`.
  RegisteredMemory(const Place& place, ContextTable::DeviceMemory memory);
  /// Stores the addresses of the tables in the PE's state.
  void enter(abi::DeviceState& state) const;

  // Errors: GSHMEMX_ERROR_INVALID_VALUE, with the call's name.
  /// `buffer` must not overlap one that is registered.
  void require_new(const char* call, const void* buffer, std::size_t bytes) const;
  /// Memory of `bytes` bytes must be registered at `offset`.
  void require_known(const char* call, const void* symmetric, std::uint64_t offset,
                     std::size_t bytes) const;

  /// Returns an offset for `bytes` bytes: `wish` if that is free, aligned and in the range,
  /// otherwise the best other one. Errors: GSHMEMX_ERROR_OUT_OF_MEMORY.
  [[nodiscard]] std::uint64_t reserve(const char* call, std::size_t bytes,
                                      std::optional<std::uint64_t> wish);
  /// Returns an offset for a part of the heap, whose alignment is a power of two. Errors:
  /// GSHMEMX_ERROR_OUT_OF_MEMORY.
  [[nodiscard]] std::uint64_t reserve_part(std::uint64_t bytes, std::uint64_t alignment);
  /// Makes the rows, before the first prepare(). `key_bytes` is the size of the keys of a range.
  /// Errors: those of the memory of kernels.
  void make_rows(std::size_t key_bytes);
  /// Reserves the row that publish() writes. Errors: those of the memory of kernels.
  void prepare(std::uint64_t offset);
  /// Lets device code find the memory from now on, with these keys. `buffer` is null for a part of
  /// the heap, which is never registered.
  void publish(std::uint64_t offset, const void* buffer, std::size_t bytes,
               const nic::MemoryKeys::OfRange& keys);
  /// Releases an offset of reserve; device code no longer finds the memory.
  void release(std::uint64_t offset);

 private:
  /// Where an abi::RegisteredRange and its keys are: for host threads, and for kernels.
  struct Row {
    std::uint64_t* host = nullptr;
    void* device = nullptr;
  };
  struct Buffer {
    std::uintptr_t begin = 0;  ///< 0: the memory is a part of the heap
    std::uint64_t bytes = 0;
    Row row{};
    bool is_published = false;
  };
  using Word = std::uint64_t;
  struct Free {
    void operator()(Word* words) const { std::free(words); }
  };
  void add_rows();
  void enter_row(std::uint64_t offset, std::uint64_t bytes, const Row& row);

  const Place place_;
  ContextTable::DeviceMemory memory_;
  OffsetAllocator allocator_;
  // The addresses of rows by granule; 0: none.
  std::unique_ptr<Word[], Free> host_table_;  ///< takes memory only where rows were entered
  Word* device_table_;
  std::size_t row_words_ = 0;
  std::deque<std::vector<Word>> rows_;  ///< of host threads
  std::vector<Row> free_;
  std::map<std::uint64_t, Buffer> buffers_;  ///< indexed by offset
};

}  // namespace gshmem
