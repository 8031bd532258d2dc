// The order in which a thread sees what NICs write to its own PE. Included by the layers above that
// wait for words: device/ops, device/api.
//
// A NIC writes a payload, and then the word that announces it. Some GPUs (those before Hopper) do
// not keep that order for a kernel that runs meanwhile: the kernel may see the word before the
// payload (abi::kNicInboundTrails). A read by the NIC pushes all its earlier writes to memory (PCI
// Express, 2.4.1). So a thread that has seen a word makes its NIC read: it posts a DUMP to the
// queue from this PE to itself.
#pragma once

#include "network_path.h"

namespace gshmem::device {

/// Makes the first NIC of this PE read one word of the heap, and waits for it. The words that
/// threads wait for arrive through that NIC. Data that other NICs wrote before such a word is
/// already in memory (kNicFlush).
GSHMEM_OUTLINE void read_by_nic(const State& state) {
  PostingOf<WqeImage> posting;
  // Any initiator will do: a DUMP has no remote address.
  const std::uint32_t own = static_cast<std::uint32_t>(state.my_pe) * state.nic.per_pe;
  post_by(posting, state, is_dynamic(state.nic.traits) ? 0 : own);
  begin_wait(posting, "wait (DUMP)");
  image_dump(posting.entries, 0, {kSink, posting.queue.local_key()}, sizeof(std::uint64_t));
  keep_in_memory(posting);
  post_by_steps<Sharing::kWarp>(posting);  // takes fewer registers of the callers than post does
  if (posting.good()) queue_await(posting);
  post_report(posting);
}

/// After this call, everything that a NIC wrote to this PE before a word that the thread has seen
/// is in memory. It is also visible, because the thread acquires the completion. CUDA orders
/// kernels and copies that a host thread starts after its own wait ("GPUDirect RDMA",
/// synchronization and memory ordering).
GSHMEM_FN void push_inbound(const State& state) {
  GSHMEM_ON_HOST_OPS(return;)
  if (state.nic.flags & abi::kNicInboundTrails) read_by_nic(state);
}
/// Calls push_inbound if a wait or test was successful (`seen`). Returns `seen`.
GSHMEM_FN bool pushed_inbound(const State& state, bool seen) {
  if (seen) push_inbound(state);
  return seen;
}

}  // namespace gshmem::device
