// The work queues of one PE: their memory, their connections to the other PEs, and the views that
// device code gets. First those of the default context; more can be added, for other contexts.
// Works the same for every Nic; what differs between CPU mode and GPUs comes in as MemorySource.
// Invariant: views, cursors and entries stay where they are until destruction, which comes after
// stop().
#pragma once

#include "transport/nic/agent.h"
#include "transport/nic/nic.h"

#include <cstdint>
#include <map>
#include <memory>
#include <vector>

namespace gshmem::nic {

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
  std::function<void*(void* page, std::size_t bytes)> map_registers;
};

struct QueueSetOptions {
  const Config& config;
  bootstrap::Bootstrap& boot;
  MemorySource memory;
  Region heap;
  std::vector<int> peers;  ///< PEs that get queues, ascending; the same relation on both sides
};

/// Queues of a context, one to each peer: shared by any number of threads, and as one thread at a
/// time may use them (both at the same time never).
struct ContextQueues {
  abi::NicView shared, exclusive;
};

class QueueSet {
 public:
  /// Collective. `options.config` lives longer. Errors: what Nic throws;
  /// GSHMEMX_ERROR_NOT_SUPPORTED for a doorbell that device code cannot reach with
  /// GSHMEM_DOORBELL=gpu.
  QueueSet(Nic& nic, const QueueSetOptions& options);
  ~QueueSet() { stop(); }
  QueueSet(const QueueSet&) = delete;

  /// The default context's.
  [[nodiscard]] const abi::NicView& view() const noexcept { return view_; }

  // More queues, for `contexts` contexts, in three steps that every PE takes; each throws what the
  // constructor does, on this PE alone. What a failure leaves behind is not used.
  void create_more(std::uint32_t contexts);
  /// Collective over `boot`.
  void exchange(bootstrap::Bootstrap& boot);
  /// Afterwards every PE waits for all others before it posts to them.
  [[nodiscard]] std::vector<ContextQueues> connect();

  /// Who rings: "GPU" (or "thread" in CPU mode), "agent".
  [[nodiscard]] bool rung_by_agent() const noexcept { return agent_ != nullptr; }
  /// No doorbell will be forwarded after it returns.
  void stop() noexcept { agent_.reset(); }

 private:
  /// Queues that were made together, in one piece of memory: `per_pe` to each peer.
  struct Batch {
    std::uint32_t per_pe = 0;
    int first = 0;  ///< what the Nic calls the first one
    char* slab = nullptr;
    std::vector<QueuePlace> places;  ///< by order of creation: peers x per_pe
    std::vector<CreatedQueue> created;
    std::vector<std::uint64_t*> doorbells;  ///< as device code reaches them
    std::vector<ConnectInfo> theirs;        ///< of the other ends
  };
  [[nodiscard]] Region allocate(Batch& batch, std::uint64_t bytes);
  void begin(std::uint32_t per_pe);
  void create();
  void make_doorbells();
  void map_doorbells();
  void connect_batch();
  [[nodiscard]] abi::QueueView view_of(std::size_t i) const;
  [[nodiscard]] abi::QueueCursor* make_cursors(std::size_t count);
  [[nodiscard]] abi::NicView publish(const std::vector<abi::QueueView>& views,
                                     abi::QueueCursor* cursors);
  [[nodiscard]] ContextQueues publish_context(std::uint32_t nth);
  [[nodiscard]] std::uint64_t* reachable(std::uint64_t* doorbell);

  Nic& nic_;
  const Config& config_;
  MemorySource source_;
  Region heap_;
  std::vector<int> peers_;
  std::size_t n_pes_;
  std::uint32_t depth_;
  abi::QueueMemory memory_;
  Keys keys_;
  int queues_ = 0;                          ///< of all batches
  Batch batch_;                             ///< the one being made, or the last one
  std::map<std::uintptr_t, char*> mapped_;  ///< pages of registers: host address to device address
  std::vector<std::uint32_t> remote_keys_;  ///< by PE
  std::unique_ptr<Agent> agent_;
  abi::NicView view_;
};

}  // namespace gshmem::nic
