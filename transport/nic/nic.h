// The consumer of a PE's work queues, as the runtime sees it: a NIC, the soft NIC (both by
// transport/nic/mlx5) or the libfabric executor (transport/ofi). QueueSet (queue_set.h) allocates
// the memory of queues; a Nic only receives its address. Contract of every implementation: entries
// of one queue take effect in order as on a reliable connection (InfiniBand, section 9.4 and 9.5:
// an atomic or a read is never executed before earlier writes). A completion means that the data
// has reached its target. An error is a completion with its syndrome; entries queued after it are
// flushed, never executed. The libfabric executor alone may have executed later WRITEs and READs
// that were pending at the same time. It never executes a later atomic, since an atomic waits for
// all entries before it.
#pragma once

#include <gshmem/abi/mlx5.h>
#include <gshmem/abi/queue.h>

#include "host/base/config.h"
#include "host/base/error.h"

#include <array>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace gshmem {
class Collectives;
class GpuMapping;
}  // namespace gshmem

namespace gshmem::nic {

enum class MemoryKind { kHost, kGpu };

/// The size of a header of libfabric's active messages, which two builds have to agree on.
inline constexpr std::size_t kOfiHeaderBytes = 112;

/// Memory of this process. Its keys address it from `offset` on, not from `base`.
struct Region {
  void* base = nullptr;
  std::uint64_t bytes = 0;
  MemoryKind kind = MemoryKind::kHost;
  int gpu = -1;  ///< CUDA device for kGpu
  /// The CPU's mapping of all of it, if there is one; it outlives the Nic.
  const GpuMapping* mapping = nullptr;
  /// Offset from the heap's first byte, modulo 2^64; a multiple of the page size, except for local
  /// memory.
  std::uint64_t offset = 0;
  bool local = false;  ///< no other PE accesses it
};

/// Where the parts of one queue are, as offsets into the region last passed to `use_queue_memory`.
struct QueuePlace {
  std::uint64_t entries = 0;     ///< depth * 64 bytes, page-aligned
  std::uint64_t completion = 0;  ///< one CQE of 64 bytes, page-aligned
  std::uint64_t record = 0;      ///< doorbell record of the queue pair (8 bytes), 8-aligned
  std::uint64_t cq_record = 0;   ///< doorbell record of the CQ (8 bytes), 8-aligned
  std::uint32_t depth = 0;
  std::uint64_t* doorbell = nullptr;  ///< a result of next_doorbell; null: create_queue chooses
};

/// Returns the completion entry of a new queue, which has no completion yet. Device drivers
/// initialize theirs in this way, too (rdma-core providers/mlx5/verbs.c, mlx5_alloc_cq_buf).
[[nodiscard]] inline abi::CompletionEntry no_completion() {
  abi::CompletionEntry none{};
  none.op_own = static_cast<std::uint8_t>(abi::CompletionOpcode::kInvalid) << 4 | 1;
  return none;
}

struct CreatedQueue {
  std::uint32_t number = 0;           ///< queue pair number, 24 bits
  std::uint64_t* doorbell = nullptr;  ///< host address; may serve several queues
};

/// `remote` is for payload, whose writes PCIe may reorder if that was requested. `atomic` is for
/// atomics and signals, which are ordered after all earlier writes. The two may be equal.
struct Keys {
  std::uint32_t local = 0, remote = 0, atomic = 0;
};

/// A message from one side of a connection to the other, opaque to the runtime. It is plain bytes,
/// because collectives of host threads exchange it.
using ConnectInfo = std::array<std::uint8_t, 64>;

class Nic {
 public:
  virtual ~Nic() = default;
  Nic() = default;
  Nic(const Nic&) = delete;

  [[nodiscard]] virtual const char* name() const noexcept = 0;
  /// Returns one line for people: device, port, link layer, provider.
  [[nodiscard]] virtual std::string describe() const = 0;
  /// NicFlags, and the largest message of a WQE in bytes. All implementations accept WQEs of 256
  /// bytes.
  struct Limits {
    std::uint32_t flags = 0, max_message = 0;
    /// Doorbells are device registers; the device sees every store to them.
    bool registers = false;
    /// NIC atomics and atomics of CPU or GPU on the same word are atomic to each other.
    bool coherent_atomics = false;
    /// Queues can be created, one by one, while kernels run; then next_doorbell is implemented.
    bool first_use = false;
    /// Dynamic connections are possible: make_target and vector_to are implemented.
    bool dynamic = false;
  };
  /// Returns the limits of queues, which may depend on the memory last passed to use_queue_memory.
  [[nodiscard]] virtual Limits limits() const = 0;
  /// Describes the two ends of the connection of queue `number` to PE `pe`, for messages; empty:
  /// unknown. Threads: any.
  [[nodiscard]] virtual std::string describe_ends([[maybe_unused]] std::uint32_t number,
                                                  [[maybe_unused]] int pe) const {
    return {};
  }
  /// Returns the state of that queue as the device reports it, for messages about a queue that does
  /// not complete; empty: unknown. It may take as long as a command of the device. Threads: any.
  [[nodiscard]] virtual std::string queue_status([[maybe_unused]] std::uint32_t number,
                                                 [[maybe_unused]] int pe) const {
    return {};
  }
  /// Returns events of the port since it was opened that may have caused a failure; empty when
  /// there were none. Threads: any.
  [[nodiscard]] virtual std::string history() const { return {}; }
  /// Returns the port that it drives, by a name that all processes of this host use for it. Empty:
  /// PEs of this host are reached in the same way as all others.
  [[nodiscard]] virtual std::string port() const { return {}; }
  /// Opens one more Nic of this kind, on a port of this host by that name. Errors: see open.
  [[nodiscard]] virtual std::unique_ptr<Nic> open_port(const std::string& port) {
    throw Error(GSHMEMX_ERROR_NOT_SUPPORTED, std::string(name()) + " opens no port " + port);
  }

  // Every PE makes the following calls in this order. For queues that are created later, while
  // others are in use, the sequence is repeated without register_memory. Errors of all: Error with
  // what to do about it.
  /// The first call registers the heap, or the first part of it if this Nic needs no more. Later
  /// calls, at any time and also while queues are in use, register memory outside the heap.
  [[nodiscard]] virtual Keys register_memory(const Region& region) = 0;
  /// Unregisters memory outside the heap: using its keys is an error from now on.
  virtual void unregister_memory(const Region& region) noexcept = 0;
  /// Returns facts about that memory, in addition to its keys, that other PEs need. All PEs return
  /// the same number of bytes; empty: no facts.
  [[nodiscard]] virtual std::vector<std::uint8_t> memory_info(const Region&) { return {}; }
  /// Receives the facts of all PEs, in PE order.
  virtual void set_memory_infos(const Region&, const std::vector<std::uint8_t>& /*all*/) {}
  /// Sets the region of the queues that are created from now on, with their completions and
  /// doorbell records. It is a new region or an earlier one.
  virtual void use_queue_memory(const Region& region) = 0;
  /// Creates a queue. Its completion entry must be no_completion() and its records 0. The call does
  /// not access GPU memory: kernels may be waiting for this queue.
  [[nodiscard]] virtual CreatedQueue create_queue(const QueuePlace& place) = 0;
  /// Returns the doorbell for a queue that will be created later.
  [[nodiscard]] virtual std::uint64_t* next_doorbell() { return nullptr; }
  /// Returns the memory of all doorbells that are in ordinary host memory, in whole pages; the
  /// runtime has to map it for the GPU. Empty if doorbells are registers of a device.
  [[nodiscard]] virtual Region doorbell_block() const { return {}; }
  /// Returns the local side of the connection that `queue` (numbered in order of creation) will
  /// have.
  [[nodiscard]] virtual ConnectInfo connect_info(int queue) = 0;
  /// `remote_key` is the result of the peer's register_memory.
  virtual void connect(int queue, int pe, const ConnectInfo& peer, std::uint32_t remote_key) = 0;
  // Dynamic connections. A PE makes its target before its queues, which are initiators then: they
  // are ready when they are created, and reach every PE by an address vector in each entry.
  /// Makes the target of this PE, which accepts every initiator that knows the key of the job. The
  /// result is for vector_to of the other PEs.
  [[nodiscard]] virtual ConnectInfo make_target([[maybe_unused]] std::uint64_t key) {
    throw Error(GSHMEMX_ERROR_NOT_SUPPORTED, std::string(name()) + " has no dynamic connections");
  }
  /// Returns the vector to the target of PE `pe`.
  [[nodiscard]] virtual abi::AddressVector vector_to([[maybe_unused]] int pe,
                                                     const ConnectInfo& /*target*/) {
    throw Error(GSHMEMX_ERROR_NOT_SUPPORTED, std::string(name()) + " has no dynamic connections");
  }
  /// Starts the queues of all PEs that were created since the last start. They are connected:
  /// entries may be posted.
  virtual void start() = 0;
  /// Called when every PE has returned from its first start. All objects that peers connect by
  /// themselves exist.
  virtual void all_started() {}
  /// After it returns, no entry is executed and no memory is accessed. Never throws.
  virtual void stop() noexcept = 0;
};

struct OpenOptions {
  const Config& config;
  Collectives& boot;  ///< for agreement between the PEs; used for collective calls only
  MemoryKind heap_kind = MemoryKind::kHost;
  int gpu = -1;
  /// Kernels of that GPU see a device's writes to its memory in the order in which they were made.
  bool gpu_orders_writes = false;
  /// The memory that register_memory will receive first. It is used to test whether a NIC can
  /// access it before one is chosen.
  Region heap = {};
  /// For example "0000:1b:00.0", for the choice of the nearest NIC; empty = none.
  std::string gpu_pci = {};
  int local_rank = 0;  ///< spreads PEs over equal NICs
  int host = 0;        ///< number of this PE's host
  /// This PE has the lowest number of the PEs on its host.
  bool node_root = false;
  /// IP addresses of this host ("10.0.0.1"); the preferred ones for other hosts come first.
  std::vector<std::string> addresses = {};
  /// Collective over the PEs of this host: the root passes a descriptor (the others -1), and every
  /// PE gets one of its own for the same file. Empty: all PEs are in this process.
  std::function<int(int fd_on_root)> share_fd = {};
  /// Reports an error that no completion reports: a device that is gone, a lost peer (pe >= 0, or
  /// -1 if unknown). May be called from any thread until stop() has returned.
  std::function<void(const Error& error, int pe)> on_error = {};
  /// This PE's NIC refused a request of PE `pe`, and broke the connection. `pe` receives an error
  /// completion of its own. Empty: on_error is called.
  std::function<void(const Error& error, int pe)> on_refusal = {};
};

/// One Nic for each port that a PE uses, the nearest first; all PEs have the same number.
using NicList = std::vector<std::unique_ptr<Nic>>;

/// Collective over options.boot; one per implementation.
[[nodiscard]] NicList open_mlx5(const OpenOptions& options);
/// Collective over options.boot: open_mlx5 on the soft NIC's libraries; all PEs on one host.
[[nodiscard]] NicList open_soft(const OpenOptions& options);
/// Time that has passed by the soft NIC's model of costs (GSHNIC_COSTS).
struct ModelTime {
  double seconds = 0, cpu_seconds = 0;
};
/// Loads the soft NIC. Nothing: it has no model.
[[nodiscard]] std::optional<ModelTime> soft_model_time();
[[nodiscard]] std::unique_ptr<Nic> open_ofi(const OpenOptions& options);
/// Implements GSHMEM_NIC. auto: mlx5 if every PE has a NIC with all features that gshmem needs and
/// that can access its heap, otherwise ofi. Empty for GSHMEM_NIC=none.
[[nodiscard]] NicList open(const OpenOptions& options);

}  // namespace gshmem::nic
