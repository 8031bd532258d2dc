#include "transport/ofi/message.h"

#include <cstring>

namespace gshmem::ofi {
namespace {

constexpr std::size_t kLine = 64;

}  // namespace

void MessageBuffer::set_header(const MessageHeader& header) {
  std::memcpy(memory, &header, sizeof(header));
}

MessageBuffers::MessageBuffers(Lanes& lanes, MemoryAccess& heap, MessageBuffer::Role role,
                               const Shape& shape, CompletionSink& sink)
    : shares_(shape.count, shape.peers) {
  const std::size_t alignment = shape.payload_bytes > 0 ? kPayloadAlignment : kLine;
  const std::size_t header = (sizeof(MessageHeader) + alignment - 1) / alignment * alignment;
  const std::size_t each = header + shape.payload_bytes;  // a multiple, as payloads are
  const std::size_t bytes = shape.count * each + alignment;
  memory_ = heap.allocate(bytes);
  registered_ = lanes.register_memory({.base = memory_.get(), .bytes = bytes}, FI_SEND | FI_RECV);
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
  if (!shares_.may_take(pe)) return nullptr;
  shares_.take(pe);
  MessageBuffer* buffer = free_.back();
  free_.pop_back();
  buffer->pe = pe;
  return buffer;
}

void MessageBuffers::release(MessageBuffer& buffer) {
  shares_.give_back(buffer.pe);
  buffer.state = MessageBuffer::State::kFree;
  buffer.operation = nullptr;
  buffer.answers = nullptr;
  free_.push_back(&buffer);
}

}  // namespace gshmem::ofi
