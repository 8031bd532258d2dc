// The order of what a peer's queue asks of this PE by messages, and by writes that bear immediates:
// messages take effect in the order of their numbers, whatever order they come in, and an atomic
// after the writes of its group. Used by ActiveMessages. Pure bookkeeping: what a message does is
// the caller's.
#pragma once

#include "transport/ofi/message.h"

#include <array>
#include <cstdint>
#include <memory>
#include <vector>

namespace gshmem::ofi {

class Inbound {
 public:
  /// One that has come. False: its number has been there before, or cannot be.
  [[nodiscard]] bool take(MessageBuffer& buffer);
  /// A write of that group has arrived.
  void arrived(std::uint32_t group);

  /// The message whose turn it is, when nothing keeps it waiting; else null. It is begun with this.
  [[nodiscard]] MessageBuffer* next();
  /// Puts back the last result of next(), which could not be begun: it is the next one again.
  void put_back(MessageBuffer& buffer);
  /// A message begun by next() is carried out.
  void ended(const MessageHeader& header);
  /// Nothing after this is carried out: what waits, in any order, and what still comes.
  void abandon() { abandoned_ = true; }
  [[nodiscard]] bool abandoned() const { return abandoned_; }

 private:
  static constexpr std::size_t kGroups = std::size_t{1} << (32 - kGroupShift);
  [[nodiscard]] bool may_begin(const MessageHeader& header) const;

  std::uint32_t next_ = 0;                                       ///< number
  std::vector<MessageBuffer*> waiting_;                          ///< in no order; few
  unsigned writes_ = 0, reads_ = 0, atomics_ = 0;                ///< begun, not ended
  std::unique_ptr<std::array<std::uint32_t, kGroups>> arrived_;  ///< by group
  bool abandoned_ = false;
};

}  // namespace gshmem::ofi
