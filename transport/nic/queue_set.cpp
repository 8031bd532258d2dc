#include "transport/nic/queue_set.h"

#include "bootstrap/bootstrap.h"
#include "host/base/log.h"

#include <algorithm>
#include <bit>
#include <set>

namespace gshmem::nic {
namespace {

constexpr std::uint64_t kPage = 4096;
/// Records on lines of their own.
constexpr std::uint64_t kRecordStep = 128;

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

QueueSet::QueueSet(Rails& rails, const QueueSetOptions& options)
    : rails_(rails),
      config_(options.config),
      source_(options.memory),
      heap_(options.heap),
      peers_(options.peers),
      n_pes_(static_cast<std::size_t>(options.boot.size())),
      depth_(std::bit_ceil(static_cast<std::uint32_t>(options.config.qp_depth))),
      memory_(options.config.queue_memory == "gpu" ? abi::QueueMemory::kGpu
                                                   : abi::QueueMemory::kHost) {
  begin({default_queues(rails_.count(), options.config.qps_per_pe)});
  for (int rail = 0; rail < rails_.count(); ++rail) {
    const Keys keys = rails_[rail].register_memory(heap_);
    keys_.local[static_cast<std::size_t>(rail)] = keys.local;
    keys_.remote[static_cast<std::size_t>(rail)] = keys.remote;
  }
  create();
  make_doorbells();
  all_keys_ = bootstrap::allgather(options.boot, keys_);
  exchange(options.boot);
  connect_batch();
  options.boot.barrier();  // nobody posts to a queue whose other end is not connected yet
  rails_.start();
  const std::vector<abi::QueueView> views = views_of(0, batch_.per_pe);
  view_ = publish(views, make_cursors(views.size()), abi::QueueKind::kShared);
  view_.rails = static_cast<std::uint32_t>(rails_.count());
  view_.map = map_from(config_.qp_map);
}

void QueueSet::create_more(std::uint32_t contexts) {
  std::vector<QueueRails> more;
  for (std::uint32_t i = 0; i < contexts; ++i) {
    more.push_back(context_queues(rails_.count(), contexts_++));
  }
  begin(std::move(more));
  create();
  make_doorbells();
}

std::vector<ContextQueues> QueueSet::connect() {
  connect_batch();
  rails_.start();
  std::vector<ContextQueues> made;
  std::size_t nth = 0;
  for (const QueueRails& queues : batch_.contexts) {
    made.push_back(publish_context(nth, queues.size()));
    nth += queues.size();
  }
  return made;
}

Region QueueSet::allocate(Batch& batch, std::uint64_t bytes) {
  if (memory_ == abi::QueueMemory::kHost) {
    batch.slab = static_cast<char*>(source_.shared(bytes));
    return {batch.slab, bytes, MemoryKind::kHost, -1};
  }
  require(heap_.kind == MemoryKind::kGpu, GSHMEMX_ERROR_NOT_SUPPORTED,
          "GSHMEM_QUEUE_MEMORY=gpu: the PEs run in CPU mode; use host");
  const auto raw = reinterpret_cast<std::uintptr_t>(source_.device(bytes + abi::kGpuPageBytes));
  batch.slab = reinterpret_cast<char*>((raw + abi::kGpuPageBytes - 1) / abi::kGpuPageBytes *
                                       abi::kGpuPageBytes);
  return {batch.slab, bytes, MemoryKind::kGpu, heap_.gpu};
}

/// Memory for a new batch.
void QueueSet::begin(std::vector<QueueRails> contexts) {
  batch_ = {};
  for (const QueueRails& queues : contexts) {
    batch_.rails.insert(batch_.rails.end(), queues.begin(), queues.end());
  }
  batch_.contexts = std::move(contexts);
  batch_.per_pe = batch_.rails.size();
  const Region memory = allocate(batch_, slab_bytes(peers_.size() * batch_.per_pe, depth_));
  for (const int rail : std::set<int>(batch_.rails.begin(), batch_.rails.end())) {
    rails_[rail].use_queue_memory(memory);
  }
}

void QueueSet::create() {
  const std::size_t count = peers_.size() * batch_.per_pe;
  // As after reset: no completion yet (rdma-core providers/mlx5/cq.c fills opcode 15).
  abi::CompletionEntry none{};
  none.op_own = static_cast<std::uint8_t>(abi::CompletionOpcode::kInvalid) << 4 | 1;
  for (std::size_t i = 0; i < count; ++i) {
    batch_.places.push_back(place_of(i, count, depth_));
    source_.upload(batch_.slab + batch_.places[i].completion, &none, sizeof(none));
    batch_.created.push_back(nic_of(i).create_queue(batch_.places[i]));
    batch_.numbers.push_back(queues_[static_cast<std::size_t>(rail_of(i))]++);
  }
}

/// Every PE tells each other one about its queues to that one.
void QueueSet::exchange(bootstrap::Bootstrap& boot) {
  const std::size_t per_pe = batch_.per_pe;
  std::vector<ConnectInfo> mine(n_pes_ * per_pe), theirs(mine.size());
  const auto at = [&](std::size_t i) {  // of the batch, in both
    return static_cast<std::size_t>(peers_[i / per_pe]) * per_pe + i % per_pe;
  };
  for (std::size_t i = 0; i < batch_.created.size(); ++i)
    mine[at(i)] = nic_of(i).connect_info(batch_.numbers[i]);
  boot.alltoall(mine.data(), theirs.data(), per_pe * sizeof(ConnectInfo));
  batch_.theirs.clear();
  for (std::size_t i = 0; i < batch_.created.size(); ++i) batch_.theirs.push_back(theirs[at(i)]);
}

void QueueSet::connect_batch() {
  for (std::size_t i = 0; i < batch_.created.size(); ++i) {
    const int pe = peers_[i / batch_.per_pe];
    const RailKeys& keys = all_keys_[static_cast<std::size_t>(pe)];
    nic_of(i).connect(batch_.numbers[i], pe, batch_.theirs[i],
                      keys.remote[static_cast<std::size_t>(rail_of(i))]);
  }
}

std::uint64_t* QueueSet::reachable(const Nic& nic, std::uint64_t* doorbell) {
  const Region block = nic.doorbell_block();
  const auto address = reinterpret_cast<std::uintptr_t>(doorbell);
  const bool in_block = block.base != nullptr;
  const std::uintptr_t page =
      in_block ? reinterpret_cast<std::uintptr_t>(block.base) : address / kPage * kPage;
  auto found = mapped_.find(page);
  if (found == mapped_.end()) {
    const MappedRegisters mapped =
        source_.map_registers(reinterpret_cast<void*>(page), in_block ? block.bytes : kPage);
    found = mapped_.emplace(page, static_cast<char*>(mapped.address)).first;
    bells_need_order_ = bells_need_order_ || mapped.needs_order;
  }
  return reinterpret_cast<std::uint64_t*>(found->second + (address - page));
}

void QueueSet::map_doorbells() {
  batch_.doorbells.clear();
  for (std::size_t i = 0; i < batch_.created.size(); ++i) {
    batch_.doorbells.push_back(reachable(nic_of(i), batch_.created[i].doorbell));
  }
}

/// Device code rings the registers themselves, or words that the agent forwards to them.
void QueueSet::make_doorbells() {
  const std::string& mode = config_.doorbell;
  const auto& created = batch_.created;
  bool agent = agent_ || mode == "agent" ||
               std::any_of(created.begin(), created.end(),
                           [](auto& queue) { return queue.kind == DoorbellKind::kHostWord; });
  if (!agent) {
    try {
      return map_doorbells();
    } catch (const Error& error) {
      if (mode == "gpu") throw;
      GSHMEM_INFO("a host thread rings the doorbells: %s", error.what());
    }
  }
  require(
      mode != "gpu", GSHMEMX_ERROR_NOT_SUPPORTED,
      "GSHMEM_DOORBELL=gpu: this NIC gives no doorbell register that a GPU may write; use agent");
  batch_.doorbells.clear();
  auto* words = static_cast<AgentWord*>(
      source_.shared(std::max<std::size_t>(created.size(), 1) * sizeof(AgentWord)));
  std::vector<Agent::Route> routes;
  for (std::size_t i = 0; i < created.size(); ++i) {
    batch_.doorbells.push_back(&words[i].value);
    routes.push_back({&words[i].value, created[i].doorbell});
  }
  if (agent_) {
    agent_->add(routes);
  } else {
    agent_ = std::make_unique<Agent>(std::move(routes));
  }
}

/// Queue `i` of the batch, all but its place among the others of its context.
abi::QueueView QueueSet::view_of(std::size_t i) const {
  const auto pe = static_cast<std::size_t>(peers_[i / batch_.per_pe]);
  const QueuePlace& place = batch_.places[i];
  abi::QueueView view;
  view.entries = batch_.slab + place.entries;
  view.doorbell = batch_.doorbells[i];
  view.send_record = reinterpret_cast<abi::Be32*>(batch_.slab + place.record +
                                                  offsetof(abi::DoorbellRecord, send));
  view.completion = reinterpret_cast<const abi::Be32*>(batch_.slab + place.completion +
                                                       abi::kCompletionWordOffset);
  view.number = batch_.created[i].number;
  const auto rail = static_cast<std::size_t>(rail_of(i));
  view.local_key = abi::Be32(keys_.local[rail]);
  view.remote_key = abi::Be32(all_keys_[pe].remote[rail]);
  view.pe = static_cast<std::int32_t>(pe);
  return view;
}

/// How the doorbells of the batch are rung.
abi::Bell QueueSet::bell(const Nic::Limits& limits) const {
  if (!(limits.flags & abi::kNicReadsRecord)) return abi::Bell::kWord;
  return agent_ || bells_need_order_ ? abi::Bell::kRecordWord : abi::Bell::kRegister;
}

/// Cursors of so many queues.
abi::QueueCursor* QueueSet::make_cursors(std::size_t count) {
  return static_cast<abi::QueueCursor*>(source_.device(count * sizeof(abi::QueueCursor)));
}

/// The queues of a context, `views.size() / n_pes` to each PE, where device code finds them.
abi::NicView QueueSet::publish(const std::vector<abi::QueueView>& views, abi::QueueCursor* cursors,
                               abi::QueueKind kind) {
  const std::size_t total = views.size();
  std::vector<abi::QueueView> indexed = views;
  for (std::size_t i = 0; i < total; ++i) {
    indexed[i].index = static_cast<std::uint32_t>(i);
    indexed[i].cursor = &cursors[i];
  }
  const Nic::Limits limits = rails_.limits();
  void* device_views = source_.device(total * sizeof(abi::QueueView));
  source_.upload(device_views, indexed.data(), total * sizeof(abi::QueueView));
  abi::NicView view;
  view.queues = static_cast<const abi::QueueView*>(device_views);
  view.cursors = cursors;
  view.used = static_cast<std::uint32_t*>(source_.device((total + 31) / 32 * 4));
  view.per_pe = static_cast<std::uint32_t>(total / n_pes_);
  view.count = static_cast<std::uint32_t>(total);
  view.flags = limits.flags | (rails_.count() > 1 ? abi::kNicFlush : 0u);
  view.max_message = limits.max_message;
  view.traits = abi::QueueTraits::of({.depth = depth_,
                                      .batch = abi::batch_of(depth_),
                                      .memory = memory_,
                                      .kind = kind,
                                      .bell = bell(limits)});
  return view;
}

std::vector<abi::QueueView> QueueSet::views_of(std::size_t nth, std::size_t count) const {
  std::vector<abi::QueueView> views(n_pes_ * count);
  for (std::size_t peer = 0; peer < peers_.size(); ++peer) {
    const auto pe = static_cast<std::size_t>(peers_[peer]);
    for (std::size_t i = 0; i < count; ++i) {
      views[pe * count + i] = view_of(peer * batch_.per_pe + nth + i);
    }
  }
  return views;
}

/// Both views are of the same queues, and share the note of which were used.
ContextQueues QueueSet::publish_context(std::size_t nth, std::size_t count) {
  const std::vector<abi::QueueView> views = views_of(nth, count);
  ContextQueues queues;
  abi::QueueCursor* cursors = make_cursors(views.size());
  queues.shared = publish(views, cursors, abi::QueueKind::kShared);
  queues.exclusive = publish(views, cursors, abi::QueueKind::kExclusive);
  queues.exclusive.used = queues.shared.used;
  queues.shared.rails = static_cast<std::uint32_t>(count);
  queues.shared.map = static_cast<abi::QueueMap>(count - 1);  // the last one, for every caller
  // A quiet posts where it has to flush. The thread that waits for all contexts is not the one that
  // may.
  queues.exclusive.rails = 1;
  queues.exclusive.flags &= ~static_cast<std::uint32_t>(abi::kNicFlush);
  queues.exclusive.map = abi::QueueMap::kPe;
  return queues;
}

}  // namespace gshmem::nic
