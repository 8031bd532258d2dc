// GSHMEM_NIC=ofi: work queues that a thread executes over libfabric, for networks without an mlx5
// NIC. Data goes heap to heap by the provider's RMA. Where the provider cannot reach the heap (GPU
// memory without FI_HMEM), or with GSHMEM_GDR=off, it is staged: active messages carry it through
// host memory. Host heaps obey GSHMEM_GDR, too, so that this can be tested without a GPU.
#pragma once

#include "transport/nic/nic.h"
#include "transport/ofi/executor.h"
#include "transport/ofi/rma.h"

#include <memory>
#include <string>
#include <vector>

namespace gshmem::ofi {

/// Collective choice of the path, made by open_ofi.
enum class Path { kRma, kStaged };

class OfiNic final : public nic::Nic {
 public:
  struct Setup {
    std::unique_ptr<Fabric> fabric;
    Path path = Path::kRma;
    int pe = 0, size = 1;
    std::size_t max_queues = 0;
    double timeout_seconds = 0;
    std::function<void(const Error& error, int pe)> on_error;
  };
  explicit OfiNic(Setup setup);
  ~OfiNic() override;

  [[nodiscard]] const char* name() const noexcept override { return "ofi"; }
  [[nodiscard]] std::string describe() const override;
  [[nodiscard]] Limits limits() const override;
  [[nodiscard]] nic::Region doorbell_block() const override;
  void use_queue_memory(const nic::Region& region) override;
  [[nodiscard]] nic::Keys register_memory(const nic::Region& region) override;
  [[nodiscard]] nic::CreatedQueue create_queue(const nic::QueuePlace& place) override;
  [[nodiscard]] nic::ConnectInfo connect_info(int queue) override;
  void connect(int queue, int pe, const nic::ConnectInfo& peer, std::uint32_t remote_key) override;
  void start() override;
  void stop() noexcept override;

 private:
  void make_engines();

  Setup setup_;
  nic::Region queue_memory_, heap_region_;
  std::shared_ptr<std::uint64_t> doorbells_;
  std::size_t doorbell_bytes_ = 0;
  nic::Keys keys_;
  std::vector<Peer> peers_;
  // In order of making; the fabric is closed before any of it goes.
  Registered heap_;
  std::unique_ptr<MemoryAccess> access_;
  std::unique_ptr<OperationPool> operations_;
  std::unique_ptr<RmaEngine> rma_;
  std::unique_ptr<ActiveMessages> messages_;
  AtomicSupport atomics_;
  std::unique_ptr<Executor> executor_;
};

}  // namespace gshmem::ofi
