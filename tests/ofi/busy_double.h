// A provider that is busy: about every second call that posts something is answered with
// -FI_EAGAIN, which libfabric allows to all of them (fi_msg(3), fi_rma(3), fi_atomic(3)). tcp and
// sockets on the loopback interface hardly ever do. Used by job.h.
#pragma once

#include <array>

namespace gshmem::test {

/// In its scope all endpoints that are made are busy; one at a time.
class BusyDouble {
 public:
  enum Call { kReceive, kSend, kRead, kWrite, kFetchAtomic, kCompareAtomic, kCalls };

  BusyDouble();
  ~BusyDouble();
  BusyDouble(const BusyDouble&) = delete;

  /// Calls of each kind that were refused so far.
  [[nodiscard]] static std::array<int, kCalls> refused();
};

}  // namespace gshmem::test
