// The work queues of one PE: their memory, their connections to the other PEs, and the views that
// device code uses. It begins with those of the default context; more can be added for other
// contexts. It works in the same way for every Nic, and for several at once (rails.h). The
// differences between CPU mode and GPUs are in MemorySource. Invariant: views, cursors and entries
// stay where they are until destruction, which comes after stop().
#pragma once

#include <gshmem/abi/queue_shape.h>

#include "transport/nic/agent.h"
#include "transport/nic/memory_keys.h"
#include "transport/nic/rails.h"

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <vector>

namespace gshmem::nic {

/// Registers as device code accesses them, or memory that replaces them (soft NIC). Memory keeps
/// only the last store, so device code has to store there in the order of its turns.
struct MappedRegisters {
  void* address;
  bool needs_order;
};

/// Throws GSHMEMX_ERROR_CONFIG if GSHMEM_CONNECT=dc does not go with these rails or with other
/// variables.
void require_dynamic(const Config& config, const Rails& rails);

/// Allocates queue memory. It outlives the QueueSet.
struct MemorySource {
  /// Allocates zeroed, page-aligned host memory that device code accesses by the same address.
  std::function<void*(std::size_t bytes)> shared;
  /// Allocates zeroed memory near the code that posts, for views and cursors.
  std::function<void*(std::size_t bytes)> device;
  /// Writes to memory of `device`.
  std::function<void(void* to, const void* from, std::size_t bytes)> upload;
  /// Returns the address by which device code accesses whole pages of registers, or of memory of
  /// the Nic. Throws Error GSHMEMX_ERROR_NOT_SUPPORTED if that is impossible.
  std::function<MappedRegisters(void* page, std::size_t bytes)> map_registers;
  std::size_t page_bytes = 4096;  ///< page size of the host; registers are mapped in whole pages
};

struct QueueSetOptions {
  const Config& config;
  Collectives& boot;
  MemorySource memory;
  Region heap;
  std::vector<int> peers;  ///< PEs that get queues, ascending; the same relation on both sides
  /// Are only atomics sent to this peer? Such queues need only the library's part of the heap.
  std::function<bool(int pe)> only_atomics = [](int) { return false; };
  std::uint32_t flags = 0;  ///< NicFlags in addition to those of the NICs
};

/// The queues of a context, one to each peer, or two on different rails (context_queues). They have
/// two views: shared by any number of threads, and for use by one thread at a time (never both at
/// once).
struct ContextQueues {
  abi::NicView shared, exclusive;
};

class QueueSet {
 public:
  /// Collective. `options.config` outlives this object. Errors: those of Nic;
  /// GSHMEMX_ERROR_NOT_SUPPORTED for a doorbell that device code cannot access with
  /// GSHMEM_DOORBELL=gpu.
  QueueSet(Rails& rails, const QueueSetOptions& options);
  ~QueueSet() { stop(); }
  QueueSet(const QueueSet&) = delete;

  /// Returns the view of the default context.
  [[nodiscard]] const abi::NicView& view() const noexcept { return view_; }

  // With connections on first use (GSHMEM_CONNECT=use), the constructor and connect() lay out the
  // queues. They create only the queues from this PE to itself. FirstUse (first_use.h) creates the
  // others, by context and PE. The information that a PE sends about them is opaque.
  struct Pair {
    int context, pe;
    auto operator<=>(const Pair&) const = default;
  };
  struct QueueInfo {
    ConnectInfo answers{}, asks{};  ///< the end that answers, and the end that posts requests
  };
  using QueueInfos = std::vector<QueueInfo>;
  [[nodiscard]] bool on_first_use() const noexcept { return on_first_use_; }
  /// Returns the pairs to which device code wants to post and that are not connected.
  [[nodiscard]] std::vector<Pair> asked();
  /// Creates this end of a pair's queues.
  [[nodiscard]] QueueInfos create(const Pair& pair);
  /// Connects this end, which answers from now on.
  void connect(const Pair& pair, const QueueInfos& theirs);
  /// Releases the writers, since the other end answers, too.
  void release(const Pair& pair);

  // Creates queues for `contexts` more contexts, in three steps that every PE takes. Each step
  // throws what the constructor throws, on this PE alone. After a failure the new queues are not
  // used.
  void create_more(std::uint32_t contexts);
  /// Collective over `boot`.
  void exchange(Collectives& boot);
  /// Afterwards every PE waits for all others before it posts to them.
  [[nodiscard]] std::vector<ContextQueues> connect();

  [[nodiscard]] MemoryKeys& keys() noexcept { return keys_; }

  /// Returns the numbers of queues of the default context in its view, one for each Nic.
  [[nodiscard]] std::vector<std::uint32_t> one_by_each_nic() const;
  /// Lets a host thread ring from now on, because the stores of device code do not reach the
  /// registers. Call it before other contexts exist. It changes view().
  void ring_by_agent();
  /// Does the agent ring, instead of the calling thread?
  [[nodiscard]] bool rung_by_agent() const noexcept { return agent_ != nullptr; }
  /// No doorbell is forwarded after it returns.
  void stop() noexcept { agent_.reset(); }

 private:
  /// This PE's end of a connection.
  struct End {
    Nic* nic;
    QueuePlace place;
    int number = -1;  ///< the Nic's number for it; none before it is created
    CreatedQueue created{};
  };
  /// A queue to a peer, or an initiator (`pe` is -1). `answering` is the end of the peer's
  /// connection to this PE, if that is a different one.
  struct Queue {
    int pe;
    int rail;
    End own;
    std::optional<End> answering;
  };
  /// Queues that were laid out together in one piece of memory: those of some contexts.
  struct Batch {
    std::vector<QueueRails> contexts;
    QueueRails rails;  ///< for each context: the rails of its queues to one peer
    Region memory;
    std::vector<Queue> queues;  ///< by peer, then in the order of `rails`; initiators in that order
    /// Doorbells of `queues`, by the addresses that device code uses.
    std::vector<std::uint64_t*> doorbells;
    abi::FirstUse* first_use = nullptr;  ///< the pointer in the views; null: all are connected
    [[nodiscard]] char* slab() const { return static_cast<char*>(memory.base); }
    /// Returns the queues to the nth peer.
    [[nodiscard]] std::span<Queue> to(std::size_t peer) {
      return std::span(queues).subspan(peer * rails.size(), rails.size());
    }
  };
  [[nodiscard]] abi::QueueMemory choose_memory();
  [[nodiscard]] Region allocate(abi::QueueMemory memory, std::uint64_t bytes);
  [[nodiscard]] Batch lay_out(std::vector<QueueRails> contexts) const;
  /// Does the other end of a queue to PE `pe` only answer? It does if the connection goes one way,
  /// and if it leads back to this PE. (A queue that is connected to itself would lose its error
  /// completion, because it no longer answers after an error.)
  [[nodiscard]] bool is_answered_apart(int pe, int rail) const {
    return pe == my_pe_ || rails_.is_one_way(pe, rail);
  }
  // Creates the queues of a batch to one peer: they are made, described, and connected to those
  // that the peer describes.
  void create(const Batch& batch, std::span<Queue> queues);
  void create_end(const Batch& batch, End& end);
  void use_memory(Nic& nic, const Batch& batch);
  void give_memory(Batch& batch);
  void prepare(const Batch& batch, const End& end);
  [[nodiscard]] QueueInfos infos_of(std::span<const Queue> queues) const;
  void connect(std::span<const Queue> queues, const QueueInfos& theirs);
  void create_all(Batch& batch);
  void reserve_all(Batch& batch);
  void make_batches(std::vector<QueueRails> contexts);
  [[nodiscard]] Batch& batch_of(const Pair& pair) { return batches_.at(pair.context); }
  [[nodiscard]] std::span<Queue> queues_of(const Pair& pair);
  void make_doorbells(Batch& batch);
  void map_doorbells(Batch& batch);
  void make_agent_words(Batch& batch);
  void publish_default();
  void connect_all(Batch& batch);
  [[nodiscard]] abi::QueueView view_of(const Batch& batch, std::size_t i, int pe) const;
  void make_targets(Collectives& boot);
  [[nodiscard]] abi::QueueCursor* make_cursors(std::size_t count);
  /// Returns the views of the queues of a context: those to each peer that begin with the nth.
  [[nodiscard]] std::vector<abi::QueueView> views_of(const Batch& batch, std::size_t nth,
                                                     std::size_t count) const;
  [[nodiscard]] abi::Bell bell(const Nic::Limits& limits) const;
  [[nodiscard]] abi::NicView publish(const Batch& batch, const std::vector<abi::QueueView>& views,
                                     abi::QueueCursor* cursors);
  [[nodiscard]] ContextQueues publish_context(const Batch& batch, std::size_t nth,
                                              std::size_t count);
  [[nodiscard]] std::uint64_t* reachable(const Nic& nic, std::uint64_t* doorbell);

  Rails& rails_;
  const Config& config_;
  MemorySource source_;
  Region heap_;
  std::vector<int> peers_;
  std::size_t n_pes_;
  int my_pe_;
  std::uint32_t flags_;  ///< NicFlags in addition to those of the NICs
  std::uint32_t depth_;
  abi::QueueMemory memory_;
  MemoryKeys keys_;
  std::map<const Nic*, int> made_;                 ///< number of queues of all batches
  std::map<const Nic*, const void*> memory_used_;  ///< the slab that was last passed to each Nic
  bool on_first_use_;
  bool dynamic_;                  ///< queues are initiators, each to all PEs
  std::mutex mutex_;              ///< guards all members below, and calls of the Nics
  int contexts_ = 0;              ///< number of contexts so far; 0 is the default one
  std::map<int, Batch> batches_;  ///< indexed by their first context
  int first_new_ = 0;             ///< the first context of those that are being created
  /// For the newest batch: the information from its peers, in order.
  std::vector<QueueInfos> theirs_;
  std::map<std::uintptr_t, char*> mapped_;  ///< pages of registers: host address to device address
  bool bells_need_order_ = false;
  std::unique_ptr<Agent> agent_;
  const abi::AddressVector* vectors_ = nullptr;  ///< NicView::vectors
  abi::QueueCursor* cursors_ = nullptr;          ///< cursors of the default context
  abi::NicView view_;
};

}  // namespace gshmem::nic
