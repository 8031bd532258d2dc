// State of a queue pair: the operations of its send queue (requester.cpp), and the messages of its
// peer that it is receiving (responder.cpp). Guarded by the engine's lock.
#pragma once

#include "transport/nic/decode.h"
#include "transport/softnic/completion_queue.h"
#include "transport/softnic/engine.h"
#include "transport/softnic/packet.h"
#include "transport/softnic/receive_queue.h"

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <vector>

namespace gshmem::soft {

struct Region;
struct Target;

/// Bytes of a region that are read ahead, because small reads of it are slow (GPU memory).
struct ReadAhead {
  /// How many bytes one wait reads, of one message or of several.
  static constexpr std::uint64_t kBytes = 512 * 1024;
  std::unique_ptr<std::uint8_t[]> bytes;
  std::uint64_t first = 0, end = 0;  ///< offsets in the message

  [[nodiscard]] bool has(std::uint64_t offset) const { return offset >= first && offset < end; }
  [[nodiscard]] const std::uint8_t* at(std::uint64_t offset) const {
    return bytes.get() + (offset - first);
  }
  void make(std::uint64_t from, std::uint64_t size) {
    bytes = std::make_unique_for_overwrite<std::uint8_t[]>(size);
    first = from, end = from + size;
  }
  void drop() { *this = {}; }
};

/// A WQE between fetch and completion.
struct Operation {
  enum class Progress { kQueued, kSending, kSent, kDone };
  nic::Wqe wqe;
  std::vector<std::uint8_t> raw;  ///< as fetched
  std::uint64_t entry = 0;        ///< first entry, counted from the queue's beginning
  std::uint64_t entries = 1;
  std::uint64_t number = 0;   ///< WQE, counted from the queue's beginning
  std::uint64_t packet = 0;   ///< the first, counted from the connection's beginning
  std::uint64_t packets = 0;  ///< 0 = not numbered yet
  std::uint32_t epoch = 0;    ///< of the last attempt
  Progress progress = Progress::kQueued;
  std::uint8_t syndrome = 0, vendor = 0;
  std::uint8_t inject = 0;
  bool rules_asked = false, lost_once = false, reply_lost_once = false;
  std::uint64_t pieces_sent = 0;
  std::uint64_t received = 0;  ///< bytes of a read
  std::uint64_t losses = 0;    ///< lost_writes() before its data arrived
  std::int64_t not_before_ns = 0, complete_at_ns = 0;
  ReadAhead ahead;
  bool trails = false;
  std::vector<std::uint8_t> trailing;  ///< what it has fetched, held back when it `trails`

  [[nodiscard]] bool under_way() const {
    return progress == Progress::kSending || progress == Progress::kSent;
  }
  [[nodiscard]] bool returns_data() const {
    return wqe.kind == nic::WqeKind::kRead || wqe.is_atomic();
  }
};

/// A read whose data is sent packet by packet, or the old value of an atomic that waits.
struct PendingReply {
  Packet request;
  bool is_read = true;
  std::uint64_t old = 0;
  std::uint64_t sent = 0;
  std::int64_t not_before_ns = 0;
  ReadAhead ahead = {};
};

/// The result of an atomic, for the case that its request is sent again.
struct AnsweredAtomic {
  std::uint32_t psn = 0;
  std::uint64_t old = 0;
};

/// Data of a read whose completion was already written.
struct TrailingRead {
  nic::LocalPieces local;
  std::vector<std::uint8_t> data;
  std::int64_t until_ns = 0;
};

/// A write that takes effect after the next one.
struct HeldWrite {
  Packet request;
  std::vector<std::uint8_t> payload;
  std::int64_t until_ns = 0;
};

/// A part of a write that is acknowledged, but not yet in memory.
struct TrailingWrite {
  std::uint32_t key = 0, pd = 0;
  std::uint64_t address = 0;
  std::vector<std::uint8_t> payload;
  std::int64_t until_ns = 0;
};

/// The requester's state, which a reset clears. Entries are counted from the queue's beginning and
/// never wrap.
struct Sending {
  std::uint64_t producer = 0;  ///< last doorbell
  std::uint64_t fetched = 0;   ///< entries before it were read
  std::uint64_t retired = 0;   ///< entries before it are done
  std::uint64_t wqes = 0, packets = 0, unsignalled = 0;
  std::deque<Operation> operations;
  std::size_t next = 0;    ///< first of `operations` that is not sent
  bool failing = false;    ///< an operation has failed: no more are fetched
  bool jumped = false;     ///< a doorbell was beyond the queue: an error follows the other entries
  bool reset_due = false;  ///< a rule requests it
  std::deque<TrailingRead> trailing;
  std::uint32_t retries = 0, rnr_retries = 0;  ///< since the last acknowledgement
  std::int64_t retry_at_ns = 0;
  std::int64_t asked_alive_ns = 0, skip_until_ns = 0, flush_at_ns = 0;
  // Checker: how long the doorbell record has differed from the doorbell.
  std::int64_t record_differs_ns = 0;
  std::uint16_t record_seen = 0;
  bool record_reported = false;
  /// Since when its record serves as doorbell, because its doorbell may be lost; 0 = it does not.
  std::int64_t rescued_ns = 0;
  std::uint32_t bells = 0;  ///< bit n: it has been rung by the n-th register of its UAR
  /// An initiator's present target, which `rtr` leads to, and the first sequence number for it.
  std::optional<nic::AddressVector> peer;
  std::uint32_t peer_psn = 0;
};

/// The responder's state, which a reset clears.
struct Receiving {
  std::optional<Receive> receive;  ///< taken for the message that comes
  bool told_last = false;
  std::uint64_t taken = 0;   ///< packets, counted from the connection's beginning
  bool receiving = false;    ///< parts of a message are still to come
  std::uint64_t losses = 0;  ///< lost_writes() before its first piece
  std::deque<PendingReply> pending;
  std::deque<HeldWrite> held;
  std::deque<TrailingWrite> landing;
  std::deque<AnsweredAtomic> answered;  ///< the last ones, so that none is executed twice
};

struct QueuePair : Sending, Receiving {
  std::uint32_t number = 0;
  std::uint64_t ordinal = 0;  ///< number in the order of creation in this process
  QpAttributes attributes;
  QpInit init;
  QpRtr rtr;
  QpRts rts;
  QpState state = QpState::kReset;
  bool busy = false;  ///< in Context::busy
  CompletionQueue *send_cq = nullptr, *receive_cq = nullptr;
  std::uint32_t epoch = 0;  ///< it never decreases, not even by a reset
  /// Number of targets to which an initiator has connected; it never decreases. In a connection of
  /// a target it is the number that its initiator gave it.
  std::uint32_t connection = 0;
  const Target* target = nullptr;  ///< it is one of its connections
  std::uint64_t visits = 0, flushes = 0;
  std::unique_ptr<ReceiveQueue> own_receives;
  ReceiveQueue* receives = nullptr;  ///< that one, a shared one, or none
  [[nodiscard]] bool is_initiator() const { return attributes.service == Service::kInitiator; }
  [[nodiscard]] bool is_datagram() const { return attributes.service == Service::kDatagram; }
  /// Is it an unreliable connection? Then nothing is acknowledged or sent again.
  [[nodiscard]] bool is_unreliable() const { return attributes.service == Service::kUnreliable; }
  [[nodiscard]] bool shares_receives() const { return receives != own_receives.get(); }

  /// Is there nothing to do before a doorbell or a packet comes? Receives are not announced, they
  /// are found in memory. After an error they are returned; a connection of a target returns the
  /// one that it has taken.
  [[nodiscard]] bool at_rest() const {
    const bool flushes =
        target == nullptr ? receives != nullptr : receive && state == QpState::kError;
    return operations.empty() && fetched == producer && !jumped && !reset_due && trailing.empty() &&
           pending.empty() && held.empty() && landing.empty() && !flushes;
  }
  /// Returns the number of packets from the first operation that waits for an answer to the last
  /// one with a number. One half of the sequence numbers counts as old, the other as new
  /// (InfiniBand 9.7.2).
  [[nodiscard]] std::uint64_t packets_under_way() const {
    for (const Operation& op : operations)
      if (op.under_way()) return packets - op.packet;
    return 0;
  }
  [[nodiscard]] std::uint64_t depth() const {
    return std::uint64_t{1} << attributes.log_send_entries;
  }
  [[nodiscard]] std::uint8_t* slot(std::uint64_t entry) const {
    return static_cast<std::uint8_t*>(attributes.send_queue) +
           (entry & (depth() - 1)) * nic::kEntryBytes;
  }
};

/// The number that the peer's next packet should have.
[[nodiscard]] inline std::uint32_t expected_psn(const QueuePair& qp) {
  return static_cast<std::uint32_t>(qp.rtr.receive_psn + qp.taken) & kPsnMask;
}

/// Number of the operation's first packet.
[[nodiscard]] inline std::uint32_t psn_of(const QueuePair& qp, const Operation& op) {
  return static_cast<std::uint32_t>(qp.rts.send_psn + op.packet) & kPsnMask;
}

}  // namespace gshmem::soft
