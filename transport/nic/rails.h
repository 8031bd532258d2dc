// The NICs of a PE side by side ("rails"), as the runtime and QueueSet see them: what has to hold
// for all of them, and which queue goes by which. A connection is between rails of the same number:
// fabrics are often wired so. Included by QueueSet and the runtime. Invariant: all PEs of a job
// have the same number of rails.
#pragma once

#include "transport/nic/nic.h"

#include <cstdint>
#include <string>
#include <vector>

namespace gshmem::nic {

inline constexpr int kMaxRails = 8;

class Rails {
 public:
  Rails() = default;  ///< none: no network path
  explicit Rails(NicList nics) : nics_(std::move(nics)) {}

  [[nodiscard]] int count() const { return static_cast<int>(nics_.size()); }
  [[nodiscard]] bool empty() const { return nics_.empty(); }
  [[nodiscard]] Nic& operator[](int rail) const { return *nics_[static_cast<std::size_t>(rail)]; }
  [[nodiscard]] const char* name() const { return nics_.front()->name(); }
  /// All of them.
  [[nodiscard]] std::string describe() const;
  /// The limits that all of them keep. Atomics are the first one's alone.
  [[nodiscard]] Nic::Limits limits() const;
  void start();
  void stop() noexcept;

 private:
  NicList nics_;
};

/// By which rail each queue of a context to a peer goes. Device code relies on the order
/// (abi::NicView): the nth goes by rail n % rails, where atomics take those of rail 0.
using QueueRails = std::vector<int>;

/// Of the default context: at least `wanted` queues, as many on each rail.
[[nodiscard]] QueueRails default_queues(int rails, int wanted);
/// Of the nth context or queue handle: one queue for transfers, by rails in turn; and where that is
/// not the first rail, one on the first, for atomics.
[[nodiscard]] QueueRails context_queues(int rails, int nth);

}  // namespace gshmem::nic
