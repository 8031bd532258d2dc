#include "transport/ofi/ofi_nic.h"

#include "transport/ofi/provider.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cstring>

namespace gshmem::ofi {
namespace {

constexpr std::uint32_t kMaxMessage = 1u << 30;  // as an mlx5 NIC; larger ones than the provider's
                                                 // are split
constexpr std::uint32_t kFirstNumber = 0x100;
constexpr std::size_t kOperations = 512;

/// nic::ConnectInfo of this implementation.
struct Wire {
  std::uint64_t heap_bytes = 0, heap_base = 0, heap_key = 0;
  std::uint64_t probe_base = 0, probe_key = 0;
};
static_assert(sizeof(Wire) <= sizeof(nic::ConnectInfo));

std::shared_ptr<std::uint64_t> map_words(std::size_t bytes) {
  void* memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) memory = nullptr;
  check_errno(memory != nullptr ? 0 : -1, strprintf("mmap(%zu bytes of doorbells)", bytes));
  return {static_cast<std::uint64_t*>(memory),
          [bytes](std::uint64_t* words) { munmap(words, bytes); }};
}

std::size_t whole_pages(std::size_t bytes) {
  const auto page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  return (bytes + page - 1) / page * page;
}

}  // namespace

OfiNic::OfiNic(Setup setup)
    : setup_(std::move(setup)),
      doorbell_bytes_(whole_pages(setup_.max_queues * sizeof(std::uint64_t))) {
  doorbells_ = map_words(doorbell_bytes_);
  peers_.resize(static_cast<std::size_t>(setup_.size));
  for (int pe = 0; pe < setup_.size; ++pe) {
    Peer& peer = peers_[static_cast<std::size_t>(pe)];
    peer.pe = pe;
    peer.address = setup_.fabric->peer(pe);
  }
}

OfiNic::~OfiNic() { stop(); }

std::string OfiNic::describe() const {
  const char* path = setup_.path == Path::kRma ? "RMA" : "staged through host memory";
  return "libfabric " + Library::get().version_text() + " " +
         describe_provider(setup_.fabric->info()) + ", " + path;
}

nic::Nic::Limits OfiNic::limits() const {
  const bool by_message = setup_.path == Path::kStaged || !atomics_.complete();
  return {.flags = 0,
          .max_message = kMaxMessage,
          .coherent_atomics = by_message && access_ != nullptr && access_->coherent()};
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
  heap_region_ = region;
  access_ = make_memory_access(region);
  if (setup_.path == Path::kRma)
    heap_ = setup_.fabric->register_memory(region,
                                           FI_READ | FI_WRITE | FI_REMOTE_READ | FI_REMOTE_WRITE);
  operations_ = std::make_unique<OperationPool>(*setup_.fabric, kOperations);
  // A key of another PE's heap is a wrong key.
  keys_.local = 0x4c000000u | static_cast<std::uint32_t>(setup_.pe);
  keys_.remote = 0x52000000u | static_cast<std::uint32_t>(setup_.pe);
  make_engines();
  return keys_;
}

void OfiNic::make_engines() {
  Fabric& fabric = *setup_.fabric;
  atomics_ = atomic_support(fabric.info(), fabric.endpoint());
  const bool rma = setup_.path == Path::kRma, direct = rma && atomics_.complete();
  if (rma) rma_ = std::make_unique<RmaEngine>(fabric, heap_, *access_, atomics_);
  if (!direct) {
    if (rma)
      GSHMEM_INFO("%s has no compare-and-swap of 4 and 8 bytes%s: atomics are active messages",
                  fabric.info().fabric_attr->prov_name,
                  heap_region_.kind == nic::MemoryKind::kGpu ? " in GPU memory" : "");
    messages_ =
        std::make_unique<ActiveMessages>(ActiveMessages::Setup{.fabric = fabric,
                                                               .heap = *access_,
                                                               .peers = peers_,
                                                               .pe = setup_.pe,
                                                               .heap_bytes = heap_region_.bytes,
                                                               .remote_key = keys_.remote});
  }
  Engine* data = rma_.get();
  if (!rma) data = messages_.get();
  Engine* atomics = rma_.get();
  if (!direct) atomics = messages_.get();
  const std::chrono::duration<double> timeout(setup_.timeout_seconds);
  executor_ = std::make_unique<Executor>(
      Executor::Setup{.fabric = fabric,
                      .heap = *access_,
                      .messages = messages_.get(),
                      .peers = peers_,
                      .services = {.data = *data,
                                   .atomics = *atomics,
                                   .operations = *operations_,
                                   .heap_bytes = heap_region_.bytes,
                                   .local_key = keys_.local,
                                   .max_message = kMaxMessage,
                                   .timeout = std::chrono::duration_cast<Clock::duration>(timeout)},
                      .pe = setup_.pe,
                      .on_error = setup_.on_error});
}

nic::CreatedQueue OfiNic::create_queue(const nic::QueuePlace& place) {
  require(executor_ != nullptr, GSHMEMX_ERROR_INTERNAL, "create_queue before register_memory");
  require(queue_memory_.kind == nic::MemoryKind::kHost, GSHMEMX_ERROR_CONFIG,
          "GSHMEM_QUEUE_MEMORY=gpu: a host thread executes the queues of GSHMEM_NIC=ofi, which "
          "must lie in host memory; unset it");
  const std::size_t index = executor_->count();
  require(index < setup_.max_queues, GSHMEMX_ERROR_OUT_OF_MEMORY,
          strprintf("GSHMEM_NIC=ofi has %zu queues in this job, and no more", setup_.max_queues));
  std::uint64_t* doorbell = doorbells_.get() + index;
  const auto number = static_cast<std::uint32_t>(kFirstNumber + index);
  executor_->add(WorkQueue(queue_memory_, place, number, doorbell));
  return {.number = number, .doorbell = doorbell};
}

nic::ConnectInfo OfiNic::connect_info(int) {
  const Registered& own = operations_->memory();
  const Wire wire{.heap_bytes = heap_region_.bytes,
                  .heap_base = heap_.remote_base,
                  .heap_key = heap_.key,
                  .probe_base = own.remote_base + operations_->probe_offset(),
                  .probe_key = own.key};
  nic::ConnectInfo info{};
  std::memcpy(info.data(), &wire, sizeof(wire));
  return info;
}

void OfiNic::connect(int queue, int pe, const nic::ConnectInfo& info, std::uint32_t remote_key) {
  Wire wire;
  std::memcpy(&wire, info.data(), sizeof(wire));
  Peer& peer = peers_.at(static_cast<std::size_t>(pe));
  executor_->added(static_cast<std::size_t>(queue)).connect(peer);
  // The thread reads it already when a queue to the same PE has been started.
  if (peer.heap_bytes != 0) return;
  peer.heap_bytes = wire.heap_bytes;
  peer.heap_base = wire.heap_base;
  peer.provider_key = wire.heap_key;
  peer.probe_base = wire.probe_base;
  peer.probe_key = wire.probe_key;
  peer.remote_key = remote_key;
}

void OfiNic::start() { executor_->start(); }

void OfiNic::stop() noexcept {
  if (executor_ != nullptr) executor_->stop();
  setup_.fabric->close();
}

}  // namespace gshmem::ofi
