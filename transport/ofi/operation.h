// A WQE in execution: the part that is still to be issued, the part in flight, and the reason if it
// failed. Created by work_queue.cpp, executed by an Engine (rma.h or active_messages.h).
#pragma once

#include "transport/nic/decode.h"
#include "transport/ofi/fabric.h"
#include "transport/ofi/ofi_rails.h"
#include "transport/ofi/peer_quota.h"

#include <gshmem/abi/mlx5.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <deque>
#include <string>
#include <vector>

namespace gshmem::ofi {

using Clock = std::chrono::steady_clock;

/// The reason why a WQE failed, for its completion and as a text for people.
struct Failure {
  std::uint8_t syndrome = 0;  ///< abi::Syndrome; 0 = none
  std::uint8_t vendor = 0;
  std::string text;
  [[nodiscard]] explicit operator bool() const { return syndrome != 0; }
};
[[nodiscard]] Failure failure(abi::Syndrome syndrome, std::string text);

/// A PE as the target of operations.
struct Peer {
  int pe = -1;
  std::uint64_t heap_bytes = 0;
  std::uint32_t remote_key = 0;                 ///< the key of the heap that WQEs use
  std::uint64_t heap_base = 0, probe_base = 0;  ///< addresses that providers use, for RMA
  std::vector<Route> routes;                    ///< by rail
  std::size_t home = 0;                         ///< rail of small transfers (OfiRails::between)
  std::string lost;                             ///< the reason; empty while the PE is reachable
  Clock::time_point report_at{};                ///< when to report the loss to this PE
  std::uint64_t answers = 0;  ///< number of parts of operations that have ended successfully

  std::size_t requests = 0;    ///< number of messages that it has not answered
  std::size_t bytes = 0;       ///< bytes of writes and reads in flight
  std::size_t immediates = 0;  ///< number of immediates that it may not have counted yet
};

/// The numbering of a queue's messages at their target.
struct Outbound {
  std::uint32_t twin = 0;  ///< index of the target's queue that this one is connected to
  std::uint32_t next = 0;  ///< number of the next message
};

/// The immediate of a write contains the queue that counts it, and the number of its group.
inline constexpr unsigned kGroupShift = 24;
[[nodiscard]] inline std::uint32_t immediate_of(const Outbound& outbound, int group) {
  return outbound.twin | static_cast<std::uint32_t>(group) << kGroupShift;
}

/// A contiguous part of a WRITE or READ.
struct Chunk {
  std::uint64_t local = 0;                ///< offset in this PE's heap
  const std::uint8_t* payload = nullptr;  ///< or inline payload
  std::uint64_t remote = 0;               ///< offset in the peer's heap
  std::uint64_t bytes = 0;                ///< 0 = nothing left
};

struct Operation;
/// The queue of an operation.
class OperationOwner {
 public:
  /// The operation has ended, or there is more of it to issue.
  virtual void changed(Operation& operation) = 0;

 protected:
  ~OperationOwner() = default;
};

struct Operation {
  enum class State {
    kQueued,  ///< it waits for other operations: of its queue, or of those that occupy the engine
    kBegun,
    kIssued
  };
  static constexpr int kNoGroup = -1;

  nic::Wqe wqe;
  std::uint64_t first = 0;  ///< index of the first entry, which does not wrap around
  Peer* peer = nullptr;
  OperationOwner* owner = nullptr;
  Outbound* outbound = nullptr;
  State state = State::kQueued;
  bool refused = false;  ///< the provider had no space for it; perhaps the peer does not answer
  bool told = false;     ///< the owner was notified of its end
  bool counted = false;  ///< the owner counts it as pending
  /// For an atomic and the writes before it that may be pending at the same time: their immediates
  /// contain the group, and the target counts them before it executes the atomic.
  int group = kNoGroup;
  // These members are not next to `state`. If they were, done() would read both by one load, which
  // has to wait for the store to one of them.
  unsigned in_flight = 0;    ///< number of chunks that were issued and have not ended
  std::uint32_t pieces = 0;  ///< number of chunks with the group; for the atomic: of all its writes
  /// Immediates of the peer that are reserved, one for each possible chunk.
  std::uint32_t reserved = 0;
  std::uint32_t rails = 0;  ///< a bit for each rail that has to be flushed before it ends
  Failure failure;          ///< the first failure
  Clock::time_point begun;

  /// Registered memory of this operation: operands and results of atomics, inline payload.
  std::uint8_t* scratch = nullptr;
  std::uint64_t expected = 0;  ///< for an atomic that is tried again (rma.cpp)

  [[nodiscard]] bool done() const { return state == State::kIssued && in_flight == 0; }
  [[nodiscard]] bool writes() const { return wqe.kind == nic::WqeKind::kWrite; }
  [[nodiscard]] bool moves_data() const {
    return wqe.length > 0 && wqe.kind != nic::WqeKind::kDump && wqe.kind != nic::WqeKind::kNop;
  }
  /// Returns the chunk to be issued next, of at most `max` bytes.
  [[nodiscard]] Chunk next_chunk(std::uint64_t max) const;
  void advance(std::uint64_t bytes);
  [[nodiscard]] std::uint64_t left() const { return wqe.length - at_remote_; }

  /// Counts a chunk that was issued, and one that has ended.
  void piece_begins();
  void piece_ends();
  void piece_fails(Failure why);
  /// Lets the operation be issued again, because the chunk that has just ended left more to issue.
  void issue_again() { state = State::kBegun; }
  /// Marks the operation as failed: nothing more is issued.
  void fail(Failure why);
  /// Notifies the owner of a change.
  void tell();
  /// Resets everything except `wqe`, `first`, `owner` and `outbound`, which the next queue sets.
  void reset();
  [[nodiscard]] std::string describe() const;  ///< for example "WRITE of 4096 bytes to PE 3"

 private:
  std::size_t piece_ = 0;        ///< index into wqe.local
  std::uint64_t in_piece_ = 0;   ///< bytes of this element that were issued
  std::uint64_t at_remote_ = 0;  ///< bytes that were issued in total
};
// It is inline, because it is a large part of the cost of each small write.
inline Chunk Operation::next_chunk(std::uint64_t max) const {
  Chunk chunk{.remote = wqe.remote_address + at_remote_};
  if (at_remote_ < wqe.inline_payload.size()) {
    chunk.payload = wqe.inline_payload.data() + at_remote_;
    chunk.bytes = std::min(wqe.inline_payload.size() - at_remote_, max);
  } else if (piece_ < wqe.local.size()) {
    const nic::LocalPiece& piece = wqe.local[piece_];
    chunk.local = piece.address + in_piece_;
    chunk.bytes = std::min(piece.bytes - in_piece_, max);
  }
  return chunk;
}

inline void Operation::advance(std::uint64_t bytes) {
  const bool was_inline = at_remote_ < wqe.inline_payload.size();
  at_remote_ += bytes;
  if (was_inline) return;
  in_piece_ += bytes;
  while (piece_ < wqe.local.size() && in_piece_ >= wqe.local[piece_].bytes) {
    ++piece_;
    in_piece_ = 0;
  }
}

inline constexpr std::size_t kScratchBytes = 1024;
static_assert(kScratchBytes >= nic::kMaxWqeBytes, "inline payload fits");

/// Executes operations that have passed all checks.
class Engine {
 public:
  /// Issues as much of `operation` as is possible now; kIssued when that was the rest. If nothing
  /// was issued and it is not `refused`, the engine has no space, which is not the peer's fault.
  /// `more`: another operation of the queue follows at once.
  virtual void issue(Operation& operation, bool more) = 0;
  /// Returns why a pending operation waits, in words: "2 messages sent and not answered".
  [[nodiscard]] virtual std::string awaits(const Operation& operation) const = 0;
  /// Reserves space for the write's immediates at the target. If it returns true, the write may
  /// carry its group.
  [[nodiscard]] virtual bool reserve_immediates(Operation&) { return false; }
  /// Notifies the target that the queue's remaining messages must not be executed.
  virtual void abandon(Peer&, Outbound&) {}
  virtual ~Engine() = default;
};

/// The operations of all queues of a PE; their number is fixed.
class OperationPool {
 public:
  /// `memory` is scratch memory for `count` of them.
  OperationPool(std::uint8_t* memory, std::size_t count, std::size_t peers);
  [[nodiscard]] Operation* acquire(Peer& peer);  ///< null when the peer has used its share
  void release(Operation* operation);
  [[nodiscard]] std::size_t count() const { return operations_.size(); }

 private:
  std::deque<Operation> operations_;
  std::vector<Operation*> free_;
  PeerQuota quota_;
};

}  // namespace gshmem::ofi
