// A ring of packets with one writing and one reading process, in shared memory. All-zero memory is
// an empty ring, so no process has to initialize it. Invariant: a record (packet and payload) is
// contiguous, and `head` covers whole records only.
#pragma once

#include "transport/softnic/packet.h"

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <new>

namespace gshmem::soft {

class Ring {
 public:
  static constexpr std::uint64_t kDataBytes = 256 * 1024;
  static constexpr std::uint64_t kBytes = kDataBytes + 4096;

  explicit Ring(void* memory)
      : control_(static_cast<Control*>(memory)), data_(static_cast<std::uint8_t*>(memory) + 4096) {
    head_ = control_->head.load(std::memory_order_acquire);  // pairs with commit()
    tail_ = control_->tail.load(std::memory_order_acquire);  // pairs with pop()
  }

  // Writer.
  /// Returns space for a packet followed by `payload` bytes, or null. commit() publishes it.
  [[nodiscard]] Packet* reserve(std::uint32_t payload) {
    const std::uint64_t need = record_bytes(payload);
    std::uint64_t at = head_ % kDataBytes;
    const std::uint64_t to_end = kDataBytes - at;
    const std::uint64_t skip = to_end < need ? to_end : 0;
    if (head_ + skip + need - tail_ > kDataBytes) {
      tail_ = control_->tail.load(std::memory_order_acquire);  // pairs with pop()
      if (head_ + skip + need - tail_ > kDataBytes) return nullptr;
    }
    if (skip >= sizeof(Packet)) *new (data_ + at) Packet = {};
    if (skip != 0) at = 0;
    pending_ = head_ + skip + need;
    auto* packet = new (data_ + at) Packet;
    packet->payload_bytes = payload;
    return packet;
  }
  void commit() {
    head_ = pending_;
    control_->head.store(head_, std::memory_order_release);  // pairs with front()
  }
  /// Do `count` packets without payload fit?
  [[nodiscard]] bool has_room(std::uint64_t count) {
    const std::uint64_t need = (count + 1) * sizeof(Packet);  // one may be skipped
    if (head_ + need - tail_ <= kDataBytes) return true;
    tail_ = control_->tail.load(std::memory_order_acquire);
    return head_ + need - tail_ <= kDataBytes;
  }

  // Reader.
  [[nodiscard]] const Packet* front() {
    if (const Packet* packet = seen()) return packet;
    look();
    return seen();
  }
  /// Reads the head: seen() then returns the packets that are written by now.
  void look() { head_ = control_->head.load(std::memory_order_acquire); }  // pairs with commit()
  /// Returns the first packet of those that were there at the last look().
  [[nodiscard]] const Packet* seen() {
    for (;;) {
      if (tail_ == head_) return nullptr;
      const std::uint64_t at = tail_ % kDataBytes, to_end = kDataBytes - at;
      const auto* packet = reinterpret_cast<const Packet*>(data_ + at);
      if (to_end >= sizeof(Packet) && packet->kind != PacketKind::kSkip) return packet;
      tail_ += to_end;
    }
  }
  void pop(const Packet& packet) {
    tail_ += record_bytes(packet.payload_bytes);
    control_->tail.store(tail_, std::memory_order_release);
  }

  static std::uint8_t* payload(Packet* packet) {
    return reinterpret_cast<std::uint8_t*>(packet + 1);
  }
  static const std::uint8_t* payload(const Packet* packet) {
    return reinterpret_cast<const std::uint8_t*>(packet + 1);
  }

 private:
  struct Control {
    alignas(64) std::atomic<std::uint64_t> head;  ///< bytes ever written
    alignas(64) std::atomic<std::uint64_t> tail;  ///< bytes ever read
  };
  static_assert(std::atomic<std::uint64_t>::is_always_lock_free);

  static std::uint64_t record_bytes(std::uint32_t payload) {
    return sizeof(Packet) + (std::uint64_t{payload} + 63) / 64 * 64;
  }

  Control* control_;
  std::uint8_t* data_;
  /// The last values that this side has read; its own one is exact.
  std::uint64_t head_ = 0, tail_ = 0;
  std::uint64_t pending_ = 0;
};

}  // namespace gshmem::soft
