// Dynamic connections: an initiator connects to one target after another, and a target accepts
// every initiator that knows its key. Otherwise both sides work as two connected queue pairs do.
// Public logs of cards contain no packet with a wrong key. Such a packet is treated as InfiniBand
// treats wrong queue keys and partition keys: it is counted, reported to the owner of the target
// and not answered. So the sender's retries end (0x15).
#include "host/base/error.h"
#include "host/base/log.h"
#include "transport/softnic/requester.h"
#include "transport/softnic/responder.h"

#include <algorithm>
#include <cstdlib>

namespace gshmem::soft {

/// Returns false if the operation has failed, because its address vector leads nowhere.
bool Requester::check_vector(QueuePair& qp, Operation& op) {
  const nic::AddressVector& to = op.wqe.to;
  const char* why = nullptr;
  if (to.brief && context_.port.ethernet()) {
    why = "an address vector of 16 bytes, which has no MAC address";
  } else if (!addresses_of(context_.port, route_of(to))) {
    why = "an address vector with a GID that the port does not have";
  }
  if (why != nullptr) reject(qp, op, kLocalOperation, why);
  return why == nullptr;
}

/// Connects to the target of `op`, after all operations to another target are done: on a card an
/// initiator has one connection at a time. Returns false if it has to wait, or has failed.
bool Requester::turn_to_target(QueuePair& qp, Operation& op) {
  if (qp.peer == op.wqe.to) return true;
  for (const Operation& earlier : qp.operations) {
    if (&earlier == &op) break;
    if (earlier.progress != Operation::Progress::kDone) return false;
  }
  if (!check_vector(qp, op)) return false;
  leave(qp);
  qp.peer = op.wqe.to;
  qp.rtr.remote_qpn = op.wqe.to.number;
  qp.rtr.route = route_of(op.wqe.to);
  ++qp.connection;
  qp.peer_psn = static_cast<std::uint32_t>(qp.rts.send_psn + qp.packets) & kPsnMask;
  return true;
}

/// Ends the connection. No operation of it is pending, or the queue pair's reset drops them. If the
/// ring has no room, the target keeps the connection until the initiator comes back.
void Requester::leave(QueuePair& qp) {
  if (!qp.is_initiator() || !qp.peer || context_.port_down) return;
  Ring* ring = context_.fabric->request_to(qp.peer->number >> kLocalBits);
  Packet* packet = ring != nullptr ? ring->reserve(0) : nullptr;
  if (packet == nullptr) return;
  packet->kind = PacketKind::kLeave;
  packet->source = qp.number;
  packet->target = qp.peer->number;
  packet->connection = qp.connection;
  ring->commit();
}

void Responder::on_leave(const Packet& request) {
  Target* target = context_.find_target(request.target);
  if (target == nullptr || context_.port_down) return;
  const auto known = target->connections.find(request.source);
  if (known == target->connections.end() || known->second->connection != request.connection) return;
  drop(*known->second);
  target->connections.erase(known);
}

/// Returns the connection to which a packet belongs. A packet of a newer connection replaces it.
/// Null: there is no such target, the packet is late, or its key is wrong.
QueuePair* Responder::accept(const Packet& request) {
  Target* target = context_.find_target(request.target);
  if (target == nullptr || context_.port_down) return nullptr;
  const TargetAttributes& attributes = target->attributes;
  if (request.access_key != attributes.access_key) {
    ++target->key_violations;
    GSHMEM_INFO("soft NIC: DC target 0x%x: a packet of 0x%x is dropped: access key 0x%lx",
                target->number, request.source, request.access_key);
    context_.tell({DeviceEvent::Kind::kKeyViolation, target->number});
    return nullptr;
  }
  std::unique_ptr<QueuePair>& known = target->connections[request.source];
  if (known != nullptr) {
    const auto ahead = static_cast<std::int32_t>(request.connection - known->connection);
    if (ahead < 0) return nullptr;
    if (ahead == 0) return known.get();
    drop(*known);
  }
  known = std::make_unique<QueuePair>();
  known->number = target->number;
  known->ordinal = target->ordinal;
  known->attributes.pd = attributes.pd;
  known->attributes.user_index = attributes.user_index;
  known->send_cq = known->receive_cq = target->cq;
  known->receives = target->receives;
  known->told_last = true;  // the queue of receives is the target's
  known->target = target;
  known->connection = request.connection;
  const Addresses& from = request.addresses;
  known->rtr = {.remote_qpn = request.source,
                .route = {.lid = from.source_lid,
                          .mac = from.source_mac,
                          .global = from.global,
                          .gid_index = attributes.gid_index,
                          .gid = from.source,
                          .hop_limit = attributes.hop_limit},
                .mtu = attributes.mtu,
                .receive_psn = request.connection_psn,
                .min_rnr_timer = attributes.min_rnr_timer,
                .access = attributes.access};
  known->state = QpState::kRtr;
  return known.get();
}

/// Drops a connection. A buffer that it has taken for an incomplete message completes with an
/// error, since it is no longer in the shared queue.
void Responder::drop(QueuePair& connection) {
  receiver_.fail(connection, kFlushed);
  abandon(connection);
  if (connection.busy) std::erase(context_.busy, &connection);
}

}  // namespace gshmem::soft
