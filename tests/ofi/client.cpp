#include "tests/ofi/client.h"
#include "tests/nic/atomic_segments.h"
#include "tests/patience.h"

#include <atomic>
#include <chrono>
#include <cstring>
#include <stdexcept>
#include <thread>

namespace gshmem::test {

using abi::Be16;
using abi::Be32;
using abi::Be64;

namespace {

/// Spinning here would take the core from the provider's threads.
void pause() { std::this_thread::sleep_for(std::chrono::microseconds(20)); }

}  // namespace

class Client::Builder {
 public:
  template <class T>
  Builder& add(const T& segment) {
    const std::size_t at = bytes_.size();
    bytes_.resize(at + sizeof(T));
    std::memcpy(bytes_.data() + at, &segment, sizeof(T));
    return *this;
  }
  Builder& add(const std::vector<std::uint8_t>& bytes) {
    bytes_.insert(bytes_.end(), bytes.begin(), bytes.end());
    return *this;
  }
  [[nodiscard]] const std::vector<std::uint8_t>& bytes() const { return bytes_; }

 private:
  std::vector<std::uint8_t> bytes_;
};

Client::Client(std::uint8_t* memory, const nic::QueuePlace& place, const nic::CreatedQueue& queue,
               std::uint32_t local, std::uint32_t remote)
    : local_key(local),
      remote_key(remote),
      entries_(memory + place.entries),
      completion_(memory + place.completion),
      doorbell_(queue.doorbell),
      depth_(place.depth),
      number_(queue.number) {
  std::memset(completion_, 0xff, 64);
}

Client::Builder Client::begin(abi::Opcode opcode, unsigned flags, std::uint8_t opmod) {
  abi::ControlSegment control;
  control.opmod_index_opcode =
      Be32(std::uint32_t{opmod} << 24 | static_cast<std::uint32_t>(opcode));
  if (flags & kSignalled) control.flags |= abi::kCqUpdate;
  if (flags & kFenced) control.flags |= abi::kFence;
  return Builder().add(control);
}

std::uint64_t Client::put(const Builder& builder) { return raw(builder.bytes()); }

std::uint64_t Client::raw(std::vector<std::uint8_t> wqe, bool patch) {
  wqe.resize((wqe.size() + 15) / 16 * 16);
  if (patch) {
    const Be16 index(static_cast<std::uint16_t>(next_));
    const Be32 word(number_ << 8 | static_cast<std::uint32_t>(wqe.size() / 16));
    std::memcpy(wqe.data() + 1, &index, sizeof(index));
    std::memcpy(wqe.data() + 4, &word, sizeof(word));
  }
  const std::uint64_t count = (wqe.size() + 63) / 64, first = next_;
  const auto limit =
      std::chrono::steady_clock::now() + std::chrono::seconds(30 * gshmem::test::kPatience);
  while (next_ + count - done_ > depth_) {
    const Outcome outcome = look();
    if (outcome.syndrome != 0) throw std::runtime_error("error while waiting for room");
    if (std::chrono::steady_clock::now() > limit) throw std::runtime_error("no room in 30 s");
    pause();
  }
  wqe.resize(count * 64);
  for (std::uint64_t i = 0; i < count; ++i)
    std::memcpy(entries_ + (next_ + i) % depth_ * 64, wqe.data() + i * 64, 64);
  next_ += count;
  return first;
}

std::uint64_t Client::gather(abi::Opcode opcode, std::uint64_t remote,
                             const std::vector<Piece>& pieces, unsigned flags) {
  Builder builder = begin(opcode, flags);
  builder.add(abi::RemoteSegment{Be64(remote), Be32(remote_key), 0});
  for (const Piece& piece : pieces)
    builder.add(abi::DataSegment{Be32(piece.bytes), Be32(local_key), Be64(piece.local)});
  return put(builder);
}

std::uint64_t Client::write(std::uint64_t remote, std::uint64_t local, std::uint32_t bytes,
                            unsigned flags) {
  return gather(abi::Opcode::kRdmaWrite, remote, {{local, bytes}}, flags);
}

std::uint64_t Client::read(std::uint64_t remote, std::uint64_t local, std::uint32_t bytes,
                           unsigned flags) {
  return gather(abi::Opcode::kRdmaRead, remote, {{local, bytes}}, flags);
}

std::uint64_t Client::write_inline(std::uint64_t remote, const std::vector<std::uint8_t>& payload,
                                   unsigned flags) {
  const auto bytes = static_cast<std::uint32_t>(payload.size());
  return put(begin(abi::Opcode::kRdmaWrite, flags)
                 .add(abi::RemoteSegment{Be64(remote), Be32(remote_key), 0})
                 .add(abi::InlineHeader{Be32(abi::kInlineMarker | bytes)})
                 .add(payload));
}

std::uint64_t Client::write_both(std::uint64_t remote, const std::array<std::uint8_t, 12>& payload,
                                 const Piece& piece) {
  return put(begin(abi::Opcode::kRdmaWrite, kSignalled)
                 .add(abi::RemoteSegment{Be64(remote), Be32(remote_key), 0})
                 .add(abi::InlineHeader{Be32(abi::kInlineMarker | 12u)})
                 .add(payload)
                 .add(abi::DataSegment{Be32(piece.bytes), Be32(local_key), Be64(piece.local)}));
}

std::uint64_t Client::nop(unsigned flags) { return put(begin(abi::Opcode::kNop, flags)); }

std::uint64_t Client::fetch_add(std::uint64_t remote, std::uint64_t local, std::uint64_t add,
                                unsigned flags) {
  return put(begin(abi::Opcode::kAtomicFetchAdd, flags)
                 .add(abi::RemoteSegment{Be64(remote), Be32(remote_key), 0})
                 .add(abi::AtomicSegment{Be64(add), Be64(std::uint64_t{0})})
                 .add(abi::DataSegment{Be32(8u), Be32(local_key), Be64(local)}));
}

std::uint64_t Client::compare_swap(std::uint64_t remote, std::uint64_t local, std::uint64_t compare,
                                   std::uint64_t swap, unsigned flags) {
  return put(begin(abi::Opcode::kAtomicCompareSwap, flags)
                 .add(abi::RemoteSegment{Be64(remote), Be32(remote_key), 0})
                 .add(abi::AtomicSegment{Be64(swap), Be64(compare)})
                 .add(abi::DataSegment{Be32(8u), Be32(local_key), Be64(local)}));
}

std::uint64_t Client::masked_swap(std::uint32_t bytes, std::uint64_t remote, std::uint64_t local,
                                  const Masks& m, unsigned flags) {
  const bool four = bytes == 4;
  Builder builder =
      begin(abi::Opcode::kMaskedCompareSwap, flags, four ? abi::kOpmodMasked4 : abi::kOpmodMasked8);
  builder.add(abi::RemoteSegment{Be64(remote), Be32(remote_key), 0});
  const auto low = [](std::uint64_t v) { return Be32(static_cast<std::uint32_t>(v)); };
  if (four)
    builder.add(abi::MaskedSwap4Segment{low(m.swap), low(m.compare), low(m.swap_mask),
                                        low(m.compare_mask)});
  else
    builder.add(abi::MaskedSwap8Segment{Be64(m.swap), Be64(m.compare), Be64(m.swap_mask),
                                        Be64(m.compare_mask)});
  return put(builder.add(abi::DataSegment{Be32(bytes), Be32(local_key), Be64(local)}));
}

std::uint64_t Client::masked_add(std::uint32_t bytes, std::uint64_t remote, std::uint64_t local,
                                 std::uint64_t add, std::uint64_t boundary, unsigned flags) {
  const bool four = bytes == 4;
  Builder builder =
      begin(abi::Opcode::kMaskedFetchAdd, flags, four ? abi::kOpmodMasked4 : abi::kOpmodMasked8);
  builder.add(abi::RemoteSegment{Be64(remote), Be32(remote_key), 0});
  if (four)
    builder.add(abi::MaskedAdd4Segment{Be32(static_cast<std::uint32_t>(add)),
                                       Be32(static_cast<std::uint32_t>(boundary)), 0});
  else
    builder.add(abi::MaskedAdd8Segment{Be64(add), Be64(boundary)});
  return put(builder.add(abi::DataSegment{Be32(bytes), Be32(local_key), Be64(local)}));
}

void Client::ring() {
  ring(abi::doorbell_value(static_cast<std::uint32_t>(next_ & 0xffff), number_));
}

void Client::ring(std::uint64_t value) {
  // Pairs with the acquire of WorkQueues::read_doorbells.
  std::atomic_ref<std::uint64_t>(*doorbell_).store(value, std::memory_order_release);
}

Outcome Client::look() {
  std::uint32_t raw =
      std::atomic_ref<std::uint32_t>(*reinterpret_cast<std::uint32_t*>(completion_ + 60))
          .load(std::memory_order_acquire);
  const std::uint32_t word = Be32{raw}.get() == 0 ? 0 : abi::swap_bytes(raw);
  const std::uint32_t opcode = word >> 4 & 0xf;
  Outcome outcome;
  outcome.index = static_cast<std::uint16_t>(word >> 16);
  outcome.timed_out = opcode == 15;
  if (opcode == 15) return outcome;
  if (opcode == 13) {
    outcome.vendor = completion_[54];
    outcome.syndrome = completion_[55];
    outcome.opcode = completion_[56];
    if (outcome.syndrome == 0) throw std::runtime_error("error completion without syndrome");
  }
  // The WQE of that index is complete. The base is read before the counter, as device code
  // reconstructs it.
  done_ += static_cast<std::uint16_t>(outcome.index + 1 - done_) <= depth_
               ? static_cast<std::uint16_t>(outcome.index + 1 - done_)
               : 0;
  return outcome;
}

Outcome Client::wait(std::uint64_t index, double seconds) {
  const auto limit = std::chrono::steady_clock::now() + std::chrono::duration<double>(seconds);
  for (;;) {
    Outcome outcome = look();
    if (outcome.syndrome != 0 || done_ > index) return outcome;
    if (std::chrono::steady_clock::now() > limit) {
      outcome.timed_out = true;
      return outcome;
    }
    pause();
  }
}

}  // namespace gshmem::test
