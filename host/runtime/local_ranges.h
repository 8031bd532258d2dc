// Local memory that the program has registered (gshmemx_buffer_register), and the rows by which
// device code finds the keys of this PE's NICs for it. Without a network path it is only a list,
// which detects mistakes. Included by Pe. Threads: any. Invariant: no two ranges have a byte in
// common.
#pragma once

#include <gshmem/abi/state.h>

#include "host/runtime/context_table.h"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <mutex>

namespace gshmem {

class LocalRanges {
 public:
  /// The NICs of a PE. Both functions are called with a lock held.
  struct Nics {
    std::size_t count = 0;
    /// Registers memory and stores a key for each NIC. Errors: those of Nic.
    std::function<void(const void* addr, std::size_t bytes, abi::Be32* keys)> add;
    std::function<void(const void* addr)> remove;
  };
  /// Returns how much memory open() needs.
  [[nodiscard]] static constexpr std::size_t bytes_for(std::size_t nics) {
    return abi::kMaxLocal * (sizeof(abi::LocalRange) + nics * sizeof(abi::Be32));
  }
  /// Before the first add: there is a network path. `memory` is zeroed, is accessed by device code
  /// at the same address, and outlives this object. Kernels read the table in `kernels`. Returns
  /// DeviceState::local.
  const abi::LocalTable* open(Nics nics, void* memory, ContextTable::DeviceMemory kernels);

  /// Registers memory whose end does not wrap around. A range that is registered already is
  /// registered again, since other memory may now have its addresses. If a NIC refuses memory, or
  /// if all rows are in use, this is logged and is not an error. Errors:
  /// GSHMEMX_ERROR_INVALID_VALUE if it overlaps another range.
  /// registered.
  void add(const char* call, const void* addr, std::size_t bytes);
  /// Returns false if no range begins there.
  [[nodiscard]] bool remove(const void* addr);
  void clear();

 private:
  struct Range {
    std::uintptr_t begin = 0;
    abi::LocalRange* row = nullptr;  ///< null: no NIC accesses it
  };
  void publish(const char* call, Range& range, std::size_t bytes);
  void withdraw(const Range& range);
  void write_bounds();

  std::mutex mutex_;
  Nics nics_;
  abi::LocalRange* rows_ = nullptr;         ///< null: no network path
  std::map<std::uintptr_t, Range> ranges_;  ///< indexed by their ends
  ContextTable::DeviceMemory kernels_;
  abi::LocalTable table_{};                  ///< for host threads
  abi::LocalTable* device_table_ = nullptr;  ///< for kernels; null: `table_`
};

}  // namespace gshmem
