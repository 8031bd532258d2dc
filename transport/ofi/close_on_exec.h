// libfabric opens its descriptors without close-on-exec. A program that a PE starts would then hold
// the port by which others reach the PE, and its connections. Included where the provider opens
// descriptors.
#pragma once

#include <vector>

namespace gshmem::ofi {

/// While it exists, it watches for descriptors. Sockets and event polls that this process opens in
/// that time get the flag close-on-exec. A descriptor that another thread opens without the flag in
/// that time gets it, too.
class ClosedOnExec {
 public:
  ClosedOnExec();
  ~ClosedOnExec();
  ClosedOnExec(const ClosedOnExec&) = delete;

 private:
  std::vector<int> before_;
};

}  // namespace gshmem::ofi
