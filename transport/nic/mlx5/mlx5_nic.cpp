#include "transport/nic/mlx5/mlx5_nic.h"

#include <gshmem/abi/queue_shape.h>

#include "transport/nic/mlx5/memory.h"
#include "transport/nic/rails.h"

#include "host/base/run_phase.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <vector>

namespace gshmem::nic {
namespace mlx5 {
namespace {

/// Returns GSHMEM_NICS_PER_PE, where 0 means one.
int ports_wanted(const Config& config) { return std::max(config.nics_per_pe, 1); }

/// A connection uses the smaller value of its two ends. An initiator has one value for all targets,
/// so all PEs need the same.
void require_alike(const Device& device, const ConnectWire& target, int pe) {
  const auto need = [&](std::uint32_t theirs, std::uint32_t mine, const char* what) {
    require(theirs == mine, GSHMEMX_ERROR_CONFIG,
            strprintf("GSHMEM_CONNECT=dc: PE %d has %s of %u, and this PE's %s has %u; use "
                      "GSHMEM_CONNECT=init, or choose ports that are alike by GSHMEM_NIC_DEVICES",
                      pe, what, theirs, device.describe().c_str(), mine));
  };
  // ibv_mtu counts powers of two from 256 bytes = 1 on.
  need(128u << target.mtu, 128u << device.port_attributes.active_mtu, "an MTU");
  need(1u << target.log_reads_in, 1u << std::min(device.caps.log_reads_in, 7u),
       "a number of READs that it answers at a time (log_max_ra_res_qp)");
}

DeviceWish wish_of(const OpenOptions& options) {
  return {.config = options.config, .gpu_pci = options.gpu_pci, .local_rank = options.local_rank};
}

}  // namespace

Mlx5Nic::Mlx5Nic(const VerbsApi& api, const DeviceWish& wish, Use use)
    : config_(wish.config),
      wish_{.config = config_,
            .gpu_pci = wish.gpu_pci,
            .local_rank = wish.local_rank,
            .sysfs = wish.sysfs,
            .chosen = wish.chosen},
      use_(std::move(use)),
      device_(api, wish_),
      bells_(device_),
      events_(device_, [this](const Event& event) { report(event); }) {
  // An initiator without a doorbell record has not been tested.
  device_.caps.no_record = config_.connect != ConnectChoice::kDc &&
                           does_without_records(device_, use_.queues, *use_.tried);
  GSHMEM_INFO("network: %s", describe().c_str());
}

/// Each context has at most two queues to a PE (context_queues of rails.h). Queues that only answer
/// count twice.
std::uint64_t Mlx5Nic::queues_of(const OpenOptions& options) {
  const auto contexts = static_cast<std::uint64_t>(std::max(options.config.contexts, 0));
  const auto own = static_cast<std::uint64_t>(queues_wanted(options.config));
  return (own + 2 * contexts) * static_cast<std::uint64_t>(options.boot.size()) * 2;
}

std::string Mlx5Nic::port() const { return strprintf("%s:%d", device_.name.c_str(), device_.port); }

std::unique_ptr<Nic> Mlx5Nic::open_port(const std::string& port) {
  const std::size_t colon = port.rfind(':');
  require(colon != std::string::npos, GSHMEMX_ERROR_INTERNAL, "open_port(" + port + ")");
  DeviceWish wish = wish_;
  wish.chosen =
      Candidate{.device = port.substr(0, colon), .port = std::stoi(port.substr(colon + 1))};
  return std::unique_ptr<Nic>(new Mlx5Nic(device_.api, wish, use_));
}

Nic::Limits Mlx5Nic::limits() const {
  Limits limits;
  if (!device_.caps.fetched_host_endian) limits.flags |= abi::kNicFetchedBig;
  const MemoryKind queue_kind = queue_region_ ? queue_region_->region.kind : MemoryKind::kHost;
  // The NIC's writes of one queue stay in order if they take one path, and if data and completions
  // are in the memory of one GPU that keeps the order. Writes to host memory may overtake writes to
  // a GPU (PCI Express, 2.4: ordering is per path). Data Direct is another path, which only writes
  // to the heap take.
  if (use_.heap_kind == MemoryKind::kGpu &&
      (!use_.gpu_orders_writes || queue_kind == MemoryKind::kHost || data_direct_)) {
    limits.flags |= abi::kNicReadNeedsDump;
  }
  // The NIC's writes to the heap take one path, but kernels may see them in any order.
  if (use_.heap_kind == MemoryKind::kGpu && !use_.gpu_orders_writes)
    limits.flags |= abi::kNicInboundTrails;
  // The NIC uses the record for recovery. Verbs store the record before the doorbell (rdma-core
  // providers/mlx5/qp.c, post_send_db). If the doorbell is a register, queue_ring also rings before
  // it stores the record (device/network/queue.h).
  if (!device_.caps.no_record) limits.flags |= abi::kNicReadsRecord;
  limits.registers = limits.first_use = limits.dynamic = true;
  limits.max_message = 1u << kLogMessageMax;
  // A GPU's own atomics never cross the PCIe bus, so NIC atomics cannot be atomic with respect to
  // them.
  limits.coherent_atomics =
      device_.attributes.atomic_cap == IBV_ATOMIC_GLOB && use_.heap_kind == MemoryKind::kHost;
  return limits;
}

std::string Mlx5Nic::describe() const { return "mlx5: " + device_.describe(); }

void Mlx5Nic::use_queue_memory(const Region& region) {
  auto found = queue_regions_.find(region.base);
  if (found == queue_regions_.end()) {
    QueueRegion made{region, register_queues(device_, region)};
    found = queue_regions_.emplace(region.base, std::move(made)).first;
  }
  queue_region_ = &found->second;
}

Keys Mlx5Nic::register_memory(const Region& region) {
  std::vector<OwnedMr> owned;
  const auto enter = [&](Order order) -> const ibv_mr& {
    RegisteredRegion made = register_region(device_, region, order);
    data_direct_ = data_direct_ || made.direct;
    return *owned.emplace_back(std::move(made.mr));
  };
  const ibv_mr& strict = enter(Order::kStrict);
  Keys keys{.local = strict.lkey, .remote = strict.rkey, .atomic = strict.rkey};
  if (config_.ib_relaxed_ordering && !region.local) keys.remote = enter(Order::kRelaxed).rkey;
  regions_[region.offset] = std::move(owned);
  return keys;
}

CreatedQueue Mlx5Nic::create_queue(const QueuePlace& place) {
  require(queue_region_ != nullptr, GSHMEMX_ERROR_INTERNAL, "create_queue before use_queue_memory");
  const std::uint64_t end = std::max({place.entries + std::uint64_t{place.depth} * abi::kWqebbBytes,
                                      place.completion + sizeof(abi::CompletionEntry),
                                      place.record + sizeof(abi::DoorbellRecord),
                                      place.cq_record + sizeof(abi::DoorbellRecord)});
  const Region& region = queue_region_->region;
  require(end <= region.bytes, GSHMEMX_ERROR_INTERNAL,
          strprintf("create_queue: the queue ends at %lu, after the %lu bytes of queue memory", end,
                    region.bytes));
  const int index = static_cast<int>(connections_.size());
  const mlx5dv_devx_uar& bell = place.doorbell ? bells_.by(place.doorbell) : bells_.take();
  const QueueMemory memory{queue_region_->umem->umem_id, bell, target_ ? &*target_ : nullptr};
  auto made = std::make_unique<Connection>(device_, memory, place, index);
  events_.watch(index, made->qp_object(), made->cq_object());
  const std::lock_guard<std::mutex> lock(mutex_);
  connections_.push_back(std::move(made));
  peers_.push_back({-1, connections_.back()->number(), {}});
  return connections_.back()->created();
}

Connection& Mlx5Nic::connection(int queue, const char* call) {
  require(queue >= 0 && static_cast<std::size_t>(queue) < connections_.size(),
          GSHMEMX_ERROR_INTERNAL,
          strprintf("%s(queue %d): there are %zu queues", call, queue, connections_.size()));
  return *connections_[static_cast<std::size_t>(queue)];
}

ConnectInfo Mlx5Nic::connect_info(int queue) { return connection(queue, "connect_info").info(); }

void Mlx5Nic::connect(int queue, int pe, const ConnectInfo& peer, std::uint32_t) {
  Connection& mine = connection(queue, "connect");
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    peers_[static_cast<std::size_t>(queue)].pe = pe;
  }
  try {
    mine.connect(peer, pe);
    const std::lock_guard<std::mutex> lock(mutex_);
    peers_[static_cast<std::size_t>(queue)].remote = *mine.remote();
  } catch (const Error& error) {
    throw Error(error.code(), strprintf("queue %d to PE %d: %s", queue, pe, error.what()),
                error.where());
  }
}

ConnectInfo Mlx5Nic::make_target(std::uint64_t key) {
  target_.emplace(device_, key);
  return mlx5::connect_info(device_, target_->number(), 0);
}

abi::AddressVector Mlx5Nic::vector_to(int pe, const ConnectInfo& target) {
  require(target_.has_value(), GSHMEMX_ERROR_INTERNAL, "vector_to before make_target");
  const ConnectWire there = read_connect_info(target, device_, pe);
  require_alike(device_, there, pe);
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    targets_[pe] = there;
  }
  return target_->vector_to(pe, there.number, there.lid, there.gid);
}

void Mlx5Nic::start() {
  device_.forget_macs();
  events_.start();
}

void Mlx5Nic::stop() noexcept {
  events_.stop();
  const std::lock_guard<std::mutex> lock(mutex_);
  for (const auto& each : connections_) each->stop();
  target_.reset();
}

std::string Mlx5Nic::describe_ends(std::uint32_t number, int pe) const {
  if (pe < 0) return {};
  const std::lock_guard<std::mutex> lock(mutex_);
  for (const Peer& peer : peers_) {
    if (peer.number != number) continue;
    if (peer.pe == pe) return ends_text(device_, peer.remote, pe);
    if (const auto to = targets_.find(pe); to != targets_.end())
      return ends_text(device_, to->second, pe);
  }
  return {};
}

std::string Mlx5Nic::queue_status(std::uint32_t number, int pe) const {
  const std::lock_guard<std::mutex> lock(mutex_);
  for (std::size_t queue = 0; queue < peers_.size(); ++queue) {
    const Peer& peer = peers_[queue];
    if (peer.number == number && (peer.pe == pe || !targets_.empty()))
      return connections_[queue]->status_text();
  }
  return {};
}

bool Mlx5Nic::is_down() const {
  try {
    return query_port(device_.api, device_.context.get(), device_.port).state != IBV_PORT_ACTIVE;
  } catch (const Error&) {
    return false;  // unknown; if the device is gone, another event reports it
  }
}

/// Returns the history of the port. If no event was received, the port is queried, since an event
/// may still arrive.
std::string Mlx5Nic::history() const {
  std::string text = history_.text();
  if (text.empty() && is_down()) text = "is down";
  return text.empty() ? text : strprintf("%s port %d ", device_.name.c_str(), device_.port) + text;
}

/// Handles an event of the port. A connection retransmits as long as its retries last, so a link
/// that comes back in time loses nothing. Otherwise the completions report the error, and the
/// history tells when the outage began.
void Mlx5Nic::note(const Event& event) {
  const auto now = PortHistory::Clock::now();
  const std::string port = strprintf("network: %s port %d", device_.name.c_str(), device_.port);
  if (event.kind == Event::Kind::kPortDown) {
    history_.went_down(now);
    const double retries =
        4.096e-6 * std::ldexp(1 + config_.ib_retry_count, config_.ib_timeout);  // IBA, 9.9.2.1.1
    GSHMEM_WARN(
        "%s went down: connections hold for %.2g s at least (GSHMEM_IB_TIMEOUT, "
        "GSHMEM_IB_RETRY_COUNT); look at cable, switch and subnet manager (ibstat)",
        port.c_str(), retries);
  } else if (event.kind == Event::Kind::kPortUp) {
    if (const std::optional<double> down = history_.came_up(now))
      GSHMEM_WARN("%s is up again, after %.3g s", port.c_str(), *down);
  } else {
    history_.changed(now, event.text);
    GSHMEM_WARN("%s %s", port.c_str(), event.text.c_str());
  }
}

void Mlx5Nic::report(const Event& event) {
  if (event.of_port()) return note(event);
  const int queue = event.queue;
  int pe = -1;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (queue >= 0 && static_cast<std::size_t>(queue) < peers_.size()) {
      pe = peers_[static_cast<std::size_t>(queue)].pe;
    }
  }
  std::string full = event.text;
  if (queue >= 0) {
    const std::string whom = pe < 0 ? "" : strprintf(" to PE %d", pe);
    full = strprintf("%s, queue %d%s: %s", device_.name.c_str(), queue, whom.c_str(),
                     event.text.c_str());
  }
  GSHMEM_WARN("network: %s", full.c_str());
  const auto& tell = event.kind == Event::Kind::kRefusal ? use_.on_refusal : use_.on_error;
  if (tell) tell(Error(GSHMEMX_ERROR_NIC, full), pe);
}

Usable usable_ports(const VerbsApi& api, DeviceWish wish, const OpenOptions& options) {
  Usable result;
  try {
    const FoundDevices found = find_devices(api, wish);
    const std::vector<Candidate> ports = choose_ports(found, wish, ports_wanted(options.config));
    if (ports.empty()) return {.why_not = no_device_text(found, options.config)};
    result.has_device = true;
    for (const Candidate& port : ports) {
      wish.chosen = port;
      const Device device(api, wish);
      if (options.heap_kind == MemoryKind::kGpu) {
        Region sample = options.heap;
        sample.bytes = std::min<std::uint64_t>(sample.bytes, abi::kGpuPageBytes);
        const RegisteredRegion released = register_region(device, sample, Order::kStrict);
      }
    }
  } catch (const Error& error) {
    // An invalid option is no reason to continue without the NIC: open_in fails with it on all PEs.
    if (error.code() != GSHMEMX_ERROR_CONFIG) result.why_not = error.what();
  }
  return result;
}

Usable usable(const OpenOptions& options, const std::string& folder) try {
  return usable_ports(VerbsApi::get(folder), wish_of(options), options);
} catch (const Error& error) {
  return {.why_not = error.what()};
}

namespace {

/// Keeps only the ports that are on the network which connects all PEs. If there is no such
/// network, all ports are kept: the connection to another PE then fails with an explanation.
void agree_on_network(Collectives& boot, const DeviceWish& wish, FoundDevices& found) {
  constexpr std::size_t kMost = 8;
  struct Row {
    std::uint64_t count = 0;
    std::array<Network, kMost> networks{};
  } mine;
  const std::vector<Candidate> nearest =
      choose_ports(found, wish, static_cast<int>(found.ports.size()));
  const auto network_of = [&](const Candidate& port) {
    return std::ranges::find_if(found.ports,
                                [&](const FoundPort& each) {
                                  return each.candidate.device == port.device &&
                                         each.candidate.port == port.port;
                                })
        ->network;
  };
  for (const Candidate& port : nearest) {
    const auto end = mine.networks.begin() + static_cast<std::ptrdiff_t>(mine.count);
    const Network network = network_of(port);
    if (mine.count == kMost || std::find(mine.networks.begin(), end, network) != end) continue;
    mine.networks[mine.count++] = network;
  }
  std::vector<Networks> all;
  for (const Row& row : allgather(boot, mine))
    all.emplace_back(row.networks.begin(),
                     row.networks.begin() + static_cast<std::ptrdiff_t>(row.count));
  const std::optional<Network> common = common_network(all);
  if (!common) return;
  std::size_t kept = 0;
  for (std::size_t i = 0; i < found.ports.size(); ++i) {
    if (found.ports[i].network == *common) found.ports[kept++] = found.ports[i];
  }
  if (kept < found.ports.size())
    GSHMEM_INFO("network: ports on %s only, where all PEs have one", network_text(*common).c_str());
  found.ports.resize(kept);
}

/// Agrees on the number of ports, which every PE has; this PE has `mine`.
int agree_on_rails(const OpenOptions& options, std::size_t mine) {
  const std::vector<int> all = allgather(options.boot, static_cast<int>(mine));
  const auto fewest = std::ranges::min_element(all);
  if (*fewest < ports_wanted(options.config) && options.boot.rank() == 0) {
    GSHMEM_INFO("GSHMEM_NICS_PER_PE=%d, but all PEs use %d: PE %d found no more",
                ports_wanted(options.config), *fewest, static_cast<int>(fewest - all.begin()));
  }
  return *fewest;
}

}  // namespace

NicList open_in(const OpenOptions& options, const std::string& folder) {
  DeviceWish wish = wish_of(options);
  std::vector<Candidate> ports;
  FoundDevices all_ports;
  run_phase(options.boot, [&] {
    FoundDevices found = find_devices(VerbsApi::get(folder), wish);
    require(!found.ports.empty(), GSHMEMX_ERROR_NIC, no_device_text(found, options.config));
    all_ports = std::move(found);
  });
  agree_on_network(options.boot, wish, all_ports);
  ports = choose_ports(all_ports, wish, ports_wanted(options.config));
  ports.resize(static_cast<std::size_t>(agree_on_rails(options, ports.size())));
  NicList nics;
  const auto tried = std::make_shared<TriedDevices>();
  run_phase(options.boot, [&] {
    for (const Candidate& port : ports) {
      wish.chosen = port;
      nics.push_back(std::make_unique<Mlx5Nic>(VerbsApi::get(folder), wish, options, tried));
    }
  });
  return nics;
}

}  // namespace mlx5

NicList open_mlx5(const OpenOptions& options) { return mlx5::open_in(options, {}); }

}  // namespace gshmem::nic
