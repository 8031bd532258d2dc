// Executes operations where RMA cannot: requests are sent as messages, and the target's executor
// executes them on its own heap and replies. This is used for GPU heaps without GPUDirect RMA, for
// GSHMEM_GDR=off, and for atomics that the NIC does not support. Several messages of a queue are
// pending at the same time. They are numbered, and the target executes them in that order
// (reorder.h). Invariant: every message finds a posted buffer, because each PE keeps at most
// `window` requests to a peer unanswered and posts buffers for all of them.
#pragma once

#include "transport/ofi/reorder.h"
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
    OfiRails& rails;
    MemoryAccess& heap;
    std::vector<Peer>& peers;  ///< indexed by PE
    int pe = 0;
    std::uint64_t job = 0;  ///< MessageHeader::job
    const Memories& memories;
    std::uint64_t heap_bytes = 0;
    std::uint32_t remote_key = 0;  ///< key that requests of peers must contain
    bool carries_data = false;     ///< carries writes and reads, too, not only atomics
    std::size_t max_queues = 0;    ///< number of queues of this PE, at most
    /// Data that peers have written is in the heap only after this engine has flushed; null: it
    /// always is.
    RmaEngine* flusher = nullptr;
  };
  /// Posts its receives: peers may send from now on.
  explicit ActiveMessages(const Setup& setup);

  void issue(Operation& operation, bool more) override;
  [[nodiscard]] std::string awaits(const Operation& operation) const override;
  void abandon(Peer& peer, Outbound& outbound) override;
  /// Advances copies and messages; true when something advanced.
  bool progress();
  /// No messages arrive from that PE any more: the requests to it end, and so does the work for it.
  void peer_lost(int pe);

 private:
  void completed(Context& context, const Completion& completion) override;
  void arrived(std::uint32_t immediate) override;
  void flushed(const Failure& why) override;
  void sent(MessageBuffer& buffer, const Completion& completion);
  void received(MessageBuffer& buffer, const Completion& completion);
  [[nodiscard]] bool is_known(const MessageBuffer& buffer, const Completion& completion) const;
  [[nodiscard]] Peer& peer_of(const MessageBuffer& buffer);

  // For the requesting side.
  bool request_chunk(Operation& operation, const Chunk& chunk);
  bool request_atomic(Operation& operation);
  MessageBuffer* acquire_request(Peer& peer, Operation* operation);
  [[nodiscard]] MessageHeader header_of(const MessageBuffer& buffer, Outbound& outbound);
  void send_abandon(Peer& peer, Outbound& outbound);
  void take_reply(MessageBuffer& buffer);
  void take_result(MessageBuffer& buffer, MessageBuffer& request);
  void end_reply(MessageBuffer& buffer, const Failure& why);
  void finish_request(MessageBuffer& request, const Failure& why);

  // For the side that executes requests.
  struct Served : Reorder {
    int pe = -1;          ///< owner of the queue, once it is known
    bool listed = false;  ///< it is in to_serve_
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
  /// Sends the buffer in the next round, since the provider has no space now.
  void send_again(MessageBuffer& buffer);
  void release(MessageBuffer& buffer);
  bool poll_copies();
  void copy_done(MessageBuffer& buffer);
  void copy_failed(MessageBuffer& buffer, const Error& error);
  /// Calls `start`, which returns a ticket; then calls copy_done or copy_failed, now or later.
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
  std::vector<MessageBuffer*> to_flush_, flushing_;  ///< atomics, in the order of their numbers
  struct Abandoned {
    Peer* peer;
    Outbound* outbound;
  };
  std::vector<Abandoned> to_abandon_;
};

}  // namespace gshmem::ofi
