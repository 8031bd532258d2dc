// Receives into buffers that the receiver has posted: sends, and the immediate data of writes. The
// responder decides whether a packet is expected; this class takes buffers, fills them and
// completes them.
// Invariant: buffers are completed in the order in which they were posted, each once.
#pragma once

#include "transport/softnic/context.h"

#include <cstdint>

namespace gshmem::soft {

class Receiver {
 public:
  explicit Receiver(Context& context) : context_(context) {}

  /// Takes the next buffer for a message, unless the queue pair has taken one for it already.
  /// Returns false if there is none.
  [[nodiscard]] bool take(QueuePair& qp);
  /// Returns the syndrome of the buffer's own completion when it is too small for the message; 0:
  /// it is not.
  [[nodiscard]] std::uint8_t refusal(const QueuePair& qp, std::uint64_t length) const;
  /// Stores a part of the message. Returns false if the buffer cannot be accessed.
  [[nodiscard]] bool store(const QueuePair& qp, const Packet& request, const std::uint8_t* payload);
  /// Completes the buffer: all of the message has arrived.
  void complete(QueuePair& qp, const Packet& last);
  /// Completes the buffer with an error, as the message has failed.
  void fail(QueuePair& qp, std::uint8_t syndrome);
  /// Completes the posted buffers of a queue pair in the error state. Returns true when there were
  /// any.
  bool flush(QueuePair& qp);

 private:
  void finish(QueuePair& qp, nic::Completion completion);

  Context& context_;
};

}  // namespace gshmem::soft
