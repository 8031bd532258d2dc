// Orders the requests that a peer's queue sends to this PE by messages, and by writes that carry
// immediates. Messages take effect in the order of their numbers, whatever order they arrive in. An
// atomic takes effect after the writes of its group. Used by ActiveMessages. This is pure
// bookkeeping: the caller executes the messages.
#pragma once

#include "transport/ofi/message.h"

#include <array>
#include <cstdint>
#include <memory>
#include <vector>

namespace gshmem::ofi {

class Reorder {
 public:
  /// Accepts a message that has arrived. Returns false if its number was received before, or is
  /// invalid.
  [[nodiscard]] bool take(MessageBuffer& buffer);
  /// Counts a write of that group that has arrived.
  void arrived(std::uint32_t group);

  /// Returns the next message in order if it may begin now, and begins it; otherwise null.
  [[nodiscard]] MessageBuffer* next();
  /// Takes back the last result of next(), which could not be executed yet: it will be the next one
  /// again.
  void put_back(MessageBuffer& buffer);
  /// A message begun by next() has been executed.
  void ended(const MessageHeader& header);
  /// After this no message is executed: neither the waiting ones, in whatever order, nor later
  /// ones.
  void abandon() { abandoned_ = true; }
  [[nodiscard]] bool abandoned() const { return abandoned_; }

 private:
  static constexpr std::size_t kGroups = std::size_t{1} << (32 - kGroupShift);
  [[nodiscard]] bool may_begin(const MessageHeader& header) const;

  std::uint32_t next_ = 0;                                       ///< number of the next message
  std::vector<MessageBuffer*> waiting_;                          ///< in no order; there are few
  unsigned writes_ = 0, reads_ = 0, atomics_ = 0;                ///< begun and not ended
  std::unique_ptr<std::array<std::uint32_t, kGroups>> arrived_;  ///< by group
  bool abandoned_ = false;
};

}  // namespace gshmem::ofi
