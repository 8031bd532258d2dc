// The common code of tests of contexts and of queue handles: each body uses the handles that it is
// given, one per thread or group. So the same checks run on contexts of any kind, on handles, and
// on the default. Bodies are in handles.cpp.
#pragma once

#include "tests/spmd/spmd.h"

#include <algorithm>
#include <cstdlib>

namespace gshmem::spmd {

/// Handles for a kernel, by value.
struct Handles {
  static constexpr int kMost = 8;
  int count = 0;
  std::int32_t handle[kMost] = {};
};

/// Queue handles for as long as the object lives. Collective.
class OwnedQueues {
 public:
  OwnedQueues(Pe& pe, int count) : pe_(pe) {
    SPMD_EQ(pe, gshmemx_qp_create(count, &array_), 0);
    for (int i = 0; array_ && i < count; ++i) handles_.handle[handles_.count++] = array_[i];
  }
  OwnedQueues(const OwnedQueues&) = delete;
  ~OwnedQueues() {
    SPMD_EQ(pe_, gshmemx_qp_destroy(handles_.count, array_), 0);
    std::free(array_);
  }
  [[nodiscard]] const Handles& list() const { return handles_; }

 private:
  Pe& pe_;
  gshmemx_qp_handle_t* array_ = nullptr;
  Handles handles_;
};

/// Contexts for as long as the object lives, all with `options`. Collective if they are to have
/// queues of their own, which are those of destroyed handles.
class OwnedContexts {
 public:
  enum class Queues { kOwn, kAsTheyCome };
  OwnedContexts(Pe& pe, int count, long options, Queues queues) {
    if (queues == Queues::kOwn) OwnedQueues(pe, count);
    for (int i = 0; i < count; ++i) {
      gshmem_ctx_t ctx = GSHMEM_CTX_INVALID;
      SPMD_EQ(pe, gshmem_ctx_create(options, &ctx), 0);
      handles_.handle[handles_.count++] = ctx;
    }
  }
  OwnedContexts(const OwnedContexts&) = delete;
  ~OwnedContexts() {
    for (int i = 0; i < handles_.count; ++i) gshmem_ctx_destroy(handles_.handle[i]);
  }
  [[nodiscard]] const Handles& list() const { return handles_; }

 private:
  Handles handles_;
};

/// The number is that of Pe::rounds, but enough for every kind of transfer.
inline int rounds_of(const Pe& pe, int count) { return std::max(pe.rounds(count), 4); }

/// Every handle transfers data to all PEs in turn, by every kind of put, announces it by a flag
/// after its own quiet or fence, and reads back what it wrote; `threads` threads divide the handles
/// between them.
void test_moves(Pe& pe, const Handles& handles, unsigned threads, int rounds);
/// Makes fetching and other atomics on every handle, on words of PE 0 and of the PE itself.
void test_counts(Pe& pe, const Handles& handles, unsigned threads);
/// Every group puts with a signal on its handle, to all PEs in turn.
void test_signals(Pe& pe, const Handles& handles, Scope scope);
/// Operations on a handle are in its queues and in no others, and complete after its quiet. Only if
/// the next PE is reached by queues.
void test_own_queues(Pe& pe, const Handles& handles);
/// Returns the numbers of the queues to the next PE, ascending; none if it is not reached by
/// queues. Collective, as all of these.
[[nodiscard]] std::vector<std::uint32_t> queue_numbers(Pe& pe, const Handles& handles);

}  // namespace gshmem::spmd
