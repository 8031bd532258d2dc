// Carries out operations where RMA cannot: requests travel as messages, the target's executor does
// them to its own heap and replies. For GPU heaps without GPUDirect RMA, for GSHMEM_GDR=off, and
// for atomics that a provider lacks or has in software only, for GPU memory. Invariant: every
// message finds a posted buffer, because each PE keeps at most `window` requests to a peer
// unanswered and posts for all of them.
#pragma once

#include "transport/ofi/message.h"

#include <deque>
#include <vector>

namespace gshmem::ofi {

class ActiveMessages final : public Engine, private CompletionSink {
 public:
  struct Setup {
    Fabric& fabric;
    MemoryAccess& heap;
    std::vector<Peer>& peers;  ///< by PE
    int pe = 0;
    std::uint64_t heap_bytes = 0;
    std::uint32_t remote_key = 0;  ///< that requests of peers must name
  };
  /// Posts its receives: peers may send from now on.
  explicit ActiveMessages(const Setup& setup);

  void issue(Operation& operation) override;
  [[nodiscard]] std::string awaits(const Operation& operation) const override;
  /// Moves copies and messages on; true when something moved.
  bool progress();
  /// Nothing comes from that PE any more: its requests end.
  void peer_lost(int pe);

 private:
  void completed(Context& context, const Completion& completion) override;
  void sent(MessageBuffer& buffer, const Completion& completion);
  void received(MessageBuffer& buffer, const Completion& completion);

  // Of the side that asks.
  bool request_chunk(Operation& operation, const Chunk& chunk);
  bool request_atomic(Operation& operation);
  MessageBuffer* acquire_request(Operation& operation);
  void take_reply(MessageBuffer& buffer, const MessageHeader& header);
  void finish_request(MessageBuffer& request, const Failure& why);

  // Of the side that is asked.
  void serve(MessageBuffer& buffer);
  [[nodiscard]] std::uint8_t check(const MessageHeader& header) const;
  void reply(MessageBuffer& answer, MessageBuffer& request, MessageHeader header);
  [[nodiscard]] MessageHeader carry_out(MessageHeader header);

  void post_receive(MessageBuffer& buffer);
  void send(MessageBuffer& buffer);
  bool poll_copies();
  void copy_done(MessageBuffer& buffer);
  void copy_failed(MessageBuffer& buffer, const Error& error);
  void start_copy(MessageBuffer& buffer, std::uint64_t offset, std::size_t bytes);

  Setup setup_;
  std::size_t window_;   ///< requests to one peer
  std::size_t payload_;  ///< of a message, at most
  MessageBuffers requests_, replies_, receives_;
  std::vector<std::size_t> unanswered_;  ///< by PE
  std::uint64_t next_request_ = 1;
  std::vector<MessageBuffer*> copying_;
  std::deque<MessageBuffer*> to_send_, to_post_, to_serve_;
};

}  // namespace gshmem::ofi
