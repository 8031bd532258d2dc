// A DC target (DCT). Initiators reach it by its number and its access key. Each has a connection of
// its own, which its first packet creates. For the responder a connection is a queue pair that only
// receives. Guarded by the engine's lock.
#pragma once

#include "transport/softnic/queue_pair.h"

#include <cstdint>
#include <map>
#include <memory>

namespace gshmem::soft {

struct Target {
  std::uint32_t number = 0;
  std::uint64_t ordinal = 0;  ///< of creation in this process, among queue pairs
  TargetAttributes attributes;
  CompletionQueue* cq = nullptr;
  ReceiveQueue* receives = nullptr;
  std::uint32_t key_violations = 0;
  std::map<std::uint32_t, std::unique_ptr<QueuePair>> connections;  ///< by the initiator's number

  [[nodiscard]] QueuePair* find(std::uint32_t initiator) const {
    const auto found = connections.find(initiator);
    return found == connections.end() ? nullptr : found->second.get();
  }
};

}  // namespace gshmem::soft
