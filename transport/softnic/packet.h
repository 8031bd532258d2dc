// Packets between the engines of two processes: requests of a queue pair's send queue, and
// replies. Host byte order; both ends are the same machine. Included by ring.h, the requester and
// the responder.
#pragma once

#include "transport/nic/decode.h"
#include "transport/softnic/route.h"

#include <cstdint>
#include <type_traits>

namespace gshmem::soft {

enum class PacketKind : std::uint8_t {
  kSkip,  ///< fills the end of a ring
  // Requests.
  kWrite,  ///< a part of a message of at most one MTU
  kRead,
  kAtomic,
  kSend,      ///< a part of a message for a buffer of the receiver
  kDatagram,  ///< kSend, but without connection and answer
  kLeave,     ///< an initiator ends its connection with a target; no answer
  // Replies.
  kAck,       ///< done, or failed with `syndrome`
  kNotReady,  ///< not executed, to be tried again: see `condition`
  kData,      ///< a part of the data of a read
  kOld,       ///< value before an atomic
};

/// Values of Packet::inject that are not syndromes. kPeerError: the responder's queue pair goes to
/// the error state. kNoRoom: the responder has no room.
inline constexpr std::uint8_t kPeerError = 0xff, kNoRoom = 0xfe;

/// Packet sequence numbers have 24 bits; one half of them is ahead of a number, the other half
/// before it (InfiniBand 9.7.2).
inline constexpr std::uint32_t kPsnMask = 0xffffff, kPsnHalf = 0x800000;
/// Returns how many numbers a message takes: its packets, or those of the answer to a read.
[[nodiscard]] constexpr std::uint64_t packets_of(std::uint64_t bytes, std::uint32_t mtu) {
  return bytes == 0 ? 1 : (bytes + mtu - 1) / mtu;
}

/// The buffer of a datagram begins with its GRH, or with space for one (InfiniBand 11.4.1.2).
inline constexpr std::uint32_t kGrhBytes = 40;

/// Why a request was not executed. It decides when and how often the requester tries again.
enum class Condition : std::uint8_t {
  kSilence,   ///< a NIC would not answer: no receiver, or no connection to it
  kSequence,  ///< another packet was expected: NAK, PSN sequence error
  kReceiver,  ///< the receiver has no room yet: RNR NAK
};

struct alignas(64) Packet {
  PacketKind kind = PacketKind::kSkip;
  nic::WqeKind wqe_kind = nic::WqeKind::kNop;  ///< of an atomic
  std::uint8_t syndrome = 0, vendor = 0;
  std::uint8_t inject = 0;  ///< syndrome with which the responder has to fail (rules.h)
  Condition condition = Condition::kSilence;
  bool first = false, last = false;  ///< of the message as sent; parts may come in any order
  std::uint32_t payload_bytes = 0;
  std::uint32_t key = 0;
  std::uint32_t source = 0, target = 0;  ///< queue pair numbers
  /// Number of the requester's attempt. A reply repeats it, so that replies to earlier attempts can
  /// be told apart.
  std::uint32_t epoch = 0;
  std::uint32_t psn = 0;        ///< of a request; a reply repeats it
  std::uint32_t rnr_timer = 0;  ///< of the responder, with kReceiver
  std::uint32_t immediate = 0;
  std::uint64_t address = 0;     ///< of the message's first byte
  std::uint64_t length = 0;      ///< of the message
  std::uint64_t offset = 0;      ///< of this piece
  nic::AtomicOperands operands;  ///< of an atomic
  std::uint64_t old = 0;
  bool has_immediate = false, solicited = false;  ///< for the receiver's completion, at the end
  Addresses addresses;

  /// Does the packet represent an answer that does not come?
  [[nodiscard]] bool is_silence() const {
    return kind == PacketKind::kNotReady && condition == Condition::kSilence;
  }

  // The members below are set in an initiator's request.
  std::uint64_t access_key = 0;
  std::uint32_t connection = 0;      ///< counts those of the initiator from 1; 0 = of a queue pair
  std::uint32_t connection_psn = 0;  ///< first packet sequence number of that connection

  std::uint32_t queue_key = 0;  ///< of a datagram
  std::uint32_t flow_label = 0;
  std::uint8_t traffic_class = 0;
};
static_assert(sizeof(Packet) == 256 && std::is_trivially_copyable_v<Packet>);

}  // namespace gshmem::soft
