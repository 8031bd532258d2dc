// Buffers for messages without an address: the ring of a queue pair, or a queue that several share,
// as a ring or as a list. Guarded by the engine's lock.
#pragma once

#include "transport/nic/decode.h"
#include "transport/softnic/engine.h"

#include <cstdint>
#include <vector>

namespace gshmem::soft {

/// A buffer that was posted, and was taken from the queue.
struct Receive {
  std::uint16_t index = 0;  ///< its size
  std::vector<nic::LocalPiece> local;
  std::uint64_t bytes = 0;  ///< that it has room for
};

class ReceiveQueue {
 public:
  explicit ReceiveQueue(const ReceiveAttributes& attributes) : attributes_(attributes) {}

  /// Takes the oldest buffer that is not taken. Returns false if there is none.
  [[nodiscard]] bool take(Receive* out);
  /// Clears the queue, because its client begins again.
  void reset() { taken_ = next_ = 0; }
  [[nodiscard]] const ReceiveAttributes& attributes() const { return attributes_; }

  int users = 0;  ///< queue pairs that share it

 private:
  [[nodiscard]] const std::uint8_t* entry(std::uint32_t index) const;

  ReceiveAttributes attributes_;
  std::uint16_t taken_ = 0;
  std::uint16_t next_ = 0;  ///< of a list: named by the entry that was taken last
};

}  // namespace gshmem::soft
