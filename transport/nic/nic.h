// The consumer of a PE's work queues, as the runtime sees it: a NIC, the soft NIC (both by
// transport/nic/mlx5) or the libfabric executor (transport/ofi). The memory of queues is made by
// QueueSet (queue_set.h); a Nic only learns where it is. Contract of every implementation: entries
// of one queue take effect in order as on a reliable connection (InfiniBand, section 9.4 and 9.5:
// an atomic or a read is never executed before earlier writes). A completion says that the data is
// at its target. An error is a completion with its syndrome; entries queued after it are flushed,
// never executed. The libfabric executor alone may have executed WRITEs and READs after it, those
// that were under way at the same time. It executes no atomic, which waits for all before it.
#pragma once

#include <gshmem/abi/mlx5.h>
#include <gshmem/abi/queue.h>

#include "host/base/config.h"
#include "host/base/error.h"

#include <array>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace gshmem {
class Collectives;
class GpuMapping;
}  // namespace gshmem

namespace gshmem::nic {

enum class MemoryKind { kHost, kGpu };

/// Memory of this process. Keys of it address it from `offset` on, not from `base`.
/// Of a header of libfabric's active messages, which two builds have to agree on.
inline constexpr std::size_t kOfiHeaderBytes = 112;

struct Region {
  void* base = nullptr;
  std::uint64_t bytes = 0;
  MemoryKind kind = MemoryKind::kHost;
  int gpu = -1;  ///< CUDA device of kGpu
  /// By which the CPU reaches all of it, where there is one; lives longer than the Nic.
  const GpuMapping* mapping = nullptr;
  std::uint64_t offset = 0;  ///< from the heap's first byte; in whole pages
};

/// The place of one queue, as offsets into the region last given to `use_queue_memory`.
struct QueuePlace {
  std::uint64_t entries = 0;     ///< depth * 64 bytes, page-aligned
  std::uint64_t completion = 0;  ///< one CQE of 64 bytes, page-aligned
  std::uint64_t record = 0;      ///< doorbell record of the queue pair (8 bytes), 8-aligned
  std::uint64_t cq_record = 0;   ///< doorbell record of the CQ (8 bytes), 8-aligned
  std::uint32_t depth = 0;
  std::uint64_t* doorbell = nullptr;  ///< of next_doorbell; null: create_queue chooses
};

/// The completion of a new queue: none yet. Device drivers begin with it, too (rdma-core
/// providers/mlx5/verbs.c, mlx5_alloc_cq_buf).
[[nodiscard]] inline abi::CompletionEntry no_completion() {
  abi::CompletionEntry none{};
  none.op_own = static_cast<std::uint8_t>(abi::CompletionOpcode::kInvalid) << 4 | 1;
  return none;
}

struct CreatedQueue {
  std::uint32_t number = 0;           ///< queue pair number, 24 bits
  std::uint64_t* doorbell = nullptr;  ///< host address; may serve several queues
};

/// `remote` is for payload, whose writes PCIe may reorder where that was asked for; `atomic` for
/// atomics and signals, which come after all writes before them. May be the same.
struct Keys {
  std::uint32_t local = 0, remote = 0, atomic = 0;
};

/// A message from one side of a connection to the other, opaque to the runtime. Plain bytes,
/// because it goes by collectives of host threads.
using ConnectInfo = std::array<std::uint8_t, 64>;

class Nic {
 public:
  virtual ~Nic() = default;
  Nic() = default;
  Nic(const Nic&) = delete;

  [[nodiscard]] virtual const char* name() const noexcept = 0;
  /// One line for people: device, port, link layer, provider.
  [[nodiscard]] virtual std::string describe() const = 0;
  /// NicFlags, and the largest message of a WQE in bytes. Entries of 256 bytes are taken by all.
  struct Limits {
    std::uint32_t flags = 0, max_message = 0;
    bool registers = false;  ///< doorbells are registers of a device, which takes every store
    /// NIC atomics and atomics of CPU or GPU on the same word are atomic to each other.
    bool coherent_atomics = false;
    /// Queues can be made, one by one, while kernels run: it has next_doorbell.
    bool first_use = false;
  };
  /// Limits of queues in the memory that it was last told to use, where that matters.
  [[nodiscard]] virtual Limits limits() const = 0;
  /// The two ends of the connection of queue `number` to PE `pe`, for messages; empty: unknown.
  /// Threads: any.
  [[nodiscard]] virtual std::string describe_ends([[maybe_unused]] std::uint32_t number,
                                                  [[maybe_unused]] int pe) const {
    return {};
  }
  /// State of that queue as the device reports it, for messages about one that stays silent; empty:
  /// nothing. It may take as long as a command of the device. Threads: any.
  [[nodiscard]] virtual std::string queue_status([[maybe_unused]] std::uint32_t number,
                                                 [[maybe_unused]] int pe) const {
    return {};
  }
  /// Events of the port since it was opened that may be the cause of a failure; empty
  /// when there was nothing. Threads: any.
  [[nodiscard]] virtual std::string history() const { return {}; }
  /// The port that it drives, by a name that all processes of this host have for it. Empty: PEs of
  /// this host are reached as all others.
  [[nodiscard]] virtual std::string port() const { return {}; }
  /// One more Nic of this kind, on a port of this host by that name. Errors: as of open.
  [[nodiscard]] virtual std::unique_ptr<Nic> open_port(const std::string& port) {
    throw Error(GSHMEMX_ERROR_NOT_SUPPORTED, std::string(name()) + " opens no port " + port);
  }

  // In this order, on every PE; without register_memory again for queues that come later, while
  // others are in use. Errors of all: Error with what to do about it.
  /// First the heap, or the beginning of it that this Nic needs; at any time, also while queues are
  /// in use, memory beside it.
  [[nodiscard]] virtual Keys register_memory(const Region& region) = 0;
  /// Unregisters memory beside the heap: its keys are an error from now on.
  virtual void unregister_memory(const Region& region) noexcept = 0;
  /// Facts that other PEs need about that memory beside its keys, as many bytes on every PE; empty:
  /// nothing.
  [[nodiscard]] virtual std::vector<std::uint8_t> memory_info(const Region&) { return {}; }
  /// The facts of all PEs, in PE order.
  virtual void meet_memory(const Region&, const std::vector<std::uint8_t>& /*all*/) {}
  /// The region that holds the queues created from now on, their completions and doorbell records:
  /// a new one, or one of those before.
  virtual void use_queue_memory(const Region& region) = 0;
  /// The completion is no_completion() and the records are 0. Does not touch GPU memory: kernels
  /// may wait for this queue.
  [[nodiscard]] virtual CreatedQueue create_queue(const QueuePlace& place) = 0;
  /// The doorbell of a queue that is created later.
  [[nodiscard]] virtual std::uint64_t* next_doorbell() { return nullptr; }
  /// All doorbells that are ordinary host memory, in whole pages: the runtime
  /// has to map it for the GPU. Empty where doorbells are registers of a device.
  [[nodiscard]] virtual Region doorbell_block() const { return {}; }
  /// Local side of the connection that `queue` (in order of creation) will have.
  [[nodiscard]] virtual ConnectInfo connect_info(int queue) = 0;
  /// `remote_key` is what the peer's register_memory returned.
  virtual void connect(int queue, int pe, const ConnectInfo& peer, std::uint32_t remote_key) = 0;
  /// All queues of all PEs that were created since the last start are connected: entries may come.
  virtual void start() = 0;
  /// No entry will be executed and no memory touched after it returns. Never throws.
  virtual void stop() noexcept = 0;
};

struct OpenOptions {
  const Config& config;
  Collectives& boot;  ///< for what an implementation must agree on; collective calls only
  MemoryKind heap_kind = MemoryKind::kHost;
  int gpu = -1;
  /// Kernels of that GPU see what a device has written to its memory in the order in which it came.
  bool gpu_orders_writes = false;
  /// Whether a NIC reaches it is tried before one is chosen. What register_memory gets later.
  Region heap = {};
  std::string gpu_pci = {};  ///< "0000:1b:00.0", for the choice of the nearest NIC; empty = none
  int local_rank = 0;        ///< spreads PEs over equal NICs
  int host = 0;              ///< number of this PE's
  /// This PE has the lowest number of those on its host.
  bool node_root = false;
  /// IP addresses of this host ("10.0.0.1"), those first by which other hosts should reach it.
  std::vector<std::string> addresses = {};
  /// Collective over the PEs of this host: the root gives a descriptor (the others -1), everyone
  /// gets one of their own that refers to the same file. Empty: all PEs are in this process.
  std::function<int(int fd_on_root)> share_fd = {};
  /// An error that no completion carries: a device that is gone, a lost peer (pe >= 0) or one
  /// unknown (-1). May be called from any thread until stop() has returned.
  std::function<void(const Error& error, int pe)> on_error = {};
  /// This PE's NIC refused what PE `pe` asked for, and broke off the connection: `pe` learns it by
  /// an error completion of its own. Empty: as on_error.
  std::function<void(const Error& error, int pe)> on_refusal = {};
};

/// A Nic each for the ports that a PE uses, the nearest first; as many on every PE.
using NicList = std::vector<std::unique_ptr<Nic>>;

/// Collective over options.boot, one per implementation.
[[nodiscard]] NicList open_mlx5(const OpenOptions& options);
/// Collective over options.boot: open_mlx5 on the soft NIC's libraries; all PEs on one host.
[[nodiscard]] NicList open_soft(const OpenOptions& options);
[[nodiscard]] std::unique_ptr<Nic> open_ofi(const OpenOptions& options);
/// GSHMEM_NIC. auto: mlx5 where every PE has one that can all that gshmem needs and reaches its
/// heap, else ofi. Empty for GSHMEM_NIC=none.
[[nodiscard]] NicList open(const OpenOptions& options);

}  // namespace gshmem::nic
