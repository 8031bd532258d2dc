#include "transport/softnic/responder.h"

#include "host/base/error.h"
#include "host/base/log.h"

#include <algorithm>
#include <cstring>

namespace gshmem::soft {
namespace {

constexpr std::uint64_t kLineBytes = 64;

/// Returns the rights that a request needs in the region.
std::uint32_t rights_of(PacketKind kind) {
  switch (kind) {
    case PacketKind::kWrite:
      return kRemoteWrite;
    case PacketKind::kRead:
      return kRemoteRead;
    default:
      return kRemoteAtomic;
  }
}

const QpInit& access_of(const QueuePair& qp) { return qp.rtr.access ? *qp.rtr.access : qp.init; }

bool allowed(const QueuePair& qp, PacketKind kind) {
  const QpInit& access = access_of(qp);
  switch (kind) {
    case PacketKind::kWrite:
      return access.remote_write;
    case PacketKind::kRead:
      return access.remote_read;
    default:
      return access.remote_atomic;
  }
}

/// Does the queue pair's mode allow this atomic?
bool has_atomic(const QueuePair& qp, const Packet& request) {
  const nic::WqeKind kind = request.wqe_kind;
  const bool masked =
      kind == nic::WqeKind::kMaskedCompareSwap || kind == nic::WqeKind::kMaskedFetchAdd;
  switch (access_of(qp).atomic_mode) {
    case AtomicMode::kNone:
      return false;
    case AtomicMode::kInfiniBand:
      return !masked && request.length == 8;
    case AtomicMode::kOnly8:
      return request.length == 8;
    case AtomicMode::kUpTo8:
      return true;
  }
  return false;
}

nic::Wqe atomic_of(const Packet& request) {
  nic::Wqe wqe;
  wqe.kind = request.wqe_kind;
  wqe.length = request.length;
  static_cast<nic::AtomicOperands&>(wqe) = request.operands;
  return wqe;
}

/// Returns the event that the responder's own side gets (IB 11.6.3.2, affiliated asynchronous
/// errors).
DeviceEvent::Kind event_of(std::uint8_t syndrome) {
  if (syndrome == kRemoteAccess) return DeviceEvent::Kind::kAccessError;
  return syndrome == kRemoteRequest ? DeviceEvent::Kind::kInvalidRequest
                                    : DeviceEvent::Kind::kQueueFatal;
}

}  // namespace

const char* Responder::malformed(const QueuePair& qp, const Packet& request) {
  if (request.first == qp.receiving) return "a packet that does not go on with its message";
  if (request.payload_bytes > qp.rtr.mtu) return "a packet above the path MTU";
  const std::uint64_t end = request.offset + request.payload_bytes;
  if (end > request.length) return "more data than the message has";
  if (end < request.length && request.payload_bytes < qp.rtr.mtu) {
    return "a packet below the path MTU in the midst of a message";
  }
  return nullptr;
}

Ring* Responder::replies_to(const Packet& request) const {
  return context_.fabric->reply_to(request.source >> kLocalBits);
}

/// Begins an answer without payload; the caller commits it. Returns null if there is no room.
Packet* Responder::begin_reply(const Packet& request, PacketKind kind) {
  Packet* packet = replies_to(request)->reserve(0);
  if (packet == nullptr) return nullptr;
  packet->kind = kind;
  packet->source = request.target;
  packet->target = request.source;
  packet->epoch = request.epoch;
  packet->psn = request.psn;
  address(*packet);
  return packet;
}

/// Addresses a reply by the route of its own queue pair.
void Responder::address(Packet& reply) const {
  if (const QueuePair* qp = context_.end_of(reply.source, reply.target)) {
    if (const auto addresses = addresses_of(context_.port, qp->rtr.route))
      reply.addresses = *addresses;
  }
}

bool Responder::reply(const Packet& request, PacketKind kind, std::uint8_t syndrome,
                      std::uint8_t vendor) {
  Packet* packet = begin_reply(request, kind);
  if (packet == nullptr) return false;
  packet->syndrome = syndrome;
  packet->vendor = vendor;
  replies_to(request)->commit();
  return true;
}

bool Responder::not_ready(const Packet& request, Condition condition) {
  Packet* packet = begin_reply(request, PacketKind::kNotReady);
  if (packet == nullptr) return false;
  packet->condition = condition;
  if (condition == Condition::kReceiver) {
    const QueuePair& qp = *end_of(request);
    packet->rnr_timer = qp.rts.min_rnr_timer.value_or(qp.rtr.min_rnr_timer);
  }
  replies_to(request)->commit();
  return true;
}

/// Answers a request that was processed `back` packets ago and comes again, because its answer was
/// lost. Its changes are not made twice (InfiniBand 9.7.5.1.5). If it was no packet of this
/// connection, it gets no answer.
bool Responder::again(QueuePair& qp, const Packet& request, std::uint32_t back) {
  if (back > qp.taken) return not_ready(request, Condition::kSilence);
  switch (request.kind) {
    case PacketKind::kSend:
      return !request.last || reply(request, PacketKind::kAck);
    case PacketKind::kWrite: {
      if (!request.last) return true;
      land_held(qp);
      Fault fault;
      const Region* region = target(qp, request, request.address, request.length, &fault);
      if (region == nullptr) return reply(request, PacketKind::kAck);
      acknowledge(qp, request, region->memory);
      return true;
    }
    case PacketKind::kRead:
      std::erase_if(qp.pending, [&](const auto& it) { return it.request.psn == request.psn; });
      qp.pending.push_back({.request = request});
      context_.wake(qp);
      return true;
    case PacketKind::kAtomic:
      for (const AnsweredAtomic& one : qp.answered) {
        if (one.psn != request.psn) continue;
        std::erase_if(qp.pending, [&](const auto& it) { return it.request.psn == request.psn; });
        qp.pending.push_back({.request = request, .is_read = false, .old = one.old});
        context_.wake(qp);
        return true;
      }
      return not_ready(request, Condition::kSilence);
    default:
      return true;
  }
}

/// Does the port or the queue pair drop the packet, because of its addresses?
bool Responder::drops(const QueuePair& qp, const Packet& request) const {
  const char* const why = refusal_of(context_.port, qp.rtr.route, request.addresses);
  if (why != nullptr)
    GSHMEM_INFO("soft NIC: queue pair 0x%x: a packet of 0x%x is dropped: it is %s", qp.number,
                request.source, why);
  return why != nullptr;
}

bool Responder::on_request(const Packet& request, const std::uint8_t* payload, std::int64_t now) {
  if (request.kind == PacketKind::kDatagram) {
    on_datagram(request, payload);
    return true;
  }
  if (request.kind == PacketKind::kLeave) {
    on_leave(request);
    return true;
  }
  Ring* ring = replies_to(request);
  if (ring == nullptr) return true;  // the sender does not exist
  // Both a held write and this request may need a reply.
  if (!ring->has_room(4)) return false;
  QueuePair* qp = request.connection == 0 ? context_.find_qp(request.target) : accept(request);
  const bool listens = qp != nullptr && !context_.port_down && !qp->is_datagram() &&
                       (qp->state == QpState::kRtr || qp->state == QpState::kRts) &&
                       qp->rtr.remote_qpn == request.source && !drops(*qp, request);
  if (qp != nullptr && qp->is_unreliable()) {
    if (listens) on_unreliable(*qp, request, payload);
    return true;
  }
  if (!listens) return not_ready(request, Condition::kSilence);
  const std::uint32_t ahead = (request.psn - expected_psn(*qp)) & kPsnMask;
  if (ahead != 0 && ahead < kPsnHalf) return not_ready(request, Condition::kSequence);
  if (ahead != 0) return again(*qp, request, kPsnMask + 1 - ahead);
  if (request.inject == kNoRoom) return not_ready(request, Condition::kReceiver);
  if (request.inject == kPeerError) {
    qp->state = QpState::kError;
    if (qp->target != nullptr) context_.wake(*qp);
    return not_ready(request, Condition::kSilence);
  }
  if (request.inject != 0) {
    fail(*qp, request, {request.inject, "by a rule"});
    return true;
  }
  switch (request.kind) {
    case PacketKind::kWrite:
      return on_write(*qp, request, payload, now);
    case PacketKind::kSend:
      land_held(*qp);
      return on_send(*qp, request, payload);
    case PacketKind::kRead:
      land_held(*qp);
      read(*qp, request, now);
      return true;
    case PacketKind::kAtomic:
      if (!overtakes(*qp, request)) land_held(*qp);
      atomic(*qp, request, now);
      return true;
    default:
      return true;
  }
}

/// Sends the error for the requester's completion. This queue pair fails as well (IB 9.9.2.1,
/// affiliated asynchronous error of the responder).
void Responder::fail(QueuePair& qp, const Packet& request, const Fault& fault) {
  GSHMEM_INFO(
      "soft NIC: queue pair 0x%x: request of 0x%x (address 0x%lx, %lu bytes, key 0x%x) "
      "fails with syndrome 0x%02x: %s",
      qp.number, request.source, request.address, request.length, request.key, fault.syndrome,
      fault.why);
  land_held(qp);
  reply(request, PacketKind::kAck, fault.syndrome, request.vendor);
  qp.state = QpState::kError;
  if (qp.target != nullptr) context_.wake(qp);
  context_.tell({event_of(fault.syndrome), qp.number});
}

/// Returns the region of the request, after all checks but alignment. A message without bytes needs
/// no region, and its key does not matter (InfiniBand 9.4.3 and 9.4.4).
const Region* Responder::target(const QueuePair& qp, const Packet& request, std::uint64_t address,
                                std::uint64_t bytes, Fault* fault) const {
  if (!allowed(qp, request.kind)) {
    *fault = {kRemoteAccess, "the queue pair does not allow this access"};
    return nullptr;
  }
  if (bytes == 0) return nullptr;
  const Region* region = context_.regions.check(
      request.key, qp.attributes.pd, rights_of(request.kind), address, bytes, &fault->why);
  if (region == nullptr) fault->syndrome = kRemoteAccess;
  return region;
}

bool Responder::hold(QueuePair& qp, const Packet& request, const std::uint8_t* payload,
                     std::int64_t now) {
  if (request.payload_bytes != request.length) return false;
  const std::int64_t delay =
      context_.adversary.delay_ns(Behaviour::kReorderWrites, qp.ordinal, place_of(qp, request));
  if (delay == 0) return false;
  Fault fault;
  const Region* region = target(qp, request, request.address, request.length, &fault);
  if (region == nullptr || !(region->access & kRelaxedOrdering)) return false;
  qp.held.push_back({request, {payload, payload + request.payload_bytes}, now + delay});
  context_.wake(qp);
  ++qp.taken;
  return true;
}

/// May the data overtake earlier writes? It may if its key has relaxed ordering. Data of any other
/// key pushes earlier writes, whatever their keys are (PCI Express, 2.4.1).
bool Responder::overtakes(const QueuePair& qp, const Packet& request) const {
  Fault unused;
  const Region* region = target(qp, request, request.address, request.length, &unused);
  return region != nullptr && (region->access & kRelaxedOrdering) != 0;
}

void Responder::land_held(QueuePair& qp) {
  while (!qp.held.empty()) {
    const HeldWrite held = std::move(qp.held.front());
    qp.held.pop_front();
    Fault fault;
    const Packet& request = held.request;
    const Region* region = target(qp, request, request.address, request.length, &fault);
    if (region == nullptr) return fail(qp, request, fault);
    qp.losses = lost_writes();
    if (!store(qp, *region, request, held.payload.data())) {
      return fail(qp, request, {kRemoteOperation, "the memory could not be reached"});
    }
    acknowledge(qp, request, region->memory);
  }
}

bool Responder::no_receives(QueuePair& qp, const Packet& request) {
  fail(qp, request, {kRemoteRequest, "the queue pair has no receive queue"});
  return true;
}

/// Returns false if there is no room for the reply.
bool Responder::on_write(QueuePair& qp, const Packet& request, const std::uint8_t* payload,
                         std::int64_t now) {
  if (const char* why = malformed(qp, request)) {
    fail(qp, request, {kRemoteRequest, why});
    return true;
  }
  if (request.has_immediate) {
    // Its completion comes after all earlier data, so no earlier write is held back.
    land_held(qp);
    if (qp.receives == nullptr) return no_receives(qp, request);
    if (request.last && !receiver_.take(qp)) return not_ready(request, Condition::kReceiver);
    write(qp, request, payload);
  } else if (!qp.held.empty() && overtakes(qp, request)) {
    write(qp, request, payload);
    land_held(qp);
  } else {
    land_held(qp);
    if (!hold(qp, request, payload, now)) write(qp, request, payload);
  }
  return true;
}

/// Returns false if there is no room for the reply. A buffer that is too small fails on both sides
/// (InfiniBand 9.7.4.1.6 and 9.9.3.1.3).
bool Responder::on_send(QueuePair& qp, const Packet& request, const std::uint8_t* payload) {
  if (const char* why = malformed(qp, request)) {
    fail(qp, request, {kRemoteRequest, why});
    return true;
  }
  if (qp.receives == nullptr) return no_receives(qp, request);
  if (!receiver_.take(qp)) return not_ready(request, Condition::kReceiver);
  std::uint8_t refusal = receiver_.refusal(qp, request.length);
  if (refusal == 0 && !receiver_.store(qp, request, payload)) refusal = kLocalProtection;
  if (refusal != 0) {
    receiver_.fail(qp, refusal);
    fail(qp, request,
         refusal == kLocalLength ? Fault{kRemoteRequest, "longer than the buffer"}
                                 : Fault{kRemoteOperation, "a buffer out of reach"});
    return true;
  }
  ++qp.taken;
  qp.receiving = !request.last;
  if (!request.last) return true;
  receiver_.complete(qp, request);
  reply(request, PacketKind::kAck);
  return true;
}

void Responder::write(QueuePair& qp, const Packet& request, const std::uint8_t* payload) {
  // The first packet checks the range of the whole message: nothing of an invalid message is
  // stored.
  Fault fault;
  const Region* region = target(qp, request, request.address, request.length, &fault);
  if (fault.syndrome != 0) return fail(qp, request, fault);
  MemoryAccess* memory = region != nullptr ? region->memory : &host_memory();
  if (request.first) {
    qp.receiving = true;
    qp.losses = lost_writes();
  }
  const bool later = request.payload_bytes > 0 && trail(qp, request, payload);
  if (request.payload_bytes > 0 && !later && !store(qp, *region, request, payload)) {
    return fail(qp, request, {kRemoteOperation, "the memory could not be reached"});
  }
  ++qp.taken;
  if (!request.last) return;
  qp.receiving = false;
  if (request.has_immediate) {
    if (!memory->flush()) {
      return fail(qp, request, {kRemoteOperation, "the memory could not be reached"});
    }
    receiver_.complete(qp, request);
  }
  acknowledge(qp, request, memory);
}

/// Stores a part. If the adversary decides so, it stores line by line in another order.
bool Responder::store(const QueuePair& qp, const Region& region, const Packet& request,
                      const std::uint8_t* payload) {
  std::uint8_t* to = region.at(request.address + request.offset);
  const std::uint64_t bytes = request.payload_bytes;
  if (!context_.adversary.decides(Behaviour::kReorderBytes, qp.ordinal, place_of(qp, request))) {
    return region.memory->write(to, payload, bytes);
  }
  // The lines of the target are stored last one first. A word that must not be torn is never split.
  std::uint64_t end = bytes;
  while (end > 0) {
    const std::uint64_t into_line =
        (reinterpret_cast<std::uintptr_t>(to) + end - 1) % kLineBytes + 1;
    const std::uint64_t begin = end - std::min(end, into_line);
    if (!region.memory->write(to + begin, payload + begin, end - begin)) return false;
    end = begin;
  }
  return true;
}

void Responder::acknowledge(QueuePair& qp, const Packet& request, MemoryAccess* memory) {
  if (!memory->batched()) {
    reply(request, PacketKind::kAck);
  } else {
    settling_.push_back({request, memory, qp.losses});
  }
}

bool Responder::settle() {
  bool moved = false;
  while (!settling_.empty()) {
    const Settling one = settling_.front();
    if (!replies_to(one.reply)->has_room(1)) return moved;
    std::uint8_t syndrome = 0;
    if (!one.memory->flush() || lost_writes() != one.losses) {
      syndrome = kRemoteOperation;
      if (QueuePair* qp = end_of(one.reply)) qp->state = QpState::kError;
    }
    reply(one.reply, PacketKind::kAck, syndrome);
    settling_.erase(settling_.begin());
    moved = true;
  }
  while (!orphans_.empty() && not_ready(orphans_.back(), Condition::kSilence)) {
    orphans_.pop_back();
    moved = true;
  }
  return moved;
}

void Responder::read(QueuePair& qp, const Packet& request, std::int64_t now) {
  Fault fault;
  static_cast<void>(target(qp, request, request.address, request.length, &fault));
  if (fault.syndrome != 0) return fail(qp, request, fault);
  if (qp.pending.size() >= std::size_t{1} << qp.rtr.log_responder_reads) {
    return fail(qp, request, {kRemoteRequest, "more reads and atomics than log_rra_max allows"});
  }
  qp.taken += packets_of(request.length, qp.rtr.mtu);
  PendingReply pending;
  pending.request = request;
  pending.not_before_ns =
      now + context_.adversary.delay_ns(Behaviour::kLateRead, qp.ordinal, place_of(qp, request));
  qp.pending.push_back(std::move(pending));
  context_.wake(qp);
}

void Responder::atomic(QueuePair& qp, const Packet& request, std::int64_t now) {
  if (request.length != 4 && request.length != 8) {
    return fail(qp, request,
                {kRemoteRequest, "an atomic on a word of another length than 4 and 8"});
  }
  Fault fault;
  const Region* region = target(qp, request, request.address, request.length, &fault);
  if (region == nullptr) return fail(qp, request, fault);
  if (!has_atomic(qp, request)) {
    return fail(qp, request, {kRemoteRequest, "the queue pair's mode does not have this atomic"});
  }
  if (request.address % request.length != 0 ||
      reinterpret_cast<std::uintptr_t>(region->at(request.address)) % request.length != 0) {
    return fail(qp, request, {kRemoteRequest, "an atomic on an unaligned word"});
  }
  if (qp.pending.size() >= std::size_t{1} << qp.rtr.log_responder_reads) {
    return fail(qp, request, {kRemoteRequest, "more reads and atomics than log_rra_max allows"});
  }
  push_older(request.address, request.length);
  PendingReply pending;
  pending.request = request;
  pending.is_read = false;
  if (!region->memory->atomic(region->at(request.address), atomic_of(request), &pending.old)) {
    return fail(qp, request, {kRemoteOperation, "the memory could not be reached"});
  }
  if (AtomicWords::of_process().taken(region->at(request.address), &context_)) {
    context_.checker.violation(strprintf(
        "queue pair 0x%x: an atomic on the word at offset 0x%lx, which another device has "
        "changed by atomics: those of two NICs are not atomic to each other",
        qp.number, request.address));
  }
  ++qp.taken;
  qp.answered.push_back({request.psn, pending.old});
  if (qp.answered.size() > std::size_t{1} << qp.rtr.log_responder_reads) qp.answered.pop_front();
  pending.not_before_ns =
      now + context_.adversary.delay_ns(Behaviour::kLateAtomic, qp.ordinal, place_of(qp, request));
  qp.pending.push_back(std::move(pending));
  context_.wake(qp);
}

bool Responder::progress(QueuePair& qp, std::int64_t now) {
  bool moved = qp.state == QpState::kError && receiver_.flush(qp);
  context_.land(qp, now);
  if (context_.port_down) return moved;
  if (!qp.held.empty() && now >= qp.held.front().until_ns) {
    if (replies_to(qp.held.front().request)->has_room(2)) land_held(qp);
  }
  // Replies are sent in the order of the requests: InfiniBand 9.4.4, responses of reads and
  // atomics.
  while (!qp.pending.empty() && now >= qp.pending.front().not_before_ns) {
    if (!send_data(qp, now)) return moved;
    moved = true;
  }
  return moved;
}

/// Sends one packet of the first reply. After a reply that could not be read, nothing follows.
/// Returns false if there is no room.
bool Responder::send_data(QueuePair& qp, std::int64_t now) {
  PendingReply& pending = qp.pending.front();
  const Packet& request = pending.request;
  Ring* ring = replies_to(request);
  const auto bytes = static_cast<std::uint32_t>(
      pending.is_read ? std::min<std::uint64_t>(qp.rtr.mtu, request.length - pending.sent) : 0);
  Packet* packet = ring->reserve(bytes);
  if (packet == nullptr) return false;
  packet->kind = pending.is_read ? PacketKind::kData : PacketKind::kOld;
  packet->source = request.target;
  packet->target = request.source;
  packet->epoch = request.epoch;
  packet->psn = request.psn;
  address(*packet);
  packet->offset = pending.sent;
  packet->old = pending.old;
  if (bytes > 0) {
    // It is checked again for each packet, because the region may have been destroyed.
    Fault fault;
    const Region* region = target(qp, request, request.address, request.length, &fault);
    if (region == nullptr || !fetch(qp, pending, *region, Ring::payload(packet), bytes, now)) {
      packet->kind = PacketKind::kAck;
      packet->syndrome = fault.syndrome != 0 ? fault.syndrome : kRemoteOperation;
      ring->commit();
      qp.state = QpState::kError;
      qp.pending.clear();
      return true;
    }
  }
  pending.sent += bytes;
  ring->commit();
  if (!pending.is_read || pending.sent == request.length) qp.pending.pop_front();
  return true;
}

/// Reads the next part of a read.
bool Responder::fetch(QueuePair& qp, PendingReply& pending, const Region& region, std::uint8_t* to,
                      std::uint32_t bytes, std::int64_t now) {
  context_.push_writes();
  if (!region.memory->batched()) {
    return region.memory->read(to, region.at(pending.request.address + pending.sent), bytes);
  }
  if (!pending.ahead.has(pending.sent) && !read_ahead(qp, *region.memory, now)) return false;
  std::memcpy(to, pending.ahead.at(pending.sent), bytes);
  return true;
}

/// Reads for the first reply, whose data is in `memory`, and for later replies that could be sent
/// at once. So one wait is enough for all.
bool Responder::read_ahead(QueuePair& qp, MemoryAccess& memory, std::int64_t now) {
  std::vector<MemoryAccess::Part> parts;
  std::uint64_t left = ReadAhead::kBytes;
  for (PendingReply& pending : qp.pending) {
    const Packet& request = pending.request;
    if (now < pending.not_before_ns) break;
    if (!pending.is_read || pending.ahead.has(pending.sent) || request.length == 0) continue;
    Fault fault;
    const Region* region = target(qp, request, request.address, request.length, &fault);
    if (region == nullptr || region->memory != &memory) break;
    // No packet crosses the end of the bytes that are read.
    const std::uint64_t bytes =
        std::min<std::uint64_t>(request.length - pending.sent, left / qp.rtr.mtu * qp.rtr.mtu);
    pending.ahead.make(pending.sent, bytes);
    parts.push_back({pending.ahead.bytes.get(), region->at(request.address + pending.sent), bytes});
    left -= bytes;
  }
  return memory.read(parts.data(), parts.size());
}

void Responder::abandon(QueuePair& qp) {
  context_.land(qp, kNever);
  for (const PendingReply& pending : qp.pending) orphans_.push_back(pending.request);
  for (const HeldWrite& held : qp.held) orphans_.push_back(held.request);
  static_cast<Receiving&>(qp) = {};
  if (qp.own_receives != nullptr) qp.own_receives->reset();
}

}  // namespace gshmem::soft
