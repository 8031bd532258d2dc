#include "perftest/common/ack_rig.h"

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <new>

namespace perftest {
namespace {

namespace abi = gshmem::abi;

constexpr std::size_t kLine = 128, kPage = 4096;
constexpr std::uint32_t kFirstNumber = 0x100;
/// Keys with different values, so that a wrong key is detected.
constexpr std::uint32_t kLocalKey = 0x1a2b3c, kRemoteKey = 0x4d5e6f, kAtomicKey = 0x2c3d4e,
                        kNoKey = 0x708192;
constexpr unsigned kMostConsumers = 8;

MemorySide ack_side(const RigShape& shape) {
  return shape.acks == Acks::kGpu ? MemorySide::kGpu : MemorySide::kHost;
}

template <class T>
T part_of(const unsigned char* entry, std::size_t offset) {
  T value;
  std::memcpy(&value, entry + offset, sizeof(value));
  return value;
}

std::string in_queue(unsigned queue, const char* what, std::uint64_t is, std::uint64_t wanted) {
  return "queue " + std::to_string(queue) + ": " + what + " is " + std::to_string(is) +
         " instead of " + std::to_string(wanted);
}

}  // namespace

Memory AckRig::allocate(MemorySide side, std::size_t bytes) const {
  const std::size_t whole = (bytes + kPage - 1) / kPage * kPage;
  if (on_gpu_) return gpu_memory(side, whole);
  void* made = std::aligned_alloc(kPage, whole);
  if (!made) throw std::bad_alloc();
  std::memset(made, 0, whole);
  return {static_cast<std::byte*>(made), [](std::byte* p) { std::free(p); }};
}

void AckRig::copy(void* to, const void* from, std::size_t bytes) const {
  if (on_gpu_) {
    copy_gpu_bytes(to, from, bytes);
  } else {
    std::memcpy(to, from, bytes);
  }
}

AckRig::AckRig(const abi::DeviceState& pe, bool on_gpu, const RigShape& shape)
    : shape_(shape),
      on_gpu_(on_gpu),
      state_(pe),
      entries_(allocate(shape.memory, std::size_t{shape.queues} * kDepth * abi::kWqebbBytes)),
      records_(allocate(shape.memory, shape.queues * kLine)),
      doorbells_(allocate(ack_side(shape), shape.queues * kLine)),
      completions_(allocate(ack_side(shape), shape.queues * kLine)),
      watches_(allocate(ack_side(shape), shape.queues * sizeof(AckWatch))),
      views_(nullptr, nullptr),
      cursors_(nullptr, nullptr),
      used_(nullptr, nullptr),
      part_(nullptr, nullptr),
      stop_(allocate(MemorySide::kHost, sizeof(std::uint32_t))),
      ack_stream_(gpu_stream(on_gpu && shape.acks == Acks::kGpu)) {
  make_views();
  if (shape.grown) make_part();
  if (shape.acks == Acks::kGpu) return;
  const unsigned cores = std::max(1u, std::thread::hardware_concurrency());
  const unsigned count = std::min({shape.queues, kMostConsumers, std::max(1u, cores / 4)});
  for (unsigned nth = 0; nth < count; ++nth) {
    consumers_.emplace_back([this, nth, count] { consume(nth, count); });
  }
}

AckRig::~AckRig() {
  std::atomic_ref(*reinterpret_cast<std::uint32_t*>(stop_.get())).store(1);
  for (std::thread& consumer : consumers_) consumer.join();
}

AckKernel AckRig::ack_kernel() const {
  return {watches(), reinterpret_cast<const std::uint32_t*>(stop_.get()), state_.timeout_ns};
}

void AckRig::make_views() {
  const auto me = static_cast<std::size_t>(state_.my_pe);
  const std::size_t total = (me + 1) * shape_.queues;  // queues to other PEs are never used
  std::vector<abi::QueueView> views(total);
  cursors_ = allocate(MemorySide::kGpu, total * sizeof(abi::QueueCursor));
  auto* cursors = reinterpret_cast<abi::QueueCursor*>(cursors_.get());
  constexpr std::uint8_t kNone =
      static_cast<std::uint8_t>(abi::CompletionOpcode::kInvalid) << 4 | 1;
  for (unsigned i = 0; i < shape_.queues; ++i) {
    auto* completion = reinterpret_cast<abi::CompletionEntry*>(completions_.get() + i * kLine);
    copy(&completion->op_own, &kNone, sizeof(kNone));
    abi::QueueView& view = views[me * shape_.queues + i];
    view.entries =
        reinterpret_cast<char*>(entries_.get()) + std::size_t{i} * kDepth * abi::kWqebbBytes;
    view.doorbell = reinterpret_cast<std::uint64_t*>(doorbells_.get() + i * kLine);
    view.send_record = reinterpret_cast<abi::Be32*>(records_.get() + i * kLine +
                                                    offsetof(abi::DoorbellRecord, send));
    view.completion = reinterpret_cast<const abi::Be32*>(reinterpret_cast<const char*>(completion) +
                                                         abi::kCompletionWordOffset);
    view.cursor = cursors + me * shape_.queues + i;
    view.number = kFirstNumber + i;
    view.local_key = abi::Be32(shape_.grown ? kNoKey : kLocalKey);
    view.remote_key = abi::Be32(shape_.grown ? kNoKey : kRemoteKey);
    view.atomic_key = abi::Be32(shape_.grown ? kNoKey : kAtomicKey);
    view.pe = static_cast<std::uint16_t>(state_.my_pe);
    view.index = static_cast<std::uint32_t>(me * shape_.queues + i);
    const AckWatch watch{view.doorbell,
                         reinterpret_cast<std::uint32_t*>(completion) +
                             abi::kCompletionWordOffset / sizeof(std::uint32_t),
                         view.number};
    copy(watches() + i, &watch, sizeof(watch));
  }
  views_ = allocate(MemorySide::kGpu, total * sizeof(abi::QueueView));
  copy(views_.get(), views.data(), total * sizeof(abi::QueueView));
  used_ = allocate(MemorySide::kGpu, (total + 31) / 32 * sizeof(std::uint32_t));

  state_.mapped_count = 0;
  state_.slots = nullptr;
  state_.nic = {};
  state_.nic.queues = reinterpret_cast<const abi::QueueView*>(views_.get());
  state_.nic.used = reinterpret_cast<std::uint32_t*>(used_.get());
  state_.nic.cursors = cursors;
  state_.nic.per_pe = shape_.queues;
  state_.nic.count = static_cast<std::uint32_t>(total);
  state_.nic.map = abi::QueueMap::kBlock;
  state_.nic.max_message = 1u << 30;
  state_.nic.traits = abi::traits_of(
      {.depth = kDepth,
       .batch = abi::batch_of(kDepth),
       .memory =
           shape_.memory == MemorySide::kGpu ? abi::QueueMemory::kGpu : abi::QueueMemory::kHost,
       .kind = shape_.exclusive ? abi::QueueKind::kExclusive : abi::QueueKind::kShared,
       .bell = shape_.bell,
       .heap_end = shape_.grown ? abi::kInternalBytes : std::uint64_t{1} << 63,
       .on_gpu = on_gpu_});
  abi::choose_way(state_.nic);
}

/// Makes a table of ranges (abi::DeviceState::registered) in which one range has all addresses, and
/// ends the first part of the heap before what programs allocate.
void AckRig::make_part() {
  constexpr std::size_t kWord = sizeof(std::uint64_t);
  const auto end = static_cast<std::uint64_t>(state_.stride), granules = end / abi::kGranuleBytes;
  const auto pes = static_cast<std::size_t>(state_.n_pes);
  static_assert(sizeof(abi::RegisteredRange) == kWord && sizeof(abi::RemoteKeys) == kWord);
  const std::size_t words = granules + 1 + pes + 1;
  part_ = allocate(MemorySide::kGpu, words * kWord);
  auto* const table = reinterpret_cast<std::uint64_t*>(part_.get());
  std::vector<std::uint64_t> values(words, reinterpret_cast<std::uintptr_t>(table + granules));
  values[granules] = end;
  const abi::RemoteKeys remote{abi::Be32(kRemoteKey), abi::Be32(kNoKey)};
  for (std::size_t pe = 0; pe < pes; ++pe)
    std::memcpy(&values[granules + 1 + pe], &remote, sizeof(remote));
  const abi::Be32 local(kLocalKey);
  std::memcpy(&values[granules + 1 + pes], &local, sizeof(local));
  copy(table, values.data(), words * kWord);
  state_.heap_bytes = abi::kInternalBytes;
  state_.registered = reinterpret_cast<const abi::RegisteredRange* const*>(table);
  state_.host_registered = on_gpu_ ? nullptr : state_.registered;
  state_.key_rails = 1;
}

/// Completes the entries that the doorbells of every `of`th queue cover.
void AckRig::consume(unsigned nth, unsigned of) {
  constexpr unsigned kIdleRounds = 4096;  // afterwards the core is yielded: tests have few
  unsigned idle = 0;
  const std::atomic_ref stop(*reinterpret_cast<std::uint32_t*>(stop_.get()));
  while (stop.load(std::memory_order_relaxed) == 0) {
    bool moved = false;
    for (unsigned i = nth; i < shape_.queues; i += of) moved |= watches()[i].acknowledge();
    idle = moved ? 0 : idle + 1;
    if (idle > kIdleRounds) std::this_thread::yield();
  }
}

std::string AckRig::check(const RigWork& work, bool corrupt) const {
  for (unsigned queue = 0; queue < shape_.queues; ++queue) {
    if (std::string problem = check_queue(queue, work, corrupt); !problem.empty()) return problem;
  }
  return "";
}

std::string AckRig::check_queue(unsigned queue, const RigWork& work, bool corrupt) const {
  const std::uint64_t wanted = (work.last - work.first) * work.threads * (1 + work.signal_entries);
  abi::QueueCursor cursor;
  const auto* cursors = reinterpret_cast<const abi::QueueCursor*>(cursors_.get());
  const std::size_t mine = static_cast<std::size_t>(state_.my_pe) * shape_.queues + queue;
  copy(&cursor, cursors + mine, sizeof(cursor));
  if (cursor.reserved != wanted) return in_queue(queue, "reserved", cursor.reserved, wanted);
  const std::uint64_t published = abi::PublishedWord::end(cursor.ready);
  if (published != wanted) return in_queue(queue, "published", published, wanted);
  AckWatch watch;
  // A kernel stores its acknowledgements a moment later.
  for (int look = 0; look < 1000; ++look) {
    copy(&watch, watches() + queue, sizeof(watch));
    if (watch.acknowledged == wanted) break;
  }
  if (watch.foreign) return "queue " + std::to_string(queue) + ": a doorbell named another queue";
  if (watch.acknowledged != wanted) {
    return in_queue(queue, "acknowledged", watch.acknowledged, wanted);
  }
  abi::DoorbellRecord record;
  copy(&record, records_.get() + queue * kLine, sizeof(record));
  if (record.send.get() != (wanted & 0xffff)) {
    return in_queue(queue, "the doorbell record", record.send.get(), wanted & 0xffff);
  }
  std::vector<unsigned char> entries(std::size_t{kDepth} * abi::kWqebbBytes);
  copy(entries.data(), entries_.get() + queue * entries.size(), entries.size());
  if (corrupt) entries[abi::kSegmentBytes + 7] ^= 0x08;  // corrupts the first remote address
  for (std::uint64_t i = wanted - std::min<std::uint64_t>(wanted, kDepth); i < wanted; ++i) {
    const unsigned char* entry = entries.data() + i % kDepth * abi::kWqebbBytes;
    const bool is_put = i % (1 + work.signal_entries) == 0;
    std::string problem =
        is_put ? check_entry(entry, i, queue, work) : check_signal(entry, i, queue, work);
    if (!problem.empty()) return problem;
  }
  return "";
}

/// Checks entry `index`, counted from the queue's beginning: a WRITE of 8 bytes.
std::string AckRig::check_entry(const unsigned char* entry, std::uint64_t index, unsigned queue,
                                const RigWork& work) const {
  const auto control = part_of<abi::ControlSegment>(entry, 0);
  const auto remote = part_of<abi::RemoteSegment>(entry, abi::kSegmentBytes);
  const auto data = part_of<abi::DataSegment>(entry, 2 * abi::kSegmentBytes);
  const auto wrong = [&](const char* what, std::uint64_t is, std::uint64_t wanted) {
    return "entry " + std::to_string(index) + " of " + in_queue(queue, what, is, wanted);
  };
  const std::uint32_t opcode = static_cast<std::uint32_t>(abi::Opcode::kRdmaWrite);
  const std::uint32_t head = (static_cast<std::uint32_t>(index) & 0xffff) << 8 | opcode;
  if (control.opmod_index_opcode.get() != head) {
    return wrong("word 0", control.opmod_index_opcode.get(), head);
  }
  const std::uint32_t number_ds = (kFirstNumber + queue) << 8 | 3;
  if (control.number_ds.get() != number_ds) {
    return wrong("word 1", control.number_ds.get(), number_ds);
  }
  if (remote.key.get() != kRemoteKey) return wrong("the remote key", remote.key.get(), kRemoteKey);
  const std::uint32_t length = data.bytes.get(), wanted = work.carried ? abi::kInlineMarker | 8 : 8;
  if (length != wanted) return wrong("the length", length, wanted);
  std::uint64_t element = (remote.address.get() - work.dest) / 8;
  if (work.in_order) {
    const std::uint64_t call = index / (1 + work.signal_entries);
    element = (call % work.threads + work.first + call / work.threads) % work.elements;
  } else if (element >= work.elements) {
    return wrong("the element", element, work.elements - 1);
  }
  if (remote.address.get() != work.dest + 8 * element) {
    return wrong("the remote address", remote.address.get(), work.dest + 8 * element);
  }
  if (work.carried) {
    const auto value =
        part_of<std::uint64_t>(entry, 2 * abi::kSegmentBytes + sizeof(abi::InlineHeader));
    if (value != source_value(element)) return wrong("the payload", value, source_value(element));
    return "";
  }
  if (data.key.get() != kLocalKey) return wrong("the local key", data.key.get(), kLocalKey);
  if (data.address.get() != work.source + 8 * element) {
    return wrong("the local address", data.address.get(), work.source + 8 * element);
  }
  return "";
}

/// Checks entry `index`: the first or the second one of the update of a signal. The second one has
/// only the address of the old value, which the first one has if it adds.
std::string AckRig::check_signal(const unsigned char* entry, std::uint64_t index, unsigned queue,
                                 const RigWork& work) const {
  const auto wrong = [&](const char* what, std::uint64_t is, std::uint64_t wanted) {
    return "entry " + std::to_string(index) + " of " + in_queue(queue, what, is, wanted);
  };
  const bool sets = work.signal_entries == 2, is_first = index % (1 + work.signal_entries) == 1;
  if (is_first) {
    const auto control = part_of<abi::ControlSegment>(entry, 0);
    const auto remote = part_of<abi::RemoteSegment>(entry, abi::kSegmentBytes);
    const abi::Opcode opcode =
        sets ? abi::Opcode::kMaskedCompareSwap : abi::Opcode::kAtomicFetchAdd;
    const std::uint32_t head = (sets ? std::uint32_t{abi::kOpmodMasked8} : 0) << 24 |
                               (static_cast<std::uint32_t>(index) & 0xffff) << 8 |
                               static_cast<std::uint32_t>(opcode);
    if (control.opmod_index_opcode.get() != head) {
      return wrong("word 0", control.opmod_index_opcode.get(), head);
    }
    const std::uint32_t number_ds = (kFirstNumber + queue) << 8 | (sets ? 5 : 4);
    if (control.number_ds.get() != number_ds) {
      return wrong("word 1", control.number_ds.get(), number_ds);
    }
    if (remote.key.get() != kAtomicKey) {
      return wrong("the signal's key", remote.key.get(), kAtomicKey);
    }
    if (remote.address.get() != work.signal) {
      return wrong("the signal's address", remote.address.get(), work.signal);
    }
    const std::uint64_t operand = part_of<abi::Be64>(entry, 2 * abi::kSegmentBytes).get();
    if (operand != 1) return wrong("the signal's operand", operand, 1);
    if (sets) return "";
  }
  const auto data = part_of<abi::DataSegment>(entry, is_first ? 3 * abi::kSegmentBytes : 0);
  if (data.bytes.get() != 8) return wrong("the length of the old value", data.bytes.get(), 8);
  if (data.key.get() != kLocalKey) return wrong("the local key", data.key.get(), kLocalKey);
  return "";
}

}  // namespace perftest
