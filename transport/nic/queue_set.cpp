#include "transport/nic/queue_set.h"

#include <gshmem/abi/state.h>

#include "host/base/collectives.h"
#include "host/base/log.h"
#include "host/base/random.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <set>
#include <utility>

namespace gshmem::nic {
namespace {

/// The sizes of a queue's parts in their slab.
constexpr std::uint64_t kPage = 4096;
/// Each record has a cache line of its own.
constexpr std::uint64_t kRecordStep = 128;

std::uint64_t rounded(std::uint64_t bytes, std::uint64_t page) {
  return (bytes + page - 1) / page * page;
}

/// Computes where the parts of `count` queues are in their slab, from `begin` on.
class Places {
 public:
  Places(std::uint64_t begin, std::size_t count, std::uint32_t depth)
      : begin_(begin), count_(count), depth_(depth) {}
  [[nodiscard]] QueuePlace operator[](std::size_t i) const {
    QueuePlace place;
    place.depth = depth_;
    place.entries = begin_ + i * entries_bytes();
    place.completion = begin_ + count_ * entries_bytes() + i * kPage;
    place.record = begin_ + count_ * (entries_bytes() + kPage) + i * kRecordStep;
    place.cq_record = place.record + sizeof(abi::DoorbellRecord);
    return place;
  }
  [[nodiscard]] std::uint64_t end() const {
    const std::uint64_t bytes = count_ * (entries_bytes() + kPage + kRecordStep);
    return begin_ + rounded(bytes, kPage);
  }

 private:
  [[nodiscard]] std::uint64_t entries_bytes() const {
    return std::uint64_t{depth_} * abi::kWqebbBytes;
  }
  std::uint64_t begin_;
  std::size_t count_;
  std::uint32_t depth_;
};

}  // namespace

void require_dynamic(const Config& config, const Rails& rails) {
  const auto need = [](bool good, const std::string& why) {
    require(good, GSHMEMX_ERROR_CONFIG, "GSHMEM_CONNECT=dc: " + why);
  };
  need(rails.limits().dynamic, std::string(rails.name()) +
                                   " has no dynamic connections; use GSHMEM_NIC=mlx5, or "
                                   "GSHMEM_CONNECT=init");
  need(rails.count() == 1, strprintf("a PE has one NIC, and here it has %d; use "
                                     "GSHMEM_NICS_PER_PE=1, or GSHMEM_CONNECT=init",
                                     rails.count()));
  need(!config.ib_relaxed_ordering && config.quiet != QuietChoice::kVisible,
       "no quiet waits until all PEs that map the data see it; unset GSHMEM_IB_RELAXED_ORDERING "
       "and GSHMEM_QUIET, or use GSHMEM_CONNECT=init");
}

QueueSet::QueueSet(Rails& rails, const QueueSetOptions& options)
    : rails_(rails),
      config_(options.config),
      source_(options.memory),
      heap_(options.heap),
      peers_(options.peers),
      n_pes_(static_cast<std::size_t>(options.boot.size())),
      my_pe_(options.boot.rank()),
      flags_(options.flags),
      depth_(std::bit_ceil(static_cast<std::uint32_t>(options.config.qp_depth))),
      memory_(choose_memory()),
      keys_(rails),
      on_first_use_(options.config.connect == ConnectChoice::kUse && rails_.limits().first_use),
      dynamic_(options.config.connect == ConnectChoice::kDc) {
  if (dynamic_) require_dynamic(config_, rails_);
  keys_.register_heap(heap_, peers_, options.only_atomics);
  if (dynamic_) make_targets(options.boot);
  make_batches({default_queues(rails_.count(), options.config)});
  keys_.exchange(options.boot);
  exchange(options.boot);
  if (on_first_use_) {
    const Pair self{0, my_pe_};
    connect(self, create(self));
    release(self);
  } else {
    connect_all(batches_.at(0));
  }
  options.boot.barrier();  // no PE posts to a queue whose other end is not connected yet
  rails_.start();
  options.boot.barrier();
  rails_.all_started();
  cursors_ = make_cursors((dynamic_ ? 1 : n_pes_) * batches_.at(0).rails.size());
  publish_default();
}

/// Makes the target of this PE, whose key PE 0 has chosen, and the vectors to those of all PEs.
void QueueSet::make_targets(Collectives& boot) {
  Nic& nic = rails_[0];
  const std::uint64_t key = allgather(boot, random_bits<std::uint64_t>()).front();
  const std::vector<ConnectInfo> targets = allgather(boot, nic.make_target(key));
  std::vector<abi::AddressVector> vectors(n_pes_);
  for (const int pe : peers_) {
    const auto at = static_cast<std::size_t>(pe);
    vectors[at] = nic.vector_to(pe, targets[at]);
  }
  void* const here = source_.device(n_pes_ * sizeof(vectors[0]));
  source_.upload(here, vectors.data(), n_pes_ * sizeof(vectors[0]));
  vectors_ = static_cast<const abi::AddressVector*>(here);
}

void QueueSet::publish_default() {
  std::uint32_t* const used = view_.used;
  const Batch& batch = batches_.at(0);
  view_ = publish(batch, views_of(batch, 0, batch.rails.size()), cursors_);
  view_.rails = static_cast<std::uint32_t>(rails_.count());
  view_.map = config_.qp_map;
  abi::choose_way(view_);
  if (used != nullptr) view_.used = used;  // the first entry of a queue is noted only once
}

std::vector<std::uint32_t> QueueSet::one_by_each_nic() const {
  std::set<const Nic*> seen;
  std::vector<std::uint32_t> found;
  const Batch& batch = batches_.at(0);
  const std::size_t per_pe = batch.rails.size();
  for (std::size_t i = 0; i < batch.queues.size(); ++i) {
    const Queue& queue = batch.queues[i];
    if (queue.own.number < 0 || !seen.insert(queue.own.nic).second) continue;
    const std::size_t pe = dynamic_ ? 0 : static_cast<std::size_t>(queue.pe);
    found.push_back(static_cast<std::uint32_t>(pe * per_pe + i % per_pe));
  }
  return found;
}

void QueueSet::ring_by_agent() {
  make_agent_words(batches_.at(0));
  publish_default();
}

void QueueSet::create_more(std::uint32_t contexts) {
  std::vector<QueueRails> more;
  for (std::uint32_t i = 0; i < contexts; ++i) {
    more.push_back(context_queues(rails_.count(), contexts_ - 1 + static_cast<int>(i)));
  }
  const std::lock_guard lock(mutex_);
  make_batches(std::move(more));
}

/// Lays out the queues of contexts, which have the next numbers on every PE. They form one batch,
/// or, with connections on first use, one batch per context.
void QueueSet::make_batches(std::vector<QueueRails> contexts) {
  first_new_ = contexts_;
  contexts_ += static_cast<int>(contexts.size());
  if (!on_first_use_) return create_all(batches_[first_new_] = lay_out(std::move(contexts)));
  for (std::size_t i = 0; i < contexts.size(); ++i)
    reserve_all(batches_[first_new_ + static_cast<int>(i)] = lay_out({contexts[i]}));
}

std::vector<ContextQueues> QueueSet::connect() {
  const std::lock_guard lock(mutex_);
  if (!on_first_use_) {
    connect_all(batches_.at(first_new_));
    rails_.start();
  }
  std::vector<ContextQueues> made;
  for (auto each = batches_.find(first_new_); each != batches_.end(); ++each) {
    std::size_t nth = 0;
    for (const QueueRails& queues : each->second.contexts) {
      made.push_back(publish_context(each->second, nth, queues.size()));
      nth += queues.size();
    }
  }
  return made;
}

std::span<QueueSet::Queue> QueueSet::queues_of(const Pair& pair) {
  const auto peer = std::ranges::lower_bound(peers_, pair.pe);
  require(peer != peers_.end() && *peer == pair.pe && batches_.count(pair.context) != 0,
          GSHMEMX_ERROR_INTERNAL,
          strprintf("no queues of context %d to PE %d", pair.context, pair.pe));
  return batch_of(pair).to(static_cast<std::size_t>(peer - peers_.begin()));
}

std::vector<QueueSet::Pair> QueueSet::asked() {
  const std::lock_guard lock(mutex_);
  std::vector<Pair> found;
  for (const auto& [context, batch] : batches_) {
    const std::size_t per_pe = batch.rails.size();
    for (const int pe : peers_) {
      const abi::FirstUse* const uses = batch.first_use + static_cast<std::size_t>(pe) * per_pe;
      if (std::any_of(uses, uses + per_pe, [](const abi::FirstUse& use) {
            return use.number == 0 && __atomic_load_n(&use.asked, __ATOMIC_RELAXED) != 0;
          }))
        found.push_back({context, pe});
    }
  }
  return found;
}

QueueSet::QueueInfos QueueSet::create(const Pair& pair) {
  const std::lock_guard lock(mutex_);
  const std::span<Queue> queues = queues_of(pair);
  create(batch_of(pair), queues);
  return infos_of(queues);
}

void QueueSet::connect(const Pair& pair, const QueueInfos& theirs) {
  const std::lock_guard lock(mutex_);
  const std::span<const Queue> queues = queues_of(pair);
  require(theirs.size() == queues.size(), GSHMEMX_ERROR_INTERNAL,
          strprintf("it describes %zu queues instead of %zu", theirs.size(), queues.size()));
  connect(queues, theirs);
}

void QueueSet::release(const Pair& pair) {
  const std::lock_guard lock(mutex_);
  const std::span<Queue> queues = queues_of(pair);
  abi::FirstUse* const uses =
      batch_of(pair).first_use + static_cast<std::size_t>(pair.pe) * queues.size();
  // Release pairs with queue_connect (device/network/queue.h).
  for (std::size_t i = 0; i < queues.size(); ++i)
    __atomic_store_n(&uses[i].number, queues[i].own.created.number, __ATOMIC_RELEASE);
}

/// Chooses the memory of queues: GPU memory, which is near the code that posts and polls, if every
/// NIC can use it.
abi::QueueMemory QueueSet::choose_memory() {
  const QueueMemoryChoice choice = config_.queue_memory;
  if (choice == QueueMemoryChoice::kHost) return abi::QueueMemory::kHost;
  if (choice == QueueMemoryChoice::kGpu) return abi::QueueMemory::kGpu;
  if (heap_.kind != MemoryKind::kGpu) return abi::QueueMemory::kHost;
  try {
    const Region sample = allocate(abi::QueueMemory::kGpu, abi::kGpuPageBytes);
    for (Nic* nic : rails_.all()) nic->use_queue_memory(sample);
    return abi::QueueMemory::kGpu;
  } catch (const Error& error) {
    GSHMEM_INFO("work queues are in host memory: %s", error.what());
    return abi::QueueMemory::kHost;
  }
}

/// The size is a multiple of the page sizes of host and GPU, so that the memory can be exported and
/// registered.
Region QueueSet::allocate(abi::QueueMemory memory, std::uint64_t bytes) {
  if (memory == abi::QueueMemory::kHost) {
    bytes = rounded(bytes, source_.page_bytes);
    return {source_.shared(bytes), bytes, MemoryKind::kHost, -1};
  }
  require(heap_.kind == MemoryKind::kGpu, GSHMEMX_ERROR_NOT_SUPPORTED,
          "GSHMEM_QUEUE_MEMORY=gpu: the PEs run in CPU mode; use host");
  const std::uint64_t page = std::max<std::uint64_t>(abi::kGpuPageBytes, source_.page_bytes);
  bytes = rounded(bytes, page);
  const auto raw = reinterpret_cast<std::uintptr_t>(source_.device(bytes + page));
  return {reinterpret_cast<void*>(rounded(raw, page)), bytes, MemoryKind::kGpu, heap_.gpu};
}

/// Lays out a batch of which nothing is created yet: its queues, their NICs and their positions.
QueueSet::Batch QueueSet::lay_out(std::vector<QueueRails> contexts) const {
  Batch batch;
  for (const QueueRails& queues : contexts) {
    batch.rails.insert(batch.rails.end(), queues.begin(), queues.end());
  }
  batch.contexts = std::move(contexts);
  std::size_t answering = 0;
  if (dynamic_ && !peers_.empty()) {
    for (const int rail : batch.rails)
      batch.queues.push_back(Queue{-1, rail, {&rails_[rail], {}}, {}});
  }
  for (const int pe : dynamic_ ? std::vector<int>{} : peers_) {
    for (const int rail : batch.rails) {
      Queue& queue = batch.queues.emplace_back(Queue{pe, rail, {&rails_.to(pe, rail), {}}, {}});
      if (!is_answered_apart(pe, rail)) continue;
      queue.answering = End{&rails_[rail], {}};
      ++answering;
    }
  }
  const Places places(0, batch.queues.size(), depth_);
  const Places answering_places(places.end(), answering, abi::kMinQueueDepth);
  std::size_t next = 0;
  for (std::size_t i = 0; i < batch.queues.size(); ++i) {
    Queue& queue = batch.queues[i];
    queue.own.place = places[i];
    if (queue.answering) queue.answering->place = answering_places[next++];
  }
  batch.memory.bytes = answering_places.end();
  return batch;
}

void QueueSet::create_end(const Batch& batch, End& end) {
  use_memory(*end.nic, batch);
  if (memory_ == abi::QueueMemory::kHost) prepare(batch, end);
  end.number = made_[end.nic]++;
  end.created = end.nic->create_queue(end.place);
}

void QueueSet::create(const Batch& batch, std::span<Queue> queues) {
  // Queues that are posted to are created first: the first ones of a Nic get registers of their
  // own.
  for (Queue& queue : queues) create_end(batch, queue.own);
  for (Queue& queue : queues)
    if (queue.answering) create_end(batch, *queue.answering);
}

void QueueSet::use_memory(Nic& nic, const Batch& batch) {
  const void*& used = memory_used_[&nic];
  if (std::exchange(used, batch.memory.base) != batch.memory.base)
    nic.use_queue_memory(batch.memory);
}

/// Initializes a queue's completion entry: no completion has arrived.
void QueueSet::prepare(const Batch& batch, const End& end) {
  const abi::CompletionEntry none = no_completion();
  void* const completion = batch.slab() + end.place.completion;
  if (memory_ == abi::QueueMemory::kGpu) return source_.upload(completion, &none, sizeof(none));
  std::memcpy(completion, &none, sizeof(none));
}

/// Allocates the memory of the batch and maps it for every Nic. GPU memory is initialized now, and
/// not when the queues are created: by then a kernel may block every copy while it waits for one of
/// them. Host pages are not touched, and take no memory, until their queue is created.
void QueueSet::give_memory(Batch& batch) {
  batch.memory = allocate(memory_, batch.memory.bytes);
  for (const Queue& queue : batch.queues) {
    use_memory(*queue.own.nic, batch);
    use_memory(rails_[queue.rail], batch);
    if (memory_ == abi::QueueMemory::kHost) continue;
    prepare(batch, queue.own);
    if (queue.answering) prepare(batch, *queue.answering);
  }
}

/// Creates the queues of the batch to all peers.
void QueueSet::create_all(Batch& batch) {
  give_memory(batch);
  create(batch, batch.queues);
  make_doorbells(batch);
}

/// Reserves everything for queues of the batch that cannot be obtained while kernels run.
void QueueSet::reserve_all(Batch& batch) {
  give_memory(batch);
  for (Queue& queue : batch.queues)
    queue.own.created.doorbell = queue.own.place.doorbell = queue.own.nic->next_doorbell();
  make_doorbells(batch);
  batch.first_use = static_cast<abi::FirstUse*>(
      source_.shared(n_pes_ * batch.rails.size() * sizeof(abi::FirstUse)));
}

QueueSet::QueueInfos QueueSet::infos_of(std::span<const Queue> queues) const {
  QueueInfos infos;
  for (const Queue& queue : queues) {
    const auto info = [](const End& end) { return end.nic->connect_info(end.number); };
    infos.push_back({info(queue.answering ? *queue.answering : queue.own), info(queue.own)});
  }
  return infos;
}

/// Every PE sends each peer the information about its queues to that peer. If a connection goes one
/// way, the requesting end of one PE is connected to the answering end of the other PE.
void QueueSet::exchange(Collectives& boot) {
  if (on_first_use_ || dynamic_) return;
  Batch& batch = batches_.at(first_new_);
  const std::size_t per_pe = batch.rails.size(), ends = rails_.any_one_way() ? 2 : 1;
  std::vector<ConnectInfo> mine(n_pes_ * per_pe * ends), theirs(mine.size());
  const auto at = [&](std::size_t peer, std::size_t i) {  // index into `mine` and `theirs`
    return (static_cast<std::size_t>(peers_[peer]) * per_pe + i) * ends;
  };
  theirs_.clear();
  for (std::size_t peer = 0; peer < peers_.size(); ++peer) {
    theirs_.push_back(infos_of(batch.to(peer)));
    for (std::size_t i = 0; i < per_pe; ++i) {
      mine[at(peer, i)] = theirs_[peer][i].answers;
      mine[at(peer, i) + ends - 1] = ends == 2 ? theirs_[peer][i].asks : theirs_[peer][i].answers;
    }
  }
  boot.alltoall(mine.data(), theirs.data(), per_pe * ends * sizeof(ConnectInfo));
  for (std::size_t peer = 0; peer < peers_.size(); ++peer) {
    // The two ends of the queue to this PE are connected to each other.
    if (peers_[peer] == my_pe_) continue;
    for (std::size_t i = 0; i < per_pe; ++i)
      theirs_[peer][i] = {theirs[at(peer, i)], theirs[at(peer, i) + ends - 1]};
  }
}

void QueueSet::connect(std::span<const Queue> queues, const QueueInfos& theirs) {
  for (std::size_t i = 0; i < queues.size(); ++i) {
    const Queue& queue = queues[i];
    const End& own = queue.own;
    own.nic->connect(own.number, queue.pe, theirs[i].answers,
                     keys_.remote(queue.pe, queue.rail).payload);
    if (!queue.answering) continue;
    queue.answering->nic->connect(queue.answering->number, queue.pe, theirs[i].asks, 0);
  }
}

void QueueSet::connect_all(Batch& batch) {
  if (dynamic_) return;
  for (std::size_t peer = 0; peer < peers_.size(); ++peer) connect(batch.to(peer), theirs_[peer]);
}

std::uint64_t* QueueSet::reachable(const Nic& nic, std::uint64_t* doorbell) {
  const Region block = nic.doorbell_block();
  const auto address = reinterpret_cast<std::uintptr_t>(doorbell);
  const bool in_block = block.base != nullptr;
  const std::uintptr_t page = in_block ? reinterpret_cast<std::uintptr_t>(block.base)
                                       : address / source_.page_bytes * source_.page_bytes;
  auto found = mapped_.find(page);
  if (found == mapped_.end()) {
    const MappedRegisters mapped = source_.map_registers(
        reinterpret_cast<void*>(page), in_block ? block.bytes : source_.page_bytes);
    found = mapped_.emplace(page, static_cast<char*>(mapped.address)).first;
    bells_need_order_ = bells_need_order_ || mapped.needs_order;
  }
  return reinterpret_cast<std::uint64_t*>(found->second + (address - page));
}

void QueueSet::map_doorbells(Batch& batch) {
  for (const Queue& queue : batch.queues)
    batch.doorbells.push_back(reachable(*queue.own.nic, queue.own.created.doorbell));
}

/// Makes the addresses by which device code rings: the registers themselves, or words that the
/// agent forwards.
void QueueSet::make_doorbells(Batch& batch) {
  if (!agent_ && config_.doorbell != DoorbellChoice::kAgent) {
    try {
      return map_doorbells(batch);
    } catch (const Error& error) {
      if (config_.doorbell == DoorbellChoice::kGpu) throw;
      GSHMEM_INFO("a host thread rings the doorbells: %s", error.what());
    }
  }
  make_agent_words(batch);
}

void QueueSet::make_agent_words(Batch& batch) {
  const auto& queues = batch.queues;
  batch.doorbells.clear();
  auto* words = static_cast<AgentWord*>(
      source_.shared(std::max<std::size_t>(queues.size(), 1) * sizeof(AgentWord)));
  std::vector<Agent::Route> routes;
  for (std::size_t i = 0; i < queues.size(); ++i) {
    batch.doorbells.push_back(&words[i].value);
    routes.push_back({&words[i].value, queues[i].own.created.doorbell});
  }
  if (agent_) {
    agent_->add(routes);
  } else {
    agent_ = std::make_unique<Agent>(std::move(routes));
  }
}

/// Returns the view of queue `i` of the batch to PE `pe`, without its number within its context.
abi::QueueView QueueSet::view_of(const Batch& batch, std::size_t i, int pe) const {
  const Queue& queue = batch.queues[i];
  const End& end = queue.own;
  const QueuePlace& place = end.place;
  abi::QueueView view;
  view.entries = batch.slab() + place.entries;
  view.doorbell = batch.doorbells[i];
  view.send_record = reinterpret_cast<abi::Be32*>(batch.slab() + place.record +
                                                  offsetof(abi::DoorbellRecord, send));
  view.completion = reinterpret_cast<const abi::Be32*>(batch.slab() + place.completion +
                                                       abi::kCompletionWordOffset);
  view.number = end.created.number;
  view.local_key = abi::Be32(keys_.local(*end.nic));
  const MemoryKeys::Remote keys = keys_.remote(pe, queue.rail);
  view.remote_key = abi::Be32(keys.payload);
  view.atomic_key = abi::Be32(keys.atomic);
  view.pe = static_cast<std::uint16_t>(pe);
  view.nic = keys_.number(*end.nic);
  view.rail = static_cast<std::uint8_t>(queue.rail);
  return view;
}

/// Returns how the doorbells of the batch are rung.
abi::Bell QueueSet::bell(const Nic::Limits& limits) const {
  const bool record = (limits.flags & abi::kNicReadsRecord) != 0;
  if (!limits.registers || agent_ || bells_need_order_)
    return record ? abi::Bell::kRecordWord : abi::Bell::kWord;
  return record ? abi::Bell::kRegister : abi::Bell::kRegisterAlone;
}

/// Allocates `count` cursors.
abi::QueueCursor* QueueSet::make_cursors(std::size_t count) {
  return static_cast<abi::QueueCursor*>(source_.device(count * sizeof(abi::QueueCursor)));
}

/// Publishes the queues of a context, `views.size() / n_pes` to each PE, for device code.
abi::NicView QueueSet::publish(const Batch& batch, const std::vector<abi::QueueView>& views,
                               abi::QueueCursor* cursors) {
  const std::size_t total = views.size(), per_pe = total / n_pes_;
  const std::size_t queues = dynamic_ ? per_pe : total;
  std::vector<abi::QueueView> indexed = views;
  for (std::size_t i = 0; i < total; ++i) {
    indexed[i].index = static_cast<std::uint32_t>(i % queues);
    indexed[i].cursor = &cursors[i % queues];
  }
  const Nic::Limits limits = rails_.limits();
  void* device_views = source_.device(total * sizeof(abi::QueueView));
  source_.upload(device_views, indexed.data(), total * sizeof(abi::QueueView));
  abi::NicView view;
  view.queues = static_cast<const abi::QueueView*>(device_views);
  view.cursors = cursors;
  view.used = static_cast<std::uint32_t*>(source_.device((queues + 31) / 32 * 4));
  view.first_use = batch.first_use;
  view.per_pe = static_cast<std::uint32_t>(per_pe);
  view.count = static_cast<std::uint32_t>(queues);
  view.vectors = vectors_;
  // Writes that PCIe may reorder precede writes after a fence only when they are in memory.
  const bool visible =
      rails_.count() > 1 || config_.ib_relaxed_ordering || config_.quiet == QuietChoice::kVisible;
  view.flags = limits.flags | flags_ | (visible ? abi::kNicFlush : 0u);
  view.max_message = limits.max_message;
  view.traits = abi::traits_of({.depth = depth_,
                                .batch = abi::batch_of(depth_),
                                .memory = memory_,
                                .bell = bell(limits),
                                .heap_end = std::bit_ceil(heap_.bytes),
                                .dynamic = dynamic_,
                                .on_gpu = heap_.kind == MemoryKind::kGpu});
  return view;
}

std::vector<abi::QueueView> QueueSet::views_of(const Batch& batch, std::size_t nth,
                                               std::size_t count) const {
  std::vector<abi::QueueView> views(n_pes_ * count);
  // All PEs have views of initiators: the first ones are those by which a quiet finds its queues.
  const bool all = dynamic_ && !peers_.empty();
  for (std::size_t at = 0; at < (all ? n_pes_ : peers_.size()); ++at) {
    const std::size_t pe = dynamic_ ? at : static_cast<std::size_t>(peers_[at]);
    const std::size_t first = dynamic_ ? 0 : at * batch.rails.size();
    for (std::size_t i = 0; i < count; ++i)
      views[pe * count + i] = view_of(batch, first + nth + i, static_cast<int>(pe));
  }
  return views;
}

/// Publishes a context's queues by two views.
ContextQueues QueueSet::publish_context(const Batch& batch, std::size_t nth, std::size_t count) {
  const std::vector<abi::QueueView> views = views_of(batch, nth, count);
  ContextQueues queues;
  abi::QueueCursor* cursors = make_cursors(dynamic_ ? count : views.size());
  queues.shared = publish(batch, views, cursors);
  queues.exclusive = queues.shared;
  queues.exclusive.traits |= abi::QueueTraits::kExclusive;
  queues.shared.rails = static_cast<std::uint32_t>(count);
  queues.shared.map = static_cast<abi::QueueMap>(count - 1);  // all callers use the last queue
  // quiet posts an entry if it has to flush. The thread that waits for all contexts may not be the
  // one that may post here.
  queues.exclusive.rails = 1;
  queues.exclusive.flags &= ~static_cast<std::uint32_t>(abi::kNicFlush);
  queues.exclusive.map = abi::QueueMap::kPe;
  abi::choose_way(queues.shared);
  abi::choose_way(queues.exclusive);
  return queues;
}

}  // namespace gshmem::nic
