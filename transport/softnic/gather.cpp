// The local memory of the requester: where messages come from, and where replies are stored.
#include "transport/softnic/requester.h"

#include <algorithm>
#include <cstring>

namespace gshmem::soft {

/// Reads the source bytes [offset, offset + bytes) of the message.
bool Requester::gather(QueuePair& qp, Operation& op, std::uint64_t offset, std::uint8_t* to,
                       std::uint64_t bytes, std::int64_t now) {
  std::uint64_t begin = op.wqe.inline_payload.size();  // of the piece, in the message
  if (offset < begin) {
    const std::uint64_t part = std::min(bytes, begin - offset);
    std::memcpy(to, op.wqe.inline_payload.data() + offset, part);
    to += part, offset += part, bytes -= part;
  }
  for (const nic::LocalPiece& piece : op.wqe.local) {
    const std::uint64_t end = begin + piece.bytes;
    while (bytes > 0 && offset < end) {
      std::uint64_t part = std::min(bytes, end - offset);
      const char* why = "";
      const Region* region =
          context_.regions.check(piece.key, qp.attributes.pd, 0, piece.address, piece.bytes, &why);
      if (region == nullptr) return false;
      context_.push_writes();
      const std::uint8_t* source = region->at(piece.address);
      if (!region->memory->batched()) {
        if (!region->memory->read(to, source + (offset - begin), part)) return false;
      } else {
        if (!op.ahead.has(offset) && !read_ahead(qp, op, offset, now)) return false;
        part = std::min(part, op.ahead.end - offset);
        std::memcpy(to, op.ahead.at(offset), part);
      }
      to += part, offset += part, bytes -= part;
    }
    begin = end;
  }
  return true;
}

/// Reads the bytes of `op` at `offset`, for the next message, and those of later writes that could
/// be sent at once. So one wait is enough for all. A WQE that was rung owns its source, so a NIC
/// may read it early. But nothing is read ahead across a fence, since the reads after a fence must
/// come later.
bool Requester::read_ahead(QueuePair& qp, Operation& op, std::uint64_t offset, std::int64_t now) {
  MemoryAccess* memory = nullptr;
  std::vector<MemoryAccess::Part> parts;
  std::uint64_t left = ReadAhead::kBytes;
  /// Adds a range of the message, which is in the local piece that begins at `begin`.
  const auto add = [&](Operation& to, const nic::LocalPiece& piece, std::uint64_t begin,
                       std::uint64_t into) {
    const char* why = "";
    const Region* region =
        context_.regions.check(piece.key, qp.attributes.pd, 0, piece.address, piece.bytes, &why);
    if (region == nullptr || (memory != nullptr && region->memory != memory)) return false;
    memory = region->memory;
    const std::uint64_t bytes = std::min(left, piece.bytes - into);
    to.ahead.make(begin + into, bytes);
    parts.push_back({to.ahead.bytes.get(), region->at(piece.address) + into, bytes});
    left -= bytes;
    return true;
  };
  std::uint64_t begin = op.wqe.inline_payload.size();
  for (const nic::LocalPiece& piece : op.wqe.local) {
    // The range begins at a multiple, because the adversary may send the last packet first.
    const std::uint64_t into = (offset - begin) / ReadAhead::kBytes * ReadAhead::kBytes;
    if (offset < begin + piece.bytes) {
      add(op, piece, begin, into);
      break;
    }
    begin += piece.bytes;
  }
  for (std::size_t i = qp.next + 1; i < qp.operations.size() && left > 0; ++i) {
    Operation& later = qp.operations[i];
    if (later.wqe.fence != 0 || later.syndrome != 0 || now < later.not_before_ns) break;
    const std::uint64_t first = later.wqe.inline_payload.size();
    const bool reads = later.wqe.carries_data() && !later.wqe.local.empty() &&
                       later.progress == Operation::Progress::kQueued && !later.ahead.has(first);
    if (!reads) continue;
    if (!add(later, later.wqe.local.front(), first, 0)) break;
  }
  return memory->read(parts.data(), parts.size());
}

void Requester::land_trailing(QueuePair& qp, std::int64_t now) {
  while (!qp.trailing.empty() && now >= qp.trailing.front().until_ns) {
    const TrailingRead& read = qp.trailing.front();
    // A region that was deregistered in the meantime is not read by anyone.
    const LocalMemory memory = local(qp, read.local);
    if (memory.scatter(0, read.data.data(), read.data.size())) static_cast<void>(memory.settle());
    qp.trailing.pop_front();
  }
}

/// Processes an operation whose data is stored. It is done when the data is visible, and the
/// replies of a batch wait together for that.
void Requester::arrived(QueuePair& qp, Operation& op, std::int64_t now) {
  for (const nic::LocalPiece& piece : op.wqe.local) {
    const char* why = "";
    const Region* region = context_.regions.check(piece.key, qp.attributes.pd, kLocalWrite,
                                                  piece.address, piece.bytes, &why);
    if (region == nullptr || region->memory->batched()) {
      arrivals_.push_back({qp.number, op.epoch, psn_of(qp, op)});
      return;
    }
  }
  done(qp, op, now);
}

void Requester::settle(std::int64_t now) {
  for (const Arrival& arrival : arrivals_) {
    QueuePair* qp = context_.find_qp(arrival.qpn);
    if (qp == nullptr) continue;
    Operation* op = find(*qp, arrival.psn, arrival.epoch);
    if (op == nullptr) continue;
    if (local(*qp, op->wqe.local).settle() && lost_writes() == op->losses) {
      done(*qp, *op, now);
    } else {
      reject(*qp, *op, kLocalProtection, "a local region could not be reached");
    }
  }
  arrivals_.clear();
}

}  // namespace gshmem::soft
