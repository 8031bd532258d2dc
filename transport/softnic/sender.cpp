// The part of the requester that sends requests and receives replies. gather.cpp accesses the
// memory of their data.
#include "transport/softnic/requester.h"

#include "host/base/error.h"
#include "host/base/log.h"

#include <algorithm>
#include <cstring>
#include <limits>

namespace gshmem::soft {
namespace {

constexpr std::int64_t kAskAliveNs = 20'000'000;
/// Factor by which acknowledgement timeouts are shorter than a NIC's, so that tests can wait for
/// them.
constexpr std::int64_t kTimeoutScale = 32;
/// The value of rnr_retry that means without end (InfiniBand 11.2.4.2, RNR retry count).
constexpr std::uint32_t kRnrEndless = 7;

PacketKind kind_of(const nic::Wqe& wqe) {
  if (wqe.kind == nic::WqeKind::kWrite) return PacketKind::kWrite;
  if (wqe.kind == nic::WqeKind::kSend) return PacketKind::kSend;
  return wqe.kind == nic::WqeKind::kRead ? PacketKind::kRead : PacketKind::kAtomic;
}

void fill(Packet& packet, const QueuePair& qp, const Operation& op) {
  packet.kind = kind_of(op.wqe);
  packet.wqe_kind = op.wqe.kind;
  packet.inject = op.inject;
  packet.vendor = op.vendor;
  packet.key = op.wqe.remote_key;
  packet.source = qp.number;
  packet.target = qp.rtr.remote_qpn;
  packet.epoch = op.epoch;
  packet.psn = (psn_of(qp, op) + static_cast<std::uint32_t>(op.pieces_sent)) & kPsnMask;
  packet.address = op.wqe.remote_address;
  packet.length = op.wqe.length;
  packet.operands = op.wqe;
  packet.has_immediate = op.wqe.has_immediate;
  packet.solicited = op.wqe.solicited;
  packet.immediate = op.wqe.immediate;
  if (!qp.peer) return;
  packet.access_key = qp.peer->key;
  packet.connection = qp.connection;
  packet.connection_psn = qp.peer_psn;
}

/// Returns the local ACK timeout, 4.096 us * 2^n (InfiniBand 9.7.6.1.3); 0 switches it off.
std::int64_t ack_timeout_ns(const QueuePair& qp) {
  constexpr std::int64_t kMinNs = 1'000'000;
  const std::uint32_t exponent = qp.rts.ack_timeout & 31;
  return exponent == 0 ? kNever
                       : std::max((std::int64_t{4096} << exponent) / kTimeoutScale, kMinNs);
}

/// Returns the time of the RNR NAK timer field, InfiniBand 9.7.5.2.8: 0.01 ms times 1, 2, 3, 4, 6,
/// 8, 12, ...; code 0 follows code 31.
std::int64_t rnr_timer_ns(std::uint32_t code) {
  constexpr std::int64_t kUnitNs = 10'000;
  const std::uint32_t place = code == 0 ? 32 : code & 31;
  if (place == 1) return kUnitNs;
  return kUnitNs *
         (place % 2 == 0 ? std::int64_t{1} << place / 2 : std::int64_t{3} << (place - 3) / 2);
}

}  // namespace

bool Requester::execute(QueuePair& qp, Operation& op, std::int64_t now) {
  if (op.progress == Operation::Progress::kQueued) {
    if (!apply_rules(qp, op, now)) return false;
    if (op.syndrome != 0 || !check_local(qp, op)) return true;
  }
  switch (op.wqe.kind) {
    case nic::WqeKind::kNop:
      done(qp, op, now);
      return true;
    case nic::WqeKind::kWait: {
      const auto awaited = context_.cqs.find(op.wqe.awaited_queue);
      if (!qp.attributes.waits_for_others || awaited == context_.cqs.end()) {
        reject(qp, op, kLocalOperation,
               !qp.attributes.waits_for_others ? "WAIT in a queue pair without cd_master"
                                               : "WAIT for a completion queue that there is not");
        return true;
      }
      if (!awaited->second->has_had(op.wqe.awaited_count)) return false;
      done(qp, op, now);
      return true;
    }
    case nic::WqeKind::kDump: {
      // When a DUMP completes, earlier incoming data is in memory: clients use it for that.
      for (QueuePair* other : context_.busy) land_trailing(*other, kNever);
      context_.push_writes();
      done(qp, op, now);
      return true;
    }
    default:
      return qp.is_datagram() ? send_datagram(qp, op, now) : send(qp, op, now);
  }
}

/// Returns false if the operation has to wait because of a rule.
bool Requester::apply_rules(QueuePair& qp, Operation& op, std::int64_t now) {
  if (op.rules_asked) return true;
  op.rules_asked = true;
  const Rule* rule = context_.rules.match(qp.number, qp.ordinal, op.number, op.wqe.kind);
  if (rule == nullptr) return true;
  const bool on_wire = op.wqe.is_on_wire();
  switch (*rule->action) {
    case Rule::Action::kDelay:
      op.not_before_ns = now + static_cast<std::int64_t>(rule->delay_ns);
      return false;
    case Rule::Action::kDrop:
      if (!on_wire) return true;
      if (qp.is_datagram() || qp.is_unreliable()) {  // it is not sent again
        op.lost_once = true;
        return true;
      }
      op.rules_asked = false;
      try_again(qp, op, Condition::kSilence, now);
      return op.syndrome != 0;
    case Rule::Action::kRnr:
      if (on_wire) op.inject = kNoRoom;
      return true;
    case Rule::Action::kSyndrome:
      if (on_wire && rule->syndrome >= kRemoteRequest && rule->syndrome <= kRemoteOperation) {
        op.inject = rule->syndrome;
        op.vendor = rule->vendor;
      } else {
        set_failed(qp, op, rule->syndrome, rule->vendor);
      }
      return true;
    case Rule::Action::kRemoteKey:
      op.wqe.remote_key = ~op.wqe.remote_key;
      return true;
    case Rule::Action::kPeerError:
      if (on_wire) op.inject = kPeerError;
      return true;
    case Rule::Action::kPortDown:
    case Rule::Action::kPortFlap:
      context_.port_down = true;
      context_.port_up_ns =
          rule->delay_ns > 0 ? now + static_cast<std::int64_t>(rule->delay_ns) : 0;
      context_.tell({DeviceEvent::Kind::kPortDown});
      return true;
    case Rule::Action::kDeviceGone:
      context_.gone = context_.port_down = true;
      context_.tell({DeviceEvent::Kind::kDeviceGone});
      return false;
    case Rule::Action::kQueueReset:
      qp.reset_due = true;
      return false;
    case Rule::Action::kCqOverrun:
      qp.send_cq->break_off();
      context_.tell({DeviceEvent::Kind::kCqError, qp.send_cq->number()});
      qp.state = QpState::kError;
      return false;
    case Rule::Action::kQueueError:
      qp.state = QpState::kError;
      return false;
  }
  return true;
}

/// Checks all local pieces before anything is sent. Returns false if the operation has failed.
bool Requester::check_local(QueuePair& qp, Operation& op) {
  const std::uint32_t rights = op.returns_data() ? std::uint32_t{kLocalWrite} : 0;
  for (const nic::LocalPiece& piece : op.wqe.local) {
    const char* why = "";
    if (context_.regions.check(piece.key, qp.attributes.pd, rights, piece.address, piece.bytes,
                               &why) == nullptr) {
      reject(qp, op, kLocalProtection,
             strprintf("local address 0x%lx, %u bytes, key 0x%x: %s", piece.address, piece.bytes,
                       piece.key, why));
      return false;
    }
  }
  return true;
}

bool Requester::send(QueuePair& qp, Operation& op, std::int64_t now) {
  if (qp.is_initiator() && !turn_to_target(qp, op)) return op.syndrome != 0;
  const std::uint32_t node = qp.rtr.remote_qpn >> kLocalBits;
  Ring* ring = context_.fabric->request_to(node);
  if (qp.is_unreliable() && op.returns_data()) {
    reject(qp, op, kLocalOperation, "a read or an atomic on an unreliable connection");
    return true;
  }
  if (qp.is_unreliable() && (ring == nullptr || context_.port_down || op.lost_once)) {
    done(qp, op, now);
    return true;
  }
  if (ring == nullptr || context_.port_down || context_.costs.fails(Costs::Fails::kPeer)) {
    try_again(qp, op, Condition::kSilence, now);
    return op.syndrome != 0;
  }
  if (op.progress == Operation::Progress::kQueued) {
    if (op.packets == 0 && !number(qp, op)) return false;
    op.epoch = qp.epoch;
    op.pieces_sent = op.received = 0;
    op.losses = lost_writes();
    op.trails = op.returns_data() &&
                context_.adversary.decides(Behaviour::kTrailingRead, qp.ordinal, op.number);
    op.progress = Operation::Progress::kSending;
  }
  const std::uint64_t pieces = op.wqe.carries_data() ? op.packets : 1;
  while (op.pieces_sent < pieces) {
    if (pieces > 1 && op.pieces_sent == pieces / 2 && !op.lost_once && !qp.is_unreliable() &&
        context_.adversary.decides(Behaviour::kDrop, qp.ordinal, op.number)) {
      op.lost_once = true;
      try_again(qp, op, Condition::kSequence, now);
      return false;
    }
    if (!send_piece(qp, op, *ring, pieces, now)) return false;
    if (op.syndrome != 0) return true;
    ++op.pieces_sent;
  }
  op.progress = Operation::Progress::kSent;
  op.ahead.drop();
  if (qp.is_unreliable()) done(qp, op, now);
  return true;
}

/// Assigns sequence numbers to the operation. Returns false if so many packets are pending that old
/// numbers could not be distinguished from new ones.
bool Requester::number(QueuePair& qp, Operation& op) {
  const bool one = op.wqe.is_atomic();
  const std::uint64_t packets = one ? 1 : packets_of(op.wqe.length, qp.rtr.mtu);
  if (qp.packets_under_way() + packets > kPsnHalf) return false;
  op.packet = qp.packets;
  op.packets = packets;
  qp.packets += packets;
  return true;
}

/// Sends the next packet. Returns false if there is no room. The operation may have failed when it
/// returns true.
bool Requester::send_piece(QueuePair& qp, Operation& op, Ring& ring, std::uint64_t pieces,
                           std::int64_t now) {
  const std::uint64_t piece = op.pieces_sent;
  std::uint64_t place = piece;
  if (context_.adversary.decides(Behaviour::kReorderBytes, qp.ordinal, op.number)) {
    place = pieces - 1 - piece;
  }
  const std::uint64_t offset = place * qp.rtr.mtu;
  const auto bytes = static_cast<std::uint32_t>(
      op.wqe.carries_data() ? std::min<std::uint64_t>(qp.rtr.mtu, op.wqe.length - offset) : 0);
  Packet* packet = ring.reserve(bytes);
  if (packet == nullptr) return false;
  fill(*packet, qp, op);
  packet->addresses = *addresses_of(context_.port, qp.rtr.route);
  packet->offset = offset;
  packet->first = piece == 0;
  packet->last = piece + 1 == pieces;
  if (!gather(qp, op, offset, Ring::payload(packet), bytes, now)) {
    reject(qp, op, kLocalProtection, "a local region went away under way");
    return true;
  }
  ring.commit();
  return true;
}

Operation* Requester::find(QueuePair& qp, std::uint32_t psn, std::uint32_t epoch) {
  for (Operation& op : qp.operations) {
    if (!op.under_way() || op.epoch != epoch) continue;
    if (((psn - psn_of(qp, op)) & kPsnMask) < op.packets) return &op;
  }
  return nullptr;
}

void Requester::on_reply(QueuePair& qp, const Packet& reply, const std::uint8_t* payload,
                         std::int64_t now) {
  if (qp.state != QpState::kRts) return;
  Operation* const found = find(qp, reply.psn, reply.epoch);
  if (found == nullptr) return;  // it belongs to an attempt that was given up
  if (!found->reply_lost_once && reply.kind != PacketKind::kNotReady && reply.syndrome == 0 &&
      context_.adversary.decides(Behaviour::kDropReply, qp.ordinal, found->number)) {
    found->reply_lost_once = true;
    return try_again(qp, *found, Condition::kSequence, now);
  }
  switch (reply.kind) {
    case PacketKind::kNotReady:
      return try_again(qp, *found, reply.condition, now, reply.rnr_timer);
    case PacketKind::kAck:
      if (reply.syndrome != 0) return set_failed(qp, *found, reply.syndrome, reply.vendor);
      return done(qp, *found, now);
    case PacketKind::kData:
      return on_data(qp, *found, reply, payload, now);
    case PacketKind::kOld:
      return on_old(qp, *found, reply.old, now);
    default:
      return;
  }
}

void Requester::on_lost(QueuePair& qp, const Packet& reply, std::int64_t now) {
  if (qp.state != QpState::kRts) return;
  Operation* const found = find(qp, reply.psn, reply.epoch);
  if (found != nullptr) try_again(qp, *found, Condition::kSilence, now);
}

void Requester::on_data(QueuePair& qp, Operation& op, const Packet& reply,
                        const std::uint8_t* payload, std::int64_t now) {
  // All packets but the last are as long as the path MTU (InfiniBand 9.7.4.1.6).
  const std::uint64_t due = std::min<std::uint64_t>(qp.rtr.mtu, op.wqe.length - reply.offset);
  if (reply.payload_bytes != due) return set_failed(qp, op, kBadResponse);
  if (op.trails) {
    op.trailing.resize(op.wqe.length);
    std::copy_n(payload, reply.payload_bytes,
                op.trailing.begin() + static_cast<std::ptrdiff_t>(reply.offset));
  } else if (!local(qp, op.wqe.local).scatter(reply.offset, payload, reply.payload_bytes)) {
    return reject(qp, op, kLocalProtection, "a local region went away under way");
  }
  op.received += reply.payload_bytes;
  if (op.received < op.wqe.length) return;
  if (op.trails) return done(qp, op, now);
  arrived(qp, op, now);
}

/// Stores the old value. HCA capabilities: with atomic_req_8B_endianness_mode 1, 8 bytes are in
/// host order; results of 4 bytes are always big-endian.
void Requester::on_old(QueuePair& qp, Operation& op, std::uint64_t old, std::int64_t now) {
  if (op.wqe.length == 4) old = __builtin_bswap32(static_cast<std::uint32_t>(old));
  const auto* const bytes = reinterpret_cast<const std::uint8_t*>(&old);  // little-endian
  if (op.trails) {
    op.trailing.assign(bytes, bytes + op.wqe.length);
    return done(qp, op, now);
  }
  if (!local(qp, op.wqe.local).scatter(0, bytes, op.wqe.length)) {
    return reject(qp, op, kLocalProtection, "a local region went away under way");
  }
  arrived(qp, op, now);
}

/// Sends an operation and all after it again, because the peer did not execute it, or it was lost.
/// It fails after too many attempts (InfiniBand 9.7.6.1.3, 9.7.6.1.4 and 11.2.4.2).
void Requester::try_again(QueuePair& qp, Operation& op, Condition condition, std::int64_t now,
                          std::uint32_t rnr_timer) {
  for (const Operation& earlier : qp.operations) {
    if (&earlier == &op) break;
    if (earlier.syndrome != 0) return;  // it will be flushed
  }
  ++context_.counters.retries;
  if (condition == Condition::kReceiver) {
    const bool endless = qp.rts.rnr_retries == kRnrEndless;
    if (!endless && ++qp.rnr_retries > qp.rts.rnr_retries) return set_failed(qp, op, kRnrExceeded);
    qp.retry_at_ns = now + rnr_timer_ns(rnr_timer);
    if (op.inject == kNoRoom) op.inject = 0, op.rules_asked = false;
  } else {
    const std::int64_t timeout = ack_timeout_ns(qp);
    const bool silent = condition == Condition::kSilence;
    // Without the timer the loss is never detected.
    if (silent && timeout == kNever) {
      qp.retry_at_ns = kNever;
    } else if (++qp.retries > qp.rts.retries) {
      return set_failed(qp, op, kRetryExceeded);
    } else {
      qp.retry_at_ns = silent ? now + timeout : 0;
    }
  }
  ++qp.epoch;
  std::size_t index = 0;
  while (&qp.operations[index] != &op) ++index;
  qp.next = std::min(qp.next, index);
  for (; index < qp.operations.size(); ++index) {
    Operation& later = qp.operations[index];
    if (later.under_way()) later.progress = Operation::Progress::kQueued;
  }
}

/// Checks whether the peer's process has ended: then it never answers.
bool Requester::check_peer(QueuePair& qp, std::int64_t now) {
  if (now - qp.asked_alive_ns < kAskAliveNs) return false;
  qp.asked_alive_ns = now;
  const auto waiting =
      std::ranges::find_if(qp.operations, [](const Operation& op) { return op.under_way(); });
  if (waiting == qp.operations.end()) return false;
  const std::uint32_t node = qp.rtr.remote_qpn >> kLocalBits;
  if (context_.fabric->alive(node)) return false;
  if (context_.fabric->reply_from(node).front() != nullptr) return false;  // its last words
  GSHMEM_INFO("soft NIC: queue pair 0x%x: the process of queue pair 0x%x has ended", qp.number,
              qp.rtr.remote_qpn);
  set_failed(qp, *waiting, kRetryExceeded);
  return true;
}

}  // namespace gshmem::soft
