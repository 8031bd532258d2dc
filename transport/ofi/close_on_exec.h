// libfabric makes its descriptors without close-on-exec: a program that a PE starts would hold the
// port that others reach it by, and its connections. Included where the provider makes some.
#pragma once

#include <vector>

namespace gshmem::ofi {

/// Sockets and event polls that this process gets while it lives are closed on exec after that. One
/// that another thread has made meanwhile without the flag gets it, too.
class ClosedOnExec {
 public:
  ClosedOnExec();
  ~ClosedOnExec();
  ClosedOnExec(const ClosedOnExec&) = delete;

 private:
  std::vector<int> before_;
};

}  // namespace gshmem::ofi
