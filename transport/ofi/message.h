// Active messages as they are on the wire, and the registered buffers they are sent from and
// received into. Both sides are the same build on the same kind of machine: host byte order.
#pragma once

#include "transport/ofi/memory_access.h"
#include "transport/ofi/operation.h"

#include <cstdint>
#include <deque>
#include <type_traits>
#include <vector>

namespace gshmem::ofi {

enum class MessageKind : std::uint8_t { kWrite, kRead, kAtomic, kReply };

struct MessageHeader {
  std::uint32_t magic = kMagic;
  MessageKind kind = MessageKind::kReply;
  nic::WqeKind atomic = nic::WqeKind::kNop;
  std::uint8_t syndrome = 0;  ///< of a reply
  std::uint8_t reserved = 0;
  std::uint32_t source = 0;   ///< PE
  std::uint32_t key = 0;      ///< remote key of the WQE
  std::uint64_t request = 0;  ///< a reply repeats it
  std::uint64_t offset = 0;   ///< in the target's heap
  std::uint64_t bytes = 0;    ///< of payload, or of the word
  std::uint64_t swap_or_add = 0, compare = 0, swap_mask = 0, compare_mask = 0, boundary = 0;
  std::uint64_t old = 0;  ///< what an atomic found

  static constexpr std::uint32_t kMagic = 0x31476d41;
};
static_assert(sizeof(MessageHeader) == 88 && std::is_trivially_copyable_v<MessageHeader>);

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
    kPosted,    ///< waits for a message
    kWaiting,   ///< received, waits for a reply buffer
    kWriting,   ///< the payload into the heap
    kAwaiting,  ///< a request that is sent and not answered
  };
  std::uint8_t* memory = nullptr;
  Role role = Role::kReceive;
  State state = State::kFree;
  bool answered = false;  ///< a request whose reply came before the end of its sending
  int pe = -1;            ///< at the other end
  Ticket ticket = kNoTicket;
  std::uint64_t request = 0;
  std::uint64_t local = 0;           ///< where a READ's data goes
  Operation* operation = nullptr;    ///< of a request
  MessageBuffer* answers = nullptr;  ///< of a received reply that is being written: its request

  [[nodiscard]] MessageHeader header() const;
  void set_header(const MessageHeader& header);
  [[nodiscard]] std::uint8_t* payload() const { return memory + sizeof(MessageHeader); }
};

/// Buffers of one role, in one registered block.
class MessageBuffers {
 public:
  struct Shape {
    std::size_t count, payload_bytes;
  };
  MessageBuffers(Fabric& fabric, MemoryAccess& heap, MessageBuffer::Role role, const Shape& shape,
                 CompletionSink& sink);
  [[nodiscard]] MessageBuffer* acquire();
  void release(MessageBuffer& buffer);
  [[nodiscard]] std::deque<MessageBuffer>& all() { return buffers_; }
  [[nodiscard]] const std::deque<MessageBuffer>& all() const { return buffers_; }
  [[nodiscard]] void* descriptor() const { return registered_.descriptor; }

 private:
  Staging memory_;
  Registered registered_;
  std::deque<MessageBuffer> buffers_;
  std::vector<MessageBuffer*> free_;
};

}  // namespace gshmem::ofi
