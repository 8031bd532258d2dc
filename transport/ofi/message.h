// Active messages as they are on the wire, and the registered buffers they are sent from and
// received into. Both sides are the same build on the same kind of machine: host byte order.
// Invariant: a message without the word of this job, which only its PEs know, is ignored.
#pragma once

#include "transport/ofi/memory_access.h"
#include "transport/ofi/operation.h"

#include <cstdint>
#include <deque>
#include <type_traits>
#include <vector>

namespace gshmem::ofi {

enum class MessageKind : std::uint8_t {
  kWrite,
  kRead,
  kAtomic,
  kAbandon,  ///< the queue is broken: nothing of it is to be carried out any more
  kReply,
};

struct MessageHeader {
  std::uint64_t job = 0;  ///< a random word that the PEs of a job have in common
  MessageKind kind = MessageKind::kReply;
  nic::WqeKind atomic = nic::WqeKind::kNop;
  std::uint8_t syndrome = 0;     ///< of a reply
  bool unwanted = false;         ///< nobody asks what the atomic has found
  std::uint32_t epoch = 0;       ///< reserved: always 0
  std::uint32_t source = 0;      ///< PE
  std::uint32_t key = 0;         ///< remote key of the WQE
  std::uint32_t queue = 0;       ///< of the receiver, that the sender's is connected to
  std::uint32_t number = 0;      ///< of the message in its queue: they are taken in this order
  std::uint32_t group = 0;       ///< of an atomic, and ...
  std::uint32_t pieces = 0;      ///< ... how many writes of it must have arrived
  std::uint64_t request = 0;     ///< a reply repeats it
  std::uint64_t offset = 0;      ///< in the target's heap
  std::uint64_t bytes = 0;       ///< of payload, or of the word
  nic::AtomicOperands operands;  ///< of an atomic
  std::uint64_t old = 0;         ///< what an atomic found
};
static_assert(sizeof(MessageHeader) == nic::kOfiHeaderBytes &&
              std::is_trivially_copyable_v<MessageHeader>);

/// Payloads start at multiples of it: copy engines are slow where the two sides differ in
/// alignment.
inline constexpr std::size_t kPayloadAlignment = 256;

/// One message. `memory` holds header and payload.
struct MessageBuffer : Context {
  enum class Role : std::uint8_t { kRequest, kReply, kReceive };
  enum class State : std::uint8_t {
    kFree,
    kReading,   ///< the heap into the payload; then sent
    kToSend,    ///< the provider had no place
    kSent,      ///< the provider has it
    kAwaiting,  ///< a request that is sent and not answered
  };
  std::uint8_t* memory = nullptr;
  Role role = Role::kReceive;
  State state = State::kFree;  ///< of a request or a reply
  bool answered = true;        ///< a request that waits for no reply, or not any more
  bool begun = false;          ///< by the queue that it is for (Inbound::next)
  int pe = -1;                 ///< at the other end
  std::size_t index = 0;       ///< among those of its role
  std::size_t lane = 0;        ///< of a receive
  Ticket ticket = kNoTicket;
  std::uint64_t request = 0;
  std::uint64_t local = 0;           ///< where a READ's data goes
  std::uint64_t old = 0;             ///< what an atomic found
  Operation* operation = nullptr;    ///< of a request
  MessageBuffer* answers = nullptr;  ///< of a received reply that is being written: its request

  [[nodiscard]] const MessageHeader& header() const {
    return *reinterpret_cast<const MessageHeader*>(memory);
  }
  void set_header(const MessageHeader& header);
  [[nodiscard]] std::uint8_t* payload() const { return memory + sizeof(MessageHeader); }
};

/// How many messages a PE has under way, and how large they are. Receives are posted for all that
/// may come.
struct MessageSizes {
  std::size_t window = 0;    ///< requests to one peer that may be unanswered
  std::size_t payload = 0;   ///< bytes of a message, at most
  std::size_t requests = 0;  ///< own ones at a time, and those of others that are being answered
  /// By a lane: requests of those PEs that use it, and replies.
  [[nodiscard]] std::size_t receives(std::size_t peers) const;
};
/// Of a job of `peers` PEs, whose messages carry data, or atomics alone. `places`: of the provider,
/// for receives; `largest`: the bytes of its largest message. Pure: the same on all PEs.
[[nodiscard]] MessageSizes message_sizes(std::size_t peers, bool carries_data, std::size_t places,
                                         std::size_t largest);

/// Buffers of one role, in one block that is registered with all lanes.
class MessageBuffers {
 public:
  struct Shape {
    std::size_t count, payload_bytes, peers;
  };
  MessageBuffers(Lanes& lanes, MemoryAccess& heap, MessageBuffer::Role role, const Shape& shape,
                 CompletionSink& sink);
  /// For a message to that PE; null when it may have no more.
  [[nodiscard]] MessageBuffer* acquire(int pe);
  void release(MessageBuffer& buffer);
  [[nodiscard]] MessageBuffer& operator[](std::size_t index) { return buffers_[index]; }
  [[nodiscard]] std::size_t count() const { return buffers_.size(); }
  [[nodiscard]] std::deque<MessageBuffer>& all() { return buffers_; }
  [[nodiscard]] const std::deque<MessageBuffer>& all() const { return buffers_; }
  [[nodiscard]] void* descriptor(std::size_t lane) const { return registered_.descriptors[lane]; }

 private:
  Staging memory_;
  LaneMemory registered_;
  std::deque<MessageBuffer> buffers_;
  std::vector<MessageBuffer*> free_;
  Shares shares_;
};

}  // namespace gshmem::ofi
