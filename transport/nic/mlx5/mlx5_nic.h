// The mlx5 transport: a Nic on one port of a ConnectX, or of the soft NIC's library doubles, which
// it cannot distinguish. Invariant: members are declared in the order of creation, so that objects
// are released in reverse order from any partial state.
#pragma once

#include "transport/nic/mlx5/connection.h"
#include "transport/nic/mlx5/device.h"
#include "transport/nic/mlx5/events.h"
#include "transport/nic/mlx5/mlx5.h"
#include "transport/nic/mlx5/port_history.h"
#include "transport/nic/mlx5/record_mode.h"
#include "transport/nic/mlx5/registers.h"

#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

namespace gshmem::nic::mlx5 {

/// Implements usable() for a table of functions.
[[nodiscard]] Usable usable_ports(const VerbsApi& api, DeviceWish wish, const OpenOptions& options);

class Mlx5Nic final : public Nic {
 public:
  /// Uses these options: the memory, and the receiver of errors.
  Mlx5Nic(const VerbsApi& api, const DeviceWish& wish, const OpenOptions& options,
          std::shared_ptr<TriedDevices> tried = std::make_shared<TriedDevices>())
      : Mlx5Nic(api, wish,
                {.heap_kind = options.heap_kind,
                 .gpu_orders_writes = options.gpu_orders_writes,
                 .queues = queues_of(options),
                 .tried = std::move(tried),
                 .on_error = options.on_error,
                 .on_refusal = options.on_refusal ? options.on_refusal : options.on_error}) {}
  ~Mlx5Nic() override { stop(); }

  [[nodiscard]] const char* name() const noexcept override { return "mlx5"; }
  [[nodiscard]] std::string describe() const override;
  [[nodiscard]] Limits limits() const override;
  [[nodiscard]] std::string describe_ends(std::uint32_t number, int pe) const override;
  [[nodiscard]] std::string queue_status(std::uint32_t number, int pe) const override;
  [[nodiscard]] std::string history() const override;
  [[nodiscard]] std::string port() const override;
  [[nodiscard]] std::unique_ptr<Nic> open_port(const std::string& port) override;
  void use_queue_memory(const Region& region) override;
  [[nodiscard]] std::uint64_t* next_doorbell() override {
    return DoorbellRegisters::doorbell_of(device_, bells_.take());
  }
  [[nodiscard]] Keys register_memory(const Region& region) override;
  void unregister_memory(const Region& region) noexcept override { regions_.erase(region.offset); }
  [[nodiscard]] CreatedQueue create_queue(const QueuePlace& place) override;
  [[nodiscard]] ConnectInfo connect_info(int queue) override;
  void connect(int queue, int pe, const ConnectInfo& peer, std::uint32_t remote_key) override;
  [[nodiscard]] ConnectInfo make_target(std::uint64_t key) override;
  [[nodiscard]] abi::AddressVector vector_to(int pe, const ConnectInfo& target) override;
  void start() override;
  void stop() noexcept override;

 private:
  struct Use {
    MemoryKind heap_kind;
    bool gpu_orders_writes;
    std::uint64_t queues;  ///< that this PE may make with all Nics
    /// Nics share it: they are opened from each other and from one list, and may be on one device.
    std::shared_ptr<TriedDevices> tried;
    std::function<void(const Error&error, int pe)> on_error, on_refusal;
  };
  Mlx5Nic(const VerbsApi& api, const DeviceWish& wish, Use use);
  [[nodiscard]] static std::uint64_t queues_of(const OpenOptions& options);
  void report(const Event& event);
  void note(const Event& event);
  [[nodiscard]] bool is_down() const;
  [[nodiscard]] Connection& connection(int queue, const char* call);

  const Config config_;    // a copy: the options' config need not outlive open
  const DeviceWish wish_;  // refers to config_
  const Use use_;
  Device device_;
  struct QueueRegion {
    Region region;
    OwnedUmem umem;
  };
  std::map<void*, QueueRegion> queue_regions_;  ///< indexed by base address
  const QueueRegion* queue_region_ = nullptr;   ///< memory of the queues that are created next
  std::map<std::uint64_t, std::vector<OwnedMr>> regions_;  ///< indexed by offset
  bool data_direct_ = false;                               ///< the heap is accessed by Data Direct
  DoorbellRegisters bells_;
  std::optional<DynamicTarget> target_;  ///< with it, queues are initiators
  std::vector<std::unique_ptr<Connection>> connections_;
  PortHistory history_;
  /// The other end of a queue; PE -1 before connect.
  struct Peer {
    int pe = -1;
    std::uint32_t number = 0;  ///< number of this PE's queue
    ConnectWire remote{};
  };
  /// Guards the following and connections_, which other threads read.
  mutable std::mutex mutex_;
  std::vector<Peer> peers_;
  std::map<int, ConnectWire> targets_;  ///< of the PEs
  EventThread events_;
};

}  // namespace gshmem::nic::mlx5
