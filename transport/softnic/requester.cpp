#include "transport/softnic/requester.h"

#include "host/base/error.h"
#include "host/base/log.h"

#include <algorithm>
#include <cstring>

namespace gshmem::soft {
namespace {

constexpr std::size_t kMaxOperations = 256;  // fetched and not complete, per queue pair
constexpr std::uint32_t kMaxFetchPerVisit = 64;
constexpr std::uint8_t kPoison = 0xee;  // no opcode, no key, no length
// How long the doorbell record may differ from the doorbell. Clients write the record first. A
// record that is ahead belongs to a client that has not rung yet, and may not be running.
constexpr std::int64_t kRecordBehindNs = 100'000'000, kRecordAheadNs = 2'000'000'000;

/// Compares whole words of a slot (units of 16 bytes), to which a client with a bug may be storing.
bool equal(const std::uint8_t* slot, const std::uint8_t* copy, std::size_t bytes) {
  for (std::size_t at = 0; at + 8 <= bytes; at += 8) {
    std::uint64_t word = 0;
    std::memcpy(&word, copy + at, sizeof word);
    const auto* mine = reinterpret_cast<const std::uint64_t*>(slot + at);
    if (__atomic_load_n(mine, __ATOMIC_RELAXED) != word) return false;
  }
  return true;
}

/// Returns which entries a queue pair of this service sends, and how they are addressed.
nic::Receives receives_of(Service service) {
  if (service == Service::kDatagram) return nic::Receives::kDatagrams;
  return service == Service::kInitiator ? nic::Receives::kTargets : nic::Receives::kYes;
}

/// Returns the send counter of the doorbell record (word 1: mlx5dv.h, MLX5_SND_DBR). Pairs with the
/// client's store of it.
std::uint16_t record_of(const QueuePair& qp) {
  const auto* words = static_cast<const std::uint32_t*>(qp.attributes.record);
  return static_cast<std::uint16_t>(
      __builtin_bswap32(__atomic_load_n(words + 1, __ATOMIC_ACQUIRE)));
}

}  // namespace

void Requester::ring(QueuePair& qp, std::uint16_t producer) {
  if (qp.state != QpState::kRts && qp.state != QpState::kError) {
    context_.checker.violation(
        strprintf("doorbell of queue pair 0x%x in state %u: nothing may be posted before it is "
                  "ready to send",
                  qp.number, static_cast<unsigned>(qp.state)));
    return;
  }
  const auto forward =
      static_cast<std::uint16_t>(producer - static_cast<std::uint16_t>(qp.producer));
  const auto backward = static_cast<std::uint16_t>(-forward);
  qp.rescued_ns = 0;
  if (forward == 0) return;  // a repeated doorbell is legal
  context_.wake(qp);
  if (forward <= qp.depth()) {
    qp.producer += forward;
    if (qp.producer - qp.retired > qp.depth()) {
      context_.checker.violation(
          strprintf("queue pair 0x%x: doorbell with index %u, but entries from %u on are not "
                    "complete and the queue has %lu: unconsumed entries were overwritten",
                    qp.number, producer, static_cast<unsigned>(qp.retired & 0xffff), qp.depth()));
    }
  } else if (backward <= qp.depth()) {
    ++context_.counters.stale_doorbells;
  } else {
    context_.checker.violation(
        strprintf("queue pair 0x%x: doorbell jumps from index %u to %u in a queue of %lu",
                  qp.number, static_cast<unsigned>(qp.producer & 0xffff), producer, qp.depth()));
    // A NIC continues into entries that were never written.
    qp.jumped = qp.state == QpState::kRts;
  }
}

bool Requester::progress(QueuePair& qp, std::int64_t now) {
  land_trailing(qp, now);
  if (qp.state == QpState::kError) return flush(qp, now);
  if (qp.operations.empty() && qp.fetched == qp.producer && !qp.jumped) return false;
  if (qp.skip_until_ns == 0) {
    qp.skip_until_ns =
        now + context_.adversary.delay_ns(Behaviour::kStarve, qp.ordinal, ++qp.visits);
  }
  if (now < qp.skip_until_ns) return false;
  qp.skip_until_ns = 0;
  bool moved = fetch(qp, now);
  moved |= start(qp, now);
  moved |= check_peer(qp, now);
  moved |= retire(qp, now);
  return moved;
}

bool Requester::fetch(QueuePair& qp, std::int64_t now) {
  std::uint32_t most = kMaxFetchPerVisit;
  if (context_.adversary.decides(Behaviour::kBatch, qp.ordinal, qp.wqes)) most = 1;
  bool moved = false;
  while (most-- > 0 && !qp.failing && qp.fetched < qp.producer &&
         qp.operations.size() < kMaxOperations) {
    take(qp, now);
    moved = true;
  }
  if (qp.jumped && !qp.failing && qp.fetched == qp.producer) take_missing(qp);
  return moved;
}

/// Takes the entry after the last one, where a doorbell announces more entries than the queue has.
void Requester::take_missing(QueuePair& qp) {
  qp.jumped = false;  // so that it comes to rest
  Operation& op = qp.operations.emplace_back();
  op.entry = qp.fetched;
  op.entries = 0;
  set_failed(qp, op, kLocalOperation);
}

/// Copies the next WQE before it is decoded, so that later stores to its slots change nothing.
void Requester::take(QueuePair& qp, std::int64_t now) {
  Operation op;
  op.entry = qp.fetched;
  op.number = qp.wqes++;
  const std::size_t bytes = std::max<std::size_t>(16, nic::wqe_bytes(qp.slot(op.entry)));
  // It copies nothing beyond the doorbell: those bytes still belong to the client. A WQE that is
  // longer than the doorbell covers is an error, which inspect() finds.
  op.entries = std::min<std::uint64_t>((bytes + nic::kEntryBytes - 1) / nic::kEntryBytes,
                                       qp.producer - qp.fetched);
  op.raw.resize(std::min<std::size_t>(bytes, op.entries * nic::kEntryBytes));
  for (std::uint64_t e = 0; e < op.entries; ++e) {
    const std::size_t at = e * nic::kEntryBytes;
    std::memcpy(op.raw.data() + at, qp.slot(op.entry + e),
                std::min(nic::kEntryBytes, op.raw.size() - at));
  }
  op.not_before_ns =
      now + context_.adversary.delay_ns(Behaviour::kLateStart, qp.ordinal, op.number);
  ++context_.counters.wqes;
  qp.fetched += op.entries;
  qp.operations.push_back(std::move(op));
  Operation& kept = qp.operations.back();
  if (qp.state == QpState::kError) {
    kept.wqe.opcode = kept.raw[3];  // for the flush completion; the rest does not matter
    return;
  }
  inspect(qp, kept);
}

/// Decodes the WQE. An error in its bytes is an error completion and a violation.
void Requester::inspect(QueuePair& qp, Operation& op) {
  const nic::Findings result =
      nic::decode_wqe(op.raw.data(), op.raw.size(), receives_of(qp.attributes.service), op.wqe);
  const auto expected = static_cast<std::uint16_t>(op.entry);
  if (op.wqe.number != qp.number || op.wqe.index != expected) {
    const std::string why = strprintf(
        "index %u of queue pair 0x%x where index %u of 0x%x is due: not written before "
        "the doorbell, or of another lap",
        op.wqe.index, op.wqe.number, expected, qp.number);
    return reject(qp, op, kLocalOperation, why);
  }
  if (result.error != nic::WqeError::kNone) {
    return reject(qp, op, static_cast<std::uint8_t>(result.error), result.reason);
  }
  if (!result.remark.empty()) {
    context_.checker.remark(strprintf("queue pair 0x%x: %s", qp.number, result.remark.c_str()),
                            op.raw.data(), op.raw.size());
  }
  if (op.wqe.length > std::uint64_t{1} << qp.rtr.log_message_max) {
    return reject(qp, op, kLocalLength, "longer than log_msg_max");
  }
  qp.unsignalled = op.wqe.signalled ? 0 : qp.unsignalled + op.entries;
  if (qp.unsignalled > qp.depth()) {
    qp.unsignalled = 0;
    context_.checker.violation(
        strprintf("queue pair 0x%x: a whole queue of entries without one that asks for a "
                  "completion; none can be used again",
                  qp.number),
        op.raw.data(), op.raw.size());
  }
}

void Requester::set_failed(QueuePair& qp, Operation& op, std::uint8_t syndrome,
                           std::uint8_t vendor) {
  op.progress = Operation::Progress::kDone;
  op.syndrome = syndrome;
  op.vendor = vendor;
  qp.failing = true;
  // start() stops at this operation; earlier ones may still have to be sent again.
  const auto at =
      std::ranges::find_if(qp.operations, [&](const Operation& other) { return &other == &op; });
  qp.next = std::min(qp.next, static_cast<std::size_t>(at - qp.operations.begin()));
  GSHMEM_INFO("soft NIC: queue pair 0x%x: entry %u fails with syndrome 0x%02x", qp.number,
              static_cast<unsigned>(op.entry & 0xffff), syndrome);
}

void Requester::reject(QueuePair& qp, Operation& op, std::uint8_t syndrome,
                       const std::string& why) {
  set_failed(qp, op, syndrome);
  context_.checker.violation(
      strprintf("queue pair 0x%x: %s (syndrome 0x%02x)", qp.number, why.c_str(), syndrome),
      op.raw.data(), op.raw.size());
}

void Requester::done(QueuePair& qp, Operation& op, std::int64_t now) {
  op.progress = Operation::Progress::kDone;
  op.complete_at_ns =
      now + context_.adversary.delay_ns(Behaviour::kLateCompletion, qp.ordinal, op.number);
  qp.retries = qp.rnr_retries = 0;
  context_.counters.bytes += op.wqe.length;
  if (op.wqe.is_on_wire()) context_.costs.charge(op.wqe.length);
  if (op.trails) {
    constexpr std::int64_t kTrailNs = 300'000;
    qp.trailing.push_back({op.wqe.local, std::move(op.trailing), now + kTrailNs});
  }
}

/// May the operation start? InfiniBand's rules for overtaking decide (10.8.3.3, fence; mlx5: any
/// fence mode), and log_sra_max.
bool Requester::may_start(const QueuePair& qp, const Operation& op, std::int64_t now) const {
  if (now < op.not_before_ns || now < qp.retry_at_ns) return false;
  if (op.wqe.fence == 0 && !op.returns_data()) return true;
  std::uint64_t returning = 0;
  bool any = false;
  for (const Operation& earlier : qp.operations) {
    if (&earlier == &op) break;
    if (earlier.progress == Operation::Progress::kDone) continue;
    any = true;
    if (earlier.returns_data()) ++returning;
  }
  constexpr std::uint8_t kStrongOrdering = 3;
  if (op.wqe.fence == kStrongOrdering && any) return false;
  if (op.wqe.fence != 0 && returning > 0) return false;
  return !op.returns_data() || returning < std::uint64_t{1} << qp.rts.log_initiator_reads;
}

bool Requester::start(QueuePair& qp, std::int64_t now) {
  bool moved = false;
  while (qp.next < qp.operations.size()) {
    Operation& op = qp.operations[qp.next];
    if (op.syndrome != 0) return moved;
    if (op.progress == Operation::Progress::kQueued ||
        op.progress == Operation::Progress::kSending) {
      if (!may_start(qp, op, now)) return moved;
      const std::uint64_t before = op.pieces_sent;
      if (!execute(qp, op, now)) return moved || op.pieces_sent != before;
      moved = true;
      if (op.syndrome != 0) return moved;
    }
    ++qp.next;
  }
  return moved;
}

bool Requester::retire(QueuePair& qp, std::int64_t now) {
  bool moved = false;
  while (!qp.operations.empty()) {
    Operation& op = qp.operations.front();
    if (op.progress != Operation::Progress::kDone) break;
    if (op.syndrome == 0 && now < op.complete_at_ns) break;
    check_slots(qp, op);
    const bool failed = op.syndrome != 0;
    if (failed) qp.state = QpState::kError;
    qp.retired = op.entry + op.entries;
    if (failed || op.wqe.signalled) complete(qp, op);
    qp.operations.pop_front();
    if (qp.next > 0) --qp.next;
    moved = true;
    if (qp.state == QpState::kError) break;
  }
  return moved;
}

/// Checks, before the completion returns the slots, that they have not changed. Then it overwrites
/// them.
void Requester::check_slots(const QueuePair& qp, const Operation& op) {
  bool same = true;
  for (std::uint64_t e = 0; e < op.entries; ++e) {
    const std::size_t at = e * nic::kEntryBytes;
    std::uint8_t* slot = qp.slot(op.entry + e);
    if (at < op.raw.size()) {
      const std::size_t bytes = std::min(nic::kEntryBytes, op.raw.size() - at);
      same = same && equal(slot, op.raw.data() + at, bytes);
    }
    if (context_.options.strict == Strictness::kStrict && same)
      std::memset(slot, kPoison, nic::kEntryBytes);
  }
  if (!same && op.syndrome == 0) {
    context_.checker.violation(
        strprintf("queue pair 0x%x: this WQE was overwritten before its completion", qp.number),
        op.raw.data(), op.raw.size());
  }
}

void Requester::complete(QueuePair& qp, const Operation& op) {
  // A collapsed queue shows only the last of several completions. So one whose successor is ready
  // as well may be left out.
  if (op.syndrome == 0 && qp.send_cq->collapsed() && qp.operations.size() > 1) {
    const Operation& successor = qp.operations[1];
    if (successor.progress == Operation::Progress::kDone && successor.wqe.signalled &&
        successor.complete_at_ns <= op.complete_at_ns &&
        context_.adversary.decides(Behaviour::kSkip, qp.ordinal, op.number)) {
      return;
    }
  }
  context_.complete(qp, *qp.send_cq,
                    {.error = op.syndrome != 0,
                     .syndrome = op.syndrome,
                     .vendor_syndrome = op.vendor,
                     .wqe_opcode = op.wqe.opcode,
                     .number = qp.number,
                     .wqe_index = static_cast<std::uint16_t>(op.entry),
                     .bytes = static_cast<std::uint32_t>(op.wqe.length),
                     .user_index = qp.attributes.user_index});
}

/// Flushes a queue pair in the error state: one flush completion for each queued WQE, signalled or
/// not.
bool Requester::flush(QueuePair& qp, std::int64_t now) {
  bool moved = false;
  for (;;) {
    if (qp.operations.empty()) {
      if (qp.fetched == qp.producer) return moved;
      take(qp, now);
    }
    Operation& op = qp.operations.front();
    if (qp.flush_at_ns == 0) {
      qp.flush_at_ns =
          now + context_.adversary.delay_ns(Behaviour::kLateFlush, qp.ordinal, qp.flushes);
      ++qp.flushes;
    }
    if (now < qp.flush_at_ns) return moved;
    qp.flush_at_ns = 0;
    op.syndrome = kFlushed;
    op.vendor = 0;
    qp.retired = op.entry + op.entries;
    complete(qp, op);
    qp.operations.pop_front();
    moved = true;
  }
}

void Requester::rescue(QueuePair& qp, std::int64_t now) {
  if (qp.attributes.no_record) return;
  const std::uint64_t before = qp.producer;
  ring_by_record(qp);
  if (qp.producer != before) qp.rescued_ns = now;
}

void Requester::end_rescue(QueuePair& qp) {
  if (qp.rescued_ns == 0) return;
  qp.rescued_ns = 0;
  ++context_.counters.rescues;
  context_.checker.remark(strprintf(
      "queue pair 0x%x: no doorbell for the entries before %u, whose doorbell record came "
      "with that of another queue pair of UAR %u. In memory it may have been overwritten; "
      "on a NIC they would wait for ever if none was rung",
      qp.number, static_cast<unsigned>(qp.producer & 0xffff), qp.attributes.uar));
}

void Requester::ring_by_record(QueuePair& qp) {
  if (qp.state != QpState::kRts && qp.state != QpState::kError) return;
  const std::uint16_t record = record_of(qp);
  const auto ahead = static_cast<std::uint16_t>(record - static_cast<std::uint16_t>(qp.producer));
  if (ahead <= qp.depth()) ring(qp, record);
}

void Requester::check_record(QueuePair& qp, std::int64_t now) {
  if (qp.state != QpState::kRts || qp.attributes.no_record) return;
  if (qp.rescued_ns != 0 && now - qp.rescued_ns > kRecordAheadNs) end_rescue(qp);
  const std::uint16_t record = record_of(qp);
  const auto rung = static_cast<std::uint16_t>(qp.producer);
  const auto ahead = static_cast<std::uint16_t>(record - rung);
  if (ahead == 0) {
    qp.record_differs_ns = 0;
    qp.record_reported = false;
  } else if (context_.options.strict == Strictness::kLoose) {
    ring_by_record(qp);
  } else if (qp.record_differs_ns == 0 || record != qp.record_seen) {
    qp.record_differs_ns = now;
  } else if (!qp.record_reported && now - qp.record_differs_ns >
                                        (ahead <= qp.depth() ? kRecordAheadNs : kRecordBehindNs)) {
    qp.record_reported = true;
    context_.checker.violation(strprintf(
        "queue pair 0x%x: doorbell record says %u, the last doorbell %u", qp.number, record, rung));
  }
  qp.record_seen = record;
}

void Requester::reset(QueuePair& qp) {
  end_rescue(qp);
  static_cast<Sending&>(qp) = {};
}

}  // namespace gshmem::soft
