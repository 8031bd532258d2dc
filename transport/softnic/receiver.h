// Receives into buffers that the receiver has posted: sends, and the immediate data of writes.
// The responder decides whether a packet is due; this takes buffers, fills them and completes them.
// Invariant: buffers are completed in the order in which they were posted, each once.
#pragma once

#include "transport/softnic/context.h"

#include <cstdint>

namespace gshmem::soft {

class Receiver {
 public:
  explicit Receiver(Context& context) : context_(context) {}

  /// A message needs a buffer: the next one, unless the queue pair has taken one for it. False:
  /// there is none.
  [[nodiscard]] bool take(QueuePair& qp);
  /// Syndrome of the buffer's own completion when it cannot hold the message; 0: it can.
  [[nodiscard]] std::uint8_t refusal(const QueuePair& qp, std::uint64_t length) const;
  /// A piece of the message. False: the buffer is out of reach.
  [[nodiscard]] bool store(const QueuePair& qp, const Packet& request, const std::uint8_t* payload);
  /// All of it is there.
  void complete(QueuePair& qp, const Packet& last);
  /// The buffer fails with the message.
  void fail(QueuePair& qp, std::uint8_t syndrome);
  /// Error state: buffers that wait are given back. True when there were any.
  bool flush(QueuePair& qp);

 private:
  void finish(QueuePair& qp, nic::Completion completion);

  Context& context_;
};

}  // namespace gshmem::soft
