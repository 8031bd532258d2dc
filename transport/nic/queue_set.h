// The work queues of one PE: their memory, their connections to the other PEs, and the views that
// device code gets. Works the same for every Nic; what differs between CPU mode and GPUs comes in
// as MemorySource. Invariant: views, cursors and entries stay where they are until destruction,
// which comes after stop().
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

class QueueSet {
 public:
  /// Collective. Errors: what Nic throws; GSHMEMX_ERROR_NOT_SUPPORTED for a doorbell that device
  /// code cannot reach with GSHMEM_DOORBELL=gpu.
  QueueSet(Nic& nic, const QueueSetOptions& options);
  ~QueueSet() { stop(); }
  QueueSet(const QueueSet&) = delete;

  [[nodiscard]] const abi::NicView& view() const noexcept { return view_; }
  /// Who rings: "GPU" (or "thread" in CPU mode), "agent".
  [[nodiscard]] bool rung_by_agent() const noexcept { return agent_ != nullptr; }
  /// No doorbell will be forwarded after it returns.
  void stop() noexcept { agent_.reset(); }

 private:
  [[nodiscard]] Region allocate(const QueueSetOptions& options, std::uint64_t bytes);
  void create(const QueueSetOptions& options);
  void connect(const QueueSetOptions& options);
  void make_doorbells(const QueueSetOptions& options);
  void publish(const QueueSetOptions& options);
  [[nodiscard]] std::uint64_t* reachable(const MemorySource& memory, std::uint64_t* doorbell);

  Nic& nic_;
  std::uint32_t per_pe_, depth_;
  abi::QueueMemory memory_;
  Keys keys_;
  char* slab_ = nullptr;
  std::vector<QueuePlace> places_;  ///< by order of creation: peers x per_pe
  std::vector<CreatedQueue> created_;
  std::vector<std::uint64_t*> doorbells_;   ///< as device code reaches them
  std::map<std::uintptr_t, char*> mapped_;  ///< pages of registers: host address to device address
  std::vector<std::uint32_t> remote_keys_;  ///< by PE
  std::unique_ptr<Agent> agent_;
  abi::NicView view_;
};

}  // namespace gshmem::nic
