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
                               std::size_t count, CompletionSink& sink)
    : memory_(heap.allocate(count * kMessageBytes)) {
  registered_ = fabric.register_memory({.base = memory_.get(), .bytes = count * kMessageBytes},
                                       FI_SEND | FI_RECV);
  for (std::size_t i = 0; i < count; ++i) {
    MessageBuffer& buffer = buffers_.emplace_back();
    buffer.sink = &sink;
    buffer.role = role;
    buffer.memory = memory_.get() + i * kMessageBytes;
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
