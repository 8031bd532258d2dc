// The soft NIC's engine. The verbs and DevX calls (transport/softnic/verbs) create its objects,
// which then work without them. There is one engine per device of a process, each with a thread of
// its own. Processes of one host share a fabric (fabric.h), of which each device is a node. All
// objects are addressed by number, as in hardware. Invariant: only the engine of a process accesses
// the memory of that process, and only inside a registered region.
#pragma once

#include "transport/softnic/costs.h"

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

namespace gshmem::soft {

class MemoryAccess;

/// The bits of IBV_ACCESS_* that are used here, with the values of <infiniband/verbs.h>.
enum Access : std::uint32_t {
  kLocalWrite = 1,
  kRemoteWrite = 2,
  kRemoteRead = 4,
  kRemoteAtomic = 8,
  kRelaxedOrdering = 1u << 20,
};

struct RegionAttributes {
  std::uint32_t pd = 0;
  void* address = nullptr;  ///< in this process; host or GPU memory
  std::uint64_t bytes = 0;
  std::uint64_t iova = 0;    ///< address of the first byte in WQEs
  std::uint32_t access = 0;  ///< Access
  /// How to access it while the region exists; null: by the CPU, or by the access of its GPU.
  MemoryAccess* memory = nullptr;
};

struct CqAttributes {
  void* buffer = nullptr;                           ///< first entry
  std::uint32_t log_entries = 0, entry_bytes = 64;  ///< 64 or 128
  bool collapsed = false, ignore_overrun = false;
  void* record = nullptr;  ///< doorbell record: consumer index, arm
  std::uint32_t uar = 0;
};

/// Which entry of a receive queue follows another one, and how entries begin.
enum class ReceiveOrder : std::uint8_t {
  kRing,        ///< the next entry; entries have data segments only
  kLinkedRing,  ///< the next entry; entries begin with a link that is not used
  kList,        ///< the entry that the link names
};

/// Buffers for messages without an address: entries of data segments (mlx5_wqe_data_seg).
struct ReceiveAttributes {
  std::uint32_t pd = 0;     ///< protection domain of a shared queue
  void* entries = nullptr;  ///< null: there is no such queue
  std::uint32_t log_entries = 0, log_entry_bytes = 4;
  void* record = nullptr;  ///< doorbell record: receive counter
  ReceiveOrder order = ReceiveOrder::kRing;
};

/// qpc.st: the services that a queue pair may have. A DC initiator (DCI) sends to one DC target
/// (DCT) after another, reliably, and receives nothing.
enum class Service : std::uint8_t { kReliable = 0, kUnreliable = 1, kDatagram = 2, kInitiator = 5 };

struct QpAttributes {
  Service service = Service::kReliable;
  std::uint32_t pd = 0;
  void* send_queue = nullptr;
  std::uint32_t log_send_entries = 0;  ///< number of entries of 64 bytes
  void* record = nullptr;              ///< doorbell record: receive and send counter
  std::uint32_t send_cq = 0, receive_cq = 0;
  std::uint32_t uar = 0;
  std::uint32_t user_index = 0;
  ReceiveAttributes receives = {};    ///< its own receive queue, without pd
  std::uint32_t shared_receives = 0;  ///< or a shared one, of create_receives; 0 = none
  bool no_record = false;             ///< qpc.send_dbr_mode 1: rung by a register of its own
  bool waits_for_others = false;      ///< qpc.cd_master: WAIT entries may be posted
};

/// qpc.state
enum class QpState : std::uint8_t { kReset = 0, kInit = 1, kRtr = 2, kRts = 3, kError = 6 };

/// qpc.atomic_mode: which atomics the queue pair executes for its peer (MLX5_QPC_ATOMIC_MODE_*).
enum class AtomicMode : std::uint8_t {
  kNone = 0,
  kInfiniBand = 1,  ///< the two of the specification, 8 bytes
  kOnly8 = 2,       ///< masked ones, too
  kUpTo8 = 3,       ///< of 4 bytes, too
};

/// The access rights that a queue pair gives to its peer.
struct QpInit {
  bool remote_write = false, remote_read = false, remote_atomic = false;
  AtomicMode atomic_mode = AtomicMode::kUpTo8;
  std::uint32_t key = 0;  ///< queue key, for datagrams
};
using Gid = std::array<std::uint8_t, 16>;

/// UDP ports of RoCE v2 (InfiniBand annex A17), and the sources that packets may have.
inline constexpr std::uint16_t kRoceUdpPort = 4791, kMinUdpSource = 0xc000, kMaxUdpSource = 0xffff;

/// The path from a queue pair to another, in its context or in an address vector.
struct Route {
  std::uint16_t lid = 0;       ///< on InfiniBand; 0: wherever the queue pair is
  std::uint64_t mac = 0;       ///< on Ethernet
  bool global = false;         ///< by GIDs; always on Ethernet
  std::uint8_t gid_index = 0;  ///< of the source, in the port's table
  Gid gid{};                   ///< of the destination
  std::uint8_t hop_limit = 64;
  std::uint16_t udp_source = kMinUdpSource;
};

/// A DC target. Any number of initiators that know its number and its key can reach it.
struct TargetAttributes {
  std::uint32_t pd = 0;
  std::uint32_t receives = 0;  ///< the number of create_receives; 0 = none
  std::uint32_t cq = 0;        ///< completion queue of receives
  std::uint32_t user_index = 0;
  std::uint64_t access_key = 0;
  QpInit access = {};
  std::uint32_t mtu = 4096;          ///< bytes
  std::uint32_t min_rnr_timer = 12;  ///< as in QpRtr
  std::uint8_t gid_index = 0;        ///< of its address, where initiators name one
  std::uint8_t hop_limit = 64;       ///< of its answers
};

struct QpRtr {
  std::uint32_t remote_qpn = 0;
  Route route = {};
  std::uint32_t mtu = 4096;  ///< bytes, of both directions
  std::uint32_t log_message_max = 30;
  std::uint32_t log_responder_reads = 4;  ///< log_rra_max
  std::uint32_t receive_psn = 0;          ///< of the peer's first packet
  std::uint32_t min_rnr_timer = 12;       ///< code of InfiniBand 9.7.5.2.8, 12 is 0.64 ms
  std::optional<QpInit> access = {};      ///< replaces that of init
};
struct QpRts {
  std::uint32_t retries = 7;
  std::uint32_t rnr_retries = 7;                    ///< 7: without end
  std::uint32_t ack_timeout = 14;                   ///< 4.096 us * 2^n; 0: without end
  std::uint32_t log_initiator_reads = 4;            ///< log_sra_max
  std::uint32_t send_psn = 0;                       ///< of the first packet
  std::optional<std::uint32_t> min_rnr_timer = {};  ///< replaces that of rtr
};

/// The kind of card and host: see profile.h.
struct Profile {
  enum class Link : std::uint8_t { kInfiniBand, kEthernet };
  Link link = Link::kInfiniBand;
  bool ipv4 = true;  ///< addresses of an Ethernet port
  std::uint32_t mtu = 4096;
  std::uint32_t page_bytes = 4096;  ///< of the host
  bool no_record = false;           ///< queue pairs may work without a doorbell record
  std::uint32_t gids_down = 0;      ///< bit n: the interface of GID n is down
};

/// An entry of a port's GID table.
struct GidAttributes {
  enum class Kind : std::uint8_t { kInfiniBand, kRoceV1, kRoceV2 };
  Gid bytes{};
  Kind kind = Kind::kInfiniBand;
};

/// The attributes that the device reports (ibv_query_device, ibv_query_port, QUERY_HCA_CAP).
struct DeviceAttributes {
  std::uint16_t lid = 0;  ///< 0 on Ethernet
  std::uint64_t guid = 0;
  std::uint64_t mac = 0;  ///< of an Ethernet port
  std::vector<GidAttributes> gids;
  std::uint32_t max_log_qp_entries = 15, max_log_cq_entries = 22;
  std::uint32_t max_wqe_bytes = 1008;
  Profile profile;
  bool port_up = true;
};

/// Thrown by value by the calls below. `status` is the PRM command status for it (0x3 bad
/// parameter, 0x5 bad resource, 0x9 bad resource state, 0xf no resource, 0x10 bad QP state).
struct EngineError : std::runtime_error {
  EngineError(std::uint8_t status, const std::string& reason)
      : std::runtime_error(reason), status(status) {}
  std::uint8_t status;
};

/// GSHNIC_STRICT: which mistakes of a client are detected.
enum class Strictness : std::uint8_t {
  kLoose,   ///< 0: a moved doorbell record is a doorbell; no remarks
  kCard,    ///< ignores what a NIC ignores, and remarks on it
  kStrict,  ///< 1: it also overwrites consumed entries, to detect their reuse
};

/// The options of an engine. Those of the process's engine come from GSHNIC_* of the environment.
struct EngineOptions {
  std::string fabric = {};     ///< GSHNIC_FABRIC: name of shared memory to join; empty = none
  std::uint64_t seed = 1;      ///< GSHNIC_SEED, of the adversary
  std::string adversary = {};  ///< GSHNIC_ADVERSARY: adversary.h has the grammar
  std::string rules = {};      ///< GSHNIC_RULES: rules.h has the grammar
  Strictness strict = Strictness::kStrict;  ///< GSHNIC_STRICT, where the default is kCard
  Profile profile = {};                     ///< GSHNIC_PROFILE: profile.h has the grammar
  int device = 0;                           ///< number of the device on the host
  /// GSHNIC_DEVICES, default 1: the number of devices of the process.
  int devices = 1;
  /// Errors: EngineError 0x3 that names the variable.
  [[nodiscard]] static EngineOptions from_env();
};

/// An event that a device reports by itself; values as in linux include/linux/mlx5/device.h, enum
/// mlx5_event.
struct DeviceEvent {
  enum class Kind : std::uint16_t {
    kCompletion = 0x00,      ///< in a completion queue that was armed
    kCqError = 0x04,         ///< a completion queue that was armed has an entry
    kQueueFatal = 0x05,      ///< of these, a queue pair
    kDeviceGone = 0x08,      ///< of the device, after its last one
    kPortDown = 0x09,        ///< of the device
    kPortUp = 0x0109,        ///< 0x09 again, with the other subtype
    kLastReceive = 0x13,     ///< a queue pair in error takes no more from its shared queue
    kInvalidRequest = 0x10,  ///< from the other end
    kAccessError = 0x11,     ///< by the other end
    kKeyViolation = 0x1d     ///< of a DC target, by an initiator with another key
  } kind;
  std::uint32_t number = 0;
};
/// Called with the engine's lock: must not call the engine.
using EventListener = std::function<void(const DeviceEvent& event)>;

/// Numbers since the engine's start.
struct Counters {
  std::uint64_t doorbells = 0;
  std::uint64_t stale_doorbells = 0;  ///< older than one seen before; legal for lock-free clients
  std::uint64_t wqes = 0;             ///< fetched
  std::uint64_t cqes = 0;             ///< written
  std::uint64_t bytes = 0;            ///< of messages that succeeded
  std::uint64_t retries = 0;  ///< attempts that were lost, or for which the peer was not ready
  std::uint64_t rescues = 0;  ///< of entries whose doorbell never came, where a register is shared
  std::uint64_t violations = 0, remarks = 0;
  std::uint64_t queue_pairs = 0;  ///< that exist now
  std::uint64_t visits = 0;       ///< of queue pairs, by passes of the thread
};

/// Threads: any, for all functions.
class Engine {
 public:
  static constexpr int kMostDevices = 8;
  /// Returns the engine of a device of the process; `device` is below devices(). The first call
  /// starts all engines, which are kept until the process ends. Errors: EngineError, also printed,
  /// when a GSHNIC_* variable is invalid, and in a child that was forked after the start.
  static Engine& get(int device = 0);
  /// Errors: as get.
  [[nodiscard]] static int devices();
  /// Makes one more engine, which is a node of its own; tests have several.
  explicit Engine(const EngineOptions& options);

  /// Joins a fabric in a file of shared memory: a memfd that processes passed to each other, or a
  /// file that was opened by name. Call it before the first queue pair. Without it the process has
  /// a fabric of its own. Errors: EngineError when the engine has joined another one already, or
  /// when a queue pair or a region exists.
  void join_fabric(int fd);
  /// Makes fabric memory. Returns a descriptor, which belongs to the caller.
  [[nodiscard]] static int make_fabric();

  /// Reads the file of GSHNIC_COSTS, if there is one, and whether heaps are staged from now on.
  /// Errors: as parse_costs.
  void model_costs(bool staged);
  /// Returns the time of the model, which then has waited for all messages; nothing without one.
  [[nodiscard]] std::optional<CostModel::Time> model_time();

  /// Errors of this call, and of all that make or change something: EngineError 0x1 when the device
  /// is gone.
  [[nodiscard]] DeviceAttributes device() const;
  [[nodiscard]] bool gone() const;

  [[nodiscard]] std::uint32_t create_pd();
  void destroy_pd(std::uint32_t pd);
  /// Creates consecutive UARs of 4 KiB. Returns the number of the first one, and stores its first
  /// byte; the others follow.
  [[nodiscard]] std::uint32_t create_uar(void** page, std::uint32_t count = 1);
  /// Destroys one UAR.
  void destroy_uar(std::uint32_t uar);
  /// Returns the key, for local and remote use. It is unique in the fabric, and is not reused soon.
  [[nodiscard]] std::uint32_t create_region(const RegionAttributes& attributes);
  void destroy_region(std::uint32_t key);
  [[nodiscard]] std::uint32_t create_cq(const CqAttributes& attributes);
  void destroy_cq(std::uint32_t cqn);
  /// Checks from now on whether the client arms the queue, and answers by kCompletion.
  void watch_cq(std::uint32_t cqn);
  /// A queue of buffers that queue pairs share.
  [[nodiscard]] std::uint32_t create_receives(const ReceiveAttributes& attributes);
  void destroy_receives(std::uint32_t number);
  [[nodiscard]] std::uint32_t create_qp(const QpAttributes& attributes);
  void destroy_qp(std::uint32_t qpn);
  [[nodiscard]] std::uint32_t create_target(const TargetAttributes& attributes);
  void destroy_target(std::uint32_t number);
  /// Returns how many packets with another key have arrived.
  [[nodiscard]] std::uint32_t key_violations(std::uint32_t target) const;
  /// The number of initiators that are connected to it.
  [[nodiscard]] std::size_t connections(std::uint32_t target) const;
  // State machine: reset -> init -> rtr -> rts, any -> error, any -> reset.
  void modify_to_init(std::uint32_t qpn, const QpInit& init);
  void modify_to_rtr(std::uint32_t qpn, const QpRtr& rtr);
  void modify_to_rts(std::uint32_t qpn, const QpRts& rts);
  /// Changes the queue key of a queue pair in any state.
  void set_key(std::uint32_t qpn, std::uint32_t key);
  void modify_to_error(std::uint32_t qpn);
  void modify_to_reset(std::uint32_t qpn);
  [[nodiscard]] QpState state(std::uint32_t qpn) const;

  /// Returns the argument for `ignore_events`.
  [[nodiscard]] int listen(EventListener listener);
  void ignore_events(int listener);
  /// Adds rules for injected errors, after those of the options. Errors: those of parse_rules.
  void add_rules(const std::string& rules);

  /// Returns the violations that the client checker has found since the start, as text; empty =
  /// none. Tests read it.
  [[nodiscard]] std::string violations() const;
  /// Returns the fields that clients set although a NIC ignores them, as text.
  [[nodiscard]] std::string remarks() const;
  /// Adds a remark that a command of the firmware has found.
  void remark(const std::string& what);
  [[nodiscard]] Counters counters() const;

  ~Engine();
  Engine(const Engine&) = delete;

 private:
  struct Impl;
  static std::vector<std::unique_ptr<Engine>> start_all();
  static const std::vector<std::unique_ptr<Engine>>& all();
  std::unique_ptr<Impl> impl_;
};

}  // namespace gshmem::soft

// The engine as seen by programs that load libgshnic themselves (libgshmem's open_soft, tests).
extern "C" {
// Unless it says otherwise, a function is for all devices of the process.
/// Returns a descriptor of fabric memory, to be passed to other processes, or -1.
__attribute__((visibility("default"))) int gshnic_make_fabric(void);
/// Returns 0, or -1; then `gshnic_error()` has the reason.
__attribute__((visibility("default"))) int gshnic_join_fabric(int fd);
__attribute__((visibility("default"))) const char* gshnic_error(void);
/// Says whether heaps are staged through host memory from now on (GSHMEM_GDR=off), for the model of
/// GSHNIC_COSTS. Returns 0, or -1; then gshnic_error() has the reason.
__attribute__((visibility("default"))) int gshnic_stage(int staged);
/// The model's time, and the CPU time in it, of all devices; returns 1, or 0 without a model.
__attribute__((visibility("default"))) int gshnic_model_time(double* seconds, double* cpu_seconds);
/// Injects errors from now on, in the grammar of rules.h. Returns 0, or -1; then gshnic_error() has
/// the reason.
__attribute__((visibility("default"))) int gshnic_inject(const char* rules);
/// Stores the checker's violations as text in `buffer`. Returns their number.
__attribute__((visibility("default"))) int gshnic_violations(char* buffer, unsigned long bytes);
/// Stores the remarks as text in `buffer`. Returns their number.
__attribute__((visibility("default"))) int gshnic_remarks(char* buffer, unsigned long bytes);
/// Returns the number of queue pairs.
__attribute__((visibility("default"))) long gshnic_queue_pairs(void);
}
