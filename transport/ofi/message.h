// Active messages in their wire format, and the registered buffers that they are sent from and
// received into. Both sides are the same build on the same kind of machine, so the format is in
// host byte order. Invariant: a message without the secret word of this job, which only its PEs
// know, is ignored.
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
  kAbandon,  ///< the queue is broken: none of its messages are executed any more
  kReply,
};

struct MessageHeader {
  std::uint64_t job = 0;  ///< a random word that the PEs of a job share
  MessageKind kind = MessageKind::kReply;
  nic::WqeKind atomic = nic::WqeKind::kNop;
  std::uint8_t syndrome = 0;  ///< for a reply
  bool unwanted = false;      ///< the old value of the atomic is unused
  std::uint32_t epoch = 0;    ///< reserved: always 0
  std::uint32_t source = 0;   ///< number of the sending PE
  std::uint32_t key = 0;      ///< remote key of the WQE
  std::uint32_t queue = 0;    ///< the receiver's queue that the sender's is connected to
  /// Number of the message in its queue; messages are executed in this order.
  std::uint32_t number = 0;
  std::uint32_t group = 0;       ///< the group of an atomic, and ...
  std::uint32_t pieces = 0;      ///< ... how many writes of it must have arrived
  std::uint64_t request = 0;     ///< a reply repeats this value
  std::uint64_t offset = 0;      ///< offset in the target's heap
  std::uint64_t bytes = 0;       ///< size of the payload, or of the word
  nic::AtomicOperands operands;  ///< for an atomic
  std::uint64_t old = 0;         ///< the old value of an atomic
};
static_assert(sizeof(MessageHeader) == nic::kOfiHeaderBytes &&
              std::is_trivially_copyable_v<MessageHeader>);

/// Payloads start at multiples of this: copy engines are slow if the two sides differ in alignment.
inline constexpr std::size_t kPayloadAlignment = 256;

/// One message. `memory` holds header and payload.
struct MessageBuffer : Context {
  enum class Role : std::uint8_t { kRequest, kReply, kReceive };
  enum class State : std::uint8_t {
    kFree,
    kReading,   ///< the heap is copied into the payload, which is sent afterwards
    kToSend,    ///< the provider had no space
    kSent,      ///< the provider is sending it
    kAwaiting,  ///< the request was sent and is not answered
  };
  std::uint8_t* memory = nullptr;
  Role role = Role::kReceive;
  State state = State::kFree;  ///< state of a request or a reply
  bool answered = true;        ///< the request waits for no reply, or no longer
  bool begun = false;          ///< the queue that it belongs to has begun it (Reorder::next)
  int pe = -1;                 ///< the other PE
  std::size_t index = 0;       ///< index among the buffers of its role
  std::size_t rail = 0;        ///< rail of a receive
  Ticket ticket = kNoTicket;
  std::uint64_t request = 0;
  std::uint64_t local = 0;           ///< where the data of a READ is stored
  std::uint64_t old = 0;             ///< old value of an atomic
  Operation* operation = nullptr;    ///< operation of a request
  MessageBuffer* answers = nullptr;  ///< for a received reply that is being written: its request

  [[nodiscard]] const MessageHeader& header() const {
    return *reinterpret_cast<const MessageHeader*>(memory);
  }
  void set_header(const MessageHeader& header);
  [[nodiscard]] std::uint8_t* payload() const { return memory + sizeof(MessageHeader); }
};

/// The number and the size of the messages that a PE may have pending. Receives are posted for all
/// messages that may arrive.
struct MessageSizes {
  std::size_t window = 0;   ///< number of requests to one peer that may be unanswered
  std::size_t payload = 0;  ///< maximum size of a message's payload, in bytes
  /// Number of this PE's requests at a time, and of others' requests that are being answered.
  std::size_t requests = 0;
  /// Returns the receives of one rail: requests of those PEs that use it, and replies.
  [[nodiscard]] std::size_t receives(std::size_t peers) const;
};
/// Returns the sizes for a job of `peers` PEs, whose messages carry data, or only atomics. `places`
/// is the provider's number of receives, `largest` the size of its largest message. Pure: the
/// result is the same on all PEs.
[[nodiscard]] MessageSizes message_sizes(std::size_t peers, bool carries_data, std::size_t places,
                                         std::size_t largest);

/// The buffers of one role, in one block that is registered with all rails.
class MessageBuffers {
 public:
  struct Shape {
    std::size_t count, payload_bytes, peers;
  };
  MessageBuffers(OfiRails& rails, MemoryAccess& heap, MessageBuffer::Role role, const Shape& shape,
                 CompletionSink& sink);
  /// Returns a buffer for a message to that PE; null when the PE has used its share.
  [[nodiscard]] MessageBuffer* acquire(int pe);
  void release(MessageBuffer& buffer);
  [[nodiscard]] MessageBuffer& operator[](std::size_t index) { return buffers_[index]; }
  [[nodiscard]] std::size_t count() const { return buffers_.size(); }
  [[nodiscard]] std::deque<MessageBuffer>& all() { return buffers_; }
  [[nodiscard]] const std::deque<MessageBuffer>& all() const { return buffers_; }
  [[nodiscard]] void* descriptor(std::size_t rail) const { return registered_.descriptors[rail]; }

 private:
  Staging memory_;
  RailMemory registered_;
  std::deque<MessageBuffer> buffers_;
  std::vector<MessageBuffer*> free_;
  PeerQuota quota_;
};

}  // namespace gshmem::ofi
