// How a CPU rings: the store to a doorbell register with the barriers around it. Included by the
// device library's CPU half and by the agent. Invariant: nothing but the word is written.
#pragma once

#include <cstdint>

namespace gshmem::abi {

/// Stores to a register of a device, or to a word that stands in for one. Stores that the caller
/// has made before and made visible to other CPUs are visible to the device before the register is.
/// The register's store has left the CPU on return, even if it is mapped write-combining and would
/// otherwise wait in its buffer. Source: rdma-core providers/mlx5/qp.c post_send_db,
/// util/udma_barrier.h udma_to_device_barrier and mmio_flush_writes.
inline void store_register(std::uint64_t* at, std::uint64_t value) {
#if defined(__aarch64__)
  asm("dmb oshst" ::: "memory");  // devices are in the outer domain, which a release does not cover
#endif
  __atomic_store_n(at, value, __ATOMIC_RELEASE);
#if defined(__x86_64__)
  __builtin_ia32_sfence();
#elif defined(__aarch64__)
  asm("dsb st" ::: "memory");
#endif
}

}  // namespace gshmem::abi
