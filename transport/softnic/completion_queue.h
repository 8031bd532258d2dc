// A completion queue as the engine writes it. It is ordinary (entries in order, with an owner bit
// that toggles with each lap) or collapsed (all completions in entry 0). Guarded by the engine's
// lock.
#pragma once

#include "transport/nic/decode.h"
#include "transport/softnic/engine.h"

#include <cstdint>

namespace gshmem::soft {

class CompletionQueue {
 public:
  CompletionQueue(std::uint32_t number, const CqAttributes& attributes)
      : number_(number), attributes_(attributes) {}

  /// Writes `completion`, and sets its owner bit. Returns false if the queue is full and overrun is
  /// not ignored: then nothing is written now or later.
  [[nodiscard]] bool write(nic::Completion completion);
  /// Reads from the record whether the client wants an event. `named`: a doorbell has named this
  /// queue. Otherwise the doorbell of another queue may have replaced this one's, and only a new
  /// request counts.
  void arm(bool named);
  /// Is that event due? It is reported once.
  [[nodiscard]] bool take_event();
  /// Stops the queue: nothing is written from now on.
  void break_off() { overrun_ = true; }
  [[nodiscard]] bool broken() const { return overrun_; }
  /// Have `count` entries been written? Only 24 bits of the number are compared.
  [[nodiscard]] bool has_had(std::uint32_t count) const {
    return ((static_cast<std::uint32_t>(produced_) - count) & 0xffffff) < 0x800000;
  }
  [[nodiscard]] bool collapsed() const { return attributes_.collapsed; }
  [[nodiscard]] std::uint32_t number() const { return number_; }
  [[nodiscard]] std::uint32_t uar() const { return attributes_.uar; }

  int users = 0;  ///< queue pairs that complete here, counted per direction

 private:
  [[nodiscard]] bool full() const;

  std::uint32_t number_;
  CqAttributes attributes_;
  std::uint64_t produced_ = 0;
  std::uint64_t solicited_ = 0;  ///< number of entries up to the last solicited one
  /// Number of entries up to the last event. A client that arms the queue before it polls gets no
  /// second event for them (cqc.last_notified_index).
  std::uint64_t notified_ = 0;
  std::uint32_t wish_ = 0;  ///< the record's last one
  bool armed_ = false;
  bool overrun_ = false;
};

}  // namespace gshmem::soft
