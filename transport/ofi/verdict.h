// The meaning of a provider's error: for the operation, for the peer, and whether to try again.
// Included by the engines.
#pragma once

#include "transport/ofi/operation.h"

#include <string>

namespace gshmem::ofi {

struct Verdict {
  Failure failure;
  bool peer_lost = false;  ///< not the operation alone: nothing reaches the peer any more
  bool transient = false;  ///< nothing has been done, and may be done by another try
};
/// `what` is the operation, "WRITE of 8 bytes to PE 3".
[[nodiscard]] Verdict judge(const fi_info& info, const Completion& completion,
                            const std::string& what);

/// The loss of a peer, for all its queues; the first reason stays.
void lose(Peer& peer, const std::string& why);

}  // namespace gshmem::ofi
