// One PE of this process: everything between init and finalize. It owns its bootstrap, memory,
// threads and GPU context; the device state it publishes points to objects that it owns. A process
// may hold several PEs, each on its own host thread. Invariant: construction either succeeds on
// every PE of the job or throws on every PE, with the rank and reason of the first that failed.
#pragma once

#include <gshmem/abi/state.h>
#include <gshmem/device/pe/call_hints.h>
#include <gshmem/gshmem.h>

#include "bootstrap/bootstrap.h"
#include "host/base/config.h"
#include "host/base/gpu_mapping.h"
#include "host/control/plane.h"
#include "host/runtime/gpu/gpu.h"
#include "host/runtime/context_table.h"
#include "host/runtime/faults.h"
#include "host/runtime/host_checks.h"
#include "host/runtime/local_ranges.h"
#include "host/runtime/team_rendezvous.h"
#include "host/runtime/network.h"
#include "host/runtime/paths.h"
#include "host/runtime/registered_memory.h"
#include "host/runtime/symmetric_heap.h"
#include "host/runtime/teams.h"
#include "host/runtime/waits.h"

#include <atomic>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace gshmem {

struct PeOptions {
  Config config;
  std::optional<Error> bad_config = {};  ///< error of a variable that has its default in `config`
  int cuda_device_id = -1;               ///< -1: the current device, or else by local rank
  bool warns_of_variables = false;       ///< logs config_warnings_from_env, once per job
  bool has_kernels = false;              ///< the program has units with kernels
  bool notes_calls = false;              ///< a unit was compiled with -DGSHMEM_CHECK_ORDER
  bool by_nvshmem = false;  ///< init was called by NVSHMEM's name, which requires a GPU
  /// Called at the end of init with a complete state, and again with one of magic 0 if init fails
  /// after that. No PE's init ends before it has returned.
  std::function<void(class Pe&)> publish_state = [](class Pe&) {};
};

class Pe {
 public:
  /// Collective over `boot`.
  Pe(std::unique_ptr<bootstrap::Bootstrap> boot, PeOptions options);
  /// Collective. It waits for the PEs that still run, not for PEs that have left or are stopped.
  ~Pe();
  Pe(const Pe&) = delete;
  /// Called in a forked child, whose copy of this PE is neither used nor destroyed. Points its
  /// state to private memory, so that stale references cannot reach other PEs. `other` is a PE that
  /// was abandoned before, or null; the list keeps them reachable for leak checkers. Takes no lock
  /// and allocates nothing.
  void abandon_in_child(Pe* other) noexcept;

  [[nodiscard]] const abi::DeviceState& state() const noexcept { return state_; }
  [[nodiscard]] device::HostOps* ops() const noexcept { return gpu_ ? gpu_->ops() : nullptr; }
  [[nodiscard]] const Config& config() const noexcept { return options_.config; }
  [[nodiscard]] Gpu* gpu() const noexcept { return gpu_.get(); }
  [[nodiscard]] const char* bootstrap_name() const noexcept { return boot_->name(); }

  /// Returns the paths by load/store to PEs and GPUs.
  [[nodiscard]] const Paths& paths() const noexcept { return *paths_; }
  /// Returns the path to the PEs that are not mapped.
  [[nodiscard]] const Network& network() const noexcept { return network_; }

  [[nodiscard]] SymmetricHeap& heap() noexcept { return *heap_; }
  /// Does [addr, addr + bytes) overlap the symmetric memory of PEs?
  [[nodiscard]] bool overlaps_symmetric(const void* addr, std::size_t bytes) const {
    return paths_->window().overlaps(addr, bytes);
  }
  // Memory of the program as symmetric memory: pe_registered.cpp. Collective. Errors are thrown on
  // all PEs if they occur on any: GSHMEMX_ERROR_SYMMETRY when they disagree,
  // GSHMEMX_ERROR_INVALID_VALUE, GSHMEMX_ERROR_NOT_SUPPORTED, GSHMEMX_ERROR_OUT_OF_MEMORY, those of
  // the window.
  struct SymmetricBuffer {
    void* buffer;
    std::size_t bytes;
    const void* preferred;  ///< null: anywhere
    int flags;
  };
  [[nodiscard]] void* register_symmetric(const char* call, const SymmetricBuffer& buffer);
  void unregister_symmetric(const char* call, void* symmetric, std::size_t bytes);
  [[nodiscard]] LocalRanges& local_ranges() noexcept { return local_ranges_; }
  [[nodiscard]] HostChecks& checks() noexcept { return checks_; }
  /// The call hints of the PE's host threads.
  [[nodiscard]] device::Region& region() noexcept { return region_; }

  // Contexts and queue handles: pe_contexts.cpp. Errors: GSHMEMX_ERROR_OUT_OF_MEMORY when there are
  // too many, GSHMEMX_ERROR_INVALID_VALUE for a handle that is not open.
  /// Local. The context has queues of its own if some are left, otherwise those of the PE.
  [[nodiscard]] std::int32_t create_context(const char* call, ContextUse use, gshmem_team_t team);
  /// Collective: every PE makes `count` handles with queues of their own, or none does. Errors:
  /// GSHMEMX_ERROR_SYMMETRY when the PEs disagree, and those of Nic.
  [[nodiscard]] std::vector<std::int32_t> create_queues(const char* call, int count);
  [[nodiscard]] bool has_context(std::int32_t handle) const { return contexts_->find(handle); }
  /// Returns GSHMEM_TEAM_INVALID for a handle that is not open.
  [[nodiscard]] gshmem_team_t context_team(std::int32_t handle) const {
    return contexts_->team_of(handle);
  }
  /// Local. Waits for everything that was posted by the context. Its queues are reused.
  void destroy_context(const char* call, const char* argument, std::int32_t handle);

  // Teams: pe_teams.cpp. Errors: those of Teams.
  /// A config and its mask as an argument of that name.
  struct TeamConfig {
    const char* argument;
    const gshmem_team_config_t* config;
    long mask;
    /// Returns what is wrong with a mask with unknown bits, or without a config; empty: nothing.
    [[nodiscard]] std::string complaint(const char* call) const;
  };
  [[nodiscard]] gshmem_team_t split_strided(const char* call, gshmem_team_t parent,
                                            Teams::Part part, const TeamConfig& config,
                                            const gshmem_team_t* new_team);
  struct AxisTeams {
    gshmem_team_t x, y;
  };
  [[nodiscard]] AxisTeams split_2d(const char* call, gshmem_team_t parent, int xrange,
                                   const TeamConfig& x, const TeamConfig& y, bool is_good);
  /// Returns an id for a team; this PE keeps the list of its members.
  [[nodiscard]] std::uint64_t make_team_id() { return rendezvous_.make_id(); }
  /// Joins as member `index` of the `npes` PEs that come with the config's id.
  [[nodiscard]] gshmem_team_t join_team(const char* call, const TeamConfig& config, int npes,
                                        int index, const gshmem_team_t* team);
  [[nodiscard]] Teams& teams() noexcept { return *teams_; }

  /// Synchronizes host threads of the team's members, independent of kernels. Returns a status,
  /// which is recorded.
  int host_sync(const char* call, gshmem_team_t team) noexcept;

  /// Collective: returns the first of the PEs' statuses that is an error, in PE order.
  [[nodiscard]] int agree_status(const char* call, int mine);

  [[nodiscard]] Faults& faults() noexcept { return faults_; }
  [[nodiscard]] Waits& waits() noexcept { return waits_; }
  /// Marks all noted calls as complete (abi::OrderShadow).
  void forget_calls() noexcept;
  /// Records a fault that a call of a host thread has found.
  void raise(const Error& error) noexcept;
  /// Called when the process ends: completes what host threads have posted, within a time limit.
  void flush() noexcept;
  /// Called when the process ends without finalize: notifies the other PEs, and waits for none of
  /// them. The PE is not changed.
  void depart() noexcept;

 private:
  void init();
  void tick() noexcept;
  void on_peer_news(const control::PeerNews& news) noexcept;
  void wait_long(double seconds, int pe);
  void connect_job();
  void warn_of_variables();
  [[nodiscard]] control::HostCollectives& ranks() const { return plane_->collectives(); }
  [[nodiscard]] const control::HostGroup& group() const { return plane_->group(); }
  void wait_for_reports() noexcept;
  void choose_gpu();
  void warn_kernels_lack_gpu(const std::string& why) const;
  [[nodiscard]] std::uint64_t agree_on_mode();
  void agree_on_config();
  [[nodiscard]] bool checks_order() const;
  void start_order_check();
  void note_order_check() const;
  void make_memory(std::uint64_t host_room);
  // Growth of the heap: pe_growth.cpp.
  [[nodiscard]] SymmetricHeap::Growth growth();
  [[nodiscard]] std::uint64_t add_to_heap(std::uint64_t bytes, std::uint64_t alignment);
  /// Collective over the host: maps what the PEs lend at `offset`, and makes it accessible to the
  /// NICs.
  void map_at(std::uint64_t offset, const p2p::LentMemory& lent, std::uint64_t bytes);
  void unmap_at(std::uint64_t offset) noexcept;
  void publish();
  void unpublish() noexcept;
  /// Waits until everything that was posted on the network path is complete, or the PE is stopped.
  /// Errors: that of an operation which is not complete.
  void quiet_network();
  /// Returns the whole message of a fault that device code has recorded.
  [[nodiscard]] std::string fault_text(const abi::FaultRecord& record) const;
  /// Returns memory for tables that kernels read: both functions are empty in CPU mode.
  [[nodiscard]] ContextTable::DeviceMemory table_memory();
  void make_teams();
  [[nodiscard]] std::vector<std::int32_t> domains();
  void make_contexts();
  void quiet_context(const abi::DeviceState& context);
  void complete(const abi::DeviceState& of);
  void complete_contexts();
  void add_queues(const char* call, std::size_t missing);
  void make_registered();
  void open_local_ranges();
  void require_registrable(const char* call, const SymmetricBuffer& buffer) const;
  [[nodiscard]] std::optional<std::uint64_t> agreed_wish(const void* preferred);
  /// Runs one step of a collective call on every PE; throws on all of them when it failed on any.
  void step_of(const char* call, const std::function<void()>& step);

  PeOptions options_;
  std::unique_ptr<bootstrap::Bootstrap> boot_;
  abi::DeviceState state_;
  /// Before members with threads that raise faults: the GPU, the NICs, the monitor.
  Faults faults_;
  TeamRendezvous rendezvous_;
  Waits waits_;
  bool in_finalize_ = false;
  std::atomic<bool> watching_{false};  ///< set when init has ended
  std::unique_ptr<Gpu> gpu_;           ///< null in CPU mode; outlives the memory below
  std::unique_ptr<abi::Control> host_control_;
  std::unique_ptr<Paths> paths_;
  std::uint64_t noted_bytes_ = 0;             ///< size of an abi::OrderShadow; 0: no PE notes calls
  std::unique_ptr<GpuMapping> heap_mapping_;  ///< null: the copy engine serves the host
  std::unique_ptr<SymmetricHeap> heap_;
  std::unique_ptr<RegisteredMemory> registered_;
  std::unique_ptr<char[]> host_local_;  ///< rows of local_ranges_, in CPU mode
  LocalRanges local_ranges_;
  device::Region region_;
  HostChecks checks_{*this};
  Network network_;
  std::unique_ptr<ContextTable> contexts_;
  std::unique_ptr<Teams> teams_;
  Pe* abandoned_ = nullptr;
  std::unique_ptr<control::Plane> plane_;  ///< its thread uses most of the above
};

}  // namespace gshmem
