// Executes operations by the provider's own RMA and atomics, from heap to heap. Providers promise
// no order between operations. So work_queue.cpp waits instead, or lets a write carry an immediate
// that its target counts.
#pragma once

#include "transport/ofi/atomics.h"
#include "transport/ofi/memories.h"
#include "transport/ofi/memory_access.h"
#include "transport/ofi/operation.h"

#include <deque>
#include <vector>

namespace gshmem::ofi {

/// Receives the end of RmaEngine::flush_own().
class FlushSink {
 public:
  virtual void flushed(const Failure& why) = 0;

 protected:
  ~FlushSink() = default;
};

class RmaEngine final : public Engine, private CompletionSink {
 public:
  struct Setup {
    OfiRails& rails;
    const RailMemory& heap;
    const RailMemory& pool;  ///< contains the scratch memory of operations
    const Memories& memories;
    MemoryAccess& access;  ///< accesses the heap, for results of atomics
    AtomicSupport atomics;
    const std::vector<Peer>& peers;
    int pe = 0;
    std::uint64_t landing = 0;  ///< offset in the pool where words that are read are stored
    /// Number of immediates that a PE accepts from each other PE before the atomics they belong to
    /// were executed.
    std::size_t immediates = 0;
    /// The data of READs may become visible later than their completion.
    bool reads_trail = false;
  };
  /// All arguments outlive this object.
  explicit RmaEngine(const Setup& setup);

  void issue(Operation& operation, bool more) override;
  [[nodiscard]] std::string awaits(const Operation& operation) const override;
  [[nodiscard]] bool reserve_immediates(Operation& operation) override;
  /// Notifies `sink` when everything that peers have written to this PE's heap so far is visible.
  /// One at a time.
  void flush_own(FlushSink& sink);
  /// Called after the queues of a round. It rings for calls that announced a next call (FI_MORE)
  /// which did not come.
  void end_round();
  /// Advances results of atomics on their way into the heap, and repeats operations that must be
  /// tried again.
  bool progress();

 private:
  enum class Use : std::uint8_t { kData, kAtomic, kFlush, kRing, kFlushOwn };
  /// One call of the provider.
  struct Piece : Context {
    Operation* operation = nullptr;  ///< null for kRing and kFlushOwn
    std::size_t rail = 0;
    Use use = Use::kData;
    Chunk chunk;  ///< for kData
  };
  struct Rail {
    Rail(std::size_t size, std::size_t peers) : quota(size, peers) {}
    std::deque<Piece> pieces;  ///< as many as the endpoint's queue has slots
    std::vector<Piece*> free;
    PeerQuota quota;
    /// The last call had FI_MORE: the device may not know about the calls.
    bool unrung = false;
  };
  struct Result {
    Operation* operation;
    Ticket ticket;
  };
  struct OwnFlush {
    FlushSink* sink = nullptr;  ///< null: no flush is pending
    std::uint32_t to_read = 0;  ///< bits of rails
    unsigned flying = 0;
    Failure why;
  };

  void completed(Context& context, const Completion& completion) override;
  void failed(Piece& piece, const Completion& completion);
  void ended(Piece& piece);

  void issue_chunks(Operation& operation, bool more);
  void issue_atomic(Operation& operation);
  /// Reads a word on every rail that the operation has to flush; false if that was not possible
  /// yet.
  bool flush(Operation& operation);
  /// Reads a word of this PE's heap on a rail; false if that was not possible yet.
  bool read_own(std::size_t rail, Use use);
  void read_rails();
  void flushed_own(std::size_t rail, const Completion& completion);
  [[nodiscard]] bool is_spread(const Operation& operation) const;
  [[nodiscard]] std::uint64_t chunk_bytes(const Operation& operation) const;
  [[nodiscard]] std::size_t rail_of(const Operation& operation, std::uint64_t at) const;
  [[nodiscard]] std::uint64_t flags_of(const Operation& operation, const Chunk& chunk,
                                       std::size_t rail) const;
  /// A position in the memory of a peer, as the provider names it.
  struct RemoteAddress {
    std::uint64_t address, key;
  };
  [[nodiscard]] RemoteAddress remote_address(const Peer& peer, std::size_t rail,
                                             std::uint64_t offset) const;
  [[nodiscard]] void* descriptor_of(std::uint64_t offset, std::size_t rail) const;
  ssize_t post_chunk(const Piece& piece, std::uint64_t flags);
  ssize_t post_atomic(Operation& operation, const AtomicPlan& plan, Piece& piece);
  ssize_t post_read_of_heap(const Peer& peer, Piece& piece);
  enum class AtomicEnd { kDone, kAgain, kResultPending };
  AtomicEnd finish_atomic(Operation& operation);
  bool poll_results();
  bool try_again();
  /// Handles the result of a call; true when the provider accepted it.
  bool accepted(Piece& piece, ssize_t result);
  Piece* acquire(Operation& operation, std::size_t rail, Use use);
  void release(Piece& piece);

  Setup setup_;
  std::uint64_t max_chunk_;
  /// Limit on bytes to one peer that are pending, if threads have to move them.
  std::size_t max_bytes_;
  std::deque<Rail> rails_;
  std::vector<Piece*> again_;  ///< chunks that the provider failed and that are tried again
  std::vector<Result> results_;
  OwnFlush own_flush_;
};

}  // namespace gshmem::ofi
