#include "transport/ofi/message.h"

#include <cstring>

namespace gshmem::ofi {

MessageHeader MessageBuffer::header() const {
  MessageHeader header;
  std::memcpy(&header, memory, sizeof(header));
  return header;
}

void MessageBuffer::set_header(const MessageHeader& header) {
  std::memcpy(memory, &header, sizeof(header));
}

MessageBuffers::MessageBuffers(Fabric& fabric, MemoryAccess& heap, MessageBuffer::Role role,
                               const Shape& shape, CompletionSink& sink) {
  constexpr std::size_t kHeader =
      (sizeof(MessageHeader) + kPayloadAlignment - 1) / kPayloadAlignment * kPayloadAlignment;
  const std::size_t each = kHeader + shape.payload_bytes;  // a multiple, as payloads are
  const std::size_t bytes = shape.count * each + kPayloadAlignment;
  memory_ = heap.allocate(bytes);
  registered_ = fabric.register_memory({.base = memory_.get(), .bytes = bytes}, FI_SEND | FI_RECV);
  const std::size_t odd = reinterpret_cast<std::uintptr_t>(memory_.get()) % kPayloadAlignment;
  std::uint8_t* payload = memory_.get() + (kPayloadAlignment - odd) % kPayloadAlignment + kHeader;
  for (std::size_t i = 0; i < shape.count; ++i, payload += each) {
    MessageBuffer& buffer = buffers_.emplace_back();
    buffer.sink = &sink;
    buffer.role = role;
    buffer.memory = payload - sizeof(MessageHeader);
    free_.push_back(&buffer);
  }
}

MessageBuffer* MessageBuffers::acquire() {
  if (free_.empty()) return nullptr;
  MessageBuffer* buffer = free_.back();
  free_.pop_back();
  return buffer;
}

void MessageBuffers::release(MessageBuffer& buffer) {
  buffer.state = MessageBuffer::State::kFree;
  buffer.operation = nullptr;
  buffer.answers = nullptr;
  free_.push_back(&buffer);
}

}  // namespace gshmem::ofi
