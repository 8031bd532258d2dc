// A double of the memory that kernels read, for tests of tables that the host writes by uploads. It
// is plain memory, to which the owner of a table must not store directly.
#pragma once

#include "host/base/error.h"
#include "host/runtime/context_table.h"

#include <catch2/catch.hpp>

#include <cstring>
#include <vector>

namespace gshmem::test {

/// Memory of kernels, which records its size and every upload.
class KernelMemory {
 public:
  [[nodiscard]] ContextTable::DeviceMemory functions() {
    return {[this](std::size_t bytes) -> void* {
              if (full_) throw Error(GSHMEMX_ERROR_OUT_OF_MEMORY, "no memory of kernels");
              return blocks_.emplace_back(bytes).data();
            },
            [this](void* to, const void* from, std::size_t bytes) {
              if (!holds(to, bytes)) FAIL("kernels have no memory there");
              std::memcpy(to, from, bytes);
            }};
  }
  [[nodiscard]] bool holds(const void* first, std::size_t bytes) const {
    const auto* at = static_cast<const char*>(first);
    for (const std::vector<char>& block : blocks_) {
      if (at >= block.data() && at + bytes <= block.data() + block.size()) return true;
    }
    return false;
  }
  [[nodiscard]] std::size_t blocks() const { return blocks_.size(); }
  void fill() { full_ = true; }

 private:
  bool full_ = false;
  std::vector<std::vector<char>> blocks_;
};

}  // namespace gshmem::test
