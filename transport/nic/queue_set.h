// The work queues of one PE: their memory, their connections to the other PEs, and the views that
// device code gets. First those of the default context; more can be added, for other contexts.
// Works the same for every Nic, and for several side by side (rails.h); what differs between CPU
// mode and GPUs comes in as MemorySource. Invariant: views, cursors and entries stay where they are
// until destruction, which comes after stop().
#pragma once

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

/// Registers as device code reaches them, or memory that stands for them. Memory keeps the last
/// store only: device code has to store there in the order of the turns.
struct MappedRegisters {
  void* address;
  bool needs_order;
};

/// Where queue memory comes from. It lives longer than the QueueSet.
struct MemorySource {
  /// Zeroed, page-aligned host memory that device code reaches by the same address.
  std::function<void*(std::size_t bytes)> shared;
  /// Zeroed memory next to the code that posts, for views and cursors.
  std::function<void*(std::size_t bytes)> device;
  /// Writes to memory of `device`.
  std::function<void(void* to, const void* from, std::size_t bytes)> upload;
  /// Address by which device code reaches whole pages of registers, or of memory of the Nic. Throws
  /// Error GSHMEMX_ERROR_NOT_SUPPORTED where it cannot.
  std::function<MappedRegisters(void* page, std::size_t bytes)> map_registers;
  std::size_t page_bytes = 4096;  ///< of the host: registers are mapped by whole ones
};

struct QueueSetOptions {
  const Config& config;
  Collectives& boot;
  MemorySource memory;
  Region heap;
  std::vector<int> peers;  ///< PEs that get queues, ascending; the same relation on both sides
  /// Of these, PEs to which only atomics go: of the heap they take the library's part.
  std::function<bool(int pe)> only_atomics = [](int) { return false; };
};

/// Queues of a context, one to each peer, or two by different rails (context_queues): shared by any
/// number of threads, and as one thread at a time may use them (both at the same time never).
struct ContextQueues {
  abi::NicView shared, exclusive;
};

class QueueSet {
 public:
  /// Collective. `options.config` lives longer. Errors: what Nic throws;
  /// GSHMEMX_ERROR_NOT_SUPPORTED for a doorbell that device code cannot reach with
  /// GSHMEM_DOORBELL=gpu.
  QueueSet(Rails& rails, const QueueSetOptions& options);
  ~QueueSet() { stop(); }
  QueueSet(const QueueSet&) = delete;

  /// The default context's.
  [[nodiscard]] const abi::NicView& view() const noexcept { return view_; }

  // Where queues are connected on first use (GSHMEM_CONNECT=use), the constructor and connect() lay
  // them out, and make those alone that lead back to this PE. The others are made for FirstUse
  // (first_use.h), by context and PE. What one PE tells the other about them is opaque.
  struct Pair {
    int context, pe;
    auto operator<=>(const Pair&) const = default;
  };
  struct QueueInfo {
    ConnectInfo answers{}, asks{};  ///< the end that answers, and the one that asks
  };
  using QueueInfos = std::vector<QueueInfo>;
  [[nodiscard]] bool on_first_use() const noexcept { return on_first_use_; }
  /// To whom device code wants to post and cannot yet.
  [[nodiscard]] std::vector<Pair> asked();
  /// Makes this end of a pair's queues.
  [[nodiscard]] QueueInfos create(const Pair& pair);
  /// This end answers from now on.
  void connect(const Pair& pair, const QueueInfos& theirs);
  /// The other end does, too: writers may go on.
  void release(const Pair& pair);

  // More queues, for `contexts` contexts, in three steps that every PE takes; each throws what the
  // constructor does, on this PE alone. After a failure, what it has made is not used.
  void create_more(std::uint32_t contexts);
  /// Collective over `boot`.
  void exchange(Collectives& boot);
  /// Afterwards every PE waits for all others before it posts to them.
  [[nodiscard]] std::vector<ContextQueues> connect();

  [[nodiscard]] MemoryKeys& keys() noexcept { return keys_; }

  /// Numbers of queues of the default context in its view, one for each Nic.
  [[nodiscard]] std::vector<std::uint32_t> one_by_each_nic() const;
  /// Has a host thread ring from now on, because what device code stores does not arrive. Before
  /// there are other contexts. view() is another one after it.
  void ring_by_agent();
  /// The agent rings, not the thread that calls.
  [[nodiscard]] bool rung_by_agent() const noexcept { return agent_ != nullptr; }
  /// No doorbell will be forwarded after it returns.
  void stop() noexcept { agent_.reset(); }

 private:
  /// This PE's end of a connection.
  struct End {
    Nic* nic;
    QueuePlace place;
    int number = -1;  ///< what the Nic calls it; none before it is made
    CreatedQueue created{};
  };
  /// A queue, and the other end of the peer's one that is in its place, where that is another.
  struct Queue {
    int pe;
    int rail;
    End own;
    std::optional<End> answering;
  };
  /// Queues that were laid out together, in one piece of memory: those of some contexts.
  struct Batch {
    std::vector<QueueRails> contexts;
    QueueRails rails;  ///< of all contexts: queues to one peer
    Region memory;
    std::vector<Queue> queues;              ///< by peer, then as `rails`
    std::vector<std::uint64_t*> doorbells;  ///< of `queues`, as device code reaches them
    abi::FirstUse* first_use = nullptr;     ///< as in the views; null: all are connected
    [[nodiscard]] char* slab() const { return static_cast<char*>(memory.base); }
    /// Those to the nth peer.
    [[nodiscard]] std::span<Queue> to(std::size_t peer) {
      return std::span(queues).subspan(peer * rails.size(), rails.size());
    }
  };
  [[nodiscard]] abi::QueueMemory choose_memory();
  [[nodiscard]] Region allocate(abi::QueueMemory memory, std::uint64_t bytes);
  [[nodiscard]] Batch lay_out(std::vector<QueueRails> contexts) const;
  /// The other end of a queue to PE `pe` only answers: where the connection goes one way, and where
  /// it leads back to this PE. (One that asks itself loses its error, because it answers no more.)
  [[nodiscard]] bool is_answered_apart(int pe, int rail) const {
    return pe == my_pe_ || rails_.is_one_way(pe, rail);
  }
  // The queues to one peer, of a batch: made, described, connected to what the peer says of its
  // own.
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
  [[nodiscard]] abi::QueueView view_of(const Batch& batch, std::size_t i) const;
  [[nodiscard]] abi::QueueCursor* make_cursors(std::size_t count);
  /// Views of the queues of a context, those of the batch to each peer that begin with the nth.
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
  std::uint32_t depth_;
  abi::QueueMemory memory_;
  MemoryKeys keys_;
  std::map<const Nic*, int> made_;                 ///< queues of all batches
  std::map<const Nic*, const void*> memory_used_;  ///< the slab that each was told last
  bool on_first_use_;
  std::mutex mutex_;                ///< of all below, and of what is asked of the Nics
  int contexts_ = 0;                ///< so many were numbered; 0 is the default one
  std::map<int, Batch> batches_;    ///< by their first context
  int first_new_ = 0;               ///< the context with which those begin that are being made
  std::vector<QueueInfos> theirs_;  ///< of the newest batch: what its peers have said, in order
  std::map<std::uintptr_t, char*> mapped_;  ///< pages of registers: host address to device address
  bool bells_need_order_ = false;
  std::unique_ptr<Agent> agent_;
  abi::QueueCursor* cursors_ = nullptr;  ///< of the default context
  abi::NicView view_;
};

}  // namespace gshmem::nic
