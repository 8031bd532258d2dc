// A WQE on its way: what is left of it to issue, what is in flight, and how it failed. Made by
// work_queue.cpp, carried out by an Engine (rma.h or active_messages.h).
#pragma once

#include "transport/nic/decode.h"
#include "transport/ofi/fabric.h"

#include <gshmem/abi/mlx5.h>

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
/// The syndrome that fits an error of libfabric; `what` is the operation, "write to PE 3".
[[nodiscard]] Failure failure_of_provider(const Completion& completion, const std::string& what);

/// A PE as the target of operations.
struct Peer {
  int pe = -1;
  fi_addr_t address = FI_ADDR_UNSPEC;
  std::uint64_t heap_bytes = 0;
  std::uint32_t remote_key = 0;                   ///< as WQEs name the heap
  std::uint64_t provider_key = 0, heap_base = 0;  ///< as the provider does, for RMA
  std::uint64_t probe_key = 0, probe_base = 0;    ///< a word of the peer's that may be read
  std::string lost;                               ///< why; empty while it is reachable
  Clock::time_point report_at{};                  ///< when to say so to the PE
  unsigned in_flight = 0;                         ///< operations that the provider has accepted
  bool answered = false;                          ///< an operation has ended well at least once
};

/// A contiguous part of a WRITE or READ.
struct Chunk {
  std::uint64_t local = 0;                ///< offset in this PE's heap
  const std::uint8_t* payload = nullptr;  ///< or inline payload
  std::uint64_t remote = 0;               ///< offset in the peer's heap
  std::uint64_t bytes = 0;                ///< 0 = nothing left
};

struct Operation {
  enum class State {
    kQueued,  ///< waits for others, of its queue or of those that the engine is busy with
    kBegun,
    kIssued
  };

  nic::Wqe wqe;
  std::uint64_t first = 0;  ///< index of the first entry, not wrapped
  Peer* peer = nullptr;
  State state = State::kQueued;
  unsigned in_flight = 0;  ///< pieces that have been handed on and have not ended
  bool refused = false;    ///< the provider has had no place for it: perhaps nobody answers
  Failure failure;         ///< the first one
  Clock::time_point begun;

  /// Registered memory of its own: operands and results of atomics, inline payload.
  std::uint8_t* scratch = nullptr;
  void* scratch_descriptor = nullptr;
  std::uint64_t expected = 0;  ///< of an atomic that is tried again (rma.cpp)

  [[nodiscard]] bool done() const { return state == State::kIssued && in_flight == 0; }
  /// The piece to be issued next, `max` bytes at most.
  [[nodiscard]] Chunk next_chunk(std::uint64_t max) const;
  void advance(std::uint64_t bytes);

  /// A piece was handed on; it has ended.
  void piece_begins();
  void piece_ends(const Failure& failure);
  /// Nothing more is issued.
  void fail(Failure why);
  /// Nothing more is issued, by an error of the provider: the loss of a connection is that of the
  /// peer.
  void fail_by_provider(const Failure& why);
  void reset();
  [[nodiscard]] std::string describe() const;  ///< "WRITE of 4096 bytes to PE 3"

 private:
  std::size_t piece_ = 0;        ///< of wqe.local
  std::uint64_t in_piece_ = 0;   ///< bytes of it that were issued
  std::uint64_t at_remote_ = 0;  ///< bytes issued of all
};
inline constexpr std::size_t kScratchBytes = 1024;
static_assert(kScratchBytes >= nic::kMaxWqeBytes, "inline payload fits");

/// Carries out operations that have passed all checks.
class Engine {
 public:
  /// Hands on as much of `operation` as can be taken now; kIssued when that was the rest. Nothing
  /// taken and not `refused`: the engine has no place, which says nothing about the peer.
  virtual void issue(Operation& operation) = 0;
  /// The reason why an operation under way waits, in words: "2 messages sent and not answered".
  [[nodiscard]] virtual std::string awaits(const Operation& operation) const = 0;
  virtual ~Engine() = default;
};

/// The operations of all queues of a PE, a fixed number.
class OperationPool {
 public:
  OperationPool(Fabric& fabric, std::size_t count);
  [[nodiscard]] Operation* acquire();  ///< null when all are in use
  void release(Operation* operation);
  /// The registered memory of all of them. 16 bytes follow it: what peers read to see that this
  /// PE is alive, and where this PE reads it to.
  [[nodiscard]] const Registered& memory() const { return registered_; }
  [[nodiscard]] std::uint64_t probe_offset() const { return operations_.size() * kScratchBytes; }

 private:
  std::vector<std::uint8_t> memory_;
  Registered registered_;
  std::deque<Operation> operations_;
  std::vector<Operation*> free_;
};

}  // namespace gshmem::ofi
