// Carries out operations where RMA cannot: requests travel as messages, the target's executor does
// them to its own heap and replies. For GPU heaps without GPUDirect RMA, for GSHMEM_GDR=off, and
// for atomics unless the NIC has them. Messages of a queue are under way at the same time; they are
// numbered, and the target carries them out in that order (inbound.h). Invariant: every message
// finds a posted buffer, because each PE keeps at most `window` requests to a peer unanswered and
// posts for all of them.
#pragma once

#include "transport/ofi/inbound.h"
#include "transport/ofi/message.h"
#include "transport/ofi/rma.h"

#include <deque>
#include <vector>

namespace gshmem::ofi {

class ActiveMessages final : public Engine,
                             private CompletionSink,
                             private ImmediateSink,
                             private FlushSink {
 public:
  struct Setup {
    Lanes& lanes;
    MemoryAccess& heap;
    std::vector<Peer>& peers;  ///< by PE
    int pe = 0;
    std::uint64_t job = 0;  ///< MessageHeader::job
    const Memories& memories;
    std::uint64_t heap_bytes = 0;
    std::uint32_t remote_key = 0;  ///< that requests of peers must name
    bool carries_data = false;     ///< writes and reads too, not atomics alone
    std::size_t max_queues = 0;    ///< of this PE
    /// What peers have written is in the heap only after a flush by it; null: always.
    RmaEngine* flusher = nullptr;
  };
  /// Posts its receives: peers may send from now on.
  explicit ActiveMessages(const Setup& setup);

  void issue(Operation& operation, bool more) override;
  [[nodiscard]] std::string awaits(const Operation& operation) const override;
  void abandon(Peer& peer, Outbound& outbound) override;
  /// Moves copies and messages on; true when something moved.
  bool progress();
  /// Nothing comes from that PE any more: its requests end, and so does what it has asked for.
  void peer_lost(int pe);

 private:
  void completed(Context& context, const Completion& completion) override;
  void arrived(std::uint32_t immediate) override;
  void flushed(const Failure& why) override;
  void sent(MessageBuffer& buffer, const Completion& completion);
  void received(MessageBuffer& buffer, const Completion& completion);
  [[nodiscard]] bool is_known(const MessageBuffer& buffer, const Completion& completion) const;
  [[nodiscard]] Peer& peer_of(const MessageBuffer& buffer);

  // Of the side that asks.
  bool request_chunk(Operation& operation, const Chunk& chunk);
  bool request_atomic(Operation& operation);
  MessageBuffer* acquire_request(Peer& peer, Operation* operation);
  [[nodiscard]] MessageHeader header_of(const MessageBuffer& buffer, Outbound& outbound);
  void send_abandon(Peer& peer, Outbound& outbound);
  void take_reply(MessageBuffer& buffer);
  void take_result(MessageBuffer& buffer, MessageBuffer& request);
  void end_reply(MessageBuffer& buffer, const Failure& why);
  void finish_request(MessageBuffer& request, const Failure& why);

  // Of the side that is asked.
  struct Served : Inbound {
    int pe = -1;          ///< whose queue it is, once that is known
    bool listed = false;  ///< in to_serve_
  };
  void serve(Served& queue);
  [[nodiscard]] bool begin(MessageBuffer& buffer, Served& queue);
  void carry_out(MessageBuffer& atomic);
  void refuse(MessageBuffer& answer, MessageBuffer& request, std::uint8_t syndrome);
  [[nodiscard]] std::uint8_t check(const MessageHeader& header) const;
  [[nodiscard]] MessageHeader answer_to(const MessageHeader& request) const;
  void end_served(MessageBuffer& request);
  void reply(MessageBuffer& answer, MessageBuffer& request, std::uint8_t syndrome);

  void post_receive(MessageBuffer& buffer);
  void send(MessageBuffer& buffer);
  /// In the next round: the provider has no room now.
  void send_again(MessageBuffer& buffer);
  void release(MessageBuffer& buffer);
  bool poll_copies();
  void copy_done(MessageBuffer& buffer);
  void copy_failed(MessageBuffer& buffer, const Error& error);
  /// Calls `start`, which gives a ticket; then copy_done or copy_failed, now or later.
  template <class Start>
  void start_copy(MessageBuffer& buffer, Start start) {
    try {
      buffer.ticket = start();
    } catch (const Error& error) {
      copy_failed(buffer, error);
      return;
    }
    if (buffer.ticket == kNoTicket)
      copy_done(buffer);
    else
      copying_.push_back(&buffer);
  }

  Setup setup_;
  MessageSizes sizes_;
  MessageBuffers requests_, replies_, receives_;
  std::uint64_t next_request_ = 1;
  std::deque<Served> served_;  ///< by queue
  std::vector<MessageBuffer*> copying_;
  std::vector<MessageBuffer*> to_send_, to_post_;
  std::vector<Served*> to_serve_;
  std::vector<MessageBuffer*> to_flush_, flushing_;  ///< atomics, in the order of their turns
  struct Abandoned {
    Peer* peer;
    Outbound* outbound;
  };
  std::vector<Abandoned> to_abandon_;
};

}  // namespace gshmem::ofi
