#include "transport/ofi/ofi_nic.h"

#include "transport/ofi/provider.h"

#include "host/base/log.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <exception>
#include <type_traits>
#include <utility>

namespace gshmem::ofi {
namespace {

// The limit of an mlx5 NIC; messages above the provider's limit are split.
constexpr std::uint32_t kMaxMessage = 1u << 30;
constexpr std::uint32_t kFirstNumber = 0x100;
/// Number of operations at a time, of all queues; each has 1 KiB of scratch memory.
constexpr std::size_t kOperations = 512, kMostOperations = 8192;
/// Number of immediates that may wait at a PE: from all peers, and from one.
constexpr std::size_t kImmediates = 8192, kMostImmediates = 64;

/// The contents of nic::ConnectInfo for this implementation.
struct Wire {
  std::uint32_t queue = 0;  ///< index of the queue at this end
};
static_assert(sizeof(Wire) <= sizeof(nic::ConnectInfo));

std::shared_ptr<std::uint64_t> map_words(std::size_t bytes) {
  void* memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) memory = nullptr;
  check_errno(memory != nullptr ? 0 : -1, strprintf("mmap(%zu bytes of doorbells)", bytes));
  std::memset(memory, 0xff, bytes);  // sets all words to kNotRung
  return {static_cast<std::uint64_t*>(memory),
          [bytes](std::uint64_t* words) { munmap(words, bytes); }};
}

std::size_t whole_pages(std::size_t bytes) {
  const auto page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  return (bytes + page - 1) / page * page;
}

}  // namespace

std::size_t operations_for(int pes) {
  return std::clamp(8 * static_cast<std::size_t>(pes), kOperations, kMostOperations);
}

std::size_t immediates_for(int pes) {
  return std::clamp<std::size_t>(kImmediates / static_cast<std::size_t>(pes), 1, kMostImmediates);
}

OfiNic::OfiNic(Setup setup)
    : setup_(std::move(setup)),
      doorbell_bytes_(whole_pages(setup_.max_queues * sizeof(std::uint64_t))) {
  doorbells_ = map_words(doorbell_bytes_);
  // The key of another PE's heap is an invalid key here.
  keys_.local = 0x4c000000u | static_cast<std::uint32_t>(setup_.pe);
  keys_.remote = keys_.atomic = 0x52000000u | static_cast<std::uint32_t>(setup_.pe);
  access_ = make_memory_access(setup_.heap);
  const std::size_t count = operations_for(setup_.size);
  const std::size_t bytes = count * kScratchBytes + 4 * sizeof(std::uint64_t);
  pool_memory_ = access_->allocate(bytes);
  pool_ = setup_.rails->register_memory({.base = pool_memory_.get(), .bytes = bytes},
                                        FI_READ | FI_WRITE | FI_REMOTE_READ);
  operations_ = std::make_unique<OperationPool>(pool_memory_.get(), count,
                                                static_cast<std::size_t>(setup_.size));
}

OfiNic::~OfiNic() { stop(); }

Reach OfiNic::reach() const {
  const std::uint64_t probe = operations_->count() * kScratchBytes;
  return {.heap_bytes = setup_.heap.bytes,
          .heap_base = setup_.heap_memory.remote_base,
          .probe_base = pool_.remote_base + probe,
          .heap_keys = setup_.heap_memory.keys,
          .probe_keys = pool_.keys};
}

void OfiNic::connect_peers(const std::vector<Reach>& all) {
  connections_.emplace();
  peers_.resize(all.size());
  for (std::size_t pe = 0; pe < all.size(); ++pe) {
    Peer& peer = peers_[pe];
    peer.pe = static_cast<int>(pe);
    peer.heap_bytes = all[pe].heap_bytes;
    peer.heap_base = all[pe].heap_base;
    peer.probe_base = all[pe].probe_base;
    peer.home = setup_.rails->between(setup_.pe, peer.pe);
    for (std::size_t rail = 0; rail < setup_.rails->count(); ++rail)
      peer.routes.push_back({.address = (*setup_.rails)[rail].peer(peer.pe),
                             .heap_key = all[pe].heap_keys[rail],
                             .probe_key = all[pe].probe_keys[rail]});
  }
  make_engines();
}

std::string OfiNic::describe() const {
  std::string what = "libfabric " + Library::get().version_text();
  for (std::size_t rail = 0; rail < setup_.rails->count(); ++rail)
    what += (rail == 0 ? " " : " and ") + describe_provider((*setup_.rails)[rail].info());
  what += setup_.path == Path::kRma ? ", RMA" : ", staged through host memory";
  what += atomics_by_messages() ? ", atomics by messages" : ", atomics by the NIC";
  return what + (setup_.polling == Polling::kSpin ? ", spinning" : ", sleeping when idle");
}

nic::Nic::Limits OfiNic::limits() const {
  return {.flags = 0,
          .max_message = kMaxMessage,
          .coherent_atomics = atomics_by_messages() && access_->coherent()};
}

nic::Region OfiNic::doorbell_block() const {
  return {.base = doorbells_.get(), .bytes = doorbell_bytes_};
}

void OfiNic::use_queue_memory(const nic::Region& region) {
  require(region.kind == nic::MemoryKind::kHost, GSHMEMX_ERROR_NOT_SUPPORTED,
          "GSHMEM_QUEUE_MEMORY=gpu: a host thread reads the queues with GSHMEM_NIC=ofi; use host");
  queue_memory_ = region;
}

nic::Keys OfiNic::register_memory(const nic::Region& region) {
  if (region.offset != 0) return register_beside(region);
  require(region.base == setup_.heap.base && region.bytes == setup_.heap.bytes,
          GSHMEMX_ERROR_INTERNAL, "the heap is not that of open_ofi");
  return keys_;
}

/// The keys differ from those of the heap, of other PEs, and of memory that was registered before.
nic::Keys OfiNic::register_beside(const nic::Region& region) {
  constexpr std::uint32_t kSerials = 0x4bff;  // below the keys of heaps
  // Copies of pageable memory wait for kernels, which may wait for the copy (host_ops.cpp).
  require(setup_.path == Path::kRma || region.kind == setup_.heap.kind, GSHMEMX_ERROR_NOT_SUPPORTED,
          "libfabric's data is staged, and this is host memory");
  Memory memory;
  memory.begin = region.offset;
  memory.local = region.local;
  memory.bytes = region.bytes;
  memory.key = (registered_++ % kSerials + 1) << 16 | static_cast<std::uint32_t>(setup_.pe);
  const nic::Keys keys{.local = memory.key, .remote = memory.key, .atomic = memory.key};
  executor_->call([&] {
    const std::uint64_t access = region.local ? kLocalAccess : kHeapAccess;
    if (setup_.path == Path::kRma) memory.here = setup_.rails->register_memory(region, access);
    memories_.add(std::move(memory));
  });
  return keys;
}

void OfiNic::unregister_memory(const nic::Region& region) noexcept {
  try {
    executor_->call([&] {
      setup_.rails->unregister_memory(memories_.at(region.offset).here);
      memories_.remove(region.offset);
    });
  } catch (const std::exception& error) {
    GSHMEM_WARN("network: memory is not unregistered: %s", error.what());
  }
}

std::vector<std::uint8_t> OfiNic::memory_info(const nic::Region& region) {
  static_assert(std::is_trivially_copyable_v<RemoteMemory>);
  std::vector<std::uint8_t> info(sizeof(RemoteMemory));
  executor_->call([&] {
    const Memory& memory = memories_.at(region.offset);
    const RemoteMemory mine{memory.key, memory.here.remote_base, memory.here.keys};
    std::memcpy(info.data(), &mine, sizeof(mine));
  });
  return info;
}

void OfiNic::set_memory_infos(const nic::Region& region, const std::vector<std::uint8_t>& all) {
  std::vector<RemoteMemory> there(all.size() / sizeof(RemoteMemory));
  std::memcpy(there.data(), all.data(), all.size());
  executor_->call([&] { memories_.at(region.offset).there = std::move(there); });
}

void OfiNic::make_engines() {
  OfiRails& rails = *setup_.rails;
  const bool rma = setup_.path == Path::kRma, on_gpu = setup_.heap.kind == nic::MemoryKind::kGpu;
  const std::uint64_t words = operations_->count() * kScratchBytes;
  atomics_ = atomic_support(rails.first().info(), rails[0].endpoint());
  const bool direct = rma && atomics_.complete();
  const bool immediates = rma && !direct && rails.first().able().immediates;
  const bool words_twice = rma && !direct && access_->coherent() && !rails.first().able().words;
  // For GPU memory: writes of NICs may become visible after the messages that announce them.
  const bool trails = rma && on_gpu && rails.first().able().rdma && !setup_.gpu_orders_writes;
  if (rma)
    rma_ = std::make_unique<RmaEngine>(
        RmaEngine::Setup{.rails = rails,
                         .heap = setup_.heap_memory,
                         .pool = pool_,
                         .memories = memories_,
                         .access = *access_,
                         .atomics = atomics_,
                         .peers = peers_,
                         .pe = setup_.pe,
                         .landing = words + 2 * sizeof(std::uint64_t),
                         .immediates = immediates ? immediates_for(setup_.size) : 0,
                         .reads_trail = trails});
  if (!direct)
    messages_ = std::make_unique<ActiveMessages>(ActiveMessages::Setup{
        .rails = rails,
        .heap = *access_,
        .peers = peers_,
        .pe = setup_.pe,
        .job = setup_.job,
        .memories = memories_,
        .heap_bytes = setup_.heap.bytes,
        .remote_key = keys_.remote,
        .carries_data = !rma,
        .max_queues = setup_.max_queues,
        .flusher = trails && !rails.first().able().delivers ? rma_.get() : nullptr});
  if (!direct && on_gpu && setup_.heap.mapping == nullptr && setup_.pe == 0)
    GSHMEM_WARN(
        "atomics and signals of other PEs to this heap in GPU memory take two turns of the copy "
        "engine each, about 20 us: GDRCopy would take 3 (GSHMEM_GDRCOPY=on says what it lacks)");
  Engine* data = rma_.get();
  if (!rma) data = messages_.get();
  Engine* atomics = rma_.get();
  if (!direct) atomics = messages_.get();
  const std::chrono::duration<double> timeout(setup_.timeout_seconds);
  executor_ = std::make_unique<Executor>(
      Executor::Setup{.rails = rails,
                      .heap = *access_,
                      .rma = rma_.get(),
                      .messages = messages_.get(),
                      .peers = peers_,
                      .services = {.data = *data,
                                   .atomics = *atomics,
                                   .operations = *operations_,
                                   .memories = memories_,
                                   .heap_bytes = setup_.heap.bytes,
                                   .local_key = keys_.local,
                                   .max_message = kMaxMessage,
                                   .timeout = std::chrono::duration_cast<Clock::duration>(timeout),
                                   .messages = !direct,
                                   .words = words_twice,
                                   .immediates = immediates},
                      .pool = pool_,
                      .probe_offset = words,
                      .doorbells = doorbells_.get(),
                      .pe = setup_.pe,
                      .connects_within = std::chrono::duration_cast<Clock::duration>(
                          std::chrono::duration<double>(setup_.connect_seconds)),
                      .polling = setup_.polling,
                      .near_pci = setup_.near_pci,
                      .on_error = setup_.on_error});
}

nic::CreatedQueue OfiNic::create_queue(const nic::QueuePlace& place) {
  const std::size_t index = executor_->count();
  require(index < setup_.max_queues, GSHMEMX_ERROR_OUT_OF_MEMORY,
          strprintf("GSHMEM_NIC=ofi has %zu queues in this job, and no more", setup_.max_queues));
  const auto number = static_cast<std::uint32_t>(kFirstNumber + index);
  executor_->add(WorkQueue(queue_memory_, place, number));
  return {.number = number, .doorbell = doorbells_.get() + index};
}

nic::ConnectInfo OfiNic::connect_info(int queue) {
  const Wire wire{.queue = static_cast<std::uint32_t>(queue)};
  nic::ConnectInfo info{};
  std::memcpy(info.data(), &wire, sizeof(wire));
  return info;
}

void OfiNic::connect(int queue, int pe, const nic::ConnectInfo& info, std::uint32_t remote_key) {
  Wire wire;
  std::memcpy(&wire, info.data(), sizeof(wire));
  Peer& peer = peers_.at(static_cast<std::size_t>(pe));
  executor_->added(static_cast<std::size_t>(queue)).connect(peer, wire.queue);
  // The thread reads it already if a queue to the same PE has been started.
  if (peer.remote_key == 0) peer.remote_key = remote_key;
}

void OfiNic::start() { executor_->start(); }

void OfiNic::stop() noexcept {
  if (executor_ != nullptr) executor_->stop();
  setup_.rails->close();
}

}  // namespace gshmem::ofi
