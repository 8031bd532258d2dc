#include "host/runtime/network.h"

#include "host/base/log.h"
#include "host/base/run_phase.h"
#include "host/runtime/fault.h"
#include "host/runtime/teams.h"

#include <gshmem/device/ops/order.h>

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <string_view>

namespace gshmem {
namespace {

std::size_t host_page() { return static_cast<std::size_t>(::sysconf(_SC_PAGESIZE)); }

}  // namespace

/// Returns zeroed pages. Pages that are never written take no memory, so an unused queue takes
/// none.
void* Network::host_pages(std::size_t bytes) {
  void* const pages = ::mmap(nullptr, std::max<std::size_t>(bytes, 1), PROT_READ | PROT_WRITE,
                             MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  require(pages != MAP_FAILED, GSHMEMX_ERROR_OUT_OF_MEMORY,
          strprintf("%zu bytes of host memory for work queues", bytes));
  return memory_.emplace_back(pages, Unmap{std::max<std::size_t>(bytes, 1)}).get();
}

nic::MemorySource Network::memory_source() {
  nic::MemorySource memory;
  memory.page_bytes = host_page();
  if (gpu_) {
    memory.shared = [this](std::size_t bytes) { return gpu_->host_memory(bytes); };
    memory.device = [this](std::size_t bytes) { return gpu_->device_memory(bytes); };
    memory.upload = [this](void* to, const void* from, std::size_t bytes) {
      gpu_->copy(to, from, bytes);
    };
    memory.map_registers = [this](void* page, std::size_t bytes) {
      const Gpu::Registers mapped = gpu_->map_registers(page, bytes);
      return nic::MappedRegisters{mapped.address, mapped.is_memory};
    };
    return memory;
  }
  memory.shared = [this](std::size_t bytes) { return host_pages(bytes); };
  memory.device = memory.shared;
  memory.upload = [](void* to, const void* from, std::size_t bytes) {
    std::memcpy(to, from, bytes);
  };
  // For tests: stores have no effect, as if PCIe let no GPU write to a NIC.
  const bool dead = env_lookup("GSHMEM_TEST_DEAD_DOORBELLS") != nullptr;
  memory.map_registers = [this, dead](void* page, std::size_t bytes) {
    if (dead) page = host_pages(bytes);
    return nic::MappedRegisters{page, false};  // CPUs store in order
  };
  return memory;
}

nic::Region Network::region_at(std::uint64_t offset, std::uint64_t bytes) const {
  nic::Region region{.base = state_.heap + offset, .bytes = bytes};
  region.offset = offset;
  if (gpu_) {
    region.kind = nic::MemoryKind::kGpu;
    region.gpu = gpu_->device();
  }
  return region;
}

/// Returns false if the job continues without NICs, which it would only need for atomics.
bool Network::open_nics(const nic::Region& heap, bool for_atomics_only, const char* links) {
  const auto open = [&] {
    std::vector<std::string> addresses;
    for (const net::Endpoint& address : plane_->addresses())
      addresses.push_back(net::address_text(address));
    nics_ = nic::Rails(nic::open(
        {.config = config_,
         .boot = ranks(),
         .heap_kind = heap.kind,
         .gpu = heap.gpu,
         .gpu_orders_writes = gpu_ && gpu_->orders_writes(),
         .heap = heap,
         .gpu_pci = gpu_ ? gpu_->pci() : "",
         .local_rank = group().index,
         .host = group().node,
         .node_root = group().index == 0,
         .addresses = std::move(addresses),
         .share_fd = [this](int fd) { return plane_->local().from_root(fd).release(); },
         .on_error = [this](const Error& error, int pe) { faults_.raise(error, pe); },
         .on_refusal = [this](const Error& error,
                              int pe) { faults_.raise(error, pe, Faults::KnownTo::kByPeer); }}));
  };
  if (!for_atomics_only || config_.nic != NicKind::kAuto) {
    if (config_.nic != NicKind::kNone) open();
    return !nics_.empty();
  }
  try {
    run_phase(ranks(), open);
  } catch (const PhaseError& error) {
    nics_ = {};
    if (state_.my_pe == 0) {
      GSHMEM_WARN(
          "GPUs of this job map each other %s, and no network does them: they are errors (%s)",
          links, error.what());
    }
  }
  return !nics_.empty();
}

/// Must waits end with a DUMP (abi::kNicInboundTrails)?
bool Network::inbound_trails() const {
  // For tests in CPU mode: the memory of this PE is like that of a GPU that keeps no order.
  if (!gpu_ && env_lookup("GSHMEM_TEST_INBOUND_TRAILS") != nullptr) return true;
  return (nics_.limits().flags & abi::kNicInboundTrails) != 0;
}

/// Returns an empty text when every Nic has processed a NOP in time, otherwise why one has not.
std::string Network::try_queues() {
  abi::Control local{};
  auto* const control =
      gpu_ ? static_cast<abi::Control*>(gpu_->host_memory(sizeof(abi::Control))) : &local;
  abi::DeviceState probe = state_;
  probe.nic = queues_->view();
  probe.control = control;
  probe.fault_policy = abi::FaultPolicy::kReport;
  // A NIC takes microseconds. A consumer that runs on this host's cores may have to wait for a
  // core. It may also have one thread that polls the queues of all PEs in turn, while other PEs are
  // still creating their queues.
  const bool card = std::string_view(nics_.name()) == "mlx5" && config_.nic != NicKind::kSoft;
  double limit = card ? 1 : 5 + 1e-3 * state_.n_pes * probe.nic.count;
  if (config_.timeout > 0) limit = std::min(limit, config_.timeout);
  probe.timeout_ns = static_cast<std::uint64_t>(limit * 1e9);
  for (const std::uint32_t queue : queues_->one_by_each_nic()) {
    device::Call call(device::CallKind::kProve, "gshmem_init");
    call.context = &probe;
    call.operand = queue;
    const bool good = gpu_ ? gpu_->ops()->run(call) != 0 : device::nic::prove(probe, queue);
    abi::FaultRecord record;
    if (!good) return fault_read(control, &record) ? fault_message(record) : "it was not made";
  }
  return {};
}

void Network::prove() {
  state_.nic = queues_->view();
  std::string why = try_queues();
  if (!why.empty() && !queues_->rung_by_agent() && config_.doorbell == DoorbellChoice::kAuto) {
    GSHMEM_WARN(
        "a doorbell that the GPU rings does not reach the NIC (%s): a host thread rings instead, "
        "which is slower. Reasons: PCIe switches that redirect (ACS), an IOMMU between GPU and "
        "NIC, "
        "a container or virtual machine without peer-to-peer access (gshmem-info --doctor)",
        why.c_str());
    queues_->ring_by_agent();
    state_.nic = queues_->view();
    why = try_queues();
  }
  require(why.empty(), GSHMEMX_ERROR_NIC,
          "the NIC does not work off its queues (" + why + "; " + nics_.describe() +
              "): it may not reach the memory of the queues, for which GSHMEM_QUEUE_MEMORY=host is "
              "the other way, or an IOMMU is in between (dmesg may say more)");
}

void Network::open(const Outside& outside) {
  plane_ = &outside.plane;
  gpu_ = outside.gpu;
  const Paths& paths = outside.paths;
  enum : int { kNothing = 0, kPaths = 1, kAtomics = 2, kUnknown = 4 };
  const Paths::LinkAtomics atomics = paths.link_atomics();
  int mine = kNothing;
  if (atomics != Paths::LinkAtomics::kNative) mine = kAtomics;
  if (atomics == Paths::LinkAtomics::kUnknown) mine |= kUnknown;
  for (int pe = 0; pe < state_.n_pes; ++pe) mine |= paths.is_mapped(pe) ? kNothing : kPaths;
  int needed = kNothing;
  for (const int of_pe : allgather(ranks(), mine)) needed |= of_pe;
  if (needed == kNothing) return;

  nic::Region heap = region_at(0, state_.heap_bytes + Teams::network_bytes_at_end(config_.teams));
  heap.mapping = outside.heap_mapping;
  if ((needed & kAtomics) != 0) state_.amo_path = abi::AmoPath::kSetsInPlace;
  const char* const links = (needed & kUnknown) == 0
                                ? "without native atomics (PCIe)"
                                : "by links of which neither CUDA nor NVML says whether they have "
                                  "native atomics (the other GPU is hidden from the container)";
  if (!open_nics(heap, (needed & kPaths) == 0, links)) return;
  if ((needed & kUnknown) != 0 && state_.my_pe == 0)
    GSHMEM_WARN("GPUs of this job map each other %s: atomics use the network, which is slower",
                links);
  faults_.set_network_path();
  if (inbound_trails() && gpu_)
    GSHMEM_INFO(
        "GPU %d (%s) does not keep the order in which NICs write to it: each wait ends "
        "with a read by the NIC",
        gpu_->device(), gpu_->name());
  const bool by_nic = config_.amo == AmoChoice::kNic;
  if (by_nic && !nics_.limits().coherent_atomics) state_.amo_path = abi::AmoPath::kNic;
  const bool on_first_use = config_.connect == ConnectChoice::kUse && nics_.limits().first_use;
  std::vector<int> peers;
  for (int pe = 0; pe < state_.n_pes; ++pe) {
    // With connections on first use, the queues from this PE to itself are tested. Waits may post
    // a DUMP to them.
    const bool own = (on_first_use || inbound_trails()) && pe == state_.my_pe;
    if (state_.amo_path != abi::AmoPath::kInPlace || !paths.is_mapped(pe) || own)
      peers.push_back(pe);
  }
  // With dynamic connections PEs of this host are reached as all others.
  if (config_.connect != ConnectChoice::kDc) nics_.open_host_ports(ranks(), group().node_of);
  queues_ = std::make_unique<nic::QueueSet>(
      nics_, nic::QueueSetOptions{config_, ranks(), memory_source(), heap, peers,
                                  [&paths](int pe) { return paths.is_mapped(pe); },
                                  inbound_trails() ? abi::kNicInboundTrails : 0u});
  in_use_.store(true, std::memory_order_relaxed);
  prove();
  if (queues_->on_first_use()) start_first_use();
  if (config_.contexts > 0) {
    queues_->create_more(static_cast<std::uint32_t>(config_.contexts));
    queues_->exchange(ranks());
    context_queues_ = queues_->connect();
  }
  GSHMEM_INFO("network path to %zu PEs by %s", peers.size(), text().c_str());
}

void Network::register_memory(std::uint64_t offset, std::size_t bytes) {
  if (!queues_) return;
  queues_->keys().add(region_at(offset, bytes));
}

/// Returns an offset from the heap. For local memory before the heap it wraps around, as in device
/// code.
std::uint64_t Network::offset_of(const void* addr) const {
  return reinterpret_cast<std::uintptr_t>(addr) - reinterpret_cast<std::uintptr_t>(state_.heap);
}

nic::MemoryKeys::OfRange Network::exchange_keys(std::uint64_t offset) {
  return queues_ ? queues_->keys().exchange(ranks(), offset) : nic::MemoryKeys::OfRange{};
}

std::size_t Network::key_bytes() const {
  if (!queues_) return 0;
  const nic::MemoryKeys& keys = queues_->keys();
  return static_cast<std::size_t>(state_.n_pes) * keys.rails() * sizeof(abi::RemoteKeys) +
         keys.nics() * sizeof(abi::Be32);
}

void Network::unregister_memory(std::uint64_t offset) noexcept {
  if (queues_) queues_->keys().remove(offset);
}

void Network::register_local(const void* addr, std::size_t bytes, abi::Be32* keys) {
  const std::shared_ptr<void> in_gpu = gpu_ ? gpu_->enter() : nullptr;
  nic::Region region{.base = const_cast<void*>(addr), .bytes = bytes};
  region.offset = offset_of(addr);
  region.local = true;
  if (const std::optional<int> device = gpu_ ? gpu_->device_of(addr) : std::nullopt) {
    region.kind = nic::MemoryKind::kGpu;
    region.gpu = *device;
    gpu_->complete_memory_calls_on(region.base);
  }
  queues_->keys().add_local(region, keys);
}

void Network::unregister_local(const void* addr) noexcept {
  if (queues_) queues_->keys().remove(offset_of(addr));
}

void Network::start_first_use() {
  const std::lock_guard lock(mutex_);
  first_use_ = std::make_unique<nic::FirstUse>(
      *queues_, nic::FirstUse::Outside{
                    .my_pe = state_.my_pe,
                    .asked = &state_.control->asked,
                    .is_woken = !gpu_,
                    .send =
                        [this](int pe, net::ByteView message) {
                          plane_->send(pe, control::Plane::Topic::kFirstUse, message);
                        },
                    .on_error = [this](const Error& error, int pe) { faults_.raise(error, pe); }});
}

void Network::stop_first_use() noexcept {
  std::unique_ptr<nic::FirstUse> last;
  const std::lock_guard lock(mutex_);
  last.swap(first_use_);
}

void Network::take(int from, net::ByteView message) {
  const std::lock_guard lock(mutex_);
  if (first_use_) first_use_->take(from, message);
}

std::string Network::name() const {
  if (nics_.empty()) return "none";
  return config_.nic == NicKind::kAuto ? nics_.name() : word_of(config_.nic);
}

std::string Network::explain(const abi::FaultRecord& record) const {
  const std::lock_guard lock(mutex_);
  return nics_.empty() ? "" : nics_.explain(record.queue, record.pe, record.code);
}

std::string Network::text() const {
  const bool gpu_memory = (state_.nic.traits & abi::QueueTraits::kGpuMemory) != 0;
  return strprintf(
      "%s (%s), doorbell by %s, queues in %s memory", nics_.name(), nics_.describe().c_str(),
      queues_->rung_by_agent() ? "agent" : (gpu_ ? "GPU" : "thread"), gpu_memory ? "GPU" : "host");
}

void Network::stop() noexcept {
  if (nics_.empty()) return;
  stop_first_use();
  if (queues_) queues_->stop();
  nics_.stop();
  // The driver holds the pages of doorbells, which are freed with the NICs.
  if (gpu_) gpu_->unmap_registers();
  {
    const std::lock_guard lock(mutex_);
    nics_ = {};
  }
  in_use_.store(false, std::memory_order_relaxed);
  queues_.reset();
  state_.nic = {};
}

}  // namespace gshmem
