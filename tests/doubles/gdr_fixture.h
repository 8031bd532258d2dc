// Loads the double of libgdrapi for tests.
#pragma once

#include "tests/doubles/gdr_double.h"

#include "host/base/dynamic_library.h"
#include "host/base/error.h"

#include <cstdint>

namespace gshmem::test {

class Gdr {
 public:
  Gdr() : library_(GDR_DOUBLE), record_(library_.function<GdrDoubleRecord>("gdr_double_record")()) {
    library_.function<GdrDoubleReset>("gdr_double_reset")();
  }
  GdrDouble* operator->() const { return record_; }
  [[nodiscard]] std::uint8_t* allocate(std::size_t bytes) const {
    void* const memory = library_.function<GdrDoubleAllocate>("gdr_double_allocate")(bytes);
    require(memory != nullptr, GSHMEMX_ERROR_SYSTEM, "no memory for the double");
    return static_cast<std::uint8_t*>(memory);
  }
  /// Everything is released, and no call broke the contract.
  [[nodiscard]] bool clean() const {
    return record_->sessions == 0 && record_->pins == 0 && record_->mappings == 0 &&
           record_->violations.empty();
  }

 private:
  DynamicLibrary library_;
  GdrDouble* record_;
};

}  // namespace gshmem::test
