#include "transport/ofi/message.h"

#include <algorithm>
#include <bit>
#include <cstring>

namespace gshmem::ofi {
namespace {

constexpr std::size_t kLine = 64;

}  // namespace

std::size_t MessageSizes::receives(std::size_t peers) const {
  return peers * window + std::min(peers * window, requests);
}

/// Each PE posts receives for the windows of all, so the windows are smaller in large jobs.
MessageSizes message_sizes(std::size_t peers, bool carries_data, std::size_t places,
                           std::size_t largest) {
  MessageSizes sizes;
  if (!carries_data) {
    // These messages are small. With such windows a network with round trips of 15 us transfers a
    // million per second from one PE to another.
    sizes.window = std::clamp<std::size_t>(std::min<std::size_t>(places / 2, 8192) / peers, 1, 64);
    sizes.requests = std::min<std::size_t>(2 * peers * sizes.window, 512);
    return sizes;
  }
  sizes.window = std::clamp<std::size_t>(256 / peers, 1, 16);
  sizes.requests = 32;
  // Above 128 KiB ofi_rxm sends from and to these buffers; below it copies through its own
  // (FI_OFI_RXM_SAR_LIMIT). Larger buffers also mean fewer copies for a copy engine. But receives
  // for all peers should take at most 16 MiB, unless that leaves too little for each.
  constexpr std::size_t kReceives = 16 << 20, kLeast = 64 << 10, kMost = 256 << 10;
  const std::size_t wanted =
      std::clamp(std::bit_floor(kReceives / (peers * sizes.window)), kLeast, kMost);
  const std::size_t fits = largest - sizeof(MessageHeader);
  sizes.payload = std::min(wanted, fits / kPayloadAlignment * kPayloadAlignment);
  return sizes;
}

void MessageBuffer::set_header(const MessageHeader& header) {
  std::memcpy(memory, &header, sizeof(header));
}

MessageBuffers::MessageBuffers(OfiRails& rails, MemoryAccess& heap, MessageBuffer::Role role,
                               const Shape& shape, CompletionSink& sink)
    : quota_(shape.count, shape.peers) {
  const std::size_t alignment = shape.payload_bytes > 0 ? kPayloadAlignment : kLine;
  const std::size_t header = (sizeof(MessageHeader) + alignment - 1) / alignment * alignment;
  // A multiple of the alignment, as payloads are.
  const std::size_t each = header + shape.payload_bytes;
  const std::size_t bytes = shape.count * each + alignment;
  memory_ = heap.allocate(bytes);
  registered_ = rails.register_memory({.base = memory_.get(), .bytes = bytes}, FI_SEND | FI_RECV);
  const std::size_t odd = reinterpret_cast<std::uintptr_t>(memory_.get()) % alignment;
  std::uint8_t* payload = memory_.get() + (alignment - odd) % alignment + header;
  for (std::size_t i = 0; i < shape.count; ++i, payload += each) {
    MessageBuffer& buffer = buffers_.emplace_back();
    buffer.sink = &sink;
    buffer.role = role;
    buffer.index = i;
    buffer.memory = payload - sizeof(MessageHeader);
    free_.push_back(&buffer);
  }
}

MessageBuffer* MessageBuffers::acquire(int pe) {
  if (!quota_.may_take(pe)) return nullptr;
  quota_.take(pe);
  MessageBuffer* buffer = free_.back();
  free_.pop_back();
  buffer->pe = pe;
  return buffer;
}

void MessageBuffers::release(MessageBuffer& buffer) {
  quota_.release(buffer.pe);
  buffer.state = MessageBuffer::State::kFree;
  buffer.operation = nullptr;
  buffer.answers = nullptr;
  free_.push_back(&buffer);
}

}  // namespace gshmem::ofi
