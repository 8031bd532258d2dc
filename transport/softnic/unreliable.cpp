// Datagrams, which have neither a connection nor an answer: the parts of the requester and of the
// responder.
#include "host/base/error.h"
#include "host/base/log.h"
#include "transport/softnic/requester.h"
#include "transport/softnic/responder.h"

namespace gshmem::soft {

/// Sends one packet, which is not acknowledged. The operation is complete when the packet is sent,
/// even if it does not arrive (InfiniBand 9.8.3). Returns false if there is no room.
bool Requester::send_datagram(QueuePair& qp, Operation& op, std::int64_t now) {
  const nic::AddressVector& to = op.wqe.to;
  if (op.wqe.length > context_.options.profile.mtu) {
    reject(qp, op, kLocalLength, "a datagram above the MTU of the port");
    return true;
  }
  const auto addresses = addresses_of(context_.port, route_of(to));
  if (!check_vector(qp, op)) return true;
  Ring* ring = context_.fabric->request_to(to.number >> kLocalBits);
  const bool lost = op.lost_once || ring == nullptr || context_.port_down ||
                    context_.adversary.decides(Behaviour::kDrop, qp.ordinal, op.number);
  if (!lost) {
    const auto bytes = static_cast<std::uint32_t>(op.wqe.length);
    Packet* packet = ring->reserve(bytes);
    if (packet == nullptr) return false;
    packet->kind = PacketKind::kDatagram;
    packet->source = qp.number;
    packet->target = to.number;
    packet->addresses = *addresses;
    packet->has_immediate = op.wqe.has_immediate;
    packet->immediate = op.wqe.immediate;
    packet->solicited = op.wqe.solicited;
    constexpr std::uint32_t kOwnKey = 1u << 31;  // InfiniBand 10.2.5
    packet->queue_key = (to.key & kOwnKey) != 0 ? qp.init.key : static_cast<std::uint32_t>(to.key);
    packet->traffic_class = to.traffic_class;
    packet->flow_label = to.flow_label;
    packet->offset = kGrhBytes;
    packet->length = kGrhBytes + op.wqe.length;
    packet->first = packet->last = true;
    if (!gather(qp, op, 0, Ring::payload(packet), bytes, now)) {
      reject(qp, op, kLocalProtection, "a local region went away under way");
      return true;
    }
    ring->commit();
  }
  done(qp, op, now);
  return true;
}

/// Receives a datagram. It is dropped if it is not for this port, has another queue key, or finds
/// no buffer or one that is too small (InfiniBand 9.8.2).
void Responder::on_datagram(const Packet& request, const std::uint8_t* payload) {
  QueuePair* qp = context_.find_qp(request.target);
  const bool listens = qp != nullptr && !context_.port_down && qp->is_datagram() &&
                       (qp->state == QpState::kRtr || qp->state == QpState::kRts);
  if (!listens || qp->init.key != request.queue_key) return;
  if (const char* why = refusal_of(context_.port, request.addresses)) {
    GSHMEM_INFO("soft NIC: queue pair 0x%x: a datagram of 0x%x is dropped: it is %s", qp->number,
                request.source, why);
    return;
  }
  if (qp->receives == nullptr || !receiver_.take(*qp)) return;
  if (receiver_.refusal(*qp, request.length) != 0) return;
  const GrhBytes grh = grh_of(request.addresses, {.traffic_class = request.traffic_class,
                                                  .flow_label = request.flow_label,
                                                  .payload_bytes = request.payload_bytes});
  Packet header = request;
  header.offset = 0;
  header.payload_bytes = kGrhBytes;
  header.last = false;
  const bool stored = (!request.addresses.global || receiver_.store(*qp, header, grh.data())) &&
                      receiver_.store(*qp, request, payload);
  stored ? receiver_.complete(*qp, request) : receiver_.fail(*qp, kLocalProtection);
}

/// Receives a packet of an unreliable connection. A packet that is out of order or not allowed is
/// dropped, and so is the rest of its message (InfiniBand 9.8.2.2).
void Responder::on_unreliable(QueuePair& qp, const Packet& request, const std::uint8_t* payload) {
  const std::uint32_t ahead = (request.psn - expected_psn(qp)) & kPsnMask;
  if (request.first) qp.receiving = false;
  qp.taken += ahead;  // counts lost packets, too; a message after them begins anew
  const bool out_of_turn = ahead != 0 && !request.first;
  const bool drop = out_of_turn || malformed(qp, request) != nullptr;
  ++qp.taken;
  qp.receiving = false;
  Fault fault;
  if (drop) return;
  if (request.kind == PacketKind::kWrite) {
    const Region* region = target(qp, request, request.address, request.length, &fault);
    if (fault.syndrome != 0) return;
    if (request.payload_bytes > 0 && !store(qp, *region, request, payload)) return;
    const bool tells = request.last && request.has_immediate;
    if (tells && (qp.receives == nullptr || !receiver_.take(qp))) return;
    if (request.last && region != nullptr && !region->memory->flush()) return;
    if (tells) receiver_.complete(qp, request);
  } else {
    if (qp.receives == nullptr || !receiver_.take(qp)) return;
    if (receiver_.refusal(qp, request.length) != 0) return;
    if (!receiver_.store(qp, request, payload)) return receiver_.fail(qp, kLocalProtection);
    if (request.last) receiver_.complete(qp, request);
  }
  qp.receiving = !request.last;
}

}  // namespace gshmem::soft
