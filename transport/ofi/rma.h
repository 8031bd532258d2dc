// Carries out operations by the provider's own RMA and atomics, heap to heap. Writes complete when
// they are delivered; providers promise no order between operations, so work_queue.cpp waits
// instead.
#pragma once

#include "transport/ofi/atomics.h"
#include "transport/ofi/memory_access.h"
#include "transport/ofi/operation.h"

#include <deque>
#include <vector>

namespace gshmem::ofi {

class RmaEngine final : public Engine, private CompletionSink {
 public:
  /// All live longer. `heap` is this PE's; results of atomics go through `access`.
  RmaEngine(Fabric& fabric, const Registered& heap, MemoryAccess& access, AtomicSupport support);

  void issue(Operation& operation) override;
  [[nodiscard]] std::string awaits(const Operation& operation) const override;

 private:
  /// One call to the provider.
  struct Piece : Context {
    Operation* operation = nullptr;
  };

  void completed(Context& context, const Completion& completion) override;
  void issue_chunks(Operation& operation);
  void issue_atomic(Operation& operation);
  ssize_t post_chunk(const Operation& operation, const Chunk& chunk, Piece& piece);
  ssize_t post_atomic(Operation& operation, const AtomicPlan& plan, Piece& piece);
  /// True when the atomic is done, false when it has to be tried again.
  bool finish_atomic(Operation& operation);
  /// Books the result of a call; true when the provider has taken it.
  bool accepted(Operation& operation, Piece& piece, ssize_t result);
  Piece* acquire(Operation& operation);

  Fabric& fabric_;
  const Registered& heap_;
  MemoryAccess& access_;
  AtomicSupport support_;
  std::uint64_t max_chunk_;
  std::deque<Piece> pieces_;  ///< as many as the endpoint's queue has places
  std::vector<Piece*> free_;
};

}  // namespace gshmem::ofi
