// One socket between every two PEs of a host, which are named by their index on it. They carry what
// the bootstrap cannot: file descriptors of heap segments at init, and the news that a PE has left
// or died afterwards. Abstract Unix stream sockets: nothing is left in a file system, and
// only processes of the same user are accepted.
#pragma once

#include "bootstrap/bootstrap.h"
#include "bootstrap/deadline.h"
#include "host/base/fd.h"
#include "transport/p2p/host_group.h"

#include <vector>

namespace gshmem::p2p {

class PeerSockets {
 public:
  /// Collective over the job. `group` outlives this object. 0 seconds = no end.
  /// Errors: GSHMEMX_ERROR_TIMEOUT and GSHMEMX_ERROR_PEER_FAILED naming the PE;
  /// GSHMEMX_ERROR_SYSTEM, naming the limit where there are no descriptors left.
  PeerSockets(bootstrap::Bootstrap& boot, const HostGroup& group, double timeout_seconds);

  // Collective over the host.
  /// Gives `fd` to every other PE; element i of the result is what PE i of the host gave (own: a
  /// duplicate).
  [[nodiscard]] std::vector<Fd> exchange(int fd);
  /// The descriptor that the host's first PE passes, on all of them.
  [[nodiscard]] Fd from_root(int fd_on_root);
  /// A few bytes of every PE, as many from each.
  [[nodiscard]] std::vector<std::vector<char>> gather(const std::vector<char>& mine);

  /// A PE that waits for this one in one of these fails at once. For a PE that will not come.
  void hang_up() noexcept;

  /// Socket to PE i of the host; -1 for this PE.
  [[nodiscard]] int socket(int i) const { return sockets_[static_cast<std::size_t>(i)].get(); }
  [[nodiscard]] const HostGroup& group() const noexcept { return group_; }
  [[nodiscard]] int size() const noexcept { return static_cast<int>(sockets_.size()); }

 private:
  void accept_all(const Fd& listener);
  [[nodiscard]] bool send_fd(int i, int fd);
  [[nodiscard]] Fd receive_fd(int i);
  [[nodiscard]] int take_in(std::vector<Fd>& fds, int wait_ms);
  void check_time(const bootstrap::Deadline& deadline, int i, bool refused) const;

  const HostGroup& group_;
  double timeout_seconds_;
  std::vector<Fd> sockets_;
};

}  // namespace gshmem::p2p
