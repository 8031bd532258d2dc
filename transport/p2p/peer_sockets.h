// One socket between every two PEs of a host. They carry what the bootstrap cannot: file
// descriptors of heap segments at init, and the news that a PE has left or died afterwards.
// Abstract Unix stream sockets: nothing is left behind in a file system, and only processes of the
// same user are accepted.
#pragma once

#include "bootstrap/bootstrap.h"
#include "host/base/fd.h"

#include <string>
#include <vector>

namespace gshmem::p2p {

/// What may be reached by these sockets: boot, host name and network namespace.
[[nodiscard]] std::string host_identity();

class PeerSockets {
 public:
  /// Collective. Errors: GSHMEMX_ERROR_NOT_SUPPORTED when the PEs are on several hosts,
  /// GSHMEMX_ERROR_TIMEOUT and GSHMEMX_ERROR_PEER_FAILED naming the PE.
  PeerSockets(bootstrap::Bootstrap& boot, double timeout_seconds);

  /// Collective. Gives `fd` to every other PE; element r of the result is what PE r gave (own: a
  /// duplicate).
  [[nodiscard]] std::vector<Fd> exchange(int fd);
  /// Collective. The descriptor that PE 0 passes, on every PE.
  [[nodiscard]] Fd from_root(int fd_on_root);

  /// Tells the others that this PE leaves on purpose.
  void say_goodbye() noexcept;
  /// Socket to PE r; -1 for this PE.
  [[nodiscard]] int socket(int pe) const { return sockets_[static_cast<std::size_t>(pe)].get(); }
  [[nodiscard]] int size() const noexcept { return static_cast<int>(sockets_.size()); }
  static constexpr char kGoodbye = 'G';

 private:
  void send_fd(int pe, int fd);
  [[nodiscard]] Fd receive_fd(int pe);

  int rank_;
  double timeout_seconds_;
  std::vector<Fd> sockets_;
};

}  // namespace gshmem::p2p
