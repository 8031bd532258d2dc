// What the library would answer device code that a test calls by itself: a thread of no launch,
// whose PE goes on after a fault. For the one source of a test that does not link the library.
#pragma once

#include <gshmem/device/core/host_block.h>

extern "C" {
gshmem::device::Ambient* gshmemi_ambient(void) {
  static thread_local gshmem::device::Ambient ambient{};
  return &ambient;
}
void gshmemi_host_fault(const gshmem::abi::DeviceState*) {}
}
