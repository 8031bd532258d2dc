// How a CPU rings: the store to a doorbell register and what must stand around it. Included by the
// device library's CPU half and by the agent. Invariant: nothing but the word is written.
#pragma once

#include <cstdint>

namespace gshmem::abi {

/// Stores to a register of a device, or to a word that stands for one. What the caller has stored
/// before and made visible to other CPUs is visible to the device before the register is; and the
/// register's store is on its way on return, also where it is mapped write-combining and would else
/// wait in its buffer. Source: rdma-core providers/mlx5/qp.c post_send_db, util/udma_barrier.h
/// udma_to_device_barrier and mmio_flush_writes.
inline void store_register(std::uint64_t* at, std::uint64_t value) {
#if defined(__aarch64__)
  asm("dmb oshst" ::: "memory");  // devices are in the outer domain, beyond what a release orders
#endif
  __atomic_store_n(at, value, __ATOMIC_RELEASE);
#if defined(__x86_64__)
  __builtin_ia32_sfence();
#elif defined(__aarch64__)
  asm("dsb st" ::: "memory");
#endif
}

}  // namespace gshmem::abi
