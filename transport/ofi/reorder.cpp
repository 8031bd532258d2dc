#include "transport/ofi/reorder.h"

#include <algorithm>

namespace gshmem::ofi {

bool Reorder::take(MessageBuffer& buffer) {
  const std::uint32_t number = buffer.header().number;
  const auto same = [&](const MessageBuffer* waits) { return waits->header().number == number; };
  // Numbers wrap around: a number that is half of the range ahead is an old one.
  constexpr std::uint32_t kHalf = 1u << 31;
  if (number - next_ >= kHalf) return false;
  if (std::ranges::any_of(waiting_, same)) return false;
  waiting_.push_back(&buffer);
  return true;
}

void Reorder::arrived(std::uint32_t group) {
  if (!arrived_) arrived_ = std::make_unique<std::array<std::uint32_t, kGroups>>();
  ++(*arrived_)[group % kGroups];
}

/// Implements the rule of InfiniBand (work_queue.cpp, may_begin): reads may overlap each other and
/// later writes, and writes may overlap each other. An atomic waits for all earlier requests.
bool Reorder::may_begin(const MessageHeader& header) const {
  switch (header.kind) {
    case MessageKind::kWrite:
      return atomics_ == 0;
    case MessageKind::kRead:
      return writes_ + atomics_ == 0;
    default:
      if (writes_ + reads_ > 0) return false;
      return header.pieces == 0 ||
             (arrived_ && (*arrived_)[header.group % kGroups] >= header.pieces);
  }
}

MessageBuffer* Reorder::next() {
  const auto turn = [&](const MessageBuffer* waits) { return waits->header().number == next_; };
  const auto found = abandoned_ ? waiting_.begin() : std::ranges::find_if(waiting_, turn);
  if (found == waiting_.end()) return nullptr;
  MessageBuffer* const buffer = *found;
  const MessageHeader& header = buffer->header();
  if (!abandoned_ && !may_begin(header)) return nullptr;
  waiting_.erase(found);
  if (abandoned_) return buffer;
  ++next_;
  if (header.kind == MessageKind::kWrite) ++writes_;
  if (header.kind == MessageKind::kRead) ++reads_;
  if (header.kind == MessageKind::kAtomic) {
    ++atomics_;
    if (header.pieces > 0) (*arrived_)[header.group % kGroups] -= header.pieces;
  }
  return buffer;
}

void Reorder::put_back(MessageBuffer& buffer) {
  const MessageHeader& header = buffer.header();
  waiting_.push_back(&buffer);
  if (abandoned_) return;
  --next_;
  ended(header);
  if (header.kind == MessageKind::kAtomic && header.pieces > 0)
    (*arrived_)[header.group % kGroups] += header.pieces;
}

void Reorder::ended(const MessageHeader& header) {
  if (header.kind == MessageKind::kWrite) --writes_;
  if (header.kind == MessageKind::kRead) --reads_;
  if (header.kind == MessageKind::kAtomic) --atomics_;
}

}  // namespace gshmem::ofi
