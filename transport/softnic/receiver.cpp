#include "transport/softnic/receiver.h"

#include "transport/softnic/local_memory.h"

#include <utility>

namespace gshmem::soft {
namespace {

/// Returns the protection domain of the buffers.
std::uint32_t domain_of(const QueuePair& qp) {
  return qp.shares_receives() ? qp.receives->attributes().pd : qp.attributes.pd;
}

nic::CompletionOf kind_of(const Packet& last) {
  if (last.kind == PacketKind::kWrite) return nic::CompletionOf::kWriteImmediate;
  return last.has_immediate ? nic::CompletionOf::kSendImmediate : nic::CompletionOf::kSend;
}

}  // namespace

bool Receiver::take(QueuePair& qp) {
  if (qp.receive) return true;
  Receive next;
  if (qp.receives == nullptr || !qp.receives->take(&next)) return false;
  qp.receive = std::move(next);
  return true;
}

std::uint8_t Receiver::refusal(const QueuePair& qp, std::uint64_t length) const {
  if (length > qp.receive->bytes) return kLocalLength;
  const LocalMemory buffer{context_.regions, domain_of(qp), qp.receive->local};
  return length == 0 || buffer.writable() ? std::uint8_t{0} : kLocalProtection;
}

bool Receiver::store(const QueuePair& qp, const Packet& request, const std::uint8_t* payload) {
  const LocalMemory buffer{context_.regions, domain_of(qp), qp.receive->local};
  return buffer.scatter(request.offset, payload, request.payload_bytes) &&
         (!request.last || request.length == 0 || buffer.settle());
}

void Receiver::complete(QueuePair& qp, const Packet& last) {
  finish(qp, {.of = kind_of(last),
              .solicited = last.solicited,
              .bytes = static_cast<std::uint32_t>(last.length),
              .immediate = last.immediate,
              .source = last.source,
              .source_lid = last.addresses.source_lid,
              .global = last.kind == PacketKind::kDatagram && last.addresses.global,
              .packet_type = packet_type_of(last.addresses)});
}

void Receiver::fail(QueuePair& qp, std::uint8_t syndrome) {
  if (!qp.receive) return;
  finish(qp, {.of = nic::CompletionOf::kSend, .error = true, .syndrome = syndrome});
}

void Receiver::finish(QueuePair& qp, nic::Completion completion) {
  completion.number = qp.number;
  completion.wqe_index = qp.receive->index;
  completion.user_index = qp.attributes.user_index;
  qp.receive.reset();
  context_.complete(qp, *qp.receive_cq, completion);
}

/// Leaves the buffers of a shared queue to others. Its client is notified that this queue pair
/// takes no more (InfiniBand 10.2.9.3, last WQE reached).
bool Receiver::flush(QueuePair& qp) {
  if (qp.receives == nullptr || qp.receive_cq->broken()) return false;
  bool moved = qp.receive.has_value();
  fail(qp, kFlushed);
  if (qp.shares_receives()) {
    if (!qp.told_last) context_.tell({DeviceEvent::Kind::kLastReceive, qp.number});
    qp.told_last = true;
    return moved;
  }
  while (!qp.receive_cq->broken() && take(qp)) {
    fail(qp, kFlushed);
    moved = true;
  }
  return moved;
}

}  // namespace gshmem::soft
