// The part of the requester that touches the wire: requests out, replies in. gather.cpp has the
// memory that they come from and go to.
#include "transport/nic/soft/requester.h"

#include "host/base/error.h"
#include "host/base/log.h"

#include <algorithm>
#include <cstring>
#include <limits>

namespace gshmem::soft {
namespace {

constexpr std::int64_t kAskAliveNs = 20'000'000;
/// How long a peer may take to connect its side.
constexpr std::int64_t kConnectNs = 5'000'000'000;

PacketKind kind_of(const nic::Wqe& wqe) {
  if (wqe.kind == nic::WqeKind::kWrite) return PacketKind::kWrite;
  return wqe.kind == nic::WqeKind::kRead ? PacketKind::kRead : PacketKind::kAtomic;
}

void fill(Packet& packet, const QueuePair& qp, const Operation& op) {
  packet.kind = kind_of(op.wqe);
  packet.wqe_kind = static_cast<std::uint8_t>(op.wqe.kind);
  packet.inject = op.inject;
  packet.vendor = op.inject != 0 ? op.vendor : 0;
  packet.key = op.wqe.remote_key;
  packet.source = qp.number;
  packet.target = qp.rtr.remote_qpn;
  packet.epoch = op.epoch;
  packet.message = op.message;
  packet.address = op.wqe.remote_address;
  packet.length = op.wqe.length;
  packet.swap_or_add = op.wqe.swap_or_add;
  packet.compare = op.wqe.compare;
  packet.swap_mask = op.wqe.swap_mask;
  packet.compare_mask = op.wqe.compare_mask;
  packet.boundary = op.wqe.boundary;
}

}  // namespace

// Local ACK timeout, 4.096 us * 2^n (InfiniBand 9.7.6.1.3), within bounds that a test can wait for.
std::int64_t retry_interval_ns(const QueuePair& qp) {
  constexpr std::int64_t kMinNs = 1'000'000, kMaxNs = 20'000'000;
  const std::uint32_t exponent = qp.rts.ack_timeout & 31;
  return exponent == 0 ? kMaxNs : std::clamp(std::int64_t{4096} << exponent, kMinNs, kMaxNs);
}

bool Requester::execute(QueuePair& qp, Operation& op, std::int64_t now) {
  if (op.progress == Operation::Progress::kQueued) {
    if (!apply_rules(qp, op, now)) return false;
    if (op.syndrome != 0 || !check_local(qp, op)) return true;
  }
  switch (op.wqe.kind) {
    case nic::WqeKind::kNop:
      done(qp, op, now);
      return true;
    case nic::WqeKind::kDump: {
      // Earlier incoming data is in memory when it completes: that is what clients use it for.
      constexpr std::int64_t kEver = std::numeric_limits<std::int64_t>::max();
      for (const auto& [number, other] : context_.qps) land_trailing(*other, kEver);
      done(qp, op, now);
      return true;
    }
    default:
      return send(qp, op, now);
  }
}

/// False: it has to wait because of a rule.
bool Requester::apply_rules(QueuePair& qp, Operation& op, std::int64_t now) {
  if (op.rules_asked) return true;
  op.rules_asked = true;
  const Rule* rule = context_.rules.match(qp.number, qp.ordinal, op.number, op.wqe.kind);
  if (rule == nullptr) return true;
  const bool on_wire = op.wqe.kind != nic::WqeKind::kNop && op.wqe.kind != nic::WqeKind::kDump;
  switch (*rule->action) {
    case Rule::Action::kDelay:
      op.not_before_ns = now + static_cast<std::int64_t>(rule->delay_ns);
      return false;
    case Rule::Action::kDrop:
      if (!on_wire) return true;
      ++context_.counters.retries;
      if (++op.drops > qp.rts.retries) {
        set_failed(qp, op, kRetryExceeded, kVendorRetry);
        return true;
      }
      op.rules_asked = false;
      qp.retry_at_ns = now + retry_interval_ns(qp);
      return false;
    case Rule::Action::kSyndrome:
      if (on_wire && rule->syndrome >= kRemoteRequest && rule->syndrome <= kRemoteOperation) {
        op.inject = rule->syndrome;
        op.vendor = rule->vendor;
      } else {
        const std::uint8_t vendor =
            rule->syndrome == kRetryExceeded && rule->vendor == 0 ? kVendorRetry : rule->vendor;
        set_failed(qp, op, rule->syndrome, vendor);
      }
      return true;
    case Rule::Action::kRemoteKey:
      op.wqe.remote_key = ~op.wqe.remote_key;
      return true;
    case Rule::Action::kPeerError:
      if (on_wire) op.inject = kPeerError;
      return true;
    case Rule::Action::kPortDown:
      context_.port_down = true;
      context_.tell({DeviceEvent::Kind::kPortDown});
      return true;
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

/// All local pieces, before anything is sent. False: the operation has failed.
bool Requester::check_local(QueuePair& qp, Operation& op) {
  const std::uint32_t rights = op.returns_data() ? std::uint32_t{kLocalWrite} : 0;
  for (const nic::LocalPiece& piece : op.wqe.local) {
    const char* why = "";
    if (context_.regions.check(piece.key, qp.attributes.pd, rights, piece.address, piece.bytes,
                               &why) == nullptr) {
      reject(
          qp, op, kLocalProtection,
          strprintf("local address 0x%llx, %u bytes, key 0x%x: %s",
                    static_cast<unsigned long long>(piece.address), piece.bytes, piece.key, why));
      return false;
    }
  }
  return true;
}

bool Requester::send(QueuePair& qp, Operation& op, std::int64_t now) {
  const std::uint32_t node = qp.rtr.remote_qpn >> kLocalBits;
  Ring* ring = context_.fabric->request_to(node);
  const bool routed =
      ring != nullptr && !context_.port_down &&
      (qp.rtr.remote_lid == 0 || qp.rtr.remote_lid == context_.fabric->lid_of(node));
  if (!routed) {
    try_again(qp, op, Condition::kAbsent, now);
    return op.syndrome != 0;
  }
  if (op.progress == Operation::Progress::kQueued) {
    if (op.message == 0) op.message = ++qp.messages;
    op.epoch = qp.epoch;
    op.pieces_sent = op.received = 0;
    op.losses = lost_writes();
    op.trails = op.wqe.kind != nic::WqeKind::kWrite &&
                context_.adversary.decides(Behaviour::kTrailingRead, qp.ordinal, op.number);
    op.progress = Operation::Progress::kSending;
  }
  const bool is_write = op.wqe.kind == nic::WqeKind::kWrite;
  const std::uint64_t pieces =
      is_write ? std::max<std::uint64_t>(1, (op.wqe.length + qp.rtr.mtu - 1) / qp.rtr.mtu) : 1;
  while (op.pieces_sent < pieces) {
    if (pieces > 1 && op.pieces_sent == pieces / 2 && !op.lost_once &&
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
  return true;
}

/// The next one. False: no room. The operation may have failed when it returns true.
bool Requester::send_piece(QueuePair& qp, Operation& op, Ring& ring, std::uint64_t pieces,
                           std::int64_t now) {
  const std::uint64_t piece = op.pieces_sent;
  std::uint64_t place = piece;
  if (context_.adversary.decides(Behaviour::kReorderBytes, qp.ordinal, op.number)) {
    place = pieces - 1 - piece;
  }
  const std::uint64_t offset = place * qp.rtr.mtu;
  const bool is_write = op.wqe.kind == nic::WqeKind::kWrite;
  const auto bytes = static_cast<std::uint32_t>(
      is_write ? std::min<std::uint64_t>(qp.rtr.mtu, op.wqe.length - offset) : 0);
  Packet* packet = ring.reserve(bytes);
  if (packet == nullptr) return false;
  fill(*packet, qp, op);
  packet->offset = offset;
  packet->first = piece == 0;
  if (!op.wqe.inline_payload.empty()) {
    std::memcpy(Ring::payload(packet), op.wqe.inline_payload.data() + offset, bytes);
  } else if (!gather(qp, op, offset, Ring::payload(packet), bytes, now)) {
    reject(qp, op, kLocalProtection, "a local region went away under way");
    return true;
  }
  ring.commit();
  return true;
}

Operation* Requester::find(QueuePair& qp, std::uint64_t message, std::uint32_t epoch) {
  for (Operation& op : qp.operations) {
    if (op.message == message && op.under_way() && op.epoch == epoch) return &op;
  }
  return nullptr;
}

void Requester::on_reply(QueuePair& qp, const Packet& reply, const std::uint8_t* payload,
                         std::int64_t now) {
  if (qp.state != QpState::kRts) return;
  Operation* const found = find(qp, reply.message, reply.epoch);
  if (found == nullptr) return;  // of an attempt that was given up
  switch (reply.kind) {
    case PacketKind::kNotReady:
      return try_again(qp, *found, reply.condition, now);
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

void Requester::on_data(QueuePair& qp, Operation& op, const Packet& reply,
                        const std::uint8_t* payload, std::int64_t now) {
  if (op.trails) {
    op.trailing.resize(op.wqe.length);
    std::copy_n(payload, reply.payload_bytes,
                op.trailing.begin() + static_cast<std::ptrdiff_t>(reply.offset));
  } else if (!scatter(qp, op.wqe.local, reply.offset, payload, reply.payload_bytes)) {
    return reject(qp, op, kLocalProtection, "a local region went away under way");
  }
  op.received += reply.payload_bytes;
  if (op.received < op.wqe.length) return;
  if (op.trails) return done(qp, op, now);
  arrived(qp, op, now);
}

/// HCA capabilities: atomic_req_8B_endianness_mode 1 returns 8 bytes in host order; results of 4
/// bytes are always big-endian.
void Requester::on_old(QueuePair& qp, Operation& op, std::uint64_t old, std::int64_t now) {
  std::uint8_t bytes[8];
  if (op.wqe.length == 4) {
    const std::uint32_t big = __builtin_bswap32(static_cast<std::uint32_t>(old));
    std::memcpy(bytes, &big, sizeof big);
  } else {
    std::memcpy(bytes, &old, sizeof old);
  }
  if (op.trails) {
    op.trailing.assign(bytes, bytes + op.wqe.length);
    return done(qp, op, now);
  }
  if (!scatter(qp, op.wqe.local, 0, bytes, op.wqe.length)) {
    return reject(qp, op, kLocalProtection, "a local region went away under way");
  }
  arrived(qp, op, now);
}

/// The peer did not execute it, or it got lost: it and all after it go again, until it takes too
/// long.
void Requester::try_again(QueuePair& qp, Operation& op, Condition condition, std::int64_t now) {
  for (const Operation& earlier : qp.operations) {
    if (&earlier == &op) break;
    if (earlier.syndrome != 0) return;  // it will be flushed
  }
  ++context_.counters.retries;
  if (qp.retry_since_ns == 0) qp.retry_since_ns = now;
  const std::int64_t waited = now - qp.retry_since_ns;
  const std::int64_t most = condition == Condition::kNotConnected
                                ? kConnectNs
                                : (qp.rts.retries + 1) * retry_interval_ns(qp);
  if (waited >= most) return set_failed(qp, op, kRetryExceeded, kVendorRetry);

  constexpr std::int64_t kFirstNs = 50'000, kLongestNs = 5'000'000;
  qp.retry_at_ns = now + std::min(kLongestNs, kFirstNs + waited / 8);
  ++qp.epoch;
  std::size_t index = 0;
  while (&qp.operations[index] != &op) ++index;
  qp.next = std::min(qp.next, index);
  for (; index < qp.operations.size(); ++index) {
    Operation& later = qp.operations[index];
    if (later.under_way()) later.progress = Operation::Progress::kQueued;
  }
}

/// A process that has ended never answers.
bool Requester::check_peer(QueuePair& qp, std::int64_t now) {
  if (now - qp.asked_alive_ns < kAskAliveNs) return false;
  qp.asked_alive_ns = now;
  const auto waiting = std::find_if(qp.operations.begin(), qp.operations.end(),
                                    [](const Operation& op) { return op.under_way(); });
  if (waiting == qp.operations.end()) return false;
  const std::uint32_t node = qp.rtr.remote_qpn >> kLocalBits;
  if (context_.fabric->alive(node)) return false;
  if (context_.fabric->reply_from(node).front() != nullptr) return false;  // its last words
  GSHMEM_INFO("soft NIC: queue pair 0x%x: the process of queue pair 0x%x has ended", qp.number,
              qp.rtr.remote_qpn);
  set_failed(qp, *waiting, kRetryExceeded, kVendorRetry);
  return true;
}

}  // namespace gshmem::soft
