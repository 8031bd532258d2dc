#include "transport/nic/queue_set.h"

#include "bootstrap/bootstrap.h"
#include "host/base/log.h"

#include <algorithm>
#include <bit>

namespace gshmem::nic {
namespace {

constexpr std::uint64_t kPage = 4096;
/// Records on lines of their own.
constexpr std::uint64_t kRecordStep = 128;
/// Entries between two doorbells at most. With a reservation of at most half the depth (ring.h) and
/// the longest WQE, 16 entries, there is room left: depth / 4 + depth / 2 + 16 <= depth from 64 on.
constexpr std::uint32_t kMaxBatch = 32;

QueuePlace place_of(std::size_t i, std::size_t count, std::uint32_t depth) {
  const std::uint64_t entries_bytes = std::uint64_t{depth} * abi::kWqebbBytes;
  QueuePlace place;
  place.depth = depth;
  place.entries = i * entries_bytes;
  place.completion = count * entries_bytes + i * kPage;
  place.record = count * (entries_bytes + kPage) + i * kRecordStep;
  place.cq_record = place.record + sizeof(abi::DoorbellRecord);
  return place;
}

std::uint64_t slab_bytes(std::size_t count, std::uint32_t depth) {
  const std::uint64_t bytes =
      count * (std::uint64_t{depth} * abi::kWqebbBytes + kPage + kRecordStep);
  return (bytes + kPage - 1) / kPage * kPage;
}

abi::QueueMap map_from(const std::string& word) {
  if (word == "warp") return abi::QueueMap::kWarp;
  if (word == "sm") return abi::QueueMap::kSm;
  return word == "pe" ? abi::QueueMap::kPe : abi::QueueMap::kBlock;
}

}  // namespace

QueueSet::QueueSet(Nic& nic, const QueueSetOptions& options)
    : nic_(nic),
      per_pe_(static_cast<std::uint32_t>(options.config.qps_per_pe)),
      depth_(std::bit_ceil(static_cast<std::uint32_t>(options.config.qp_depth))),
      memory_(options.config.queue_memory == "gpu" ? abi::QueueMemory::kGpu
                                                   : abi::QueueMemory::kHost) {
  create(options);
  make_doorbells(options);
  connect(options);
  publish(options);
}

Region QueueSet::allocate(const QueueSetOptions& options, std::uint64_t bytes) {
  if (memory_ == abi::QueueMemory::kHost) {
    slab_ = static_cast<char*>(options.memory.shared(bytes));
    return {slab_, bytes, MemoryKind::kHost, -1};
  }
  require(options.heap.kind == MemoryKind::kGpu, GSHMEMX_ERROR_NOT_SUPPORTED,
          "GSHMEM_QUEUE_MEMORY=gpu: the PEs run in CPU mode; use host");
  const auto raw =
      reinterpret_cast<std::uintptr_t>(options.memory.device(bytes + abi::kGpuPageBytes));
  slab_ = reinterpret_cast<char*>((raw + abi::kGpuPageBytes - 1) / abi::kGpuPageBytes *
                                  abi::kGpuPageBytes);
  return {slab_, bytes, MemoryKind::kGpu, options.heap.gpu};
}

void QueueSet::create(const QueueSetOptions& options) {
  const std::size_t count = options.peers.size() * per_pe_;
  nic_.use_queue_memory(allocate(options, slab_bytes(count, depth_)));
  keys_ = nic_.register_memory(options.heap);
  // As after reset: no completion yet (rdma-core providers/mlx5/cq.c fills opcode 15).
  abi::CompletionEntry none{};
  none.op_own = static_cast<std::uint8_t>(abi::CompletionOpcode::kInvalid) << 4 | 1;
  for (std::size_t i = 0; i < count; ++i) {
    places_.push_back(place_of(i, count, depth_));
    options.memory.upload(slab_ + places_[i].completion, &none, sizeof(none));
    created_.push_back(nic_.create_queue(places_[i]));
  }
}

/// Every PE tells every other one about its queue: blobs of size() x per_pe, by target.
void QueueSet::connect(const QueueSetOptions& options) {
  bootstrap::Bootstrap& boot = options.boot;
  const auto n = static_cast<std::size_t>(boot.size());
  remote_keys_ = bootstrap::allgather(boot, keys_.remote);
  std::vector<ConnectInfo> mine(n * per_pe_), all(n * n * per_pe_);
  for (std::size_t i = 0; i < created_.size(); ++i) {
    const auto pe = static_cast<std::size_t>(options.peers[i / per_pe_]);
    mine[pe * per_pe_ + i % per_pe_] = nic_.connect_info(static_cast<int>(i));
  }
  boot.allgather(mine.data(), all.data(), mine.size() * sizeof(ConnectInfo));
  for (std::size_t i = 0; i < created_.size(); ++i) {
    const int pe = options.peers[i / per_pe_];
    const auto from = static_cast<std::size_t>(pe), me = static_cast<std::size_t>(boot.rank());
    nic_.connect(static_cast<int>(i), pe, all[(from * n + me) * per_pe_ + i % per_pe_],
                 remote_keys_[from]);
  }
  boot.barrier();  // nobody posts to a queue whose other end is not connected yet
  nic_.start();
}

std::uint64_t* QueueSet::reachable(const MemorySource& memory, std::uint64_t* doorbell) {
  const Region block = nic_.doorbell_block();
  const auto address = reinterpret_cast<std::uintptr_t>(doorbell);
  const bool in_block = block.base != nullptr;
  const std::uintptr_t page =
      in_block ? reinterpret_cast<std::uintptr_t>(block.base) : address / kPage * kPage;
  auto found = mapped_.find(page);
  if (found == mapped_.end()) {
    void* device =
        memory.map_registers(reinterpret_cast<void*>(page), in_block ? block.bytes : kPage);
    found = mapped_.emplace(page, static_cast<char*>(device)).first;
  }
  return reinterpret_cast<std::uint64_t*>(found->second + (address - page));
}

/// Device code rings the registers themselves, or words that the agent forwards to them.
void QueueSet::make_doorbells(const QueueSetOptions& options) {
  const std::string& mode = options.config.doorbell;
  bool agent = mode == "agent" || std::any_of(created_.begin(), created_.end(), [](auto& queue) {
                 return queue.kind == DoorbellKind::kHostWord;
               });
  if (!agent) {
    try {
      for (const CreatedQueue& queue : created_) {
        doorbells_.push_back(reachable(options.memory, queue.doorbell));
      }
      return;
    } catch (const Error& error) {
      if (mode == "gpu") throw;
      GSHMEM_INFO("a host thread rings the doorbells: %s", error.what());
    }
  }
  require(
      mode != "gpu", GSHMEMX_ERROR_NOT_SUPPORTED,
      "GSHMEM_DOORBELL=gpu: this NIC gives no doorbell register that a GPU may write; use agent");
  doorbells_.clear();
  auto* words = static_cast<AgentWord*>(
      options.memory.shared(std::max<std::size_t>(created_.size(), 1) * sizeof(AgentWord)));
  std::vector<Agent::Route> routes;
  for (std::size_t i = 0; i < created_.size(); ++i) {
    doorbells_.push_back(&words[i].value);
    routes.push_back({&words[i].value, created_[i].doorbell});
  }
  agent_ = std::make_unique<Agent>(std::move(routes));
}

void QueueSet::publish(const QueueSetOptions& options) {
  const MemorySource& memory = options.memory;
  const auto n = static_cast<std::size_t>(options.boot.size());
  const std::size_t total = n * per_pe_;
  const Nic::Limits limits = nic_.limits();
  auto* cursors = static_cast<abi::QueueCursor*>(
      memory.device(std::max<std::size_t>(created_.size(), 1) * sizeof(abi::QueueCursor)));
  std::vector<abi::QueueView> views(total);
  for (std::size_t i = 0; i < created_.size(); ++i) {
    const auto pe = static_cast<std::size_t>(options.peers[i / per_pe_]);
    const std::size_t index = pe * per_pe_ + i % per_pe_;
    abi::QueueView& view = views[index];
    view.entries = slab_ + places_[i].entries;
    view.doorbell = doorbells_[i];
    view.send_record = reinterpret_cast<abi::Be32*>(slab_ + places_[i].record +
                                                    offsetof(abi::DoorbellRecord, send));
    view.completion = reinterpret_cast<const abi::Be32*>(slab_ + places_[i].completion +
                                                         abi::kCompletionWordOffset);
    view.cursor = &cursors[i];
    view.depth = depth_;
    view.batch = std::min(kMaxBatch, depth_ / 4);
    view.number = created_[i].number;
    view.local_key = abi::Be32(keys_.local);
    view.remote_key = abi::Be32(remote_keys_[pe]);
    view.pe = static_cast<std::int32_t>(pe);
    view.index = static_cast<std::uint32_t>(index);
    view.memory = memory_;
  }
  void* device_views = memory.device(total * sizeof(abi::QueueView));
  memory.upload(device_views, views.data(), total * sizeof(abi::QueueView));
  view_.queues = static_cast<const abi::QueueView*>(device_views);
  view_.used = static_cast<std::uint32_t*>(memory.device((total + 31) / 32 * 4));
  view_.per_pe = per_pe_;
  view_.count = static_cast<std::uint32_t>(total);
  view_.map = map_from(options.config.qp_map);
  view_.flags = limits.flags;
  view_.max_message = limits.max_message;
  view_.max_inline = limits.max_inline;
}

}  // namespace gshmem::nic
