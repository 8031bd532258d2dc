// The functions by which the kernels of DeepEP (github.com/deepseek-ai/DeepEP, folder
// csrc/kernels/legacy) use queues, over gshmem's. There they are in ibgda_device.cuh, which writes
// entries of NVSHMEM's queues by its private structs. A line that includes this header replaces
// that file: docs/porting-nvshmem.md, "DeepEP". For kernels. C++17.
//
// Queue `qp_id` to a PE is the default context's queue with that number, modulo their number
// (GSHMEM_QPS_PER_PE). If PEs have several NICs, only those of the first count. Addresses are those
// of this PE's symmetric memory. PEs that are mapped are reached by loads and stores, whatever the
// queue, but for additions where atomics go by a NIC (GSHMEM_AMO). On GPUs before Hopper a word
// follows its data for waits of gshmem only (docs/network.md, "Older GPUs"), and DeepEP's kernels
// have their own.
#pragma once

#include "gshmem.h"

#include <gshmem/device/api/chosen_queue.h>

#include <cstddef>
#include <cstdint>

namespace gshmem::detail {

/// The kernels read the numbers of queues from NVSHMEM's state.
struct IbgdaState {
  int num_rc_per_pe;
  int num_devices_initialized;
  GSHMEM_FN const IbgdaState* operator->() const { return this; }
};
/// The number where no queue is needed. The kernels demand one for each expert of a PE, of which
/// they allow as many.
inline constexpr int kQueuesWithoutNetwork = 1024;

template <class T>
GSHMEM_FN T* address(std::uint64_t p) {
  return reinterpret_cast<T*>(static_cast<std::uintptr_t>(p));
}
GSHMEM_FN void fit_deepep() {
  GSHMEM_FIT((&api::fit_chosen_queue<device::Warp>), device::Warp, api::ChosenQueueFit);
}

}  // namespace gshmem::detail

/// Returns the numbers of queues: their product is the number of queues to each PE.
template <int = 0>
GSHMEM_FN gshmem::detail::IbgdaState ibgda_get_state() {
  const std::uint32_t count =
      gshmem::api::queues_to_pe(gshmem::device::ambient_state("ibgda_get_state"));
  return {count != 0 ? static_cast<int>(count) : gshmem::detail::kQueuesWithoutNetwork, 1};
}

/// Puts `bytes` bytes, by a warp whose threads all make the call. The source may be reused after
/// nvshmemi_ibgda_quiet. The doorbell is rung at the latest by the next call on the queue that
/// finds nobody after it, so neither kAlwaysDoPostSend nor `message_idx` is needed.
template <bool kAlwaysDoPostSend = false>
GSHMEM_FN void nvshmemi_ibgda_put_nbi_warp(std::uint64_t req_rptr, std::uint64_t req_lptr,
                                           std::size_t bytes, int dst_pe, int qp_id,
                                           [[maybe_unused]] int lane_id,
                                           [[maybe_unused]] int message_idx) {
  gshmem::detail::fit_deepep();
  gshmem::api::put_nbi_on_queue(gshmem::api::ambient_caller("nvshmemi_ibgda_put_nbi_warp"),
                                gshmem::device::Warp{}, gshmem::detail::address<void>(req_rptr),
                                gshmem::detail::address<const void>(req_lptr), bytes,
                                {dst_pe, qp_id});
}

/// Puts one element. It is ordered after earlier puts by nvshmemi_ibgda_quiet only.
template <int = 0>
GSHMEM_FN void nvshmemi_ibgda_rma_p(int* rptr, const int value, int dst_pe, int qp_id) {
  gshmem::detail::fit_deepep();
  gshmem::api::p_on_queue(gshmem::api::ambient_caller("nvshmemi_ibgda_rma_p"), rptr, value,
                          {dst_pe, qp_id});
}

/// Adds to a word of 32 bits. It is visible after the data of all puts that precede it on the queue
/// to that PE, also those of other threads with which the caller has synchronized. `is_local_copy`:
/// it is a word of 64 bits of this PE, and the caller has made a fence.
template <int = 0>
GSHMEM_FN void nvshmemi_ibgda_amo_nonfetch_add(void* rptr, const int& value, int pe, int qp_id,
                                               bool is_local_copy = false) {
  gshmem::detail::fit_deepep();
  if (is_local_copy) {
    gshmem::device::atomic_add(static_cast<std::uint64_t*>(rptr),
                               static_cast<std::uint64_t>(std::int64_t{value}));
  } else {
    gshmem::api::add_on_queue(gshmem::api::ambient_caller("nvshmemi_ibgda_amo_nonfetch_add"),
                              static_cast<int*>(rptr), value, {pe, qp_id});
  }
}

/// Waits until the calls on the queue to that PE are complete there.
template <int = 0>
GSHMEM_FN void nvshmemi_ibgda_quiet(int dst_pe, int qp_id) {
  gshmem::detail::fit_deepep();
  gshmem::api::quiet_of_queue(gshmem::api::ambient_caller("nvshmemi_ibgda_quiet"), {dst_pe, qp_id});
}

/// Returns the address where this PE, `rank`, loads and stores what `ptr` is for PE `dst_rank`; 0:
/// that PE is not mapped.
template <int = 0>
GSHMEM_FN std::uint64_t nvshmemi_get_p2p_ptr(const std::uint64_t& ptr, const int& rank,
                                             const int& dst_rank) {
  if (rank == dst_rank) return ptr;
  const gshmem::device::State& state = gshmem::device::ambient_state("nvshmemi_get_p2p_ptr");
  if (!gshmem::device::is_mapped(state, dst_rank)) return 0;
  return reinterpret_cast<std::uintptr_t>(
      gshmem::device::peer_address(state, gshmem::detail::address<char>(ptr), dst_rank));
}
