// Threads of a group that are late: when they enter a call, or when they leave a synchronization.
#pragma once

#include "tests/spmd/spmd.h"

namespace gshmem::spmd {

/// It is long enough for the other threads to finish.
GSHMEM_FN void come_late() {
  constexpr std::uint64_t kNs = 50'000;
  const std::uint64_t start = device::now_ns();
  for (unsigned polls = 1; device::now_ns() - start < kNs; ++polls) device::pause(polls);
}

/// Threads are late in turn, in a cycle of three: the first, the last, all but the first.
template <class Group>
GSHMEM_FN bool is_late(const Group& group, std::uint64_t step) {
  const int rank = group.thread_rank();
  if (step % 3 == 0) return rank == 0;
  if (step % 3 == 1) return rank == group.size() - 1;
  return rank != 0;
}

/// A group whose late thread leaves synchronizations late: its work between those at both ends of
/// an operation is done when the others have finished.
template <class Base>
struct Dawdling : Base {
  bool late;
  GSHMEM_FN void sync() const {
    Base::sync();
    if (late) come_late();
  }
};
template <class Group>
GSHMEM_FN Dawdling<Group> dawdling(const Group& group, bool late) {
  return {group, late};
}

}  // namespace gshmem::spmd

#if defined(__CUDA_ARCH__)
namespace gshmem::device {
template <class Base>
struct CopyShape<spmd::Dawdling<Base>> : CopyShape<Base> {};
}  // namespace gshmem::device
#endif
