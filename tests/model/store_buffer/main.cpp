// Runs the queue protocol of the device library, the code itself, on memory that delays stores.
// Usage: store_buffer [SEEDS [FIRST]]: so many runs, from seed FIRST (default 1) on. A run follows
// entirely from its seed: the shape of the queues, the calls of threads, which thread runs next,
// which store moves.
#include "tests/model/store_buffer/producer.h"

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>

// The two entry points of libgshmem: which block and thread the caller is, and faults, which are
// recorded here.
gshmem::device::Ambient* gshmemi_ambient(void) {
  static gshmem::device::HostLane lane;
  static gshmem::device::Ambient ambient;
  gshmem::model::Model& run = gshmem::model::model();
  lane.thread_rank = static_cast<int>(run.threads.current() % run.lanes);
  lane.block_rank = static_cast<int>(run.threads.current() / run.lanes);
  lane.block_size = static_cast<int>(run.lanes);
  ambient.lane = &lane;
  return &ambient;
}
void gshmemi_host_fault(const gshmem::abi::DeviceState*) {
  gshmem::model::fail("a fault under GSHMEM_FAULT=abort");
}

namespace gshmem::model {
namespace {

struct Shape {
  std::size_t threads, lanes;
  std::uint32_t pes, per_pe, rails, depth, batch, flags, max_message, calls;
  std::uint64_t start;
  abi::QueueKind kind;
  abi::QueueMemory memory;
  abi::Bell bell;
  bool by_record, fails, scarce;
  bool crowded;  ///< many threads, one shallow queue
  bool mixed;    ///< every thread's queue is alternately used as a shared one, too
};
constexpr std::size_t kMostThreads = 6;

/// Chooses depth and batch: there must be room for at most batch - 1 entries without a doorbell, 4
/// of a reservation, and 3 of the longest WQE that the counter does not include
/// (tests/model/queue.pml).
Shape shape_of(Random random) {
  constexpr std::uint32_t kDepths[][2] = {{8, 1}, {8, 2}, {16, 4}, {16, 8}};
  constexpr std::uint64_t kStarts[] = {0, 0, 3, 0x8000, 0xfffd, 0xfffffffe};
  Shape shape{};
  shape.threads = 1 + random.below(4);
  shape.kind = random.below(4) == 0 ? abi::QueueKind::kExclusive : abi::QueueKind::kShared;
  shape.lanes = 1;
  const auto& depth = kDepths[random.below(4)];
  shape.depth = depth[0];
  shape.batch = depth[1];
  shape.calls = 4 + random.below(20);
  shape.pes = 1 + random.below(2);
  shape.per_pe = 1 + random.below(2);
  if (shape.kind == abi::QueueKind::kExclusive) {
    shape.per_pe = static_cast<std::uint32_t>(shape.threads);
    shape.mixed = random.below(2) == 0;
  } else if (random.below(4) == 0) {
    shape.crowded = true;
    shape.threads = kMostThreads;
    shape.depth = 8;
    shape.batch = 1 + random.below(2);
    shape.pes = shape.per_pe = 1;
    shape.calls = 60;
  } else if (random.below(6) == 0) {
    // A warp whose threads converge; they share a reservation only in queues of this depth.
    shape.threads = shape.lanes = 2 + random.below(3);
    shape.depth = random.below(2) ? 64 : 128;
    shape.batch = 16;
    shape.calls = 70;
  }
  // Exclusive queues would be shared: threads of other rails have their atomics there.
  const bool may_have_rails = shape.kind == abi::QueueKind::kShared && shape.per_pe == 2;
  shape.rails = may_have_rails && random.below(2) == 0 ? 2 : 1;
  shape.start = kStarts[random.below(6)];
  const bool flushes =
      shape.rails > 1 || (shape.kind == abi::QueueKind::kShared && random.below(4) == 0);
  shape.flags = random.below(4) | (flushes ? abi::kNicFlush : 0u);  // all NicFlags
  shape.max_message = random.below(2) ? 64 : 4096;
  shape.memory = random.below(4) == 0 ? abi::QueueMemory::kGpu : abi::QueueMemory::kHost;
  constexpr abi::Bell kBells[] = {abi::Bell::kWord, abi::Bell::kRecordWord, abi::Bell::kRegister,
                                  abi::Bell::kRegisterAlone};
  shape.bell = kBells[random.below(4)];
  shape.by_record = !is_register(shape.bell) && random.below(2) == 0;
  shape.scarce = random.below(2) == 0;
  shape.fails = random.below(8) == 0 && shape.start != 0;
  return shape;
}

std::string name_of(std::uint64_t seed, const Shape& shape) {
  char text[256];
  std::snprintf(text, sizeof(text),
                "seed %llu (store_buffer 1 %llu): %zu threads, warps of %zu, %s queues, depth %u, "
                "batch %u, start %llu, %u PEs, %u rails, flags %u, bell %u, %s memory%s%s%s%s%s",
                static_cast<unsigned long long>(seed), static_cast<unsigned long long>(seed),
                shape.threads, shape.lanes,
                shape.kind == abi::QueueKind::kExclusive ? "exclusive" : "shared", shape.depth,
                shape.batch, static_cast<unsigned long long>(shape.start), shape.pes, shape.rails,
                shape.flags, static_cast<unsigned>(shape.bell),
                shape.memory == abi::QueueMemory::kGpu ? "GPU" : "host",
                shape.by_record ? ", NIC reads records" : "", shape.scarce ? ", one slot" : "",
                shape.fails ? ", an entry fails" : "", shape.crowded ? ", crowded" : "",
                shape.mixed ? ", alternately shared" : "");
  return text;
}

/// The memory of a queue, in the layout of transport/nic/queue_set.cpp.
struct QueueMemory {
  std::vector<char> entries;
  alignas(64) std::uint64_t doorbell = 0;
  alignas(64) abi::CompletionEntry completion{};
  alignas(64) abi::DoorbellRecord record{};
};

class Run {
 public:
  Run(std::uint64_t seed, const Shape& shape, Heaps& heaps)
      : shape_(shape),
        heaps_(heaps),
        model_(seed, shape.threads, shape.lanes, name_of(seed, shape)) {
    make_heaps();
    make_queues();
    make_state();
  }

  void run() {
    const NicOptions options{shape_.memory == abi::QueueMemory::kGpu ? View::kGpu : View::kSystem,
                             shape_.bell,
                             shape_.by_record,
                             shape_.depth,
                             shape_.flags,
                             shape_.fails ? 1 + model_.random.below(12) : 0,
                             shape_.max_message,
                             shape_.rails};
    Job job{};
    Nic nic(options, heaps_, views_,
            [&job](int pe, std::uint64_t offset) { job.check_signal(pe, offset); });
    job.states = {&state_, shape_.mixed ? &shared_ : &state_};
    job.heaps = &heaps_;
    job.nic = &nic;
    job.shadows.resize(shape_.threads, std::vector<Shadow>(heaps_.remote.size()));
    job.announced.resize(shape_.threads, std::vector<std::uint64_t>(heaps_.remote.size()));
    job.calls = shape_.calls;
    job.small_only = shape_.lanes > 1;
    job.crowded = shape_.crowded;
    job.scarce = shape_.scarce;
    job.fails = shape_.fails;
    job.start = shape_.start;
    for (std::size_t i = 0; i < shape_.threads; ++i) {
      model_.threads.add([&job, i] { Producer(job, i).run(); });
    }
    model_.threads.add([&nic] { nic.run(); });
    model_.threads.run();
    if (nic.told_of_error()) check_fault();
  }

 private:
  void make_heaps() {
    auto& area = *reinterpret_cast<abi::InternalArea*>(heaps_.local);
    for (std::size_t i = 0; i < abi::kScratchSlots; ++i) {
      area.scratch[i].busy = shape_.scarce && i != 300 ? 1 : 0;
    }
    heaps_.remote.assign(1 + shape_.pes, std::vector<char>(shape_.threads * kPartBytes));
  }

  void make_queues() {
    const std::size_t count = (1 + shape_.pes) * shape_.per_pe;
    memory_.resize(count);
    cursors_.resize(count);
    views_.resize(count);
    const std::uint64_t start = shape_.start;
    const auto low = static_cast<std::uint16_t>(start);
    for (std::size_t i = 0; i < count; ++i) {
      memory_[i] = std::make_unique<QueueMemory>();
      QueueMemory& memory = *memory_[i];
      abi::QueueView& view = views_[i];
      memory.entries.resize(shape_.depth * std::uint64_t{abi::kWqebbBytes});
      abi::QueueCursor& cursor = cursors_[i];
      cursor.reserved = cursor.done = start;
      cursor.ready = start == 0 ? 0 : abi::PublishedWord::make(start, 1);
      memory.record.send = abi::Be32(low);
      view.number = 0x4a0001 + static_cast<std::uint32_t>(i) * 0x111;
      if (start > 0) memory.doorbell = abi::doorbell_value(low, view.number);
      memory.completion.wqe_counter = abi::Be16(static_cast<std::uint16_t>(low - 1));
      memory.completion.op_own = start == 0 ? 0xf1 : 0x00;
      view.entries = memory.entries.data();
      view.doorbell = &memory.doorbell;
      view.send_record = &memory.record.send;
      view.completion = reinterpret_cast<const abi::Be32*>(
          reinterpret_cast<const char*>(&memory.completion) + abi::kCompletionWordOffset);
      view.cursor = &cursor;
      view.local_key = abi::Be32(0x11223344);
      view.remote_key = abi::Be32(0x55660000 + static_cast<std::uint32_t>(i / shape_.per_pe));
      view.atomic_key = abi::Be32(0x77880000 + static_cast<std::uint32_t>(i / shape_.per_pe));
      view.pe = static_cast<std::uint16_t>(i / shape_.per_pe);
      view.index = static_cast<std::uint32_t>(i);
    }
  }

  [[nodiscard]] std::uint32_t traits(abi::QueueKind kind) const {
    return abi::traits_of({.depth = shape_.depth,
                           .batch = shape_.batch,
                           .memory = shape_.memory,
                           .kind = kind,
                           .bell = shape_.bell});
  }

  void make_state() {
    state_.magic = abi::kStateMagic;
    state_.my_pe = 0;
    state_.n_pes = 1 + static_cast<std::int32_t>(shape_.pes);
    state_.fault_policy = abi::FaultPolicy::kReport;
    state_.heap = heaps_.local;
    state_.heap_bytes = heaps_.bytes;
    state_.stride = static_cast<std::int64_t>(heaps_.bytes);
    state_.control = &control_;
    state_.nic.queues = views_.data();
    state_.nic.cursors = cursors_.data();
    state_.nic.traits = traits(shape_.kind);
    used_.assign((views_.size() + 31) / 32, shape_.start > 0 ? ~std::uint32_t{0} : 0);
    if (shape_.start > 0) used_.back() = (1u << views_.size() % 32) - 1;
    state_.nic.used = used_.data();
    state_.nic.per_pe = shape_.per_pe;
    state_.nic.count = static_cast<std::uint32_t>(views_.size());
    state_.nic.map = abi::QueueMap::kBlock;
    state_.nic.rails = shape_.rails;
    state_.nic.flags = shape_.flags;
    state_.nic.max_message = shape_.max_message;
    shared_ = state_;
    shared_.nic.traits = traits(abi::QueueKind::kShared);
    abi::choose_way(state_.nic);
    abi::choose_way(shared_.nic);
  }

  void check_fault() const {
    if (control_.fault.published != 1 || control_.fault.code != GSHMEMX_ERROR_NIC) {
      fail("an error completion that was not recorded");
    }
  }

  Shape shape_;
  Heaps& heaps_;
  Model model_;
  std::vector<std::unique_ptr<QueueMemory>> memory_;
  std::vector<abi::QueueCursor> cursors_;
  std::vector<abi::QueueView> views_;
  std::vector<std::uint32_t> used_;
  abi::Control control_{};
  device::State state_, shared_;
};

}  // namespace
}  // namespace gshmem::model

int main(int argc, char** argv) {
  using namespace gshmem::model;
  const std::uint64_t seeds = argc > 1 ? std::strtoull(argv[1], nullptr, 0) : 1000;
  const std::uint64_t first = argc > 2 ? std::strtoull(argv[2], nullptr, 0) : 1;
  Heaps heaps;
  heaps.bytes = gshmem::abi::kInternalBytes + kMostThreads * kPartBytes;
  const std::unique_ptr<void, decltype(&std::free)> memory(std::aligned_alloc(4096, heaps.bytes),
                                                           &std::free);
  heaps.local = static_cast<char*>(memory.get());
  std::memset(heaps.local, 0, heaps.bytes);
  std::uint64_t steps = 0;
  for (std::uint64_t seed = first; seed < first + seeds; ++seed) {
    Run run(seed, shape_of(Random(~seed)), heaps);
    run.run();
    steps += gshmem::model::steps();
  }
  std::printf("%llu runs from seed %llu on, %llu steps: good\n",
              static_cast<unsigned long long>(seeds), static_cast<unsigned long long>(first),
              static_cast<unsigned long long>(steps));
  return 0;
}
