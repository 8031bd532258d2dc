// A WQE on its way: what is left of it to issue, what is in flight, and how it failed. Made by
// work_queue.cpp, carried out by an Engine (rma.h or active_messages.h).
#pragma once

#include "transport/nic/decode.h"
#include "transport/ofi/fabric.h"
#include "transport/ofi/lanes.h"
#include "transport/ofi/shares.h"

#include <gshmem/abi/mlx5.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <deque>
#include <string>
#include <vector>

namespace gshmem::ofi {

using Clock = std::chrono::steady_clock;

/// Why a WQE failed, as its completion says it and as a person reads it.
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
  std::uint32_t remote_key = 0;                 ///< as WQEs name the heap
  std::uint64_t heap_base = 0, probe_base = 0;  ///< as providers do, for RMA
  std::vector<Way> ways;                        ///< by lane
  std::size_t home = 0;                         ///< lane of small transfers (Lanes::between)
  std::string lost;                             ///< why; empty while it is reachable
  Clock::time_point report_at{};                ///< when to say so to the PE
  std::uint64_t answers = 0;                    ///< parts of operations that have ended well

  std::size_t requests = 0;    ///< messages that it has not answered
  std::size_t bytes = 0;       ///< of writes and reads in flight
  std::size_t immediates = 0;  ///< that it may not have taken yet
};

/// Numbers of a queue's messages at their target.
struct Outbound {
  std::uint32_t twin = 0;  ///< the queue there that this one is connected to, by its order
  std::uint32_t next = 0;  ///< number of the next message
};

/// The immediate of a write for a group: who counts, and which one it is of.
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
  /// It has ended, or there is more of it to issue.
  virtual void changed(Operation& operation) = 0;

 protected:
  ~OperationOwner() = default;
};

struct Operation {
  enum class State {
    kQueued,  ///< waits for others, of its queue or of those that the engine is busy with
    kBegun,
    kIssued
  };
  static constexpr int kNoGroup = -1;

  nic::Wqe wqe;
  std::uint64_t first = 0;  ///< index of the first entry, not wrapped
  Peer* peer = nullptr;
  OperationOwner* owner = nullptr;
  Outbound* outbound = nullptr;
  State state = State::kQueued;
  bool refused = false;  ///< the provider has had no place for it: perhaps nobody answers
  bool told = false;     ///< the owner knows that it has ended
  bool counted = false;  ///< by the owner, among what is under way
  /// Of an atomic and the writes before it that may be under way with it: their immediates bear the
  /// group, and the target counts them before it carries out the atomic.
  int group = kNoGroup;
  // Not beside `state`: done() would read both at once, and wait for the store to one of them.
  unsigned in_flight = 0;      ///< pieces that have been handed on and have not ended
  std::uint32_t pieces = 0;    ///< that bear the group; of the atomic: of all its writes
  std::uint32_t reserved = 0;  ///< immediates of the peer, for as many pieces as there may be
  std::uint32_t lanes = 0;     ///< bits of those that have to be flushed before it ends
  Failure failure;             ///< the first one
  Clock::time_point begun;

  /// Registered memory of its own: operands and results of atomics, inline payload.
  std::uint8_t* scratch = nullptr;
  std::uint64_t expected = 0;  ///< of an atomic that is tried again (rma.cpp)

  [[nodiscard]] bool done() const { return state == State::kIssued && in_flight == 0; }
  [[nodiscard]] bool writes() const { return wqe.kind == nic::WqeKind::kWrite; }
  [[nodiscard]] bool moves_data() const {
    return wqe.length > 0 && wqe.kind != nic::WqeKind::kDump && wqe.kind != nic::WqeKind::kNop;
  }
  /// The piece to be issued next, `max` bytes at most.
  [[nodiscard]] Chunk next_chunk(std::uint64_t max) const;
  void advance(std::uint64_t bytes);
  [[nodiscard]] std::uint64_t left() const { return wqe.length - at_remote_; }

  /// A piece was handed on; it has ended.
  void piece_begins();
  void piece_ends();
  void piece_fails(Failure why);
  /// There is more of it to issue, once the piece that has just ended is taken off.
  void issue_again() { state = State::kBegun; }
  /// Nothing more is issued.
  void fail(Failure why);
  /// Tells the owner what there is to tell.
  void tell();
  /// All but `wqe`, `first`, `owner` and `outbound`, which the next queue sets.
  void reset();
  [[nodiscard]] std::string describe() const;  ///< "WRITE of 4096 bytes to PE 3"

 private:
  std::size_t piece_ = 0;        ///< of wqe.local
  std::uint64_t in_piece_ = 0;   ///< bytes of it that were issued
  std::uint64_t at_remote_ = 0;  ///< bytes issued of all
};
// Here, because for each write of few bytes they are a part of what it costs.
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

/// Carries out operations that have passed all checks.
class Engine {
 public:
  /// Hands on as much of `operation` as can be taken now; kIssued when that was the rest. Nothing
  /// taken and not `refused`: the engine has no place, which says nothing about the peer. `more`:
  /// another one of the queue follows at once.
  virtual void issue(Operation& operation, bool more) = 0;
  /// The reason why an operation under way waits, in words: "2 messages sent and not answered".
  [[nodiscard]] virtual std::string awaits(const Operation& operation) const = 0;
  /// A write may bear its group: the target can take its immediates. False: it must do without.
  [[nodiscard]] virtual bool reserve_immediates(Operation&) { return false; }
  /// Nothing of the queue is to be carried out any more at its target.
  virtual void abandon(Peer&, Outbound&) {}
  virtual ~Engine() = default;
};

/// The operations of all queues of a PE, a fixed number.
class OperationPool {
 public:
  /// `memory`: scratch memory for `count` of them.
  OperationPool(std::uint8_t* memory, std::size_t count, std::size_t peers);
  [[nodiscard]] Operation* acquire(Peer& peer);  ///< null when the peer may have no more
  void release(Operation* operation);
  [[nodiscard]] std::size_t count() const { return operations_.size(); }

 private:
  std::deque<Operation> operations_;
  std::vector<Operation*> free_;
  Shares shares_;
};

}  // namespace gshmem::ofi
