// Host memory that the engine reaches by a MemoryAccess of the test.
#pragma once

#include "transport/softnic/memory.h"

#include <cstddef>
#include <cstdint>

namespace gshmem::test {

class ThroughHostMemory : public soft::MemoryAccess {
 public:
  /// Batched: many small transfers are as expensive as with a GPU's memory.
  explicit ThroughHostMemory(bool batched) : batched_(batched) {}
  bool write(void* to, const void* from, std::size_t bytes) override {
    return soft::host_memory().write(to, from, bytes);
  }
  bool read(const Part* parts, std::size_t count) override {
    return soft::host_memory().read(parts, count);
  }
  bool atomic(void* word, const nic::Wqe& wqe, std::uint64_t* old) override {
    return soft::host_memory().atomic(word, wqe, old);
  }
  bool flush() override { return true; }
  [[nodiscard]] bool batched() const override { return batched_; }

 private:
  const bool batched_;
};

}  // namespace gshmem::test
