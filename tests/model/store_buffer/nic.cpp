#include "tests/model/store_buffer/nic.h"

#include <algorithm>
#include <cstring>
#include <utility>

namespace gshmem::model {
namespace {

constexpr std::uint8_t kPoison = 0xee;
constexpr std::uint8_t kRemoteAccess = 0x13, kFlushed = 0x05;  // MLX5_CQE_SYNDROME_*

std::uint32_t be32(const std::uint8_t* p) {
  return std::uint32_t{p[0]} << 24 | std::uint32_t{p[1]} << 16 | std::uint32_t{p[2]} << 8 | p[3];
}

/// Returns the position that 16 bits mean, at or after `from`.
std::uint64_t extend(std::uint64_t from, std::uint32_t low) {
  return from + ((low - static_cast<std::uint32_t>(from)) & 0xffff);
}

/// Returns the number of entries that are announced and not consumed.
std::uint64_t ahead(std::uint64_t told, std::uint64_t consumed) {
  return told > consumed ? told - consumed : 0;
}

unsigned long long number(std::uint64_t v) { return v; }

}  // namespace

Nic::Nic(NicOptions options, Heaps& heaps, const std::vector<abi::QueueView>& queues,
         std::function<void(int, std::uint64_t)> on_atomic)
    : options_(options), heaps_(heaps), queues_(queues), on_atomic_(std::move(on_atomic)) {
  for (const abi::QueueView& queue : queues) {
    const std::uint64_t start = queue.cursor->reserved;
    sides_.push_back({start, start, start});
    std::memset(queue.entries, kPoison, options_.depth * nic::kEntryBytes);
  }
}

void Nic::run() {
  Model& run = model();
  while (!idle()) {
    const std::size_t at = run.random.below(queues_.size());
    look(at);
    if (sides_[at].pending && run.random.below(4) == 0) tell(at);
    if (run.random.below(4) == 0) arrive(at);
    pause();
  }
  check_consumed();
}

/// Returns true if nothing will change any more.
bool Nic::idle() {
  const Model& run = model();
  for (std::size_t i = 0; i < run.producers; ++i) {
    if (!run.threads.ended(i)) return false;
  }
  const auto done = [](const Side& side) {
    return !side.pending && (side.failed || side.consumed == side.rung);
  };
  if (!run.memory.settled()) return false;
  for (std::size_t i = 0; i < queues_.size(); ++i) look(i);  // at what came last
  return trailing_.empty() && std::all_of(sides_.begin(), sides_.end(), done);
}

void Nic::check_consumed() const {
  for (std::size_t i = 0; i < queues_.size(); ++i) {
    const abi::QueueCursor& cursor = *queues_[i].cursor;
    const std::uint64_t published = abi::PublishedWord::end(cursor.ready);
    if (sides_[i].failed || (told_ && published != cursor.reserved)) continue;
    if (published != cursor.reserved || sides_[i].consumed != cursor.reserved) {
      fail("queue %zu: entries left without a doorbell: reserved %llu, ready %llu, consumed %llu",
           i, number(cursor.reserved), number(published), number(sides_[i].consumed));
    }
    if (options_.bell == abi::Bell::kRegisterAlone) continue;
    // Records of a register's queue are not ordered: the last one may be that of an older doorbell.
    const std::uint32_t record =
        be32(reinterpret_cast<const std::uint8_t*>(queues_[i].send_record));
    const auto names_it = [record](std::uint64_t value) {
      return nic::decode_doorbell(value).producer == record;
    };
    const auto rung = model().rung.find(queues_[i].doorbell);
    const bool was_rung = rung != model().rung.end() &&
                          std::any_of(rung->second.begin(), rung->second.end(), names_it);
    const bool is_newest = record == static_cast<std::uint16_t>(sides_[i].rung);
    if (!is_newest && !(options_.bell == abi::Bell::kRegister && was_rung)) {
      fail("queue %zu: doorbell %llu, but its record says %u", i, number(sides_[i].rung), record);
    }
  }
}

void Nic::look_at_record(std::size_t at) {
  Side& side = sides_[at];
  const abi::QueueView& queue = queues_[at];
  std::uint8_t record[4];
  step();
  model().memory.nic_load(options_.view, queue.send_record, record, sizeof(record));
  const std::uint64_t recorded = extend(side.recorded, be32(record));
  if (be32(record) > 0xffff || ahead(recorded, side.consumed) > options_.depth) {
    fail("queue %zu: doorbell record 0x%x went backwards from %llu, or beyond the depth", at,
         be32(record), number(side.recorded));
  }
  side.recorded = recorded;
  if (options_.bell == abi::Bell::kRecordWord && recorded < side.rung) {
    fail("queue %zu: doorbell %llu seen before its record, which says %llu", at, number(side.rung),
         number(recorded));
  }
}

/// Reads the doorbell, then the record: the record is stored first.
void Nic::look(std::size_t at) {
  Side& side = sides_[at];
  const abi::QueueView& queue = queues_[at];
  std::uint64_t value = 0;
  step();
  model().memory.nic_load(View::kSystem, queue.doorbell, &value, sizeof(value));
  if (value != 0) {
    const nic::Doorbell doorbell = nic::decode_doorbell(value);
    if (doorbell.number != queue.number) {
      fail("queue %zu: doorbell of queue pair 0x%x, not 0x%x", at, doorbell.number, queue.number);
    }
    const std::uint64_t rung = extend(side.rung, doorbell.producer);
    if (ahead(rung, side.consumed) > options_.depth) {
      fail("queue %zu: doorbell %u went backwards from %llu, or beyond its depth", at,
           doorbell.producer, number(side.rung));
    }
    side.rung = rung;
  }
  if (!is_register(options_.bell)) look_at_record(at);
  if (side.failed) {
    side.pending = side.pending || side.consumed < side.rung;  // flushed
    if (side.consumed < side.rung) {
      side.completion.syndrome = kFlushed;
      side.consumed = side.rung;
    }
    return;
  }
  const std::uint64_t limit = options_.by_record ? std::max(side.recorded, side.rung) : side.rung;
  if (side.consumed < limit && model().random.below(2) == 0) consume(at, limit);
}

void Nic::consume(std::size_t at, std::uint64_t limit) {
  Side& side = sides_[at];
  const abi::QueueView& queue = queues_[at];
  const nic::Wqe wqe = fetch(at, limit);
  if (++executed_ == options_.fails_after) {
    side.failed = true;
    side.bad = side.consumed;
    complete(at, wqe, kRemoteAccess);
    return;
  }
  execute(at, wqe);
  // From here on a writer may have these entries; before it has written, they contain junk.
  std::uint8_t junk[nic::kEntryBytes];
  std::memset(junk, kPoison, sizeof(junk));
  for (std::uint32_t i = 0; i < wqe.entries(); ++i) {
    const std::uint64_t entry = (side.consumed + i) & (options_.depth - 1);
    model().memory.nic_store(queue.entries + entry * nic::kEntryBytes, junk, sizeof(junk));
  }
  side.consumed += wqe.entries();
  if (wqe.signalled) complete(at, wqe, 0);
}

/// Reads the WQE at `consumed`: its first unit, then the others in any order.
nic::Wqe Nic::fetch(std::size_t at, std::uint64_t limit) {
  const abi::QueueView& queue = queues_[at];
  const std::uint64_t first = sides_[at].consumed;
  std::uint8_t bytes[nic::kMaxWqeBytes];
  const auto unit = [&](std::uint64_t u) {
    step();
    const std::uint64_t place = (first * 4 + u) & (options_.depth * 4 - 1);
    model().memory.nic_load(options_.view, queue.entries + place * 16, bytes + u * 16, 16);
  };
  unit(0);
  const std::size_t length = std::max<std::size_t>(nic::wqe_bytes(bytes), 16);
  std::vector<std::uint64_t> order;
  for (std::uint64_t u = 1; u < length / 16; ++u) {
    order.insert(order.begin() + model().random.below(order.size() + 1), u);
  }
  for (const std::uint64_t u : order) unit(u);
  for (std::uint64_t u = 0; u < length / 16; ++u) {
    if (std::all_of(bytes + u * 16, bytes + u * 16 + 16, [](auto b) { return b == kPoison; })) {
      fail("queue %zu: entry %llu was not written when the NIC was told of %llu: unit %llu", at,
           number(first), number(limit), number(u));
    }
  }
  const nic::DecodeResult result = nic::decode_wqe(bytes, length);
  const nic::Wqe& wqe = result.wqe;
  if (wqe.index != (first & 0xffff) || wqe.number != queue.number) {
    fail("queue %zu: entry %llu has index %u of queue pair 0x%x when the NIC was told of %llu", at,
         number(first), wqe.index, wqe.number, number(limit));
  }
  if (const std::string why = result.reason + result.remark; !why.empty()) {
    fail("queue %zu: entry %llu is malformed: %s\n%s", at, number(first), why.c_str(),
         nic::dump_wqe(bytes, length).c_str());
  }
  if (wqe.entries() > limit - first) {
    fail("queue %zu: entry %llu is %u long, the doorbell says %llu", at, number(first),
         wqe.entries(), number(limit));
  }
  return wqe;
}

void Nic::execute(std::size_t at, const nic::Wqe& wqe) {
  if (wqe.local.size() > 0 && wqe.length > options_.max_message) {
    fail("a message of %llu bytes, more than %u", number(wqe.length), options_.max_message);
  }
  switch (wqe.kind) {
    case nic::WqeKind::kNop:
      return;
    case nic::WqeKind::kWrite:
      return write(queues_[at], wqe);
    case nic::WqeKind::kRead:
      return read(at, wqe);
    case nic::WqeKind::kDump:
      if (wqe.fence == 0) fail("a DUMP that does not wait for the READ in front of it");
      local(queues_[at], wqe.local.front());
      while (std::any_of(trailing_.begin(), trailing_.end(),
                         [at](auto& data) { return data.queue == at; })) {
        arrive(at);
      }
      return;
    default:
      return atomic(at, wqe);
  }
}

char* Nic::remote(const abi::QueueView& queue, const nic::Wqe& wqe) {
  std::vector<char>& heap = heaps_.remote[static_cast<std::size_t>(queue.pe)];
  const abi::Be32 key = wqe.is_atomic() ? queue.atomic_key : queue.remote_key;
  if (wqe.remote_key != key.get()) fail("remote key 0x%x", wqe.remote_key);
  const std::uint64_t offset = wqe.remote_address - abi::kInternalBytes;
  if (offset > heap.size() || wqe.length > heap.size() - offset) {
    fail("remote address 0x%llx + %llu is outside of the heap", number(wqe.remote_address),
         number(wqe.length));
  }
  return heap.data() + offset;
}

char* Nic::local(const abi::QueueView& queue, const nic::LocalPiece& piece) {
  if (piece.key != queue.local_key.get()) fail("local key 0x%x", piece.key);
  if (piece.address > heaps_.bytes || piece.bytes > heaps_.bytes - piece.address) {
    fail("local address 0x%llx + %u is outside of the heap", number(piece.address), piece.bytes);
  }
  // The memory that does not belong to the program: one slot, or memory that is not read.
  constexpr std::uint64_t kSlots = offsetof(abi::InternalArea, scratch);
  if (piece.address >= kSlots && piece.address < offsetof(abi::InternalArea, staging)) {
    const std::uint64_t at = (piece.address - kSlots) % sizeof(abi::ScratchSlot);
    if (at < offsetof(abi::ScratchSlot, data) || at + piece.bytes > sizeof(abi::ScratchSlot)) {
      fail("local address 0x%llx + %u is outside of a scratch slot", number(piece.address),
           piece.bytes);
    }
  }
  return heaps_.local + piece.address;
}

void Nic::write(const abi::QueueView& queue, const nic::Wqe& wqe) {
  char* to = remote(queue, wqe);
  if (wqe.local.empty()) {
    std::memcpy(to, wqe.inline_payload.data(), wqe.inline_payload.size());
    return;
  }
  for (const nic::LocalPiece& piece : wqe.local) {
    const char* from = local(queue, piece);
    for (std::uint32_t i = 0; i < piece.bytes; i += 16) {
      step();
      model().memory.nic_load(options_.view, from + i, to + i,
                              std::min<std::size_t>(16, piece.bytes - i));
    }
    to += piece.bytes;
  }
}

/// Includes the part of the library's own area that a flush reads.
const char* Nic::read_from(const abi::QueueView& queue, const nic::Wqe& wqe) {
  static const std::uint64_t sink = 0;
  constexpr std::uint64_t kSink = offsetof(abi::InternalArea, sink);
  if (wqe.remote_address != kSink || wqe.length > sizeof(sink)) return remote(queue, wqe);
  if (wqe.remote_key != queue.atomic_key.get()) fail("key 0x%x of a flush", wqe.remote_key);
  return reinterpret_cast<const char*>(&sink);
}

void Nic::read(std::size_t at, const nic::Wqe& wqe) {
  const char* from = read_from(queues_[at], wqe);
  sides_[at].flushed = sides_[at].consumed + wqe.entries();
  for (const nic::LocalPiece& piece : wqe.local) {
    char* to = local(queues_[at], piece);
    bring({at, to, {from, from + piece.bytes}});
    from += piece.bytes;
  }
}

void Nic::bring(Trailing data) {
  trailing_.push_back(std::move(data));
  if (options_.flags & abi::kNicReadNeedsDump) return;
  while (!trailing_.empty()) arrive(trailing_.front().queue);
}

/// Delivers the oldest pending data that the queue has requested.
void Nic::arrive(std::size_t queue) {
  const auto data = std::find_if(trailing_.begin(), trailing_.end(),
                                 [queue](auto& some) { return some.queue == queue; });
  if (data == trailing_.end()) return;
  const Trailing gone = std::move(*data);
  trailing_.erase(data);
  for (std::size_t i = 0; i < gone.data.size(); i += 16) {
    step();
    model().memory.nic_store(gone.to + i, gone.data.data() + i,
                             std::min<std::size_t>(16, gone.data.size() - i));
  }
}

void Nic::atomic(std::size_t at, const nic::Wqe& wqe) {
  const abi::QueueView& queue = queues_[at];
  char* word = remote(queue, wqe);
  if (wqe.remote_address % wqe.length != 0) {
    fail("atomic on 0x%llx, which is not aligned", number(wqe.remote_address));
  }
  if (queue.index % options_.rails != 0) {
    fail("atomic by queue %u, which does not go by the first rail", queue.index);
  }
  on_atomic_(queue.pe, wqe.remote_address);
  std::uint64_t old = 0;
  std::memcpy(&old, word, wqe.length);
  const std::uint64_t made = nic::atomic_result(wqe, old);
  std::memcpy(word, &made, wqe.length);
  char* result = local(queue, wqe.local.front());
  std::uint8_t bytes[8];
  const bool big = wqe.length == 4 || (options_.flags & abi::kNicFetchedBig);
  for (std::uint64_t i = 0; i < wqe.length; ++i) {
    const std::uint64_t shift = 8 * (big ? wqe.length - 1 - i : i);
    bytes[i] = static_cast<std::uint8_t>(old >> shift);
  }
  bring({at, result, {bytes, bytes + wqe.length}});
}

void Nic::complete(std::size_t at, const nic::Wqe& wqe, std::uint8_t syndrome) {
  Side& side = sides_[at];
  side.completion = {.error = syndrome != 0,
                     .syndrome = syndrome,
                     .wqe_opcode = wqe.opcode,
                     .number = wqe.number,
                     .wqe_index = wqe.index,
                     .bytes = static_cast<std::uint32_t>(wqe.length)};
  side.pending = true;
}

/// Shows the newest completion in the CQ: its last word, which readers poll, comes last.
void Nic::tell(std::size_t at) {
  Side& side = sides_[at];
  const auto bytes = nic::encode_completion(side.completion);
  const bool error = side.completion.error;
  side.pending = false;
  auto* last = reinterpret_cast<char*>(const_cast<abi::Be32*>(queues_[at].completion));
  model().memory.nic_store(last - 60, bytes.data(), 60);
  step();
  model().memory.nic_store(last, bytes.data() + 60, 4);
  side.told = side.told || error;
  told_ = told_ || error;
}

}  // namespace gshmem::model
