// GSHMEM_NIC=ofi: work queues that a thread executes over libfabric, for networks without an mlx5
// NIC. Data is transferred from heap to heap by the provider's RMA. If the provider cannot access
// the heap (GPU memory without FI_HMEM), or with GSHMEM_GDR=off, it is staged: active messages
// carry it through host memory. Host heaps obey GSHMEM_GDR, too, so that this can be tested without
// a GPU.
#pragma once

#include "transport/nic/nic.h"
#include "transport/ofi/close_on_exec.h"
#include "transport/ofi/executor.h"

#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace gshmem::ofi {

/// The path that open_ofi chooses collectively.
enum class Path { kRma, kStaged };

/// Returns how many operations a PE has at a time in a job of `pes` PEs.
[[nodiscard]] std::size_t operations_for(int pes);
/// Returns how many immediates a PE accepts from each other PE before it has counted them.
[[nodiscard]] std::size_t immediates_for(int pes);

/// The data that peers need to reach a PE; open_ofi exchanges it.
struct Reach {
  std::uint64_t heap_bytes = 0, heap_base = 0, probe_base = 0;
  std::array<std::uint64_t, kMaxRails> heap_keys{}, probe_keys{};
};

class OfiNic final : public nic::Nic {
 public:
  struct Setup {
    std::unique_ptr<OfiRails> rails;
    Path path = Path::kRma;
    nic::Region heap;
    RailMemory heap_memory;  ///< kRma: the registered heap
    bool gpu_orders_writes = false;
    int pe = 0, size = 1;
    std::uint64_t job = 0;  ///< MessageHeader::job
    std::size_t max_queues = 0;
    double timeout_seconds = 0, connect_seconds = 0;  ///< limits; 0 = none
    Polling polling = Polling::kSleep;
    std::string near_pci{};
    std::function<void(const Error& error, int pe)> on_error;
  };
  explicit OfiNic(Setup setup);
  ~OfiNic() override;

  [[nodiscard]] Reach reach() const;
  /// `all` has the data of every PE, including this one; `addresses` are in the order of
  /// Fabric::insert, by rail.
  void connect_peers(const std::vector<Reach>& all);

  [[nodiscard]] const char* name() const noexcept override { return "ofi"; }
  [[nodiscard]] std::string describe() const override;
  [[nodiscard]] Limits limits() const override;
  [[nodiscard]] nic::Region doorbell_block() const override;
  void use_queue_memory(const nic::Region& region) override;
  [[nodiscard]] nic::Keys register_memory(const nic::Region& region) override;
  void unregister_memory(const nic::Region& region) noexcept override;
  [[nodiscard]] std::vector<std::uint8_t> memory_info(const nic::Region& region) override;
  void set_memory_infos(const nic::Region& region, const std::vector<std::uint8_t>& all) override;
  [[nodiscard]] nic::CreatedQueue create_queue(const nic::QueuePlace& place) override;
  [[nodiscard]] nic::ConnectInfo connect_info(int queue) override;
  void connect(int queue, int pe, const nic::ConnectInfo& peer, std::uint32_t remote_key) override;
  void start() override;
  void all_started() override { connections_.reset(); }
  void stop() noexcept override;

  /// For a caller that takes the role of the thread, instead of start().
  [[nodiscard]] Executor& executor() { return *executor_; }

 private:
  void make_engines();
  [[nodiscard]] nic::Keys register_beside(const nic::Region& region);
  [[nodiscard]] bool atomics_by_messages() const { return messages_ != nullptr; }

  Setup setup_;
  /// From connect_peers() until all PEs have started: peers may connect to this PE after its own
  /// start.
  std::optional<ClosedOnExec> connections_;
  nic::Region queue_memory_;
  std::shared_ptr<std::uint64_t> doorbells_;
  std::size_t doorbell_bytes_ = 0;
  nic::Keys keys_;
  std::uint32_t registered_ = 0;  ///< number of registrations outside the heap, ever made
  Memories memories_;
  std::vector<Peer> peers_;
  // The members are in the order of creation; the rails are closed before any of these is
  // destroyed.
  std::unique_ptr<MemoryAccess> access_;
  Staging pool_memory_;
  RailMemory pool_;
  std::unique_ptr<OperationPool> operations_;
  std::unique_ptr<RmaEngine> rma_;
  std::unique_ptr<ActiveMessages> messages_;
  AtomicSupport atomics_;
  std::unique_ptr<Executor> executor_;
};

}  // namespace gshmem::ofi
