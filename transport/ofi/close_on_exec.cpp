#include "transport/ofi/close_on_exec.h"

#include "host/base/files.h"

#include <fcntl.h>

#include <algorithm>
#include <cstdlib>
#include <string>

namespace gshmem::ofi {
namespace {

/// Returns the descriptors of the kinds that libfabric opens.
std::vector<int> open_descriptors() {
  const std::string folder = "/proc/self/fd";
  std::vector<int> all;
  for (const std::string& name : names_in(folder)) {
    const std::string target = link_target_name(folder + "/" + name);
    if (target.starts_with("socket:") || target == "anon_inode:[eventpoll]")
      all.push_back(std::atoi(name.c_str()));
  }
  return all;
}

}  // namespace

ClosedOnExec::ClosedOnExec() : before_(open_descriptors()) {}

ClosedOnExec::~ClosedOnExec() {
  for (const int fd : open_descriptors()) {
    if (std::ranges::find(before_, fd) != before_.end()) continue;
    const int flags = ::fcntl(fd, F_GETFD);
    if (flags >= 0) (void)::fcntl(fd, F_SETFD, flags | FD_CLOEXEC);
  }
}

}  // namespace gshmem::ofi
