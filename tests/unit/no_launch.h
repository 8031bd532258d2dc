// Replaces the library for device code that a test calls directly: the thread belongs to no launch,
// and its PE goes on after a fault. Included once by a test that does not link the library.
#pragma once

#include <gshmem/device/core/host_block.h>

extern "C" {
gshmem::device::Ambient* gshmemi_ambient(void) {
  static thread_local gshmem::device::Ambient ambient{};
  return &ambient;
}
void gshmemi_host_fault(const gshmem::abi::DeviceState*) {}
}
