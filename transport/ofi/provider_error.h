// Interprets a provider's error: what it means for the operation and for the peer, and whether to
// try again. Included by the engines.
#pragma once

#include "transport/ofi/operation.h"

#include <string>

namespace gshmem::ofi {

struct ProviderError {
  Failure failure;
  /// The error concerns the peer, not only the operation: the peer is unreachable.
  bool peer_lost = false;
  bool transient = false;  ///< nothing was executed, and another try may succeed
};
/// `what` names the operation: "WRITE of 8 bytes to PE 3".
[[nodiscard]] ProviderError judge(const fi_info& info, const Completion& completion,
                                  const std::string& what);

/// Marks a peer as lost, for all its queues; the first reason is kept.
void lose(Peer& peer, const std::string& why);

}  // namespace gshmem::ofi
