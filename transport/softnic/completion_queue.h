// A completion queue as the engine writes it: ordinary (entries in turn, owner bit toggling with
// each lap) or collapsed (all in entry 0). Guarded by the engine's lock.
#pragma once

#include "transport/nic/decode.h"
#include "transport/softnic/engine.h"

#include <cstdint>

namespace gshmem::soft {

class CompletionQueue {
 public:
  CompletionQueue(std::uint32_t number, const CqAttributes& attributes)
      : number_(number), attributes_(attributes) {}

  /// Writes `completion` (whose owner bit is set here). False: the queue is full and overrun is not
  /// ignored; nothing was written, and nothing will be from now on.
  [[nodiscard]] bool write(nic::Completion completion);
  /// Takes the client's wish for an event from the record. `named`: its doorbell has named this
  /// queue; else another queue's may have replaced it, and only a new wish counts.
  void arm(bool named);
  /// Whether that event is due: it is told once.
  [[nodiscard]] bool take_event();
  /// Nothing will be written from now on.
  void break_off() { overrun_ = true; }
  [[nodiscard]] bool broken() const { return overrun_; }
  /// Whether it has had `count` entries, of which 24 bits count.
  [[nodiscard]] bool has_had(std::uint32_t count) const {
    return ((static_cast<std::uint32_t>(produced_) - count) & 0xffffff) < 0x800000;
  }
  [[nodiscard]] bool collapsed() const { return attributes_.collapsed; }
  [[nodiscard]] std::uint32_t number() const { return number_; }
  [[nodiscard]] std::uint32_t uar() const { return attributes_.uar; }

  int users = 0;  ///< queue pairs that complete here, twice when for both directions

 private:
  [[nodiscard]] bool full() const;

  std::uint32_t number_;
  CqAttributes attributes_;
  std::uint64_t produced_ = 0;
  std::uint64_t solicited_ = 0;  ///< entries up to the last one that a solicited event is for
  /// Entries up to the last event: a client that arms before it polls gets none for them again
  /// (cqc.last_notified_index).
  std::uint64_t notified_ = 0;
  std::uint32_t wish_ = 0;  ///< the record's last one
  bool armed_ = false;
  bool overrun_ = false;
};

}  // namespace gshmem::soft
