// Buffers that wait for messages which name no address: the ring of a queue pair, or one that
// several share, as a ring or as a list. Guarded by the engine's lock.
#pragma once

#include "transport/nic/decode.h"
#include "transport/softnic/engine.h"

#include <cstdint>
#include <vector>

namespace gshmem::soft {

/// A buffer that was posted, and is taken from the queue.
struct Receive {
  std::uint16_t index = 0;  ///< of its entry
  std::vector<nic::LocalPiece> local;
  std::uint64_t bytes = 0;  ///< that it has room for
};

class ReceiveQueue {
 public:
  explicit ReceiveQueue(const ReceiveAttributes& attributes) : attributes_(attributes) {}

  /// The one that was posted first and is not taken. False: there is none.
  [[nodiscard]] bool take(Receive* out);
  /// Its client starts anew.
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
