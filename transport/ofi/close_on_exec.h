// libfabric opens its descriptors without close-on-exec. A program that a PE starts would then hold
// the port by which others reach the PE, and its connections. Included where the provider opens
// descriptors.
#pragma once

#include <vector>

namespace gshmem::ofi {

/// Sockets and event polls that this process opens during its lifetime are closed on exec
/// afterwards. A descriptor that another thread opens in the meantime without the flag gets it,
/// too.
class ClosedOnExec {
 public:
  ClosedOnExec();
  ~ClosedOnExec();
  ClosedOnExec(const ClosedOnExec&) = delete;

 private:
  std::vector<int> before_;
};

}  // namespace gshmem::ofi
